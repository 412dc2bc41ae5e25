// expect: keys of a cache hold no pointer: member 2 of `request` is `const float *`; keep a value or an id of it
import lamina;
using namespace lamina;

struct request {
  int rows;
#ifdef BAD
  const float* data;
#else
  int columns;
#endif
  bool operator==(const request&) const = default;
};
void use() { shared_cache<request, int> c; }
