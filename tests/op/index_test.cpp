// Gathers and scatters, running sums, sorting, and reductions other than sums, against plain loops.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN(),
                 infinity = std::numeric_limits<double>::infinity();
const dtype every_type[] = {dtype::float32, dtype::float64, dtype::float16, dtype::int8,   dtype::int16,
                            dtype::int32,   dtype::int64,   dtype::uint8,   dtype::boolean};
const dtype numbers[] = {dtype::float32, dtype::float64, dtype::int8, dtype::int16,
                         dtype::int32,   dtype::int64,   dtype::uint8};

struct line {
  std::int64_t outer, length, inner;
};
line along(const shape& s, int axis) { return {s.size(0, axis), s.at(axis), s.size(axis + 1, s.rank)}; }
std::size_t at(std::int64_t o, std::int64_t l, std::int64_t i, const line& a) {
  return static_cast<std::size_t>((o * a.length + l) * a.inner + i);
}
std::size_t offset_in(double index, std::int64_t length) {
  return static_cast<std::size_t>(index < 0 ? index + static_cast<double>(length) : index);
}
array positions(const shape& s, int seed, std::int64_t length) {
  return random_array(dtype::int64, s, seed, -static_cast<double>(length), static_cast<double>(length));
}

array gathered(const array& x, const array& index, int axis) {
  auto a = along(x.shape(), axis);
  array r{{x.type.element, {}}, {}};
  for (int i = 0; i < axis; ++i) r.type.dims.push_back(x.shape()[i]);
  for (int i = 0; i < index.shape().rank; ++i) r.type.dims.push_back(index.shape()[i]);
  for (int i = axis + 1; i < x.shape().rank; ++i) r.type.dims.push_back(x.shape()[i]);
  for (std::int64_t o = 0; o < a.outer; ++o)
    for (double p : index.values)
      for (std::int64_t i = 0; i < a.inner; ++i)
        r.values.push_back(x.values[at(o, static_cast<std::int64_t>(offset_in(p, a.length)), i, a)]);
  return r;
}

