// expect: argument 2 of topology(...) is `int`, which is no layer: a layer is a class with a member `forward`; topology(...) takes sublayers and connections
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"act">(nn::relu{}), 3);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
