// Convolution, pooling, resizing and sampling of images, sequences and volumes. Expected numbers were computed by the
// reference implementation of ONNX, version 1.23.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

module lamina;

#include "graph.h"
#include "segments.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using numbers = std::vector<double>;

// Multiples of 1/2 from -2.5 to 2.5.
array data(const shape& s, int seed = 1, double scale = 1) {
  array a{{dtype::float32, s}, {}};
  for (std::int64_t i = 0; i < s.size(); ++i)
    a.values.push_back(static_cast<double>((i * 7 + 3 * seed) % 11 - 5) / 2 * scale);
  return a;
}
array ints(numbers v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return array_of(dtype::int64, {dim(n)}, std::move(v));
}

using one_result = std::function<value(const std::vector<value>&)>;

// Compares with all extents known when the program is built, and with only those of the operands from `fixed` on known.
void check(const std::vector<array>& in, std::size_t fixed, const one_result& build, const array& expected,
           double tolerance = 1e-5) {
  for (bool open : {false, true}) {
    small_graph g;
    std::vector<value> v;
    for (std::size_t i = 0; i < in.size(); ++i) v.push_back(open && i < fixed ? g.open_input(in[i]) : g.input(in[i]));
    g.output(build(v));
    const array y = segment_run(g)()[0];
    BOOST_CHECK_MESSAGE(y.type == expected.type && distance(y, expected) < tolerance,
                        (open ? "open: " : "known: ")
                            << y.shape().string() << ", expected " << expected.shape().string() << ", distance "
                            << distance(y, expected));
  }
}
void check(const std::vector<array>& in, const one_result& build, const shape& s, const numbers& expected,
           double tolerance = 1e-5) {
  check(in, in.size(), build, array_of(in[0].type.element, s, expected), tolerance);
}
array floats(const shape& s, const numbers& v) { return array_of(dtype::float32, s, v); }
array positions_of(const shape& s, const numbers& v) { return array_of(dtype::int64, s, v); }

