// expect: sublayer `act` (relu) is in no connection
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), sublayer<"act">(nn::relu{}), connect<"a", "dot.lhs">,
                              connect<"b", "dot.rhs">, connect<"dot.output", "output">);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
static_assert(ValidTopology<net>);
