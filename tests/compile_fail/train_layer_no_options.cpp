// expect: linear needs positive `in_features` and `out_features` but has 0 and 0
import lamina;
using namespace lamina;
constexpr nn::linear projection{4, 3};
#ifdef BAD
train_layer<nn::linear, inputs<port<"input", matrix<float>>>> layer("fc");
#else
train_layer<constant_layer<projection>, inputs<port<"input", matrix<float>>>> layer("fc");
#endif
