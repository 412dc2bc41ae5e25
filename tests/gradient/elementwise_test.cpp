// Gradients of elementwise operations against central differences, over shapes with broadcast, size 1 and size 0.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "elementwise_functions.h"
#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

const std::vector<shape> shapes{{}, {1}, {7}, {0}, {2, 3}, {3, 1, 4}, {2, 0, 3}, {1, 130}};
const std::vector<std::pair<shape, shape>> pairs{{{}, {}},
                                                 {{5}, {5}},
                                                 {{2, 3}, {3}},
                                                 {{3}, {2, 3}},
                                                 {{2, 3}, {}},
                                                 {{}, {2, 3}},
                                                 {{4, 1}, {1, 5}},
                                                 {{2, 1, 3}, {4, 1}},
                                                 {{1}, {3}},
                                                 {{0}, {1}},
                                                 {{1}, {0}},
                                                 {{2, 0}, {2, 1}},
                                                 {{2, 1, 2, 1, 2}, {1, 3, 1, 2, 1}},
                                                 {{1, 1}, {3}}};

struct unary {
  const char* name;
  double low, high;
  value (*run)(const value&);
  bool has_kinks() const { return low == high; }
};
const unary functions[] = {{"negate", -2, 2, [](const value& x) -> value { return -x; }},
                           {"cast", -2, 2, [](const value& x) -> value { return cast<double>(x); }},
#define FUNCTION(name, low, high, gradient_low, gradient_high, ...) \
  {#name, gradient_low, gradient_high, [](const value& x) -> value { return name(x); }},
                           EACH_ELEMENTWISE_FUNCTION(FUNCTION)
#undef FUNCTION
};

struct binary {
  const char* name;
  double low_a, high_a, low_b, high_b;
  value (*run)(const value&, const value&);
};
const binary smooth_pairs[] = {
    {"add", -2, 2, -2, 2, [](const value& a, const value& b) -> value { return a + b; }},
    {"subtract", -2, 2, -2, 2, [](const value& a, const value& b) -> value { return a - b; }},
    {"multiply", -2, 2, -2, 2, [](const value& a, const value& b) -> value { return a * b; }},
    {"divide", -2, 2, 0.5, 2, [](const value& a, const value& b) -> value { return a / b; }},
    {"pow", 0.5, 2, -2, 3, [](const value& a, const value& b) -> value { return pow(a, b); }},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_elementwise)

BOOST_AUTO_TEST_CASE(unary_operations) {
  for (const auto& u : functions)
    for (const auto& s : shapes) {
      const auto run = [&](const auto& x) { return std::vector{u.run(x[0])}; };
      if (u.has_kinks()) check(u.name, {distinct_array(s, 2)}, run);
      else check_twice(u.name, {random_array(dtype::float64, s, 1, u.low, u.high)}, run);
    }
}

// Outside of sharded training the sum is the operand.
BOOST_AUTO_TEST_CASE(sums_over_shards) {
  for (const auto& s : shapes)
    check_twice("sum_over_shards", {random_array(dtype::float64, s, 1, -2, 2)},
                [](const auto& x) { return std::vector<value>{square(sum_over_shards(square(x[0])))}; });
}

BOOST_AUTO_TEST_CASE(binary_operations) {
  for (const auto& b : smooth_pairs)
    for (const auto& [s, t] : pairs)
      check_twice(b.name,
                  {random_array(dtype::float64, s, 3, b.low_a, b.high_a),
                   random_array(dtype::float64, t, 4, b.low_b, b.high_b)},
                  [&](const auto& x) { return std::vector{b.run(x[0], x[1])}; });
}

BOOST_AUTO_TEST_CASE(prelu_to_both_sides) {
  for (const auto& [s, t] : pairs)
    check("prelu", {distinct_array(s, 5), random_array(dtype::float64, t, 6)},
          [](const auto& x) { return values{prelu(x[0], x[1])}; });
}

BOOST_AUTO_TEST_CASE(minimum_and_maximum) {
  for (const auto& [s, t] : pairs) {
    check("min", {distinct_array(s, 5), distinct_array(t, 6, 0.01)},
          [](const auto& x) { return std::vector<value>{min(x[0], x[1])}; });
    check("max", {distinct_array(s, 5), distinct_array(t, 6, 0.01)},
          [](const auto& x) { return std::vector<value>{max(x[0], x[1])}; });
  }
}

BOOST_AUTO_TEST_CASE(equal_operands_share_the_gradient) {
  for (bool maximum : {false, true}) {
    small_graph g;
    array same = random_array(dtype::float64, {3}, 1);
    value a = g.input(same), b = g.input(same);
    for (const auto& v : gradients(reduce_sum(maximum ? value(max(a, b)) : value(min(a, b))), std::vector{a, b}))
      g.output(v);
    for (const auto& r : g.run())
      BOOST_TEST(r.values == (std::vector{0.5, 0.5, 0.5}), boost::test_tools::per_element());
  }
}

// PyTorch's conventions: torch.pow(x, y) where both require gradients.
BOOST_AUTO_TEST_CASE(powers_of_zero) {
  for (bool passes : {true, false}) {
    small_graph g;
    value a = g.input(array_of(dtype::float64, {6}, {0, 0, 0, 2, 0, 3})),
          b = g.input(array_of(dtype::float64, {6}, {0, 1, 2, 0, 0.5, 1}));
    const auto first = gradients(reduce_sum(pow(a, b)), std::vector{a, b});
    for (const auto& v : first) g.output(v);
    g.output(gradients(reduce_sum(first[0]), std::vector{a})[0]);
    for (double exponent : {0.0, 1.0, 2.0}) g.output(gradients(reduce_sum(pow(a, exponent)), std::vector{a})[0]);
    const auto r = g.run(passes ? pass_options{} : no_passes);
    const double infinity = std::numeric_limits<double>::infinity();
    BOOST_TEST(r[0].values == (std::vector<double>{0, 1, 0, 0, infinity, 1}), boost::test_tools::per_element());
    const std::vector<double> by_exponent{0, 0, 0, std::log(2.0), 0, 3 * std::log(3.0)};
    for (std::size_t i = 0; i < 6; ++i) BOOST_TEST(std::abs(r[1].values[i] - by_exponent[i]) < 1e-14);
    for (std::size_t i : {0u, 1u, 2u, 3u, 5u}) BOOST_TEST(r[2].values[i] == (i == 2 ? 2.0 : 0.0));
    BOOST_TEST(r[3].values == (std::vector<double>{0, 0, 0, 0, 0, 0}), boost::test_tools::per_element());
    BOOST_TEST(r[4].values == (std::vector<double>{1, 1, 1, 1, 1, 1}), boost::test_tools::per_element());
    BOOST_TEST(r[5].values == (std::vector<double>{0, 0, 0, 4, 0, 6}), boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(an_operand_used_twice) {
  for (const auto& s : shapes)
    check("x x + x", {random_array(dtype::float64, s, 7)},
          [](const auto& x) { return std::vector<value>{x[0] * x[0] + x[0] / (square(x[0]) + 1)}; });
}

BOOST_AUTO_TEST_CASE(numbers_beside_values) {
  for (const auto& s : shapes)
    check("numbers", {random_array(dtype::float64, s, 8, 0.5, 2)}, [](const auto& x) {
      return std::vector<value>{2 * x[0] + 1,   3 / x[0],       1.5 - x[0],       pow(x[0], 3),
                                pow(2.0, x[0]), min(x[0], 100), max(-100.0, x[0])};
    });
}

BOOST_AUTO_TEST_CASE(where_passes_to_the_chosen_side) {
  const shape conditions[] = {{2, 3}, {3}, {2, 1}, {}, {1, 1}};
  for (const auto& c : conditions)
    for (const auto& [s, t] :
         {std::pair<shape, shape>{{2, 3}, {2, 3}}, {{3}, {2, 1}}, {{}, {2, 3}}, {{2, 3}, {}}, {{1, 3}, {2, 3}}})
      check_twice("where",
                  {random_array(dtype::boolean, c, 9), random_array(dtype::float64, s, 10),
                   random_array(dtype::float64, t, 11)},
                  [](const auto& x) { return std::vector<value>{where(x[0], x[1], x[2])}; });
  check_twice("where",
              {random_array(dtype::boolean, {0}, 9), random_array(dtype::float64, {0}, 10),
               random_array(dtype::float64, {1}, 11)},
              [](const auto& x) { return std::vector<value>{where(x[0], x[1], x[2])}; });
}

BOOST_AUTO_TEST_CASE(clamp_passes_inside_its_bounds) {
  for (const auto& [s, t] :
       {std::pair<shape, shape>{{2, 3}, {2, 3}}, {{40}, {}}, {{2, 3}, {3}}, {{3}, {2, 1}}, {{0}, {1}}, {{1}, {4}}})
    check("clamp",
          {distinct_array(s, 12), random_array(dtype::float64, t, 13, -0.101, -0.091),
           random_array(dtype::float64, t, 14, 0.091, 0.101)},
          [](const auto& x) { return std::vector<value>{clamp(x[0], x[1], x[2])}; });
}

// Bounds that cross give the upper one: y = high, whatever x and low are.
BOOST_AUTO_TEST_CASE(clamp_with_crossed_bounds) {
  for (const auto& [s, t] :
       {std::pair<shape, shape>{{40}, {40}}, {{40}, {}}, {{2, 3}, {3}}, {{3}, {2, 1}}, {{0}, {1}}, {{1}, {4}}})
    check("clamp",
          {distinct_array(s, 12), random_array(dtype::float64, t, 13, 0.091, 0.101),
           random_array(dtype::float64, t, 14, -0.101, -0.091)},
          [](const auto& x) { return std::vector<value>{clamp(x[0], x[1], x[2])}; });
  small_graph g;
  const auto numbers = [&](std::vector<double> v) {
    return g.input(array_of(dtype::float64, {static_cast<std::int64_t>(v.size())}, v));
  };
  const value x = numbers({-3, -1, 0, 1, 3, 1, -1}), low = numbers({1, 1, 1, 1, 1, 1, -2}),
              high = numbers({-1, -1, -1, -1, -1, 1, 2});
  for (const auto& v : gradients(reduce_sum(clamp(x, low, high)), std::vector{x, low, high})) g.output(v);
  const auto r = g.run();
  BOOST_TEST(r[0].values == (std::vector<double>{0, 0, 0, 0, 0, 1, 1}), boost::test_tools::per_element());
  BOOST_TEST(r[1].values == (std::vector<double>{0, 0, 0, 0, 0, 0, 0}), boost::test_tools::per_element());
  BOOST_TEST(r[2].values == (std::vector<double>{1, 1, 1, 1, 1, 0, 0}), boost::test_tools::per_element());
}

// A derivative of 0 stays 0 beside an infinite or undefined gradient of the result.
BOOST_AUTO_TEST_CASE(nothing_of_an_infinite_gradient) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (bool passes : {true, false}) {
    small_graph g;
    const value x = g.input(array_of(dtype::float64, {3}, {-1.5, 0.25, 2}));
    const value start =
        g.input(array_of(dtype::float64, {3}, {infinity, -infinity, std::numeric_limits<double>::quiet_NaN()}));
    for (auto run :
         {+[](const value& v) -> value { return floor(v); }, +[](const value& v) -> value { return ceil(v); },
          +[](const value& v) -> value { return round(v); }, +[](const value& v) -> value { return sign(v); }})
      g.output(gradients(g.p, std::vector{run(x)}, std::vector{start}, std::vector{x})[0]);
    // of an extremum, by the other elements
    const value one = g.input(array_of(dtype::float64, {}, {infinity}));
    for (const value& y : {value(reduce_max(x)), value(reduce_min(x))})
      g.output(gradients(g.p, std::vector{y}, std::vector{one}, std::vector{x})[0]);
    const auto r = g.run(passes ? pass_options{} : no_passes);
    for (std::size_t i = 0; i < 4; ++i)
      BOOST_TEST(r[i].values == (std::vector<double>{0, 0, 0}), boost::test_tools::per_element());
    BOOST_TEST(r[4].values == (std::vector<double>{0, 0, infinity}), boost::test_tools::per_element());
    BOOST_TEST(r[5].values == (std::vector<double>{infinity, 0, 0}), boost::test_tools::per_element());
  }
}

// The slopes of activations at both ends: 0 or 1, not NaN.
BOOST_AUTO_TEST_CASE(activations_of_infinities) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const dtype element : {dtype::float32, dtype::float64})
    for (auto run :
         {+[](const value& v) -> value { return gelu(v); }, +[](const value& v) -> value { return gelu_tanh(v); },
          +[](const value& v) -> value { return silu(v); }, +[](const value& v) -> value { return mish(v); },
          +[](const value& v) -> value { return hard_swish(v); }}) {
      small_graph g;
      const value x = g.input(array_of(element, {4}, {-infinity, -1e30, 1e30, infinity})), y = run(x);
      g.output(y);
      g.output(gradients(reduce_sum(y), std::vector{x})[0]);
      const auto r = g.run();
      const array huge = from_tensor(to_tensor(array_of(element, {1}, {1e30})));
      BOOST_TEST(r[0].values == (std::vector<double>{0, 0, huge.values[0], infinity}),
                 boost::test_tools::per_element());
      BOOST_TEST(r[1].values[0] == 0);
      BOOST_TEST(r[1].values[1] == 0);
      BOOST_TEST(r[1].values[2] == 1);
      BOOST_TEST(r[1].values[3] == 1);
    }
}

BOOST_AUTO_TEST_CASE(broadcast_and_sum) {
  for (const auto& [from, to] : {std::pair<shape, shape>{{}, {2, 3}},
                                 {{3}, {2, 3}},
                                 {{2, 1}, {2, 3}},
                                 {{1, 1}, {4, 2}},
                                 {{1}, {0}},
                                 {{2, 3}, {2, 3}},
                                 {{1, 3, 1}, {2, 3, 4}},
                                 {{3, 1}, {2, 3, 4}}}) {
    check_twice("broadcast_like", {random_array(dtype::float64, from, 15), random_array(dtype::float64, to, 16)},
                [](const auto& x) { return std::vector<value>{broadcast_like(x[0], x[1]) * x[1]}; });
    check_twice("sum_like", {random_array(dtype::float64, to, 15), random_array(dtype::float64, from, 16)},
                [](const auto& x) { return std::vector<value>{sum_like(x[0], x[1]) * x[1]}; });
  }
}

BOOST_AUTO_TEST_CASE(remainders) {
  for (const auto& [s, t] :
       {std::pair{shape{2, 3}, shape{3}}, {{4}, {4}}, {{1, 3}, {2, 1}}, {{0}, {1}}, {{}, {2}}, {{5}, {1}}}) {
    const array x = real(s, 1, 3.1, 3.9), y = real(t, 2, 1.1, 1.3);  // away from multiples, where the result jumps
    check_twice("mod", {x, y}, [](const values& v) { return values{mod(v[0], v[1])}; });
    check_twice("mod", {x, y}, [](const values& v) { return values{mod(v[0], -v[1])}; });
    check_twice("fmod", {x, y}, [](const values& v) { return values{fmod(-v[0], v[1])}; });
  }
}

BOOST_AUTO_TEST_CASE(formulas_of_activations) {
  for (const auto& s : {shape{2, 3}, shape{1}, shape{0, 2}, shape{4, 1}, shape{}}) {
    check_twice("swish", {real(s, 1)}, [](const values& v) { return values{swish(v[0], {.alpha = 0.5})}; });
    check("celu", {distinct_array(s, 1)}, [](const values& v) { return values{celu(v[0], {.alpha = 2})}; });
    check("thresholded_relu", {distinct_array(s, 1)},
          [](const values& v) { return values{thresholded_relu(v[0], {.threshold = 0.013})}; });
    check("shrink", {distinct_array(s, 1)},
          [](const values& v) { return values{shrink(v[0], {.threshold = 0.013, .offset = 0.01})}; });
  }
}

BOOST_AUTO_TEST_SUITE_END()
