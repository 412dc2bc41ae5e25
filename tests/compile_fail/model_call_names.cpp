// expect: dimension `T` of the inputs of the model is given both 128 and 64
import lamina;
using namespace lamina;

inline constexpr auto net = topology(sublayer<"sum">(nn::add{}), connect<"a", "sum.lhs">, connect<"b", "sum.rhs">,
                                     connect<"sum.output", "output">);

void use(model<net, input<"T", 4>, input<"T", 4>>& m) {
#ifdef BAD
  auto y = m(matrix<float, 128, 4>(), matrix<float, 64, 4>());
#else
  auto y = m(matrix<float, 128, 4>(), matrix<float, dyn, 4>(128));
#endif
}
