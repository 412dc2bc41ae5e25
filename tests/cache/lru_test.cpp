// The single-threaded cache: its entries, the order of eviction, its settings.
#include <boost/test/unit_test.hpp>

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

import lamina;

using namespace lamina;

namespace {

struct point {
  int x = 0, y = 0;
  bool operator==(const point&) const = default;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(lru)

BOOST_AUTO_TEST_CASE(evict) {
  lru_cache<point, int> c(5);
  for (int i = 0; i < 5; ++i) c.put({i, i}, i);
  BOOST_CHECK_EQUAL(c.evict(2), 2u);
  BOOST_CHECK(!c.get({0, 0}) && !c.get({1, 1}));
  for (int i = 2; i < 5; ++i) BOOST_CHECK(c.get({i, i}) == i);
  BOOST_CHECK_EQUAL(c.evict(0), 0u);
  BOOST_CHECK_EQUAL(c.size(), 3u);
  BOOST_CHECK_EQUAL(c.evict(10), 3u);  // more than the number of entries
  BOOST_CHECK_EQUAL(c.evict(10), 0u);
  for (int i = 0; i < 5; ++i) BOOST_CHECK(!c.get({i, i}));
  BOOST_CHECK_EQUAL(c.statistics().evictions, 5u);
}

BOOST_AUTO_TEST_CASE(put) {
  lru_cache<point, std::string> c(2);
  BOOST_CHECK_EQUAL(c.capacity(), 2u);
  c.put({1, 1}, "one");
  c.put({1, 1}, "another one");
  BOOST_CHECK(c.get({1, 1}) == "another one");
  BOOST_CHECK_EQUAL(c.size(), 1u);
  c.put({2, 2}, "two");
  c.put({1, 1}, "one");  // now the most recent
  c.put({3, 3}, "three");
  BOOST_CHECK(!c.get({2, 2}));
  BOOST_CHECK(c.get({1, 1}) == "one");
  BOOST_CHECK_EQUAL(c.statistics().evictions, 1u);
}

BOOST_AUTO_TEST_CASE(get) {
  lru_cache<point, int> c(3);
  BOOST_CHECK(!c.get({0, 0}));
  c.put({0, 0}, 7);
  BOOST_CHECK(c.get({0, 0}) == 7);
  BOOST_CHECK(!c.get({0, 1}));
  BOOST_CHECK((c.statistics() == cache_statistics{.hits = 1, .misses = 2, .entries = 1}));
}

BOOST_AUTO_TEST_CASE(lru_policy) {
  lru_cache<point, int> c(3);
  for (int i = 0; i < 3; ++i) c.put({i, 0}, i);
  c.get({0, 0});
  c.get({1, 0});  // oldest first: 2, 0, 1
  for (int i = 3; i < 5; ++i) c.put({i, 0}, i);
  BOOST_CHECK(!c.get({2, 0}) && !c.get({0, 0}));
  BOOST_CHECK(c.get({1, 0}) == 1 && c.get({3, 0}) == 3 && c.get({4, 0}) == 4);
}

BOOST_AUTO_TEST_CASE(empty) {
  lru_cache<point, int> c(0);
  for (int i = 0; i < 3; ++i) c.put({i, 0}, i);
  for (int i = 0; i < 3; ++i) BOOST_CHECK(!c.get({i, 0}));
  BOOST_CHECK_EQUAL(c.evict(3), 0u);
  BOOST_CHECK_EQUAL(c.capacity(), 0u);
  BOOST_CHECK_EQUAL(c.size(), 0u);
}

BOOST_AUTO_TEST_CASE(clear_keeps_the_counts) {
  lru_cache<point, int> c(2);
  c.put({1, 1}, 1);
  c.get({1, 1});
  c.clear();
  BOOST_CHECK(!c.get({1, 1}));
  BOOST_CHECK((c.statistics() == cache_statistics{.hits = 1, .misses = 1}));
  c.put({2, 2}, 2);
  c.put({3, 3}, 3);
  c.put({4, 4}, 4);
  BOOST_CHECK(!c.get({2, 2}));
  BOOST_CHECK(c.get({3, 3}) == 3);
}

// Each step is compared with a list that is searched linearly.
BOOST_AUTO_TEST_CASE(a_thousand_steps_beside_a_plain_list) {
  lru_cache<int, int> c(8);
  std::vector<std::pair<int, int>> plain;  // newest last
  unsigned state = 1;
  for (int step = 0; step < 1000; ++step) {
    state = state * 1664525u + 1013904223u;
    const int key = static_cast<int>(state >> 16) % 20;
    auto at = plain.begin();
    while (at != plain.end() && at->first != key) ++at;
    if (state >> 31) {
      if (at != plain.end()) plain.erase(at);
      else if (plain.size() == 8) plain.erase(plain.begin());
      plain.emplace_back(key, step);
      c.put(key, step);
    } else {
      const auto got = c.get(key);
      BOOST_REQUIRE_EQUAL(got.has_value(), at != plain.end());
      if (!got) continue;
      const auto entry = *at;
      BOOST_REQUIRE_EQUAL(*got, entry.second);
      plain.erase(at);
      plain.push_back(entry);
    }
    BOOST_REQUIRE_EQUAL(c.size(), plain.size());
  }
}

// A key unequal to itself could never be found again, nor removed.
BOOST_AUTO_TEST_CASE(a_key_with_a_nan_is_not_kept) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  lru_cache<float, int> numbers(2);
  numbers.put(1, 10);
  for (int i = 0; i < 5; ++i) numbers.put(nan, i);
  BOOST_CHECK_EQUAL(numbers.size(), 1u);
  BOOST_CHECK(!numbers.get(nan).has_value());
  BOOST_CHECK_EQUAL(numbers.get(1).value(), 10);
  BOOST_CHECK_EQUAL(numbers.evict(5), 1u);
  lru_cache<std::vector<double>, int> lists(2);
  lists.put({1, nan}, 1);
  BOOST_CHECK_EQUAL(lists.size(), 0u);
}

BOOST_AUTO_TEST_CASE(the_capacity_of_a_setting) {
  BOOST_CHECK_EQUAL(cache_limits().entries, 5000u);
  BOOST_CHECK_EQUAL(cache_capacity("5000"), 5000u);
  BOOST_CHECK_EQUAL(cache_capacity("0"), 0u);
  BOOST_CHECK_EQUAL(cache_capacity("-1"), 0u);
  BOOST_CHECK_EQUAL(cache_capacity(std::int64_t(-7)), 0u);
  BOOST_CHECK_EQUAL(cache_capacity(std::int64_t(7)), 7u);
  BOOST_CHECK_EQUAL(cache_capacity("18446744073709551615"), 18446744073709551615u);
  BOOST_CHECK_EQUAL(cache_capacity("-99999999999999999999999"), 0u);
  for (const char* large : {"18446744073709551616", "99999999999999999999999"})
    BOOST_CHECK_EXCEPTION(cache_capacity(large), value_error, [&](const error& e) {
      return e.what() == "cache capacity: expected at most 18446744073709551615; got `" + std::string(large) + "`";
    });
  for (const char* wrong : {"", "-", "many", "1.5", "12 ", "+3"})
    BOOST_CHECK_EXCEPTION(cache_capacity(wrong), value_error, [&](const error& e) {
      return e.what() == "cache capacity: expected a whole number; got `" + std::string(wrong) + "`";
    });
}

BOOST_AUTO_TEST_SUITE_END()
