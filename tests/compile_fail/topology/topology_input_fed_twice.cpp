// mistake: two connections lead to one port
// expect: connection `b` -> `dot.lhs`: input port `dot.lhs` is fed twice, the first time by `a`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.lhs">,
                              connect<"dot.output", "output">);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
using trained = model<net, input<2, 3>, input<3, 4>>;