// The message of a program over one operand.
std::string message(const array& x, const one_result& build) {
  return message_of([&] { result_of({x}, build); });
}
bool says(const std::string& all, std::string_view part) { return all.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(spatial)

struct convolution {
  shape x, w;
  conv_options o;
  shape y;
  numbers expected;
};
BOOST_AUTO_TEST_CASE(convolutions) {
  const convolution all[] = {
      {{1, 2, 6},
       {2, 2, 3},
       {.strides = {2}, .paddings_before = {2}, .paddings_after = {1}, .dilations = {1}, .groups = 1},
       {1, 2, 4},
       {-5, -7, 13, 3, -2, 0.25, 0.25, -4.5}},
      {{1, 2, 6, 1},
       {2, 2, 3, 1},
       {.strides = {2, 1}, .paddings_before = {2, 0}, .paddings_after = {1, 0}, .dilations = {1, 1}, .groups = 1},
       {1, 2, 4, 1},
       {-5, -7, 13, 3, -2, 0.25, 0.25, -4.5}},
      {{1, 2, 4, 4},
       {2, 1, 3, 2},
       {.strides = {1, 2}, .paddings_before = {0, 1}, .paddings_after = {1, 0}, .dilations = {1, 1}, .groups = 2},
       {1, 2, 3, 2},
       {0.75, 7, 0.75, -5.25, 0.75, -1.75, 2.75, -3.5, 4.75, 2, 0.75, -2.25}},
      {{1, 1, 3, 4, 3},
       {2, 1, 2, 2, 2},
       {.strides = {1, 2, 1},
        .paddings_before = {1, 0, 0},
        .paddings_after = {0, 1, 1},
        .dilations = {2, 1, 1},
        .groups = 1},
       {1, 2, 2, 2, 3},
       {-5.25, 1.75, 4,    -1.75, -8.5,  3.75, -5.5, 7.75,  -4.5, -16.75, 7.5,  -4.5,
        -2.75, 0.25, 2.25, -1.25, -9.25, 3.75, -6,   10.25, -2.5, -18.5,  8.75, -4.5}},
  };
  for (const auto& c : all)
    check({data(c.x), data(c.w, 2)}, 1, [&](auto& v) { return conv(v[0], v[1], c.o); }, floats(c.y, c.expected));
  const array x = data({1, 2, 5, 5}), w = data({3, 2, 3, 3}, 2);
  BOOST_TEST(same_bits(
      result_of({x, w},
                [](auto& v) { return conv(v[0], v[1], {.paddings_before = {1, 1}, .paddings_after = {1, 1}}); }),
      result_of({x, w}, [](auto& v) { return value(conv2d(v[0], v[1], {.padding = 1})); })));
  const auto wrong = [](const shape& s, const shape& f, const conv_options& o) {
    return message_of([&] { result_of({data(s), data(f)}, [&](auto& v) { return conv(v[0], v[1], o); }); });
  };
  BOOST_TEST(says(wrong({1, 2, 5}, {2, 2, 3}, {.strides = {1, 1}}),
                  "conv: strides has 2 numbers; expected one for each of the 1 spatial axes"));
  BOOST_TEST(says(wrong({1, 2, 5}, {2, 2, 3, 3}, {}), "conv: filters [2x2x3x3] for [1x2x5]"));
  BOOST_TEST(says(wrong({1, 2}, {2, 2}, {}), "is not [N, C, ...] with 1 to 3 spatial axes"));
  BOOST_TEST(says(wrong({1, 2, 5, 5, 5}, {2, 2, 3, 3, 3}, {.strides = {0, 1, 1}}), "must be positive"));
  BOOST_TEST(says(wrong({1, 2, 5, 5, 5}, {2, 2, 3, 3, 3}, {.paddings_after = {-1, 1, 1}}), "not negative"));
  BOOST_TEST(says(wrong({1, 1, 2000, 1, 1}, {1, 1, 1025, 1, 1}, {}),
                  "conv: the depth of the filters is 1025; at most 1024 is supported"));
}

struct transposed {
  shape x, w;
  conv_transpose_options o;
  shape y;
  numbers expected;
};
BOOST_AUTO_TEST_CASE(transposed_convolutions) {
  const transposed all[] = {
      {{1, 2, 4},
       {2, 1, 3},
       {.strides = {2},
        .paddings_before = {1},
        .paddings_after = {0},
        .output_paddings = {1},
        .dilations = {1},
        .groups = 1},
       {1, 1, 9},
       {-2.5, 2.25, -3.75, 5.25, 3.25, -2.75, -0.75, -0.75, 0}},
      {{1, 2, 2, 3},
       {2, 1, 2, 3},
       {.strides = {2, 1},
        .paddings_before = {0, 1},
        .paddings_after = {1, 1},
        .output_paddings = {0, 0},
        .dilations = {1, 1},
        .groups = 2},
       {1, 2, 3, 3},
       {2.75, -5.5, 4.25, 2, -6.5, 2.75, 3.25, -6, 4, 4.25, -5.5, 2.75, -6.5, 3.25, -0.5, 5.75, -4.5, 3.5}},
      {{1, 1, 2, 2, 2},
       {1, 2, 2, 2, 2},
       {.strides = {2, 1, 2},
        .paddings_before = {0, 0, 0},
        .paddings_after = {0, 0, 0},
        .output_paddings = {1, 0, 0},
        .dilations = {1, 2, 1},
        .groups = 1},
       {1, 2, 5, 4, 4},
       {-0.5, 1.5,  1.25,  -3.75, 0.25,  -0.75, -0.75, 2.25,  -2,   0,    5,     0,     1,     0,     -3,    0,
        2,    -1.5, -5,    3.75,  -1,    0.75,  3,     -2.25, 0.5,  2.5,  -1.25, -6.25, -0.25, -1.25, 0.75,  3.75,
        1,    -3,   0,     0,     -1,    3,     0.75,  -2.25, 4,    0,    0,     0,     -4,    0,     3,     0,
        -4,   3,    0,     0,     4,     -3,    -3,    2.25,  -1,   -5,   0,     0,     1,     5,     -0.75, -3.75,
        0,    0,    0,     0,     0,     0,     0,     0,     0,    0,    0,     0,     0,     0,     0,     0,
        -1,   1,    2.5,   -2.5,  0.5,   -0.5,  -1.5,  1.5,   -2.5, -0.5, 6.25,  1.25,  1.25,  0.25,  -3.75, -0.75,
        1.5,  -2,   -3.75, 5,     -0.75, 1,     2.25,  -3,    0,    2,    0,     -5,    0,     -1,    0,     3,
        2,    -2,   0,     0,     -2,    2,     1.5,   -1.5,  5,    1,    0,     0,     -5,    -1,    3.75,  0.75,
        -3,   4,    0,     0,     3,     -4,    -2.25, 3,     0,    -4,   0,     0,     0,     4,     0,     -3,
        0,    0,    0,     0,     0,     0,     0,     0,     0,    0,    0,     0,     0,     0,     0,     0}},
  };
  for (const auto& c : all)
    check(
        {data(c.x), data(c.w, 2)}, 1, [&](auto& v) { return conv_transpose(v[0], v[1], c.o); },
        floats(c.y, c.expected));
}

// Pools of volumes by images of their frames equal those along one axis after the other.
BOOST_AUTO_TEST_CASE(pools_of_volumes) {
  const pool_options all[] = {
      {.kernel = {2, 2, 2}, .strides = {2, 2, 2}},
      {.kernel = {3, 3, 3}, .strides = {2, 1, 2}, .paddings_before = {1, 1, 1}, .paddings_after = {1, 0, 1}},
      {.kernel = {3, 1, 2}, .dilations = {2, 1, 1}},
      {.kernel = {2, 3, 3}, .paddings_before = {1, 0, 0}, .paddings_after = {0, 0, 0}},
      {.kernel = {1, 2, 2}, .strides = {1, 2, 2}, .ceil_mode = true},
      {.kernel = {2, 2, 2}, .strides = {2, 2, 2}, .ceil_mode = true},
      {.kernel = {2, 3, 3}, .paddings_before = {0, 1, 1}, .paddings_after = {0, 1, 1}, .count_padding = true}};
  array x = random_array(dtype::float32, {2, 3, 6, 7, 5}, 1, -2, 2);
  x.values[40] = std::numeric_limits<double>::quiet_NaN();
  x.values[400] = -std::numeric_limits<double>::infinity();
  for (const auto& o : all) {
    const auto run = [&](auto pool) {
      small_graph g;
      g.output(pool(g.input(x)));
      return g.run({})[0];
    };
    // One axis at a time, the depth as an image of one column.
    const auto apart = [&](auto pool) {
      const auto number = [](const std::vector<std::int64_t>& of, std::size_t i, std::int64_t otherwise) {
        return of.empty() ? otherwise : of[i];
      };
      return run([&](value v) {
        for (const int axis : {2, 3, 4}) {
          const auto i = static_cast<std::size_t>(axis - 2);
          axes order(0, 1, 2, 3, 4);
          std::swap(order.values[axis], order.values[4]);
          const value last = permute(v, order);
          const shape s = last.shape();
          const pool_options one{.kernel = {o.kernel[i]},
                                 .strides = {number(o.strides, i, 1)},
                                 .paddings_before = {number(o.paddings_before, i, 0)},
                                 .paddings_after = {number(o.paddings_after, i, 0)},
                                 .dilations = {number(o.dilations, i, 1)},
                                 .ceil_mode = o.ceil_mode,
                                 .count_padding = o.count_padding};
          const value y = pool(reshape(last, {s.size(0, 3), s.at(3), s.at(4)}), one);
          v = permute(reshape(y, {s[0], s[1], s[2], s[3], y.shape()[2]}), order);
        }
        return v;
      });
    };
    const auto maximum = [&](const value& v, const pool_options& p) -> value { return max_pool(v, p); };
    const auto mean = [&](const value& v, const pool_options& p) -> value { return avg_pool(v, p); };
    const array largest = run([&](const value& v) { return maximum(v, o); }), largest_apart = apart(maximum);
    BOOST_TEST(same_bits(largest, largest_apart));
    const array means = run([&](const value& v) { return mean(v, o); }), means_apart = apart(mean);
    BOOST_REQUIRE_EQUAL(means.values.size(), means_apart.values.size());
    for (std::size_t i = 0; i < means.values.size(); ++i) {
      const double a = means.values[i], b = means_apart.values[i];
      BOOST_TEST((std::abs(a - b) < 1e-5 || a == b || (std::isnan(a) && std::isnan(b))));
    }
  }
}

struct pooling {
  shape x;
  pool_options o;
  shape y;
  numbers mean, largest, indices, column_major;
};
BOOST_AUTO_TEST_CASE(pools) {
  const pooling all[] = {
      {{1, 2, 7},
       {.kernel = {3}, .strides = {2}, .paddings_before = {1}, .paddings_after = {0}, .dilations = {1}},
       {1, 2, 3},
       {0.75, 0.5, 0.1666667, 0.5, -0.6666667, 0.8333333},
       {2.5, 2.5, 2, 1.5, 1, 2.5},
       {1, 1, 4, 7, 10, 12},
       {1, 1, 4, 7, 10, 12}},
      {{1, 1, 7},
       {.kernel = {2},
        .strides = {3},
        .paddings_before = {0},
        .paddings_after = {0},
        .dilations = {1},
        .ceil_mode = true},
       {1, 1, 3},
       {0.75, 0.25, -2},
       {2.5, 2, -2},
       {1, 4, 6},
       {1, 4, 6}},
      {{1, 1, 4, 4},
       {.kernel = {3, 3},
        .strides = {2, 2},
        .paddings_before = {0, 0},
        .paddings_after = {0, 0},
        .dilations = {1, 1},
        .ceil_mode = true},
       {1, 1, 2, 2},
       {0, -0.25, -0.0833333, 0.125},
       {2.5, 1.5, 2.5, 2},
       {1, 7, 12, 15},
       {4, 13, 3, 15}},
      {{1, 1, 5, 4},
       {.kernel = {3, 2},
        .strides = {2, 2},
        .paddings_before = {1, 0},
        .paddings_after = {0, 1},
        .dilations = {1, 1},
        .count_padding = true},
       {1, 1, 2, 2},
       {0.5833333, -0.25, 0.3333333, 0},
       {2.5, 1.5, 2.5, 2},
       {1, 7, 12, 15},
       {5, 16, 3, 18}},
      {{1, 1, 5, 4},
       {.kernel = {3, 2},
        .strides = {2, 3},
        .paddings_before = {0, 0},
        .paddings_after = {1, 1},
        .dilations = {1, 1},
        .ceil_mode = true,
        .count_padding = true},
       {1, 1, 3, 2},
       {0.0833333, -0.1666667, -0.3333333, 0.0833333, -0.5, -0.125},
       {2.5, 1.5, 2.5, 2, 0, -0.5},
       {1, 7, 12, 15, 16, 19},
       {5, 16, 3, 18, 4, 19}},
      {{1, 2, 4, 5},
       {.kernel = {2, 2}, .strides = {1, 2}, .paddings_before = {0, 0}, .paddings_after = {0, 0}, .dilations = {2, 3}},
       {1, 2, 2, 1},
       {-0.25, 0.75, -0.375, -0.75},
       {1, 2, 2.5, 0.5},
       {10, 15, 23, 35},
       {2, 3, 32, 23}},
      {{1, 1, 3, 4, 3},
       {.kernel = {2, 2, 2},
        .strides = {1, 2, 2},
        .paddings_before = {0, 1, 0},
        .paddings_after = {1, 0, 1},
        .dilations = {1, 1, 1}},
       {1, 1, 3, 2, 2},
       {1.125, -0.5, 0.375, -1.25, 0.5, 0.25, -0.25, -0.5, -0.5, 2, -1.25, 1.25},
       {2.5, 0.5, 2, 0, 2.5, 2, 2, 1.5, 0.5, 2, 0, 1.5},
       {1, 2, 4, 5, 12, 26, 15, 29, 24, 26, 27, 29},
       {12, 24, 15, 27, 1, 26, 4, 29, 2, 26, 5, 29}},
      {{2, 1, 4, 4},
       {.kernel = {2, 2}, .strides = {2, 2}, .paddings_before = {0, 0}, .paddings_after = {0, 0}, .dilations = {1, 1}},
       {2, 1, 2, 2},
       {0.875, -0.375, 0, 0.125, -0.875, 0.625, -0.375, -0.25},
       {2.5, 1.5, 2.5, 2, 1, 2.5, 1.5, 2},
       {1, 7, 12, 15, 21, 23, 29, 26},
       {4, 13, 3, 15, 21, 29, 23, 26}},
  };
  for (const auto& c : all) {
    check({data(c.x)}, [&](auto& v) { return avg_pool(v[0], c.o); }, c.y, c.mean);
    check({data(c.x)}, [&](auto& v) { return max_pool(v[0], c.o); }, c.y, c.largest);
    check({data(c.x)}, [&](auto& v) { return max_pool_with_indices(v[0], c.o).values; }, c.y, c.largest);
    check(
        {data(c.x)}, 1, [&](auto& v) { return max_pool_with_indices(v[0], c.o).indices; },
        positions_of(c.y, c.indices));
    check(
        {data(c.x)}, 1, [&](auto& v) { return max_pool_with_indices(v[0], c.o, true).indices; },
        positions_of(c.y, c.column_major));
  }
  check({array_of(dtype::uint8, {1, 1, 4}, {3, 200, 7, 9})},
        [](auto& v) { return max_pool(v[0], {.kernel = {2}, .strides = {2}}); }, {1, 1, 2}, {200, 9});
  check({floats({1, 1, 5}, {std::nan(""), 1, 2, 3, 4})},
        [](auto& v) { return max_pool(v[0], {.kernel = {2}, .strides = {2}, .ceil_mode = true}); }, {1, 1, 3},
        {std::nan(""), 3, 4});
  const auto wrong = [](const shape& s, const pool_options& o) {
    return message(data(s), [&](auto& v) { return max_pool_with_indices(v[0], o).values; });
  };
  BOOST_TEST(says(wrong({1, 1, 4}, {}), "max_pool_with_indices: kernel is empty"));
  BOOST_TEST(says(wrong({1, 1, 4}, {.kernel = {5}}), "the window of 5 is larger than the padded axis of 4"));
  BOOST_TEST(says(wrong({1, 1, 1}, {.kernel = {2}, .paddings_before = {3}, .paddings_after = {3}, .dilations = {5}}),
                  "covers only padding"));
  BOOST_TEST(says(wrong({1, 1, 4}, {.kernel = {0}}), "must be 1 to"));
}

BOOST_AUTO_TEST_CASE(powers_and_whole_maps) {
  const shape y{1, 1, 4, 2};
  const pool_options o{.kernel = {2, 3}, .strides = {1, 2}, .paddings_before = {1, 0}, .paddings_after = {0, 1}};
  const array x = data({1, 1, 4, 5}), maps = data({1, 2, 2, 2}), row = data({1, 1, 5});
  check({x}, [&](auto& v) { return lp_pool(v[0], o, 1); }, y, {4, 4, 7.5, 8.5, 8, 9, 8.5, 8.5});
  check({x}, [&](auto& v) { return lp_pool(v[0], o); }, y,
        {2.7386129, 2.5495098, 3.7080994, 3.9051249, 3.8078866, 4.1833, 4.0311289, 3.9051249});
  check({x}, [&](auto& v) { return lp_pool(v[0], o, 3); }, y,
        {2.558615, 2.2571788, 3.041101, 3.1286623, 3.0723169, 3.3693321, 3.2276573, 3.1286623});
  check({data({1, 1, 4})}, [&](auto& v) { return lp_pool(v[0], {.kernel = {2}}, 1); }, {1, 1, 3}, {3.5, 3, 2});
  check({maps}, [](auto& v) { return global_max_pool(v[0]); }, {1, 2, 1, 1}, {2.5, 2});
  check({maps}, [](auto& v) { return global_avg_pool(v[0]); }, {1, 2, 1, 1}, {0.125, 0.375});
  check({maps}, [](auto& v) { return global_lp_pool(v[0]); }, {1, 2, 1, 1}, {std::sqrt(9.75), std::sqrt(10.25)});
  check({row}, [](auto& v) { return adaptive_avg_pool(v[0], {3}); }, {1, 1, 3}, {0.75, 0.5, 0.25});
  check({row}, [](auto& v) { return adaptive_max_pool(v[0], {3}); }, {1, 1, 3}, {2.5, 2.5, 2});
  check({row}, [](auto& v) { return adaptive_max_pool(v[0], {7}); }, {1, 1, 7}, {-1, 2.5, 2.5, 0.5, 0.5, 2, 2});
  check({data({1, 1, 2, 3})}, [](auto& v) { return adaptive_avg_pool(v[0], {1, 1}); }, {1, 1, 1, 1}, {2.5 / 6});
  BOOST_TEST(says(message(row, [](auto& v) { return adaptive_avg_pool(v[0], {0}); }), "sizes must be positive"));
  BOOST_TEST(says(message(row, [](auto& v) { return lp_pool(v[0], {.kernel = {2}}, 0); }),
                  "p is 0; expected a positive number"));
}

struct resizing {
  shape x;
  resize_options o;
  shape y;
  numbers expected;
};
BOOST_AUTO_TEST_CASE(resizes) {
  const resizing all[] = {
      {{3, 4},
       {.mode = resize_mode::nearest, .coordinates = resize_coordinates::half_pixel, .scales = {0.625, 1.5}},
       {1, 6},
       {-1, -1, 2.5, 0.5, 0.5, -1.5}},
      {{3, 4},
       {.mode = resize_mode::linear, .coordinates = resize_coordinates::half_pixel, .scales = {0.625, 1.5}},
       {1, 6},
       {-0.1, 0.825, 1.4166666, 0.0833333, -0.425, -0.6}},
      {{3, 4},
       {.mode = resize_mode::cubic, .coordinates = resize_coordinates::half_pixel, .scales = {0.625, 1.5}},
       {1, 6},
       {-0.2154917, 1.1497386, 1.7704777, 0.0370569, -0.653926, -0.562725}},
      {{3, 4},
       {.mode = resize_mode::nearest, .coordinates = resize_coordinates::half_pixel_symmetric, .scales = {0.625, 1.5}},
       {1, 6},
       {2, 2, 0, -2, -2, 1.5}},
      {{3, 4},
       {.mode = resize_mode::linear, .coordinates = resize_coordinates::half_pixel_symmetric, .scales = {0.625, 1.5}},
       {1, 6},
       {2, 1, -0.3333333, -1.6666666, -0.25, 1.5}},
      {{3, 4},
       {.mode = resize_mode::cubic, .coordinates = resize_coordinates::half_pixel_symmetric, .scales = {0.625, 1.5}},
       {1, 6},
       {2.1736121, 1.1875, -0.5214115, -2.0515037, -0.4375, 1.8038201}},
      {{3, 4},
       {.mode = resize_mode::nearest, .coordinates = resize_coordinates::pytorch_half_pixel, .scales = {0.625, 1.5}},
       {1, 6},
       {-1, -1, 2.5, 0.5, 0.5, -1.5}},
      {{3, 4},
       {.mode = resize_mode::linear, .coordinates = resize_coordinates::pytorch_half_pixel, .scales = {0.625, 1.5}},
       {1, 6},
       {-1, 0.75, 2.1666667, 0.8333333, -0.5, -1.5}},
      {{3, 4},
       {.mode = resize_mode::cubic, .coordinates = resize_coordinates::pytorch_half_pixel, .scales = {0.625, 1.5}},
       {1, 6},
       {-1.3038194, 0.9375, 2.5515046, 1.021412, -0.6875, -1.6736111}},
      {{3, 4},
       {.mode = resize_mode::nearest, .coordinates = resize_coordinates::align_corners, .scales = {0.625, 1.5}},
       {1, 6},
       {-1, 2.5, 2.5, 0.5, 0.5, -1.5}},
      {{3, 4},
       {.mode = resize_mode::linear, .coordinates = resize_coordinates::align_corners, .scales = {0.625, 1.5}},
       {1, 6},
       {-1, 1.1, 2.0999999, 0.9, -0.3, -1.5}},
      {{3, 4},
       {.mode = resize_mode::cubic, .coordinates = resize_coordinates::align_corners, .scales = {0.625, 1.5}},
       {1, 6},
       {-1, 1.3580003, 2.5319996, 1.1279995, -0.4919997, -1.5}},
      {{3, 4},
       {.mode = resize_mode::nearest, .coordinates = resize_coordinates::asymmetric, .scales = {0.625, 1.5}},
       {1, 6},
       {-1, 2.5, 2.5, 0.5, -1.5, -1.5}},
      {{3, 4},
       {.mode = resize_mode::linear, .coordinates = resize_coordinates::asymmetric, .scales = {0.625, 1.5}},
       {1, 6},
       {-1, 1.3333334, 1.8333334, 0.5, -0.8333333, -1.5}},
      {{3, 4},
       {.mode = resize_mode::cubic, .coordinates = resize_coordinates::asymmetric, .scales = {0.625, 1.5}},
       {1, 6},
       {-1, 1.6203706, 2.3703709, 0.5, -0.981482, -1.7222219}},
      {{5},
       {.mode = resize_mode::nearest,
        .coordinates = resize_coordinates::asymmetric,
        .rounding = nearest_rounding::prefer_floor,
        .scales = {1.75}},
       {8},
       {-1, 2.5, 2.5, 0.5, 0.5, -1.5, -1.5, 2}},
      {{5},
       {.mode = resize_mode::nearest, .rounding = nearest_rounding::prefer_floor, .sizes = {8}},
       {8},
       {-1, -1, 2.5, 0.5, 0.5, -1.5, 2, 2}},
      {{5},
       {.mode = resize_mode::nearest,
        .coordinates = resize_coordinates::asymmetric,
        .rounding = nearest_rounding::prefer_ceil,
        .scales = {1.75}},
       {8},
       {-1, 2.5, 2.5, 0.5, 0.5, -1.5, -1.5, 2}},
      {{5},
       {.mode = resize_mode::nearest, .rounding = nearest_rounding::prefer_ceil, .sizes = {8}},
       {8},
       {-1, -1, 2.5, 0.5, 0.5, -1.5, 2, 2}},
      {{5},
       {.mode = resize_mode::nearest,
        .coordinates = resize_coordinates::asymmetric,
        .rounding = nearest_rounding::floor,
        .scales = {1.75}},
       {8},
       {-1, -1, 2.5, 2.5, 0.5, 0.5, -1.5, 2}},
      {{5},
       {.mode = resize_mode::nearest, .rounding = nearest_rounding::floor, .sizes = {8}},
       {8},
       {-1, -1, 2.5, 2.5, 0.5, 0.5, -1.5, 2}},
      {{5},
       {.mode = resize_mode::nearest,
        .coordinates = resize_coordinates::asymmetric,
        .rounding = nearest_rounding::ceil,
        .scales = {1.75}},
       {8},
       {-1, 2.5, 0.5, 0.5, -1.5, -1.5, 2, 2}},
      {{5},
       {.mode = resize_mode::nearest, .rounding = nearest_rounding::ceil, .sizes = {8}},
       {8},
       {-1, 2.5, 0.5, 0.5, -1.5, -1.5, 2, 2}},
      {{3, 4}, {.mode = resize_mode::linear, .scales = {0.625, 0.5}, .antialias = true}, {1, 2}, {0.59, -0.16}},
      {{3, 4},
       {.mode = resize_mode::linear, .sizes = {2, 7}, .antialias = true},
       {2, 7},
       {-0, 0.5952381, 1.5476191, 0.6666667, -0.3452381, -0.4404762, -0.5, 0.3333333, -0.3809524, -1.5238096,
        -0.8333333, -0.0119048, -0.1071429, -0.1666667}},
      {{3, 4},
       {.mode = resize_mode::linear, .sizes = {2, 3}, .exclude_outside = true, .antialias = true},
       {2, 3},
       {0.55625, 0.5625, -0.39375, -0.1625, -0.84375, -0.08125}},
      {{3, 4}, {.mode = resize_mode::cubic, .scales = {0.625, 0.5}, .antialias = true}, {1, 2}, {0.821861, -0.1780342}},
      {{3, 4},
       {.mode = resize_mode::cubic, .sizes = {2, 7}, .antialias = true},
       {2, 7},
       {-0.0163716, 0.8801811, 1.8701156, 0.8098951, -0.6241975, -0.554046, -0.329653, 0.7606314, -0.3921711,
        -1.8001002, -1.2451158, -0.0638961, 0.0688101, 0.0418743}},
      {{3, 4},
       {.mode = resize_mode::cubic, .sizes = {2, 3}, .exclude_outside = true, .antialias = true},
       {2, 3},
       {0.7864701, 0.6813297, -0.5630817, -0.1556368, -1.123705, 0.1264097}},
      {{3, 4},
       {.mode = resize_mode::cubic, .scales = {0.875, 1.375}, .cubic_coeff_a = -0.5, .exclude_outside = true},
       {2, 5},
       {-1.052586, 1.1779013, 2.1430035, 0.300251, -1.1114218, 1.8747805, 0.4341967, -1.1680046, -1.5639535, 0.74298}},
      {{3, 4},
       {.mode = resize_mode::linear, .coordinates = resize_coordinates::pytorch_half_pixel, .scales = {1.0, 0.25}},
       {3, 1},
       {-1, 2, -0.5}},
      {{3, 4},
       {.mode = resize_mode::nearest,
        .coordinates = resize_coordinates::tf_crop_and_resize,
        .sizes = {3, 3},
        .roi = {0.4, -0.1, 0.6, 1.2},
        .extrapolation_value = 10.0},
       {3, 3},
       {10, -2, 10, 10, -2, 10, 10, -2, 10}},
      {{3, 4},
       {.mode = resize_mode::linear,
        .coordinates = resize_coordinates::tf_crop_and_resize,
        .sizes = {3, 3},
        .roi = {0.4, -0.1, 0.6, 1.2},
        .extrapolation_value = 10.0},
       {3, 3},
       {10, -0.8000002, 10, 10, -1.3000002, 10, 10, -1.085, 10}},
      {{3, 4},
       {.mode = resize_mode::cubic,
        .coordinates = resize_coordinates::tf_crop_and_resize,
        .sizes = {3, 3},
        .roi = {0.4, -0.1, 0.6, 1.2},
        .extrapolation_value = 10.0},
       {3, 3},
       {10, -1.4073365, 10, 10, -1.8417343, 10, 10, -1.8587503, 10}},
      {{3, 4},
       {.mode = resize_mode::linear, .policy = aspect_ratio::not_larger, .sizes = {7, 8}},
       {6, 8},
       {-1,      -0.125,   1.625,   2,        1,        0,        -1,       -1.5,     -0.25,    0.28125,
        1.34375, 1.375,    0.375,   -0.28125, -0.59375, -0.75,    1.25,     1.09375,  0.78125,  0.125,
        -0.875,  -0.84375, 0.21875, 0.75,     1.375,    0.875,    -0.125,   -0.78125, -1.09375, -0.71875,
        0.34375, 0.875,    0.125,   -0.375,   -1.375,   -1.34375, -0.28125, 0.09375,  -0.21875, -0.375,
        -0.5,    -1,       -2,      -1.625,   0.125,    0.5,      -0.5,     -1}},
      {{3, 4},
       {.mode = resize_mode::linear, .policy = aspect_ratio::not_smaller, .sizes = {7, 8}},
       {7, 9},
       {-1,         -0.5,       1,          2.5,        1.6428572,  0.7857143,  -0.0714286, -0.9285714, -1.5,
        -0.5714286, -0.1836735, 0.9795918,  2.1428571,  1.2857143,  0.4285714,  -0.2040816, -0.7244898, -1.0714285,
        0.7142857,  0.7653061,  0.9183673,  1.0714285,  0.2142857,  -0.6428571, -0.6020408, -0.1122449, 0.2142857,
        2,          1.7142857,  0.8571429,  0,          -0.8571429, -1.7142857, -1,         0.5,        1.5,
        0.9285714,  0.6428571,  -0.2142857, -1.0714285, -0.9183673, -0.7653061, -0.3877551, 0.1020408,  0.4285714,
        -0.1428571, -0.4285714, -1.2857143, -2.1428571, -0.9795918, 0.1836735,  0.2244898,  -0.2959184, -0.6428571,
        -0.5,       -0.7857143, -1.6428572, -2.5,       -1,         0.5,        0.4285714,  -0.4285714, -1}},
      {{1, 2, 2, 3},
       {.mode = resize_mode::linear, .sizes = {4, 3}, .axes = {3, 2}},
       {1, 2, 3, 4},
       {-1, 1.1875, 1.75, 0.5,  -1.25, 0.9375,  1.5, 0.25,  -1.5, 0.6875,  1.25, 0,
        -2, 0.1875, 0.75, -0.5, -2.25, -0.0625, 0.5, -0.75, -2.5, -0.3125, 0.25, -1}},
      {{2, 2, 2, 2},
       {.mode = resize_mode::linear, .scales = {1.0, 2.0, 0.5, 1.5}},
       {2, 4, 1, 3},
       {-0.25, 0.125, 0.5,   -0.1875, 0.1875,   0.5625, -0.0625, 0.3125,  0.6875, 0,   0.375, 0.75,
        0.25,  -0.75, -1.75, 0.3125,  -0.34375, -1,     0.4375,  0.46875, 0.5,    0.5, 0.875, 1.25}},

  };
  int number = 0;
  for (const auto& c : all) BOOST_TEST_CONTEXT("case " << number++) {
      check({data(c.x)}, [&](auto& v) { return resize(v[0], c.o); }, c.y, c.expected);
      // Sizes or scales that are computed.
      resize_options rest = c.o;
      rest.sizes.clear(), rest.scales.clear();
      const auto count = static_cast<std::int64_t>(c.o.scales.size());
      const array target = count ? array_of(dtype::float32, {dim(count)}, c.o.scales)
                                 : ints(numbers(c.o.sizes.begin(), c.o.sizes.end()));
      check({data(c.x), target}, 1, [&](auto& v) { return resize(v[0], v[1], rest); }, floats(c.y, c.expected));
      if (c.o.roi.empty()) continue;
      const array region = floats({dim(static_cast<std::int64_t>(c.o.roi.size()))}, c.o.roi);
      rest.roi.clear();
      check(
          {data(c.x), target, region}, 1, [&](auto& v) { return resize(v[0], v[1], v[2], rest); },
          floats(c.y, c.expected));
    }
}
// An axis of 49 elements: 1. / 49 * 49 is not 1.
BOOST_AUTO_TEST_CASE(resizing_to_one_element) {
  for (const std::int64_t n : {5, 48, 49}) {
    std::vector<double> row;
    for (std::int64_t i = 0; i < n; ++i) row.push_back(static_cast<double>(i * i));
    const auto one = [&](resize_coordinates how, resize_mode mode, std::vector<double> roi, double expected) {
      resize_options o{.mode = mode, .coordinates = how, .sizes = {1}, .roi = std::move(roi)};
      check({floats({dim(n)}, row)}, [&](auto& v) { return resize(v[0], o); }, {1}, {expected});
    };
    const double middle = (static_cast<double>(n) - 1) / 2, low = std::floor(middle);
    one(resize_coordinates::tf_crop_and_resize, resize_mode::linear, {0, 1},
        low * low + (middle - low) * (2 * low + 1));
    one(resize_coordinates::pytorch_half_pixel, resize_mode::cubic, {}, 0);
    one(resize_coordinates::pytorch_half_pixel, resize_mode::linear, {}, 0);
    one(resize_coordinates::align_corners, resize_mode::linear, {}, 0);
  }
  check({floats({7}, {1, 4, 9, 16, 25, 36, 49})},
        [](auto& v) {
          return resize(v[0], {.coordinates = resize_coordinates::half_pixel_symmetric,
                               .rounding = nearest_rounding::ceil,
                               .scales = {0.5}});
        },
        {3}, {4, 16, 36});
}
BOOST_AUTO_TEST_CASE(nearest_elements_of_any_type) {
  const array bytes = array_of(dtype::uint8, {1, 1, 2, 2}, {1, 2, 3, 4});
  check({bytes}, [&](auto& v) { return resize(v[0], {.scales = {2, 2}, .axes = {2, 3}}); }, {1, 1, 4, 4},
        {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4});
  check({bytes},
        [](auto& v) {
          return resize(v[0], {.coordinates = resize_coordinates::tf_half_pixel_for_nn,
                               .rounding = nearest_rounding::floor,
                               .sizes = {1, 1, 3, 2}});
        },
        {1, 1, 3, 2}, {1, 2, 3, 4, 3, 4});
  const auto wrong = [](const shape& s, const resize_options& o) {
    return message(data(s), [&](auto& v) { return resize(v[0], o); });
  };
  BOOST_TEST(says(wrong({3}, {}), "resize: either scales or sizes are expected; given [3]"));
  BOOST_TEST(says(wrong({3}, {.scales = {1}, .axes = {1}}), "axes must be distinct axes of the operand"));
  BOOST_TEST(says(wrong({3}, {.sizes = {3, 4}}), "a size or scale for each of the 1 axes"));
  BOOST_TEST(says(wrong({3}, {.sizes = {-3}}), "a size is -3; expected 0 to"));
  BOOST_TEST(says(wrong({3}, {.scales = {0}}), "a scale is 0; expected above 0, up to"));
  BOOST_TEST(says(wrong({0}, {.sizes = {2}}), "an axis without elements cannot be resized"));
  BOOST_TEST(says(wrong({3}, {.sizes = {std::int64_t(1) << 30}}), "too large"));
  BOOST_TEST(says(wrong({3}, {.scales = {2}, .antialias = true}), "antialias needs mode linear or cubic"));
  BOOST_TEST(says(wrong({3}, {.coordinates = resize_coordinates::tf_crop_and_resize, .scales = {2}}), "roi"));
}

BOOST_AUTO_TEST_CASE(borders_and_blocks) {
  const array x = data({2, 4}), row = positions_of({4}, {1, 2, 3, 4});
  const std::pair<border_mode, numbers> modes[] = {
      {border_mode::reflect, {1.5, -2,   0,   2,   0,   -2, 1.5, -2, 0, -1.5, 0.5, 2.5, -1, 2.5,
                              0.5, -1.5, 0.5, 2.5, 1.5, -2, 0,   2,  0, -2,   1.5, -2,  0}},
      {border_mode::edge, {-1,  -1,   -1,   -1,   2.5, 0.5, -1.5, -1.5, -1.5, -1, -1,  -1,  -1, 2.5,
                           0.5, -1.5, -1.5, -1.5, 2,   2,   2,    2,    0,    -2, 1.5, 1.5, 1.5}},
      {border_mode::wrap, {0,   -2,   1.5, 2,   0, -2, 1.5, 2, 0, 2.5, 0.5, -1.5, -1, 2.5,
                           0.5, -1.5, -1,  2.5, 0, -2, 1.5, 2, 0, -2,  1.5, 2,    0}}};
  for (const auto& [m, expected] : modes)
    check(
        {x, ints({1, 3, 0, 2})}, 1, [mode = m](auto& v) { return pad_by(v[0], v[1], {0, 1}, mode); },
        floats({3, 9}, expected));
  const auto along = [](border_mode m) {
    return [m](const std::vector<value>& v) { return pad_by(v[0], v[1], {0}, m); };
  };
  check({row, ints({-1, 2})}, 1, along(border_mode::reflect), positions_of({5}, {2, 3, 4, 3, 2}));
  check({row, ints({9, 0})}, 1, along(border_mode::wrap), positions_of({13}, {4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4}));
  check({row, ints({0, 7})}, 1, along(border_mode::reflect), positions_of({11}, {1, 2, 3, 4, 3, 2, 1, 2, 3, 4, 3}));
  BOOST_TEST(says(message(row,
                          [](auto& v) {
                            return pad_by(v[0], v[0].owner().constant(to_tensor(ints({-3, -2}))), {0},
                                          border_mode::edge);
                          }),
                  "cannot have borders of -3 and -2"));
  check(
      {data({4, 5}), ints({7, 2})}, 1, [](auto& v) { return center_crop_pad(v[0], v[1]); },
      floats({7, 2}, {0, 0, 2.5, 0.5, -2, 1.5, -1, 2.5, 0, -2, 0, 0, 0, 0}));
  check(
      {data({4, 5}), ints({2})}, 1, [](auto& v) { return center_crop_pad(v[0], v[1], {1}); },
      floats({4, 2}, {2.5, 0.5, -2, 1.5, -1, 2.5, 0, -2}));
  check({data({1, 8, 1, 2})}, [](auto& v) { return depth_to_space(v[0], 2); }, {1, 2, 2, 4},
        {-1, 2, 2.5, 0, -0.5, 2.5, -2.5, 0.5, 0.5, -2, -1.5, 1.5, 1, -1.5, -1, 2});
  check({data({1, 8, 1, 2})}, [](auto& v) { return depth_to_space(v[0], 2, true); }, {1, 2, 2, 4},
        {-1, 0.5, 2.5, -1.5, 2, -2, 0, 1.5, -0.5, 1, -2.5, -1, 2.5, -1.5, 0.5, 2});
  const auto shuffled = [](channel_shuffle_attributes a) {
    return [=](auto& v) { return channel_shuffle(view<const value>(v.data(), v.size()), a); };
  };
  const auto ones = [](std::vector<double> numbers) {
    return floats({1, static_cast<std::int64_t>(numbers.size()), 1, 1}, std::move(numbers));
  };
  check({ones({1, 2, 3, 4, 5, 6})}, 1, shuffled({.groups = 2}), ones({1, 4, 2, 5, 3, 6}));
  check({ones({1, 2, 3, 4, 5, 6})}, 1, shuffled({.groups = 3}), ones({1, 3, 5, 2, 4, 6}));
  check({ones({1, 2}), ones({3, 4, 5, 6})}, 1, shuffled({.groups = 2}), ones({1, 4, 2, 5, 3, 6}));
  check({ones({1, 2}), ones({3, 4, 5, 6})}, 1, shuffled({.groups = 2, .start = 1, .count = 3}), ones({4, 2, 5}));
  check({ones({1, 2}), ones({3, 4, 5, 6})}, 1, shuffled({.groups = 1, .start = 4}), ones({5, 6}));
  check({floats({2, 4, 2}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16})}, 1, shuffled({.groups = 2}),
        floats({2, 4, 2}, {1, 2, 5, 6, 3, 4, 7, 8, 9, 10, 13, 14, 11, 12, 15, 16}));
  check({ones({1, 4, 2, 5, 3, 6})}, 1, shuffled({.groups = 2, .inverse = true}), ones({1, 2, 3, 4, 5, 6}));
  BOOST_TEST(says(message(data({1, 8, 1, 2}), [](auto& v) { return channel_shuffle(v[0], 3); }),
                  "8 channels are not a multiple of 3 groups"));
  BOOST_TEST(says(message(data({1, 8, 1, 2}), [](auto& v) { return channel_shuffle(v[0], 0); }),
                  "8 channels are not a multiple of 0 groups"));
  BOOST_TEST(says(message(data({1, 8, 1, 2}), [&](auto& v) { return shuffled({.start = 7, .count = 2})(v); }),
                  "2 channels from 7 do not fit in 8"));
  BOOST_TEST(says(message(data({8}), [](auto& v) { return channel_shuffle(v[0], 2); }), "axis 1 is outside the rank"));
  check({data({1, 2, 2, 4})}, [](auto& v) { return space_to_depth(v[0], 2); }, {1, 8, 1, 2},
        {-1, 0.5, -0.5, 1, 2.5, -1.5, -2.5, -1, 2, -2, 2.5, -1.5, 0, 1.5, 0.5, 2});
  check(
      {data({1, 2, 2, 4})}, [](auto& v) { return depth_to_space(space_to_depth(v[0], 2, true), 2, true); },
      {1, 2, 2, 4}, data({1, 2, 2, 4}).values);
  BOOST_TEST(says(message(data({1, 6, 2, 2}), [](auto& v) { return depth_to_space(v[0], 2); }),
                  "axis 1 does not divide into parts of 4"));
}

