// Exact integers, conversions between element types, numbers beside tensors.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

template <class To, class From> std::vector<To> converted(std::vector<From> v) {
  tensor<From, extents<dyn>> x(static_cast<std::int64_t>(v.size()));
  for (std::size_t i = 0; i < v.size(); ++i) x.writable()[i] = v[i];
  auto y = evaluate(cast<To>(x));
  return std::vector<To>(y.data().begin(), y.data().end());
}

const dtype all_types[] = {dtype::float32, dtype::float64, dtype::float16, dtype::bfloat16, dtype::int8,
                           dtype::int16,   dtype::int32,   dtype::int64,   dtype::uint8,    dtype::boolean};

}  // namespace

BOOST_AUTO_TEST_SUITE(element_types)

BOOST_AUTO_TEST_CASE(wide_integers_stay_exact) {
  constexpr std::int64_t odd = 9007199254740993;  // 2^53 + 1: not representable as double
  vector<std::int64_t> x{odd, odd - 2, 1};
  auto y = evaluate(x + 9007199254740993);
  BOOST_TEST(y(0) == 2 * odd);
  BOOST_TEST(y(2) == odd + 1);
  auto same = evaluate(x == 9007199254740993);
  BOOST_TEST(same(0));
  BOOST_TEST(!same(1));
  BOOST_TEST(evaluate(x * 1 - 9007199254740992)(0) == 1);
  BOOST_TEST(evaluate(max(x, 9007199254740992))(2) == 9007199254740992);
  BOOST_TEST(evaluate(reduce_sum(x))() == 2 * odd - 1);
  BOOST_TEST(evaluate(x / 2)(0) == odd / 2);

  small_graph g;  // the same as run-time values
  value v = g.p.input("v", {dtype::int64, {1}});
  g.output(v + 9007199254740993);
  g.data = {array_of(dtype::int64, {1}, {0})};
  executor e(g.make(), nullptr);
  std::int64_t in = odd, out = 0;
  e.bind_input(0, &in);
  e.bind_output(0, &out);
  e.run();
  BOOST_TEST(out == 2 * odd);
}

BOOST_AUTO_TEST_CASE(integers_wrap_and_divide_without_traps) {
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min(), highest = std::numeric_limits<std::int64_t>::max();
  vector<std::int64_t> x{lowest, highest, 7, -7}, y{-1, 0, 2, 2};
  auto q = evaluate(x / y);
  BOOST_TEST(q(0) == lowest);
  BOOST_TEST(q(1) == 0);
  BOOST_TEST(q(2) == 3);
  BOOST_TEST(q(3) == -3);
  BOOST_TEST(evaluate(x + 1)(1) == lowest);
  BOOST_TEST(evaluate(-x)(0) == lowest);
  vector<std::int8_t> small{127, -128};
  BOOST_TEST(evaluate(small + 1)(0) == -128);
  vector<std::int32_t> z{std::numeric_limits<std::int32_t>::min()}, minus{-1};
  BOOST_TEST(evaluate(z / minus)(0) == z(0));
}

BOOST_AUTO_TEST_CASE(floats_to_integers_saturate) {
  constexpr float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  BOOST_TEST((converted<std::int8_t, float>({1.9f, -1.9f, 300, -300, inf, -inf, nan}) ==
              std::vector<std::int8_t>{1, -1, 127, -128, 127, -128, 0}));
  BOOST_TEST((converted<std::uint8_t, float>({1.9f, -1.9f, 300, -300, inf, -inf, nan}) ==
              std::vector<std::uint8_t>{1, 0, 255, 0, 255, 0, 0}));
  BOOST_TEST((converted<std::int32_t, float>({3e9f, -3e9f, nan, 16777216}) ==
              std::vector<std::int32_t>{2147483647, -2147483648, 0, 16777216}));
  BOOST_TEST((converted<std::int64_t, double>({1e19, -1e19, 0.5}) ==
              std::vector<std::int64_t>{std::numeric_limits<std::int64_t>::max(),
                                        std::numeric_limits<std::int64_t>::min(), 0}));
  BOOST_TEST((converted<bool, float>({0, -0.0f, 0.1f, nan}) == std::vector<bool>{false, false, true, true}));
  BOOST_TEST((converted<float, double>({1e300, 0.1}) == std::vector<float>{inf, 0.1f}));
}

BOOST_AUTO_TEST_CASE(every_pair_of_types_converts_small_numbers) {
  for (auto from : all_types)
    for (auto to : all_types)
      for (const auto& s : {shape{}, shape{5}, shape{3, 41}, shape{0}}) {
        auto in = random_array(from, s, 3, 0, 100);
        for (auto& v : in.values) v = from == dtype::boolean ? v : std::floor(v);
        auto want = in;
        want.type.element = to;
        if (to == dtype::boolean)
          for (auto& v : want.values) v = v != 0;
        auto got = result_of({in}, [&](const auto& x) { return value(apply<op::cast>(cast_attributes{to}, x[0])); });
        BOOST_CHECK_MESSAGE(same_bits(got, want), name_of(from) << " to " << name_of(to) << " " << s.string());
      }
}

BOOST_AUTO_TEST_CASE(a_number_takes_the_type_of_the_tensor) {
  for (auto element : {dtype::float32, dtype::float64, dtype::int8, dtype::int64, dtype::uint8}) {
    auto r = results_of({random_array(element, {3}, 1, 1, 5)}, [](const auto& x) {
      return std::vector<value>{x[0] + 1, 2 * x[0], x[0] / 1.0, where(x[0] > 2, x[0], 0), where(x[0] > 2, 1, x[0])};
    });
    for (const auto& a : r) BOOST_TEST((a.type.element == element));
  }
  vector<float> f{1, 2};
  auto y = evaluate(f * 0.1);
  BOOST_TEST(y(0) == 0.1f);
  static_assert(std::same_as<decltype(y)::element_type, float>);
  static_assert(std::same_as<decltype(f < 2)::element_type, bool>);
  static_assert(std::same_as<decltype(argmax(f))::element_type, std::int64_t>);
}

