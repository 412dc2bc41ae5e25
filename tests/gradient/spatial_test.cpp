// Gradients of convolution, pooling, resizing and sampling of images, sequences and volumes.
#include <boost/test/unit_test.hpp>

#include <cstdint>
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

value list(const value& v, const std::vector<std::int64_t>& numbers) {
  std::vector<double> all(numbers.begin(), numbers.end());
  const auto n = static_cast<std::int64_t>(numbers.size());
  return v.owner().constant(to_tensor(array_of(dtype::int64, {dim(n)}, std::move(all))));
}
// A table of positions, some of them outside the axis.
value table(const value& v, const shape& s, std::int64_t length) {
  std::vector<double> all;
  for (std::int64_t i = 0; i < s.size(); ++i) all.push_back(static_cast<double>((i * 5 + 1) % (length + 2) - 1));
  return v.owner().constant(to_tensor(array_of(dtype::int64, s, std::move(all))));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_spatial_operations)

// Weighted sums at positions in a table, and their two adjoints, which are separate operations.
BOOST_AUTO_TEST_CASE(sums_at_positions) {
  const shape all[] = {{2, 3, 4}, {1, 3, 2}, {2, 5, 1}, {0, 3, 2}, {3, 2, 3}};
  for (const shape& s : all)
    for (bool batch : {false, true}) {
      const shape positions = batch ? shape{s[0], 3, 2} : shape{3, 2};
      const auto sampled = [&](const values& v) {
        return resample(v[0], table(v[0], positions, s.at(1)), v[1], {.axis = 1, .batch_axes = batch ? 1 : 0});
      };
      const array x = real(s, 1), w = real(positions, 2), g = real({s[0], 3, s[2]}, 3);
      check_twice(
          "resample", {x, w}, [&](const values& v) { return values{sampled(v)}; }, true, extents_known::when_built);
      const auto adjoint = [&](const values& v, std::size_t which) {
        return values{gradients(reduce_sum(sampled(v) * v[2]), values{v[which]})[0]};
      };
      check_twice(
          "resample_grad", {x, w, g}, [&](const values& v) { return adjoint(v, 0); }, true, extents_known::when_built);
      check_twice(
          "resample_weight_grad", {x, w, g}, [&](const values& v) { return adjoint(v, 1); }, true,
          extents_known::when_built);
    }
}

BOOST_AUTO_TEST_CASE(pools) {
  const pool_options o{.kernel = {2, 3}, .strides = {1, 2}, .paddings_before = {1, 0}, .paddings_after = {0, 2}};
  pool_options apart = o;
  apart.dilations = {2, 1}, apart.ceil_mode = true;
  const shape all[] = {{2, 1, 4, 5}, {1, 3, 3, 4}, {1, 1, 2, 3}, {0, 2, 3, 3}, {1, 2, 5, 3}};
  for (const shape& s : all)
    for (const pool_options& p : {o, apart}) {
      const array x = distinct_array(s, 1);
      check("max_pool", {x}, [&](const values& v) { return values{max_pool(v[0], p)}; });
      check("max_pool_with_indices", {x},
            [&](const values& v) { return values{max_pool_with_indices(v[0], p).values}; });
      check_twice("avg_pool", {x}, [&](const values& v) { return values{avg_pool(v[0], p)}; });
      check("lp_pool", {x}, [&](const values& v) { return values{lp_pool(v[0], p, 3)}; });
    }
  for (const shape& s : {shape{1, 2, 3, 2, 4}, shape{2, 1, 2, 2, 2}}) {
    const array x = distinct_array(s, 1);
    const pool_options p{.kernel = {2, 2, 2}, .paddings_before = {1, 0, 0}};
    check("max_pool", {x}, [&](const values& v) { return values{max_pool(v[0], p)}; });
    check_twice("avg_pool", {x}, [&](const values& v) { return values{avg_pool(v[0], p)}; });
    check_twice("adaptive_avg_pool", {x}, [&](const values& v) { return values{adaptive_avg_pool(v[0], {2, 3, 1})}; });
    check("adaptive_max_pool", {x}, [&](const values& v) { return values{adaptive_max_pool(v[0], {2, 3, 1})}; });
  }
  const array x = distinct_array({1, 2, 4}, 1), y = real({1, 2, 2}, 2);
  check("max_unpool", {y, x}, [&](const values& v) {
    const pool_options halves{.kernel = {2}, .strides = {2}};
    return values{max_unpool(v[0], max_pool_with_indices(stop_gradient(v[1]), halves).indices, halves)};
  });
  check_twice("lrn", {real({2, 5, 3}, 1)}, [&](const values& v) { return values{lrn(v[0], 3, {.alpha = 0.4})}; });
}

