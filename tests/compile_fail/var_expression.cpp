// expect: the variable `w` is given an expression, and names a tensor: take var<...>(evaluate(x))
// within: 13 lines
import lamina;
using namespace lamina;

auto use(const matrix<float>& x) {
#ifdef BAD
  return var<"w">(x * 2);
#else
  return var<"w">(evaluate(x * 2));
#endif
}
