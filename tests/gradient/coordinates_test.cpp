// Gradients of gathers at coordinates, einsum, Fourier transforms and weighted losses.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
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

array positions_of(const shape& s, int seed, std::int64_t length) {
  return random_array(dtype::int64, s, seed, -static_cast<double>(length), static_cast<double>(length));
}
value held(const value& v, const array& a) { return v.owner().constant(to_tensor(a)); }
constexpr scatter_reduction sums[] = {scatter_reduction::add, scatter_reduction::multiply};
constexpr scatter_reduction extremes[] = {scatter_reduction::maximum, scatter_reduction::minimum};

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_coordinates)

BOOST_AUTO_TEST_CASE(rows_at_coordinates) {
  for (const auto& s : {shape{4, 3}, shape{1, 3}, shape{2, 1}, shape{3, 0}, shape{5, 2}}) {
    const array at = positions_of({4, 1}, 1, s.at(0)), once = array_of(dtype::int64, {1, 1}, {-1});
    check_twice("gather_nd", {real(s, 1)}, [&](const values& v) { return values{gather_nd(v[0], held(v[0], at))}; });
    check_twice("scatter_nd", {real(s, 1), real({1, s[1]}, 2)},
                [&](const values& v) { return values{scatter_nd(v[0], held(v[0], once), v[1])}; });
    for (auto r : sums)
      check_twice("scatter_nd", {real(s, 1, 0.5, 2), real({4, s[1]}, 2, 0.5, 2)},
                  [&](const values& v) { return values{scatter_nd(v[0], held(v[0], at), v[1], {.reduction = r})}; });
    for (auto r : extremes)
      check("scatter_nd", {distinct_array(s, 1), distinct_array({4, s[1]}, 2, 0.01)},
            [&](const values& v) { return values{scatter_nd(v[0], held(v[0], at), v[1], {.reduction = r})}; });
  }
  const array at = positions_of({2, 3, 1}, 1, 4);
  check_twice("gather_nd", {real({2, 4, 3}, 1)},
              [&](const values& v) { return values{gather_nd(v[0], held(v[0], at), {.batch_dims = 1})}; });
  check_twice("scatter_nd", {real({2, 4, 3}, 1), real({2, 3, 3}, 2)}, [&](const values& v) {
    return values{scatter_nd(v[0], held(v[0], at), v[1], {.reduction = scatter_reduction::add, .batch_dims = 1})};
  });
}

BOOST_AUTO_TEST_CASE(elements_along_an_axis) {
  for (const auto& s : {shape{4, 3}, shape{1, 3}, shape{2, 1}, shape{0, 3}, shape{5, 2}}) {
    const array at = positions_of({s[0], 4}, 1, s.at(1)),
                once = array_of(dtype::int64, {s[0], 1}, std::vector<double>(static_cast<std::size_t>(s.at(0)), -1));
    check_twice("put_along_axis", {real(s, 1), real({s[0], 1}, 2)},
                [&](const values& v) { return values{scatter_elements(v[0], held(v[0], once), v[1], {.axis = 1})}; });
    for (auto r : sums)
      check_twice("put_along_axis", {real(s, 1, 0.5, 2), real({s[0], 4}, 2, 0.5, 2)}, [&](const values& v) {
        return values{scatter_elements(v[0], held(v[0], at), v[1], {.axis = 1, .reduction = r})};
      });
    for (auto r : extremes)
      check("put_along_axis", {distinct_array(s, 1), distinct_array({s[0], 4}, 2, 0.01)}, [&](const values& v) {
        return values{scatter_elements(v[0], held(v[0], at), v[1], {.axis = 1, .reduction = r})};
      });
  }
  const array few = positions_of({2, 5}, 3, 4);
  check_twice("gather_elements", {real({3, 4}, 1)},
              [&](const values& v) { return values{gather_elements(v[0], held(v[0], few), {1})}; });
  check_twice("put_along_axis", {real({3, 4}, 1), real({2, 5}, 2)}, [&](const values& v) {
    return values{scatter_elements(v[0], held(v[0], few), v[1], {.axis = 1, .reduction = scatter_reduction::add})};
  });
}

