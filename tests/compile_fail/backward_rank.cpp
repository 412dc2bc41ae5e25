// expect: add: port `output` is float32[?x?] and is given float32[?]
import lamina;
using namespace lamina;
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#ifdef BAD
auto dx = layer.backward(dict("output"_key = vector<float>(1)));
#else
auto dx = layer.backward(dict("output"_key = matrix<float>(1, 1)));
#endif
