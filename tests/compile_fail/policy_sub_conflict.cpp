// expect: sublayer `body`: sublayer `dot`: policy `update` is given two different values: `update(true)` and `update(false)`
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<sub<"body">(sub<"dot">(update(true), update(false)))>;
#else
using set = policies<sub<"body">(update(true), sub<"dot">(update(false)))>;
#endif
