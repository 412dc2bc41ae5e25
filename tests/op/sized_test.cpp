// Operations with data-dependent result sizes, against plain loops: positions of nonzeros, masks, distinct
// elements, the best k, boxes after suppression.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

import lamina;

#include "graph.h"
#include "segments.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();
const dtype every_type[] = {dtype::float32, dtype::float64, dtype::float16, dtype::bfloat16, dtype::int8,
                            dtype::int16,   dtype::int32,   dtype::int64,   dtype::uint8,    dtype::boolean};
const dtype numbers[] = {dtype::float32, dtype::float64, dtype::int8, dtype::int16,
                         dtype::int32,   dtype::int64,   dtype::uint8};

array ints(std::vector<double> v) {
  const auto n = static_cast<std::int64_t>(v.size());
  return array_of(dtype::int64, {dim(n)}, std::move(v));
}
array count_of(std::int64_t n) { return array_of(dtype::int64, {}, {static_cast<double>(n)}); }

// Whole numbers from a small range, so that there are zeros and ties.
array coarse(dtype element, const shape& s, int seed, double max = 3) {
  array a = random_array(element == dtype::boolean ? dtype::boolean : dtype::float64, s, seed,
                         element == dtype::uint8 || element == dtype::boolean ? 0 : -max, max);
  a.type.element = element;
  if (element != dtype::boolean)
    for (auto& v : a.values) v = std::trunc(v);
  return a;
}

array coordinates(const array& x, bool axis_first) {
  std::vector<std::vector<double>> rows;
  for (std::size_t i = 0; i < x.values.size(); ++i)
    if (x.values[i] != 0) {
      const place p = x.shape().place_of(static_cast<std::int64_t>(i));
      rows.emplace_back();
      for (int k = 0; k < p.rank; ++k) rows.back().push_back(static_cast<double>(p[k]));
    }
  const auto n = static_cast<std::int64_t>(rows.size());
  array r{{dtype::int64, axis_first ? shape{x.shape().rank, dim(n)} : shape{dim(n), x.shape().rank}}, {}};
  if (axis_first)
    for (std::size_t k = 0; k < static_cast<std::size_t>(x.shape().rank); ++k)
      for (const auto& row : rows) r.values.push_back(row[k]);
  else
    for (const auto& row : rows) r.values.insert(r.values.end(), row.begin(), row.end());
  return r;
}

