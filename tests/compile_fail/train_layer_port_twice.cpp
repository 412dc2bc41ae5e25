// expect: port `lhs` is given two types
import lamina;
using namespace lamina;

#ifdef BAD
using given = inputs<port<"lhs", matrix<float>>, port<"lhs", matrix<double>>>;
#else
using given = inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>;
#endif
train_layer<nn::add, given> layer("add");
