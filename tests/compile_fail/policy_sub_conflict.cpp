// expect: sublayer `body`: sublayer `dot`: policy `trainable` is given two different values: `trainable(true)` and `trainable(false)`
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<sub<"body">(sub<"dot">(trainable(true), trainable(false)))>;
#else
using set = policies<sub<"body">(trainable(true), sub<"dot">(trainable(false)))>;
#endif