bool before(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }  // NaN above all numbers
bool equal(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

struct distinct {
  array values, indices, inverse, counts;
};
distinct distinct_of(const array& x, bool sorted) {
  std::vector<double> values;
  for (double v : x.values)
    if (std::none_of(values.begin(), values.end(), [&](double w) { return equal(v, w); })) values.push_back(v);
  if (sorted) std::sort(values.begin(), values.end(), before);
  const auto n = static_cast<std::int64_t>(values.size());
  distinct d{{{x.type.element, {dim(n)}}, values}, ints({}), {{dtype::int64, x.shape()}, {}}, ints({})};
  for (double v : values) {
    auto same = [&](double w) { return equal(v, w); };
    d.indices.values.push_back(
        static_cast<double>(std::find_if(x.values.begin(), x.values.end(), same) - x.values.begin()));
    d.counts.values.push_back(static_cast<double>(std::count_if(x.values.begin(), x.values.end(), same)));
  }
  d.indices.type.dims = d.counts.type.dims = {dim(n)};
  for (double v : x.values)
    d.inverse.values.push_back(static_cast<double>(
        std::find_if(values.begin(), values.end(), [&](double w) { return equal(v, w); }) - values.begin()));
  return d;
}

// Equal numbers, where -0 equals 0.
bool same(const array& a, const array& b) {
  return a.type == b.type && std::equal(a.values.begin(), a.values.end(), b.values.begin(), b.values.end(), equal);
}

const shape shapes[] = {{1}, {7}, {0}, {3, 5}, {4, 0, 3}, {2, 1, 6}, {64, 33}, {1, 1, 1, 1}};

std::vector<value> outputs_of(const auto& u) { return {u.values, u.indices, u.inverse, u.counts}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(sized)

BOOST_AUTO_TEST_CASE(positions_that_are_not_zero) {
  int seed = 0;
  for (dtype element : every_type)
    for (const shape& s : shapes) {
      const array x = coarse(element, s, ++seed, 2);
      BOOST_TEST_CONTEXT(to_tensor(x).print()) {
        const auto y = counted_results({x}, [](auto& v) { return std::vector<value>{non_zero(v[0]), argwhere(v[0])}; });
        BOOST_TEST(same(y[0], coordinates(x, true)));
        BOOST_TEST(same(y[1], coordinates(x, false)));
      }
    }
  const array odd = array_of(dtype::float32, {5}, {not_a_number, -0.0, 0.0, -infinity, 1e-45});
  BOOST_TEST(same(counted_results({odd}, [](auto& v) { return std::vector<value>{argwhere(v[0])}; })[0],
                  array_of(dtype::int64, {3, 1}, {0, 3, 4})));
  small_graph g;
  const value scalar = g.input(count_of(1));
  BOOST_TEST(message_of([&] { non_zero(scalar); }) == "non_zero: a scalar has no positions: []");
}

BOOST_AUTO_TEST_CASE(many_positions_are_the_same_on_any_number_of_threads) {
  const array x = coarse(dtype::float32, {37, 100, 211}, 5, 2);
  const auto one = counted_results({x}, [](auto& v) { return std::vector<value>{argwhere(v[0])}; });
  BOOST_TEST(same(one[0], coordinates(x, false)));
  for (int threads : {2, 3, 5})
    BOOST_TEST(same_bits(
        counted_results({x}, [](auto& v) { return std::vector<value>{argwhere(v[0])}; }, threads)[0], one[0]));
}

BOOST_AUTO_TEST_CASE(elements_under_a_mask) {
  int seed = 0;
  for (dtype element : every_type)
    for (const shape& s : shapes) {
      const array x = coarse(element, s, ++seed), mask = coarse(dtype::boolean, s, seed + 100);
      array expected{{element, {0}}, {}};
      for (std::size_t i = 0; i < x.values.size(); ++i)
        if (mask.values[i] != 0) expected.values.push_back(x.values[i]);
      expected.type.dims[0] = dim(expected.values.size());
      for (bool open : {false, true})
        BOOST_TEST(
            same(counted_results(
                     {x, mask}, [](auto& v) { return std::vector<value>{masked_select(v[0], v[1])}; }, 1, open)[0],
                 expected));
    }
  small_graph g;
  const value x = g.input(coarse(dtype::float32, {2, 3}, 1)), m = g.input(coarse(dtype::boolean, {3, 2}, 1));
  BOOST_TEST(message_of([&] { masked_select(x, m); }) ==
             "masked_select: the mask must have the shape of the operand: float32[2x3] bool[3x2]");
  BOOST_TEST(
      message_of([&] { masked_select(x, x); }) ==
      "masked_select: takes a bool mask, not float32; cast first, as in cast<bool>(x): float32[2x3] float32[2x3]");
  BOOST_CHECK_THROW(masked_select(x, x), type_error);
}

BOOST_AUTO_TEST_CASE(slices_under_a_mask) {
  const shape s{4, 5, 6};
  const array x = coarse(dtype::float32, s, 1);
  for (int axis = 0; axis < 3; ++axis)
    for (double density : {0.0, 0.4, 1.0}) {
      array mask = array_of(dtype::boolean, {s[axis]}, {});
      philox stream(7 + axis, 1);
      for (std::int64_t i = 0; i < s.at(axis); ++i)
        mask.values.push_back(stream.uniform<double>(static_cast<std::uint64_t>(i)) < density);
      array expected{{dtype::float32, s}, {}};
      expected.type.dims[axis] = dim(std::count(mask.values.begin(), mask.values.end(), 1.0));
      for (std::size_t i = 0; i < x.values.size(); ++i)
        if (mask.values[static_cast<std::size_t>(s.place_of(static_cast<std::int64_t>(i))[axis])] != 0)
          expected.values.push_back(x.values[i]);
      BOOST_TEST(same_bits(
          counted_results({x, mask}, [&](auto& v) { return std::vector<value>{compress(v[0], v[1], axis)}; })[0],
          expected));
      BOOST_TEST(same_bits(
          counted_results({x, mask}, [&](auto& v) { return std::vector<value>{compress(v[0], v[1], axis - 3)}; })[0],
          expected));
    }
  small_graph g;
  const value v = g.input(x), m = g.input(coarse(dtype::boolean, {3}, 1));
  BOOST_TEST(message_of([&] { compress(v, m, 1); }) ==
             "compress: the mask must have one element for each position of axis 1: float32[4x5x6] bool[3]");
  BOOST_TEST(message_of([&] { compress(v, m, 3); }) == "compress: axis 3 is outside the rank: float32[4x5x6] bool[3]");
}

BOOST_AUTO_TEST_CASE(distinct_elements) {
  int seed = 0;
  for (dtype element : numbers)
    for (const shape& s : shapes)
      for (bool sorted : {true, false}) {
        array x = coarse(element, s, ++seed, 4);
        if (is_floating(element) && x.values.size() > 5)
          x.values[1] = x.values[4] = not_a_number, x.values[2] = -0.0, x.values[3] = infinity, x.values[5] = 0.0;
        const distinct d = distinct_of(x, sorted);
        BOOST_TEST_CONTEXT(to_tensor(x).print()) {
          const auto y = counted_results({x}, [&](auto& v) { return outputs_of(unique(v[0], {.sorted = sorted})); });
          BOOST_TEST(same(y[0], d.values));
          BOOST_TEST(same(y[1], d.indices));
          BOOST_TEST(same(y[2], d.inverse));
          BOOST_TEST(same(y[3], d.counts));
        }
      }
  small_graph g;
  const value truths = g.input(coarse(dtype::boolean, {3}, 1)), scalar = g.input(count_of(1));
  BOOST_TEST(message_of([&] { unique(truths); }) ==
             "unique: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[3]");
  BOOST_TEST(message_of([&] { unique(scalar); }) == "unique: a scalar has no elements to compare: []");
}

BOOST_AUTO_TEST_CASE(the_inverse_gives_the_elements_back) {
  for (const shape& s : {shape{3, 50}, shape{0, 2}, shape{1}}) {
    const array x = coarse(dtype::float32, s, 3, 6);
    const auto y = counted_results({x}, [](auto& v) {
      auto u = unique(v[0]);
      return std::vector<value>{gather(u.values, u.inverse)};
    });
    BOOST_TEST(same(y[0], x));
  }
}

BOOST_AUTO_TEST_CASE(a_k_that_is_computed_is_a_k_that_is_known) {
  int seed = 0;
  for (dtype element : numbers)
    for (int axis : {0, 1, -1})
      for (bool largest : {true, false})
        for (std::int64_t k : {0, 1, 3, 20}) {
          array x = coarse(element, {20, 21, 22}, ++seed);
          if (is_floating(element)) x.values[3] = x.values[100] = not_a_number;
          const auto known = results_of({x}, [&](auto& v) {
            auto [best, at] = top_k(v[0], {.k = k, .axis = axis, .largest = largest});
            return std::vector<value>{best, at};
          });
          const auto y = counted_results({x, count_of(k)}, [&](auto& v) {
            auto [best, at] = top_k(v[0], v[1], {.axis = axis, .largest = largest});
            return std::vector<value>{best, at};
          });
          BOOST_TEST(same_bits(y[0], known[0]));
          BOOST_TEST(same_bits(y[1], known[1]));
        }
}

BOOST_AUTO_TEST_CASE(a_count_outside_of_what_there_is) {
  const array x = coarse(dtype::float32, {4, 5}, 1);
  auto words = [&](std::int64_t k) {
    return message_of([&] {
      counted_results({x, count_of(k)}, [](auto& v) { return std::vector<value>{top_k(v[0], v[1]).values}; });
    });
  };
  BOOST_TEST(words(6) == "top_k: truncate: 6 rows requested; there are 5");
  BOOST_TEST(words(-1) == "top_k: truncate: -1 rows requested; there are 5");
  BOOST_TEST(words(5) == "");
  auto rows = [&](std::int64_t k) {
    counted_results({x, array_of(dtype::int64, {1}, {static_cast<double>(k)})},
                    [](auto& v) { return std::vector<value>{truncate(v[0], v[1])}; });
  };
  BOOST_CHECK_THROW(rows(5), value_error);
  BOOST_TEST(message_of([&] { rows(5); }) == "truncate: 5 rows requested; there are 4");
  rows(4);
  small_graph g;
  const value v = g.input(x), real = g.input(array_of(dtype::float32, {}, {1})), two = g.input(ints({1, 2}));
  BOOST_TEST(
      message_of([&] { top_k(v, real); }) ==
      "top_k: takes an int64 count, not float32; cast first, as in cast<std::int64_t>(x): float32[4x5] float32[]");
  BOOST_TEST(message_of([&] { top_k(v, two); }) == "top_k: the count is not one number: float32[4x5] int64[2]");
  BOOST_TEST(message_of([&] { top_k(v, two[0], {.axis = 2}); }) ==
             "top_k: axis 2 is outside the rank: float32[4x5] int64[]");
  BOOST_TEST(message_of([&] { truncate(two[0], two[0]); }) == "truncate: a scalar has no rows: [] []");
}

namespace {

struct box_set {
  array boxes, scores;
};
box_set random_boxes(std::int64_t images, std::int64_t classes, std::int64_t n, int seed, bool centers) {
  box_set r{random_array(dtype::float32, {images, n, 4}, seed, 0, 10),
            random_array(dtype::float32, {images, classes, n}, seed + 1, 0, 1)};
  for (auto& v : r.boxes.values) v = std::round(v * 4) / 4;  // ties of boxes and scores
  for (auto& v : r.scores.values) v = std::round(v * 8) / 8;
  if (centers)
    for (std::size_t i = 0; i < r.boxes.values.size(); ++i)
      if (i % 4 > 1) r.boxes.values[i] = r.boxes.values[i] / 2;
  return r;
}

double overlap(const double* a, const double* b, bool centers) {
  auto side = [&](const double* box, int k) {
    return centers ? std::pair(box[k] - box[k + 2] / 2, box[k] + box[k + 2] / 2)
                   : std::pair(std::min(box[k], box[k + 2]), std::max(box[k], box[k + 2]));
  };
  double both = 1, one = 1, other = 1;
  for (int k = 0; k < 2; ++k) {
    const auto [al, ah] = side(a, k);
    const auto [bl, bh] = side(b, k);
    both *= std::max(0.0, std::min(ah, bh) - std::max(al, bl));
    one *= ah - al;
    other *= bh - bl;
  }
  return both > 0 ? both / (one + other - both) : 0;
}

// Repeatedly takes the best remaining box and removes those that it overlaps.
array left_of(const box_set& b, const suppression_attributes& a) {
  const std::int64_t images = b.scores.shape().at(0), classes = b.scores.shape().at(1), n = b.scores.shape().at(2);
  array r{{dtype::int64, {0, 3}}, {}};
  for (std::int64_t image = 0; image < images; ++image)
    for (std::int64_t c = 0; c < classes; ++c) {
      const double* scores = b.scores.values.data() + (image * classes + c) * n;
      const double* boxes = b.boxes.values.data() + image * n * 4;
      std::vector<bool> out(static_cast<std::size_t>(n));
      for (std::int64_t taken = 0; a.max_per_class == suppression_attributes::all || taken < a.max_per_class; ++taken) {
        std::int64_t best = -1;
        for (std::int64_t i = 0; i < n; ++i)
          if (!out[static_cast<std::size_t>(i)] && scores[i] > a.score_threshold &&
              (best < 0 || scores[i] > scores[best]))
            best = i;
        if (best < 0) break;
        for (std::int64_t v : {image, c, best}) r.values.push_back(static_cast<double>(v));
        out[static_cast<std::size_t>(best)] = true;
        for (std::int64_t i = 0; i < n; ++i)
          if (overlap(boxes + best * 4, boxes + i * 4, a.centers) > a.iou_threshold)
            out[static_cast<std::size_t>(i)] = true;
      }
    }
  r.type.dims[0] = dim(r.values.size() / 3);
  return r;
}

}  // namespace

BOOST_AUTO_TEST_CASE(boxes_that_are_left) {
  int seed = 0;
  for (auto [images, classes, n] : {std::tuple(1, 1, 40), std::tuple(2, 3, 25), std::tuple(2, 2, 0),
                                    std::tuple(1, 0, 5), std::tuple(3, 1, 1), std::tuple(1, 2, 700)})
    for (bool centers : {false, true})
      for (const suppression_attributes& a :
           {suppression_attributes{}, suppression_attributes{.iou_threshold = 0.1, .score_threshold = 0.25},
            suppression_attributes{.iou_threshold = 0, .max_per_class = 3},
            suppression_attributes{.iou_threshold = 1, .max_per_class = 0},
            suppression_attributes{.iou_threshold = 0.3, .score_threshold = 0.9, .max_per_class = 100}}) {
        auto with = a;
        with.centers = centers;
        const box_set b = random_boxes(images, classes, n, seed += 2, centers);
        const array expected = left_of(b, with);
        BOOST_TEST(same(
            counted_results(
                {b.boxes, b.scores}, [&](auto& v) { return std::vector<value>{non_max_suppression(v[0], v[1], with)}; },
                1, seed % 4 == 0)[0],
            expected));
        if (images != 1 || classes != 1) continue;
        // One image of one class: only boxes.
        array boxes = b.boxes, scores = b.scores, alone{{dtype::int64, {expected.shape()[0]}}, {}};
        boxes.type.dims = {dim(n), 4}, scores.type.dims = {dim(n)};
        for (std::size_t i = 2; i < expected.values.size(); i += 3) alone.values.push_back(expected.values[i]);
        BOOST_TEST(
            same(counted_results({boxes, scores},
                                 [&](auto& v) { return std::vector<value>{non_max_suppression(v[0], v[1], with)}; })[0],
                 alone));
      }
}

BOOST_AUTO_TEST_CASE(boxes_with_nan_and_boxes_without_area) {
  const array boxes =
      array_of(dtype::float64, {5, 4}, {0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 5, 2, 2, 2, 5, 0, not_a_number, 1, 1});
  const array scores = array_of(dtype::float64, {5}, {0.5, not_a_number, 0.5, 0.5, -infinity});
  const auto left = [&](suppression_attributes a) {
    return counted_results({boxes, scores},
                           [&](auto& v) { return std::vector<value>{non_max_suppression(v[0], v[1], a)}; })[0];
  };
  BOOST_TEST(same(left({}), ints({0, 2, 3, 4})));
  BOOST_TEST(same(left({.score_threshold = -1e300}), ints({0, 2, 3})));
  small_graph g;
  const value b = g.input(boxes), s = g.input(scores), wrong = g.input(array_of(dtype::float64, {2}, {1, 2}));
  BOOST_TEST(message_of([&] { non_max_suppression(b, wrong); }) ==
             "non_max_suppression: boxes [N, 4] and scores [N] are expected, or boxes [B, N, 4] and scores [B, C, N]: "
             "[5x4] [2]");
  BOOST_TEST(message_of([&] { non_max_suppression(b, s, {.iou_threshold = 1.5}); }) ==
             "non_max_suppression: iou_threshold is 1.5; expected 0 to 1: [5x4] [5]");
  BOOST_TEST(message_of([&] { non_max_suppression(b, s, {.max_per_class = -2}); }) ==
             "non_max_suppression: -2 is not a valid max_per_class: [5x4] [5]");
}

// Distinct slices of an axis, against comparisons of whole slices.
BOOST_AUTO_TEST_CASE(distinct_slices) {
  for (auto element : numbers)
    for (const auto& s : {shape{7, 2}, shape{3, 6, 2}, shape{2, 2, 9}, shape{5}, shape{1, 4}, shape{0, 3}, shape{4, 0}})
      for (int axis = 0; axis < s.rank; ++axis)
        for (bool sorted : {true, false}) {
          array x = coarse(element, s, 1, 1.5);
          if (element == dtype::float32 && s.size() > 9) x.values[1] = x.values[5] = x.values[7] = not_a_number;
          const std::int64_t n = s.at(axis), inner = s.size(axis + 1, s.rank), outer = s.size(0, axis);
          std::vector<std::vector<double>> slices(static_cast<std::size_t>(n));
          for (std::int64_t k = 0; k < n; ++k)
            for (std::int64_t o = 0; o < outer; ++o)
              for (std::int64_t i = 0; i < inner; ++i)
                slices[static_cast<std::size_t>(k)].push_back(
                    x.values[static_cast<std::size_t>((o * n + k) * inner + i)]);
          const auto less = [](const auto& a, const auto& b) {
            return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), before);
          };
          std::vector<std::size_t> first;
          for (std::size_t k = 0; k < slices.size(); ++k)
            if (std::none_of(first.begin(), first.end(),
                             [&](auto f) { return !less(slices[f], slices[k]) && !less(slices[k], slices[f]); }))
              first.push_back(k);
          if (sorted) std::sort(first.begin(), first.end(), [&](auto a, auto b) { return less(slices[a], slices[b]); });
          std::vector<double> indices, inverse, counts(first.size());
          for (auto f : first) indices.push_back(static_cast<double>(f));
          for (const auto& slice : slices) {
            const auto at = std::find_if(first.begin(), first.end(),
                                         [&](auto f) { return !less(slices[f], slice) && !less(slice, slices[f]); }) -
                            first.begin();
            inverse.push_back(static_cast<double>(at));
            ++counts[static_cast<std::size_t>(at)];
          }
          for (bool open : {false, true}) {
            const auto y = counted_results(
                {x}, [&](auto& v) { return outputs_of(unique_slices(v[0], {axis}, {.sorted = sorted})); }, 1, open);
            BOOST_TEST(y[1].values == indices);
            BOOST_TEST(y[2].values == inverse);
            BOOST_TEST(y[3].values == counts);
            BOOST_TEST(
                same_bits(y[0], result_of({x, ints(indices)}, [&](auto& v) { return gather(v[0], v[1], axis); })));
          }
        }
}

