// expect: the model has 2 inputs but 1 is given; its inputs are `a`, `b`
import lamina;

using namespace lamina;
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#ifdef BAD
static_assert(no_error<shape_check<net, input<2, 3>>>);
#else
static_assert(no_error<shape_check<net, input<2, 3>, input<3, 4>>>);
#endif
