// mistake: a layer by hand with ports that do not fit each other
// expect: dot: matmul: the inner sizes differ: [?x3] [4x?]
import lamina;
using namespace lamina;
#ifdef BAD
train_layer<nn::dot, inputs<port<"lhs", matrix<float, dyn, 3>>, port<"rhs", matrix<float, 4>>>> layer("dot");
#else
train_layer<nn::dot, inputs<port<"lhs", matrix<float, dyn, 4>>, port<"rhs", matrix<float, 4>>>> layer("dot");
#endif
