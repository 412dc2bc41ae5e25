// expect: input `a` is given twice
import lamina;

using namespace lamina;
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#ifdef BAD
static_assert(no_error<shape_check<net, port_input<"a", float, 2, 3>, port_input<"a", float, 3, 4>>>);
#else
static_assert(no_error<shape_check<net, port_input<"a", float, 2, 3>, port_input<"b", float, 3, 4>>>);
#endif
