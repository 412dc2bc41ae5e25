// mistake: two policies contradict each other
// expect: policy `update` is given two different values: `update(true)` and `update(false)`
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<update(true), element<double>, update(false)>;
#else
using set = policies<update(true), element<double>, update(true)>;
#endif
