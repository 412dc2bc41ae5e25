// expect: add: port `rhs` is given `int`, which is no operand
import lamina;
using namespace lamina;
infer_layer<nn::add> layer;
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = 1));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float>(1, 1), "rhs"_key = scalar<float>(1)));
#endif
