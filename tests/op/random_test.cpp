// Random operands of typed expressions against the same as values of a program.
#include <boost/test/unit_test.hpp>

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

BOOST_AUTO_TEST_SUITE_END()
