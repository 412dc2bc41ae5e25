// expect: keys of a cache are compared: `request` has no `bool operator==(const request&) const = default;`
import lamina;
using namespace lamina;

struct request {
  int rows, columns;
#ifndef BAD
  bool operator==(const request&) const = default;
#endif
};
void use() { shared_cache<request, int> c; }
