// Truth tables of the concepts of base/cache. tests/cache/key_test.cpp has the types one by one, tests/compile_fail/cache the
// messages.
import lamina;
import lamina.std;
using namespace lamina;

namespace {

struct size {
  int rows, columns;
  bool operator==(const size&) const = default;
};
struct not_compared {
  int rows, columns;
};
struct with_pointer {
  const float* data;
  bool operator==(const with_pointer&) const = default;
};
struct with_reference {
  const int& rows;
  bool operator==(const with_reference& o) const { return rows == o.rows; }
};
class closed {
 public:
  bool operator==(const closed&) const = default;

 private:
  int count_ = 0;
};
class declared {
 public:
  using plain_key = void;
  std::size_t hash() const { return 0; }
  bool operator==(const declared&) const = default;

 private:
  int count_ = 0;
};

// CacheKey: compared by ==, hashed, and free of addresses.
static_assert(CacheKey<int>);
static_assert(CacheKey<double>);
static_assert(CacheKey<std::string>);
static_assert(CacheKey<std::vector<std::string>>);
static_assert(CacheKey<std::pair<int, std::optional<std::string>>>);
static_assert(CacheKey<size>);
static_assert(CacheKey<std::array<size, 2>>);
static_assert(CacheKey<declared>);
static_assert(!CacheKey<int&>);
static_assert(!CacheKey<int*>);
static_assert(!CacheKey<std::string_view>);
static_assert(!CacheKey<std::span<const int>>);
static_assert(!CacheKey<view<const int>>);
static_assert(!CacheKey<std::vector<const float*>>);
static_assert(!CacheKey<not_compared>);
static_assert(!CacheKey<with_pointer>);
static_assert(!CacheKey<with_reference>);
static_assert(!CacheKey<closed>);

}  // namespace
