// Gradients of parts, tiles, contractions, gathers, cumulative sums and products.
#include <boost/test/unit_test.hpp>

#include <cmath>
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

const std::vector<shape> shapes{{1}, {6}, {2, 3}, {3, 1, 4}, {0, 3}, {2, 0}, {1, 1}};
array positions(const shape& s, int seed, std::int64_t length) {
  return random_array(dtype::int64, s, seed, -static_cast<double>(length), static_cast<double>(length));
}

void both(std::string_view name, const array& x, const std::function<value(const value&)>& f) {
  check_twice(name, {x}, [&](const values& v) { return values{f(v[0])}; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_indexing)

BOOST_AUTO_TEST_CASE(parts) {
  for (const auto& s : shapes)
    for (int axis = 0; axis < s.rank; ++axis) {
      both("unsqueeze", real(s, 1), [&](const value& x) { return unsqueeze(x, axes(axis)); });
      if (s.at(axis)) {
        both("select", real(s, 1), [&](const value& x) { return select(x, axis, -1); });
        both("select", real(s, 1), [&](const value& x) { return select(x, axis, s.at(axis) / 2); });
      }
      if (s.at(axis) % 2 == 0)
        both("split", real(s, 1), [&](const value& x) {
          auto p = split(x, 2, axis);
          return value(p[0] * p[1] * p[1]);
        });
      both("stack", real(s, 1), [&](const value& x) {
        const value two[] = {x, sin(x)};
        return stack(two, axis);
      });
    }
  for (const auto& s : {shape{3, 2}, shape{3}, shape{3, 0}, shape{3, 1, 2}, shape{3, 3}})
    both("split", real(s, 1), [](const value& x) {
      auto p = split(x, {1, 2}, 0);
      return value(square(p[0]) + sin(p[1]));
    });
  for (const auto& s : {shape{2, 3, 4}, shape{1, 3, 2}, shape{3, 1, 1}, shape{2, 0, 3}, shape{1, 1, 1}})
    both("permute_inverse", real(s, 1), [](const value& x) { return permute_inverse(x, axes(2, 0, 1)); });
  for (const auto& s : {shape{2, 1, 4}, shape{3, 1}, shape{0, 1, 2}, shape{1, 1, 1}, shape{1, 1, 5}})
    both("squeeze", real(s, 1), [](const value& x) { return squeeze(x, axes(1)); });
}

BOOST_AUTO_TEST_CASE(tiles_and_borders) {
  for (const auto& s : shapes) {
    for (const auto& n : {shape{2}, shape{3, 2}, shape{2, 1, 2}, shape{2, 1, 2, 3}, shape{0, 1}})
      both("tile", real(s, 1), [&](const value& x) { return tile(x, n); });
    for (int axis = 0; axis < s.rank; ++axis) {
      for (std::int64_t n : {0, 1, 3}) both("repeat", real(s, 1), [&](const value& x) { return repeat(x, n, axis); });
      for (auto [before, after] : {std::tuple{0, 0}, {1, 0}, {2, 3}})
        both("pad", real(s, 1), [&, b = before, a = after](const value& x) {
          return pad(x, {.axis = axis, .before = b, .after = a, .value = 0.5});
        });
    }
  }
  for (const auto& s : {shape{2, 3}, shape{1, 3}, shape{4, 1}, shape{2, 0}, shape{1, 1}})
    both("tile_to", real(s, 1), [&](const value& x) { return tile_to(x, {4, s[0], s[1]}, axes(1)); });
  both("deep tile", real({2, 1, 2, 1, 2}, 1), [](const value& x) { return tile(x, {2, 2, 2, 2, 2}); });
}

// Data-dependent numbers of rows; the differentiated result has a fixed shape again.
BOOST_AUTO_TEST_CASE(rows_that_are_counted) {
  for (const auto& s : {shape{1}, shape{6}, shape{5, 3}, shape{2, 4, 3}, shape{4, 1}, shape{0, 3}}) {
    const array x = distinct_array(s, 1), mask = random_array(dtype::boolean, s, 2),
                rows = random_array(dtype::boolean, {s[0]}, 3);
    const array count = array_of(dtype::int64, {}, {static_cast<double>(s.at(0) / 2)});
    // Weights that differ by position.
    const auto weighed = [](const value& y) {
      const value row = reshape(y, shape{dyn});
      return value(reduce_sum(sin(row) * (cumsum(row) + 1)));
    };
    check_twice("masked_select", {x, mask},
                [&](const values& v) { return values{weighed(masked_select(v[0], v[1]))}; });
    check_twice("compress", {x, rows}, [&](const values& v) { return values{weighed(compress(v[0], v[1]))}; });
    check_twice("truncate", {x, count}, [&](const values& v) { return values{weighed(truncate(v[0], v[1]))}; });
    check_twice("unique", {x}, [&](const values& v) { return values{weighed(unique(v[0]).values)}; });
    check_twice("computed top_k", {x, count},
                [&](const values& v) { return values{weighed(top_k(v[0], v[1], {.axis = 0}).values)}; });
  }
}

BOOST_AUTO_TEST_CASE(contractions) {
  for (auto [a, b, n] : {std::tuple{shape{3}, shape{3}, 1},
                         {shape{2, 3}, shape{3}, 1},
                         {shape{3}, shape{3, 4}, 1},
                         {shape{2, 3, 4}, shape{3, 4, 5}, 2},
                         {shape{2, 3}, shape{2, 3}, 2},
                         {shape{2}, shape{3}, 0},
                         {shape{1}, shape{1}, 1},
                         {shape{2, 1}, shape{1, 3}, 1},
                         {shape{2, 0}, shape{0, 3}, 1},
                         {shape{2, 2, 3}, shape{3, 2, 2}, 1}}) {
    auto f = [count = n](const values& x) -> value {
      return count == 0 ? dot<0>(x[0], x[1]) : count == 1 ? dot<1>(x[0], x[1]) : dot<2>(x[0], x[1]);
    };
    check_twice("dot", {real(a, 1), real(b, 2)}, [&](const values& x) { return values{f(x)}; });
  }
  for (const auto& [a, b, by] : {std::tuple{shape{2, 3}, shape{3}, shape{2, 1}},
                                 {shape{4}, shape{4}, shape{1}},
                                 {shape{1, 3}, shape{2, 3}, shape{2, 3}},
                                 {shape{0, 2}, shape{2}, shape{0, 1}},
                                 {shape{2, 1, 2}, shape{3, 1}, shape{}}}) {
    check_twice("interpolate", {real(a, 1), real(b, 2), real(by, 3)},
                [](const values& x) { return values{interpolate(x[0], x[1], x[2])}; });
  }
}

BOOST_AUTO_TEST_CASE(gathers_and_scatters) {
  for (const auto& s : {shape{1}, shape{6}, shape{5, 3}, shape{2, 4, 3}, shape{4, 1}, shape{3, 0}})
    for (int axis = 0; axis < s.rank; ++axis)
      for (const auto& n : {shape{}, shape{0}, shape{7}, shape{2, 2}}) {
        if (s.at(axis) == 0) continue;
        auto index = positions(n, 2, s.at(axis));
        check_twice("gather", {real(s, 1), index}, [&](const values& x) { return values{gather(x[0], x[1], axis)}; });
        if (n.rank != 1) continue;
        shape to = s;
        to[axis] = n[0];
        auto each = positions(to, 3, s.at(axis));
        check_twice("take_along_axis", {real(s, 1), each},
                    [&](const values& x) { return values{square(take_along_axis(x[0], x[1], axis))}; });
        check_twice("scatter_add", {real(s, 1), each, real(to, 4)},
                    [&](const values& x) { return values{scatter_add(x[0], x[1], x[2], axis)}; });
        check_twice("index_add", {real(s, 1), index, real(to, 4)},
                    [&](const values& x) { return values{square(index_add(x[0], x[1], x[2], axis))}; });
      }
  for (const auto& ids : {shape{3, 6}, shape{}, shape{0}, shape{1}, shape{2, 1, 2}})
    check_twice("embedding", {real({5, 4}, 1), positions(ids, 2, 5)},
                [](const values& x) { return values{square(embedding(x[0], x[1]))}; });
  check(
      "one hot of positions passes nothing", {distinct_array({2, 5}, 1)},
      [](const values& x) {
        return values{to_one_hot(top_k(x[0], {.k = 2}).indices, 5, dtype::float64) * reduce_sum(x[0])};
      },
      false);
}

BOOST_AUTO_TEST_CASE(running_sums_and_order) {
  for (const auto& s : shapes)
    for (int axis = 0; axis < s.rank; ++axis) {
      for (bool exclusive : {false, true})
        for (bool reverse : {false, true})
          both("cumsum", real(s, 1),
               [&](const value& x) { return cumsum(x, {.axis = axis, .exclusive = exclusive, .reverse = reverse}); });
      for (bool largest : {false, true}) {
        if (s.at(axis))
          both("top_k", distinct_array(s, 1), [&](const value& x) {
            return top_k(x, {.k = (s.at(axis) + 1) / 2, .axis = axis, .largest = largest}).values;
          });
        both("sort", distinct_array(s, 1),
             [&](const value& x) { return sort(x, {.axis = axis, .descending = largest}); });
      }
    }
}

BOOST_AUTO_TEST_CASE(products) {
  for (const auto& s : {shape{}, shape{1}, shape{5}, shape{2, 3}, shape{3, 1, 4}, shape{2, 3, 2, 2}, shape{0, 3}})
    for (unsigned bits = 0; bits < 1u << s.rank; ++bits) {
      axes chosen;
      for (int i = 0; i < s.rank; ++i)
        if (bits >> i & 1u) chosen.values[chosen.count++] = i;
      for (bool keep : {false, true}) {
        both("reduce_prod", real(s, 1), [&](const value& x) { return reduce_prod(x, {chosen, keep}); });
        both("prod", real(s, 1), [&](const value& x) { return prod(x, {chosen, keep}); });
      }
    }
  // Zeros: one, two, and all.
  for (int zeros : {1, 2, 4}) {
    array x = real({4}, 3);
    for (int i = 0; i < zeros; ++i) x.values[static_cast<std::size_t>(i)] = 0;
    both("reduce_prod with zeros", x, [](const value& v) { return reduce_prod(v); });
    check("reduce_prod with zeros", {x}, [](const values& v) { return values{reduce_prod(v[0])}; });
  }
  small_graph g;
  value x = g.input(real({3}, 1)), first = gradients(reduce_prod(x), {&x, 1})[0],
        second = gradients(reduce_sum(square(first)), {&x, 1})[0];
  BOOST_TEST(message_of([&] { gradients(reduce_sum(square(second)), {&x, 1}); }) ==
             "product_of_others_slope: this operation has no gradient");
}

BOOST_AUTO_TEST_CASE(loss_of_probabilities) {
  for (std::int64_t rows : {1, 2, 3, 4, 5})
    for (std::int64_t classes : {1, 3, 9}) {
      const shape s{rows, classes};
      array weights = real(s, 1, 0, 1), logits = real(s, 2), probabilities = real(s, 3, 0.1, 1);
      check_twice("nll_loss", {weights, probabilities}, [](const values& x) { return values{nll_loss(x[0], x[1])}; });
      check_twice("of softmax", {weights, logits},
                  [](const values& x) { return values{nll_loss(x[0], softmax(x[1]))}; });
      check("of softmax over all", {weights, logits},
            [](const values& x) { return values{nll_loss(x[0], softmax_over_last<2>(x[1]))}; });
    }
}

BOOST_AUTO_TEST_CASE(loss_of_no_probabilities) {
  check_twice("nll_loss", {real({0, 3}, 1), real({0, 3}, 2)},
              [](const values& x) { return values{nll_loss(x[0], x[1])}; });
}

BOOST_AUTO_TEST_CASE(the_gradient_of_log_exp_is_finite_where_exp_is_not) {
  vector<double> x{-2000, 1, 2, 2000};
  auto loss = reduce_sum(log(exp(var<"x">(x) * 3.0)));
  auto [value, slope] = evaluate(loss, gradient<"x">(loss));
  BOOST_TEST(item(value) == 9.);
  for (int i = 0; i < 4; ++i) BOOST_TEST(slope(i) == 3.);
}

BOOST_AUTO_TEST_CASE(loss_of_softmax_is_fused_and_the_same) {
  for (std::int64_t rows : {1, 2, 3, 4, 5})
    for (bool all : {false, true})
      for (auto element : {dtype::float32, dtype::float64}) {
        const shape s{rows, 6};
        small_graph g;
        array weights = random_array(element, s, static_cast<int>(rows), 0, 1),
              logits = random_array(element, s, static_cast<int>(10 + rows), -3, 3);
        value t = g.input(weights), x = g.input(logits);
        value y = all ? value(softmax_over_last<2>(x)) : value(softmax(x));
        g.output(gradients(nll_loss(t, y) * 3, {&x, 1})[0]);
        auto fused = g.run();
        BOOST_TEST(g.plan->counters().of(rewrite::softmax_loss) == 1);
        auto apart = g.run({.without = {rewrite::softmax_loss}});
        BOOST_TEST(g.plan->counters().of(rewrite::softmax_loss) == 0);
        auto plain = g.run(no_passes);
        double tolerance = element == dtype::float32 ? 1e-5 : 1e-14;
        BOOST_TEST(distance(fused[0], apart[0]) < tolerance);
        BOOST_TEST(distance(fused[0], plain[0]) < tolerance);
        // (softmax sum_row(t) - t) g / sum(t), including the division.
        double sum = 0, of_all = 0;
        std::vector<double> e(weights.values.size()), row_t(static_cast<std::size_t>(rows)),
            row_e(static_cast<std::size_t>(rows));
        for (std::size_t i = 0; i < e.size(); ++i) {
          e[i] = std::exp(logits.values[i]);
          sum += weights.values[i];
          of_all += e[i];
          row_t[i / 6] += weights.values[i];
          row_e[i / 6] += e[i];
        }
        for (std::size_t i = 0; i < e.size(); ++i) {
          double want = all ? (e[i] / of_all * sum - weights.values[i]) * 3 / sum
                            : (e[i] / row_e[i / 6] * row_t[i / 6] - weights.values[i]) * 3 / sum;
          BOOST_TEST(std::abs(fused[0].values[i] - want) < tolerance * 10);
        }
      }
  // Inside a `dynamic`, and where a probability is 0.
  matrix<double> t{{0, 1}, {1, 0}}, x{{0, 1}, {2000, 0}};
  auto hidden = make_dynamic(softmax(var<"x">(x)));
  auto loss = nll_loss(t, hidden);
  program p;
  lowering l(p);
  value v = lower(loss, l), w = l.variable("x", 0);
  p.output("dx", gradients(v, {&w, 1})[0]);
  const shape sizes[] = {{2, 2}, {2, 2}};
  auto made = make_plan(p, view<const shape>(sizes, p.inputs().size()), target_isa());
  BOOST_TEST(made->counters().of(rewrite::softmax_loss) == 1);
  executor run(made, nullptr);
  for (std::size_t i = 0; i < p.inputs().size(); ++i) run.bind_input(i, l.leaves()[i].data);
  double d[4];
  run.bind_output(0, d);
  run.run();
  BOOST_TEST(d[0] == 0.5 / (1 + std::exp(1.0)), boost::test_tools::tolerance(1e-12));
  BOOST_TEST(d[0] == -d[1], boost::test_tools::tolerance(1e-12));
  BOOST_TEST((d[2] == 0 && d[3] == 0));
}

BOOST_AUTO_TEST_SUITE_END()
