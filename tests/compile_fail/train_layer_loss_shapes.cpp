// expect: nll_loss: weights and probabilities must have one shape: [2x4] [2x3]
import lamina;
using namespace lamina;
#ifdef BAD
train_layer<nn::nll_loss, inputs<port<"input", matrix<float, 2, 3>>, port<"weights", matrix<float, 2, 4>>>> layer(
    "loss");
#else
train_layer<nn::nll_loss, inputs<port<"input", matrix<float, 2, 3>>, port<"weights", matrix<float, 2, 3>>>> layer(
    "loss");
#endif
