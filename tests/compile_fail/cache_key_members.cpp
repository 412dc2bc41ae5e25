// expect: a cache looks through classes of up to 16 members, and `request` has more: declare `using plain_key = void;` and `std::size_t hash() const`
import lamina;
using namespace lamina;

struct request {
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
#ifdef BAD
  int q;
#endif
  bool operator==(const request&) const = default;
};
void use() { shared_cache<request, int> c; }
