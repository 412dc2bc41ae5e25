// mistake: a policy is missing
// expect: sublayer `hidden`: single_layer_perceptron needs the policy `activation`, as in activation(nn::tanh{})
import lamina;
using namespace lamina;
constexpr auto net = sequential(sublayer<"hidden">(nn::single_layer_perceptron{4, 3}), nn::softmax{});
#ifdef BAD
model<net, input<"N", 4>, policies<sub<"hidden">(use_bias(false))>> m;
#else
model<net, input<"N", 4>, policies<sub<"hidden">(activation(nn::tanh{}))>> m;
#endif
