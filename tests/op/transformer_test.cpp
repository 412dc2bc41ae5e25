// Normalization, attention and rotary positions against plain loops in double.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

array like(const array& a) { return {a.type, std::vector<double>(a.values.size())}; }
std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

// Rows of `length` to mean 0 and variance 1, or to a mean square of 1.
array normalized(const array& x, std::int64_t length, double epsilon, bool centered) {
  array y = like(x);
  for (std::size_t r = 0; r < x.values.size(); r += at(length)) {
    double mean = 0, variance = 0;
    for (std::size_t i = 0; centered && i < at(length); ++i) mean += x.values[r + i] / static_cast<double>(length);
    for (std::size_t i = 0; i < at(length); ++i)
      variance += (x.values[r + i] - mean) * (x.values[r + i] - mean) / static_cast<double>(length);
    for (std::size_t i = 0; i < at(length); ++i)
      y.values[r + i] = (x.values[r + i] - mean) / std::sqrt(variance + epsilon);
  }
  return y;
}
// times weight[(i / inner) % n], plus bias.
array scaled(array x, const array& weight, const array& bias, std::int64_t inner = 1) {
  for (std::size_t i = 0; i < x.values.size(); ++i) {
    const std::size_t k = i / at(inner) % weight.values.size();
    x.values[i] = x.values[i] * weight.values[k] + (bias.values.empty() ? 0 : bias.values[k]);
  }
  return x;
}
void near(const std::string& name, const array& got, const array& want) {
  const double tolerance = want.type.element == dtype::float32 ? 3e-6 : 1e-13;
  BOOST_CHECK_MESSAGE((got.type == want.type), name << ": " << got.shape().string());
  BOOST_CHECK_MESSAGE(distance(got, want) <= tolerance,
                      name << " of " << want.shape().string() << ": " << distance(got, want));
}

struct options {
  bool causal = false;
  double scale = 0;
};
// q [B, H, T, D], k [B, G, S, D], v [B, G, S, E], mask with any extents of 1, or nothing.
array attended(const array& q, const array& k, const array& v, const array* mask, options o) {
  const shape &s = q.shape(), &ks = k.shape();
  const std::int64_t heads = s.at(1), queries = s.at(2), depth = s.at(3), keys = ks.at(2), width = v.shape().at(3),
                     groups = ks.at(1);
  const double scale = o.scale != 0 ? o.scale : 1 / std::sqrt(static_cast<double>(depth));
  array y{{q.type.element, {s[0], s[1], s[2], v.shape()[3]}}, {}};
  for (std::int64_t b = 0; b < s.at(0); ++b)
    for (std::int64_t h = 0; h < heads; ++h)
      for (std::int64_t t = 0; t < queries; ++t) {
        const std::int64_t g = b * groups + h / (heads / groups);
        std::vector<double> score;
        for (std::int64_t j = 0; j < keys; ++j) {
          double sum = 0;
          for (std::int64_t d = 0; d < depth; ++d)
            sum += q.values[at(((b * heads + h) * queries + t) * depth + d)] * k.values[at((g * keys + j) * depth + d)];
          sum *= scale;
          if (mask) {
            const std::int64_t place[] = {b, h, t, j};
            std::int64_t where = 0;
            for (int a = 0; a < mask->shape().rank; ++a) {
              const int axis = a + 4 - mask->shape().rank;
              where = where * mask->shape().at(a) + (mask->shape().at(a) == 1 ? 0 : place[axis]);
            }
            const double m = mask->values[at(where)];
            if (mask->type.element == dtype::boolean) sum = m != 0 ? sum : -infinity;
            else sum += m;
          }
          if (o.causal && j > t + keys - queries) sum = -infinity;
          score.push_back(sum);
        }
        const double top = score.empty() ? -infinity : *std::max_element(score.begin(), score.end());
        double total = 0;
        for (double& x : score) total += x = top == -infinity ? 0 : std::exp(x - top);
        for (std::int64_t e = 0; e < width; ++e) {
          double sum = 0;
          for (std::int64_t j = 0; j < keys; ++j)
            sum += total == 0 ? 0 : score[at(j)] / total * v.values[at((g * keys + j) * width + e)];
          y.values.push_back(sum);
        }
      }
  return y;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transformers)

