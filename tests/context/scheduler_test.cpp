// User-defined schedulers: their required members, and the same bits as on a pool.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

import lamina;

using namespace lamina;

namespace {

// Starts a thread for each call.
struct thread_per_call {
  int width = 3;
  std::atomic<int>* calls = nullptr;
  int concurrency() const { return width; }
  template <class F> void bulk(std::size_t n, F f) const {
    if (calls) ++*calls;
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < n; ++i) threads.emplace_back([=] { f(i); });
    for (auto& t : threads) t.join();
  }
};
// A possible interface of another library's pool.
struct foreign_pool {
  std::size_t concurrency() { return 4; }
  void bulk(std::size_t n, const std::function<void(std::size_t)>& f) {
    std::thread([&] {
      for (std::size_t i = n; i-- > 0;) f(i);
    }).join();
  }
};
// All calls on the calling thread, in order.
struct one_after_the_other {
  int concurrency() const { return 5; }
  template <class F> void bulk(std::size_t n, const F& f) const {
    for (std::size_t i = 0; i < n; ++i) f(i);
  }
};
struct forgetful : one_after_the_other {
  template <class F> void bulk(std::size_t n, const F& f) const {
    for (std::size_t i = 1; i < n; ++i) f(i);
  }
};
struct busy_body : one_after_the_other {
  template <class F> void bulk(std::size_t n, const F& f) const {
    for (std::size_t i = 0; i < 3 * n; ++i) f(i % n);
  }
};
struct failing : one_after_the_other {
  template <class F> void bulk(std::size_t, const F&) const { throw std::runtime_error("no threads today"); }
};
struct of_width {
  int width;
  int concurrency() const { return width; }
  template <class F> void bulk(std::size_t n, const F& f) const {
    for (std::size_t i = 0; i < n; ++i) f(i);
  }
};
// Cannot be moved, so it is passed by reference.
struct pinned : one_after_the_other {
  pinned() = default;
  pinned(const pinned&) = delete;
  pinned& operator=(const pinned&) = delete;
};
struct no_width {
  void bulk(std::size_t, const std::function<void(std::size_t)>&) {}
};
struct no_bulk {
  int concurrency() { return 1; }
};

static_assert(Scheduler<thread_per_call> && Scheduler<foreign_pool> && Scheduler<one_after_the_other> &&
              Scheduler<pinned> && Scheduler<thread_pool>);
static_assert(!Scheduler<no_width> && !Scheduler<no_bulk> && !Scheduler<int>);
static_assert(std::constructible_from<context, pinned&> && !std::constructible_from<context, no_bulk> &&
              !std::constructible_from<context, no_width&>);
static_assert(!std::copy_constructible<context> && !std::constructible_from<context, context&>);

// Every index runs once, workers are below the width, and no worker has two calls at once.
void runs_everything_once(context& where) {
  struct ledger {
    std::vector<std::atomic<int>> ran = std::vector<std::atomic<int>>(100), inside = std::vector<std::atomic<int>>(8);
    std::atomic<bool> wrong{false};
    int width = 0;
  };
  for (std::size_t n : {0u, 1u, 2u, 5u, 100u}) {
    ledger l;
    l.width = where.threads();
    where.pool().run(
        n,
        [](void* s, std::size_t i, int worker) {
          auto& at = *static_cast<ledger*>(s);
          if (worker < 0 || worker >= at.width || at.inside[static_cast<std::size_t>(worker)]++ != 0) at.wrong = true;
          ++at.ran[i];
          --at.inside[static_cast<std::size_t>(worker)];
        },
        &l);
    for (std::size_t i = 0; i < 100; ++i) BOOST_CHECK_EQUAL(l.ran[i], i < n ? 1 : 0);
    BOOST_CHECK(!l.wrong);
  }
}

