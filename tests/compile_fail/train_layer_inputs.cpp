// expect: argument 1 of inputs<...> is `lamina::tensor<float, lamina::extents<dim{-1}, dim{-1}>>`; it takes ports: inputs<port<name, type>, ...>
import lamina;
using namespace lamina;
#ifdef BAD
train_layer<nn::add, inputs<matrix<float>, matrix<float>>> layer("add");
#else
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#endif
