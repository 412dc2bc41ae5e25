// expect: keys of a cache hold no reference: member 1 of `request` is `const lamina::shape &`
import lamina;
using namespace lamina;

struct request {
#ifdef BAD
  const shape& extents;
#else
  shape extents;
#endif
  bool operator==(const request& o) const { return extents == o.extents; }
};
void use() { shared_cache<request, int> c; }