BOOST_AUTO_TEST_CASE(elements_put_back) {
  const pool_options o{.kernel = {2, 2}, .strides = {2, 2}};
  const array x = data({1, 1, 4, 4});
  check({x},
        [&](auto& v) {
          const auto p = max_pool_with_indices(v[0], o);
          return max_unpool(p.values, p.indices, o);
        },
        {1, 1, 4, 4}, {0, 2.5, 0, 0, 0, 0, 0, 1.5, 0, 0, 0, 0, 2.5, 0, 0, 2});
  check(
      {x, ints({1, 1, 5, 5})}, 1,
      [&](auto& v) {
        const auto p = max_pool_with_indices(v[0], o);
        return max_unpool(p.values, p.indices, o, v[1]);
      },
      floats({1, 1, 5, 5}, {0, 2.5, 0, 0, 0, 0, 0, 0, 1.5, 0, 0, 0, 0, 0, 0, 2.5, 0, 0, 2, 0, 0, 0, 0, 0, 0}));
  struct blocks {
    std::vector<std::int64_t> image, block;
    conv_options o;
    shape x, y;
    numbers expected;
  };
  const blocks all[] = {
      {{3, 4}, {2, 2}, {.strides = {1, 2}}, {1, 8, 4}, {1, 2, 3, 4}, {-1, 2,    2.5, 0, 0, 0.5,  -4, 2,
                                                                      1,  -1.5, -1,  2, 0, -2.5, -2, 1,
                                                                      2,  -3,   -2,  4, 2, -0.5, 0,  -2.5}},
      {{4, 4},
       {2, 2},
       {.strides = {2, 1}, .paddings_before = {1, 0}, .paddings_after = {0, 1}, .dilations = {1, 2}},
       {1, 8, 6},
       {1, 2, 4, 4},
       {2.5,  0.5, 0,    -0.5, -1.5, 2,  -2.5, 1,   2,  0,   -1, -1,  0, 0, 0, 0,
        -1.5, 2,   -2.5, 1,    0,    -2, 0.5,  2.5, -2, 1.5, 2,  0.5, 0, 0, 0, 0}},
      {{5},
       {3},
       {.paddings_before = {1}, .paddings_after = {1}},
       {1, 6, 5},
       {1, 2, 5},
       {2.5, -0.5, -1, 4, -2, -2.5, -2.5, 2.5, 2, -1.5}}};
  for (const auto& c : all)
    check({data(c.x)}, 0, [&](auto& v) { return col2im(v[0], c.image, c.block, c.o); }, floats(c.y, c.expected));
  const array x8 = data({1, 8, 4});
  check(
      {x8, ints({3, 4}), ints({2, 2})}, 1, [](auto& v) { return col2im(v[0], v[1], v[2], {.strides = {1, 2}}); },
      floats(all[0].y, all[0].expected));
  BOOST_TEST(says(message(data({1, 8, 5}), [](auto& v) { return col2im(v[0], {3, 4}, {2, 2}, {.strides = {1, 2}}); }),
                  "the image has 4 blocks"));
}

