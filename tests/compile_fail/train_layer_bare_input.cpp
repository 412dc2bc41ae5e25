// expect: a train_layer takes its inputs as inputs<port<name, type>, ...>, not as `lamina::input<dim{3}, dim{4}>`
import lamina;
using namespace lamina;
#ifdef BAD
train_layer<nn::relu, input<3, 4>> layer("relu");
#else
train_layer<nn::relu, inputs<port<"input", tensor<float, extents<3, 4>>>>> layer("relu");
#endif
