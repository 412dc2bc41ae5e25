// Many threads that evaluate the same expression types at once, with shared operands.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

constexpr int threads = 8;

void together(const std::function<void(int)>& f) {
  std::atomic<int> waiting{threads};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t)
    all.emplace_back([&, t] {
      --waiting;
      while (waiting > 0) std::this_thread::yield();
      f(t);
    });
  for (auto& t : all) t.join();
}
matrix<float> table(std::int64_t rows, std::int64_t columns, int seed) {
  return to_tensor(random_array(dtype::float32, {rows, columns}, seed)).as<float, extents<dyn, dyn>>();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(threads_at_once)

BOOST_AUTO_TEST_CASE(one_expression_type_in_the_default_context) {
  auto x = table(17, 9, 1), w = table(9, 5, 2);
  std::vector<array> wanted;
  for (int v = 0; v < 4; ++v) wanted.push_back(from_tensor(evaluate(tanh(matmul(x, w)) * static_cast<float>(v))));
  std::atomic<int> wrong{0};
  together([&](int t) {
    for (int i = 0; i < 60; ++i) {
      int v = (t + i) % 4;
      if (!same_bits(from_tensor(evaluate(tanh(matmul(x, w)) * static_cast<float>(v))),
                     wanted[static_cast<std::size_t>(v)]))
        ++wrong;
    }
  });
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(aliases_and_extents_that_differ_by_thread) {
  std::atomic<int> wrong{0};
  auto shared = table(4, 4, 3);
  together([&](int t) {
    for (int i = 0; i < 40; ++i) {
      std::int64_t n = 1 + (t * 7 + i) % 5;
      matrix<float> a(n, 4);
      for (auto& v : a.writable()) v = static_cast<float>(t + i);
      auto y = i % 2 ? evaluate(a * a + a) : evaluate(a * slice(shared, {.stop = 1}) + a);
      for (std::int64_t r = 0; r < n; ++r)
        for (std::int64_t c = 0; c < 4; ++c) {
          float v = static_cast<float>(t + i), want = i % 2 ? v * v + v : v * shared(0, c) + v;
          if (std::abs(y(r, c) - want) > 1e-4f) ++wrong;
        }
    }
  });
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(a_context_of_several_threads_shared_by_many) {
  context where(3, target_isa());
  auto x = table(120, 200, 1), w = table(200, 150, 2);
  auto wanted = from_tensor(evaluate(tanh(matmul(x, w)), where));
  std::atomic<int> wrong{0};
  together([&](int) {
    for (int i = 0; i < 4; ++i)
      if (!same_bits(from_tensor(evaluate(tanh(matmul(x, w)), where)), wanted)) ++wrong;
  });
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(one_formula_with_results_of_each_thread) {
  auto x = table(17, 9, 1), w = table(9, 5, 2);
  const auto f = formula([](const auto& a, const auto& b) { return tanh(matmul(a, b)); });
  std::vector<array> wanted;
  for (int rows = 14; rows < 18; ++rows) wanted.push_back(from_tensor(evaluate(tanh(matmul(x.rows(0, rows), w)))));
  std::atomic<int> wrong{0};
  together([&](int t) {
    for (int i = 0; i < 60; ++i) {
      const int rows = 14 + (t + i / 7) % 4;
      matrix<float> out(rows, 5);
      const auto top = x.rows(0, rows);
      f(top, w, out);
      if (!same_bits(from_tensor(out), wanted[static_cast<std::size_t>(rows - 14)])) ++wrong;
    }
  });
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(executors_that_share_a_plan) {
  small_graph g;
  value x = g.input(random_array(dtype::float32, {8, 8}, 1));
  g.output(softmax(matmul(x, x)));
  auto wanted = g.run()[0];
  auto plan = g.plan;
  auto in = to_tensor(g.data[0]);
  std::atomic<int> wrong{0};
  together([&](int) {
    executor e(plan, nullptr);
    any_tensor out(plan->output_types()[0]);
    e.bind_input(0, in.data());
    e.bind_output(0, out.mutable_data());
    for (int i = 0; i < 20; ++i) e.run();
    if (!same_bits(from_tensor(out), wanted)) ++wrong;
  });
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_CASE(plans_made_at_once) {
  small_graph g;
  value x = g.input(random_array(dtype::float32, {6, 4}, 1));
  g.output(gradients(reduce_sum(tanh(matmul(x, transpose(x)))), {&x, 1})[0]);
  auto wanted = g.run()[0];
  std::atomic<int> wrong{0};
  together([&](int) {
    auto p = g.make();
    if (p->cost().steps != g.plan->cost().steps || p->arena_bytes() != g.plan->arena_bytes()) ++wrong;
  });
  BOOST_TEST(wrong == 0);
}

// Data that counts how often it is read.
struct counted_data : operand_base {
  using evaluation_mode = lazy;
  using element_type = float;
  using extents_type = extents<dyn>;
  std::atomic<int>* reads = nullptr;
  lamina::shape shape() const { return {100}; }
  void read(view<float> out) const {
    ++*reads;
    for (auto& x : out) x = 3;
  }
};

BOOST_AUTO_TEST_CASE(operands_of_every_kind_shared_by_all) {
  std::atomic<int> reads{0}, wrong{0};
  growable<float, 1> items(100);
  for (int i = 0; i < 4; ++i) items.push(vector<float>(100));
  const auto data = counted_data{.reads = &reads} * 2.f;  // holds data that is read once
  const dynamic<float, 1> any = data + one_hot<float>(100, 7);
  const auto all = items + any;
  together([&](int t) {
    for (int i = 0; i < 20; ++i) {
      auto y = t % 2 ? evaluate(reduce_sum<axes(0)>(all)) : evaluate(any * 4);
      if (y(7) != 28 || y(8) != 24) ++wrong;
      if (!same(any, make_dynamic(data + one_hot<float>(100, 7)))) ++wrong;
      auto mine = items;
      mine.push(y);
      if (mine.size() != 5 || items.size() != 4) ++wrong;
    }
  });
  BOOST_TEST(wrong == 0);
  BOOST_TEST(reads == 1);
}

BOOST_AUTO_TEST_CASE(errors_in_some_threads) {
  matrix<float> x{{1, 2}, {3, 4}};
  std::atomic<int> wrong{0};
  together([&](int t) {
    vector<std::int64_t> labels{t % 2, t % 3 == 2 ? 5 : 1};
    for (int i = 0; i < 20; ++i) {
      bool failed = false;
      try {
        if (evaluate(pick(x, labels))(1) != 4) ++wrong;
      } catch (const value_error&) { failed = true; }
      if (failed != (t % 3 == 2)) ++wrong;
    }
  });
  BOOST_TEST(wrong == 0);
}

BOOST_AUTO_TEST_SUITE_END()
