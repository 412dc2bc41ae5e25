// expect: key `a` is given twice (positions 0 and 1)
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto d = dict("a"_key = 1, "a"_key = 2);
#else
  auto d = dict("a"_key = 1, "b"_key = 2);
#endif
}