BOOST_AUTO_TEST_CASE(slices_of_a_mask_that_ends_early) {
  const array x = random_array(dtype::float32, {3, 2}, 1), mask = array_of(dtype::boolean, {2}, {0, 1}),
              row = array_of(dtype::boolean, {5}, {0, 1, 0, 0, 1});
  const auto y = counted_results({x, mask, row}, [](auto& v) {
    return std::vector<value>{compress_first(v[0], v[1], 0), compress_first(v[0], v[1], -1),
                              compress_first(v[0], v[2])};
  });
  const auto& d = x.values;
  BOOST_TEST(same_bits(y[0], array_of(dtype::float32, {1, 2}, {d[2], d[3]})));
  BOOST_TEST(same_bits(y[1], array_of(dtype::float32, {3, 1}, {d[1], d[3], d[5]})));
  BOOST_TEST(same_bits(y[2], array_of(dtype::float32, {2}, {d[1], d[4]})));
}

BOOST_AUTO_TEST_CASE(boxes_by_numbers_that_are_computed) {
  const array boxes = random_array(dtype::float32, {2, 30, 4}, 1, 0, 1),
              scores = random_array(dtype::float32, {2, 3, 30}, 2, 0, 1);
  for (std::int64_t max : {0, 1, 4, 100})
    for (double overlap : {0., 0.25, 0.5})
      for (double score : {-infinity, 0.5}) {
        const suppression_attributes with{.iou_threshold = overlap, .score_threshold = score, .max_per_class = max};
        const auto want = counted_results(
            {boxes, scores}, [&](auto& v) { return std::vector<value>{non_max_suppression(v[0], v[1], with)}; });
        const auto got = counted_results(
            {boxes, scores, count_of(max), array_of(dtype::float32, {1}, {overlap}),
             array_of(dtype::float32, {}, {score})},
            [](auto& v) { return std::vector<value>{non_max_suppression(v[0], v[1], v[2], v[3], v[4])}; });
        BOOST_TEST(same_bits(got[0], want[0]));
      }
  const auto none = counted_results(
      {boxes, scores, count_of(-5), array_of(dtype::float32, {1}, {0.5}), array_of(dtype::float32, {}, {0})},
      [](auto& v) { return std::vector<value>{non_max_suppression(v[0], v[1], v[2], v[3], v[4])}; });
  BOOST_TEST((none[0].shape() == shape{0, 3}));
}

BOOST_AUTO_TEST_SUITE_END()