BOOST_AUTO_TEST_CASE(normalization) {
  check({data({5, 5, 1, 2})}, [](auto& v) { return lrn(v[0], 4, {.alpha = 0.5, .beta = 0.75, .bias = 2}); },
        {5, 5, 1, 2},
        {-0.4806161, 1.0798986,  0.2111502,  -0.6066189, 0.8639188,  0,          -0.8705901, 0.6479391,  -0.2491545,
         -1.0798986, 0.4191914,  -0.4806161, 1.0479785,  0.2111502,  -0.6066189, 0.8639188,  0,          -0.8705901,
         0.8080934,  -0.2491545, -1.1141832, 0.4191914,  -0.396112,  1.0479785,  0.2111502,  -0.6066189, 0.8705901,
         0,          -0.8773828, 0.8080934,  -0.2228366, -1.1141832, 0.4161353,  -0.396112,  1.0479785,  0.2111502,
         -0.6479391, 0.8705901,  0,          -0.8773828, 0.6287871,  -0.2228366, -1.0403383, 0.4161353,  -0.396112,
         1.0479785,  0.240308,   -0.6479391, 0.996618,   0});
  check({data({2, 2, 1, 3})}, [](auto& v) { return mean_variance_normalization(v[0]); }, {2, 2, 1, 3},
        {-0.7683498, 1.5366997, 0.2195285, -0.7683498, 1.5366997, 0.2195285, -1.4269354, 0.8781141, -0.4390571,
         -1.4269354, 0.8781141, -0.439057});
  BOOST_TEST(says(message(data({1, 2, 2}), [](auto& v) { return lrn(v[0], 0); }), "lrn: size 0 of [1x2x2]"));
}

