// mistake: an output leads nowhere
// expect: output port `act.output` is not used; connect it or `discard` it
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"dot">(nn::dot{}), sublayer<"act">(nn::relu{}), connect<"a", "act.input">,
                              connect<"a", "dot.lhs">, connect<"b", "dot.rhs">, connect<"dot.output", "output">);
#else
constexpr auto net =
    topology(sublayer<"dot">(nn::dot{}), sublayer<"act">(nn::relu{}), connect<"a", "act.input">, discard<"act.output">,
             connect<"a", "dot.lhs">, connect<"b", "dot.rhs">, connect<"dot.output", "output">);
#endif
using trained = model<net, input<2, 3>, input<3, 4>>;
