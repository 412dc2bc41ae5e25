// expect: the variable `w` is given the data type `samples`, and names a tensor: take var<...>(evaluate(x))
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
