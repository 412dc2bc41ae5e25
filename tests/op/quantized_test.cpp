// Quantized tensors and their products against plain loops in double and in integers.
module;
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

array scalar_of(dtype element, double v) { return array_of(element, {}, {v}); }
array bytes(const shape& s, int seed) { return random_array(dtype::int8, s, seed, -128, 128); }

/// What a product gives for a sum of (x - x_zero_point) w.
double result_of_sum(double sum, double bias, double x_scale, double w_scale, double y_scale, double y_zero_point,
                     double low, double high) {
  const float factor = static_cast<float>(x_scale) * static_cast<float>(w_scale) / static_cast<float>(y_scale);
  const float v = static_cast<float>(sum + bias) * factor;
  return std::min(high, std::max(low, static_cast<double>(std::nearbyint(v)) + y_zero_point));
}

struct product_case {
  array x, x_scale = scalar_of(dtype::float32, 0.02f), x_zero_point = scalar_of(dtype::int8, -7), w, w_scale, bias,
           y_scale = scalar_of(dtype::float32, 0.75f), y_zero_point = scalar_of(dtype::int8, 11);
  product_case(const shape& xs, const shape& ws, bool rowwise) : x(bytes(xs, 1)), w(bytes(ws, 2)) {
    const std::int64_t out = ws.at(0);
    std::vector<double> scales, biases;
    for (std::int64_t o = 0; o < (rowwise ? out : 1); ++o)
      scales.push_back(static_cast<double>(0.01f + 0.003f * static_cast<float>(o)));
    for (std::int64_t o = 0; o < out; ++o) biases.push_back(static_cast<double>(500 * o - 3000));
    w_scale = array_of(dtype::float32, rowwise ? shape{out} : shape{}, scales);
    bias = array_of(dtype::int32, {out}, biases);
  }
  std::vector<array> all() const { return {x, x_scale, x_zero_point, w, w_scale, bias, y_scale, y_zero_point}; }
  double finish(double sum, std::size_t o, double low = -128, double high = 127) const {
    return result_of_sum(sum, bias.values[o], x_scale.values[0], w_scale.values[w_scale.values.size() == 1 ? 0 : o],
                         y_scale.values[0], y_zero_point.values[0], low, high);
  }
};
value linear_of(const std::vector<value>& v, quantized_linear_attributes a = {}) {
  return quantized_linear(v[0], {v[1], v[2]}, {v[3], v[4], v[5]}, {v[6], v[7]}, a);
}

/// Calls each(number of x, weight) for the products of result [n, o, i, j] of a convolution, but for those of padding.
template <class F> void each_product(const array& x, const array& w, const conv2d_attributes& a, std::int64_t n,
                                     std::int64_t o, std::int64_t i, std::int64_t j, F each) {
  const shape &xs = x.type.dims, &ws = w.type.dims;
  const std::int64_t depth = ws.at(1), first = o / (ws.at(0) / a.groups) * depth;
  for (std::int64_t k = 0; k < depth; ++k)
    for (std::int64_t p = 0; p < ws.at(2); ++p)
      for (std::int64_t q = 0; q < ws.at(3); ++q) {
        const std::int64_t row = i * a.stride.h - a.padding.h + p * a.dilation.h,
                           column = j * a.stride.w - a.padding.w + q * a.dilation.w;
        if (row < 0 || column < 0 || row >= xs.at(2) || column >= xs.at(3)) continue;
        each(x.values[static_cast<std::size_t>(((n * xs.at(1) + first + k) * xs.at(2) + row) * xs.at(3) + column)],
             w.values[static_cast<std::size_t>(((o * depth + k) * ws.at(2) + p) * ws.at(3) + q)]);
      }
}

