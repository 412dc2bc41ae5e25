// expect: argument 1 of dict(...) is a `const char *`; it takes values by key: dict(key<name> = value)
import lamina;
using namespace lamina;

auto use(const matrix<float>& x) {
#ifdef BAD
  return dict("input", x);
#else
  return dict(key<"input"> = x);
#endif
}
