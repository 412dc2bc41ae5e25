// expect: matmul: the inner sizes differ: [?x3] [4x?]
import lamina;
using namespace lamina;
infer_layer<nn::dot> layer;
#ifdef BAD
auto y = layer.forward(dict("lhs"_key = matrix<float, dyn, 3>(1), "rhs"_key = matrix<float, 4>(1)));
#else
auto y = layer.forward(dict("lhs"_key = matrix<float, dyn, 4>(1), "rhs"_key = matrix<float, 4>(1)));
#endif
