// expect: add: port `rhs` is given `int`, which is no operand
import lamina;
using namespace lamina;
infer_layer<nn::add> layer;
#ifdef BAD
auto y = layer.forward(dict(key<"lhs"> = matrix<float>(1, 1), key<"rhs"> = 1));
#else
auto y = layer.forward(dict(key<"lhs"> = matrix<float>(1, 1), key<"rhs"> = scalar<float>(1)));
#endif
