// expect: add: port `rhs` is float32[?x?] and is given float64[?x?]
import lamina;
using namespace lamina;
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = matrix<double>(1, 1)));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = matrix<float>(1, 1)));
#endif
