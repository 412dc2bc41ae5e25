// expect: key `a` is given twice (positions 0 and 1)
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto d = dict(key<"a"> = 1, key<"a"> = 2);
#else
  auto d = dict(key<"a"> = 1, key<"b"> = 2);
#endif
}
