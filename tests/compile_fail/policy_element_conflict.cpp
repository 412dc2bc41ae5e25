// expect: policy `element` is given two different values: `element<double>` and `element<float>`
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<element<double>, element<float>>;
#else
using set = policies<element<double>, compute<float>>;
#endif
