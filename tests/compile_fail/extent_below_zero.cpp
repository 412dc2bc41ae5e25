// expect: non-constexpr function 'extent_below_zero' cannot be used in a constant expression
import lamina;
using namespace lamina;
#ifdef BAD
tensor<float, extents<-5, 3>> t;
#else
tensor<float, extents<5, 3>> t;
#endif
