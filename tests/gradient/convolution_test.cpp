// Gradients of convolutions and pooling.
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
using namespace engine_test;

namespace {

void convolution(const shape& x, const shape& w, const conv2d_attributes& a) {
  check("conv2d", {real(x, 1), real(w, 2)}, [&](const auto& v) { return values{conv2d(v[0], v[1], a)}; });
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
  convolution({2, 4, 5, 5}, {6, 2, 3, 3}, {.groups = 2});
  convolution({1, 4, 5, 5}, {4, 1, 3, 3}, {.padding = 1, .groups = 4});
  convolution({1, 6, 6, 5}, {3, 2, 2, 3}, {.stride = 2, .padding = 1, .dilation = 2, .groups = 3});
  convolution({1, 1, 5, 5}, {1, 1, 2, 2}, {.stride = 3});                    // pixels that no window reaches
  convolution({0, 4, 5, 5}, {4, 2, 3, 3}, {.stride = 2, .padding = 1, .groups = 2});
}

BOOST_AUTO_TEST_CASE(a_block_of_layers) {
  check("relu(conv + b)", {real({2, 2, 5, 5}, 1), real({3, 2, 3, 3}, 2), real({3, 1, 1}, 3)},
        [](const auto& x) { return values{relu(conv2d(x[0], x[1], {.padding = 1}) + x[2])}; });
  check("conv + b + x", {real({1, 3, 4, 4}, 1), real({3, 3, 3, 3}, 2), real({3, 1, 1}, 3)},
        [](const auto& x) { return values{conv2d(x[0], x[1], {.padding = 1}) + x[2] + x[0]}; });
}

BOOST_AUTO_TEST_CASE(max_pooling) {
  const pool2d_attributes windows[] = {{}, {.kernel = 3, .stride = 1}, {.kernel = 2, .stride = 2, .padding = 1}, {.kernel = {3, 2}, .stride = {2, 1}, .padding = {1, 0}}, {.kernel = 1}};
  for (const auto& s : images)
    for (const auto& a : windows) check("max_pool2d", {distinct_array(s, 3)}, [&](const auto& x) { return values{max_pool2d(x[0], a)}; });
}

BOOST_AUTO_TEST_CASE(average_pooling) {
  const pool2d_attributes windows[] = {{}, {.kernel = 3, .stride = 1}, {.kernel = 2, .stride = 2, .padding = 1}, {.kernel = 3, .stride = 2, .padding = 1, .count_padding = false}, {.kernel = {2, 3}, .stride = {1, 2}}};
  for (const auto& s : images) {
    for (const auto& a : windows) check("avg_pool2d", {real(s, 4)}, [&](const auto& x) { return values{avg_pool2d(square(x[0]), a)}; });
    check("global_avg_pool2d", {real(s, 4)}, [&](const auto& x) { return values{global_avg_pool2d(square(x[0]))}; });
  }
}

BOOST_AUTO_TEST_CASE(a_window_over_equal_pixels_has_one_winner) {
  graph g;
  value x = g.input(array_of(dtype::float64, {1, 1, 2, 2}, {3, 3, 3, 3}));
  g.output(gradients(reduce_sum(max_pool2d(x)), {&x, 1})[0]);
  BOOST_TEST(g.run()[0].values == (std::vector<double>{1, 0, 0, 0}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
