// expect: the model has 1 input and is given 2
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m, const matrix<float, dyn, 4>& x) {
#ifdef BAD
  auto y = m(x, x);
#else
  auto y = m(x);
#endif
}
