// mistake: a port is forgotten
// expect: input port `dot.rhs` is not fed
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"dot.output", "output">);
using trained = model<net, input<2, 3>>;
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
using trained = model<net, input<2, 3>, input<3, 4>>;
#endif
