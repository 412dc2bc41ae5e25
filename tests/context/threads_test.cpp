// The thread pool and the workers of a program.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

import lamina;

using namespace lamina;

namespace {

// Counts how often each index ran, and whether two calls of a worker overlapped.
struct ledger {
  explicit ledger(std::size_t n, int workers) : ran(n), inside(static_cast<std::size_t>(workers)) {}
  std::vector<std::atomic<int>> ran;
  std::vector<std::atomic<int>> inside;
  std::atomic<bool> wrong{false};

  static void note(void* state, std::size_t i, int worker) {
    auto& l = *static_cast<ledger*>(state);
    if (worker < 0 || static_cast<std::size_t>(worker) >= l.inside.size() ||
        l.inside[static_cast<std::size_t>(worker)]++ != 0)
      l.wrong = true;
    ++l.ran[i];
    --l.inside[static_cast<std::size_t>(worker)];
  }
};

// Runs a function object on a pool.
template <class F> void run(thread_pool& pool, std::size_t n, const F& f) {
  pool.run(n, [](void* s, std::size_t i, int worker) { (*static_cast<const F*>(s))(i, worker); }, const_cast<F*>(&f));
}

double cpu_seconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

// A scheduler that makes the calls in order on one thread.
struct in_turn {
  int concurrency() const { return 4; }
  template <class F> void bulk(std::size_t n, const F& f) const {
    for (std::size_t i = n; i-- > 0;) f(i);
  }
};

// Records a run in stages, and whether a call began before the previous stage had ended.
struct staged_ledger {
  explicit staged_ledger(std::vector<std::size_t> of) : sizes(std::move(of)), ran(sizes.size()), ended(sizes.size()) {
    for (std::size_t s = 0; s < sizes.size(); ++s) ran[s] = std::vector<std::atomic<int>>(sizes[s]);
  }
  std::vector<std::size_t> sizes;
  std::vector<std::vector<std::atomic<int>>> ran;
  std::vector<std::atomic<std::size_t>> ended;
  std::atomic<bool> early{false};
  std::size_t failing = static_cast<std::size_t>(-1);  // a stage whose second call throws

  void run(thread_pool& pool) {
    pool.run_stages(
        {.stages = sizes.size(),
         .size = [](const void* l, std::size_t s) { return static_cast<const staged_ledger*>(l)->sizes[s]; },
         .f = [](void* l, std::size_t s, std::size_t i, int) { static_cast<staged_ledger*>(l)->note(s, i); },
         .state = this});
  }
  bool all_once() const {
    for (const auto& stage : ran)
      for (const auto& count : stage)
        if (count != 1) return false;
    return true;
  }