BOOST_AUTO_TEST_CASE(rows_are_normalized) {
  for (auto element : {dtype::float32, dtype::float64})
    for (const auto& s : {shape{3, 5}, shape{1}, shape{2, 3, 16}, shape{4, 64}, shape{3, 100}, shape{2, 1000},
                          shape{1, 9000}, shape{0, 4}, shape{7, 1}}) {
      const std::int64_t n = s.back().code;
      const array x = random_array(element, s, 1, -1, 4), w = random_array(element, {n}, 2),
                  b = random_array(element, {n}, 3), none{};
      auto r = results_of({x, w, b}, [](const auto& v) {
        return std::vector<value>{layer_norm(v[0]), layer_norm(v[0], v[1]),
                                  layer_norm(v[0], v[1], v[2], {.epsilon = 0.1}), rms_norm(v[0]),
                                  rms_norm(v[0], v[1], {.epsilon = 0.1})};
      });
      const array one{{element, {n}}, std::vector<double>(at(n), 1.0)};
      near("layer_norm", r[0], normalized(x, n, 1e-5, true));
      near("layer_norm, weight", r[1], scaled(normalized(x, n, 1e-5, true), w, none));
      near("layer_norm, weight and bias", r[2], scaled(normalized(x, n, 0.1, true), w, b));
      near("rms_norm", r[3], normalized(x, n, 1e-5, false));
      near("rms_norm, weight", r[4], scaled(normalized(x, n, 0.1, false), w, none));
    }
}

BOOST_AUTO_TEST_CASE(rows_of_several_axes) {
  const array x = random_array(dtype::float64, {2, 3, 4, 5}, 1), w = random_array(dtype::float64, {4, 5}, 2),
              b = random_array(dtype::float64, {4, 5}, 3);
  auto r = results_of({x, w, b}, [](const auto& v) {
    return std::vector<value>{layer_norm(v[0], v[1], v[2]), layer_norm(v[0], {.axes = 3}), rms_norm(v[0], v[1])};
  });
  near("two axes", r[0], scaled(normalized(x, 20, 1e-5, true), w, b));
  near("three axes", r[1], normalized(x, 60, 1e-5, true));
  near("root mean square of two axes", r[2], scaled(normalized(x, 20, 1e-5, false), w, array{}));
}

// The variance is computed from deviations: a large mean costs none of its digits.
BOOST_AUTO_TEST_CASE(a_large_mean) {
  array x = random_array(dtype::float32, {2, 700}, 1, -1, 1);
  for (double& v : x.values) v = static_cast<double>(static_cast<float>(v + 4096));
  const array got = result_of({x}, [](const auto& v) { return value(layer_norm(v[0])); }),
              want = normalized(x, 700, 1e-5, true);
  BOOST_TEST(distance(got, want) < 2e-3);  // half a unit of 4096 against a deviation of 0.6
}

BOOST_AUTO_TEST_CASE(groups_and_channels) {
  for (const auto& s : {shape{2, 6, 3, 5}, shape{1, 6, 7}, shape{3, 6, 1, 1}, shape{2, 6, 2, 2, 3}, shape{0, 6, 2},
                        shape{2, 6, 40, 40}}) {
    const std::int64_t inner = s.size(2, s.rank);
    const array x = random_array(dtype::float64, s, 1, -1, 4), w = random_array(dtype::float64, {6}, 2),
                b = random_array(dtype::float64, {6}, 3);
    auto r = results_of({x, w, b}, [](const auto& v) {
      return std::vector<value>{group_norm(v[0], v[1], v[2], {.num_groups = 3}),
                                group_norm(v[0], {.num_groups = 2, .epsilon = 0.1}), instance_norm(v[0], v[1], v[2]),
                                instance_norm(v[0]), group_norm<3>(v[0], v[1], v[2])};
    });
    near("group_norm", r[0], scaled(normalized(x, 2 * inner, 1e-5, true), w, b, inner));
    near("group_norm, no weight", r[1], normalized(x, 3 * inner, 0.1, true));
    near("instance_norm", r[2], scaled(normalized(x, inner, 1e-5, true), w, b, inner));
    near("instance_norm, no weight", r[3], normalized(x, inner, 1e-5, true));
    BOOST_TEST(same_bits(r[4], r[0]));
  }
}

