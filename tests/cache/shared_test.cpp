// The thread-safe cache: one build for each key, whatever builders do; limits; visits; all of these at once.
#include <boost/test/unit_test.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

import lamina;

using namespace lamina;

namespace {

using numbers = shared_cache<int, int>;

/// Threads wait here until it is opened.
class door {
 public:
  void open() {
    const std::lock_guard lock(mutex_);
    is_open_ = true;
    opened_.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    opened_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable opened_;
  bool is_open_ = false;
};

struct counted {
  static inline std::atomic<int> alive{0};
  explicit counted(int n) : number(n) { ++alive; }
  counted(const counted&) = delete;
  counted& operator=(const counted&) = delete;
  ~counted() { --alive; }
  int number;
};
using shared = std::shared_ptr<const counted>;

/// Thrown by builders of this test.
struct failure {
  int of;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(shared_caches)

BOOST_AUTO_TEST_CASE(get_or_create) {
  numbers c({.entries = 10});
  int builds = 0;
  const auto ask = [&](int from, cache_lookup expected) {
    for (int i = from; i < from + 10; ++i) {
      const auto got = c.get_or_create(i, [&] {
        ++builds;
        return 100 + i;
      });
      BOOST_CHECK_EQUAL(got.value, 100 + i);
      BOOST_CHECK(got.lookup == expected);
    }
  };
  ask(0, cache_lookup::miss);
  ask(0, cache_lookup::hit);
  ask(10, cache_lookup::miss);  // evicts the others
  ask(0, cache_lookup::miss);
  BOOST_CHECK_EQUAL(builds, 30);
  const cache_statistics expected{
      .hits = 10, .misses = 30, .evictions = 20, .builds = 30, .entries = 10, .bytes = 10 * 2 * sizeof(int)};
  BOOST_CHECK(c.statistics() == expected);
}

BOOST_AUTO_TEST_CASE(empty) {
  numbers c({.entries = 0});
  int builds = 0;
  for (int i = 0; i < 10; ++i) {
    const auto got = c.get_or_create(1, [&] { return ++builds; });
    BOOST_CHECK(got.value == i + 1 && got.lookup == cache_lookup::miss);
  }
  BOOST_CHECK(!c.get(1));
  BOOST_CHECK((c.statistics() == cache_statistics{.misses = 11, .builds = 10}));
}

BOOST_AUTO_TEST_CASE(an_empty_value_is_not_kept) {
  shared_cache<int, std::shared_ptr<int>> c;
  int builds = 0;
  for (int i = 0; i < 3; ++i) {
    const auto got = c.get_or_create(1, [&] {
      ++builds;
      return std::shared_ptr<int>();
    });
    BOOST_CHECK(!got.value && got.lookup == cache_lookup::miss);
  }
  BOOST_CHECK_EQUAL(builds, 3);
  BOOST_CHECK_EQUAL(c.size(), 0u);
}

BOOST_AUTO_TEST_CASE(that_there_is_none_can_be_kept) {
  shared_cache<std::string, std::optional<int>> c;
  int builds = 0;
  const auto none = [&] {
    ++builds;
    return built<std::optional<int>>{.value = std::nullopt, .keep_empty = true};
  };
  BOOST_CHECK(c.get_or_create("no such thing", none).lookup == cache_lookup::miss);
  const auto again = c.get_or_create("no such thing", none);
  BOOST_CHECK(!again.value && again.lookup == cache_lookup::hit);
  BOOST_CHECK_EQUAL(builds, 1);
}

BOOST_AUTO_TEST_CASE(a_builder_that_throws_leaves_nothing) {
  numbers c;
  for (int i = 0; i < 3; ++i)
    BOOST_CHECK_EXCEPTION(c.get_or_create(1, []() -> int { throw std::runtime_error("no plan"); }), std::runtime_error,
                          [](const std::runtime_error& e) { return std::string(e.what()) == "no plan"; });
  BOOST_CHECK(!c.get(1));
  const auto got = c.get_or_create(1, [] { return 5; });
  BOOST_CHECK(got.value == 5 && got.lookup == cache_lookup::miss);
  BOOST_CHECK_EQUAL(c.statistics().builds, 4u);
}

// On one thread the order of hits and builds is exactly that of the single-threaded cache.
BOOST_AUTO_TEST_CASE(one_thread_sees_the_exact_order) {
  numbers c({.entries = 8});
  lru_cache<int, int> plain(8);
  unsigned state = 7;
  for (int step = 0; step < 2000; ++step) {
    state = state * 1664525u + 1013904223u;
    const int key = static_cast<int>(state >> 16) % 20;
    const auto got = c.get_or_create(key, [&] { return step + 1; });
    const auto expected = plain.get(key);
    BOOST_REQUIRE_EQUAL(got.lookup == cache_lookup::hit, expected.has_value());
    if (expected) BOOST_REQUIRE_EQUAL(got.value, *expected);
    else plain.put(key, got.value);
    if (step % 100 == 99) BOOST_REQUIRE_EQUAL(c.evict(3), plain.evict(3));
  }
}

BOOST_AUTO_TEST_CASE(evict_and_clear) {
  numbers c;
  for (int i = 1; i <= 5; ++i) c.get_or_create(i, [&] { return i; });
  c.get(1);
  BOOST_CHECK_EQUAL(c.evict(2), 2u);
  BOOST_CHECK(c.get(1) && !c.get(2) && !c.get(3) && c.get(4) && c.get(5));
  BOOST_CHECK_EQUAL(c.evict(100), 3u);
  c.get_or_create(6, [] { return 6; });
  c.clear();
  BOOST_CHECK(!c.get(6));
  BOOST_CHECK((c.statistics() == cache_statistics{.hits = 4, .misses = 9, .evictions = 5, .builds = 6}));
}

BOOST_AUTO_TEST_CASE(bytes_stay_below_their_limit) {
  const auto cost = [](const int&, const std::string& s) { return s.size(); };
  shared_cache<int, std::string> c({.entries = 100, .bytes = 1000}, cost);
  const auto add = [&](int key, std::size_t bytes) { c.get_or_create(key, [&] { return std::string(bytes, 'x'); }); };
  add(1, 400);
  add(2, 300);
  add(3, 300);
  BOOST_CHECK_EQUAL(c.statistics().bytes, 1000u);
  c.get(1);
  add(4, 301);  // evicts 2 and 3
  BOOST_CHECK(c.get(1) && !c.get(2) && !c.get(3) && c.get(4));
  BOOST_CHECK_EQUAL(c.statistics().bytes, 701u);
  add(5, 1001);  // larger than the limit: returned but not kept, and nothing is evicted
  BOOST_CHECK(!c.get(5) && c.get(1) && c.get(4));
  c.get_or_create(6, [] { return built{std::string("short"), 1000}; });  // the builder states the size
  BOOST_CHECK(c.get(6) && !c.get(1) && !c.get(4));
  BOOST_CHECK((c.statistics().bytes == 1000 && c.statistics().entries == 1));
  c.get_or_create(7, [] { return built{std::string("free"), 0}; });
  BOOST_CHECK_EQUAL(c.statistics().entries, 2u);
  c.clear();
  BOOST_CHECK_EQUAL(c.statistics().bytes, 0u);
}

BOOST_AUTO_TEST_CASE(a_visit_copies_nothing) {
  shared_cache<int, shared> c;
  const auto build = [] { return std::make_shared<counted>(7); };  // becomes a shared_ptr<const counted>
  long uses = 0;
  BOOST_CHECK(!c.visit(1, [&](const shared&) { uses = -1; }));
  BOOST_CHECK_EQUAL(uses, 0);
  BOOST_CHECK(c.visit(1, build, [&](const shared& p) { uses = p->number; }) == cache_lookup::miss);
  BOOST_CHECK_EQUAL(uses, 7);
  BOOST_CHECK(c.visit(1, build, [&](const shared& p) { uses = p.use_count(); }) == cache_lookup::hit);
  BOOST_CHECK_EQUAL(uses, 1);  // the cache's own handle
  BOOST_CHECK(
      (c.statistics() ==
       cache_statistics{.hits = 1, .misses = 2, .builds = 1, .entries = 1, .bytes = sizeof(int) + sizeof(shared)}));
}

BOOST_AUTO_TEST_CASE(what_is_visited_outlives_its_eviction) {
  {
    shared_cache<int, shared> c({.entries = 2});
    const auto put = [&](int key) {
      c.get_or_create(key, [&]() -> shared { return std::make_shared<const counted>(key); });
    };
    put(1);
    c.visit(1, [&](const shared& first) {
      for (int key = 2; key < 10; ++key) put(key);  // the cache is used during the visit
      BOOST_CHECK(!c.get(1));
      BOOST_CHECK_EQUAL(counted::alive, 3);
      BOOST_CHECK_EQUAL(first->number, 1);
      c.visit(9, [&](const shared&) {
        c.clear();
        put(1);  // the same key again
        BOOST_CHECK_EQUAL(counted::alive, 3);
      });
      BOOST_CHECK_EQUAL(counted::alive, 2);
      BOOST_CHECK_EQUAL(first->number, 1);
    });
    BOOST_CHECK_EQUAL(counted::alive, 1);
    const auto clear_and_throw = [&](const shared&) {
      c.clear();
      throw std::runtime_error("of the visitor");
    };
    BOOST_CHECK_THROW(c.visit(1, clear_and_throw), std::runtime_error);
    BOOST_CHECK_EQUAL(counted::alive, 0);
    put(3);
    BOOST_CHECK_EQUAL(c.size(), 1u);
  }
  BOOST_CHECK_EQUAL(counted::alive, 0);
}

BOOST_AUTO_TEST_CASE(sixteen_threads_build_once) {
  for (int again = 0; again < 20; ++again) {
    shared_cache<int, shared> c;
    std::atomic<int> builds{0}, misses{0};
    std::array<shared, 16> got;
    parallel_workers(16, [&](int w) {
      const auto one = c.get_or_create(1, [&]() -> shared {
        ++builds;
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        return std::make_shared<const counted>(1);
      });
      if (one.lookup == cache_lookup::miss) ++misses;
      got[static_cast<std::size_t>(w)] = one.value;
    });
    BOOST_CHECK_EQUAL(builds.load(), 1);
    for (const shared& one : got) BOOST_CHECK(one == got[0]);
    const auto s = c.statistics();
    BOOST_CHECK(s.builds == 1 && s.hits + s.misses == 16 && s.misses == static_cast<std::size_t>(misses.load()));
  }
}

BOOST_AUTO_TEST_CASE(no_build_blocks_another_key) {
  numbers c;
  c.get_or_create(1, [] { return 10; });
  door started, finish;
  std::thread builder([&] {
    c.get_or_create(2, [&] {
      started.open();
      finish.wait();
      return 20;
    });
  });
  started.wait();
  BOOST_CHECK(c.get_or_create(1, [] { return 11; }).value == 10);  // a hit
  BOOST_CHECK(c.get_or_create(3, [] { return 30; }).value == 30);  // a build
  BOOST_CHECK(c.visit(1, [](const int&) {}));
  BOOST_CHECK(!c.get(2));
  BOOST_CHECK_EQUAL(c.evict(1), 1u);
  finish.open();
  builder.join();
  BOOST_CHECK(c.get(2) == 20);
}

BOOST_AUTO_TEST_CASE(of_those_who_wait_for_a_failed_build_one_builds_next) {
  for (int again = 0; again < 10; ++again) {
    numbers c;
    std::atomic<int> builds{0}, failed{0}, inside{0}, overlaps{0};
    parallel_workers(16, [&](int w) {
      try {
        const auto got = c.get_or_create(1, [&] {
          if (inside++ != 0) ++overlaps;
          const int n = ++builds;
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
          --inside;
          if (n <= 3) throw failure{w};  // each caller gets the exception of its own builder
          return 42;
        });
        if (got.value != 42) ++overlaps;
      } catch (const failure& thrown) {
        if (thrown.of == w) ++failed;
      }
    });
    BOOST_CHECK_EQUAL(builds.load(), 4);
    BOOST_CHECK_EQUAL(failed.load(), 3);
    BOOST_CHECK_EQUAL(overlaps.load(), 0);
    BOOST_CHECK_EQUAL(c.statistics().builds, 4u);
  }
}

// Whether the second thread arrives during the first one's build depends on scheduling; it does so sooner or later.
BOOST_AUTO_TEST_CASE(those_who_wait_get_an_empty_value_too) {
  bool waited = false;
  for (int again = 0; again < 50 && !waited; ++again) {
    shared_cache<int, shared> c;
    door started;
    std::atomic<int> builds{0};
    const auto build = [&]() -> shared {
      ++builds;
      started.open();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      return nullptr;
    };
    std::thread builder([&] { c.get_or_create(1, build); });
    started.wait();
    const auto got = c.get_or_create(1, build);
    builder.join();
    BOOST_CHECK(!got.value && got.lookup == cache_lookup::miss);
    BOOST_CHECK_EQUAL(c.size(), 0u);
    waited = builds == 1;
  }
  BOOST_CHECK(waited);
}

BOOST_AUTO_TEST_CASE(a_build_from_before_clear_is_not_kept) {
  for (bool asked_meanwhile : {false, true}) {
    numbers c;
    door started, finish;
    int old_value = 0;
    const auto old_build = [&] {
      started.open();
      finish.wait();
      return 10;
    };
    std::thread builder([&] { old_value = c.get_or_create(1, old_build).value; });
    started.wait();
    c.clear();
    if (asked_meanwhile) BOOST_CHECK(c.get_or_create(1, [] { return 20; }).value == 20);  // does not wait
    finish.open();
    builder.join();
    BOOST_CHECK_EQUAL(old_value, 10);
    BOOST_CHECK(c.get(1) == (asked_meanwhile ? std::optional(20) : std::nullopt));
  }
}

BOOST_AUTO_TEST_CASE(a_builder_may_ask_for_other_keys) {
  numbers c;
  const auto sum_to = [&](auto& self, int n) -> int {
    return c.get_or_create(n, [&] { return n == 1 ? 1 : n + self(self, n - 1); }).value;
  };
  BOOST_CHECK_EQUAL(sum_to(sum_to, 20), 210);
  BOOST_CHECK_EQUAL(c.size(), 20u);
}

BOOST_AUTO_TEST_CASE(builders_that_wait_in_a_circle_are_told) {
  numbers c;
  const auto in_words = [](const state_error& e) {
    return std::string(e.what()) ==
           "a cache builder requests the key that it is building, directly or through another "
           "builder";
  };
  const auto ask_itself = [&] { return c.get_or_create(1, [] { return 2; }).value; };
  BOOST_CHECK_EXCEPTION(c.get_or_create(1, ask_itself), state_error, in_words);
  BOOST_CHECK_EQUAL(c.size(), 0u);
  std::atomic<int> inside{0}, told{0};
  parallel_workers(2, [&](int w) {
    try {
      c.get_or_create(10 + w, [&] {
        ++inside;
        while (inside < 2) std::this_thread::yield();
        return c.get_or_create(11 - w, [] { return 5; }).value + 1;
      });
    } catch (const state_error&) { ++told; }
  });
  BOOST_CHECK_EQUAL(told.load(), 1);  // the other thread builds the key that it waited for
  BOOST_CHECK((c.get(10) == 6 || c.get(11) == 6));
}

// Many threads, a small limit: hits, visits, builds, failures, evictions and clearing all at once.
BOOST_AUTO_TEST_CASE(churn) {
  {
    const auto cost = [](const int& k, const shared&) { return static_cast<std::size_t>(300 + 5 * k); };
    shared_cache<int, shared> c({.entries = 12, .bytes = 4000}, cost);
    std::atomic<int> wrong{0};
    std::atomic<std::size_t> built_here{0};
    parallel_workers(6, [&](int w) {
      unsigned state = static_cast<unsigned>(w) + 1;
      for (int step = 0; step < 3000; ++step) {
        state = state * 1664525u + 1013904223u;
        const int key = static_cast<int>(state >> 8) % 40;
        const auto build = [&]() -> shared {
          ++built_here;
          if (step % 97 == 0) throw failure{key};
          return std::make_shared<const counted>(key);
        };
        try {
          if (step % 3 == 0) {
            c.visit(key, build, [&](const shared& p) {
              if (p->number != key) ++wrong;
              if (step % 30 == 0) std::this_thread::yield();
              if (p->number != key) ++wrong;
            });
          } else if (c.get_or_create(key, build).value->number != key) {
            ++wrong;
          }
        } catch (const failure& thrown) {
          if (thrown.of != key) ++wrong;
        }
        if (step % 500 == 499) c.evict(3);
        if (step % 1000 == 999) c.clear();
        if (step % 50 == 0) {
          const auto s = c.statistics();
          if (s.entries > 12 || s.bytes > 4000) ++wrong;
        }
      }
    });
    const auto s = c.statistics();
    BOOST_CHECK_EQUAL(wrong.load(), 0);
    BOOST_CHECK_EQUAL(s.builds, built_here.load());
    BOOST_CHECK_EQUAL(s.hits + s.misses, 6u * 3000u);
    BOOST_CHECK_EQUAL(static_cast<std::size_t>(counted::alive.load()), s.entries);
  }
  BOOST_CHECK_EQUAL(counted::alive, 0);
}

BOOST_AUTO_TEST_CASE(a_key_with_a_nan_is_built_each_time) {
  shared_cache<float, std::shared_ptr<int>> cache({.entries = 10});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto value = std::make_shared<int>(3);
  for (int i = 0; i < 100; ++i) {
    const auto got = cache.get_or_create(nan, [&] { return value; });
    BOOST_CHECK(got.lookup == cache_lookup::miss);
    BOOST_CHECK_EQUAL(*got.value, 3);
  }
  const auto s = cache.statistics();
  BOOST_CHECK_EQUAL(s.entries, 0u);
  BOOST_CHECK_EQUAL(s.builds, 100u);
  BOOST_CHECK_EQUAL(value.use_count(), 1);  // neither the cache nor a pending build holds it
}

BOOST_AUTO_TEST_SUITE_END()
