// expect: of a typed operand the rank of the result is to stand in the call: write `reshape(x, {6, 2})`
import lamina;
using namespace lamina;

auto use(const matrix<float, 3, 4>& x, const shape& s) {
#ifdef BAD
  return reshape(x, s);
#else
  return reshape(x, {s[0], s[1]});
#endif
}