BOOST_AUTO_TEST_CASE(convolutions) {
  const array row = real({2, 2, 5}, 1), row_filters = real({3, 2, 2}, 2), volume = real({1, 2, 3, 4, 3}, 1),
              filters = real({2, 1, 2, 2, 3}, 2);
  check_twice("conv", {row, row_filters}, [&](const values& v) {
    return values{conv(v[0], v[1], {.strides = {2}, .paddings_before = {2}, .paddings_after = {1}})};
  });
  check_twice(
      "conv", {volume, filters},
      [&](const values& v) {
        return values{conv(v[0], v[1], {.strides = {1, 2, 1}, .paddings_before = {1, 0, 0}, .groups = 2})};
      },
      true, extents_known::when_built);
  check_twice(
      "conv", {volume, real({2, 2, 2, 2, 3}, 2)},
      [&](const values& v) {
        return values{
            conv(v[0], v[1], {.strides = {2, 1, 1}, .paddings_before = {1, 0, 1}, .paddings_after = {0, 1, 1}})};
      },
      true, extents_known::when_built);
  check_twice("conv_transpose", {row, real({2, 1, 3}, 2)}, [&](const values& v) {
    return values{conv_transpose(v[0], v[1], {.strides = {2}, .paddings_before = {2}, .output_paddings = {1}})};
  });
  check_twice(
      "conv_transpose", {volume, filters},
      [&](const values& v) {
        return values{conv_transpose(v[0], v[1], {.strides = {2, 1, 1}, .paddings_after = {1, 0, 1}, .groups = 2})};
      },
      true, extents_known::when_built);
  check(
      "deform_conv",
      {real({1, 2, 4, 4}, 1), real({2, 1, 2, 2}, 2), real({1, 8, 3, 3}, 3, 0.1, 0.4), real({1, 4, 3, 3}, 4)},
      [&](const values& v) { return values{deform_conv(v[0], v[1], v[2], v[3], {.groups = 2})}; }, true,
      extents_known::when_built);
  check_twice(
      "col2im", {real({2, 8, 4}, 1)},
      [&](const values& v) { return values{col2im(v[0], {3, 4}, {2, 2}, {.strides = {1, 2}})}; }, true,
      extents_known::when_built);
}

BOOST_AUTO_TEST_CASE(resizes) {
  for (resize_mode m : {resize_mode::nearest, resize_mode::linear, resize_mode::cubic})
    for (bool antialias : {false, true}) {
      const resize_options o{
          .mode = m, .scales = {0.6, 1.7}, .axes = {1, 2}, .antialias = antialias && m != resize_mode::nearest};
      for (const shape& s : {shape{2, 3, 4}, shape{1, 5, 1}})
        check_twice("resize", {real(s, 1)}, [&](const values& v) { return values{resize(v[0], o)}; });
    }
  const resize_options crop{.mode = resize_mode::linear,
                            .coordinates = resize_coordinates::tf_crop_and_resize,
                            .sizes = {4, 3},
                            .roi = {0.2, -0.3, 0.9, 1.1},
                            .extrapolation_value = 2};
  check_twice("resize", {real({3, 4}, 1)}, [&](const values& v) { return values{resize(v[0], crop)}; });
  for (border_mode m : {border_mode::reflect, border_mode::edge, border_mode::wrap})
    check_twice("pad_by", {real({3, 4}, 1)},
                [&](const values& v) { return values{pad_by(v[0], list(v[0], {1, 3, 2, -1}), {0, 1}, m)}; });
  check_twice("center_crop_pad", {real({3, 4}, 1)},
              [&](const values& v) { return values{center_crop_pad(v[0], list(v[0], {2, 7}))}; });
  check_twice("depth_to_space", {real({2, 4, 1, 3}, 1)},
              [&](const values& v) { return values{depth_to_space(v[0], 2)}; });
  for (const shape& x : {shape{2, 6, 1, 2}, shape{1, 4, 2}, shape{3, 2}, shape{2, 8, 3}, shape{0, 4, 2}})
    check_twice("channel_shuffle", {real(x, 1)}, [&](const values& v) { return values{channel_shuffle(v[0], 2)}; });
  for (bool inverse : {false, true})
    check_twice("channel_shuffle", {real({1, 4, 2}, 1), real({1, 2, 2}, 2)}, [&](const values& v) {
      return values{
          channel_shuffle(view<const value>(v.data(), 2), {.groups = 3, .start = 1, .count = 3, .inverse = inverse})};
    });
  check_twice("space_to_depth", {real({2, 1, 2, 4}, 1)},
              [&](const values& v) { return values{space_to_depth(v[0], 2)}; });
}

BOOST_AUTO_TEST_CASE(computed_places) {
  // Positions away from cell borders, where the gradient jumps.
  const array x = real({2, 2, 3, 4}, 1), grid = real({2, 2, 3, 2}, 2, 0.05, 0.28);
  for (resize_mode m : {resize_mode::linear, resize_mode::cubic})
    for (grid_padding p : {grid_padding::zeros, grid_padding::border, grid_padding::reflection})
      check("grid_sample", {x, grid}, [&](const values& v) { return values{grid_sample(v[0], v[1], {m, p, true})}; });
  check("grid_sample", {real({1, 2, 2, 3, 4}, 1), real({1, 1, 2, 3, 3}, 2, 0.05, 0.28)},
        [&](const values& v) { return values{grid_sample(v[0], v[1])}; });
  check_twice("affine_grid", {real({2, 2, 3}, 1)},
              [&](const values& v) { return values{affine_grid(v[0], list(v[0], {2, 1, 3, 2}))}; });
  const array rois = array_of(dtype::float64, {2, 4}, {0.6, 0.3, 2.9, 2.4, 0.9, 0.7, 2.2, 2.6});
  for (bool maximum : {false, true})
    check("roi_align", {x, rois}, [&](const values& v) {
      return values{roi_align(v[0], v[1], list(v[0], {0, 1}),
                              {.height = 2, .width = 3, .sampling_ratio = 2, .maximum = maximum})};
    });
}

BOOST_AUTO_TEST_SUITE_END()
