// expect: conv1d: the number of sequences must have a number or a name
import lamina;
using namespace lamina;

#ifdef BAD
auto use(const tensor<float, extents<dyn, 3, dyn>>& x) { return conv1d(x, tensor<float, extents<4, 3, 3>>()); }
#else
auto use(const tensor<float, extents<2, 3, dyn>>& x) { return conv1d(x, tensor<float, extents<4, 3, 3>>()); }
#endif
