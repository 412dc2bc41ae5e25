// Runs that another thread stops: where they end, what they leave unchanged, and that everything can run again.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>
#include <version>
#ifdef __cpp_lib_jthread
#include <stop_token>
#endif

import lamina;

#include "graph.h"
#include "stop.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

struct flag {
  const std::atomic<bool>* is;
  bool stop_requested() const noexcept { return is->load(); }
};

matrix<float> table(std::int64_t rows, std::int64_t columns, int seed) {
  return to_tensor(random_array(dtype::float32, {rows, columns}, seed)).as<float, extents<dyn, dyn>>();
}

// A program of inputs that is planned once and run repeatedly.
struct planned {
  small_graph g;
  std::unique_ptr<executor> run;
  std::vector<any_tensor> in, out;

  void make(thread_pool* pool = nullptr, const pass_options& options = {}) {
    const auto p = g.make(options);
    run = std::make_unique<executor>(p, &g.store, pool);
    for (std::size_t i = 0; i < g.data.size(); ++i) run->bind_input(i, in.emplace_back(to_tensor(g.data[i])).data());
    for (std::size_t i = 0; i < p->output_types().size(); ++i)
      run->bind_output(i, out.emplace_back(p->output_types()[i]).mutable_data());
  }
  std::vector<array> operator()() {
    run->run();
    std::vector<array> all;
    for (const auto& t : out) all.push_back(from_tensor(t));
    return all;
  }
};
bool equal(const std::vector<array>& a, const std::vector<array>& b) {
  bool same = a.size() == b.size();
  for (std::size_t i = 0; same && i < a.size(); ++i) same = same_bits(a[i], b[i]);
  return same;
}

// h' = tanh(x w + h) over `iterations` rows, with the sum of each row; with another scan inside if `nested`.
std::vector<value> scanned(const value& start, const value& x, const value& w, bool nested) {
  const auto body = std::make_shared<program>();
  const value h = body->input("h", start.type()),
              row = body->input("x", {dtype::float32, {x.shape()[1], x.shape()[2]}}), v = body->input("w", w.type());
  value next = tanh(matmul(row, v) + h);
  if (nested) {
    const auto inner = std::make_shared<program>();
    const value c = inner->input("c", {dtype::float32, {x.shape()[2]}}),
                one = inner->input("r", {dtype::float32, {x.shape()[2]}});
    inner->output("c", sin(c + one));
    const value zero = reduce_sum(next, {.axes = axes(0)}) * 0;
    next = next + scan(inner, {&zero, 1}, {&next, 1}, {})[0];
  }
  body->output("h", next);
  body->output("y", reduce_sum(next, {.axes = axes(1)}));
  return scan(body, {&start, 1}, {&x, 1}, {&w, 1});
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stopping)

BOOST_AUTO_TEST_CASE(a_token_that_stays_quiet_changes_nothing) {
  auto x = table(17, 9, 1), w = table(9, 5, 2);
  const auto wanted = from_tensor(evaluate(tanh(matmul(x, w)) + 1.f));
  const std::atomic<bool> never_set{false};
  {
    const stop_scope scope(flag{&never_set});
    BOOST_TEST(!stop_requested());
    BOOST_TEST(same_bits(from_tensor(evaluate(tanh(matmul(x, w)) + 1.f)), wanted));
  }
  BOOST_TEST(!stop_requested());
}

BOOST_AUTO_TEST_CASE(a_run_ends_before_any_of_its_operations) {
  planned net;
  const value x = net.g.input(random_array(dtype::float32, {12, 8}, 1)),
              w = net.g.input(random_array(dtype::float32, {8, 8}, 2), "w");
  net.g.p.path = "first";
  const value y = matmul(x, w);
  net.g.p.path = "second";
  const value z = softmax(y);
  net.g.p.path = "third";
  net.g.output(matmul(z, w));
  net.make(nullptr, no_passes);
  const auto wanted = net();
  const int all = asks([&] { net(); });
  BOOST_TEST(all >= 4);
  std::string last;
  for (int i = 0; i < all; ++i) {
    const auto message = stopped_after(i, [&] { net(); });
    if (message != last) BOOST_TEST_MESSAGE(i << ": " << message);
    if (i == 0) BOOST_TEST(message == "first: matmul: the run was stopped before this operation");
    if (i == 1) BOOST_TEST(message == "second: softmax: the run was stopped before this operation");
    if (i == 2) BOOST_TEST(message == "third: matmul: the run was stopped before this operation");
    if (i == all - 1) BOOST_TEST(message == "the run was stopped in its last operation");
    BOOST_TEST(equal(net(), wanted));
  }
  BOOST_TEST(stopped_after(all, [&] { net(); }) == "");
}

