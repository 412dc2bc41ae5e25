// expect: a train_layer takes its inputs as inputs<port<name, type>, ...>, not as `lamina::input<
import lamina;
using namespace lamina;
#ifdef BAD
train_layer<nn::relu, input<"N", 4>> layer("relu");
#else
train_layer<nn::relu, inputs<port<"input", tensor<float, extents<"N", 4>>>>> layer("relu");
#endif
