// mistake: something that is no policy
// expect: argument 2 of policies<...> is a value of type `int`, not a policy
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<trainable(true), 3>;
#else
using set = policies<trainable(true)>;
#endif
