// expect: keys of a cache own what they hold: member 2 of `request` is `std::span<const int>`, which looks at memory of others
import lamina;
import lamina.std;
using namespace lamina;

struct request {
  int program;
#ifdef BAD
  std::span<const int> extents;
#else
  std::array<int, 4> extents;
#endif
  bool operator==(const request& o) const { return program == o.program; }
};
void use() { shared_cache<request, int> c; }
