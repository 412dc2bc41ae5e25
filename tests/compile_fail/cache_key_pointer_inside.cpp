// expect: keys of a cache hold no pointer: the element of `std::vector<const float *>` is `const float *`
import lamina;
import lamina.std;
using namespace lamina;

struct operand {
  shape extents;
#ifdef BAD
  std::vector<const float*> data;
#else
  std::vector<int> places;
#endif
  bool operator==(const operand&) const = default;
};
struct request {
  int program;
  operand first;
  bool operator==(const request&) const = default;
};
void use() { lru_cache<request, int> c(8); }
