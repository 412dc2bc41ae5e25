// expect: gradcheck: a layer takes one operand for each of its input ports
import lamina;
using namespace lamina;

void use(const matrix<double>& x) {
#ifdef BAD
  gradcheck(nn::linear{.in_features = 3, .out_features = 2}, x, x);
#else
  gradcheck(nn::linear{.in_features = 3, .out_features = 2}, x);
#endif
}
