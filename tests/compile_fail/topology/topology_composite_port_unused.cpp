// mistake: an output of a composite leads nowhere
// expect: output port `body.raw` is not used; connect it or `discard` it
import lamina;

using namespace lamina;
constexpr auto body =
    topology(sublayer<"fc">(nn::linear{.in_features = 4, .out_features = 3}), sublayer<"act">(nn::tanh{}),
             connect<"input", "fc.input">, connect<"fc.output", "act.input">, connect<"act.output", "output">,
             connect<"fc.output", "raw">);
#ifdef BAD
constexpr auto net = topology(sublayer<"body">(body), connect<"input", "body.input">, connect<"body.output", "output">);
#else
constexpr auto net = topology(sublayer<"body">(body), connect<"input", "body.input">, connect<"body.output", "output">,
                              discard<"body.raw">);
#endif
using trained = model<net, input<"N", 4>>;
