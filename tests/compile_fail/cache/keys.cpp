// Types that cannot be keys of a cache.
import lamina.std;
import lamina;
using namespace lamina;

// case: cache_key_class
// expect: a cache cannot inspect the key, `counter`: if it holds no pointer, reference or view, declare `using plain_key = void;` in it, and `std::size_t hash() const`, or in a class of your own that holds it
namespace cache_key_class {
class counter {
 public:
  explicit counter(int n) : count_(n) {}
  bool operator==(const counter&) const = default;
#ifndef BAD
  using plain_key = void;
  std::size_t hash() const { return static_cast<std::size_t>(count_); }
#endif

 private:
  int count_;
};
void use() { shared_cache<counter, int> c; }
}  // namespace cache_key_class

// case: cache_key_derived
// expect: `request` derives from another class, so a cache cannot inspect it: hold the base as a member, or declare
namespace cache_key_derived {
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
}  // namespace cache_key_derived

// case: cache_key_members
// expect: a cache inspects classes of up to 16 members, and `request` has more: declare `using plain_key = void;` and `std::size_t hash() const`
namespace cache_key_members {
struct request {
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
#ifdef BAD
  int q;
#endif
  bool operator==(const request&) const = default;
};
void use() { shared_cache<request, int> c; }
}  // namespace cache_key_members

// case: cache_key_no_hash
// expect: `counter` declares `plain_key` and has no `std::size_t hash() const`
namespace cache_key_no_hash {
class counter {
 public:
  using plain_key = void;
  explicit counter(int n) : count_(n) {}
  bool operator==(const counter&) const = default;
#ifndef BAD
  std::size_t hash() const { return static_cast<std::size_t>(count_); }
#endif

 private:
  int count_;
};
void use() { shared_cache<counter, int> c; }
}  // namespace cache_key_no_hash

// case: cache_key_not_compared
// expect: cache keys are compared: `request` has no `bool operator==(const request&) const = default;`
namespace cache_key_not_compared {
struct request {
  int rows, columns;
#ifndef BAD
  bool operator==(const request&) const = default;
#endif
};
void use() { shared_cache<request, int> c; }
}  // namespace cache_key_not_compared

// case: cache_key_of_multi_cache
// expect: cache keys cannot hold pointers: the key is `const char *`
void cache_key_of_multi_cache() {
  multi_cache c;
#ifdef BAD
  const char* name = "first";
#else
  const std::string name = "first";
#endif
  c.get_or_create(name, [] { return 1; });
}

// case: cache_key_pointer
// expect: cache keys cannot hold pointers: member 2 of `request` is `const float *`; keep a value or an id of it
namespace cache_key_pointer {
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
}  // namespace cache_key_pointer

// case: cache_key_pointer_inside
// expect: cache keys cannot hold pointers: the element of `std::vector<const float *>` is `const float *`
namespace cache_key_pointer_inside {
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
}  // namespace cache_key_pointer_inside

// case: cache_key_reference
// expect: cache keys cannot hold references: member 1 of `request` is `const lamina::shape &`
namespace cache_key_reference {
struct request {
#ifdef BAD
  const shape& extents;
#else
  shape extents;
#endif
  bool operator==(const request& o) const { return extents == o.extents; }
};
void use() { shared_cache<request, int> c; }
}  // namespace cache_key_reference

// case: cache_key_span
// expect: cache keys must own their data: member 2 of `request` is `std::span<const int>`, which does not own its memory
namespace cache_key_span {
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
}  // namespace cache_key_span

// case: cache_key_string_view
// expect: cache keys must own their data: the key is `std::basic_string_view<char>`, which does not own its memory; hold a std::string or std::vector
namespace cache_key_string_view {
#ifdef BAD
using name = std::string_view;
#else
using name = std::string;
#endif
void use() { shared_cache<name, int> c; }
}  // namespace cache_key_string_view

// case: cache_key_view
// expect: cache keys must own their data: part 1 of `std::pair<lamina::view<const int>, int>` is `lamina::view<const int>`
namespace cache_key_view {
#ifdef BAD
using extents_of_key = view<const int>;
#else
using extents_of_key = std::vector<int>;
#endif
void use() { lru_cache<std::pair<extents_of_key, int>, int> c(8); }
}  // namespace cache_key_view