BOOST_AUTO_TEST_CASE(attention_against_loops) {
  struct problem {
    std::int64_t batch, heads, groups, queries, keys, depth, width;
  };
  for (const auto& p : {problem{1, 1, 1, 1, 1, 1, 1},
                        {2, 3, 3, 5, 5, 4, 4},
                        {1, 4, 2, 7, 9, 8, 3},
                        {2, 4, 1, 40, 33, 16, 16},
                        {1, 2, 2, 70, 70, 32, 32},
                        {1, 1, 1, 3, 200, 5, 7},
                        {1, 2, 1, 9, 4, 3, 2},
                        {0, 2, 2, 4, 4, 3, 3},
                        {1, 2, 2, 0, 4, 3, 3},
                        {1, 1, 1, 3, 0, 2, 2}})
    for (auto element : {dtype::float32, dtype::float64}) {
      const array q = random_array(element, {p.batch, p.heads, p.queries, p.depth}, 1),
                  k = random_array(element, {p.batch, p.groups, p.keys, p.depth}, 2),
                  v = random_array(element, {p.batch, p.groups, p.keys, p.width}, 3);
      for (const options o : {options{}, {true, 0}, {false, 0.3}}) {
        const attention_attributes a{.causal = o.causal, .scale = o.scale};
        near("attention", result_of({q, k, v}, [&](const auto& x) { return value(attention(x[0], x[1], x[2], a)); }),
             attended(q, k, v, nullptr, o));
        for (const auto& m : {shape{p.queries, p.keys}, shape{p.keys}, shape{p.batch, 1, 1, p.keys},
                              shape{p.heads, p.queries, p.keys}, shape{p.queries, 1}})
          for (auto kind : {element, dtype::boolean}) {
            const array mask = random_array(kind, m, 4);
            near("attention under a mask",
                 result_of({q, k, v, mask}, [&](const auto& x) { return value(attention(x[0], x[1], x[2], x[3], a)); }),
                 attended(q, k, v, &mask, o));
          }
      }
    }
}

BOOST_AUTO_TEST_CASE(a_query_that_sees_nothing_gives_zeros) {
  const array q = random_array(dtype::float32, {2, 3, 4}, 1), k = random_array(dtype::float32, {2, 5, 4}, 2),
              v = random_array(dtype::float32, {2, 5, 4}, 3);
  const array hidden = array_of(dtype::boolean, {3, 1}, {1, 0, 1}),
              minus = array_of(dtype::float32, {3, 1}, {0, -infinity, 1});
  for (const array& mask : {hidden, minus}) {
    const array y = result_of({q, k, v, mask}, [](const auto& x) { return value(attention(x[0], x[1], x[2], x[3])); });
    for (std::size_t i = 0; i < y.values.size(); ++i) BOOST_TEST((y.values[i] == 0) == (i / 4 % 3 == 1));
  }
  // more queries than keys: the causal mask hides all keys from the first ones
  const array early =
      result_of({k, q, q}, [](const auto& x) { return value(attention(x[0], x[1], x[2], {.causal = true})); });
  for (std::size_t i = 0; i < early.values.size(); ++i) BOOST_TEST((early.values[i] == 0) == (i / 4 % 5 < 2));
}

// Large scores overflow nothing, and the bits of a row do not depend on other rows.
BOOST_AUTO_TEST_CASE(attention_is_safe_and_row_by_row) {
  const array q = random_array(dtype::float32, {1, 90, 8}, 1, -60, 60),
              k = random_array(dtype::float32, {1, 50, 8}, 2, -60, 60), v = random_array(dtype::float32, {1, 50, 8}, 3);
  array alone = q;
  alone.type.dims = {1, 1, 8};
  alone.values.assign(q.values.begin() + 77 * 8, q.values.begin() + 78 * 8);
  const auto run = [&](const array& queries) {
    return result_of({queries, k, v}, [](const auto& x) { return value(attention(x[0], x[1], x[2], {.scale = 1})); });
  };
  const array all = run(q), one = run(alone);
  for (double y : all.values) BOOST_TEST(std::isfinite(y));
  for (std::size_t i = 0; i < 8; ++i) BOOST_TEST(all.values[77 * 8 + i] == one.values[i]);
}

