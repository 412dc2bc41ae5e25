// Keys: which types are accepted, and their hashes.
#include <boost/test/unit_test.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

import lamina;

using namespace lamina;

namespace {

enum class color { red, green };

struct id {
  std::uint64_t words[2]{};
  bool operator==(const id&) const = default;
};
struct request {
  id program;
  color paint{};
  std::vector<shape> shapes;
  std::optional<std::string> name;
  std::array<float, 3> numbers{};
  std::pair<int, bool> option{};
  bool operator==(const request&) const = default;
};
struct nothing {
  bool operator==(const nothing&) const = default;
};
struct arrays {
  std::optional<int> first;
  int grid[2][3]{};
  std::string names[2];
  bool last = false;
  bool operator==(const arrays&) const = default;
};
struct sixteen {
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p;
  bool operator==(const sixteen&) const = default;
};
struct bits {
  unsigned low : 3, high : 5;
  bool operator==(const bits&) const = default;
};
class closed {
 public:
  using plain_key = void;
  explicit closed(int v) : value_(v) {}
  std::size_t hash() const { return static_cast<std::size_t>(value_); }
  bool operator==(const closed&) const = default;

 private:
  int value_;
};
struct with_own_hash {
  int a = 0, b = 0;
  std::size_t hash() const { return 5; }
  bool operator==(const with_own_hash&) const = default;
};

static_assert(CacheKey<int> && CacheKey<double> && CacheKey<color> && CacheKey<std::string> && CacheKey<bool>);
static_assert(CacheKey<shape> && CacheKey<id> && CacheKey<request> && CacheKey<nothing> && CacheKey<arrays>);
static_assert(CacheKey<sixteen> && CacheKey<bits> && CacheKey<closed> && CacheKey<with_own_hash>);
static_assert(CacheKey<program_id>);
static_assert(CacheKey<std::vector<std::vector<int>>> && CacheKey<std::tuple<int, std::string>>);

// Rejected types; tests/compile_fail checks the messages.
struct points {
  const float* at;
  bool operator==(const points&) const = default;
};
struct refers {
  const int& to;
  bool operator==(const refers& o) const { return &to == &o.to; }
};
struct looks {
  std::string_view name;
  bool operator==(const looks&) const = default;
};
struct inside {
  int n;
  points deep;
  bool operator==(const inside&) const = default;
};
struct array_of_pointers {
  int n;
  const int* at[2];
  bool operator==(const array_of_pointers&) const = default;
};
struct not_compared {
  int n;
};
struct derived : id {
  int n;
  bool operator==(const derived&) const = default;
};
struct derived_from_nothing : nothing {
  int n;
  bool operator==(const derived_from_nothing&) const = default;
};
struct seventeen : sixteen {
  bool operator==(const seventeen&) const = default;
};
struct too_many {
  int a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q;
  bool operator==(const too_many&) const = default;
};
class silent {
 public:
  silent() {}
  std::size_t hash() const { return 0; }
  bool operator==(const silent&) const = default;

