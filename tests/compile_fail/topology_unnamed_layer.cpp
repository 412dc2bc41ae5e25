// expect: argument 2 of topology(...) is `lamina::nn::relu`, a layer without a name; write it as a sublayer with its name
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"act">(nn::relu{}), nn::relu{});
#else
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), connect<"a", "dot.lhs">, connect<"b", "dot.rhs">,
                              connect<"dot.output", "output">);
#endif
