// mistake: two places disagree on a policy of a sublayer
// expect: sublayer `dot`: policy `trainable` is given two different values: `trainable(true)` and `trainable(false)`
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<sub<"dot">(trainable(true)), use_bias(false), sub<"dot">(feedback(true), trainable(false))>;
#else
using set = policies<sub<"dot">(trainable(true)), use_bias(false), sub<"dot">(feedback(true), trainable(true))>;
#endif
