// expect: matmul: the inner sizes differ: [?x3] [4x?]
import lamina;
using namespace lamina;
infer_layer<nn::dot> layer;
#ifdef BAD
auto y = layer.forward(dict(key<"lhs"> = matrix<float, dyn, 3>(1), key<"rhs"> = matrix<float, 4>(1)));
#else
auto y = layer.forward(dict(key<"lhs"> = matrix<float, dyn, 4>(1), key<"rhs"> = matrix<float, 4>(1)));
#endif
