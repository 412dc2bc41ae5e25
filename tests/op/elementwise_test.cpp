// Elementwise operations against plain loops in double, with broadcasting, rank 0 and size 0.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "elementwise_functions.h"
#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity(), missing = std::numeric_limits<double>::quiet_NaN();

// Element of an operand at a position of the broadcast result.
double at(const array& a, const shape& whole, std::int64_t position) {
  std::int64_t offset = 0, stride = 1;
  for (int i = whole.rank - 1; i >= 0; --i) {
    std::int64_t index = position % whole.at(i);
    position /= whole.at(i);
    int k = i - (whole.rank - a.shape().rank);
    if (k < 0) continue;
    if (a.shape().at(k) != 1) offset += index * stride;
    stride *= a.shape().at(k);
  }
  return a.values[static_cast<std::size_t>(offset)];
}

using reference = std::function<double(const double*)>;
array expected(const std::vector<array>& in, dtype element, const reference& f) {
  shape whole = in[0].shape();
  for (const auto& a : in) {
    shape next;
    BOOST_REQUIRE(broadcast(whole, a.shape(), next));
    whole = next;
  }
  array r{{element, whole}, {}};
  for (std::int64_t p = 0; p < whole.size(); ++p) {
    double x[3] = {};
    for (std::size_t i = 0; i < in.size(); ++i) x[i] = at(in[i], whole, p);
    double y = f(x);
    r.values.push_back(element == dtype::float32 ? static_cast<double>(static_cast<float>(y)) : y);
  }
  return r;
}
void compare(const char* name, const std::vector<array>& in, dtype element,
             const std::function<value(const std::vector<value>&)>& run, const reference& f, double tolerance) {
  array got = result_of(in, run), want = expected(in, element, f);
  BOOST_CHECK_MESSAGE((got.type == want.type), name << ": " << got.shape().string());
  BOOST_CHECK_MESSAGE(distance(got, want) <= tolerance,
                      name << " of " << in[0].shape().string() << ": " << distance(got, want));
}

struct unary : elementwise_functions::function {
  value (*run)(const value&);
};
std::vector<unary> all_unary() {
  constexpr value (*runs[])(const value&) = {
#define RUN(name, ...) [](const value& x) -> value { return name(x); },
      EACH_ELEMENTWISE_FUNCTION(RUN)
#undef RUN
  };
  std::vector<unary> all{{{"negate", -9, 9, -2, 2, [](double x) { return -x; }},  // an operator
                          [](const value& x) -> value { return -x; }}};
  for (std::size_t i = 0; i < std::size(runs); ++i) all.push_back({elementwise_functions::all[i], runs[i]});
  return all;
}

struct binary {
  const char* name;
  value (*run)(const value&, const value&);
  double (*want)(double, double);
};
const binary arithmetic[] = {
    {"add", [](const value& a, const value& b) -> value { return a + b; }, [](double a, double b) { return a + b; }},
    {"subtract", [](const value& a, const value& b) -> value { return a - b; },
     [](double a, double b) { return a - b; }},
    {"multiply", [](const value& a, const value& b) -> value { return a * b; },
     [](double a, double b) { return a * b; }},
    {"min", [](const value& a, const value& b) -> value { return min(a, b); },
     [](double a, double b) { return std::min(a, b); }},
    {"max", [](const value& a, const value& b) -> value { return max(a, b); },
     [](double a, double b) { return std::max(a, b); }},
};
const binary comparisons[] = {
    {"==", [](const value& a, const value& b) -> value { return a == b; },
     [](double a, double b) { return double(a == b); }},
    {"!=", [](const value& a, const value& b) -> value { return a != b; },
     [](double a, double b) { return double(a != b); }},
    {"<", [](const value& a, const value& b) -> value { return a < b; },
     [](double a, double b) { return double(a < b); }},
    {"<=", [](const value& a, const value& b) -> value { return a <= b; },
     [](double a, double b) { return double(a <= b); }},
    {">", [](const value& a, const value& b) -> value { return a > b; },
     [](double a, double b) { return double(a > b); }},
    {">=", [](const value& a, const value& b) -> value { return a >= b; },
     [](double a, double b) { return double(a >= b); }},
};
const std::vector<std::pair<shape, shape>> pairs{
    {{}, {}},         {{7}, {7}},          {{2, 3}, {3}}, {{3}, {2, 3}}, {{2, 3}, {}},
    {{4, 1}, {1, 5}}, {{2, 1, 3}, {4, 1}}, {{0}, {1}},    {{2, 0}, {}},  {{2, 1, 2, 1, 2}, {3, 1, 2, 1}},
    {{600}, {1}},     {{3, 200}, {200}}};

}  // namespace

