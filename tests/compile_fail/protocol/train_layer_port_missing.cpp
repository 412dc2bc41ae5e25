// mistake: a layer by hand without one of its ports
// expect: add: input port `rhs` is given nothing; its input ports are `lhs`, `rhs`
import lamina;
using namespace lamina;
#ifdef BAD
train_layer<nn::add, inputs<port<"lhs", matrix<float>>>> layer("add");
#else
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#endif
