// Gradients of reductions, softmax and losses.
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

axes axes_of(unsigned bits, int rank) {
  axes a;
  for (int i = 0; i < rank; ++i)
    if (bits >> i & 1u) a.values[a.count++] = i % 2 ? i - rank : i;  // every other axis counted from the end
  return a;
}

template <class F> void every_reduction(const shape& s, F run) {
  for (unsigned bits = 0; bits < 1u << s.rank; ++bits)
    for (bool keep : {false, true}) run(reduce_attributes{axes_of(bits, s.rank), keep});
}

const std::vector<shape> shapes{{}, {1}, {6}, {2, 3}, {3, 1, 4}, {1, 1}, {2, 3, 2, 2}};

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_reductions)

BOOST_AUTO_TEST_CASE(sum_and_mean_over_every_axis_combination) {
  for (const auto& s : shapes)
    every_reduction(s, [&](const reduce_attributes& a) {
      check_twice("reduce_sum", {real(s, 1)}, [&](const auto& x) { return values{reduce_sum(x[0] * x[0], a)}; });
      check_twice("reduce_mean", {real(s, 1)}, [&](const auto& x) { return values{reduce_mean(x[0] * x[0], a)}; });
      check_twice("sum", {real(s, 1)}, [&](const auto& x) { return values{sum(x[0] * x[0], a)}; });
      check_twice("mean", {real(s, 1)}, [&](const auto& x) { return values{mean(x[0] * x[0], a)}; });
    });
}

BOOST_AUTO_TEST_CASE(max_and_min_over_every_axis_combination) {
  for (const auto& s : shapes)
    every_reduction(s, [&](const reduce_attributes& a) {
      check("reduce_max", {distinct_array(s, 2)}, [&](const auto& x) { return values{reduce_max(x[0], a)}; });
      check("reduce_min", {distinct_array(s, 2)}, [&](const auto& x) { return values{reduce_min(x[0], a)}; });
    });
}

BOOST_AUTO_TEST_CASE(reductions_of_nothing) {
  for (const auto& s : {shape{0}, shape{2, 0}, shape{0, 3}, shape{2, 0, 3}})
    every_reduction(s, [&](const reduce_attributes& a) {
      check_twice("reduce_sum", {real(s, 1)}, [&](const auto& x) { return values{reduce_sum(x[0], a)}; });
      check_twice("sum", {real(s, 1)}, [&](const auto& x) { return values{sum(x[0], a)}; });
    });
  check_twice("reduce_mean", {real({0, 3}, 1)}, [&](const auto& x) { return values{reduce_mean<axes(1)>(x[0])}; });
  check_twice("mean", {real({0, 3}, 1)}, [&](const auto& x) { return values{mean<axes(1)>(x[0])}; });
  check("reduce_max", {real({0, 3}, 1)}, [&](const auto& x) { return values{reduce_max<axes(1)>(x[0])}; });
  check("reduce_min", {real({0, 3}, 1)}, [&](const auto& x) { return values{reduce_min<axes(1)>(x[0])}; });
  check_twice("softmax", {real({0, 3}, 1)}, [&](const auto& x) { return values{softmax(x[0])}; });
  check_twice("log_softmax", {real({0, 3}, 1)}, [&](const auto& x) { return values{log_softmax(x[0])}; });
}

