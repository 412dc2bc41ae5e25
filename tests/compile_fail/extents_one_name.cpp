// expect: no matching constructor for initialization of 'tensor<float, extents<"T", "T">>'
import lamina;
using namespace lamina;
#ifdef BAD
tensor<float, extents<"T", "T">> t(matrix<float, 128, 64>{});
#else
tensor<float, extents<"T", "T">> t(matrix<float, 64, 64>{});
#endif
