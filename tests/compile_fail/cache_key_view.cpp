// expect: keys of a cache own what they hold: part 1 of `std::pair<lamina::view<const int>, int>` is `lamina::view<const int>`
import lamina;
import lamina.std;
using namespace lamina;

#ifdef BAD
using extents_of_key = view<const int>;
#else
using extents_of_key = std::vector<int>;
#endif
void use() { lru_cache<std::pair<extents_of_key, int>, int> c(8); }
