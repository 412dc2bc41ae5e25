// mistake: two policies contradict each other
// expect: policy `trainable` is given two different values: `trainable(true)` and `trainable(false)`
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<trainable(true), element<double>, trainable(false)>;
#else
using set = policies<trainable(true), element<double>, trainable(true)>;
#endif