// A number combined with an integer tensor: the same messages and elements in both evaluation modes.
template <class T, class V> std::string said_of(V v) {
  auto typed = message_of([&] { evaluate(vector<T>{T(1)} + v); });
  auto of_program = message_of([&] {
    small_graph g;
    (void)(g.p.input("x", {dtype_of<T>, {1}}) + v);
  });
  BOOST_TEST(typed == of_program);
  return typed;
}
template <class T, class V> bool is_taken(V v, T want) {
  auto typed = evaluate(where(vector<bool>{true}, v, vector<T>{T(1)}));
  auto built =
      result_of({{{dtype_of<T>, {1}}, {1}}}, [&](const auto& x) { return value(where(x[0] == x[0], v, x[0])); });
  return typed(0) == want && built.values[0] == static_cast<double>(want);
}

BOOST_AUTO_TEST_CASE(a_number_that_the_tensor_cannot_hold_is_refused) {
  constexpr double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  BOOST_TEST(said_of<std::int8_t>(1000.0) ==
             "the number 1000 does not fit int8, which holds -128 to 127; cast the tensor first, as in cast<float>(x)");
  BOOST_TEST(said_of<std::int8_t>(1000) ==
             "the number 1000 does not fit int8, which holds -128 to 127; cast the tensor first, as in cast<float>(x)");
  BOOST_TEST(said_of<std::int8_t>(128).starts_with("the number 128 does not fit int8"));
  BOOST_TEST(said_of<std::int8_t>(-129.0).starts_with("the number -129 does not fit int8"));
  BOOST_TEST(said_of<std::int8_t>(127.5).starts_with("the number 127.5 does not fit int8"));
  BOOST_TEST(said_of<std::int32_t>(0.5) ==
             "the number 0.5 does not fit int32, which holds -2147483648 to 2147483647; cast the tensor first, as in "
             "cast<float>(x)");
  BOOST_TEST(said_of<std::int32_t>(nan).starts_with("the number nan does not fit int32"));
  BOOST_TEST(said_of<std::int16_t>(inf).starts_with("the number inf does not fit int16"));
  BOOST_TEST(said_of<std::int32_t>(-inf).starts_with("the number -inf does not fit int32"));
  BOOST_TEST(said_of<std::int64_t>(1e30).starts_with(
      "the number 1e30 does not fit int64, which holds -9223372036854775808 to 9223372036854775807"));
  BOOST_TEST(said_of<std::int64_t>(0x1p63).starts_with("the number 9.223372e18 does not fit int64"));
  BOOST_TEST(
      said_of<std::int64_t>(~std::uint64_t(0)).starts_with("the number 18446744073709551615 does not fit int64"));
  BOOST_TEST(said_of<std::uint8_t>(-1).starts_with("the number -1 does not fit uint8, which holds 0 to 255"));
  BOOST_TEST(said_of<std::uint8_t>(256u).starts_with("the number 256 does not fit uint8"));
  BOOST_CHECK_THROW(vector<std::int8_t>{1} + 1000.0, value_error);
  small_graph g;
  BOOST_CHECK_THROW(g.p.number(2.0, dtype::boolean), value_error);
  BOOST_CHECK_THROW(g.p.number(nan, dtype::int64), value_error);
  g.p.path = "encoder";
  BOOST_TEST(message_of([&] {
               (void)(g.p.input("x", {dtype::int8, {1}}) + 1000.0);
             }).starts_with("encoder: the number 1000 does not fit int8"));
}

BOOST_AUTO_TEST_CASE(a_number_that_the_tensor_can_hold_is_taken_exactly) {
  BOOST_TEST(is_taken<std::int8_t>(127.0, 127));
  BOOST_TEST(is_taken<std::int8_t>(-128, -128));
  BOOST_TEST(is_taken<std::int8_t>(-0.0, 0));
  BOOST_TEST(is_taken<std::uint8_t>(255.0f, 255));
  BOOST_TEST(is_taken<std::int32_t>(-2147483648.0, std::numeric_limits<std::int32_t>::min()));
  BOOST_TEST(is_taken<std::int64_t>(-0x1p63, std::numeric_limits<std::int64_t>::min()));
  BOOST_TEST(evaluate(vector<std::int64_t>{0} + std::numeric_limits<std::int64_t>::max())(0) ==
             std::numeric_limits<std::int64_t>::max());
  BOOST_TEST(is_taken<bool>(1.0, true));
  // Floating types round; numbers beyond their range become infinite.
  BOOST_TEST(is_taken<float>(1e300, std::numeric_limits<float>::infinity()));
  BOOST_TEST(is_taken<float>(std::uint64_t(1) << 63, 0x1p63f));
}

BOOST_AUTO_TEST_CASE(comparisons_of_numbers_beside_tensors) {
  vector<float> f{1, 2, 3};
  auto below = evaluate(f < 2), above = evaluate(2 < f);
  BOOST_TEST(below(0));
  BOOST_TEST(!below(1));
  BOOST_TEST(above(2));
  auto picked = evaluate(where(f >= 2, f * 10, -1));
  BOOST_TEST(picked(0) == -1);
  BOOST_TEST(picked(2) == 30);
}

BOOST_AUTO_TEST_SUITE_END()