BOOST_AUTO_TEST_SUITE(elementwise_operations)

BOOST_AUTO_TEST_CASE(unary_operations) {
  for (const auto& u : all_unary())
    for (const auto& s : {shape{}, shape{1}, shape{77}, shape{0}, shape{3, 5}, shape{2, 0, 3}, shape{1500}}) {
      auto run = [&](const auto& x) { return u.run(x[0]); };
      auto want = [&](const double* x) { return u.reference(x[0]); };
      compare(u.name, {random_array(dtype::float32, s, 1, u.low, u.high)}, dtype::float32, run, want, 4e-7);
      compare(u.name, {random_array(dtype::float64, s, 1, u.low, u.high)}, dtype::float64, run, want, 2e-15);
    }
}

BOOST_AUTO_TEST_CASE(binary_operations_of_every_number_type) {
  for (auto element :
       {dtype::float32, dtype::float64, dtype::int8, dtype::int16, dtype::int32, dtype::int64, dtype::uint8})
    for (const auto& [s, t] : pairs) {
      const double low = element == dtype::uint8 ? 5 : -9, high = 11;
      std::vector<array> in{
          random_array(element, s, 1, low, high),
          random_array(element, t, 2, element == dtype::uint8 ? 0 : low, element == dtype::uint8 ? 5 : high)};
      for (const auto& b : arithmetic)
        compare(
            b.name, in, element, [&](const auto& x) { return b.run(x[0], x[1]); },
            [&](const double* x) { return b.want(x[0], x[1]); }, 0);
      for (const auto& b : comparisons)
        compare(
            b.name, in, dtype::boolean, [&](const auto& x) { return b.run(x[0], x[1]); },
            [&](const double* x) { return b.want(x[0], x[1]); }, 0);
      for (auto& v : in[1].values) v = v == 0 ? 1 : v;
      compare(
          "divide", in, element, [](const auto& x) { return value(x[0] / x[1]); },
          [&](const double* x) { return is_integer(element) ? std::trunc(x[0] / x[1]) : x[0] / x[1]; }, 0);
    }
}

BOOST_AUTO_TEST_CASE(powers) {
  for (auto element : {dtype::float32, dtype::float64})
    for (const auto& [s, t] : pairs)
      compare(
          "pow", {random_array(element, s, 1, 0.1, 5), random_array(element, t, 2, -4, 4)}, element,
          [](const auto& x) { return value(pow(x[0], x[1])); }, [](const double* x) { return std::pow(x[0], x[1]); },
          element == dtype::float32 ? 1e-6 : 1e-14);
  auto special = result_of(
      {array_of(dtype::float64, {6}, {0, -2, -2, 2, 0, -8}), array_of(dtype::float64, {6}, {0, 3, 2, -1, 2, 0.5})},
      [](const auto& x) { return value(pow(x[0], x[1])); });
  BOOST_TEST(
      std::equal(special.values.begin(), special.values.end() - 1, std::vector<double>{1, -8, 4, 0.5, 0}.begin()));
  BOOST_TEST(std::isnan(special.values[5]));
}

