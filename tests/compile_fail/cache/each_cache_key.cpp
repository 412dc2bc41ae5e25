// Types that cannot be keys of a cache.
#include <cstddef>
import lamina;
using namespace lamina;

struct not_compared {
  using plain_key = void;
  std::size_t hash() const { return 0; }
};
struct compared : not_compared {
  bool operator==(const compared&) const { return true; }
};
struct not_copied : not_compared {
  not_copied(const not_copied&) = delete;
  bool operator==(const not_copied&) const { return true; }
};
struct greedy {
  greedy() = default;
  template <class T> greedy(T&&) {}
  bool operator==(const greedy&) const { return true; }
};
struct begins_greedily {
  greedy first;
  int second;
  bool operator==(const begins_greedily&) const = default;
};

#ifdef BAD
// expect below: the first member of `begins_greedily` is made from a value of any type, so a cache cannot inspect it: declare `using plain_key = void;` and `std::size_t hash() const`
lru_cache<begins_greedily, int>* by_greed;
#else
lru_cache<compared, int>* by_greed;
#endif
#ifdef BAD
// expect below: cache keys cannot hold references: the key is `int &`; keep a value or an id of it in the key
lru_cache<int&, int>* by_reference;
#else
lru_cache<int, int>* by_reference;
#endif
#ifdef BAD
// expect below: cache keys are compared: `not_compared` has no operator==
lru_cache<not_compared, int>* by_class;
#else
lru_cache<compared, int>* by_class;
#endif
#ifdef BAD
// expect below: a cache copies its keys: `not_copied` cannot be copied
lru_cache<not_copied, int>* by_one;
#else
lru_cache<compared, int>* by_one;
#endif
