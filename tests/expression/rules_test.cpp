// Rules that hold for operands in every build: integers beyond 2^53, and which shapes broadcast.
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "graph.h"
#include "numbers.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

constexpr std::int64_t odd = 9007199254740993;  // 2^53 + 1: not representable as double

// Results of both evaluation modes for an operation on one int64 element.
std::int64_t typed(const auto& f, std::int64_t v) {
  return static_cast<std::int64_t>(evaluate(f(vector<std::int64_t>{v}))(0));
}
std::int64_t as_values(const auto& f, std::int64_t v) {
  program p;
  p.output("y", value(f(p.input("x", {dtype::int64, {1}}))));
  const shape extents[] = {shape{1}};
  executor e(make_plan(p, extents, target_isa()), nullptr);
  std::int64_t out = 0;
  e.bind_input(0, &v);
  e.bind_output(0, &out);
  e.run();
  return out;
}
#define BOTH(formula, v, wanted)                    \
  {                                                 \
    auto f = [](const auto& x) { return formula; }; \
    BOOST_TEST(typed(f, v) == (wanted));            \
    BOOST_TEST(as_values(f, v) == (wanted));        \
  }

}  // namespace

BOOST_AUTO_TEST_SUITE(rules_of_operands)

BOOST_AUTO_TEST_CASE(numbers_beside_int64_stay_exact) {
  BOTH(x + odd, 0, odd);
  BOTH(odd + x, 0, odd);
  BOTH(x - odd, 0, -odd);
  BOTH(odd - x, 1, odd - 1);
  BOTH(x * odd, 1, odd);
  BOTH(odd * x, 3, 3 * odd);
  BOTH(x / odd, odd, 1);
  BOTH(odd / x, 1, odd);
  BOTH(max(x, odd), 0, odd);
  BOTH(min(odd, x), std::numeric_limits<std::int64_t>::max(), odd);
  BOTH(where(x == odd, x, x * 0), odd, odd);
  BOTH(where(odd == x, x, x * 0), odd - 1, 0);
  BOTH(where(x < odd, x, x * 0), odd - 1, odd - 1);
  BOTH(where(odd < x, x, x * 0), odd, 0);
  BOTH(clamp(x, odd, odd), 0, odd);
}

BOOST_AUTO_TEST_CASE(shapes_that_broadcast) {
  matrix<float> a{{1, 2, 3}, {4, 5, 6}};
  matrix<float> column{{10}, {20}};  // (2,3) + (2,1)
  auto y = evaluate(a + column);
  BOOST_TEST((y.shape() == shape{2, 3}));
  BOOST_TEST(numbers(y) == (list{11, 12, 13, 24, 25, 26}), boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(column + a)) == (list{11, 12, 13, 24, 25, 26}), boost::test_tools::per_element());
  tensor<float, extents<2, 1>> fixed{{10}, {20}};
  auto z = evaluate(tensor<float, extents<2, 3>>{{1, 2, 3}, {4, 5, 6}} + fixed);
  static_assert(std::same_as<decltype(z), tensor<float, extents<2, 3>>>);
  BOOST_TEST(numbers(z) == (list{11, 12, 13, 24, 25, 26}), boost::test_tools::per_element());
  vector<float> row{100, 200, 300};  // a suffix
  BOOST_TEST(numbers(evaluate(a + row)) == (list{101, 202, 303, 104, 205, 306}), boost::test_tools::per_element());
  BOOST_TEST(numbers(evaluate(scalar<float>(1) + a)) == (list{2, 3, 4, 5, 6, 7}), boost::test_tools::per_element());
  tensor<float, extents<dyn, dyn, dyn>> three(2, 1, 3);
  BOOST_TEST((evaluate(three + column).shape() == shape{2, 2, 3}));
  BOOST_TEST((evaluate(three + a).shape() == shape{2, 2, 3}));
  BOOST_TEST((evaluate(matrix<float>(0, 3) + row).shape() == shape{0, 3}));
  BOOST_TEST((evaluate(matrix<float>(2, 1) + matrix<float>(1, 0)).shape() == shape{2, 0}));
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_throw_in_every_build) {
  matrix<float> a(2, 3);
  // Building the expression is enough; it is not evaluated.
  BOOST_TEST(message_of([&] { a + matrix<float>(2, 2); }) == "add: the shapes do not broadcast: [2x3] [2x2]");
  BOOST_CHECK_THROW(a + matrix<float>(2, 2), shape_error);
  BOOST_CHECK_THROW(matrix<float>(2, 2) + a, shape_error);
  BOOST_CHECK_THROW(a * vector<float>(2), shape_error);
  BOOST_CHECK_THROW(a - matrix<float>(3, 3), shape_error);
  BOOST_CHECK_THROW(a / matrix<float>(0, 3), shape_error);
  BOOST_CHECK_THROW(max(a, zeros<float>(2, 2)), shape_error);
  BOOST_CHECK_THROW(a + make_dynamic(matrix<float>(2, 2)), shape_error);
  program p;
  value x = p.input("x", {dtype::float32, {2, 3}});
  BOOST_CHECK_THROW(x + p.input("y", {dtype::float32, {2, 2}}), shape_error);
  // Known only when it is planned.
  value n = p.input("n", {dtype::float32, {2, "N"}});
  p.output("z", value(x + n));
  const shape wrong[] = {{2, 3}, {2, 2}, {2, 2}}, right[] = {{2, 3}, {2, 2}, {2, 1}};
  BOOST_CHECK_THROW(make_plan(p, wrong, target_isa()), shape_error);
  BOOST_TEST((make_plan(p, right, target_isa())->output_types()[0].dims == shape{2, 3}));
}

