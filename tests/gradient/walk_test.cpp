// The reverse pass: subprograms, randomness, second order, stopped gradients, errors; and that the comparison with
// differences can fail.
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// Two inputs, two outputs.
std::shared_ptr<const program> subprogram(const shape& x, const shape& y, dtype element = dtype::float64) {
  auto p = std::make_shared<program>();
  value a = p->input("a", {element, x}), b = p->input("b", {element, y});
  p->output("product", value(tanh(a) * b));
  p->output("sum", value(reduce_sum(a * a)));
  return p;
}

value first_order(const value& y, const value& x) { return gradients(reduce_sum(y), {&x, 1})[0]; }

}  // namespace

BOOST_AUTO_TEST_SUITE(reverse_walk)

BOOST_AUTO_TEST_CASE(the_comparison_finds_a_wrong_gradient) {
  auto missing = check_gradient({real({3}, 1)}, [](const auto& x) { return values{x[0] * stop_gradient(x[0])}; });
  BOOST_CHECK_GT(missing.worst, 0.1);
  BOOST_CHECK(!missing.where.empty());
  auto slight = check_gradient({real({3}, 1, 1, 2)},
                               [](const auto& x) { return values{x[0] * 1.00001 - stop_gradient(x[0]) * 0.00001}; });
  BOOST_CHECK_GT(slight.worst, gradient_tolerance);
  auto right =
      check_gradient({real({3}, 1, 1, 2)}, [](const auto& x) { return values{x[0] * 1.00001 - x[0] * 0.00001}; });
  BOOST_CHECK_LT(right.worst, gradient_tolerance);
  auto kink = check_gradient({array_of(dtype::float64, {1}, {0})}, [](const auto& x) { return values{relu(x[0])}; });
  BOOST_CHECK_GT(kink.worst, gradient_tolerance);
  auto once = check_second_gradient({real({3}, 1)}, [](const auto& x) { return values{x[0] * stop_gradient(x[0])}; });
  BOOST_CHECK_GT(once.worst, 0.1);
  auto both = check_second_gradient({real({3}, 1)}, [](const auto& x) { return values{x[0] * x[0]}; });
  BOOST_CHECK_LT(both.worst, gradient_tolerance);
}

BOOST_AUTO_TEST_CASE(calls) {
  for (const auto& [s, t] : {std::pair<shape, shape>{{3}, {3}}, {{2, 3}, {3}}, {{}, {4}}, {{1}, {1}}, {{0}, {0}}}) {
    auto call_of = [](const std::vector<value>& x) {
      return call(subprogram(x[0].shape(), x[1].shape(), x[0].type().element), x);
    };
    check_twice("call", {real(s, 1), real(t, 2)}, call_of);
    check("first result of a call", {real(s, 1), real(t, 2)}, [&](const auto& x) { return values{call_of(x)[0]}; });
    check("second result of a call", {real(s, 1), real(t, 2)}, [&](const auto& x) { return values{call_of(x)[1]}; });
    check("results that meet", {real(s, 1), real(t, 2)}, [&](const auto& x) {
      auto r = call_of(x);
      return values{r[0] * r[1]};
    });
  }
  check("a call of a call", {real({3}, 1), real({3}, 2)}, [](const auto& x) {
    auto outer = std::make_shared<program>();
    dtype element = x[0].type().element;
    std::vector<value> in{outer->input("a", {element, {3}}), outer->input("b", {element, {3}})};
    outer->output("y", call(subprogram({3}, {3}, element), in)[0] * 2);
    return call(outer, x);
  });
  check("second order through a call", {real({3}, 1), real({3}, 2)},
        [](const auto& x) { return values{first_order(call(subprogram({3}, {3}, x[0].type().element), x)[0], x[0])}; });
}

BOOST_AUTO_TEST_CASE(dropout_with_a_fixed_state) {
  auto state = array_of(dtype::int64, {2}, {42, 7});
  for (const auto& s : {shape{}, shape{1}, shape{20}, shape{4, 5}, shape{0}, shape{2, 3, 4}})
    for (double p : {0.0, 0.3, 0.9})
      check_twice(
          "dropout", {real(s, 1), state},
          [&](const auto& x) { return values{dropout(square(x[0]), x[1], {.probability = p, .site = 3})}; }, false);
  check(
      "noise", {real({5}, 1), state},
      [&](const auto& x) { return values{x[0] * random_uniform(x[1], x[0], {.site = 1})}; }, false);
}

BOOST_AUTO_TEST_CASE(higher_orders_of_several_operations) {
  check_twice("concat and slice", {real({2, 3}, 1), real({2, 2}, 2)}, [](const auto& x) {
    return values{slice(concat<1>(x[0], x[1] * x[1]), {.start = 1, .axis = 1, .step = 2})};
  });
  check_twice("permute and reshape", {real({2, 3}, 1)},
              [](const auto& x) { return values{square(reshape(transpose(x[0]), {6})) * reshape(x[0], {6})}; });
  for (const auto& s : {shape{3}, shape{2, 3}, shape{1}, shape{0}, shape{}})
    check_twice("x to the power of itself", {real(s, 5, 0.5, 2)},
                [](const auto& x) { return values{pow(x[0], x[0])}; });
  check("third order", {real({3}, 1)},
        [](const auto& x) { return values{first_order(first_order(sin(x[0]), x[0]), x[0])}; });
}

BOOST_AUTO_TEST_CASE(what_does_not_depend_gets_zeros) {
  small_graph g;
  value x = g.input(real({2}, 1)), y = g.input(real({3}, 2)), n = g.input(random_array(dtype::float64, {2}, 3));
  for (const auto& v : gradients(reduce_sum(x * stop_gradient(n)), std::vector{x, y, n})) g.output(v);
  auto r = g.run();
  BOOST_TEST(same_bits(r[0], g.data[2]));
  BOOST_TEST(r[1].values == (std::vector<double>{0, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(r[2].values == (std::vector<double>{0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(several_targets_and_starts) {
  small_graph g;
  array a = real({2}, 1), seed = real({2}, 2);
  value x = g.input(a), s = g.input(seed), y = x * x;
  const value of[] = {y, x}, start[] = {s, s};
  g.output(gradients(g.p, of, start, {&x, 1})[0]);
  g.output(gradients(y, {&y, 1})[0]);  // with respect to itself: ones
  auto r = g.run();
  for (std::size_t i = 0; i < 2; ++i)
    BOOST_TEST(r[0].values[i] == seed.values[i] * (2 * a.values[i] + 1), boost::test_tools::tolerance(1e-15));
  BOOST_TEST(r[1].values == (std::vector<double>{1, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(no_gradient_is_an_error_that_names_the_operation) {
  small_graph g;
  value x = g.input(real({1, 1, 2, 2}, 1));
  value once = gradients(reduce_sum(square(max_pool2d(x))), {&x, 1})[0];
  BOOST_TEST(message_of([&] { gradients(reduce_sum(square(once)), {&x, 1}); }) ==
             "max_pool2d_grad: this operation has no gradient");
}

BOOST_AUTO_TEST_SUITE_END()
