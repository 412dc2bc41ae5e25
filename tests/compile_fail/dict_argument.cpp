// expect: argument 1 of dict(...) is a `const char *`; it takes entries, each a name in quotes with the suffix `_key`, `=`, and a value
import lamina;
using namespace lamina;

auto use(const matrix<float>& x) {
#ifdef BAD
  return dict("input", x);
#else
  return dict("input"_key = x);
#endif
}
