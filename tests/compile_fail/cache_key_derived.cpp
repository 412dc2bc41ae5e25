// expect: `request` derives from another class, so that a cache cannot look through it: hold that as a member, or declare
import lamina;
using namespace lamina;

struct size {
  int rows, columns;
  bool operator==(const size&) const = default;
};
#ifdef BAD
struct request : size {
#else
struct request {
  size whole;
#endif
  int program;
  bool operator==(const request&) const = default;
};
void use() { shared_cache<request, int> c; }
