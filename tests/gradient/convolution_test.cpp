// Gradients of convolutions and pooling.
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

import lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

void convolution(const shape& x, const shape& w, const conv2d_attributes& a) {
  check_twice("conv2d", {real(x, 1), real(w, 2)}, [&](const auto& v) { return values{conv2d(v[0], v[1], a)}; });
}
const std::vector<shape> images{{1, 1, 4, 4}, {2, 3, 5, 4}, {1, 2, 6, 7}, {3, 1, 4, 5}, {0, 2, 4, 4}};

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_images)

BOOST_AUTO_TEST_CASE(plain_convolutions) {
  convolution({1, 1, 3, 3}, {1, 1, 3, 3}, {});
  convolution({2, 3, 5, 4}, {4, 3, 2, 3}, {});
  convolution({2, 2, 4, 4}, {3, 2, 1, 1}, {});
  convolution({1, 5, 3, 6}, {2, 5, 3, 1}, {});
  convolution({0, 2, 4, 4}, {3, 2, 3, 3}, {});
  convolution({2, 2, 4, 4}, {0, 2, 3, 3}, {});
  convolution({1, 2, 0, 4}, {2, 2, 1, 3}, {.padding = 1});
}

BOOST_AUTO_TEST_CASE(stride_padding_dilation_and_groups) {
  convolution({2, 2, 5, 5}, {3, 2, 3, 3}, {.stride = 2});
  convolution({2, 2, 5, 5}, {3, 2, 3, 3}, {.padding = 1});
  convolution({1, 2, 7, 6}, {3, 2, 3, 2}, {.stride = {2, 1}, .padding = {1, 2}});
  convolution({1, 2, 7, 8}, {2, 2, 3, 3}, {.dilation = 2});
  convolution({1, 1, 9, 7}, {2, 1, 3, 2}, {.stride = 2, .padding = 2, .dilation = {2, 3}});
  convolution({1, 2, 7, 6}, {3, 2, 3, 2}, {.stride = {2, 1}, .padding = {1, 2}, .padding_more = {1, -2}});
  convolution({1, 2, 6, 6}, {3, 2, 3, 3}, {.stride = 2, .padding_more = 1});
  convolution({1, 2, 6, 1}, {3, 2, 3, 1}, {.stride = 2, .padding = {1, 0}});
  convolution({2, 4, 5, 5}, {6, 2, 3, 3}, {.groups = 2});
  convolution({1, 4, 5, 5}, {4, 1, 3, 3}, {.padding = 1, .groups = 4});
  convolution({1, 6, 6, 5}, {3, 2, 2, 3}, {.stride = 2, .padding = 1, .dilation = 2, .groups = 3});
  convolution({1, 1, 5, 5}, {1, 1, 2, 2}, {.stride = 3});  // pixels that no window reaches
  convolution({0, 4, 5, 5}, {4, 2, 3, 3}, {.stride = 2, .padding = 1, .groups = 2});
}

BOOST_AUTO_TEST_CASE(a_block_of_layers) {
  check("relu(conv + b)", {real({2, 2, 5, 5}, 1), real({3, 2, 3, 3}, 2), real({3, 1, 1}, 3)},
        [](const auto& x) { return values{relu(conv2d(x[0], x[1], {.padding = 1}) + x[2])}; });
  check("conv + b + x", {real({1, 3, 4, 4}, 1), real({3, 3, 3, 3}, 2), real({3, 1, 1}, 3)},
        [](const auto& x) { return values{conv2d(x[0], x[1], {.padding = 1}) + x[2] + x[0]}; });
}

BOOST_AUTO_TEST_CASE(max_pooling) {
  const pool2d_attributes windows[] = {{},
                                       {.kernel_size = 3, .stride = 1},
                                       {.kernel_size = 2, .stride = 2, .padding = 1},
                                       {.kernel_size = {3, 2}, .stride = {2, 1}, .padding = {1, 0}},
                                       {.kernel_size = 3, .stride = 2, .padding_more = {1, 2}},
                                       {.kernel_size = 1}};
  for (const auto& s : images)
    for (const auto& a : windows)
      check("max_pool2d", {distinct_array(s, 3)}, [&](const auto& x) { return values{max_pool2d(x[0], a)}; });
}

BOOST_AUTO_TEST_CASE(average_pooling) {
  const pool2d_attributes windows[] = {{},
                                       {.kernel_size = 3, .stride = 1},
                                       {.kernel_size = 2, .stride = 2, .padding = 1},
                                       {.kernel_size = 3, .stride = 2, .padding = 1, .count_padding = false},
                                       {.kernel_size = 3, .stride = 2, .padding_more = {1, 2}},
                                       {.kernel_size = {2, 3}, .stride = {1, 2}}};
  for (const auto& s : images) {
    for (const auto& a : windows)
      check_twice("avg_pool2d", {real(s, 4)}, [&](const auto& x) { return values{avg_pool2d(square(x[0]), a)}; });
    check_twice("global_avg_pool2d", {real(s, 4)},
                [&](const auto& x) { return values{global_avg_pool2d(square(x[0]))}; });
  }
}