 private:
  void note(std::size_t s, std::size_t i) {
    for (std::size_t before = 0; before < s; ++before) early = early || ended[before] != sizes[before];
    if (s == failing && i == 1) throw std::runtime_error("the second call");
    if ((s + i) % 3 == 0) std::this_thread::yield();
    ++ran[s][i];
    ++ended[s];
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
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than threads spin
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
  pool.run(
      10,
      [](void* s, std::size_t, int) { static_cast<std::set<std::thread::id>*>(s)->insert(std::this_thread::get_id()); },
      &seen);
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

BOOST_AUTO_TEST_CASE(the_exception_of_a_job_reaches_the_caller_and_the_pool_goes_on) {
  for (int threads : {1, 3}) {
    thread_pool pool(threads);
    for (std::size_t failing : {0u, 7u, 49u}) {
      std::atomic<int> ran{0};
      auto job = [&](std::size_t i, int) {
        if (i == failing) throw value_error("job " + std::to_string(i));
        ++ran;
      };
      BOOST_CHECK_EXCEPTION(run(pool, 50, job), value_error,
                            [&](const error& e) { return e.what() == "job " + std::to_string(failing); });
      BOOST_CHECK_LE(ran, 49);
      runs_everything_once(pool, 50);
    }
    BOOST_CHECK_THROW(run(pool, 50, [](std::size_t, int) { throw 1; }), int);
    runs_everything_once(pool, 50);
  }
}

BOOST_AUTO_TEST_CASE(a_run_inside_a_job_of_its_pool_is_done_by_that_worker) {
  thread_pool pool(3);
  std::atomic<int> inner{0}, wrong{0};
  run(pool, 20, [&](std::size_t, int worker) {
    const auto me = std::this_thread::get_id();
    run(pool, 10, [&](std::size_t, int w) {
      ++inner;
      if (w != worker || std::this_thread::get_id() != me) ++wrong;
    });
  });
  BOOST_CHECK_EQUAL(inner, 200);
  BOOST_CHECK_EQUAL(wrong, 0);
  runs_everything_once(pool, 50);
}

BOOST_AUTO_TEST_CASE(pools_may_use_each_other_in_their_jobs) {
  thread_pool a(2), b(3);
  std::atomic<int> inner{0};
  for (int again = 0; again < 20; ++again)
    run(a, 4,
        [&](std::size_t, int) { run(b, 4, [&](std::size_t, int) { run(a, 4, [&](std::size_t, int) { ++inner; }); }); });
  BOOST_CHECK_EQUAL(inner, 20 * 64);
}

BOOST_AUTO_TEST_CASE(threads_that_have_nothing_to_do_use_no_cpu_time) {
  context where(4, target_isa());
  std::atomic<int> sum{0};
  for (int again = 0; again < 100; ++again) run(where.pool(), 50, [&](std::size_t, int) { ++sum; });
  BOOST_CHECK_EQUAL(sum, 5000);
  const double before = cpu_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  BOOST_CHECK_LE(cpu_seconds() - before, 0.02);
}

BOOST_AUTO_TEST_CASE(workers_run_once_each_on_threads_of_their_own) {
  std::vector<std::thread::id> ids(4);
  parallel_workers(4, [&](int w) { ids[static_cast<std::size_t>(w)] = std::this_thread::get_id(); });
  BOOST_CHECK_EQUAL(std::set<std::thread::id>(ids.begin(), ids.end()).size(), 4u);
  std::atomic<int> workers{0};
  parallel_workers(0, [&](int) { ++workers; });
  BOOST_CHECK_EQUAL(workers, available_cores());
}

BOOST_AUTO_TEST_CASE(the_exception_of_a_worker_reaches_the_caller_after_all_have_ended) {
  for (int failing = 0; failing < 3; ++failing) {
    std::atomic<int> ended{0};
    auto work = [&](int w) {
      if (w == failing) throw value_error("worker " + std::to_string(w));
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      ++ended;
    };
    BOOST_CHECK_EXCEPTION(parallel_workers(3, work), value_error,
                          [&](const error& e) { return e.what() == "worker " + std::to_string(failing); });
    BOOST_CHECK_EQUAL(ended, 2);
  }
}

BOOST_AUTO_TEST_CASE(when_several_workers_fail_none_is_lost) {
  auto wait_for = [](std::atomic<int>& n, int wanted) {
    while (n < wanted) std::this_thread::yield();
  };
  std::atomic<int> turn{0};
  auto fail_in_turn = [&](int w, auto fail) {
    wait_for(turn, w);
    struct next {
      std::atomic<int>& turn;
      ~next() { ++turn; }
    } after{turn};
    std::this_thread::sleep_for(std::chrono::milliseconds(1));  // so that the previous error is recorded first
    fail();
  };
  auto first_of_ours = [&](int w) {
    fail_in_turn(w, [&] {
      if (w == 0) throw shape_error("worker 0");
      if (w == 2) throw 17;
    });
  };
  BOOST_CHECK_EXCEPTION(parallel_workers(4, first_of_ours), shape_error, [](const shape_error& e) {
    BOOST_CHECK_EQUAL(e.what(), "worker 0 (2 of 4 workers have failed)");
    auto* all = dynamic_cast<const worker_failures*>(&e);
    BOOST_REQUIRE(all);
    BOOST_REQUIRE_EQUAL(all->all().size(), 2u);
    BOOST_CHECK_THROW(std::rethrow_exception(all->all()[0]), shape_error);
    BOOST_CHECK_THROW(std::rethrow_exception(all->all()[1]), int);
    return true;
  });
  turn = 0;
  auto another_library = [&](int w) {
    fail_in_turn(w, [&] { throw std::logic_error("worker " + std::to_string(w)); });
  };
  BOOST_CHECK_EXCEPTION(parallel_workers(3, another_library), error, [](const error& e) {
    BOOST_CHECK_EQUAL(e.what(), "worker 0 (3 of 3 workers have failed)");
    return dynamic_cast<const worker_failures&>(e).all().size() == 3;
  });
  turn = 0;
  auto no_message = [&](int w) { fail_in_turn(w, [] { throw 1; }); };
  BOOST_CHECK_EXCEPTION(parallel_workers(2, no_message), worker_failures,
                        [](const worker_failures& e) { return e.all().size() == 2; });
  auto no_memory = [](int) { memory::allocate(std::size_t(1) << 60); };
  BOOST_CHECK_EXCEPTION(parallel_workers(2, no_memory), out_of_memory,
                        [](const out_of_memory& e) { return e.requested() == std::size_t(1) << 60; });
  auto no_plan = [](int) { throw out_of_memory("none", 1, 2, 3, 4); };
  BOOST_CHECK_EXCEPTION(parallel_workers(2, no_plan), out_of_memory,
                        [](const out_of_memory& e) { return e.limit() == 3 && e.planned() == 4; });
}

// Sanitizers need more address space than a limit leaves.
#if !__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer)
BOOST_AUTO_TEST_CASE(a_thread_that_cannot_be_started) {
  const pid_t child = ::fork();
  BOOST_REQUIRE(child >= 0);
  if (child == 0) {
    int wrong = 1;
    try {
      // Stacks of 16 GiB do not fit into a process of 8 GiB; those of ended threads are too small to be reused.
      ::pthread_attr_t large;
      ::pthread_attr_init(&large);
      ::pthread_attr_setstacksize(&large, std::size_t(16) << 30);
      ::pthread_setattr_default_np(&large);
      const ::rlimit limit{::rlim_t(8) << 30, ::rlim_t(8) << 30};
      ::setrlimit(RLIMIT_AS, &limit);
      thread_pool pool(4);
    } catch (const resource_error& e) {
      wrong =
          std::string_view(e.what()) == "thread_pool: thread 2 of 4 cannot be started: Resource temporarily unavailable"
              ? 0
              : 2;
    } catch (...) { wrong = 3; }
    ::_exit(wrong);
  }
  int status = 0;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST((WIFEXITED(status) && WEXITSTATUS(status) == 0), "status " << status);
}
#endif

BOOST_AUTO_TEST_CASE(stages_follow_each_other) {
  const std::vector<std::size_t> sizes[] = {
      {1}, {0, 0, 5}, {1, 16, 1, 1, 3, 0, 2, 1}, {7, 0}, {2, 2, 2, 2, 2, 2, 2, 2}, {}, {1, 1, 1}, {100, 1, 33}};
  for (const int threads : {1, 2, 3, 8}) {
    thread_pool pool(threads);
    for (int round = 0; round < 200; ++round)
      for (const auto& of : sizes) {
        staged_ledger l(of);
        l.run(pool);
        BOOST_TEST_REQUIRE(l.all_once());
        BOOST_TEST_REQUIRE(!l.early);
      }
  }
}

BOOST_AUTO_TEST_CASE(a_failure_ends_the_stages) {
  thread_pool pool(3);
  for (int round = 0; round < 100; ++round) {
    staged_ledger l({4, 6, 1, 5, 2});
    l.failing = round % 2 ? 1 : 3;
    BOOST_CHECK_THROW(l.run(pool), std::runtime_error);
    BOOST_TEST(l.ended[l.failing] < l.sizes[l.failing]);
    BOOST_TEST(l.ended[4] == 0u);
    staged_ledger next({4, 6, 1, 5, 2});
    next.run(pool);
    BOOST_TEST(next.all_once());
  }
}

// Lanes that a scheduler runs in order, or the last of them late, take the remaining work.
BOOST_AUTO_TEST_CASE(stages_need_no_second_lane) {
  thread_pool pool{in_turn()};
  staged_ledger l({3, 1, 9, 4});
  l.run(pool);
  BOOST_TEST(l.all_once());
  BOOST_TEST(!l.early);
}

BOOST_AUTO_TEST_SUITE_END()