// The cached keys and the block after them are the keys of causal attention over both.
BOOST_AUTO_TEST_CASE(attention_to_what_is_remembered) {
  struct problem {
    std::int64_t batch, heads, groups, block, depth, width, seen, room;
  };
  for (const auto& p : {problem{1, 1, 1, 1, 1, 1, 0, 0},
                        {1, 1, 1, 1, 1, 1, 1, 1},
                        {2, 4, 2, 1, 8, 5, 7, 9},
                        {1, 6, 2, 3, 16, 16, 40, 64},
                        {1, 3, 3, 5, 4, 7, 0, 6},
                        {1, 8, 1, 20, 8, 8, 33, 50},
                        {1, 2, 2, 70, 32, 16, 10, 10},
                        {1, 4, 1, 1, 64, 64, 900, 1000},
                        {0, 2, 2, 4, 3, 3, 1, 2},
                        {1, 2, 2, 0, 3, 3, 1, 2}})
    for (auto element : {dtype::float32, dtype::float64})
      for (double scale : {0.0, 0.3}) {
        const array q = random_array(element, {p.batch, p.heads, p.block, p.depth}, 1),
                    k = random_array(element, {p.batch, p.groups, p.block, p.depth}, 2),
                    v = random_array(element, {p.batch, p.groups, p.block, p.width}, 3),
                    keys = random_array(element, {p.batch, p.groups, p.room, p.depth}, 4),
                    values = random_array(element, {p.batch, p.groups, p.room, p.width}, 5),
                    count = array_of(dtype::int64, {1}, {static_cast<double>(p.seen)});
        auto r = results_of({q, k, v, keys, values, count}, [&](const auto& x) {
          const auto behind = [&](const value& memory, const value& block) {
            const value parts[] = {slice(memory, {.stop = p.seen, .axis = 2}), block};
            return value(apply_all<op::concat>({2}, view<const value>(parts, 2)));
          };
          return std::vector<value>{
              cached_attention(x[0], x[1], x[2], x[3], x[4], x[5], {.scale = scale}),
              attention(x[0], behind(x[3], x[1]), behind(x[4], x[2]), {.causal = true, .scale = scale})};
        });
        near("cached_attention", r[0], r[1]);
      }
}
BOOST_AUTO_TEST_CASE(a_count_of_what_is_remembered_that_cannot_be) {
  const array x = random_array(dtype::float32, {1, 2, 1, 4}, 1), memory = random_array(dtype::float32, {1, 2, 3, 4}, 2);
  for (double count : {-1.0, 4.0})
    BOOST_TEST(message_of([&] {
                 result_of({x, memory, array_of(dtype::int64, {1}, {count})},
                           [](const auto& v) { return value(cached_attention(v[0], v[0], v[0], v[1], v[1], v[2])); });
               }) == "cached_attention: a count of earlier positions is outside 0..3: " +
                         std::to_string(static_cast<int>(count)) + " at [0] (1 in total)");
}

BOOST_AUTO_TEST_CASE(positions_along_an_axis) {
  for (const auto& s : {shape{1}, shape{0}, shape{2, 3}, shape{4, 1, 70}, shape{0, 5}})
    for (int axis = 0; axis < s.rank; ++axis) {
      const array got = result_of({random_array(dtype::float32, s, 1)},
                                  [&](const auto& v) { return value(positions(v[0], axis - (axis % 2) * s.rank)); });
      BOOST_TEST(got.values.size() == at(s.at(axis)));
      for (std::size_t i = 0; i < got.values.size(); ++i) BOOST_TEST(got.values[i] == static_cast<double>(i));
    }
}