BOOST_AUTO_TEST_CASE(a_window_over_equal_pixels_has_one_winner) {
  small_graph g;
  value x = g.input(array_of(dtype::float64, {1, 1, 2, 2}, {3, 3, 3, 3}));
  g.output(gradients(reduce_sum(max_pool2d(x)), {&x, 1})[0]);
  BOOST_TEST(g.run()[0].values == (std::vector<double>{1, 0, 0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(convolutions_of_sequences) {
  // compared with conv2d, whose tests use plain loops
  for (const auto& [stride, dilation, groups] :
       {std::tuple<std::int64_t, std::int64_t, std::int64_t>{1, 1, 1}, {2, 1, 2}, {1, 3, 1}, {3, 2, 2}}) {
    const array x = real({2, 4, 11}, 1), w = real({6, 4 / groups, 3}, 2);
    const conv1d_options a{.stride = stride, .padding = 1, .dilation = dilation, .groups = groups};
    conv1d_options causal = a;
    causal.padding = 0;
    causal.causal = true;
    const auto r = results_of({x, w}, [&](const auto& v) {
      const value zeros = v[0].owner().constant(to_tensor(array_of(
          dtype::float64, {2, 4, 2 * dilation}, std::vector<double>(static_cast<std::size_t>(16 * dilation)))));
      const value filters = reshape(v[1], shape{6, 4 / groups, 1, 3});
      const value padded = concat<2>(zeros, v[0]);
      return values{
          conv1d(v[0], v[1], a),
          flatten<2>(conv2d(reshape(v[0], shape{2, 4, 1, 11}), filters,
                            {.stride = {1, stride}, .padding = {0, 1}, .dilation = {1, dilation}, .groups = groups})),
          conv1d(v[0], v[1], causal),
          flatten<2>(conv2d(reshape(padded, shape{2, 4, 1, 11 + 2 * dilation}), filters,
                            {.stride = {1, stride}, .dilation = {1, dilation}, .groups = groups}))};
    });
    BOOST_TEST(distance(r[0], r[1]) < 1e-14);
    BOOST_TEST(distance(r[2], r[3]) < 1e-14);
    check_twice(
        "conv1d", {x, w}, [&](const auto& v) { return values{conv1d(v[0], v[1], a)}; }, true,
        extents_known::when_built);
    check_twice(
        "causal conv1d", {x, w}, [&](const auto& v) { return values{conv1d(v[0], v[1], causal)}; }, true,
        extents_known::when_built);
  }
}

BOOST_AUTO_TEST_CASE(sequences_of_any_size) {
  struct problem {
    shape x, w;
    conv1d_options a;
  };
  for (const auto& [x, w, a] : {problem{{2, 3, 5}, {4, 3, 2}, {}},
                                {{1, 1, 1}, {1, 1, 1}, {}},
                                {{0, 2, 4}, {3, 2, 3}, {.padding = 1}},
                                {{3, 2, 6}, {2, 1, 3}, {.stride = 2, .groups = 2}},
                                {{1, 2, 1}, {2, 2, 3}, {.dilation = 2, .causal = true}},
                                {{2, 1, 7}, {1, 1, 2}, {.dilation = 3}}})
    check_twice(
        "conv1d", {real(x, 1), real(w, 2)}, [&](const auto& v) { return values{conv1d(v[0], v[1], a)}; }, true,
        extents_known::when_built);
}

// y of conv_transpose2d is the gradient of conv2d with respect to its input.
BOOST_AUTO_TEST_CASE(transposed_convolutions) {
  struct problem {
    shape x, w;
    conv_transpose2d_attributes a;
    shape y;
  };
  for (const auto& [x, w, a, y] :
       {problem{{2, 3, 4, 5}, {3, 2, 3, 3}, {}, {2, 2, 6, 7}},
        {{1, 4, 3, 3}, {4, 3, 2, 3}, {.stride = 2, .padding = 1, .output_padding = {1, 0}, .groups = 2}, {1, 6, 5, 5}},
        {{2, 1, 1, 1}, {1, 1, 1, 1}, {}, {2, 1, 1, 1}},
        {{1, 2, 2, 3}, {2, 2, 3, 2}, {.stride = {3, 1}, .dilation = 2}, {1, 2, 8, 5}},
        {{0, 2, 2, 2}, {2, 2, 2, 2}, {}, {0, 2, 3, 3}}}) {
    const array in = real(x, 1), weight = real(w, 2), image = real(y, 3);
    const conv2d_attributes forward{
        .stride = a.stride, .padding = a.padding, .dilation = a.dilation, .groups = a.groups};
    const auto r = results_of({in, weight, image}, [&](const auto& v) {
      return values{conv_transpose2d(v[0], v[1], a),
                    gradients(reduce_sum(conv2d(v[2], v[1], forward) * v[0]), std::vector{v[2]})[0]};
    });
    BOOST_TEST((r[0].shape() == y));
    BOOST_TEST(distance(r[0], r[1]) < 1e-14);
    check_twice("conv_transpose2d", {in, weight},
                [&](const auto& v) { return values{conv_transpose2d(v[0], v[1], a)}; });
  }
}

BOOST_AUTO_TEST_SUITE_END()
