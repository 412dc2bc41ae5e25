// expect: the variable `w` is given `float`, and names a tensor
// within: 13 lines
import lamina;
using namespace lamina;

auto use(float x) {
#ifdef BAD
  return var<"w">(x);
#else
  return var<"w">(tensor<float, extents<>>(x));
#endif
}
