// mistake: a sublayer is misspelt
// expect: connection `a` -> `dto.lhs`: there is no sublayer `dto`; the sublayers are: `dot`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dto.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
using trained = model<net, input<2, 3>, input<3, 4>>;
