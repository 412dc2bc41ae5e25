// expect: the sublayer name `body.dot` contains a dot; a dot separates a sublayer from its port
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<sub<"body.dot">(trainable(false))>;
#else
using set = policies<sub<"body">(sub<"dot">(trainable(false)))>;
#endif
