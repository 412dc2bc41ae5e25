// expect: the policies speak of sublayer `fc.x`, which does not exist; `fc` has no sublayers
import lamina;
using namespace lamina;

constexpr auto net = sequential(nn::relu{}, sublayer<"fc">(nn::linear{4, 3}));
#ifdef BAD
using said = policies<sub<"fc">(sub<"x">(trainable(false)))>;
#else
using said = policies<sub<"fc">(trainable(false))>;
#endif
train_layer<constant_layer<net>, inputs<port<"input", matrix<float>>>, said> layer("net");
// One set may serve several layers, also those without sublayers or parameters.
train_layer<nn::tanh, inputs<port<"input", matrix<float>>>,
            policies<sub<"fc">(trainable(false)), initialize<"weight">(initializer::constant(1))>>
    act("act");
