// Random operands of typed expressions against the same operands as program values.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

BOOST_AUTO_TEST_SUITE(random_operands)

BOOST_AUTO_TEST_CASE(typed_ones_are_those_of_a_program) {
  vector<std::int64_t, 2> state{42, 7};
  matrix<float> x(3, 50);
  for (auto& v : x.writable()) v = 2;
  const array state_values = array_of(dtype::int64, {2}, {42, 7}),
              x_values = array_of(dtype::float32, {3, 50}, std::vector<double>(150, 2));
  auto want = results_of({state_values, x_values}, [](const auto& v) {
    return std::vector<value>{random_uniform(v[0], v[1], {.a = -1, .b = 3, .site = 5}),
                              random_normal(v[0], v[1], {.site = 6}),
                              dropout(v[1], v[0], {.probability = 0.25, .site = 5})};
  });
  auto same = [&](std::size_t i, const auto& got) {
    BOOST_TEST((got.shape() == want[i].shape()));
    BOOST_TEST(std::vector<double>(got.data().begin(), got.data().end()) == want[i].values,
               boost::test_tools::per_element());
  };
  same(0, evaluate(random_uniform(state, x, {.a = -1, .b = 3, .site = 5})));
  same(1, evaluate(random_normal(state, x, {.site = 6})));
  same(2, evaluate(dropout(x, state, {.probability = 0.25, .site = 5})));
  static_assert(std::same_as<decltype(random_uniform(state, matrix<double, 3, 4>(), {}))::element_type, double>);
}

// With a seed in the program, each run has the same numbers; another seed gives others.
BOOST_AUTO_TEST_CASE(numbers_of_a_seed) {
  const array x = random_array(dtype::float32, {40, 50}, 1, 0, 1);
  const auto draw = [&](std::int64_t seed) {
    return results_of({x}, [&](const auto& v) {
      return std::vector<value>{
          uniform_like(v[0], dtype::float32, -1, 3, {seed}), normal_like(v[0], dtype::float64, 2, 0.5, {seed}),
          bernoulli(v[0], dtype::int32, {seed}), uniform_like(cast<std::int64_t>(v[0]), dtype::float16, 0, 1, {seed})};
    });
  };
  const auto first = draw(1), again = draw(1), other = draw(2);
  for (std::size_t i = 0; i < first.size(); ++i) {
    BOOST_TEST(same_bits(first[i], again[i]));
    BOOST_TEST(!same_bits(first[i], other[i]));
  }
  BOOST_TEST((first[1].type == tensor_type{dtype::float64, {40, 50}}));
  BOOST_TEST((first[3].type == tensor_type{dtype::float16, {40, 50}}));
  double low = 9, high = -9, mean = 0, hits = 0, expected = 0;
  for (double v : first[0].values) low = std::min(low, v), high = std::max(high, v);
  for (double v : first[1].values) mean += v / 2000;
  for (double v : first[2].values) hits += v;
  for (double v : x.values) expected += v;
  BOOST_TEST((low >= -1 && low < -0.98 && high < 3 && high > 2.98));
  BOOST_TEST(std::abs(mean - 2) < 0.05);
  BOOST_TEST(std::abs(hits - expected) < 90);
}

BOOST_AUTO_TEST_CASE(classes_by_their_probabilities) {
  const array scores = array_of(dtype::float32, {2, 3}, {std::log(0.2), std::log(0.5), std::log(0.3), -1e30, 5, -1e30});
  const array y = result_of({scores}, [](const auto& v) { return multinomial(v[0], 4000, {7}); });
  BOOST_TEST((y.type == tensor_type{dtype::int64, {2, 4000}}));
  double counts[3] = {};
  for (std::size_t i = 0; i < 4000; ++i) {
    ++counts[static_cast<std::size_t>(y.values[i])];
    BOOST_REQUIRE(y.values[4000 + i] == 1);
  }
  BOOST_TEST((std::abs(counts[0] - 800) < 120 && std::abs(counts[1] - 2000) < 150 && std::abs(counts[2] - 1200) < 140));
}

BOOST_AUTO_TEST_CASE(dropout_that_an_operand_switches) {
  const array x = random_array(dtype::float32, {1000}, 1, 1, 2), ratio = array_of(dtype::float32, {}, {0.25});
  for (bool training : {true, false}) {
    const auto y = results_of({x, ratio, array_of(dtype::boolean, {}, {training ? 1. : 0.})}, [](const auto& v) {
      const auto d = dropout_of(v[0], v[1], v[2], {3});
      return std::vector<value>{d.result, d.mask};
    });
    double kept = 0;
    for (std::size_t i = 0; i < 1000; ++i) {
      kept += y[1].values[i];
      const double want = y[1].values[i] != 0 ? x.values[i] * (training ? 4. / 3 : 1) : 0;
      BOOST_TEST(std::abs(y[0].values[i] - want) < 1e-6);
    }
    BOOST_TEST((training ? std::abs(kept - 750) < 60 : kept == 1000));
  }
}

BOOST_AUTO_TEST_SUITE_END()
