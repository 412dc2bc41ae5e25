// Convolution and pooling against plain loops.
module;
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;
using values = std::vector<value>;

namespace {

double pixel(const array& x, std::int64_t n, std::int64_t c, std::int64_t h, std::int64_t w) {
  const shape& s = x.shape();
  return x.values[static_cast<std::size_t>(((n * s.at(1) + c) * s.at(2) + h) * s.at(3) + w)];
}
bool inside(const array& x, std::int64_t h, std::int64_t w) {
  return h >= 0 && w >= 0 && h < x.shape().at(2) && w < x.shape().at(3);
}

void convolution(const shape& xs, const shape& ws, const conv2d_attributes& a) {
  for (auto element : {dtype::float32, dtype::float64}) {
    array x = random_array(element, xs, 1, -1, 1), w = random_array(element, ws, 2, -1, 1);
    auto got = result_of({x, w}, [&](const auto& v) { return value(conv2d(v[0], v[1], a)); });
    std::int64_t oh =
        (xs.at(2) + 2 * a.padding.h + a.padding_more.h - a.dilation.h * (ws.at(2) - 1) - 1) / a.stride.h + 1;
    std::int64_t ow =
        (xs.at(3) + 2 * a.padding.w + a.padding_more.w - a.dilation.w * (ws.at(3) - 1) - 1) / a.stride.w + 1;
    array want{{element, {xs[0], ws[0], oh, ow}}, {}};
    for (std::int64_t n = 0; n < xs.at(0); ++n)
      for (std::int64_t o = 0; o < ws.at(0); ++o)
        for (std::int64_t i = 0; i < oh; ++i)
          for (std::int64_t j = 0; j < ow; ++j) {
            double sum = 0;
            std::int64_t group = o / (ws.at(0) / a.groups);
            for (std::int64_t c = 0; c < ws.at(1); ++c)
              for (std::int64_t p = 0; p < ws.at(2); ++p)
                for (std::int64_t q = 0; q < ws.at(3); ++q) {
                  std::int64_t h = i * a.stride.h - a.padding.h + p * a.dilation.h,
                               v = j * a.stride.w - a.padding.w + q * a.dilation.w;
                  if (inside(x, h, v)) sum += pixel(x, n, group * ws.at(1) + c, h, v) * pixel(w, o, c, p, q);
                }
            want.values.push_back(sum);
          }
    BOOST_CHECK_MESSAGE((got.type == want.type) && distance(got, want) < (element == dtype::float32 ? 1e-5 : 1e-13),
                        xs.string() << ws.string() << ": " << distance(got, want));
  }
}

array first_image(const array& all) {
  array one{{all.type.element, all.shape()}, {}};
  one.type.dims[0] = 1;
  one.values.assign(all.values.begin(),
                    all.values.begin() + static_cast<std::ptrdiff_t>(all.values.size()) / all.shape().at(0));
  return one;
}

// A convolution of plain images and its gradients, in float32 and float64; an image's do not depend on its batch.
void gradients(const shape& xs, const shape& ws, const shape& ys, const conv2d_attributes& a) {
  const pass_options plain{.blocked_layout = false};
  const auto all = [&](const values& v) {
    return values{conv2d(v[0], v[1], a), apply<op::conv2d_input_grad>(a, v[2], v[1], v[0]),
                  apply<op::conv2d_weight_grad>(a, v[2], v[0], v[1])};
  };
  std::vector<array> in, wide;
  for (const auto& s : {xs, ws, ys}) {
    in.push_back(random_array(dtype::float32, s, static_cast<int>(in.size()), -1, 1));
    wide.push_back(array_of(dtype::float64, s, in.back().values));
  }
  const auto found = results_of(in, all, plain), expected = results_of(wide, all, plain);
  for (std::size_t i = 0; i < 3; ++i)
    BOOST_CHECK_MESSAGE(found[i].shape() == expected[i].shape() &&
                            distance(array_of(dtype::float64, found[i].shape(), found[i].values), expected[i]) < 5e-5,
                        xs.string() << ws.string() << " " << i);
  const auto alone = results_of({first_image(in[0]), in[1], first_image(in[2])}, all, plain);
  for (std::size_t i = 0; i < 2; ++i)
    BOOST_CHECK_MESSAGE(same_bits(alone[i], first_image(found[i])), xs.string() << ws.string() << " alone, " << i);
}

void pool(const shape& xs, const pool2d_attributes& a) {
  for (auto element : {dtype::float32, dtype::float64}) {
    array x = random_array(element, xs, 1, -1, 1);
    auto r = results_of({x}, [&](const auto& v) {
      auto both = apply<op::max_pool2d>(a, v[0]);
      return std::vector<value>{max_pool2d(v[0], a), avg_pool2d(v[0], a), both[1]};
    });
    auto step = a.step();
    std::int64_t oh = (xs.at(2) + 2 * a.padding.h + a.padding_more.h - a.kernel_size.h) / step.h + 1,
                 ow = (xs.at(3) + 2 * a.padding.w + a.padding_more.w - a.kernel_size.w) / step.w + 1;
    array max{{element, {xs[0], xs[1], oh, ow}}, {}}, mean = max, where{{dtype::int32, max.shape()}, {}};
    for (std::int64_t n = 0; n < xs.at(0); ++n)
      for (std::int64_t c = 0; c < xs.at(1); ++c)
        for (std::int64_t i = 0; i < oh; ++i)
          for (std::int64_t j = 0; j < ow; ++j) {
            double best = -std::numeric_limits<double>::infinity(), sum = 0, count = 0, at = 0;
            for (std::int64_t p = 0; p < a.kernel_size.h; ++p)
              for (std::int64_t q = 0; q < a.kernel_size.w; ++q) {
                std::int64_t h = i * step.h - a.padding.h + p, w = j * step.w - a.padding.w + q;
                if (!inside(x, h, w)) continue;
                double v = pixel(x, n, c, h, w);
                if (v > best) {
                  best = v;
                  at = static_cast<double>(h * xs.at(3) + w);
                }
                sum += v;
                ++count;
              }
            max.values.push_back(best);
            mean.values.push_back(sum /
                                  (a.count_padding ? static_cast<double>(a.kernel_size.h * a.kernel_size.w) : count));
            where.values.push_back(at);
          }
    BOOST_CHECK_MESSAGE(same_bits(r[0], max), "max of " << xs.string());
    BOOST_CHECK_MESSAGE(distance(r[1], mean) < 1e-6, "average of " << xs.string() << " " << distance(r[1], mean));
    BOOST_CHECK_MESSAGE(same_bits(r[2], where), "positions of " << xs.string());
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(images)

BOOST_AUTO_TEST_CASE(convolutions) {
  convolution({1, 1, 3, 3}, {1, 1, 3, 3}, {});
  convolution({2, 3, 9, 8}, {5, 3, 3, 2}, {});
  convolution({2, 16, 7, 7}, {16, 16, 1, 1}, {});
  convolution({1, 17, 10, 9}, {33, 17, 3, 3}, {.padding = 1});
  convolution({2, 3, 11, 10}, {8, 3, 3, 5}, {.stride = {2, 3}, .padding = {1, 2}});
  convolution({2, 4, 12, 12}, {6, 4, 3, 3}, {.dilation = 3});
  convolution({2, 6, 9, 9}, {9, 2, 3, 3}, {.stride = 2, .padding = 2, .dilation = 2, .groups = 3});
  convolution({1, 32, 6, 6}, {32, 1, 3, 3}, {.padding = 1, .groups = 32});
  convolution({1, 1, 28, 28}, {6, 1, 5, 5}, {.padding = 2});
  convolution({2, 16, 9, 8}, {17, 16, 3, 3}, {.stride = 2, .padding_more = 1});
  convolution({1, 16, 9, 8}, {16, 16, 3, 4}, {.padding = {1, 2}, .padding_more = {-1, 1}});
  convolution({2, 32, 9, 8}, {32, 1, 5, 5}, {.stride = 2, .padding = 1, .groups = 32, .padding_more = 1});
  convolution({2, 20, 9, 11}, {20, 1, 7, 3}, {.padding = {3, 2}, .dilation = {1, 2}, .groups = 20});
  convolution({2, 40, 31, 1}, {40, 40, 5, 1}, {.padding = {2, 0}});  // one column
  convolution({2, 40, 31, 1}, {40, 1, 5, 1}, {.stride = 3, .padding = {4, 0}, .groups = 40, .padding_more = {-4, 0}});
  convolution({0, 2, 5, 5}, {3, 2, 3, 3}, {});
  convolution({2, 2, 5, 5}, {0, 2, 3, 3}, {});
  convolution({1, 2, 0, 4}, {3, 2, 1, 3}, {.padding = 1});  // nothing but padding
}

BOOST_AUTO_TEST_CASE(gradients_of_convolutions) {
  gradients({3, 64, 8, 8}, {64, 64, 3, 3}, {3, 64, 8, 8}, {.padding = 1});
  gradients({3, 40, 7, 7}, {33, 40, 3, 3}, {3, 33, 7, 7}, {.padding = 1});
  gradients({2, 48, 5, 6}, {32, 48, 2, 4}, {2, 32, 6, 5}, {.padding = {1, 1}});
  gradients({2, 32, 9, 9}, {64, 32, 3, 3}, {2, 64, 5, 5}, {.stride = 2, .padding = 1});
  gradients({2, 32, 9, 9}, {64, 32, 1, 1}, {2, 64, 5, 5}, {.stride = 2});
  gradients({2, 32, 9, 7}, {32, 32, 3, 3}, {2, 32, 9, 7}, {.padding = 2, .dilation = 2});
  gradients({2, 64, 8, 8}, {48, 64, 3, 3}, {2, 48, 10, 9}, {.padding = 2, .padding_more = {0, -1}});
  gradients({5, 3, 20, 20}, {40, 3, 5, 5}, {5, 40, 20, 20}, {.padding = 2});
  gradients({2, 64, 6, 6}, {64, 32, 3, 3}, {2, 64, 4, 4}, {.groups = 2});
  gradients({3, 32, 9, 8}, {32, 1, 3, 3}, {3, 32, 9, 8}, {.padding = 1, .groups = 32});
  gradients({2, 45, 9, 8}, {45, 1, 5, 3}, {2, 45, 7, 8}, {.padding = 1, .groups = 45});
  gradients({2, 40, 9, 9}, {40, 1, 3, 3}, {2, 40, 5, 5}, {.stride = 2, .padding = 1, .groups = 40});
  gradients({2, 32, 31, 1}, {32, 32, 5, 1}, {2, 32, 31, 1}, {.padding = {2, 0}});
  // Filters that are larger than the images and the cache.
  gradients({2, 3008, 2, 2}, {3008, 1, 7, 7}, {2, 3008, 2, 2}, {.padding = 3, .groups = 3008});
  gradients({3, 160, 4, 4}, {144, 160, 3, 3}, {3, 144, 4, 4}, {.padding = 1});
  gradients({4, 150, 3, 3}, {151, 150, 3, 3}, {4, 151, 3, 3}, {.padding = 1});
  gradients({3, 160, 7, 7}, {150, 160, 3, 3}, {3, 150, 4, 4}, {.stride = 2, .padding = 1});
  gradients({3, 256, 5, 5}, {250, 256, 2, 2}, {3, 250, 4, 4}, {});
}

BOOST_AUTO_TEST_CASE(pools) {
  for (const auto& s : {shape{1, 1, 4, 4}, shape{2, 3, 9, 7}, shape{1, 17, 8, 8}, shape{0, 2, 4, 4}}) {
    pool(s, {});
    pool(s, {.kernel_size = 3, .stride = 1});
    pool(s, {.kernel_size = 3, .stride = 2, .padding = 1});
    pool(s, {.kernel_size = 3, .stride = 2, .padding = 1, .count_padding = false});
    pool(s, {.kernel_size = {2, 4}, .stride = {1, 2}, .padding = {0, 2}});
    pool(s, {.kernel_size = 3, .stride = 2, .count_padding = false, .padding_more = 1});
    pool(s, {.kernel_size = 3, .stride = 2, .padding = 1, .padding_more = {-1, 1}});
  }
}

BOOST_AUTO_TEST_CASE(a_pool_over_nan_gives_nan) {
  array x = array_of(dtype::float32, {1, 1, 2, 2}, {1, std::numeric_limits<double>::quiet_NaN(), 3, 4});
  BOOST_TEST(std::isnan(result_of({x}, [](const auto& v) { return value(max_pool2d(v[0])); }).values[0]));
}

BOOST_AUTO_TEST_CASE(an_image_of_one_number) {
  // A filled image has no storage; it is materialized first where blocks are needed.
  for (std::int64_t channels : {3, 20}) {
    tensor_of_rank<float, 4> w(20, static_cast<int>(channels), 3, 3);
    for (auto& v : w.writable()) v = 0.5f;
    auto y = evaluate(conv2d(filled(2.0f, 1, static_cast<int>(channels), 6, 6), w));
    BOOST_TEST((y.shape() == shape{1, 20, 4, 4}));
    for (float v : y.data()) BOOST_REQUIRE_EQUAL(v, static_cast<float>(9 * channels));
  }
}

BOOST_AUTO_TEST_SUITE_END()
