// expect: add has no output port `result`; its output port is `output`
import lamina;
using namespace lamina;
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#ifdef BAD
auto dx = layer.backward(dict("result"_key = matrix<float>(1, 1)));
#else
auto dx = layer.backward(dict("output"_key = matrix<float>(1, 1)));
#endif