BOOST_AUTO_TEST_CASE(equal_extremes_share_the_gradient) {
  small_graph g;
  value x = g.input(array_of(dtype::float64, {2, 3}, {1, 5, 5, 2, 2, 2}));
  g.output(gradients(reduce_sum(reduce_max<axes(1)>(x)), {&x, 1})[0]);
  g.output(gradients(reduce_min(x), {&x, 1})[0]);
  auto r = g.run();
  auto third = 1.0 / 3;
  BOOST_TEST(r[0].values == (std::vector<double>{0, 0.5, 0.5, third, third, third}), boost::test_tools::per_element());
  BOOST_TEST(r[1].values == (std::vector<double>{1, 0, 0, 0, 0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(softmax_along_every_axis) {
  for (const auto& s : shapes)
    for (int axis = -s.rank; axis < s.rank; ++axis) {
      check_twice("softmax", {real(s, 3)}, [&](const auto& x) { return values{softmax(x[0], {.axis = axis})}; });
      check_twice("log_softmax", {real(s, 3)},
                  [&](const auto& x) { return values{log_softmax(x[0], {.axis = axis})}; });
      check("log of softmax", {real(s, 3)}, [&](const auto& x) { return values{log(softmax(x[0], {.axis = axis}))}; });
    }
}

BOOST_AUTO_TEST_CASE(softmax_over_several_axes) {
  for (const auto& s : {shape{2, 3}, shape{1, 1}, shape{0, 2}, shape{2, 3, 2}, shape{2, 1, 4}, shape{1, 2, 2, 2}}) {
    check_twice("softmax_over_last", {real(s, 3)}, [](const auto& x) { return values{softmax_over_last<2>(x[0])}; });
    check_twice("log_softmax_over_last", {real(s, 3)},
                [](const auto& x) { return values{log_softmax_over_last<2>(x[0])}; });
  }
}

BOOST_AUTO_TEST_CASE(losses) {
  for (std::int64_t batch : {1, 2, 3, 4, 5})
    for (std::int64_t classes : {1, 3, 17}) {
      auto labels = random_array(dtype::int64, {batch}, 4, 0, static_cast<double>(classes));
      check_twice("cross_entropy", {real({batch, classes}, 5), labels},
                  [](const auto& x) { return values{cross_entropy(x[0], x[1])}; });
      check_twice("nll", {real({batch, classes}, 5), labels}, [](const auto& x) { return values{nll(x[0], x[1])}; });
      check_twice("pick", {real({batch, classes}, 5), labels},
                  [](const auto& x) { return values{pick(x[0] * x[0], x[1])}; });
      // Weights that differ from 1, which a fused gradient must not assume.
      check_twice("scaled cross_entropy", {real({batch, classes}, 5), labels, real({batch}, 6)},
                  [](const auto& x) { return values{reduce_sum(pick(log_softmax(x[0]), x[1]) * x[2])}; });
      check_twice("mse", {real({batch, classes}, 5), real({batch, classes}, 6)},
                  [](const auto& x) { return values{mse(x[0], x[1])}; });
      check("l1_loss", {distinct_array({batch, classes}, 5), distinct_array({batch, classes}, 6, 0.01)},
            [](const auto& x) { return values{l1_loss(x[0], x[1])}; });
    }
  check_twice("cross_entropy", {real({4}, 5), random_array(dtype::int64, {}, 6, 0, 4)},
              [](const auto& x) { return values{cross_entropy(x[0], x[1])}; });
  check_twice("cross_entropy", {real({2, 3, 4}, 5), random_array(dtype::int64, {2, 3}, 6, 0, 4)},
              [](const auto& x) { return values{cross_entropy(x[0], x[1])}; });
  check_twice("pick", {real({0, 3}, 5), random_array(dtype::int64, {0}, 6)},
              [](const auto& x) { return values{pick(x[0], x[1])}; });
  const array no_labels = random_array(dtype::int64, {0}, 6);
  check_twice("cross_entropy", {real({0, 3}, 5), no_labels},
              [](const auto& x) { return values{cross_entropy(x[0], x[1])}; });
  check_twice("nll", {real({0, 3}, 5), no_labels}, [](const auto& x) { return values{nll(x[0], x[1])}; });
  for (const shape& s : {shape{4, 3}, shape{1, 1}, shape{0, 3}, shape{2, 3, 2}, shape{5}}) {
    check_twice("squared_l2_distance", {real(s, 5), real(s, 6)},
                [](const auto& x) { return values{squared_l2_distance(x[0], x[1])}; });
    if (s.size()) check_twice("averaged_loss", {real(s, 5)}, [](const auto& x) { return values{averaged_loss(x[0])}; });
  }
  check_twice("averaged_loss", {real({0}, 5)}, [](const auto& x) { return values{averaged_loss(x[0])}; });
  check_twice("mse", {real({0, 2}, 5), real({0, 2}, 6)}, [](const auto& x) { return values{mse(x[0], x[1])}; });
  check("l1_loss", {real({0, 2}, 5), real({0, 2}, 6)}, [](const auto& x) { return values{l1_loss(x[0], x[1])}; });
  check_twice("mse", {real({}, 5), real({}, 6)}, [](const auto& x) { return values{mse(x[0], x[1])}; });
}

BOOST_AUTO_TEST_SUITE_END()