BOOST_AUTO_TEST_CASE(rotary_positions) {
  for (auto element : {dtype::float32, dtype::float64})
    for (const auto& s : {shape{5, 4}, shape{2, 3, 2}, shape{2, 4, 6, 64}, shape{3, 0, 8}, shape{1, 1, 2}})
      for (bool interleaved : {false, true})
        for (bool each : {false, true}) {
          const std::int64_t length = s.at(s.rank - 2), depth = s.back().code, half = depth / 2;
          shape rows = s;
          --rows.rank;
          const array x = random_array(element, s, 1),
                      positions = random_array(dtype::int64, each ? rows : shape{length}, 2, 0, 900);
          array want = like(x);
          for (std::int64_t r = 0; r < s.size(0, s.rank - 1); ++r)
            for (std::int64_t i = 0; i < half; ++i) {
              const double angle = positions.values[at(each ? r : r % length)] *
                                   std::pow(500.0, -2.0 * static_cast<double>(i) / static_cast<double>(depth));
              const auto a = at(r * depth + (interleaved ? 2 * i : i)),
                         b = at(r * depth + (interleaved ? 2 * i + 1 : half + i));
              want.values[a] = x.values[a] * std::cos(angle) - x.values[b] * std::sin(angle);
              want.values[b] = x.values[a] * std::sin(angle) + x.values[b] * std::cos(angle);
            }
          near("rope",
               result_of(
                   {x, positions},
                   [&](const auto& v) { return value(rope(v[0], v[1], {.base = 500, .interleaved = interleaved})); }),
               want);
        }
}

