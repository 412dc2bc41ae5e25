// expect: training: the model must have one output
import lamina;
using namespace lamina;

#ifdef BAD
constexpr auto net = topology(sublayer<"a">(nn::linear{4, 3}), sublayer<"b">(nn::linear{4, 2}), connect<"x", "a.input">,
                              connect<"x", "b.input">, connect<"a.output", "y">, connect<"b.output", "z">);
#else
constexpr auto net = topology(sublayer<"a">(nn::linear{4, 3}), connect<"x", "a.input">, connect<"a.output", "y">);
#endif
void use(model<net, input<"N", 4>>& m) { training step(m, loss::mse{}, optim::sgd{}); }
