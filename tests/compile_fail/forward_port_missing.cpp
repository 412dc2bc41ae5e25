// expect: add: input port `rhs` is given nothing; its input ports are `lhs`, `rhs`
import lamina;
using namespace lamina;
infer_layer<nn::add> layer;
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1)));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = matrix<float>(1, 1)));
#endif
