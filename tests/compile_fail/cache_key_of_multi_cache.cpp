// expect: keys of a cache hold no pointer: the key is `const char *`
import lamina;
import lamina.std;
using namespace lamina;

void use() {
  multi_cache c;
#ifdef BAD
  const char* name = "first";
#else
  const std::string name = "first";
#endif
  c.get_or_create(name, [] { return 1; });
}