BOOST_AUTO_TEST_CASE(powers_of_integers) {
  for (auto element : {dtype::int8, dtype::int16, dtype::int32, dtype::int64, dtype::uint8})
    for (const auto& [s, t] : pairs)
      compare(
          "pow", {random_array(element, s, 1, element == dtype::uint8 ? 0 : -3, 4), random_array(element, t, 2, 0, 4)},
          element, [](const auto& x) { return value(pow(x[0], x[1])); },
          [](const double* x) { return std::pow(x[0], x[1]); }, 0);
  const auto power = [](dtype element, double x, double y) {
    return result_of({array_of(element, {1}, {x}), array_of(element, {1}, {y})},
                     [](const auto& v) { return value(pow(v[0], v[1])); })
        .values[0];
  };
  BOOST_TEST(power(dtype::int32, 2, -1) == 0);
  BOOST_TEST(power(dtype::int32, -1, -3) == -1);
  BOOST_TEST(power(dtype::int64, 1, -7) == 1);
  BOOST_TEST(power(dtype::int8, 2, 7) == -128);
  BOOST_TEST(power(dtype::int32, 3, 100) == -818408495);
  BOOST_TEST(power(dtype::uint8, 255, 2) == 1);
}

BOOST_AUTO_TEST_CASE(remainders) {
  const auto remainder = [](bool floor, bool whole, double x, double y) {
    if (whole && y == 0) return 0.;
    const double r = std::fmod(x, y);
    if (!floor) return r;
    if (r == 0) return std::copysign(0., y);
    return (r < 0) != (y < 0) ? r + y : r;
  };
  for (auto element :
       {dtype::float32, dtype::float64, dtype::int8, dtype::int16, dtype::int32, dtype::int64, dtype::uint8})
    for (const auto& [s, t] : pairs) {
      const double low = element == dtype::uint8 ? 0 : -30;
      const std::vector<array> in{random_array(element, s, 1, low, 30), random_array(element, t, 2, low / 10, 4)};
      const bool whole = is_integer(element);
      const double tolerance = element == dtype::float32 ? 1e-6 : element == dtype::float64 ? 1e-15 : 0;
      compare(
          "fmod", in, element, [](const auto& x) { return value(fmod(x[0], x[1])); },
          [&](const double* x) { return remainder(false, whole, x[0], x[1]); }, 0);
      compare(
          "mod", in, element, [](const auto& x) { return value(mod(x[0], x[1])); },
          [&](const double* x) { return remainder(true, whole, x[0], x[1]); }, tolerance);
    }
  // Like numpy.mod, and integers, for which C differs.
  const array special = result_of({array_of(dtype::float32, {6}, {-4.3, 7.2, 5, 4.3, -7.2, 8}),
                                   array_of(dtype::float32, {6}, {2.1, -3.4, 8, -2.1, 3.4, 5})},
                                  [](const auto& x) { return value(mod(x[0], x[1])); });
  BOOST_TEST(distance(special, array_of(dtype::float32, {6}, {2, -3, 5, -2, 3, 3})) < 3e-6 / 6 + 1e-6);
  const array edges = array_of(dtype::int32, {3}, {-2147483648., -2147483648., 7});
  const array by = array_of(dtype::int32, {3}, {-1, 0, -2147483648.});
  BOOST_TEST(result_of({edges, by}, [](const auto& x) { return value(mod(x[0], x[1])); }).values ==
             std::vector<double>({0, 0, -2147483641.}));
  BOOST_TEST(
      result_of({array_of(dtype::uint8, {2}, {250, 255}), array_of(dtype::uint8, {2}, {255, 255})}, [](const auto& x) {
        return value(fmod(x[0], x[1]));
      }).values == std::vector<double>({250, 0}));
}