 private:
  int value_ = 0;
};
struct promises {
  using plain_key = void;
  bool operator==(const promises&) const = default;
};
struct owns {
  std::unique_ptr<int> p;
  bool operator==(const owns&) const = default;
};
union either {
  int i;
  float f;
  bool operator==(const either&) const { return true; }
};

static_assert(!CacheKey<const float*> && !CacheKey<points> && !CacheKey<std::vector<int*>>);
static_assert(!CacheKey<std::shared_ptr<int>> && !CacheKey<std::nullptr_t> && !CacheKey<int inside::*>);
static_assert(!CacheKey<int&> && !CacheKey<refers> && !CacheKey<std::reference_wrapper<int>>);
static_assert(!CacheKey<std::string_view> && !CacheKey<looks> && !CacheKey<std::span<int>>);
static_assert(!CacheKey<view<const int>>);
static_assert(!CacheKey<inside> && !CacheKey<array_of_pointers> && !CacheKey<std::optional<points>> && !CacheKey<owns>);
static_assert(!CacheKey<not_compared> && !CacheKey<derived> && !CacheKey<derived_from_nothing> && !CacheKey<seventeen>);
static_assert(!CacheKey<too_many> && !CacheKey<silent> && !CacheKey<promises> && !CacheKey<either>);
static_assert(!CacheKey<std::pair<int, const char*>> && !CacheKey<char[5]>);

template <class Key> void differ(const std::vector<Key>& keys) {
  std::set<std::size_t> hashes;
  for (const Key& k : keys) {
    BOOST_CHECK_EQUAL(key_hash(k), key_hash(Key(k)));
    hashes.insert(key_hash(k));
  }
  BOOST_CHECK_EQUAL(hashes.size(), keys.size());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(keys)

BOOST_AUTO_TEST_CASE(every_member_counts) {
  const request r{{{1, 2}}, color::red, {{2, 3}}, "a", {1, 2, 3}, {1, true}};
  std::vector<request> keys(10, r);
  keys[1].program.words[1] = 3;
  keys[2].paint = color::green;
  keys[3].shapes = {{2, 4}};
  keys[4].shapes.push_back(shape{});
  keys[5].name.reset();
  keys[6].name = "b";
  keys[7].numbers[2] = 4;
  keys[8].option.first = 2;
  keys[9].option.second = false;
  differ(keys);
}

BOOST_AUTO_TEST_CASE(elements_of_arrays_count) {
  std::vector<arrays> keys(6);
  keys[1].first = 0;
  keys[2].grid[1][2] = 1;
  keys[3].grid[0][1] = 1;
  keys[4].names[1] = "b";
  keys[5].last = true;
  differ(keys);
}

BOOST_AUTO_TEST_CASE(places_count) {
  differ<std::vector<int>>({{}, {0}, {0, 0}, {1, 0}, {0, 1}});
  differ<std::pair<int, int>>({{1, 2}, {2, 1}});
  differ<std::optional<int>>({{}, 0, 1});
  differ<shape>({{}, {1}, {1, 1}, {2, 3}, {3, 2}});
  differ<bits>({{1, 0}, {0, 1}, {1, 1}});
  std::vector<sixteen> keys(17);
  for (int* at :
       {&keys[1].a, &keys[2].b, &keys[3].c, &keys[4].d, &keys[5].e, &keys[6].f, &keys[7].g, &keys[8].h, &keys[9].i,
        &keys[10].j, &keys[11].k, &keys[12].l, &keys[13].m, &keys[14].n, &keys[15].o, &keys[16].p})
    *at = 1;
  differ(keys);
}

BOOST_AUTO_TEST_CASE(hashes_of_neighbors_differ) {
  std::vector<std::pair<int, int>> keys;
  for (int i = 0; i < 100; ++i)
    for (int j = 0; j < 100; ++j) keys.emplace_back(i, j);
  differ(keys);
}

BOOST_AUTO_TEST_CASE(equal_numbers_have_equal_hashes) {
  BOOST_CHECK_EQUAL(key_hash(0.0), key_hash(-0.0));
  BOOST_CHECK_EQUAL(key_hash(0.0f), key_hash(-0.0f));
  BOOST_CHECK_NE(key_hash(1.0), key_hash(-1.0));
}

BOOST_AUTO_TEST_CASE(durations_times_and_variants_are_keys) {
  using namespace std::chrono;
  using choice = std::variant<std::monostate, int, std::string>;
  static_assert(CacheKey<seconds> && CacheKey<steady_clock::time_point> && CacheKey<choice>);
  static_assert(!CacheKey<std::variant<int, const char*>>);
  BOOST_CHECK_NE(key_hash(seconds(1)), key_hash(seconds(2)));
  BOOST_CHECK_NE(key_hash(choice(1)), key_hash(choice(2)));
  BOOST_CHECK_NE(key_hash(std::variant<int, long>(1)), key_hash(std::variant<int, long>(1L)));
  BOOST_CHECK_EQUAL(key_hash(choice("a")), key_hash(choice("a")));
  lru_cache<choice, int> c(4);
  c.put(choice("a"), 1);
  c.put(choice(1), 2);
  c.put(choice(), 3);
  BOOST_CHECK(c.get(choice("a")) == 1);
  BOOST_CHECK(c.get(choice(1)) == 2);
  BOOST_CHECK(c.get(choice()) == 3);
  BOOST_CHECK(!c.get(choice(2)));
  lru_cache<milliseconds, int> d(2);
  d.put(milliseconds(5), 7);
  BOOST_CHECK(d.get(milliseconds(5)) == 7);
}

BOOST_AUTO_TEST_CASE(a_hash_of_ones_own) {
  BOOST_CHECK_EQUAL(key_hash(closed(7)), 7u);
  BOOST_CHECK_EQUAL(key_hash(with_own_hash{1, 2}), 5u);
  lru_cache<with_own_hash, int> c(2);  // one hash, two keys
  c.put({1, 2}, 1);
  c.put({2, 1}, 2);
  BOOST_CHECK(c.get({1, 2}) == 1);
  BOOST_CHECK(c.get({2, 1}) == 2);
}

BOOST_AUTO_TEST_SUITE_END()