BOOST_AUTO_TEST_CASE(no_state_is_assigned_by_halves) {
  planned net;
  const value x = net.g.input(random_array(dtype::float32, {6, 6}, 1));
  const value a = net.g.state("a", random_array(dtype::float32, {6, 6}, 2)),
              b = net.g.state("b", random_array(dtype::float32, {6, 6}, 3));
  const value y = matmul(x, a);
  net.g.p.assign(a, a + y * 0.5);
  net.g.p.assign(b, tanh(matmul(y, b)));
  net.g.output(reduce_sum(y));
  net.make();
  int stopped = 0;
  for (bool ended = false; !ended; ++stopped) {
    const auto before_a = net.g.now("a"), before_b = net.g.now("b");
    const auto version = net.g.store.find("a")->version();
    ended = stopped_after(stopped, [&] { net(); }).empty();
    BOOST_TEST(same_bits(net.g.now("a"), before_a) == !ended);
    BOOST_TEST(same_bits(net.g.now("b"), before_b) == !ended);
    BOOST_TEST((net.g.store.find("a")->version() == version) == !ended);
  }
  BOOST_TEST(stopped > 2);
}

BOOST_AUTO_TEST_CASE(a_loop_ends_in_any_turn_and_walks_again) {
  for (const bool nested : {false, true})
    for (const bool reverse : {false, true}) {
      planned net;
      const value h = net.g.input(random_array(dtype::float32, {3, 4}, 1), "h"),
                  x = net.g.input(random_array(dtype::float32, {6, 3, 4}, 2)),
                  w = net.g.input(random_array(dtype::float32, {4, 4}, 3), "w");
      const auto results = scanned(h, reverse ? slice(x, {.stop = 5}) : x, w, nested);
      net.g.p.path = "behind";
      for (const auto& r : results) net.g.output(exp(r));
      net.make();
      const auto wanted = net();
      const int all = asks([&] { net(); });
      BOOST_TEST(all > 12);
      for (int i = 0; i < all; ++i) {
        BOOST_TEST(stopped_after(i, [&] { net(); }) != "");
        BOOST_TEST(equal(net(), wanted));
      }
    }
}

// Addresses of slices advance with the iterations: wherever the threads stop, the next run begins at the first slice.
BOOST_AUTO_TEST_CASE(a_loop_whose_iterations_are_shared_by_threads_ends_anywhere_and_walks_again) {
  for (const bool reverse : {false, true}) {
    planned net;
    const value h = net.g.input(random_array(dtype::float32, {64, 64}, 1), "h"),
                x = net.g.input(random_array(dtype::float32, {4, 64, 64}, 2)),
                w = net.g.input(random_array(dtype::float32, {64, 64}, 3, -0.1, 0.1), "w");
    const auto body = std::make_shared<program>();
    const value carry = body->input("h", h.type()), row = body->input("x", h.type()), v = body->input("w", w.type());
    const value next = tanh(matmul(row + carry, v));
    body->output("h", next);
    body->output("y", next * 2);
    for (const auto& y : scan(body, {&h, 1}, {&x, 1}, {&w, 1}, reverse)) net.g.output(y);
    thread_pool pool(2);
    net.make(&pool);
    const auto& stages = net.run->plan().stages();
    BOOST_TEST(std::count_if(stages.begin(), stages.end(), [](const auto& s) { return s.loop >= 0; }) == 1);
    const auto wanted = net.g.run();
    BOOST_TEST(equal(net(), wanted));
    const int all = asks([&] { net(); });
    BOOST_TEST(all > 4 * 2);
    int stopped = 0;  // a run on a busy machine may use one thread, which asks less often
    for (int i = 0; i < all; i += 1 + all / 16) {
      const auto message = stopped_after(i, [&] { net(); });
      if (!message.empty()) {
        ++stopped;
        BOOST_TEST(message.find("the run was stopped") != message.npos, message);
      }
      BOOST_TEST(equal(net(), wanted));
    }
    BOOST_TEST(stopped > 4);
  }
}

