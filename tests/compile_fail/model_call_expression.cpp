// expect: input 0 is an expression, which is not computed yet: evaluate it first, as in net(evaluate(x))
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

auto use(model<net, input<"N", 4>>& m, const matrix<float, 3, 4>& x) {
#ifdef BAD
  return m(x * 2);
#else
  return m(evaluate(x * 2));
#endif
}
