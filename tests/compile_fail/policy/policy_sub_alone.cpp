// mistake: a sub without its policies
// expect: argument 1 of policies<...> is a `sub` without policies; write them in parentheses after it
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<sub<"head">>;
#else
using set = policies<sub<"head">(trainable(false))>;
#endif
