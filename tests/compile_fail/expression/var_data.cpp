// expect: the variable `w` got the data type `samples`; expected a tensor: use var<...>(evaluate(x))
// within: 13 lines
import lamina;
using namespace lamina;

#include "samples.h"

auto use(const samples& x) {
#ifdef BAD
  return var<"w">(x);
#else
  return var<"w">(evaluate(x));
#endif
}