std::string refusal(const std::vector<array>& in, const std::function<value(const std::vector<value>&)>& f) {
  return message_of([&] { result_of(in, f); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(quantized_operations)

BOOST_AUTO_TEST_CASE(quantize_takes_the_nearest_number_and_saturates) {
  const array x = array_of(dtype::float32, {2, 5}, {0, 0.25, 0.75, -0.75, 1e9, -1e9, 63.75, -64.25, 0.5, -0.5});
  const auto q = result_of({x, scalar_of(dtype::float32, 0.5), scalar_of(dtype::int8, 1)},
                           [](const auto& v) { return quantize(v[0], {v[1], v[2]}); });
  // ties go to the even number: 0.5 to 0, 1.5 to 2, -1.5 to -2, 127.5 to 128 (which saturates), -128.5 to -128
  const std::vector<double> expected{1, 1, 3, -1, 127, -128, 127, -127, 2, 0};
  BOOST_TEST((q.type == tensor_type{dtype::int8, {2, 5}}));
  BOOST_TEST(q.values == expected);
}

BOOST_AUTO_TEST_CASE(a_scale_for_each_position_of_an_axis) {
  const array x = random_array(dtype::float32, {3, 4, 5}, 1, -4, 4);
  const array scales = array_of(dtype::float32, {4}, {0.125, 0.03125, 1, 0.5}),
              zero_points = array_of(dtype::int8, {4}, {0, -128, 3, 127});
  const auto both = results_of({x, scales, zero_points}, [](const auto& v) {
    const value q = quantize(v[0], {v[1], v[2]}, {.axis = -2});
    return std::vector<value>{q, dequantize(q, {v[1], v[2]}, {.axis = 1})};
  });
  for (std::size_t i = 0; i < 60; ++i) {
    const std::size_t c = i / 5 % 4;
    const double q =
        std::min(127., std::max(-128., std::nearbyint(x.values[i] / scales.values[c]) + zero_points.values[c]));
    BOOST_REQUIRE(both[0].values[i] == q);
    BOOST_REQUIRE(both[1].values[i] == (q - zero_points.values[c]) * scales.values[c]);
  }
}

BOOST_AUTO_TEST_CASE(linear) {
  for (const bool rowwise : {false, true})
    for (const shape& xs : {shape{5, 13}, shape{13}, shape{2, 3, 13}, shape{40, 13}}) {
      const product_case c(xs, {7, 13}, rowwise);
      const auto y = result_of(c.all(), [](const auto& v) { return linear_of(v); });
      const auto relu = result_of(c.all(), [](const auto& v) { return linear_of(v, {.low = 11, .high = 20}); });
      const std::size_t rows = c.x.values.size() / 13;
      BOOST_REQUIRE(y.values.size() == rows * 7);
      for (std::size_t i = 0; i < rows; ++i)
        for (std::size_t o = 0; o < 7; ++o) {
          double sum = 0;
          for (std::size_t k = 0; k < 13; ++k) sum += (c.x.values[i * 13 + k] + 7) * c.w.values[o * 13 + k];
          BOOST_REQUIRE(y.values[i * 7 + o] == c.finish(sum, o));
          BOOST_REQUIRE(relu.values[i * 7 + o] == c.finish(sum, o, 11, 20));
        }
    }
}

BOOST_AUTO_TEST_CASE(products_of_two) {
  const array a_scale = scalar_of(dtype::float32, 0.02f), b_scale = scalar_of(dtype::float32, 0.01f),
              y_scale = scalar_of(dtype::float32, 0.5f), y_zero_point = scalar_of(dtype::int8, -9);
  struct sizes {
    shape a, b, y;
    std::int64_t a_batch, b_batch;  // matrix per product: 0: one for all, 1: its own, 3 (a) or 2 (b): along one axis
  };
  const sizes all[] = {{{5, 13}, {13, 7}, {5, 7}, 0, 0},
                       {{2, 3, 5, 16}, {2, 3, 16, 33}, {2, 3, 5, 33}, 1, 1},
                       {{2, 3, 5, 16}, {16, 33}, {2, 3, 5, 33}, 1, 0},
                       {{5, 64}, {2, 3, 64, 17}, {2, 3, 5, 17}, 0, 1},
                       {{2, 1, 50, 70}, {1, 3, 70, 40}, {2, 3, 50, 40}, 3, 2}};  // each along one of the other's axes
  for (const auto& s : all)
    for (const bool transposed : {false, true})
      for (const int b_zero : {0, -128, 57}) {
        const std::int64_t m = s.a.at(s.a.rank - 2), k = s.a.at(s.a.rank - 1), n = s.b.at(s.b.rank - 1);
        shape bs = s.b;
        if (transposed) std::swap(bs[bs.rank - 1], bs[bs.rank - 2]);
        const array a = bytes(s.a, 3), b = bytes(bs, 4);
        const auto y = result_of(
            {a, a_scale, scalar_of(dtype::int8, 21), b, b_scale, scalar_of(dtype::int8, b_zero), y_scale, y_zero_point},
            [&](const auto& v) {
              return quantized_matmul(v[0], {v[1], v[2]}, v[3], {v[4], v[5]}, {v[6], v[7]},
                                      {.transpose_b = transposed, .low = -100});
            });
        BOOST_REQUIRE((y.type == tensor_type{dtype::int8, s.y}));
        for (std::int64_t i = 0; i < s.y.size(); ++i) {
          const std::int64_t product = i / (m * n), row = i / n % m, column = i % n;
          const std::int64_t a_at = s.a_batch == 3 ? product / 3 : s.a_batch * product,
                             b_at = s.b_batch == 2 ? product % 3 : s.b_batch * product;
          double sum = 0;
          for (std::int64_t p = 0; p < k; ++p)
            sum += (a.values[static_cast<std::size_t>((a_at * m + row) * k + p)] - 21) *
                   (b.values[static_cast<std::size_t>(b_at * k * n + (transposed ? column * k + p : p * n + column))] -
                    b_zero);
          BOOST_REQUIRE(y.values[static_cast<std::size_t>(i)] ==
                        result_of_sum(sum, 0, 0.02f, 0.01f, 0.5f, -9, -100, 127));
        }
      }
  const auto product = [](const auto& v) {
    return quantized_matmul(v[0], {v[1], v[2]}, v[3], {v[4], v[5]}, {v[6], v[7]});
  };
  std::vector<array> in{bytes({5, 13}, 1), a_scale,      y_zero_point, bytes({12, 7}, 2),
                        b_scale,           y_zero_point, y_scale,      y_zero_point};
  BOOST_TEST(refusal(in, product).find("quantized_matmul: the inner sizes differ") != std::string::npos);
  in[3] = random_array(dtype::float32, {13, 7}, 1);
  BOOST_TEST(refusal(in, product).find("quantized_matmul: takes int8, not float32") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(products_of_two_are_cut_without_changing_a_bit) {
  small_graph g;
  const auto number = [&](dtype e, double v) { return g.input(scalar_of(e, v)); };
  const value a = g.input(bytes({2, 260, 128}, 1)), b = g.input(bytes({2, 300, 128}, 2)),
              scale = number(dtype::float32, 0.125), zero_point = number(dtype::int8, 5);
  g.output(quantized_matmul(a, {scale, zero_point}, b, {scale, zero_point}, {number(dtype::float32, 8), zero_point},
                            {.transpose_b = true}));
  const auto one = g.run({}, 1)[0], two = g.run({}, 2)[0];
  BOOST_TEST(g.plan->cost().steps > 4u);
  BOOST_TEST(same_bits(one, two));
}

BOOST_AUTO_TEST_CASE(large_linear_is_cut_without_changing_a_bit) {
  for (const shape& xs : {shape{300, 700}, shape{12, 700}}) {
    const product_case c(xs, {1100, 700}, true);
    small_graph g;
    std::vector<value> v;
    for (const auto& a : c.all()) v.push_back(g.input(a));
    g.output(linear_of(v));
    const auto one = g.run({}, 1)[0], two = g.run({}, 2)[0];
    BOOST_TEST(g.plan->cost().steps > 2u);
    BOOST_TEST(same_bits(one, two));
    for (std::size_t at : {std::size_t(0), std::size_t(1099), std::size_t(1100 + 513), one.values.size() - 1}) {
      double sum = 0;
      for (std::size_t k = 0; k < 700; ++k)
        sum += (c.x.values[at / 1100 * 700 + k] + 7) * c.w.values[at % 1100 * 700 + k];
      BOOST_TEST(one.values[at] == c.finish(sum, at % 1100));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_convolution_of_many_filters_is_cut_without_changing_a_bit) {
  const array x = bytes({1, 256, 5, 5}, 1), w = bytes({264, 256, 3, 3}, 2);
  const conv2d_attributes at{.padding = 1};
  small_graph g;
  const value image = g.input(x), zero_point = g.input(scalar_of(dtype::int8, -7));
  g.output(integer_conv2d(image, zero_point, g.input(w), at));
  const auto one = g.run({}, 1)[0], two = g.run({}, 2)[0];
  BOOST_TEST(g.plan->cost().steps == 5u);  // with that of the weights
  BOOST_TEST(same_bits(one, two));
  for (std::int64_t o = 0; o < 264; o += 7)
    for (std::int64_t r = 0; r < 25; ++r) {
      double sum = 0;
      each_product(x, w, at, 0, o, r / 5, r % 5, [&](double number, double weight) { sum += (number + 7) * weight; });
      BOOST_REQUIRE(one.values[static_cast<std::size_t>(o * 25 + r)] == sum);
    }
}

BOOST_AUTO_TEST_CASE(weights_of_a_state_are_packed) {
  const product_case c({3, 20}, {18, 20}, true);
  small_graph g;
  auto in = c.all();
  std::vector<value> v;
  for (std::size_t i = 0; i < in.size(); ++i)
    v.push_back(i >= 3 && i <= 5 ? g.state("s" + std::to_string(i), in[i]) : g.input(in[i]));
  g.output(linear_of(v));
  const auto packed = g.run()[0];
  BOOST_TEST(g.plan->packs().size() == 1u);
  BOOST_TEST(same_bits(packed, result_of(in, [](const auto& x) { return linear_of(x); })));
}

BOOST_AUTO_TEST_CASE(convolution) {
  for (const conv2d_attributes& a :
       {conv2d_attributes{.padding = {2, 1}}, conv2d_attributes{.stride = 2, .padding = 1, .groups = 2},
        conv2d_attributes{.dilation = {1, 2}}, conv2d_attributes{.stride = 2, .padding_more = {2, 1}},
        conv2d_attributes{.padding = 1, .padding_more = {-1, 1}}}) {
    const product_case c({2, 4, 9, 11}, {6, 4 / a.groups, 3, 3}, true);
    const auto y = result_of(c.all(), [&](const auto& v) {
      return quantized_conv2d(v[0], {v[1], v[2]}, {v[3], v[4], v[5]}, {v[6], v[7]}, {.conv = a, .low = -100});
    });
    const std::int64_t oh = (9 + 2 * a.padding.h + a.padding_more.h - a.dilation.h * 2 - 1) / a.stride.h + 1,
                       ow = (11 + 2 * a.padding.w + a.padding_more.w - a.dilation.w * 2 - 1) / a.stride.w + 1;
    BOOST_REQUIRE((y.type == tensor_type{dtype::int8, {2, 6, oh, ow}}));
    std::size_t at = 0;
    for (std::int64_t n = 0; n < 2; ++n)
      for (std::int64_t o = 0; o < 6; ++o)
        for (std::int64_t i = 0; i < oh; ++i)
          for (std::int64_t j = 0; j < ow; ++j, ++at) {
            double sum = 0;
            each_product(c.x, c.w, a, n, o, i, j, [&](double number, double weight) { sum += (number + 7) * weight; });
            BOOST_REQUIRE(y.values[at] == c.finish(sum, static_cast<std::size_t>(o), -100));
          }
  }
}

// Also of weights that have more bits than the attribute says.
BOOST_AUTO_TEST_CASE(results_do_not_depend_on_the_bits_of_weights) {
  const auto in_7_bits = [](array& w) {
    for (double& v : w.values) v = std::floor(v / 2);
    w = array_of(w.type.element, w.type.dims, w.values);
  };
  for (const bool fit : {true, false}) {
    product_case rows({70, 45}, {50, 45}, true);
    if (fit) in_7_bits(rows.w);
    const auto linear_in = [&](std::int64_t bits) {
      small_graph g;
      std::vector<value> v;
      for (const auto& a : rows.all()) v.push_back(v.size() == 3 ? g.state("w", a) : g.input(a));
      g.output(linear_of(v, {.weight_bits = bits}));
      return g.run()[0];
    };
    BOOST_TEST(same_bits(linear_in(7), linear_in(8)));
    product_case columns({70, 45}, {45, 45}, true);  // weights of the other order
    if (fit) in_7_bits(columns.w);
    const auto transposed_in = [&](std::int64_t bits) {
      return result_of(columns.all(),
                       [&](const auto& v) { return linear_of(v, {.transposed = true, .weight_bits = bits}); });
    };
    BOOST_TEST(same_bits(transposed_in(7), transposed_in(8)));
    struct window {
      shape x, w;
      conv2d_attributes conv;
    };
    for (const auto& c :
         {window{{2, 20, 9, 11}, {34, 20, 3, 3}, {.stride = 2, .padding = 1}},
          window{{1, 3, 30, 30}, {10, 3, 5, 5}, {.padding = 2}},
          window{{1, 32, 17, 19}, {32, 1, 3, 3}, {.padding = 1, .groups = 32}},
          window{{1, 24, 20, 20}, {16, 24, 3, 3}, {.padding = 1}}, window{{1, 40, 14, 14}, {48, 40, 1, 1}, {}},
          window{{1, 256, 5, 5}, {264, 256, 3, 3}, {.padding = 1}}}) {  // the last one is cut by filters
      product_case images(c.x, c.w, true);
      if (fit) in_7_bits(images.w);
      const auto with = [&](std::int64_t bits) {
        return result_of(images.all(), [&](const auto& v) {
          return quantized_conv2d(v[0], {v[1], v[2]}, {v[3], v[4], v[5]}, {v[6], v[7]},
                                  {.conv = c.conv, .low = -100, .weight_bits = bits});
        });
      };
      BOOST_TEST(same_bits(with(7), with(8)), c.w.string());
    }
  }
}

BOOST_AUTO_TEST_CASE(pooling_and_changes_of_shape_stay_in_int8) {
  const array x = bytes({2, 3, 6, 7}, 5);
  const auto r = results_of({x}, [](const auto& v) {
    const auto both = apply<op::max_pool2d>({.kernel_size = 3, .stride = 2, .padding = 1}, v[0]);
    return std::vector<value>{both[0], both[1], flatten<1>(v[0])};
  });
  // int8 numbers are exact in float, so float pooling is the reference
  const auto in_float = results_of({x}, [](const auto& v) {
    const auto both = apply<op::max_pool2d>({.kernel_size = 3, .stride = 2, .padding = 1}, cast<float>(v[0]));
    return std::vector<value>{both[0], both[1]};
  });
  BOOST_TEST((r[0].type.element == dtype::int8));
  BOOST_TEST(r[0].values == in_float[0].values);
  BOOST_TEST(r[1].values == in_float[1].values);
  BOOST_TEST(r[2].values == x.values);
}

BOOST_AUTO_TEST_CASE(sums_of_two_scales) {
  const float a_scale = 0.03f, b_scale = 0.011f, y_scale = 0.025f;
  const array a = bytes({3, 70}, 1), b = bytes({3, 70}, 2);
  const std::vector<array> in{a,
                              scalar_of(dtype::float32, a_scale),
                              scalar_of(dtype::int8, -9),
                              b,
                              scalar_of(dtype::float32, b_scale),
                              scalar_of(dtype::int8, 4),
                              scalar_of(dtype::float32, y_scale),
                              scalar_of(dtype::int8, 30)};
  const auto y = result_of(in, [](const auto& v) {
    return quantized_add(v[0], {v[1], v[2]}, v[3], {v[4], v[5]}, {v[6], v[7]}, {.low = 30});
  });
  BOOST_REQUIRE((y.type == tensor_type{dtype::int8, {3, 70}}));
  for (std::size_t i = 0; i < y.values.size(); ++i) {
    const float left = static_cast<float>(a.values[i] + 9) * (a_scale / y_scale),
                right = static_cast<float>(b.values[i] - 4) * (b_scale / y_scale);
    BOOST_REQUIRE(y.values[i] == std::min(127., std::max(30., static_cast<double>(std::nearbyint(left + right)) + 30)));
  }
  auto other = in;
  other[3] = bytes({3, 2}, 2);
  const auto add = [](const auto& v) { return quantized_add(v[0], {v[1], v[2]}, v[3], {v[4], v[5]}, {v[6], v[7]}); };
  BOOST_TEST(refusal(other, add)
                     .find("quantized_add: b must have the shape of a, or its last axes, or its first with 1 for the "
                           "others, not [3x70] and [3x2]") != std::string::npos,
             refusal(other, add));
  other[3] = random_array(dtype::float32, {3, 70}, 1);
  BOOST_TEST(refusal(other, add).find("quantized_add: takes int8, not float32") != std::string::npos,
             refusal(other, add));
}

// The second operand repeats along the first axes, along the last ones, and in parts of a large one.
BOOST_AUTO_TEST_CASE(products_and_sums_of_a_repeated_operand) {
  const float a_scale = 0.03f, b_scale = 0.011f, y_scale = 0.025f;
  for (const bool sum : {true, false})
    for (const auto& [as, bs] : std::vector<std::pair<shape, shape>>{{{2, 3, 5, 7}, {2, 3, 1, 1}},
                                                                     {{2, 3, 5, 7}, {1, 3, 1, 1}},
                                                                     {{2, 3, 5, 7}, {7}},
                                                                     {{1, 3, 5, 7}, {7}},
                                                                     {{1, 1, 5, 7}, {1, 5, 7}},
                                                                     {{300000}, {1}},
                                                                     {{2, 3, 5, 7}, {5, 7}},
                                                                     {{2, 3, 5, 7}, {}},
                                                                     {{1, 4, 1, 1}, {4, 1, 1}},
                                                                     {{300000}, {300000}}}) {
      const bool refused = bs == shape{1, 3, 1, 1};
      const std::vector<array> in{bytes(as, 1),
                                  scalar_of(dtype::float32, a_scale),
                                  scalar_of(dtype::int8, -9),
                                  bytes(bs, 2),
                                  scalar_of(dtype::float32, b_scale),
                                  scalar_of(dtype::int8, 4),
                                  scalar_of(dtype::float32, y_scale),
                                  scalar_of(dtype::int8, 30)};
      const auto of = [&](const auto& v) {
        return sum ? quantized_add(v[0], {v[1], v[2]}, v[3], {v[4], v[5]}, {v[6], v[7]})
                   : quantized_multiply(v[0], {v[1], v[2]}, v[3], {v[4], v[5]}, {v[6], v[7]});
      };
      if (refused) {
        BOOST_TEST(!refusal(in, of).empty());
        continue;
      }
      const auto y = result_of(in, of);
      const std::size_t n = in[0].values.size(), inner = bs.rank == 4 ? 35 : 1, count = in[3].values.size();
      for (std::size_t i = 0; i < n; ++i) {
        const float x = static_cast<float>(in[0].values[i] + 9),
                    z = static_cast<float>(in[3].values[i / inner % count] - 4);
        const float v = sum ? x * (a_scale / y_scale) + z * (b_scale / y_scale) : x * z * (a_scale * b_scale / y_scale);
        const double expected = std::min(127., std::max(-128., static_cast<double>(std::nearbyint(v)) + 30));
        BOOST_REQUIRE(y.values[i] == expected);
      }
    }
}

BOOST_AUTO_TEST_CASE(integer_products_less_the_zero_points_of_both) {
  for (const bool transposed : {false, true})
    for (const shape& xs : {shape{5, 13}, shape{2, 40, 13}}) {
      const array x = bytes(xs, 1), w = bytes(transposed ? shape{13, 7} : shape{7, 13}, 2), zero_points = bytes({7}, 3),
                  x_zero_point = scalar_of(dtype::int8, -7);
      const auto both = results_of({x, x_zero_point, w, zero_points}, [&](const auto& v) {
        return std::vector<value>{integer_linear(v[0], v[1], v[2], v[3], transposed),
                                  integer_linear(v[0], v[1], v[2], {}, transposed)};
      });
      BOOST_TEST((both[0].type.element == dtype::int32));
      for (std::size_t i = 0; i < x.values.size() / 13; ++i)
        for (std::size_t o = 0; o < 7; ++o) {
          double sum = 0, plain = 0;
          for (std::size_t k = 0; k < 13; ++k) {
            const double weight = w.values[transposed ? k * 7 + o : o * 13 + k], of_x = x.values[i * 13 + k] + 7;
            sum += of_x * (weight - zero_points.values[o]), plain += of_x * weight;
          }
          BOOST_REQUIRE(both[0].values[i * 7 + o] == sum);
          BOOST_REQUIRE(both[1].values[i * 7 + o] == plain);
        }
    }
}

BOOST_AUTO_TEST_CASE(integer_products_of_matrices_less_the_zero_points_of_both) {
  for (const bool transposed : {false, true})
    for (const std::int64_t batch : {1, 3}) {
      const array a = bytes({3, 20, 13}, 1), b = bytes(transposed ? shape{batch, 9, 13} : shape{batch, 13, 9}, 2),
                  a_zero_point = scalar_of(dtype::int8, -7), b_zero_point = scalar_of(dtype::int8, 11);
      const auto y = results_of({a, a_zero_point, b, b_zero_point}, [&](const auto& v) {
        return std::vector<value>{integer_matmul(v[0], v[1], v[2], v[3], transposed),
                                  integer_matmul(v[0], v[1], permute(v[2], {0, 2, 1}), v[3], !transposed)};
      });
      BOOST_TEST((y[0].type == tensor_type{dtype::int32, {3, 20, 9}}));
      for (std::size_t n = 0; n < 3; ++n)
        for (std::size_t i = 0; i < 20; ++i)
          for (std::size_t o = 0; o < 9; ++o) {
            double sum = 0;
            const std::size_t first = batch == 1 ? 0 : n * 117;
            for (std::size_t k = 0; k < 13; ++k)
              sum += (a.values[(n * 20 + i) * 13 + k] + 7) *
                     (b.values[first + (transposed ? o * 13 + k : k * 9 + o)] - 11);
            BOOST_REQUIRE(y[0].values[(n * 20 + i) * 9 + o] == sum);
            BOOST_REQUIRE(y[1].values[(n * 20 + i) * 9 + o] == sum);
          }
    }
}
BOOST_AUTO_TEST_CASE(integer_convolutions_less_the_zero_points_of_both) {
  const array x = bytes({1, 3, 9, 8}, 1), w = bytes({5, 3, 3, 2}, 2), zero_points = bytes({5}, 3),
              x_zero_point = scalar_of(dtype::int8, -7), one = scalar_of(dtype::int8, 9);
  const conv2d_attributes at{.stride = {2, 1}, .padding = {1, 0}, .padding_more = {0, 1}};
  const auto y = results_of({x, x_zero_point, w, zero_points, one}, [&](const auto& v) {
    return std::vector<value>{integer_conv2d(v[0], v[1], v[2], at), integer_conv2d(v[0], v[1], v[2], at, v[3]),
                              integer_conv2d(v[0], v[1], v[2], at, v[4])};
  });
  BOOST_TEST((y[0].type == tensor_type{dtype::int32, {1, 5, 5, 8}}));
  for (std::int64_t o = 0; o < 5; ++o)
    for (std::int64_t r = 0; r < 40; ++r) {
      double sums[3] = {};
      const double zero_point = zero_points.values[static_cast<std::size_t>(o)];
      each_product(x, w, at, 0, o, r / 8, r % 8, [&](double number, double weight) {
        const double of_x = number + 7;
        sums[0] += of_x * weight, sums[1] += of_x * (weight - zero_point), sums[2] += of_x * (weight - 9);
      });
      for (std::size_t i = 0; i < 3; ++i) BOOST_REQUIRE(y[i].values[static_cast<std::size_t>(o * 40 + r)] == sums[i]);
    }
}

BOOST_AUTO_TEST_CASE(linear_with_weights_of_the_other_order) {
  const product_case c({9, 13}, {7, 13}, true);
  auto other = c.all();
  other[3].type.dims = {13, 7};
  for (std::size_t o = 0; o < 7; ++o)
    for (std::size_t k = 0; k < 13; ++k) other[3].values[k * 7 + o] = c.w.values[o * 13 + k];
  const auto y = result_of(c.all(), [](const auto& v) { return linear_of(v); });
  const auto z = result_of(other, [](const auto& v) { return linear_of(v, {.transposed = true}); });
  BOOST_TEST((y.values == z.values));
}

BOOST_AUTO_TEST_CASE(a_table_of_results) {
  const array x = bytes({3, 50}, 1), table = bytes({256}, 2);
  const auto y = result_of({x, table}, [](const auto& v) { return quantized_table(v[0], v[1]); });
  for (std::size_t i = 0; i < 150; ++i)
    BOOST_REQUIRE(y.values[i] == table.values[static_cast<std::size_t>(x.values[i] + 128)]);
  BOOST_TEST(refusal({x, x}, [](const auto& v) {
               return quantized_table(v[0], v[1]);
             }).find("the table must be [256]") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(averages_over_windows) {
  const array x = bytes({2, 3, 6, 7}, 5);
  for (const float y_scale : {0.02f, 0.007f})
    for (const pool2d_attributes& a :
         {pool2d_attributes{.kernel_size = 2},
          pool2d_attributes{.kernel_size = 3, .stride = 2, .padding = 1, .count_padding = false},
          pool2d_attributes{.kernel_size = 3, .stride = 2, .padding = 1, .padding_more = {-1, 2}},
          pool2d_attributes{.kernel_size = {6, 7}}}) {
      const std::vector<array> in{x, scalar_of(dtype::float32, 0.02f), scalar_of(dtype::int8, 5),
                                  scalar_of(dtype::float32, y_scale), scalar_of(dtype::int8, -3)};
      const auto y =
          result_of(in, [&](const auto& v) { return quantized_avg_pool2d(v[0], {v[1], v[2]}, {v[3], v[4]}, a); });
      // sums of few int8 numbers are exact in double
      const auto mean = results_of(
          {x}, [&](const auto& v) { return std::vector<value>{lamina::avg_pool2d(cast<double>(v[0]) - 5.0, a)}; })[0];
      BOOST_REQUIRE((y.type == tensor_type{dtype::int8, mean.type.dims}));
      for (std::size_t i = 0; i < y.values.size(); ++i) {
        const double v = mean.values[i] * static_cast<double>(0.02f / y_scale);
        BOOST_TEST(std::abs(y.values[i] - std::min(127., std::max(-128., v - 3))) < 0.5001);
        if (y_scale == 0.02f && a.kernel_size.h == 2) BOOST_TEST(y.values[i] == std::nearbyint(mean.values[i]) - 3);
      }
    }
  const std::vector<array> wrong{x, scalar_of(dtype::float32, 1), scalar_of(dtype::int8, 0),
                                 scalar_of(dtype::float32, 1), bytes({2}, 1)};
  const auto pool = [](const auto& v) {
    return quantized_avg_pool2d(v[0], {v[1], v[2]}, {v[3], v[4]}, {.kernel_size = 9});
  };
  BOOST_TEST(refusal(wrong, pool).find("the zero point of the result must be one number, []") != std::string::npos,
             refusal(wrong, pool));
}

BOOST_AUTO_TEST_CASE(mismatches_are_diagnosed) {
  const product_case c({5, 13}, {7, 13}, true);
  const auto with = [&](std::size_t at, const array& other) {
    auto in = c.all();
    in[at] = other;
    return refusal(in, [](const auto& v) { return linear_of(v); });
  };
  BOOST_TEST(with(0, random_array(dtype::float32, {5, 13}, 1)).find("quantized_linear: takes int8, not float32") !=
             std::string::npos);
  BOOST_TEST(with(3, bytes({7, 12}, 1)).find("quantized_linear: the inner sizes differ") != std::string::npos);
  BOOST_TEST(with(4, random_array(dtype::float32, {6}, 1)).find("scales of weights must be [] or [7]") !=
             std::string::npos);
  BOOST_TEST(with(5, array_of(dtype::int32, {6}, {0, 0, 0, 0, 0, 0})).find("the bias must be [7]") !=
             std::string::npos);
  BOOST_TEST(with(5, random_array(dtype::float32, {7}, 1)).find("bias must be int32, not float32") !=
             std::string::npos);
  BOOST_TEST(with(7, bytes({2}, 1)).find("the zero point of the result must be one number, []") != std::string::npos);
  BOOST_TEST(refusal(c.all(), [](const auto& v) {
               return linear_of(v, {.low = 5, .high = 4});
             }).find("results must stay within [-128, 127], not [5, 4]") != std::string::npos);
  BOOST_TEST(refusal(c.all(), [](const auto& v) {
               return linear_of(v, {.weight_bits = 6});
             }).find("weights have 7 or 8 bits, not 6") != std::string::npos);
  const array x = random_array(dtype::float32, {3, 4}, 1), scales = random_array(dtype::float32, {4}, 1),
              zero_points = bytes({4}, 1);
  BOOST_TEST(refusal({x, scales, zero_points}, [](const auto& v) {
               return quantize(v[0], {v[1], v[2]}, {.axis = 2});
             }).find("axis 2 is outside the rank") != std::string::npos);
  BOOST_TEST(refusal({bytes({3}, 1), scalar_of(dtype::float32, 1), scalar_of(dtype::int8, 0)}, [](const auto& v) {
               return dequantize(v[0], {v[1], v[2]}, {.bits = 9});
             }).find("int8 numbers have 7 or 8 bits, not 9") != std::string::npos);
  BOOST_TEST(refusal({x, scales, zero_points}, [](const auto& v) {
               return quantize(v[0], {v[1], v[2]}, {.axis = 0});
             }).find("scales must be [] or [3]") != std::string::npos);
  BOOST_TEST(refusal({x, scales, scalar_of(dtype::int8, 0)}, [](const auto& v) {
               return quantize(v[0], {v[1], v[2]}, {.axis = 1});
             }).find("scales and zero points must have the same shape") != std::string::npos);
  BOOST_TEST(refusal({x, scales, zero_points}, [](const auto& v) {
               return dequantize(v[0], {v[1], v[2]});
             }).find("dequantize: takes int8, not float32") != std::string::npos);
}

// No gradient passes through integers or results computed from them.
BOOST_AUTO_TEST_CASE(no_gradient_passes) {
  small_graph g;
  const value x = g.input(random_array(dtype::float32, {4}, 1)), scale = g.input(scalar_of(dtype::float32, 0.5), "s"),
              zero_point = g.input(scalar_of(dtype::int8, 0), "o");
  const value to[] = {x, scale};
  const value q = quantize(x, {scale, zero_point});
  g.output(gradients(reduce_sum(dequantize(q, {g.p.number(0.5, dtype::float32), zero_point}), reduce_attributes{}),
                     view<const value>(to, 1))[0]);
  BOOST_TEST(g.run()[0].values == std::vector<double>(4));
  const auto message =
      message_of([&] { gradients(reduce_sum(dequantize(q, {scale, zero_point}), reduce_attributes{}), to); });
  BOOST_TEST(message.find("dequantize: this operation has no gradient") != std::string::npos, message);
}

BOOST_AUTO_TEST_SUITE_END()