// Static extents of a result do not cover the operands' extents: those are also checked when the expression is built.
BOOST_AUTO_TEST_CASE(extents_are_checked_when_an_expression_is_made) {
  matrix<float> m(2, 4), n(3, 3);
  static_assert(decltype(reshape<extents<3, 3>>(m))::pattern.is_static());
  BOOST_TEST(message_of([&] { (void)reshape<extents<3, 3>>(m); }) == "reshape: 8 elements do not make [3x3]: [2x4]");
  BOOST_TEST((evaluate(reshape<extents<2, 4>>(m)).shape() == shape{2, 4}));
  BOOST_TEST((evaluate(reshape<extents<9>>(n)).shape() == shape{9}));
  matrix<float, 2, dyn> a(4);
  matrix<float, dyn, 3> b(4), c(5);
  static_assert(decltype(matmul(a, b))::pattern.is_static());
  BOOST_TEST((evaluate(matmul(a, b)).shape() == shape{2, 3}));
  BOOST_TEST(message_of([&] { (void)matmul(a, c); }) == "matmul: the inner sizes differ: [2x4] [5x3]");
  matrix<float, 3, 3> fixed;
  BOOST_TEST((evaluate(fixed + n).shape() == shape{3, 3}));
  BOOST_TEST(message_of([&] { (void)(fixed + m); }) == "add: the shapes do not broadcast: [3x3] [2x4]");
  matrix<float, dyn, 3> rows(2);
  BOOST_TEST(message_of([&] { (void)squeeze<0>(rows); }) == "squeeze: axis 0 has 2 positions, not one: [2x3]");
  vector<float, 3> v{1, 2, 3};
  BOOST_TEST(message_of([&] { (void)select(v, 0, 3); }) == "select: position 3 is outside of axis 0: [3]");
  BOOST_TEST(
      message_of([&] { (void)take_along_axis<1>(rows, matrix<std::int64_t, 3, 2>()); }) ==
      "take_along_axis: the positions must have the shape of the operand except along axis 1: float32[2x3] int64[3x2]");
  BOOST_TEST(evaluate(reduce_sum(n))() == 0);  // this rule reads no extent
}

// A rule's last result is not reused for other extents or another rule.
BOOST_AUTO_TEST_CASE(rules_in_turn) {
  for (const std::int64_t n : {4, 6, 4, 8, 1, 4}) {
    const matrix<float> m(2, n), other(3, n);
    BOOST_TEST((slice<slice_attributes{.start = 1, .axis = 1}>(m).shape() == shape{2, n - 1}));
    BOOST_TEST((slice<slice_attributes{.stop = 1, .axis = 1}>(m).shape() == shape{2, 1}));
    BOOST_TEST((unsqueeze<0>(m).shape() == shape{1, 2, n}));
    BOOST_TEST((unsqueeze<1>(m).shape() == shape{2, 1, n}));
    BOOST_TEST((permute<1, 0>(m).shape() == shape{n, 2}));
    BOOST_TEST((concat<0>(m, other, m).shape() == shape{7, n}));
    BOOST_TEST((concat<1>(m, m).shape() == shape{2, 2 * n}));
    BOOST_TEST((matmul<false, true>(m, other).shape() == shape{2, 3}));
    BOOST_TEST((matmul<true, false>(m, m).shape() == shape{n, n}));
    BOOST_TEST((matmul(permute<1, 0>(m), m).shape() == shape{n, n}));
    BOOST_CHECK_THROW((void)matmul(m, other), shape_error);
    if (n != 1) BOOST_CHECK_THROW((void)concat<1>(m, other), shape_error);
  }
}

BOOST_AUTO_TEST_SUITE_END()
