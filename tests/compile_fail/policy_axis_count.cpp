// expect: dot: the policy axis_count is 1, 2 or 3
import lamina;
using namespace lamina;

#ifdef BAD
using said = policies<axis_count(4)>;
#else
using said = policies<axis_count(2)>;
#endif
train_layer<nn::dot, inputs<port<"lhs", matrix<float, 3, 3>>, port<"rhs", matrix<float, 3, 3>>>, said> layer("dot");
