// expect: input 0 of the model is float32[Nx4] and is given float64[?x4]
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m) {
#ifdef BAD
  auto y = m(matrix<double, dyn, 4>(3));
#else
  auto y = m(matrix<float, dyn, 4>(3));
#endif
}
