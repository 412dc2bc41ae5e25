// mistake: two places disagree on a policy of a sublayer
// expect: sublayer `dot`: policy `update` is given two different values: `update(true)` and `update(false)`
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<sub<"dot">(update(true)), bias(false), sub<"dot">(feedback(true), update(false))>;
#else
using set = policies<sub<"dot">(update(true)), bias(false), sub<"dot">(feedback(true), update(true))>;
#endif
