// expect: add has no input port `left`; its input ports are `lhs`, `rhs`
import lamina;
using namespace lamina;
#ifdef BAD
train_layer<nn::add, inputs<port<"left", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#else
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#endif
