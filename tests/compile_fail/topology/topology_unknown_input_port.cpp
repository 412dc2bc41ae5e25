// mistake: a port is misspelt
// expect: connection `a` -> `dot.left`: sublayer `dot` (dot) has no input port `left`; its input ports are: `lhs`, `rhs`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.left">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
using trained = model<net, input<2, 3>, input<3, 4>>;
