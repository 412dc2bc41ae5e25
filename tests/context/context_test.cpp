// Contexts: their threads, and one slot for each type, whichever thread requests it first.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

import lamina;

using namespace lamina;

namespace {

struct counted {
  static inline std::atomic<int> made{0}, alive{0};
  int value = 0;
  counted() {
    ++made;
    ++alive;
  }
  ~counted() { --alive; }
};
template <int N> struct numbered {
  int value = N;
};

template <int... N> bool all_there(context& c, std::integer_sequence<int, N...>) {
  return ((c.slot<numbered<N>>().value == N) && ...);
}

// An entry that must outlive an entry made later.
struct first_made {
  int value = 7;
};
struct second_made {
  first_made* first = nullptr;
  static inline int seen = 0;
  ~second_made() {
    if (first) seen = first->value;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(contexts)

BOOST_AUTO_TEST_CASE(a_slot_is_made_once_and_goes_with_its_context) {
  {
    context a, b;
    a.slot<counted>().value = 5;
    BOOST_CHECK_EQUAL(a.slot<counted>().value, 5);
    BOOST_CHECK_EQUAL(b.slot<counted>().value, 0);
    BOOST_CHECK_EQUAL(counted::alive, 2);
  }
  BOOST_CHECK_EQUAL(counted::alive, 0);
}

BOOST_AUTO_TEST_CASE(threads_that_race_for_a_slot_get_the_same) {
  for (int again = 0; again < 50; ++again) {
    context c;
    int before = counted::made;
    std::vector<counted*> got(4);
    parallel_workers(4, [&](int w) { got[static_cast<std::size_t>(w)] = &c.slot<counted>(); });
    BOOST_CHECK_EQUAL(std::set<counted*>(got.begin(), got.end()).size(), 1u);
    BOOST_CHECK_EQUAL(counted::made - before, 1);
  }
}

BOOST_AUTO_TEST_CASE(types_have_slots_of_their_own) {
  context c;
  BOOST_CHECK(all_there(c, std::make_integer_sequence<int, 60>{}));
  BOOST_CHECK(all_there(c, std::make_integer_sequence<int, 60>{}));
}

BOOST_AUTO_TEST_CASE(what_was_made_later_goes_first) {
  {
    context c;
    auto& first = c.slot<first_made>();
    c.slot<second_made>().first = &first;
  }
  BOOST_CHECK_EQUAL(second_made::seen, 7);
}

BOOST_AUTO_TEST_CASE(threads_are_as_asked) {
  const isa set = machine_has(isa::sse2) ? isa::sse2 : isa::neon64;
  context two(2, set), all(0, set);
  BOOST_CHECK_EQUAL(two.threads(), 2);
  BOOST_CHECK_EQUAL(two.pool().threads(), 2);
  BOOST_CHECK_EQUAL(all.threads(), available_cores());
  BOOST_CHECK_GE(available_cores(), 1);
  BOOST_CHECK_EQUAL(default_context().threads(), 1);
  BOOST_CHECK(&default_context() == &default_context());
  BOOST_CHECK(two.isa() == set);
}

BOOST_AUTO_TEST_CASE(a_number_of_threads_beyond_all_machines_is_refused) {
  BOOST_CHECK_EQUAL(context(1024, target_isa()).threads(), 1024);
  for (int threads : {1025, 2147483647}) BOOST_CHECK_THROW(context(threads, target_isa()), value_error);
  BOOST_CHECK_EXCEPTION(context(100000, target_isa()), value_error, [](const value_error& e) {
    return std::string_view(e.what()) == "context: 100000 threads requested, and at most 1024 are allowed";
  });
  BOOST_CHECK_EXCEPTION(thread_pool(1025), value_error, [](const value_error& e) {
    return std::string_view(e.what()) == "thread_pool: 1025 threads requested, and at most 1024 are allowed";
  });
  int called = 0;
  BOOST_CHECK_EXCEPTION(parallel_workers(2147483647, [&](int) { ++called; }), value_error, [](const value_error& e) {
    return std::string_view(e.what()) == "parallel_workers: 2147483647 threads requested, and at most 1024 are allowed";
  });
  BOOST_CHECK_EQUAL(called, 0);
}

BOOST_AUTO_TEST_SUITE_END()