BOOST_AUTO_TEST_CASE(running_products) {
  for (const auto& s : {shape{4, 3}, shape{1, 3}, shape{2, 1}, shape{0, 3}, shape{2, 3, 2}, shape{5}})
    for (int axis = 0; axis < s.rank; ++axis)
      for (bool exclusive : {false, true})
        for (bool reverse : {false, true})
          check_twice("cumprod", {real(s, 1)},
                      [&](const values& v) { return values{cumprod(v[0], {axis, exclusive, reverse})}; });
  // Without division, so a factor may be 0.
  check_twice("cumprod", {array_of(dtype::float64, {4}, {2, 0, 3, 0})},
              [](const values& v) { return values{cumprod(v[0], {.axis = 0})}; });
}

BOOST_AUTO_TEST_CASE(reductions_over_computed_axes) {
  constexpr reduction_kind smooth[] = {reduction_kind::sum,       reduction_kind::mean,    reduction_kind::product,
                                       reduction_kind::l2,        reduction_kind::log_sum, reduction_kind::log_sum_exp,
                                       reduction_kind::sum_square};
  constexpr reduction_kind with_kinks[] = {reduction_kind::maximum, reduction_kind::minimum, reduction_kind::l1};
  for (const auto& s : {shape{2, 3}, shape{1, 3}, shape{3, 1}, shape{3, 2, 2}, shape{4, 2}})
    for (bool keep : {false, true}) {
      const auto over = [&](const value& v) { return held(v, array_of(dtype::int64, {1}, {-1})); };
      for (auto kind : smooth)
        check_twice("reduce_by", {real(s, 1, 0.5, 2)},
                    [&](const values& v) { return values{reduce_by(v[0], over(v[0]), {kind, keep})}; });
      for (auto kind : with_kinks)
        check("reduce_by", {distinct_array(s, 1)},
              [&](const values& v) { return values{reduce_by(v[0], over(v[0]), {kind, keep})}; });
    }
  check_twice("reduce_by", {real({2, 0}, 1)},
              [&](const values& v) { return values{reduce_by(v[0], held(v[0], array_of(dtype::int64, {1}, {1})))}; });
  check_twice("reduce_log_sum_exp", {real({2, 3}, 1)},
              [](const values& v) { return values{reduce_log_sum_exp(v[0], {.axes = {1}})}; });
}

BOOST_AUTO_TEST_CASE(running_along_a_computed_axis) {
  for (const auto& s : {shape{2, 3}, shape{1, 3}, shape{3, 1}, shape{0, 2}, shape{4, 2}})
    for (bool product : {false, true})
      for (bool exclusive : {false, true})
        check_twice("running_along", {real(s, 1, 0.5, 2)}, [&](const values& v) {
          const value axis = held(v[0], array_of(dtype::int64, {}, {-1}));
          return values{running_along(v[0], axis, {.product = product, .exclusive = exclusive, .reverse = !product})};
        });
}

BOOST_AUTO_TEST_CASE(contractions) {
  check_twice("einsum", {real({2, 3, 4}, 1), real({4, 2}, 2), real({3}, 3)},
              [](const values& v) { return values{einsum("abc,ca,b->cb", v)}; });
  check_twice("einsum", {real({3, 3, 2}, 1)}, [](const values& v) { return values{einsum("iij->j", v)}; });
  check_twice("einsum", {real({2, 1, 3}, 1), real({4, 3}, 2)},
              [](const values& v) { return values{einsum("...a,...a->...", v)}; });
  check_twice(
      "det", {real({2, 3, 3}, 1)}, [](const values& v) { return values{det(v[0])}; }, true, extents_known::when_built);
  check_twice(
      "dft", {real({2, 5, 2}, 1)}, [](const values& v) { return values{dft(v[0], {.length = 4})}; }, true,
      extents_known::when_built);
  check_twice("trilu", {real({3, 4}, 1)}, [](const values& v) { return values{trilu(v[0], 1)}; });
  const array labels = array_of(dtype::int64, {2, 2}, {0, 2, 1, 1});
  check_twice("softmax_cross_entropy", {real({2, 3, 2}, 1), real({3}, 2, 0.5, 2)}, [&](const values& v) {
    return values{softmax_cross_entropy(v[0], held(v[0], labels), v[1], {.ignore_index = 2}).loss};
  });
}

BOOST_AUTO_TEST_SUITE_END()