BOOST_AUTO_TEST_CASE(bits) {
  for (auto element : {dtype::int8, dtype::int16, dtype::int32, dtype::int64, dtype::uint8})
    for (const auto& [s, t] : pairs) {
      const double low = element == dtype::uint8 ? 0 : -100;
      const std::vector<array> in{random_array(element, s, 1, low, 100), random_array(element, t, 2, low, 100)},
          shifted{in[0], random_array(element, t, 3, 0, 9)};
      const auto whole = [](double x) { return static_cast<std::int64_t>(x); };
      const auto held = [&](std::int64_t x) {  // wraps to the element type
        if (element == dtype::int8) return static_cast<double>(static_cast<std::int8_t>(x));
        if (element == dtype::uint8) return static_cast<double>(static_cast<std::uint8_t>(x));
        return static_cast<double>(x);
      };
      const auto two = [&](const char* name, auto run, auto want) {
        compare(
            name, in, element, [&](const auto& x) { return value(run(x[0], x[1])); },
            [&](const double* x) { return held(want(whole(x[0]), whole(x[1]))); }, 0);
      };
      two(
          "bit_and", [](const value& a, const value& b) { return bit_and(a, b); },
          [](auto a, auto b) { return a & b; });
      two("bit_or", [](const value& a, const value& b) { return bit_or(a, b); }, [](auto a, auto b) { return a | b; });
      two(
          "bit_xor", [](const value& a, const value& b) { return bit_xor(a, b); },
          [](auto a, auto b) { return a ^ b; });
      two(
          "bit_not", [](const value& a, const value& b) { return bit_not(a) + b * 0; },
          [](auto a, auto) { return ~a; });
      compare(
          "shift_left", shifted, element, [](const auto& x) { return value(shift_left(x[0], x[1])); },
          [&](const double* x) {
            if (x[1] >= 8 && (element == dtype::int8 || element == dtype::uint8)) return 0.;
            return held(whole(x[0]) << whole(x[1]));
          },
          0);
      compare(
          "shift_right", shifted, element, [](const auto& x) { return value(shift_right(x[0], x[1])); },
          [&](const double* x) { return held(whole(x[0]) >> whole(x[1])); }, 0);
    }
  const auto shifts = [](const array& x, const array& by) {
    return results_of(
        {x, by}, [](const auto& v) { return std::vector<value>{shift_left(v[0], v[1]), shift_right(v[0], v[1])}; });
  };
  const auto signed_ones =
      shifts(array_of(dtype::int32, {4}, {-5, -5, 5, 1}), array_of(dtype::int32, {4}, {-1, 32, 40, 31}));
  BOOST_TEST(signed_ones[0].values == std::vector<double>({0, 0, 0, -2147483648.}));
  BOOST_TEST(signed_ones[1].values == std::vector<double>({-1, -1, 0, 0}));
  const auto unsigned_ones = shifts(array_of(dtype::uint8, {2}, {200, 200}), array_of(dtype::uint8, {2}, {8, 1}));
  BOOST_TEST(unsigned_ones[0].values == std::vector<double>({0, 144}));
  BOOST_TEST(unsigned_ones[1].values == std::vector<double>({0, 100}));
}

BOOST_AUTO_TEST_CASE(what_is_no_number) {
  const array x = array_of(dtype::float32, {2, 3}, {1, missing, infinity, -infinity, 0, missing});
  const auto found = results_of({x}, [](const auto& v) {
    return std::vector<value>{is_nan(v[0]), is_inf(v[0]), is_inf(v[0], {.negative = false}),
                              is_inf(v[0], {.positive = false}), is_inf(v[0], {.negative = false, .positive = false})};
  });
  const std::vector<double> want[] = {
      {0, 1, 0, 0, 0, 1}, {0, 0, 1, 1, 0, 0}, {0, 0, 1, 0, 0, 0}, {0, 0, 0, 1, 0, 0}, {0, 0, 0, 0, 0, 0}};
  for (std::size_t i = 0; i < found.size(); ++i)
    BOOST_TEST(same_bits(found[i], array_of(dtype::boolean, {2, 3}, want[i])));
}

BOOST_AUTO_TEST_CASE(choice_and_bounds) {
  for (const auto& [s, t] : pairs)
    for (auto element : {dtype::float32, dtype::float64, dtype::int32, dtype::int64, dtype::uint8}) {
      compare(
          "where",
          {random_array(dtype::boolean, s, 1), random_array(element, t, 2, 0, 9), random_array(element, {}, 3, 0, 9)},
          element, [](const auto& x) { return value(where(x[0], x[1], x[2])); },
          [](const double* x) { return x[0] != 0 ? x[1] : x[2]; }, 0);
      compare(
          "clamp",
          {random_array(element, s, 1, 0, 20), random_array(element, t, 2, 3, 6), random_array(element, {}, 3, 9, 12)},
          element, [](const auto& x) { return value(clamp(x[0], x[1], x[2])); },
          [](const double* x) { return std::min(std::max(x[0], x[1]), x[2]); }, 0);
    }
}