BOOST_AUTO_TEST_CASE(branches_are_asked_too) {
  planned net;
  const value x = net.g.input(random_array(dtype::float32, {4, 4}, 1)),
              yes = net.g.input(array_of(dtype::boolean, {}, {1}), "yes");
  const auto branch = [&](bool first) {
    auto p = std::make_shared<program>();
    const value v = p->input("v", x.type());
    p->output("y", first ? matmul(softmax(v), v) : v);
    return p;
  };
  net.g.output(cond(yes, branch(true), branch(false), {&x, 1})[0]);
  net.make();
  const auto wanted = net();
  const int all = asks([&] { net(); });
  for (int i = 0; i < all; ++i) {
    BOOST_TEST(stopped_after(i, [&] { net(); }) != "");
    BOOST_TEST(equal(net(), wanted));
  }
}

// A stopped scope stays stopped, even if its token forgets: skipped work must not pass for computed.
BOOST_AUTO_TEST_CASE(a_token_that_forgets) {
  struct once {
    std::atomic<int>* left;
    bool stop_requested() const noexcept { return left->fetch_sub(1) == 0; }
  };
  planned net;
  const value h = net.g.input(random_array(dtype::float32, {3, 4}, 1), "h"),
              x = net.g.input(random_array(dtype::float32, {6, 3, 4}, 2)),
              w = net.g.input(random_array(dtype::float32, {4, 4}, 3), "w");
  net.g.output(scanned(h, x, w, false)[0]);
  net.make();
  const int all = asks([&] { net(); });
  for (int i = 0; i < all; ++i) {
    std::atomic<int> left{i};
    const stop_scope scope(once{&left});
    BOOST_CHECK_THROW(net(), stopped_error);
    BOOST_CHECK_THROW(net(), stopped_error);
  }
}

BOOST_AUTO_TEST_CASE(scopes_nest) {
  auto x = table(3, 3, 1);
  std::atomic<bool> outer{false}, inner{false};
  const auto runs = [&] { return message_of([&] { evaluate(tanh(x)); }).empty(); };
  const stop_scope around(flag{&outer});
  {
    const stop_scope within(flag{&inner});
    BOOST_TEST(runs());
    inner = true;
    BOOST_TEST(!runs());
    BOOST_TEST(stop_requested());
  }
  BOOST_TEST(runs());
  outer = true;
  inner = false;
  {
    const stop_scope within(flag{&inner});
    BOOST_TEST(!runs());
  }
  BOOST_TEST(!runs());
}

// The plan is made and cached, constants are folded: only the run ends.
BOOST_AUTO_TEST_CASE(plans_are_made_all_the_same) {
  small_graph g;
  const value x = g.input(random_array(dtype::float32, {4, 4}, 1));
  g.output(matmul(x, g.p.constant(to_tensor(random_array(dtype::float32, {4, 4}, 2))) + 1));
  BOOST_TEST(stopped_after(0, [&] { g.make(); }) == "");
  auto a = table(5, 7, 1);
  context where(1, target_isa());
  const auto f = [&] { return evaluate(cumsum(a * a, {.axis = 1}), where); };
  BOOST_TEST(stopped_after(0, f) != "");
  BOOST_TEST((f().shape() == a.shape()));
}

// An evaluation in place replaces either the whole operand or nothing.
BOOST_AUTO_TEST_CASE(an_operand_is_never_half_replaced) {
  auto x = table(30, 40, 1);
  const auto before = x.copy();
  const auto wanted = evaluate(tanh(x) * 2.f);
  BOOST_TEST(stopped_after(0, [&] { evaluate_into(x, tanh(x) * 2.f); }) != "");
  BOOST_TEST(same_bits(from_tensor(x), from_tensor(before)));
  BOOST_TEST(stopped_after(1, [&] { evaluate_into(x, tanh(x) * 2.f); }) == "");
  BOOST_TEST(same_bits(from_tensor(x), from_tensor(wanted)));
}

