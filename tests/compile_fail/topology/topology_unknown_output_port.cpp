// mistake: a port has another name
// expect: connection `dot.out` -> `output`: sublayer `dot` (dot) has no output port `out`; its output ports are: `output`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.out", "output">);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
using trained = model<net, input<2, 3>, input<3, 4>>;