BOOST_AUTO_TEST_CASE(activations_with_options) {
  const array x = random_array(dtype::float32, {3, 50}, 1, -6, 6);
  const auto near = [&](const char* name, const std::function<value(const std::vector<value>&)>& run,
                        double (*want)(double)) {
    compare(name, {x}, dtype::float32, run, [&](const double* v) { return want(v[0]); }, 4e-7);
  };
  near(
      "leaky_relu", [](const auto& v) { return value(leaky_relu(v[0], {.slope = 0.25})); },
      [](double v) { return v > 0 ? v : v * 0.25; });
  near(
      "elu", [](const auto& v) { return value(elu(v[0], {.alpha = 1.5})); },
      [](double v) { return v > 0 ? v : 1.5 * std::expm1(v); });
  near(
      "hard_sigmoid", [](const auto& v) { return value(hard_sigmoid(v[0], {.slope = 0.2})); },
      [](double v) { return std::clamp(v * 0.2 + 0.5, 0., 1.); });
  near(
      "celu", [](const auto& v) { return value(celu(v[0], {.alpha = 2})); },
      [](double v) { return v > 0 ? v : 2 * std::expm1(v / 2); });
  near(
      "thresholded_relu", [](const auto& v) { return value(thresholded_relu(v[0], {.threshold = 2})); },
      [](double v) { return v > 2 ? v : 0; });
  near(
      "shrink", [](const auto& v) { return value(shrink(v[0], {.threshold = 1.5, .offset = 0.5})); },
      [](double v) { return v < -1.5  ? v + 0.5
                            : v > 1.5 ? v - 0.5
                                      : 0; });
  near(
      "swish", [](const auto& v) { return value(swish(v[0], {.alpha = 0.5})); },
      [](double v) { return v / (1 + std::exp(-0.5 * v)); });
  for (const auto& [s, t] : pairs)
    compare(
        "prelu", {random_array(dtype::float64, s, 1, -3, 3), random_array(dtype::float64, t, 2)}, dtype::float64,
        [](const auto& v) { return value(prelu(v[0], v[1])); },
        [](const double* v) { return v[0] > 0 ? v[0] : v[0] * v[1]; }, 1e-15);
}

// Values at the ends of the number line, and NaN propagation.
BOOST_AUTO_TEST_CASE(activations_at_their_ends) {
  for (auto element : {dtype::float32, dtype::float64}) {
    auto r = results_of({array_of(element, {6}, {-infinity, -1000, 0, 1000, infinity, missing})}, [](const auto& x) {
      return std::vector<value>{gelu(x[0]),       softplus(x[0]), expm1(x[0]),        elu(x[0]),
                                leaky_relu(x[0]), relu6(x[0]),    hard_sigmoid(x[0]), selu(x[0])};
    });
    const double log2 = element == dtype::float32 ? static_cast<double>(0.69314718f) : 0.6931471805599453;
    const std::vector<std::vector<double>> want{{0, 0, 0, 1000, infinity},
                                                {0, 0, log2, 1000, infinity},
                                                {-1, -1, 0, infinity, infinity},
                                                {-1, -1, 0, 1000, infinity},
                                                {-infinity, -10, 0, 1000, infinity},
                                                {0, 0, 0, 6, 6},
                                                {0, 0, 0.5, 1, 1}};
    for (std::size_t k = 0; k < want.size(); ++k)
      for (std::size_t i = 0; i < 5; ++i)
        BOOST_TEST((r[k].values[i] == want[k][i] || std::abs(r[k].values[i] - want[k][i]) < 1e-6));
    for (const auto& y : r) BOOST_TEST(std::isnan(y.values[5]));
  }
}

BOOST_AUTO_TEST_CASE(typed_functions) {
  matrix<float> x{{-2.5f, -0.5f}, {0, 3}};
  vector<float> slope{0.5f, 0.25f};
  const auto same = [&](const auto& typed, value (*run)(const value&)) {
    BOOST_TEST(same_bits(from_tensor(any_tensor(evaluate(typed))),
                         result_of({from_tensor(any_tensor(x))}, [&](const auto& v) { return run(v[0]); })));
  };
  same(leaky_relu(x, {.slope = 0.125}), [](const value& v) -> value { return leaky_relu(v, {.slope = 0.125}); });
  same(hard_swish(x) * mish(x), [](const value& v) -> value { return hard_swish(v) * mish(v); });
#define SAME(name, ...) same(name(x), [](const value& v) -> value { return name(v); });
  EACH_ELEMENTWISE_FUNCTION(SAME)
#undef SAME
  BOOST_TEST(evaluate(prelu(x, slope))(0, 1) == -0.125f);
}