BOOST_AUTO_TEST_CASE(formulas_and_plans_of_many) {
  auto x = table(6, 6, 1);
  const auto f = formula([](const auto& v) { return tanh(matmul(v, v)); });
  const auto wanted = from_tensor(f(x));
  BOOST_TEST(stopped_after(0, [&] { f(x); }) != "");
  BOOST_TEST(same_bits(from_tensor(f(x)), wanted));
  eval_plan many;
  auto y = many.add(tanh(matmul(x, x)));
  BOOST_TEST(stopped_after(0, [&] { many.run(); }) != "");
  y = many.add(tanh(matmul(x, x)));
  many.run();
  BOOST_TEST(same_bits(from_tensor(y.value()), wanted));
}

// ---- threads --------------------------------------------------------------------------------------------------------

BOOST_AUTO_TEST_CASE(another_thread_stops_a_run_on_several) {
  thread_pool pool(3);
  planned net;
  value y = net.g.input(random_array(dtype::float32, {160, 160}, 1, -0.1, 0.1));
  const value w = net.g.input(random_array(dtype::float32, {160, 160}, 2, -0.1, 0.1), "w"),
              h = net.g.input(random_array(dtype::float32, {3, 4}, 3), "h"),
              x = net.g.input(random_array(dtype::float32, {40, 3, 4}, 4)),
              v = net.g.input(random_array(dtype::float32, {4, 4}, 5), "v");
  for (int i = 0; i < 12; ++i) y = tanh(matmul(y, w));
  net.g.output(y);
  net.g.output(scanned(h, x, v, true)[1]);
  net.make(&pool);
  const auto wanted = net();
  int stopped = 0;
  for (int i = 0; i < random_cases(50); ++i) {
    std::atomic<bool> stop{false};
    std::atomic<bool> begun{false};
    std::thread other([&] {
      while (!begun) std::this_thread::yield();
      for (int k = 0; k < i * 40; ++k) std::this_thread::yield();
      stop = true;
    });
    {
      const stop_scope scope(flag{&stop});
      begun = true;
      try {
        for (;;) net();
      } catch (const stopped_error&) { ++stopped; }
    }
    other.join();
    BOOST_TEST(equal(net(), wanted));
  }
  BOOST_TEST(stopped == random_cases(50));
}

BOOST_AUTO_TEST_CASE(threads_that_work_for_one_ask_with_it) {
  auto x = table(5, 5, 1);
  const auto wanted = from_tensor(evaluate(tanh(x)));
  std::atomic<bool> stop{true};
  {
    const stop_scope scope(flag{&stop});
    BOOST_CHECK_THROW(parallel_workers(3, [&](int) { evaluate(tanh(x)); }), stopped_error);
    thread_pool pool(3);
    std::atomic<int> told{0};
    pool.bulk(9, [&](std::size_t) { told += stop_requested(); });
    BOOST_TEST(told == 9);
    bool same = false;  // Boost.Test's checks are for one thread
    std::thread alone([&] { same = same_bits(from_tensor(evaluate(tanh(x))), wanted); });
    alone.join();
    BOOST_TEST(same);
  }
  std::atomic<int> told{0};
  parallel_workers(3, [&](int) { told += stop_requested(); });
  BOOST_TEST(told == 0);
}

#ifdef __cpp_lib_jthread
BOOST_AUTO_TEST_CASE(tokens_of_the_standard_library) {
  auto x = table(5, 5, 1);
  std::stop_source source;
  const stop_scope by_source(source);
  const stop_scope by_token(source.get_token());
  evaluate(tanh(x));
  std::thread other([&] { source.request_stop(); });
  other.join();
  BOOST_CHECK_THROW(evaluate(tanh(x)), stopped_error);
}
#endif

BOOST_AUTO_TEST_SUITE_END()
