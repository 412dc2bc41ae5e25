// expect: tanh: takes 1 operand, and is given 2
import lamina;
using namespace lamina;

auto use(const matrix<float>& x) {
#ifdef BAD
  return apply<op::tanh>({}, x, x);
#else
  return apply<op::tanh>({}, x);
#endif
}
