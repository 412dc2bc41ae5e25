// expect: dynamic: it holds float32 of rank 2, and is given float64[?x?]
// within: 13 lines
import lamina;
using namespace lamina;

#ifdef BAD
dynamic<float, 2> any = matrix<double>(2, 3);
#else
dynamic<float, 2> any = matrix<float>(2, 3);
#endif
