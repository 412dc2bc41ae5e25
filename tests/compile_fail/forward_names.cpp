// expect: add: dimension `T` of the ports is given both 128 and 64
import lamina;
using namespace lamina;
train_layer<nn::add, inputs<port<"lhs", matrix<float, "T", 4>>, port<"rhs", matrix<float, "T", 4>>>> layer("add");
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float, 128, 4>(), "rhs"_key = matrix<float, 64, 4>()));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float, 128, 4>(), "rhs"_key = matrix<float, 128, 4>()));
#endif
