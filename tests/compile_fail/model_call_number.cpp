// expect: input 0 is `int`; a tensor is expected
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::relu{});

auto use(model<net, input<"N", 4>>& m, const matrix<float, 3, 4>& x) {
#ifdef BAD
  return m(3);
#else
  return m(x);
#endif
}
