// mistake: policies for a sublayer that a layer by hand does not have
// expect: the policies name sublayer `x`, which does not exist; the sublayers are: `0`, `1`
import lamina;
using namespace lamina;
constexpr auto net = sequential(nn::relu{}, nn::linear{4, 3});
#ifdef BAD
train_layer<constant_layer<net>, inputs<port<"input", matrix<float>>>, policies<sub<"x">(trainable(false))>> layer(
    "net");
#else
train_layer<constant_layer<net>, inputs<port<"input", matrix<float>>>, policies<sub<"1">(trainable(false))>> layer(
    "net");
#endif
