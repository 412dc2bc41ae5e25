// Reductions by kind and over computed axes, against values of ONNX's reference implementation.
#include <boost/test/unit_test.hpp>

#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"
#include "segments.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();

// The result of a program over these inputs, exactly or but for rounding.
void check(const std::vector<array>& in, const std::function<value(const std::vector<value>&)>& build,
           const array& expected, bool exact = false) {
  const array y = result_of(in, build);
  BOOST_TEST((y.type == expected.type));
  if (exact) BOOST_TEST(same_bits(y, expected));
  else BOOST_TEST(distance(y, expected) < 2e-6);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(reductions_by_kind)

BOOST_AUTO_TEST_CASE(kinds) {
  const array a = array_of(dtype::float32, {2, 3, 2},
                           {1.4900000095367432, 0.800000011920929, 1.4299999475479126, -0.20000000298023224,
                            0.07999999821186066, -1.2200000286102295, -0.7400000095367432, 0.9200000166893005,
                            1.840000033378601, -1.3899999856948853, -1.7999999523162842, -1.7300000190734863});
  check(
      {a}, [](auto& v) { return reduce_l1(v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 2}, {3, 2.2200000286102295, 4.380000114440918, 4.039999961853027}));
  check(
      {a}, [](auto& v) { return reduce_l1(v[0], {.axes = {0, -1}, .keepdim = true}); },
      array_of(dtype::float32, {1, 3, 1}, {3.950000047683716, 4.860000133514404, 4.829999923706055}));
  check(
      {a}, [](auto& v) { return reduce_l2(v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 2},
               {2.0667364597320557, 1.4725489616394043, 2.6782829761505127, 2.402374029159546}));
  check(
      {a}, [](auto& v) { return reduce_l2(v[0], {.axes = {0, -1}, .keepdim = true}); },
      array_of(dtype::float32, {1, 3, 1}, {2.062546968460083, 2.7207720279693604, 2.779874086380005}));
  check(
      {a}, [](auto& v) { return reduce_log_sum_exp(v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 2}, {2.27203106880188, 1.2058216333389282, 1.9371507167816162, 1.076928973197937}));
  check(
      {a}, [](auto& v) { return reduce_log_sum_exp(v[0], {.axes = {0, -1}, .keepdim = true}); },
      array_of(dtype::float32, {1, 3, 1}, {2.2668585777282715, 2.4460830688476562, 0.5429639220237732}));
  check(
      {a}, [](auto& v) { return reduce_sum_square(v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 2}, {4.271399974822998, 2.168400287628174, 7.173199653625488, 5.771400451660156}));
  check(
      {a}, [](auto& v) { return reduce_sum_square(v[0], {.axes = {0, -1}, .keepdim = true}); },
      array_of(dtype::float32, {1, 3, 1}, {4.2540998458862305, 7.402599811553955, 7.7276997566223145}));
  const array b = array_of(dtype::float32, {2, 3, 2},
                           {1.590000033378601, 0.9000000357627869, 1.5299999713897705, 0.30000001192092896,
                            0.18000000715255737, 1.3200000524520874, 0.8400000333786011, 1.0199999809265137,
                            1.940000057220459, 1.4900000095367432, 1.899999976158142, 1.8300000429153442});
  check(
      {b}, [](auto& v) { return reduce_log_sum(v[0], {.axes = {2}}); },
      array_of(dtype::float32, {2, 3},
               {0.9122827053070068, 0.6043159365653992, 0.40546509623527527, 0.6205765008926392, 1.2325602769851685,
                1.3164082765579224}));
  const array c = array_of(dtype::float32, {2, 2}, {1000, 999, -1000, -1001});
  check(
      {c}, [](auto& v) { return reduce_log_sum_exp(v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2}, {1000.313232421875, -999.686767578125}));
  const array d = array_of(dtype::float32, {2, 2}, {-infinity, -infinity, infinity, 1});
  check(
      {d}, [](auto& v) { return reduce_log_sum_exp(v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2}, {-infinity, infinity}));
  const array e = array_of(dtype::boolean, {3, 2}, {1, 0, 0, 0, 1, 1});
  check(
      {e}, [](auto& v) { return reduce(reduction_kind::maximum, v[0], {.axes = {1}}); },
      array_of(dtype::boolean, {3}, {1, 0, 1}), true);
  check(
      {e}, [](auto& v) { return reduce(reduction_kind::minimum, v[0], {.axes = {1}}); },
      array_of(dtype::boolean, {3}, {0, 0, 1}), true);
  const array f = array_of(dtype::float32, {2, 0, 3}, {});
  check(
      {f}, [](auto& v) { return reduce(reduction_kind::sum, v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 3}, {0, 0, 0, 0, 0, 0}), true);
  check(
      {f}, [](auto& v) { return reduce(reduction_kind::product, v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 3}, {1, 1, 1, 1, 1, 1}), true);
  check(
      {f}, [](auto& v) { return reduce(reduction_kind::maximum, v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 3}, {-infinity, -infinity, -infinity, -infinity, -infinity, -infinity}), true);
  check(
      {f}, [](auto& v) { return reduce(reduction_kind::minimum, v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 3}, {infinity, infinity, infinity, infinity, infinity, infinity}), true);
  check(
      {f}, [](auto& v) { return reduce(reduction_kind::l1, v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 3}, {0, 0, 0, 0, 0, 0}), true);
  check(
      {f}, [](auto& v) { return reduce(reduction_kind::l2, v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 3}, {0, 0, 0, 0, 0, 0}), true);
  check(
      {f}, [](auto& v) { return reduce(reduction_kind::log_sum, v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 3}, {-infinity, -infinity, -infinity, -infinity, -infinity, -infinity}), true);
  check(
      {f}, [](auto& v) { return reduce(reduction_kind::log_sum_exp, v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 3}, {-infinity, -infinity, -infinity, -infinity, -infinity, -infinity}), true);
  check(
      {f}, [](auto& v) { return reduce(reduction_kind::sum_square, v[0], {.axes = {1}}); },
      array_of(dtype::float32, {2, 3}, {0, 0, 0, 0, 0, 0}), true);
  const array g = array_of(dtype::int32, {2, 0}, {});
  check(
      {g}, [](auto& v) { return reduce(reduction_kind::maximum, v[0], {.axes = {1}}); },
      array_of(dtype::int32, {2}, {-2147483648.0, -2147483648.0}), true);
  check(
      {g}, [](auto& v) { return reduce(reduction_kind::minimum, v[0], {.axes = {1}}); },
      array_of(dtype::int32, {2}, {2147483647.0, 2147483647.0}), true);
  check(
      {g}, [](auto& v) { return reduce(reduction_kind::sum, v[0], {.axes = {1}}); },
      array_of(dtype::int32, {2}, {0, 0}), true);
  check(
      {g}, [](auto& v) { return reduce(reduction_kind::product, v[0], {.axes = {1}}); },
      array_of(dtype::int32, {2}, {1, 1}), true);
}

constexpr reduction_kind kinds[] = {reduction_kind::sum,       reduction_kind::mean,    reduction_kind::product,
                                    reduction_kind::maximum,   reduction_kind::minimum, reduction_kind::l1,
                                    reduction_kind::l2,        reduction_kind::log_sum, reduction_kind::log_sum_exp,
                                    reduction_kind::sum_square};

// The axes as a constant, as an input, and computed during the run.
BOOST_AUTO_TEST_CASE(axes_that_are_computed) {
  const array x = random_array(dtype::float32, {2, 3, 4}, 1, 0.5, 2);
  for (const auto& over : {std::vector<double>{1}, {0, -1}, {}, {2, 0, 1}})
    for (auto kind : kinds)
      for (bool keep : {false, true})
        for (bool none : {false, true}) {
          reduce_attributes a{.keepdim = keep};
          for (double axis : over) a.axes.values[a.axes.count++] = static_cast<std::int32_t>(axis);
          const array list = array_of(dtype::int64, {dim(static_cast<std::int64_t>(over.size()))}, over);
          const bool alone = none && over.empty();
          const array want = result_of({x}, [&](auto& v) {
            if (!alone) return reduce(kind, v[0], a);
            return kind == reduction_kind::log_sum      ? value(log(v[0]))
                   : kind == reduction_kind::sum_square ? value(square(v[0]))
                                                        : v[0];
          });
          for (int way = 0; way < 4; ++way) {
            small_graph g;
            const value in = way == 3 ? g.open_input(x) : g.input(x);
            const value at = way == 0 || way == 3 ? g.p.constant(to_tensor(list))
                             : way == 1           ? g.input(list)
                                                  : value(g.input(list) + 0 * g.input(list));
            g.output(reduce_by(in, at, {kind, keep, none}));
            const array y = segment_run(g)()[0];
            BOOST_TEST((y.type == want.type));
            BOOST_TEST(same_bits(y, want));
          }
        }
}

// The number of axes becomes known when a plan is made.
BOOST_AUTO_TEST_CASE(kept_axes_of_any_number) {
  const array x = random_array(dtype::float32, {2, 3, 4}, 1, 0.5, 2);
  for (const auto& over : {std::vector<double>{1}, {0, -1}, {}}) {
    const array list = array_of(dtype::int64, {dim(static_cast<std::int64_t>(over.size()))}, over);
    reduce_attributes a{.keepdim = true};
    for (double axis : over) a.axes.values[a.axes.count++] = static_cast<std::int32_t>(axis);
    small_graph g;
    g.output(reduce_by(g.input(x), g.open_input(list), {.kind = reduction_kind::mean, .keepdim = true}));
    BOOST_TEST(same_bits(segment_run(g)()[0], result_of({x}, [&](auto& v) { return value(reduce_mean(v[0], a)); })));
  }
  small_graph g;
  BOOST_TEST(message_of([&] { reduce_by(g.input(x), g.open_input(array_of(dtype::int64, {1}, {0}))); }) ==
             "reduce_by: the axes must be a vector, of known length without keepdim: float32[2x3x4] "
             "int64[?]");
}

BOOST_AUTO_TEST_CASE(running_along_a_computed_axis) {
  const array x = random_array(dtype::float32, {2, 3}, 1);
  for (double axis : {0, 1, -2})
    for (bool product : {false, true}) {
      const auto at = static_cast<std::int64_t>(axis);
      const array want = result_of({x}, [&](auto& v) {
        return product ? value(cumprod(v[0], {at, true, false})) : value(cumsum(v[0], {at, true, false}));
      });
      small_graph g;
      g.output(running_along(g.input(x), g.input(array_of(dtype::int64, {}, {axis})),
                             {.product = product, .exclusive = true}));
      BOOST_TEST(same_bits(segment_run(g)()[0], want));
    }
  small_graph g;
  g.output(running_along(g.input(x), g.input(array_of(dtype::int64, {1}, {2}))));
  BOOST_TEST(message_of([&] { segment_run(g).run(); }) ==
             "running_along: axis 2 is outside the rank: float32[2x3] int64[1]");
}

BOOST_AUTO_TEST_CASE(axes_that_do_not_fit) {
  small_graph g;
  const value x = g.input(random_array(dtype::float32, {2, 3}, 1)),
              truth = g.input(random_array(dtype::boolean, {2, 3}, 1));
  const auto list = [&](std::vector<double> v) {
    const auto n = static_cast<std::int64_t>(v.size());
    return g.p.constant(to_tensor(array_of(dtype::int64, {dim(n)}, std::move(v))));
  };
  BOOST_TEST(message_of([&] { reduce_by(x, list({2})); }) ==
             "reduce_by: the axes are not distinct axes of the operand: float32[2x3] int64[1]");
  BOOST_TEST(message_of([&] { reduce_by(x, list({1, -1})); }) ==
             "reduce_by: the axes are not distinct axes of the operand: float32[2x3] int64[2]");
  BOOST_TEST(message_of([&] { reduce_by(x, list({0, 1, 2})); }) ==
             "reduce_by: 3 axes are not distinct axes of the operand: float32[2x3] int64[3]");
  BOOST_TEST(
      message_of([&] { reduce_by(truth, list({0})); }) ==
      "reduce_by: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[2x3] "
      "int64[1]");
}

BOOST_AUTO_TEST_SUITE_END()