bool fails(const std::vector<array>& in, const builder& build, const std::string& expected, int threads = 1) {
  small_graph g;
  std::vector<value> inputs;
  for (const auto& a : in) inputs.push_back(g.input(a));
  for (const auto& v : build(inputs)) g.output(v);
  try {
    g.run({}, threads);
  } catch (const value_error& e) {
    const std::string_view message = e.what();
    BOOST_CHECK_MESSAGE(expected.ends_with('(') ? message.starts_with(expected) : message == expected,
                        message << " is not " << expected);
    return true;
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(positions_and_order)

BOOST_AUTO_TEST_CASE(gathers) {
  for (auto element : every_type)
    for (const auto& s :
         {shape{7}, shape{5, 3}, shape{3, 5}, shape{2, 4, 3}, shape{1, 1}, shape{3, 0}, shape{2, 3, 40}})
      for (int axis = 0; axis < s.rank; ++axis)
        for (const auto& n : {shape{}, shape{4}, shape{0}, shape{2, 3}}) {
          if (s.at(axis) == 0 && n.size()) continue;
          array x = random_array(element, s, 1, 0, 100), index = positions(n, 2, s.at(axis));
          array want = gathered(x, index, axis);
          BOOST_CHECK_MESSAGE(
              same_bits(result_of({x, index}, [&](const auto& v) { return gather(v[0], v[1], axis - s.rank); }), want),
              s.string() << " " << n.string() << " " << axis);
        }
  array table = random_array(dtype::float32, {50, 65}, 1), ids = positions({7, 11}, 2, 50);
  BOOST_TEST(
      same_bits(result_of({table, ids}, [](const auto& v) { return embedding(v[0], v[1]); }), gathered(table, ids, 0)));
}

BOOST_AUTO_TEST_CASE(long_gathers_on_several_threads) {
  array table = random_array(dtype::float32, {1000, 64}, 1), ids = positions({20000}, 2, 1000);
  small_graph g;
  g.output(embedding(g.input(table), g.input(ids)));
  auto want = gathered(table, ids, 0);
  BOOST_TEST(same_bits(g.run({}, 1)[0], want));
  BOOST_TEST(same_bits(g.run({}, 3)[0], want));
}

BOOST_AUTO_TEST_CASE(elements_along_an_axis) {
  for (auto element : every_type)
    for (const auto& s : {shape{7}, shape{5, 3}, shape{2, 4, 3}, shape{1, 1}, shape{0, 3}})
      for (int axis = 0; axis < s.rank; ++axis)
        for (std::int64_t n : {0, 1, 6}) {
          if (s.at(axis) == 0) continue;
          shape to = s;
          to[axis] = n;
          array x = random_array(element, s, 1, 0, 100), index = positions(to, 2, s.at(axis));
          array want{{element, to}, index.values};
          auto a = along(s, axis), b = along(to, axis);
          for (std::int64_t o = 0; o < b.outer; ++o)
            for (std::int64_t l = 0; l < n; ++l)
              for (std::int64_t i = 0; i < b.inner; ++i) {
                auto& v = want.values[at(o, l, i, b)];
                v = x.values[at(o, static_cast<std::int64_t>(offset_in(v, a.length)), i, a)];
              }
          BOOST_CHECK_MESSAGE(
              same_bits(result_of({x, index}, [&](const auto& v) { return take_along_axis(v[0], v[1], axis); }), want),
              s.string() << " " << axis);
        }
}

BOOST_AUTO_TEST_CASE(additions_at_positions) {
  for (auto element : numbers)
    for (const auto& s : {shape{7}, shape{5, 3}, shape{2, 4, 3}, shape{40, 3, 2}, shape{1, 1}, shape{2, 3, 40}})
      for (int axis = 0; axis < s.rank; ++axis) {
        auto a = along(s, axis);
        shape to = s;
        to[axis] = 9;
        array x = random_array(element, s, 1, 0, 5), index = positions(to, 2, a.length),
              more = random_array(element, to, 3, 0, 5);
        array want = x;
        for (std::int64_t o = 0; o < a.outer; ++o)
          for (std::int64_t l = 0; l < 9; ++l)
            for (std::int64_t i = 0; i < a.inner; ++i) {
              auto k = at(o, l, i, {a.outer, 9, a.inner});
              want.values[at(o, static_cast<std::int64_t>(offset_in(index.values[k], a.length)), i, a)] +=
                  more.values[k];
            }
        double tolerance = element == dtype::float32 ? 1e-5 : element == dtype::float64 ? 1e-13 : 0;
        BOOST_CHECK_MESSAGE(
            distance(result_of({x, index, more}, [&](const auto& v) { return scatter_add(v[0], v[1], v[2], axis); }),
                     want) <= tolerance,
            s.string() << " " << axis);
        array rows = positions({9}, 4, a.length);
        want = x;
        for (std::int64_t o = 0; o < a.outer; ++o)
          for (std::int64_t l = 0; l < 9; ++l)
            for (std::int64_t i = 0; i < a.inner; ++i)
              want.values[at(
                  o, static_cast<std::int64_t>(offset_in(rows.values[static_cast<std::size_t>(l)], a.length)), i, a)] +=
                  more.values[at(o, l, i, {a.outer, 9, a.inner})];
        BOOST_CHECK_MESSAGE(
            distance(result_of({x, rows, more}, [&](const auto& v) { return index_add(v[0], v[1], v[2], axis); }),
                     want) <= tolerance,
            s.string() << " " << axis);
      }
  auto wraps = result_of({array_of(dtype::int8, {1}, {100}), array_of(dtype::int64, {3}, {0, 0, 0}),
                          array_of(dtype::int8, {3}, {100, 100, 100})},
                         [](const auto& v) { return scatter_add(v[0], v[1], v[2], 0); });
  BOOST_TEST(wraps.values[0] == static_cast<std::int8_t>(400 % 256));
}

BOOST_AUTO_TEST_CASE(sums_at_positions_do_not_depend_on_threads) {
  array table = random_array(dtype::float32, {300, 64}, 1), ids = positions({30000}, 2, 300),
        wide = positions({30, 5000}, 3, 40);
  small_graph g;
  value w = g.input(table), i = g.input(ids), x = g.input(random_array(dtype::float32, {30, 40}, 4)), j = g.input(wide);
  g.output(gradients(reduce_sum(square(embedding(w, i))), {&w, 1})[0]);
  g.output(gradients(reduce_sum(square(take_along_axis(x, j, 1))), {&x, 1})[0]);
  g.output(cumsum(value(take_along_axis(x, j, 1)), {.axis = 1}));
  auto one = g.run({}, 1), three = g.run({}, 3);
  for (std::size_t k = 0; k < one.size(); ++k) BOOST_TEST(same_bits(one[k], three[k]));
}

BOOST_AUTO_TEST_CASE(positions_outside_end_the_run) {
  array x = random_array(dtype::float32, {5, 3}, 1);
  auto index = [](std::vector<double> v) { return array_of(dtype::int64, {static_cast<std::int64_t>(v.size())}, v); };
  for (double bad : {5.0, -6.0, 1e18, -9e18}) {
    const auto message = [&](const std::string& operation,
                             const std::string& where) {  // names the value and its position
      return operation + ": a position is outside -5..4: " + std::to_string(static_cast<std::int64_t>(bad)) + " at " +
             where + " (1 in total)";
    };
    BOOST_TEST(fails(
        {x, index({0, bad, 1})}, [](const auto& v) { return std::vector<value>{gather(v[0], v[1], 0)}; },
        message("gather", "[1]")));
    BOOST_TEST(fails(
        {x, index({0, bad, 1})},
        [](const auto& v) {
          return std::vector<value>{index_add(v[0], v[1], v[0][1] + gather(v[0] * 0, v[1] * 0, 0), 0)};
        },
        message("scatter_rows", "[1]")));
    array at = array_of(dtype::int64, {1, 3}, {0, bad, 1});
    BOOST_TEST(fails(
        {x, at}, [](const auto& v) { return std::vector<value>{take_along_axis(v[0], v[1], 0)}; },
        message("take_along_axis", "[0, 1]")));
    BOOST_TEST(fails(
        {x, at}, [](const auto& v) { return std::vector<value>{scatter_add(v[0], v[1], cast<float>(v[1]), 0)}; },
        message("scatter_elements", "[0, 1]")));
    BOOST_TEST(fails(
        {index({0, bad})}, [](const auto& v) { return std::vector<value>{to_one_hot(v[0], 5)}; },
        message("to_one_hot", "[1]")));
  }
  BOOST_TEST(fails(
      {array_of(dtype::float32, {0, 3}, {}), index({0})},
      [](const auto& v) { return std::vector<value>{gather(v[0], v[1], 0)}; },
      "gather: a position on an axis without elements: 0 at [0] (1 in total)"));
  // On several threads; the message names the layer.
  array table = random_array(dtype::float32, {100, 64}, 1), ids = positions({20000}, 2, 100);
  ids.values[7] = ids.values[19999] = 100;
  BOOST_TEST(fails(
      {table, ids},
      [](const auto& v) {
        v[0].owner().path = "words";
        return std::vector<value>{embedding(v[0], v[1])};
      },
      "words: gather: a position is outside -100..99: 100 at [7] (1 in total)", 3));
}

// The message names the first bad position, however the work is split: by rows, by columns, by images.
BOOST_AUTO_TEST_CASE(the_first_position_outside_is_named) {
  const auto gathered = [](std::int64_t axis) {
    return [axis](const auto& v) { return std::vector<value>{gather(v[0], v[1], axis)}; };
  };
  array table = random_array(dtype::float32, {100, 64}, 1), ids = positions({200, 100}, 2, 100);
  ids.values[19999] = -101;
  BOOST_TEST(
      fails({table, ids}, gathered(0), "gather: a position is outside -100..99: -101 at [199, 99] (1 in total)", 3));
  ids.values[12345] = 100;
  BOOST_TEST(fails({table, ids}, gathered(0), "gather: a position is outside -100..99: 100 at [123, 45] (", 3));
  // take_along_axis is split by rows, its gradient by rows or by columns.
  for (const shape& s : {shape{400, 50}, shape{50, 400}, shape{1, 20000}, shape{20000, 1}, shape{4, 10, 500}}) {
    array x = random_array(dtype::float32, s, 3), at = positions(s, 4, 1);
    const auto last = at.values.size() - 1, middle = last / 2;
    for (const std::int64_t axis : {0, 1}) {
      for (auto& v : at.values) v = 0;
      at.values[last] = 30000;
      for (int more = 0; more < 2; ++more) {
        const auto first = static_cast<std::int64_t>(more ? middle : last);
        if (more) at.values[middle] = -30000;
        std::string where = "[";
        for (int i = 0; i < s.rank; ++i)
          where += (i ? ", " : "") + std::to_string(first / s.size(i + 1, s.rank) % s.at(i));
        const std::string end = ": " + std::to_string(more ? -30000 : 30000) + " at " + where + "] (";
        const std::string range = ": a position is outside -" + std::to_string(s.at(static_cast<int>(axis))) + ".." +
                                  std::to_string(s.at(static_cast<int>(axis)) - 1);
        BOOST_TEST(fails(
            {x, at}, [axis](const auto& v) { return std::vector<value>{take_along_axis(v[0], v[1], axis)}; },
            "take_along_axis" + range + end, 3));
        BOOST_TEST(fails(
            {x, at},
            [axis](const auto& v) { return std::vector<value>{scatter_add(v[0], v[1], cast<float>(v[1]), axis)}; },
            "scatter_elements" + range + end, 3));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(no_state_is_assigned_by_a_run_that_fails) {
  small_graph g;
  value ids = g.input(array_of(dtype::int64, {2}, {1, 4})), w = g.state("w", random_array(dtype::float32, {4, 3}, 1));
  g.p.assign(w, w - gradients(reduce_sum(embedding(w, ids)), {&w, 1})[0]);
  g.output(reduce_sum(w));
  auto before = g.now("w");
  BOOST_CHECK_THROW(g.run(), value_error);
  BOOST_TEST(same_bits(g.now("w"), before));
  g.data[0].values = {1, 3};
  g.run();
  BOOST_TEST(!same_bits(g.now("w"), before));
}

BOOST_AUTO_TEST_CASE(one_at_each_position) {
  for (auto element : every_type)
    for (const auto& s : {shape{}, shape{5}, shape{2, 3}, shape{0}}) {
      array index = positions(s, 1, 4), want{{element, s}, {}};
      want.type.dims.push_back(4);
      for (double p : index.values)
        for (std::size_t c = 0; c < 4; ++c) want.values.push_back(c == offset_in(p, 4));
      BOOST_TEST(same_bits(result_of({index}, [&](const auto& v) { return to_one_hot(v[0], 4, element); }), want));
    }
}

BOOST_AUTO_TEST_CASE(running_sums) {
  for (auto element : numbers)
    for (const auto& s : {shape{1}, shape{9}, shape{3, 40}, shape{40, 3}, shape{2, 5, 33}, shape{0, 3}, shape{3, 0}})
      for (int axis = 0; axis < s.rank; ++axis)
        for (bool exclusive : {false, true})
          for (bool reverse : {false, true}) {
            array x = random_array(element, s, 1, 0, 3), want = x;
            auto a = along(s, axis);
            for (std::int64_t o = 0; o < a.outer; ++o)
              for (std::int64_t i = 0; i < a.inner; ++i) {
                double sum = 0;
                for (std::int64_t k = 0; k < a.length; ++k) {
                  auto p = at(o, reverse ? a.length - 1 - k : k, i, a);
                  want.values[p] = exclusive ? sum : sum + x.values[p];
                  sum += x.values[p];
                }
              }
            double tolerance = element == dtype::float32 ? 1e-6 : element == dtype::float64 ? 1e-13 : 0;
            array got = result_of({x}, [&](const auto& v) {
              return cumsum(v[0], {.axis = axis, .exclusive = exclusive, .reverse = reverse});
            });
            BOOST_CHECK_MESSAGE(distance(got, want) <= tolerance, s.string() << " " << axis << exclusive << reverse);
          }
  array ones = array_of(dtype::float32, {1 << 20}, std::vector<double>(1 << 20, 0.1f));
  array sums = result_of({ones}, [](const auto& v) { return cumsum(v[0]); });
  BOOST_TEST(sums.values.back() == 0.1f * (1 << 20), boost::test_tools::tolerance(1e-7));
}

BOOST_AUTO_TEST_CASE(order_is_stable) {
  for (auto element : numbers)
    for (const auto& s :
         {shape{1}, shape{9}, shape{300}, shape{3, 100}, shape{100, 3}, shape{2, 60, 2}, shape{0, 3}, shape{3, 0}})
      for (int axis = 0; axis < s.rank; ++axis)
        for (bool descending : {false, true}) {
          array x = random_array(element, s, 5, is_integer(element) && element != dtype::uint8 ? -9 : 0,
                                 9);  // many ties
          if (is_real(element))
            for (std::size_t i = 0; i < x.values.size(); ++i) {
              const double special[] = {not_a_number, -0.0, -infinity, infinity, 0.0, 1.0};
              if (i % 4 == 0) x.values[i] = special[i / 4 % 6];
            }
          array want{{dtype::int64, s}, x.values};
          auto a = along(s, axis);
          for (std::int64_t o = 0; o < a.outer; ++o)
            for (std::int64_t i = 0; i < a.inner; ++i) {
              std::vector<std::int64_t> order(static_cast<std::size_t>(a.length));
              std::iota(order.begin(), order.end(), 0);
              std::sort(order.begin(), order.end(), [&](auto p, auto q) {
                double u = x.values[at(o, p, i, a)], v = x.values[at(o, q, i, a)];
                if (u == v || (std::isnan(u) && std::isnan(v))) return p < q;
                if (std::isnan(u) || std::isnan(v)) return std::isnan(u) == descending;
                return descending ? u > v : u < v;
              });
              for (std::int64_t l = 0; l < a.length; ++l)
                want.values[at(o, l, i, a)] = static_cast<double>(order[static_cast<std::size_t>(l)]);
            }
          array got =
              result_of({x}, [&](const auto& v) { return argsort(v[0], {.axis = axis, .descending = descending}); });
          BOOST_CHECK_MESSAGE(same_bits(got, want), s.string() << " " << axis << descending);
          for (std::int64_t k : {0, 1, 5, 40}) {
            if (k > a.length) continue;
            auto r = results_of({x}, [&](const auto& v) {
              auto [values, indices] = top_k(v[0], {.k = k, .axis = axis, .largest = descending});
              return std::vector<value>{
                  values, indices,
                  slice(sort(v[0], {.axis = axis, .descending = descending}), {.stop = k, .axis = axis})};
            });
            array first = result_of({want}, [&](const auto& v) { return slice(v[0], {.stop = k, .axis = axis}); });
            BOOST_CHECK_MESSAGE(same_bits(r[1], first), s.string() << " " << axis << descending << " " << k);
            BOOST_TEST(same_bits(r[0], r[2]));
          }
        }
  // Numbers of the full range, of a length that is sorted by digits.
  for (auto element : {dtype::float64, dtype::int64, dtype::float32}) {
    array x = random_array(element, {5000}, 9, -1e9, 1e9);
    array y = result_of({x}, [](const auto& v) { return sort(v[0]); });
    std::sort(x.values.begin(), x.values.end());
    BOOST_TEST(same_bits(x, y));
  }
}

BOOST_AUTO_TEST_CASE(products_and_truths) {
  for (const auto& s : {shape{}, shape{6}, shape{3, 4}, shape{2, 3, 4}, shape{0}, shape{0, 3}, shape{3, 0}})
    for (unsigned bits = 0; bits < 1u << s.rank; ++bits)
      for (bool keep : {false, true}) {
        axes chosen;
        for (int i = 0; i < s.rank; ++i)
          if (bits >> i & 1u) chosen.values[chosen.count++] = i;
        reduce_attributes a{chosen, keep};
        array x = random_array(dtype::float64, s, 1, 0.5, 2), b = random_array(dtype::boolean, s, 2),
              i = random_array(dtype::int32, s, 3, -3, 4);
        auto r = results_of({x, b, i}, [&](const auto& v) {
          auto yes = cast<float>(v[1]);
          return std::vector<value>{
              reduce_prod(v[0], a), exp(reduce_sum(log(v[0]), a)),
              reduce_any(v[1], a),  reduce_sum(yes, a) > 0,
              reduce_all(v[1], a),  reduce_sum(1 - yes, a) == 0,
              reduce_prod(v[2], a), apply<op::cast>({dtype::int32}, reduce_prod(cast<double>(v[2]), a))};
        });
        for (std::size_t k = 0; k < r.size(); k += 2)
          BOOST_CHECK_MESSAGE((r[k].type == r[k + 1].type) && distance(r[k], r[k + 1]) < 1e-12,
                              s.string() << " over " << bits << ", " << k);
      }
  auto r = results_of({array_of(dtype::int32, {2, 4}, {3, 1, 1, 2, 5, 5, 5, 5})},
                      [](const auto& v) { return std::vector<value>{argmin(v[0]), argmin<0, true>(v[0])}; });
  BOOST_TEST(r[0].values == (std::vector<double>{1, 0}), boost::test_tools::per_element());
  BOOST_TEST((r[1].shape() == shape{1, 4}));
}

BOOST_AUTO_TEST_CASE(softmax_over_several_axes_is_one_distribution) {
  array x = random_array(dtype::float64, {2, 3, 4}, 1, -3, 3);
  auto r = results_of({x}, [](const auto& v) {
    return std::vector<value>{softmax_over_last<2>(v[0]),     reshape(softmax(reshape(v[0], {2, 12})), {2, 3, 4}),
                              log_softmax_over_last<3>(v[0]), log(softmax_over_last<3>(v[0])),
                              softmax_over_last<1>(v[0]),     softmax(v[0])};
  });
  for (std::size_t k = 0; k < r.size(); k += 2) BOOST_TEST(distance(r[k], r[k + 1]) < 1e-13);
  double sum = 0;
  for (std::size_t i = 0; i < 12; ++i) sum += r[0].values[i];
  BOOST_TEST(sum == 1, boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(the_typed_mode_agrees) {
  matrix<float> x{{3, 1, 2}, {4, 6, 5}};
  matrix<float, 2, 3> s{{3, 1, 2}, {4, 6, 5}};
  vector<std::int64_t> ids{1, 0, -1};
  auto is = [](const auto& e, const shape& want, std::vector<double> values) {
    array got = from_tensor(any_tensor(evaluate(e)));
    return got.shape() == want && got.values == values;
  };
  BOOST_TEST(is(embedding(x, ids), {3, 3}, {4, 6, 5, 3, 1, 2, 4, 6, 5}));
  BOOST_TEST(is(gather<1>(s, ids), {2, 3}, {1, 3, 2, 6, 4, 5}));
  BOOST_TEST(is(take_along_axis<0>(x, matrix<std::int64_t>{{0, 1, 0}}), {1, 3}, {3, 6, 2}));
  BOOST_TEST(is(scatter_add<1>(x, matrix<std::int64_t>{{0, 0}, {2, 2}}, matrix<float>{{1, 1}, {2, 2}}), {2, 3},
                {5, 1, 2, 4, 6, 9}));
  BOOST_TEST(is(index_add<0>(x, vector<std::int64_t>{1}, matrix<float>{{1, 1, 1}}), {2, 3}, {3, 1, 2, 5, 7, 6}));
  BOOST_TEST(is(to_one_hot<2>(vector<std::int64_t>{1, 0}), {2, 2}, {0, 1, 1, 0}));
  BOOST_TEST(is(cumsum(x), {2, 3}, {3, 4, 6, 4, 10, 15}));
  BOOST_TEST(is(cumsum<0, false, true>(s), {2, 3}, {7, 7, 7, 4, 6, 5}));
  BOOST_TEST(is(sort<-1, true>(x), {2, 3}, {3, 2, 1, 6, 5, 4}));
  BOOST_TEST(is(argsort(s), {2, 3}, {1, 2, 0, 0, 2, 1}));
  auto [values, indices] = top_k<2>(s);
  auto [v, i] = evaluate(values, indices);
  BOOST_TEST((from_tensor(any_tensor(v)).values == std::vector<double>{3, 2, 6, 5}));
  BOOST_TEST((from_tensor(any_tensor(i)).values == std::vector<double>{0, 2, 1, 2}));
  BOOST_TEST((decltype(values)::pattern == shape{2, 2}));
  BOOST_TEST(item(reduce_prod(x)) == 720);
  BOOST_TEST(item(reduce_all(x > 0)));
  BOOST_TEST(!item(reduce_any(x > 6)));
  BOOST_TEST(is(argmin(x), {2}, {1, 0}));
  BOOST_TEST(is(reduce_sum(softmax_over_last<2>(x * 0)), {}, {1}));
  BOOST_CHECK_THROW(evaluate(gather(x, vector<std::int64_t>{2})), value_error);
  auto w = evaluate(gradient<"w">(reduce_sum(embedding(var<"w">(x), ids))));
  BOOST_TEST((from_tensor(any_tensor(w)).values == std::vector<double>{1, 1, 1, 2, 2, 2}));
}

BOOST_AUTO_TEST_CASE(expected) {
  small_graph g;
  auto f = [&](const shape& s, dtype t = dtype::float32) { return g.p.input("f", {t, s}); };
  auto i = [&](const shape& s) { return f(s, dtype::int64); };
#define SAYS(expression, expected) BOOST_TEST(message_of([&] { (void)(expression); }) == expected)
  SAYS(gather(f({2, 3}), f({2}), 0),
       "gather: takes int64 positions, not float32; cast first, as in cast<std::int64_t>(x): float32[2x3] float32[2]");
  SAYS(gather(f({2, 3}), i({2}), 2), "gather: axis 2 is outside the rank: float32[2x3] int64[2]");
  SAYS(gather(f({1, 1, 1, 1, 1}), i({1, 1, 1, 1, 1}), 0),
       "gather: the result would have rank 9; the limit is 8: float32[1x1x1x1x1] int64[1x1x1x1x1]");
  SAYS(embedding(f({2}), i({2})), "embedding: a table [rows, features] is expected: float32[2] int64[2]");
  SAYS(take_along_axis(f({2, 3}), i({2}), 0),
       "take_along_axis: the positions must have the shape of the operand except along axis 0: float32[2x3] int64[2]");
  SAYS(scatter_add(f({2, 3}), i({4, 3}), f({5, 3}), 0),
       "scatter_add: positions and elements to add must have the same shape: float32[2x3] int64[4x3] float32[5x3]");
  SAYS(scatter_add(f({2, 3}), i({4, 3}), f({4, 3}, dtype::float64), 0),
       "scatter_add: the element types differ; cast one of them: float32[2x3] int64[4x3] float64[4x3]");
  SAYS(index_add(f({2, 3}), i({4}), f({5, 3}), 0),
       "index_add: the rows to add must be [4x3]: float32[2x3] int64[4] float32[5x3]");
  SAYS(to_one_hot(i({2}), -1), "to_one_hot: depth is -1; expected at least 0: [2]");
  SAYS(cumsum(f({2, 3}), {.axis = 2}), "cumsum: axis 2 is outside the rank: [2x3]");
  SAYS(cumsum(f({2}, dtype::boolean)),
       "cumsum: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[2]");
  SAYS(top_k(f({2, 3}), {.k = 4}), "top_k: axis -1 cannot give 4 elements: [2x3]");
  SAYS(argsort(f({2}, dtype::boolean), {}),
       "argsort: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[2]");
  SAYS(softmax_over_last<3>(f({2, 3})), "softmax_over_last: cannot take the last 3 axes of the operand: [2x3]");
  SAYS(reduce_any(f({2, 3})), "reduce_any: takes bool, not float32; cast first, as in cast<bool>(x): float32[2x3]");
  SAYS(reduce_prod(f({2, 3}), {.axes = axes(2)}),
       "reduce_prod: the axes {2} are not distinct axes of the operand: [2x3]");
  SAYS(argmin<5>(f({2, 3})), "argmin: axis 5 is outside the rank: [2x3]");
  SAYS(nll_loss(f({2, 3}), f({2, 4})), "nll_loss: weights and probabilities must have the same shape: [2x3] [2x4]");
#undef SAYS
}

BOOST_AUTO_TEST_SUITE_END()