matrix<float> numbers(std::int64_t rows, std::int64_t columns, int seed) {
  matrix<float> m(rows, columns);
  auto out = m.writable();
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = philox(seed, 3).uniform<float>(i);
  return m;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(schedulers)

BOOST_AUTO_TEST_CASE(work_is_done_on_them) {
  std::atomic<int> calls{0};
  thread_per_call threads{3, &calls};
  one_after_the_other in_order;
  pinned stays;
  foreign_pool foreign;
  thread_pool pool(2);
  context on_threads(threads), moved(thread_per_call{2}), ordered(in_order), referred(stays), another(foreign),
      shared(pool), again(pool);
  BOOST_CHECK_EQUAL(on_threads.threads(), 3);
  BOOST_CHECK_EQUAL(another.threads(), 4);
  BOOST_CHECK_EQUAL(ordered.pool().threads(), 5);
  for (context* c : {&on_threads, &moved, &ordered, &referred, &another, &shared, &again}) runs_everything_once(*c);
  BOOST_CHECK_EQUAL(calls, 3);  // for 2, 5 and 100 indices
}

BOOST_AUTO_TEST_CASE(a_scheduler_is_asked_for_no_more_than_its_width) {
  struct counting : one_after_the_other {
    std::vector<std::size_t>* asked;
    void bulk(std::size_t n, const std::function<void(std::size_t)>& f) const {
      asked->push_back(n);
      for (std::size_t i = 0; i < n; ++i) f(i);
    }
  };
  std::vector<std::size_t> asked;
  counting c;
  c.asked = &asked;
  context where(c);
  runs_everything_once(where);
  BOOST_CHECK((asked == std::vector<std::size_t>{2, 5, 5}));
}

BOOST_AUTO_TEST_CASE(results_have_the_bits_of_one_thread) {
  const auto a = numbers(300, 200, 1), b = numbers(200, 250, 2);
  auto compute = [&](context& where) {
    return evaluate(tanh(matmul(a, b)) + reduce_sum<axes(0)>(matmul(a, b)), where);
  };
  const auto expected = compute(default_context());
  thread_per_call threads;
  one_after_the_other in_order;
  foreign_pool foreign;
  busy_body too_often;
  context on_threads(threads), ordered(in_order), another(foreign), often(too_often);
  for (context* c : {&on_threads, &ordered, &another, &often}) {
    const auto got = compute(*c);
    BOOST_CHECK(std::memcmp(got.data().data(), expected.data().data(), expected.data().size() * sizeof(float)) == 0);
  }
}

BOOST_AUTO_TEST_CASE(what_a_job_throws_passes_through) {
  thread_per_call threads;
  context where(threads);
  auto fail = [](void*, std::size_t i, int) {
    if (i == 3) throw value_error("job 3");
  };
  for (int again = 0; again < 3; ++again)
    BOOST_CHECK_EXCEPTION(where.pool().run(20, fail, nullptr), value_error,
                          [](const error& e) { return std::string_view(e.what()) == "job 3"; });
  runs_everything_once(where);
}

BOOST_AUTO_TEST_CASE(a_scheduler_that_does_not_do_its_work_is_told) {
  forgetful forgets;
  context one_too_few(forgets);
  auto nothing = [](void*, std::size_t, int) {};
  BOOST_CHECK_EXCEPTION(one_too_few.pool().run(20, nothing, nullptr), state_error, [](const error& e) {
    return std::string_view(e.what()) == "scheduler: `bulk(5, f)` has returned after 4 calls of f";
  });
  failing fails;
  context never(fails);
  for (int again = 0; again < 2; ++again) BOOST_CHECK_THROW(never.pool().run(20, nothing, nullptr), std::runtime_error);
  for (int width : {0, -3, 1025})
    BOOST_CHECK_EXCEPTION(context(of_width{width}), value_error, [&](const error& e) {
      return e.what() == "context: scheduler concurrency: expected 1 to 1024; got " + std::to_string(width);
    });
  context alone(of_width{1});
  runs_everything_once(alone);
}

BOOST_AUTO_TEST_SUITE_END()