BOOST_AUTO_TEST_CASE(logic) {
  for (const auto& [s, t] : pairs) {
    const std::vector<array> in{random_array(dtype::boolean, s, 1), random_array(dtype::boolean, t, 2)};
    compare(
        "&&", in, dtype::boolean, [](const auto& x) { return value(x[0] && x[1]); },
        [](const double* x) { return double(x[0] != 0 && x[1] != 0); }, 0);
    compare(
        "||", in, dtype::boolean, [](const auto& x) { return value(x[0] || x[1]); },
        [](const double* x) { return double(x[0] != 0 || x[1] != 0); }, 0);
    compare(
        "^", in, dtype::boolean, [](const auto& x) { return value(x[0] ^ x[1]); },
        [](const double* x) { return double(x[0] != x[1]); }, 0);
    compare(
        "==", in, dtype::boolean, [](const auto& x) { return value(x[0] == x[1]); },
        [](const double* x) { return double(x[0] == x[1]); }, 0);
    compare(
        "!", {in[0]}, dtype::boolean, [](const auto& x) { return value(!x[0]); },
        [](const double* x) { return double(x[0] == 0); }, 0);
  }
}

BOOST_AUTO_TEST_CASE(not_a_number) {
  for (auto element : {dtype::float32, dtype::float64}) {
    const std::vector<array> in{array_of(element, {4}, {missing, 1, missing, infinity}),
                                array_of(element, {4}, {1, missing, missing, infinity})};
    const std::vector<std::vector<double>> want{{0, 0, 0, 1}, {1, 1, 1, 0}, {0, 0, 0, 0},
                                                {0, 0, 0, 1}, {0, 0, 0, 0}, {0, 0, 0, 1}};
    for (std::size_t i = 0; i < 6; ++i)
      BOOST_TEST(result_of(in, [&](const auto& x) { return comparisons[i].run(x[0], x[1]); }).values == want[i],
                 boost::test_tools::per_element());
    for (const auto& r : results_of(in, [](const auto& x) {
           return std::vector<value>{min(x[0], x[1]), max(x[0], x[1]), clamp(x[0], -1, 1), relu(x[0])};
         }))
      BOOST_TEST(std::isnan(r.values[0]));
    auto outside = results_of({array_of(element, {3}, {-1, 2, 1e30})}, [](const auto& x) {
      return std::vector<value>{sqrt(x[0]), log(x[0]), asin(x[0]), acosh(x[0])};
    });
    BOOST_TEST(std::isnan(outside[0].values[0]));
    BOOST_TEST(std::isnan(outside[1].values[0]));
    BOOST_TEST(std::isnan(outside[2].values[1]));
    BOOST_TEST(std::isnan(outside[3].values[0]));
  }
}

BOOST_AUTO_TEST_CASE(tails) {
  auto r = results_of({array_of(dtype::float32, {4}, {-1000, -100, 100, 1000})},
                      [](const auto& x) { return std::vector<value>{exp(x[0]), sigmoid(x[0]), tanh(x[0])}; });
  BOOST_TEST(r[0].values[0] == 0);
  BOOST_TEST(r[0].values[3] == infinity);
  BOOST_TEST(r[1].values[0] == 0);
  BOOST_TEST(r[1].values[1] == 3.7835058e-44, boost::test_tools::tolerance(0.05));
  BOOST_TEST(r[1].values[3] == 1);
  BOOST_TEST(r[2].values[0] == -1);
  auto halves = result_of({array_of(dtype::float64, {6}, {-2.5, -1.5, -0.5, 0.5, 1.5, 2.5})},
                          [](const auto& x) { return value(round(x[0])); });
  BOOST_TEST(halves.values == (std::vector<double>{-2, -2, -0.0, 0, 2, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