// Against the formula in elementwise operations, with tables that repeat along heads before and after positions.
BOOST_AUTO_TEST_CASE(rotary_positions_by_tables) {
  struct sizes {
    shape x, table;
  };
  const sizes all[] = {{{5, 4}, {5, 4}},
                       {{2, 3, 5, 64}, {5, 64}},
                       {{2, 3, 5, 6}, {2, 1, 5, 6}},
                       {{2, 5, 3, 6}, {1, 5, 1, 6}},
                       {{2, 5, 3, 34}, {2, 5, 1, 34}},
                       {{3, 0, 8}, {1, 8}},
                       {{70, 4, 130}, {4, 130}}};
  for (const auto element : {dtype::float32, dtype::float64})
    for (const auto& [s, table] : all)
      for (const bool interleaved : {false, true}) {
        const std::vector<array> in{random_array(element, s, 1), random_array(element, table, 2),
                                    random_array(element, table, 3)};
        const std::int64_t depth = s.back().code, half = depth / 2;
        array turned = in[0];
        for (std::int64_t r = 0; r < s.size(0, s.rank - 1); ++r)
          for (std::int64_t i = 0; i < half; ++i) {
            const auto a = at(r * depth + (interleaved ? 2 * i : i)),
                       b = at(r * depth + (interleaved ? 2 * i + 1 : half + i));
            turned.values[a] = -in[0].values[b], turned.values[b] = in[0].values[a];
          }
        const array want =
            result_of({in[0], in[1], in[2], turned}, [](const auto& v) { return value(v[0] * v[1] + v[3] * v[2]); });
        near("rotary_embedding",
             result_of(in, [&](const auto& v) { return value(rotary_embedding(v[0], v[1], v[2], {interleaved})); }),
             want);
      }
  BOOST_TEST(message_of([] {
               result_of({random_array(dtype::float32, {2, 3, 4}, 1), random_array(dtype::float32, {2, 4}, 1),
                          random_array(dtype::float32, {2, 4}, 1)},
                         [](const auto& v) { return value(rotary_embedding(v[0], v[1], v[2])); });
             }).find("cosines and sines must broadcast to the operand and have its depth") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(typed_values) {
  matrix<float> x{{1, 2, 3, 5}, {-1, 0, 4, 2}};
  vector<float> w{1, 2, 0.5f, 1}, b{0, 1, 0, -1};
  vector<std::int64_t> positions{3, 4};
  const array ax = from_tensor(any_tensor(x)), aw = from_tensor(any_tensor(w)), ab = from_tensor(any_tensor(b)),
              ap = from_tensor(any_tensor(positions));
  const auto same = [&](const auto& typed, const std::function<value(const std::vector<value>&)>& f) {
    BOOST_TEST(same_bits(from_tensor(any_tensor(evaluate(typed))), result_of({ax, aw, ab, ap}, f)));
  };
  same(layer_norm(x, w, b), [](const auto& v) { return value(layer_norm(v[0], v[1], v[2])); });
  same(rms_norm(x, w, {.epsilon = 0.5}), [](const auto& v) { return value(rms_norm(v[0], v[1], {.epsilon = 0.5})); });
  same(attention(x, x, x, {.causal = true}),
       [](const auto& v) { return value(attention(v[0], v[0], v[0], {.causal = true})); });
  same(cached_attention(x, x, x, x, x, vector<std::int64_t>{1}), [](const auto& v) {
    return value(
        cached_attention(v[0], v[0], v[0], v[0], v[0], reshape(slice(v[3], {.stop = 1, .axis = 0}) - 2, shape{1})));
  });
  same(rope(x, lamina::positions<0>(x) + 3),
       [](const auto& v) { return value(rope(v[0], lamina::positions(v[0], 0) + 3)); });
  same(rope(x, positions), [](const auto& v) { return value(rope(v[0], v[3])); });
  tensor<float, extents<dyn, 4, 3>> maps(2, 4, 3);
  for (std::int64_t i = 0; i < 24; ++i) maps.writable(i / 12, i / 3 % 4, i % 3) = static_cast<float>(i * i % 7);
  const auto of_rank = any_tensor(maps).as<float, extents<dyn, dyn, dyn>>();
  BOOST_TEST(same_bits(from_tensor(any_tensor(evaluate(group_norm<2>(of_rank, w, b)))),
                       from_tensor(any_tensor(evaluate(group_norm<2>(maps, w, b))))));
  BOOST_TEST(same_bits(from_tensor(any_tensor(evaluate(group_norm<2>(maps, w, b)))),
                       result_of({from_tensor(any_tensor(maps)), aw, ab}, [](const auto& v) {
                         return value(group_norm(v[0], v[1], v[2], {.num_groups = 2}));
                       })));
  BOOST_TEST(same_bits(from_tensor(any_tensor(evaluate(instance_norm(maps, w, b)))),
                       result_of({from_tensor(any_tensor(maps)), aw, ab},
                                 [](const auto& v) { return value(instance_norm(v[0], v[1], v[2])); })));
}

BOOST_AUTO_TEST_CASE(mismatches_in_words) {
  program p;
  const auto real = [&](const shape& s) { return p.input("x", {dtype::float32, s}); };
  const auto says = [&](const std::function<void()>& f, const char* words) { BOOST_TEST(message_of(f) == words); };
  says([&] { layer_norm(real({2, 3}), real({4})); },
       "layer_norm: the weight and bias must have the shape of the last axes: [2x3] [4]");
  says([&] { rms_norm(real({2, 3}), {.axes = 3}); }, "rms_norm: cannot normalize 3 axes of this rank: [2x3]");
  says([&] { attention(real({2, 3}), real({2, 4}), real({2, 4})); },
       "attention: queries and keys differ in depth: [2x3] [2x4] [2x4]");
  says([&] { attention(real({3, 2, 4}), real({2, 2, 4}), real({2, 2, 4})); },
       "attention: query heads are not a multiple of key and value heads: [3x2x4] [2x2x4] [2x2x4]");
  says([&] { attention(real({2, 4}), real({3, 4}), real({3, 4}), real({4, 3})); },
       "attention: the mask does not broadcast to the scores [2x3]: [2x4] [3x4] [3x4] [4x3]");
  const auto count = p.input("count", {dtype::int64, {1}});
  says([&] { cached_attention(real({2, 4}), real({1, 4}), real({1, 4}), real({9, 4}), real({9, 4}), count); },
       "cached_attention: queries and keys differ in number: float32[2x4] float32[1x4] float32[1x4] "
       "float32[9x4] float32[9x4] int64[1]");
  says([&] { cached_attention(real({2, 4}), real({2, 4}), real({2, 4}), real({9, 4}), real({8, 4}), count); },
       "cached_attention: the cache must have the shape of keys and values except for the number of positions: "
       "float32[2x4] float32[2x4] float32[2x4] float32[9x4] float32[8x4] int64[1]");
  says([&] { positions(real({2, 4}), 2); }, "positions: axis 2 is outside the rank: [2x4]");
  says([&] { rope(real({2, 3}), p.input("p", {dtype::int64, {2}})); },
       "rope: a depth of 3 is odd: float32[2x3] int64[2]");
}

BOOST_AUTO_TEST_SUITE_END()
