// expect: topology(...) needs at least one sublayer
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(connect<"input", "output">);
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
