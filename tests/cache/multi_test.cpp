// The cache for many pairs of types.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

import lamina;

using namespace lamina;

namespace {

template <int N> struct numbered {
  int value = N;
  bool operator==(const numbered&) const = default;
};

template <int... N> bool each_type_has_its_own(multi_cache& c, std::integer_sequence<int, N...>) {
  const auto one = [&]<int I>(std::integral_constant<int, I>) {
    const auto first = c.get_or_create(numbered<I>{}, [] { return I + 1; });
    const auto again = c.get_or_create(numbered<I>{}, [] { return -1; });
    return first.value == I + 1 && first.lookup == cache_lookup::miss && again.value == I + 1 &&
           again.lookup == cache_lookup::hit;
  };
  return (one(std::integral_constant<int, N>()) && ...);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(multi)

// Ten keys of two value types: built, found, evicted by ten others, and built again.
BOOST_AUTO_TEST_CASE(get_or_create) {
  multi_cache c({.entries = 10});
  int builds = 0;
  const auto ask = [&](int from, cache_lookup expected) {
    for (int i = from; i < from + 10; ++i) {
      const auto number = c.get_or_create(i, [&] {
        ++builds;
        return i * i + 1;
      });
      BOOST_CHECK_EQUAL(number.value, i * i + 1);
      BOOST_CHECK(number.lookup == expected);
      const auto word = c.get_or_create(i, [&] {
        ++builds;
        return std::to_string(i);
      });
      BOOST_CHECK_EQUAL(word.value, std::to_string(i));
      BOOST_CHECK(word.lookup == expected);
    }
  };
  ask(0, cache_lookup::miss);
  ask(0, cache_lookup::hit);
  ask(10, cache_lookup::miss);
  ask(0, cache_lookup::miss);
  BOOST_CHECK_EQUAL(builds, 60);  // 30 of each type
  BOOST_CHECK_EQUAL((c.of<int, int>().statistics().builds), 30u);
  BOOST_CHECK_EQUAL((c.of<int, std::string>().statistics().evictions), 20u);
  BOOST_CHECK_EQUAL(c.statistics().hits, 20u);
  BOOST_CHECK_EQUAL(c.statistics().entries, 20u);  // ten of each type: the limit is per type
}

BOOST_AUTO_TEST_CASE(empty) {
  multi_cache c({.entries = 0});
  int builds = 0;
  for (int i = 0; i < 5; ++i) {
    const auto got = c.get_or_create(1, [&] { return ++builds; });
    BOOST_CHECK(got.value == i + 1 && got.lookup == cache_lookup::miss);
  }
  BOOST_CHECK_EQUAL(c.statistics().entries, 0u);
  BOOST_CHECK_EQUAL(c.limits().entries, 0u);
}

BOOST_AUTO_TEST_CASE(types_are_told_apart_in_thirty_threads) {
  std::atomic<int> wrong{0};
  parallel_workers(30, [&](int) {
    multi_cache own;
    if (!each_type_has_its_own(own, std::make_integer_sequence<int, 20>())) ++wrong;
  });
  BOOST_CHECK_EQUAL(wrong.load(), 0);
}

BOOST_AUTO_TEST_CASE(threads_that_race_for_a_type_get_the_same_cache) {
  for (int again = 0; again < 20; ++again) {
    multi_cache c;
    std::vector<void*> got(4);
    parallel_workers(4, [&](int w) { got[static_cast<std::size_t>(w)] = &c.of<int, double>(); });
    for (void* one : got) BOOST_CHECK(one == got[0]);
  }
}

BOOST_AUTO_TEST_CASE(copies_share_entries) {
  multi_cache a;
  multi_cache b = a;
  BOOST_CHECK_EQUAL(a.get_or_create(1, [] { return 10; }).value, 10);
  const auto found = b.get_or_create(1, [] { return 20; });
  BOOST_CHECK(found.value == 10 && found.lookup == cache_lookup::hit);
  a = multi_cache();  // the entries now belong to b
  BOOST_CHECK_EQUAL(b.get_or_create(1, [] { return 20; }).value, 10);
  BOOST_CHECK_EQUAL(a.get_or_create(1, [] { return 30; }).value, 30);
  b.clear();
  BOOST_CHECK_EQUAL(b.get_or_create(1, [] { return 20; }).value, 20);
}

// Two builders that request each other's key, of different types; and two caches that share nothing.
BOOST_AUTO_TEST_CASE(builders_that_wait_in_a_circle_across_types_are_told) {
  multi_cache c;
  shared_cache<int, int> one;
  shared_cache<std::string, int> other;
  const auto meet = [](std::atomic<int>& inside) {
    ++inside;
    while (inside < 2) std::this_thread::yield();
  };
  for (bool apart : {false, true}) {
    std::atomic<int> inside{0}, told{0}, built{0};
    auto& numbers = apart ? one : c.of<int, int>();
    auto& words = apart ? other : c.of<std::string, int>();
    parallel_workers(2, [&](int w) {
      try {
        if (w == 0)
          numbers.get_or_create(1, [&] {
            meet(inside);
            return words.get_or_create("one", [] { return 5; }).value + 1;
          });
        else
          words.get_or_create("one", [&] {
            meet(inside);
            return numbers.get_or_create(1, [] { return 5; }).value + 1;
          });
        ++built;
      } catch (const state_error&) { ++told; }
    });
    BOOST_CHECK_EQUAL(told.load(), 1);  // the other thread builds the key that it waited for
    BOOST_CHECK_EQUAL(built.load(), 1);
  }
}

BOOST_AUTO_TEST_SUITE_END()
