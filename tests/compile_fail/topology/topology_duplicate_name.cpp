// mistake: two sublayers have one name
// expect: two sublayers are named `act`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = topology(sublayer<"act">(nn::relu{}), sublayer<"act">(nn::tanh{}), connect<"input", "act.input">,
                              connect<"act.output", "output">);
#else
constexpr auto net = topology(sublayer<"act">(nn::relu{}), sublayer<"last">(nn::tanh{}), connect<"input", "act.input">,
                              connect<"act.output", "last.input">, connect<"last.output", "output">);
#endif
using trained = model<net, input<"N", 4>>;