struct sampling {
  resize_mode mode;
  grid_padding padding;
  bool align_corners;
  numbers expected;
};
// Numbers of cubic polynomials at the border are those of ONNX Runtime 1.32 and PyTorch, which clamp each element;
// the reference clamps the position.
BOOST_AUTO_TEST_CASE(grids) {
  const array x = data({1, 2, 3, 4}),
              grid = floats({1, 2, 3, 2}, {-1.2, -1, -0.3, 0.2, 0.9, 1.1, 0.5, -0.7, 2.6, 0.4, -0.95, -2.2});
  const sampling all[] = {
      {resize_mode::nearest, grid_padding::zeros, false, {0, 0, 0, 0.5, 0, 0, 0, -2, 0, -1.5, 0, 0}},
      {resize_mode::nearest, grid_padding::zeros, true, {-1, 0, -1, 0.5, 0, 0, 2.5, -2, 2.5, -1.5, 0, 0}},
      {resize_mode::nearest, grid_padding::border, false, {-1, 0, -1, 0.5, -1, -1, 2.5, -2, 2.5, -1.5, 2.5, 2.5}},
      {resize_mode::nearest, grid_padding::border, true, {-1, 0, -1, 0.5, 1.5, -1, 2.5, -2, 2.5, -1.5, -0.5, 2.5}},
      {resize_mode::nearest, grid_padding::reflection, false, {-1, 0, -1, 0.5, -0.5, 2, 2.5, -2, 2.5, -1.5, -2.5, 0}},
      {resize_mode::nearest, grid_padding::reflection, true, {-1, 0, -1, 0.5, 0, 2, 2.5, -2, 2.5, -1.5, -2, 0}},
      {resize_mode::linear,
       grid_padding::zeros,
       false,
       {-0.05, -0.5500002, -0.2450001, -0.475, 0, 0, 0.1249999, -1.0649998, 0.6125003, 0.2375, 0, 0}},
      {resize_mode::linear,
       grid_padding::zeros,
       true,
       {-0.6999999, -0.545, -0.6299999, -0.3375, 0, 0, 1.7499998, -1.28, 1.7774999, -0.1375, 0, 0}},
      {resize_mode::linear,
       grid_padding::border,
       false,
       {-1, -0.5500002, -1, -0.5, 2e-07, -1, 2.5, -1.0649998, 2.5, 0.25, 1.2999997, 2.5}},
      {resize_mode::linear,
       grid_padding::border,
       true,
       {-1, -0.545, -0.6999998, -0.3375, 0.5000001, -0.7374999, 2.5, -1.28, 1.9749997, -0.1375, 0.6999999, 2.3499999}},
      {resize_mode::linear,
       grid_padding::reflection,
       false,
       {-1, -0.5500002, -1, -0.5, -0.1000001, 1.2499995, 2.5, -1.0649998, 2.5, 0.25, -1.1099997, -0.7500005}},
      {resize_mode::linear,
       grid_padding::reflection,
       true,
       {0.0500003, -0.545, -0.5325, -0.3375, -0.2000007, 1.3499998, 1.8999999, -1.28, 1.7574999, -0.1375, -0.88,
        -0.5675001}},
      {resize_mode::cubic,
       grid_padding::zeros,
       false,
       {-0.0793555, -0.8406802, -0.4573162, -0.8135489, 0, 0, 0.1284685, -1.524631, 0.8939763, 0.2221926, 0, 0}},
      {resize_mode::cubic,
       grid_padding::zeros,
       true,
       {-1.1068743, -0.8698152, -0.828859, -0.6672408, 0, 0.0796244, 2.0230002, -1.5990456, 2.1945527, -0.2327778, 0,
        -0.2407306}},
      {resize_mode::cubic,
       grid_padding::border,
       false,
       {-1.3083559, -0.7311206, -1.4060094, -0.6959605, 0.1860008, -1.3780003, 2.7478752, -1.5566959, 3.1012435,
        0.0365885, 1.1559993, 2.7160006}},
      {resize_mode::cubic,
       grid_padding::border,
       true,
       {-1.3858737, -0.8115792, -0.7988405, -0.6241831, 0.8540002, -0.7812928, 2.7204986, -1.6238515, 2.159199,
        -0.1801318, 0.393999, 2.3872895}},
      {resize_mode::cubic,
       grid_padding::reflection,
       false,
       {-1.868359, -0.7311206, -1.8893665, -0.6964059, -0.0470274, 2.1023974, 3.1037498, -1.5566959, 3.7109289,
        0.0352242, -1.3539277, -0.8893361}},
      {resize_mode::cubic,
       grid_padding::reflection,
       true,
       {-0.3148745, -0.8661541, -0.7924327, -0.5144871, -0.2840013, 1.7608505, 2.2570014, -1.5528095, 2.2376208,
        -0.3561715, -1.3027116, -0.7623419}},
  };
  int number = 0;
  for (const auto& c : all) BOOST_TEST_CONTEXT("case " << number++)
  check(
      {x, grid}, [&](auto& v) { return grid_sample(v[0], v[1], {c.mode, c.padding, c.align_corners}); }, {1, 2, 2, 3},
      c.expected);
  const array volume = data({1, 1, 2, 3, 2}), places = floats({1, 1, 1, 2, 3}, {-0.9, 0.1, 0.3, 0.8, -1.1, 0.6});
  check({volume, places}, [](auto& v) { return grid_sample(v[0], v[1], {.mode = resize_mode::nearest}); },
        {1, 1, 1, 1, 2}, {-0.5, 0});
  check({volume, places}, [](auto& v) { return grid_sample(v[0], v[1]); }, {1, 1, 1, 1, 2}, {-0.0449999, 0.33075});
  // A NaN position samples nothing.
  const array nowhere = floats({1, 1, 1, 2}, {std::nan(""), 1e30});
  check({x, nowhere}, [](auto& v) { return grid_sample(v[0], v[1], {.mode = resize_mode::nearest}); }, {1, 2, 1, 1},
        {0, 0});
  BOOST_TEST(says(message(x, [](auto& v) { return grid_sample(v[0], v[0]); }), "grid_sample: images or volumes"));
}
BOOST_AUTO_TEST_CASE(affine_grids) {
  const array theta = floats({1, 2, 3}, {1, 0.5, 0.25, -0.5, 1, 0}), size = ints({1, 1, 2, 3});
  check(
      {theta, size}, 1, [](auto& v) { return affine_grid(v[0], v[1]); },
      floats({1, 2, 3, 2}, {-0.6666667, -0.1666667, -0, -0.5, 0.6666667, -0.8333333, -0.1666667, 0.8333333, 0.5, 0.5,
                            1.1666666, 0.1666667}));
  check(
      {theta, size}, 1, [](auto& v) { return affine_grid(v[0], v[1], true); },
      floats({1, 2, 3, 2}, {-1.25, -0.5, -0.25, -1, 0.75, -1.5, -0.25, 1.5, 0.75, 1, 1.75, 0.5}));
  numbers quarters;
  for (int i = 0; i < 12; ++i) quarters.push_back(i / 4.0);
  check(
      {floats({1, 3, 4}, quarters), ints({1, 1, 2, 1, 2})}, 1, [](auto& v) { return affine_grid(v[0], v[1]); },
      floats({1, 2, 1, 2, 3}, {0.5, 0.5, 0.5, 0.5, 1.5, 2.5, 1, 2, 3, 1, 3, 5}));
}

