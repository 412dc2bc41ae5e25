// expect: device `gpu` does not exist; the only one is `cpu`
import lamina;
using namespace lamina;
#ifdef BAD
using set = policies<device<"gpu">>;
#else
using set = policies<device<"cpu">>;
#endif
