// expect: policy `initialize` speaks of parameter `gain`, which no layer of `body.fc` has; there are `weight`, `bias`
import lamina;
using namespace lamina;

constexpr auto net = sequential(sublayer<"norm">(nn::layer_norm{.normalized_shape = {4}}),
                                sublayer<"body">(sequential(nn::relu{}, sublayer<"fc">(nn::linear{4, 3}))));
#ifdef BAD
using said = policies<sub<"body">(sub<"fc">(initialize<"gain">(initializer::constant(1))))>;
#else
using said =
    policies<initialize<"weight">(initializer::constant(0)), sub<"body">(initialize<"bias">(initializer::constant(1)))>;
#endif
train_layer<constant_layer<net>, inputs<port<"input", matrix<float>>>, said> layer("net");