struct regions {
  bool maximum;
  std::int64_t sampling_ratio;
  bool half_pixel;
  numbers expected;
};
BOOST_AUTO_TEST_CASE(regions_of_images) {
  const array x = data({2, 2, 4, 5}), rois = floats({3, 4}, {0.5, 0.25, 3, 2.5, 1, 1, 5.5, 4, -1.5, 0, 2, 2});
  const regions all[] = {
      {false, 0, true, {0.1057129, 1.614502,  -0.645752, -0.8771973, -1.1875,    0.546875,  -0.34375,   1.390625,
                        0.0827026, 0.3392334, 0.5027466, -1.0198975, -0.0234985, 0.6674194, -0.1049805, 0.4160767,
                        -0.5,      0.203125,  -0.1875,   -0.3535156, -1.25,      -1.296875, -0.9375,    -0.671875}},
      {false, 0, false, {-0.2653809, 0.8137207, -1.234375, 1.1875,     1.0625,    0.046875,  -0.1965332, 0.345459,
                         -0.345459,  0.3696289, 0.75,      -0.6914062, 0.3540039, 0.1291504, -0.7070312, 0.9882812,
                         -0.625,     0.4697266, 0.125,     -1.0898438, -2.125,    0.3554688, -1.375,     0.6435547}},
      {false, 2, true, {0.0604858, 1.4645386, -0.4906616, -0.5529175, -1.1367188, 0.5976562, -0.4988403, 1.0663452,
                        0.0827026, 0.3392334, 0.5027466,  -1.0198975, -0.0234985, 0.6674194, -0.1049805, 0.4160767,
                        -0.484375, 0.175293,  -0.1875,    -0.3535156, -1.234375,  -1.265625, -0.9375,    -0.671875}},
      {false, 2, false, {-0.2183838, 0.7875366, -1.0195312, 1.1445312,  0.8476562, 0.0636597, -0.2166748, 0.3259888,
                         -0.345459,  0.3696289, 0.75,       -0.6914062, 0.3540039, 0.1291504, -0.7070312, 0.9882812,
                         -0.625,     0.4697266, 0.125,      -0.9743652, -2.125,    0.3554688, -1.375,     0.5280762}},
      {true, 0, true, {0.7653809, 1.6003418, 0.0402832, 0.4020996, 0.3061523, 0.6401367, 0.6552734, 1.3701172,
                       0.7434082, 1.4443359, 0.7873535, 0.5478516, 1.1682129, 1.451416,  0.5126953, 0.9338379,
                       0,         1.6796875, 0,         0.6298828, 0,         0.671875,  0,         0.8398438}},
      {true, 0, false, {0.8239746, 0.7141113, 0.0708008, 0.8850098, 1.0283203, 0.2666016, 0.9228516, 0.3540039,
                        0.7375488, 1.6650391, 1.4880371, 1.0107422, 2.3840332, 0.7653809, 0.5952148, 1.5441895,
                        0,         1.2939453, 0.125,     0.2255859, 0,         0.6210938, 0,         1.4492188}},
      {true, 2, true, {1.4453125, 2.3828125, 0.3726196, 0.6465454, 0.578125,  0.953125, 0.9665527, 1.5935059,
                       0.7434082, 1.4443359, 0.7873535, 0.5478516, 1.1682129, 1.451416, 0.5126953, 0.9338379,
                       0,         1.6796875, 0,         0.9448242, 0,         0.671875, 0,         1.0917969}},
      {true, 2, false, {1.3864136, 1.2112427, 0.2593994, 1.6342163, 1.5124512, 0.7434082, 1.3972168, 0.6867676,
                        0.7375488, 1.6650391, 1.4880371, 1.0107422, 2.3840332, 0.7653809, 0.5952148, 1.5441895,
                        0,         1.6821289, 0.3125,    0.2416992, 0,         0.9316406, 0,         1.5527344}},
  };
  int number = 0;
  for (const auto& c : all) BOOST_TEST_CONTEXT("case " << number++) {
      const roi_options o{.height = 2,
                          .width = 2,
                          .sampling_ratio = c.sampling_ratio,
                          .spatial_scale = 0.75,
                          .half_pixel = c.half_pixel,
                          .maximum = c.maximum};
      check(
          {x, rois, ints({0, 1, 0})}, [&](auto& v) { return roi_align(v[0], v[1], v[2], o); }, {3, 2, 2, 2},
          c.expected);
    }
}
// Expected numbers are those of ONNX Runtime 1.32.
BOOST_AUTO_TEST_CASE(largest_elements_of_regions) {
  const array x = data({2, 2, 4, 5}),
              rois = floats({4, 5}, {0, 0, 0, 3, 2, 1, 1, 1, 5, 3, 0, 2, 2, 2, 2, 1, -1, 0, 1, 6});
  check({x, rois}, [](auto& v) { return max_roi_pool(v[0], v[1], 2, 2, 0.75); }, {4, 2, 2, 2},
        {2.5, 2.5, 1,   2.5, 2, 2, 2, 2, 0.5, 2,   1.5, 1,   2.5, 0.5, 0,    1.5,
         2.5, 2.5, 2.5, 2.5, 1, 1, 1, 1, 2.5, 2.5, -1,  2.5, 2,   2,   -2.5, 1});
}
BOOST_AUTO_TEST_CASE(deformed_convolutions) {
  array mask = data({1, 4, 2, 3}, 4, 0.5);
  for (double& v : mask.values) v = std::abs(v);
  const array x = data({1, 2, 3, 4});
  check(
      {x, data({1, 8, 2, 3}, 3, 0.25), mask, data({2, 2, 2, 2}, 2)}, 3,
      [](auto& v) { return deform_conv(v[0], v[3], v[1], v[2]); },
      floats({1, 2, 2, 3}, {-0.4404297, -1.1308594, -2.5195312, 0.5078125, -0.7675781, -4.4736328, 2.0791016,
                            -0.6787109, -2.6679688, 0.1572266, -1.5195312, -4.3417969}));
  check(
      {x, data({1, 16, 2, 2}, 3, 0.25), data({2, 1, 2, 2}, 2)}, 2,
      [](auto& v) {
        return deform_conv(v[0], v[2], v[1], {},
                           {.strides = {2, 2}, .paddings_before = {1, 0}, .paddings_after = {0, 0}, .groups = 2}, 2);
      },
      floats({1, 2, 2, 2}, {-2.984375, 1.34375, -1.6875, 0.0703125, -4.921875, 1.4492188, -1.0625, -2.3007812}));
}

BOOST_AUTO_TEST_SUITE_END()
