// What is evaluated, how often, and the state after an error.
#include <boost/test/unit_test.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

import lamina;

#include "graph.h"
#include "numbers.h"

using namespace lamina;
using namespace engine_test;

namespace {

// An operation that counts its runs.
std::atomic<int> runs{0};
struct counted_arguments {
  const float* in;
  float* out;
  std::int64_t count;
};
struct counted_op {
  static constexpr std::string_view name = "counted";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void emit(emission& e) {
    counted_arguments a{nullptr, nullptr, e.in_type(0).dims.size()};
    e.step(
        [](const void* arguments, void*) noexcept {
          const auto& c = *static_cast<const counted_arguments*>(arguments);
          ++runs;
          for (std::int64_t i = 0; i < c.count; ++i) c.out[i] = c.in[i];
        },
        a, {{&a.in, e.in(0)}, {&a.out, e.out(0)}});
  }
};
template <Symbolic X> constexpr auto counted(const X& x) { return apply<counted_op>({}, x); }

int runs_of(const auto& f) {
  runs = 0;
  f();
  return runs;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(evaluated_once)

BOOST_AUTO_TEST_CASE(building_computes_nothing) {
  vector<float> x{1, 2};
  auto before = memory::counters().allocations;
  BOOST_TEST(runs_of([&] {
               auto y = counted(x) * 2 + counted(x);
               auto z = tanh(y) - y;
               BOOST_TEST((z.shape() == shape{2}));
             }) == 0);
  BOOST_TEST(memory::counters().allocations == before);
}

BOOST_AUTO_TEST_CASE(one_object_and_equal_parts_run_once) {
  vector<float> x{1, 2}, y{3, 4};
  BOOST_TEST(runs_of([&] {
               auto c = counted(x);
               evaluate(c + c * c);
             }) == 1);
  BOOST_TEST(runs_of([&] { evaluate(counted(x) + counted(x) * 2); }) == 1);  // built apart
  BOOST_TEST(runs_of([&] { evaluate(counted(x) + counted(y)); }) == 2);
  BOOST_TEST(runs_of([&] {
               vector<float> z = x;
               evaluate(counted(x) + counted(z));
             }) == 1);  // a copy is the same
  BOOST_TEST(runs_of([&] {
               auto d = make_dynamic(counted(x));
               evaluate(d + counted(x));
             }) == 1);
  BOOST_TEST(runs_of([&] { evaluate(counted(x), counted(x) * 2); }) == 1);  // several results
  BOOST_TEST(runs_of([&] {
               eval_plan p;
               auto a = p.add(counted(x)), b = p.add(counted(x) + y), c = p.add(counted(x));
               p.run();
               BOOST_TEST(numbers(a.value()) == (list{1, 2}), boost::test_tools::per_element());
               BOOST_TEST(numbers(b.value()) == (list{4, 6}), boost::test_tools::per_element());
               BOOST_TEST(numbers(c.value()) == (list{1, 2}), boost::test_tools::per_element());
             }) == 1);
}

BOOST_AUTO_TEST_CASE(a_result_is_never_computed_again) {
  vector<float> x{1, 2};
  auto y = evaluate(counted(x));  // a tensor, which is an operand like any other
  BOOST_TEST(runs_of([&] { evaluate(y + 1), evaluate(y * y), evaluate(y); }) == 0);
  eval_plan p;
  auto h = p.add(counted(x));
  BOOST_TEST(runs_of([&] { p.run(), p.run(); }) == 1);
  BOOST_TEST(runs_of([&] { evaluate(h.value() + 1); }) == 0);
}

// evaluate returns a tensor; the expression itself keeps no result and is computed again inside another expression.
BOOST_AUTO_TEST_CASE(an_expression_keeps_no_result) {
  vector<float> x{1, 2};
  auto y = counted(x);
  BOOST_TEST(runs_of([&] { evaluate(y), evaluate(y + 1); }) == 2);
}

BOOST_AUTO_TEST_CASE(an_operand_that_is_computed_once) {
  vector<float> x{1, 2};
  lamina::evaluated_once y(counted(x));
  const auto copy = y;
  const auto sum = y + 1;  // built before the operand is computed
  BOOST_TEST(!y.is_evaluated());
  BOOST_TEST(runs_of([&] {
               BOOST_TEST(numbers(evaluate(sum)) == (list{2, 3}), boost::test_tools::per_element());
               BOOST_TEST(numbers(evaluate(copy * y)) == (list{1, 4}), boost::test_tools::per_element());
               evaluate(make_dynamic(copy) + 1), evaluate(y);
               eval_plan p;
               p.add(y * 2), p.add(copy * 3);
               p.run();
             }) == 1);
  BOOST_TEST(copy.is_evaluated());
  BOOST_TEST(numbers(copy.value()) == (list{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(same(y + 1, copy + 1));
  BOOST_TEST(!same(y + 1, lamina::evaluated_once(counted(x)) + 1));
  // nested, and inside another type
  lamina::evaluated_once twice(y * 2), thrice(make_dynamic(counted(x)) * 3);
  BOOST_TEST(runs_of([&] {
               BOOST_TEST(numbers(evaluate(twice + thrice + thrice)) == (list{8, 16}),
                          boost::test_tools::per_element());
             }) == 1);
}

// No result is stale: operands cannot be written until there is a result, and may be written afterwards.
BOOST_AUTO_TEST_CASE(an_operand_that_is_computed_once_and_writes) {
  vector<float> x{1, 2};
  lamina::evaluated_once y(counted(x));
  BOOST_CHECK_THROW(x.writable(), state_error);
  BOOST_CHECK_THROW(x += 1.f, state_error);
  evaluate(y + 1);
  x.writable()[0] = 5;  // the expression is released
  BOOST_TEST(numbers(evaluate(y + 1)) == (list{2, 3}), boost::test_tools::per_element());
  lamina::evaluated_once z(counted(x));
  BOOST_TEST(numbers(z.value()) == (list{5, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_operand_that_is_computed_once_after_an_error) {
  vector<std::int64_t> at{7};
  matrix<float> x{{1, 2}, {3, 4}};
  lamina::evaluated_once rows(gather(x, at));
  BOOST_CHECK_THROW(evaluate(rows + 1), value_error);
  BOOST_TEST(!rows.is_evaluated());
  BOOST_CHECK_THROW(rows.value(), value_error);  // retried
}

// A constant for gradients, like the tensor that evaluate returns.
BOOST_AUTO_TEST_CASE(an_operand_that_is_computed_once_and_gradients) {
  vector<float> w{1, 2};
  lamina::evaluated_once y(var<"w">(w) * 3);
  BOOST_TEST(numbers(evaluate(gradient<"w">(reduce_sum(y * var<"w">(w))))) == (list{3, 6}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_operand_that_is_computed_once_by_many_threads) {
  vector<float> x{1, 2};
  for (int round = 0; round < 50; ++round) {
    lamina::evaluated_once y(counted(x));
    std::atomic<int> wrong{0};
    BOOST_TEST(runs_of([&] {
                 std::vector<std::thread> threads;
                 for (int t = 0; t < 4; ++t)
                   threads.emplace_back([&, mine = y] { wrong += numbers(evaluate(mine + 1)) != list{2, 3}; });
                 for (auto& t : threads) t.join();
               }) == 1);
    BOOST_TEST(wrong == 0);
  }
}

BOOST_AUTO_TEST_CASE(a_handle_is_read_after_the_run_alone) {
  vector<float> x{1, 2};
  eval_plan p;
  auto h = p.add(x + 1);
  BOOST_CHECK_THROW(h.value(), state_error);
  auto copy = h;
  p.run();
  BOOST_TEST(numbers(copy.value()) == (list{2, 3}), boost::test_tools::per_element());
  auto second = p.add(x + 2);  // a second value in the same plan
  BOOST_CHECK_THROW(second.value(), state_error);
  p.run();
  BOOST_TEST(numbers(second.value()) == (list{3, 4}), boost::test_tools::per_element());
  BOOST_TEST(numbers(h.value()) == (list{2, 3}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_error_leaves_plan_and_operands_usable) {
  std::vector<std::int64_t> labels{0, 7};
  matrix<float> x{{1, 2}, {3, 4}};
  auto at = borrow(std::span(labels), {2});
  eval_plan p;
  auto picked = p.add(pick(x, at));
  auto sum = p.add(reduce_sum(x));
  BOOST_CHECK_THROW(p.run(), value_error);
  BOOST_CHECK_THROW(p.run(), value_error);         // the entries are still there
  BOOST_CHECK_THROW(picked.value(), state_error);  // no value was computed
  labels[1] = 1;
  p.run();
  BOOST_TEST(numbers(picked.value()) == (list{1, 4}), boost::test_tools::per_element());
  BOOST_TEST(sum.value()() == 10);
  BOOST_TEST(numbers(evaluate(x + 1)) == (list{2, 3, 4, 5}), boost::test_tools::per_element());
  BOOST_CHECK_THROW(p.add(x + vector<float>(3)), shape_error);  // nothing is added
  auto later = p.add(x * 2);
  p.run();
  BOOST_TEST(numbers(later.value()) == (list{2, 4, 6, 8}), boost::test_tools::per_element());
  // An error in the user's code that reads data during a plan's run.
  struct failing : operand_base {
    using evaluation_mode = lazy;
    using element_type = float;
    using extents_type = extents<dyn>;
    bool* fails = nullptr;
    lamina::shape shape() const { return {2}; }
    void read(view<float> out) const {
      if (*fails) throw std::runtime_error("not now");
      out[0] = out[1] = 5;
    }
  };
  bool fails = true;
  auto y = failing{.fails = &fails} + 1;
  BOOST_CHECK_THROW(evaluate(y), std::runtime_error);
  fails = false;
  BOOST_TEST(numbers(evaluate(y)) == (list{6, 6}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
