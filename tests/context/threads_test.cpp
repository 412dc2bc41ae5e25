// The thread pool and the workers of a program.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

import lamina;

using namespace lamina;

namespace {

// Counts for every index how often it ran, and for every worker whether two calls overlapped.
struct ledger {
  explicit ledger(std::size_t n, int workers) : ran(n), inside(static_cast<std::size_t>(workers)) {}
  std::vector<std::atomic<int>> ran;
  std::vector<std::atomic<int>> inside;
  std::atomic<bool> wrong{false};

  static void note(void* state, std::size_t i, int worker) {
    auto& l = *static_cast<ledger*>(state);
    if (worker < 0 || static_cast<std::size_t>(worker) >= l.inside.size() || l.inside[static_cast<std::size_t>(worker)]++ != 0) l.wrong = true;
    ++l.ran[i];
    --l.inside[static_cast<std::size_t>(worker)];
  }
};

void runs_everything_once(thread_pool& pool, std::size_t n) {
  ledger l(n, pool.threads());
  pool.run(n, &ledger::note, &l);
  bool once = true;
  for (auto& count : l.ran) once &= count == 1;
  BOOST_CHECK(once);
  BOOST_CHECK(!l.wrong);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(threads)

BOOST_AUTO_TEST_CASE(a_pool_runs_every_index_once) {
  for (int threads : {1, 2, 3, 5}) {
    thread_pool pool(threads);
    BOOST_CHECK_EQUAL(pool.threads(), threads);
    for (std::size_t n : {0u, 1u, 2u, 7u, 1000u}) runs_everything_once(pool, n);
    for (int again = 0; again < 300; ++again) runs_everything_once(pool, 8);
  }
}

BOOST_AUTO_TEST_CASE(a_pool_wakes_from_sleep) {
  thread_pool pool(3);
  for (int again = 0; again < 5; ++again) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));   // beyond the time that threads spin
    runs_everything_once(pool, 50);
  }
}

BOOST_AUTO_TEST_CASE(a_pool_that_was_never_used_ends) {
  for (int i = 0; i < 20; ++i) thread_pool pool(3);
  thread_pool none(0);
  BOOST_CHECK_EQUAL(none.threads(), 1);
}

BOOST_AUTO_TEST_CASE(a_pool_with_one_thread_works_on_the_caller) {
  thread_pool pool(1);
  std::set<std::thread::id> seen;
  pool.run(10, [](void* s, std::size_t, int) { static_cast<std::set<std::thread::id>*>(s)->insert(std::this_thread::get_id()); }, &seen);
  BOOST_CHECK((seen == std::set<std::thread::id>{std::this_thread::get_id()}));
}

BOOST_AUTO_TEST_CASE(two_threads_may_use_one_pool) {
  thread_pool pool(2);
  std::atomic<int> sum{0};
  auto use = [&] {
    for (int again = 0; again < 100; ++again)
      pool.run(10, [](void* s, std::size_t, int) { ++*static_cast<std::atomic<int>*>(s); }, &sum);
  };
  std::thread other(use);
  use();
  other.join();
  BOOST_CHECK_EQUAL(sum, 2000);
}

BOOST_AUTO_TEST_CASE(workers_run_once_each_on_threads_of_their_own) {
  std::vector<std::thread::id> ids(4);
  parallel_workers(4, [&](int w) { ids[static_cast<std::size_t>(w)] = std::this_thread::get_id(); });
  BOOST_CHECK_EQUAL(std::set<std::thread::id>(ids.begin(), ids.end()).size(), 4u);
  parallel_workers(0, [](int) { BOOST_ERROR("no worker was asked for"); });
}

BOOST_AUTO_TEST_CASE(the_exception_of_a_worker_reaches_the_caller_after_all_have_ended) {
  for (int failing = 0; failing < 3; ++failing) {
    std::atomic<int> ended{0};
    auto work = [&](int w) {
      if (w == failing) throw value_error("worker " + std::to_string(w));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++ended;
    };
    BOOST_CHECK_EXCEPTION(parallel_workers(3, work), value_error, [&](const error& e) { return e.what() == "worker " + std::to_string(failing); });
    BOOST_CHECK_EQUAL(ended, 2);
  }
}

BOOST_AUTO_TEST_SUITE_END()
