// mistake: connections run in a circle
// expect: cycle: sum -> first -> second -> sum
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net =
    topology(sublayer<"sum">(nn::add{}), sublayer<"first">(nn::relu{}), sublayer<"second">(nn::tanh{}),
             connect<"input", "sum.lhs">, connect<"second.output", "sum.rhs">, connect<"sum.output", "first.input">,
             connect<"first.output", "second.input">, connect<"second.output", "output">);
#else
constexpr auto net =
    topology(sublayer<"sum">(nn::add{}), sublayer<"first">(nn::relu{}), sublayer<"second">(nn::tanh{}),
             connect<"input", "sum.lhs">, connect<"input", "sum.rhs">, connect<"sum.output", "first.input">,
             connect<"first.output", "second.input">, connect<"second.output", "output">);
#endif
using trained = model<net, input<"N", 4>>;
