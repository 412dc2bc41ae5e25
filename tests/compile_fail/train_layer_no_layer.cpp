// expect: `lamina::ir::value` is given as a layer, which has no member `forward`
import lamina;
using namespace lamina;

using one_port = inputs<port<"input", matrix<float, 3, 4>>>;
#ifdef BAD
train_layer<ir::value, one_port> layer("layer");
#else
train_layer<nn::relu, one_port> layer("layer");
#endif
