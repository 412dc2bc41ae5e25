// expect: policy `mode` is given two different values: `mode{1, 2}` and `mode{3, 4}`
import lamina;
using namespace lamina;
struct mode {
  int low = 0, high = 0;
};
#ifdef BAD
using set = policies<mode(1, 2), mode(3, 4)>;
#else
using set = policies<mode(1, 2), sub<"a">(mode(3, 4))>;
#endif
