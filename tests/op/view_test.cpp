// Views and parts of tensors, tiles, repetitions and borders against plain loops, over every element size.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

const dtype types[] = {dtype::float32, dtype::float64, dtype::bfloat16, dtype::int8,
                       dtype::int16,   dtype::int64,   dtype::boolean};

// Fills a result from the operand's element at f(index), or with `other` where f returns false.
array gathered(const array& x, const shape& to, const std::function<bool(std::int64_t* index)>& f, double other = 0) {
  array r{{x.type.element, to}, {}};
  std::int64_t strides[max_rank];
  row_major_strides(x.shape(), strides);
  for (std::int64_t p = 0; p < to.size(); ++p) {
    std::int64_t index[max_rank] = {}, rest = p, at = 0;
    for (int i = to.rank - 1; i >= 0; --i) {
      index[i] = rest % to.at(i);
      rest /= to.at(i);
    }
    if (!f(index)) {
      r.values.push_back(other);
      continue;
    }
    for (int i = 0; i < x.shape().rank; ++i) at += index[i] * strides[i];
    r.values.push_back(x.values[static_cast<std::size_t>(at)]);
  }
  return r;
}
array some(dtype element, const shape& s) { return random_array(element, s, 1, 0, 100); }
bool is(const array& a, const shape& s, std::vector<double> values) { return a.shape() == s && a.values == values; }

}  // namespace

BOOST_AUTO_TEST_SUITE(views)

BOOST_AUTO_TEST_CASE(axes_of_one_come_and_go) {
  for (auto element : types) {
    array x = some(element, {2, 3});
    auto r = results_of({x}, [](const auto& v) {
      return std::vector<value>{unsqueeze<0>(v[0]), unsqueeze(v[0], axes(-1)), unsqueeze(v[0], axes(1, 3)),
                                squeeze(value(unsqueeze<1>(v[0])), axes(1)), squeeze(value(unsqueeze<0, 3>(v[0])))};
    });
    const shape want[] = {{1, 2, 3}, {2, 3, 1}, {2, 1, 3, 1}, {2, 3}, {2, 3}};
    for (std::size_t i = 0; i < r.size(); ++i) BOOST_TEST(is(r[i], want[i], x.values));
  }
  auto named = [](const shape& given) {
    small_graph g;
    g.data = {some(dtype::float32, given)};
    value x = g.p.input("x", {dtype::float32, {"N", 1, dyn}});
    g.output(squeeze(x, axes(1)));
    g.output(unsqueeze(x, axes(0)));
    auto r = g.run();
    return r[0].shape() == shape{given[0], given[2]} && r[1].shape() == shape{1, given[0], 1, given[2]};
  };
  BOOST_TEST(named({4, 1, 5}));
  BOOST_TEST(named({0, 1, 1}));
}

BOOST_AUTO_TEST_CASE(one_position) {
  for (auto element : types)
    for (const auto& s : {shape{7}, shape{3, 5}, shape{1, 4}, shape{2, 3, 4}, shape{2, 0}})
      for (int axis = 0; axis < s.rank; ++axis)
        for (std::int64_t i = -s.at(axis); i < s.at(axis); ++i) {
          array x = some(element, s);
          shape to;
          for (int d = 0; d < s.rank; ++d)
            if (d != axis) to.push_back(s[d]);
          array want = gathered(x, to, [&](std::int64_t* index) {
            for (int d = max_rank - 1; d > axis; --d) index[d] = index[d - 1];
            index[axis] = i < 0 ? i + s.at(axis) : i;
            return true;
          });
          BOOST_CHECK_MESSAGE(
              same_bits(result_of({x}, [&](const auto& v) { return select(v[0], axis - (i % 2 ? s.rank : 0), i); }),
                        want),
              s.string() << " " << axis << " " << i);
          // Also as an operand of a computation.
          if (element == dtype::float32)
            BOOST_TEST(
                same_bits(result_of({x}, [&](const auto& v) { return -(-select(v[0], axis, i)); }, no_passes), want));
        }
  array x = some(dtype::float32, {3, 4});
  BOOST_TEST(
      same_bits(result_of({x}, [](const auto& v) { return v[0][2][1]; }), array_of(dtype::float32, {}, {x.values[9]})));
}

BOOST_AUTO_TEST_CASE(parts) {
  for (auto element : types)
    for (const auto& s : {shape{6}, shape{6, 2}, shape{3, 6}, shape{2, 6, 3}})
      for (int axis = 0; axis < s.rank; ++axis) {
        if (s.at(axis) != 6) continue;
        array x = some(element, s);
        for (auto sizes : {std::vector<std::int64_t>{6}, {2, 2, 2}, {1, 5}, {0, 4, 2}, {3, 3}}) {
          auto r = results_of({x}, [&](const auto& v) { return split(v[0], view<const std::int64_t>(sizes), axis); });
          BOOST_REQUIRE(r.size() == sizes.size());
          std::int64_t first = 0;
          for (std::size_t k = 0; k < sizes.size(); ++k) {
            shape to = s;
            to[axis] = dim(sizes[k]);
            BOOST_TEST(same_bits(r[k], gathered(x, to, [&](std::int64_t* index) {
                                   index[axis] += first;
                                   return true;
                                 })));
            first += sizes[k];
          }
          if (std::all_of(sizes.begin(), sizes.end(), [&](auto n) { return n == sizes[0]; })) {
            auto even = results_of({x}, [&](const auto& v) {
              return split(v[0], static_cast<std::int64_t>(sizes.size()), axis - s.rank);
            });
            for (std::size_t k = 0; k < sizes.size(); ++k) BOOST_TEST(same_bits(even[k], r[k]));
          }
          // Concatenated again.
          BOOST_TEST(same_bits(
              result_of(
                  {x}, [&](const auto& v) { return concat(split(v[0], view<const std::int64_t>(sizes), axis), axis); }),
              x));
        }
      }
}

BOOST_AUTO_TEST_CASE(parts_of_an_extent_known_later) {
  auto run = [](std::int64_t n) {
    small_graph g;
    g.data = {some(dtype::float32, {n, 2})};
    value x = g.p.input("x", {dtype::float32, {"N", 2}});
    for (const auto& v : split(x, 3)) g.output(v);
    auto r = g.run();
    return r.size() == 3 && r[2].shape() == shape{n / 3, 2};
  };
  BOOST_TEST(run(6));
  BOOST_TEST(run(0));
  BOOST_TEST(message_of([&] { run(7); }) == "split_evenly: axis 0 does not divide into 3 equal parts: [7x2]");
  auto sized = [](std::int64_t n) {
    small_graph g;
    g.data = {some(dtype::float32, {n, 2})};
    for (const auto& v : split(g.p.input("x", {dtype::float32, {"N", 2}}), {1, 2})) g.output(v);
    g.run();
  };
  sized(3);
  BOOST_TEST(message_of([&] { sized(4); }) == "split: the parts of axis 0 add up to 3 positions: [4x2]");
  BOOST_TEST(message_of([] {
               small_graph g;
               g.data = {some(dtype::float32, {2, 2})};
               g.output(g.p.input("x", {dtype::float32, {"N", 2}})[2]);
               g.run();
             }) == "select: position 2 is outside of axis 0: [2x2]");
}

BOOST_AUTO_TEST_CASE(stacks_and_inverse_permutations) {
  for (auto element : types) {
    array x = some(element, {2, 3}), y = random_array(element, {2, 3}, 2, 0, 100);
    for (int axis = -3; axis < 3; ++axis) {
      array r = result_of({x, y}, [&](const auto& v) { return stack(v, axis); });
      int at = axis < 0 ? axis + 3 : axis;
      shape to{2, 3};
      to.rank = 3;
      for (int d = 2; d > at; --d) to[d] = to[d - 1];
      to[at] = 2;
      BOOST_TEST((r.shape() == to));
      auto back = results_of(
          {r}, [&](const auto& v) { return std::vector<value>{select(v[0], axis, 0), select(v[0], axis, 1)}; });
      BOOST_TEST(same_bits(back[0], x));
      BOOST_TEST(same_bits(back[1], y));
    }
    array z = some(element, {2, 3, 4});
    BOOST_TEST(same_bits(
        result_of({z},
                  [](const auto& v) { return permute_inverse(value(permute(v[0], axes(2, 0, 1))), axes(2, 0, 1)); }),
        z));
    BOOST_TEST(same_bits(result_of({z}, [](const auto& v) { return permute_inverse<2, 0, 1>(v[0]); }),
                         result_of({z}, [](const auto& v) { return permute<1, 2, 0>(v[0]); })));
  }
}

BOOST_AUTO_TEST_CASE(tiles) {
  for (auto element : types)
    for (const auto& s : {shape{}, shape{3}, shape{1}, shape{2, 3}, shape{1, 4}, shape{0, 3}, shape{2, 1, 3}})
      for (const auto& n : {shape{}, shape{1}, shape{2}, shape{3, 2}, shape{1, 2, 1}, shape{2, 1, 2, 3}, shape{0, 2}}) {
        array x = some(element, s);
        shape to;
        to.rank = std::max(s.rank, n.rank);
        for (int i = 0; i < to.rank; ++i) {
          int from = i - (to.rank - s.rank), by = i - (to.rank - n.rank);
          to[i] = dim((from < 0 ? 1 : s.at(from)) * (by < 0 ? 1 : n.at(by)));
        }
        array want = gathered(x, to, [&](std::int64_t* index) {
          for (int i = 0; i < s.rank; ++i) index[i] = index[i + to.rank - s.rank] % s.at(i);
          return true;
        });
        BOOST_CHECK_MESSAGE(same_bits(result_of({x}, [&](const auto& v) { return tile(v[0], n); }), want),
                            s.string() << " " << n.string());
        if (to.size()) BOOST_TEST(same_bits(result_of({x}, [&](const auto& v) { return tile_to(v[0], to); }), want));
      }
  // More repeated axes than a copy supports.
  array deep = some(dtype::float32, {2, 3, 2, 2, 3});
  BOOST_TEST(same_bits(result_of({deep}, [](const auto& v) { return tile(v[0], {2, 2, 3, 2, 2}); }),
                       gathered(deep, {4, 6, 6, 4, 6}, [](std::int64_t* i) {
                         i[0] %= 2, i[1] %= 3, i[2] %= 2, i[3] %= 2, i[4] %= 3;
                         return true;
                       })));
  array x = some(dtype::float32, {2, 3});
  BOOST_TEST(same_bits(result_of({x}, [](const auto& v) { return tile_to(v[0], {2, 5, 3}, axes(1)); }),
                       gathered(x, {2, 5, 3}, [](std::int64_t* i) {
                         i[1] = i[2];
                         return true;
                       })));
  small_graph g;
  g.data = {x, some(dtype::float32, {4, 1})};
  value named = g.p.input("x", {dtype::float32, {dyn, 3}});
  g.p.input("y", {dtype::float32, {"N", 1}});
  g.output(tile_to(named, {"N", 6}));
  BOOST_TEST((g.run()[0].shape() == shape{4, 6}));
}

BOOST_AUTO_TEST_CASE(repetitions) {
  for (auto element : types)
    for (const auto& s : {shape{3}, shape{2, 3}, shape{1, 4}, shape{0, 3}, shape{2, 1, 3}, shape{3, 0}})
      for (int axis = 0; axis < s.rank; ++axis)
        for (std::int64_t n : {0, 1, 2, 5}) {
          array x = some(element, s);
          shape to = s;
          to[axis] = dim(s.at(axis) * n);
          array want = gathered(x, to, [&](std::int64_t* index) {
            index[axis] /= n;
            return true;
          });
          BOOST_CHECK_MESSAGE(same_bits(result_of({x}, [&](const auto& v) { return repeat(v[0], n, axis); }), want),
                              s.string() << " " << axis << " " << n);
        }
}

BOOST_AUTO_TEST_CASE(borders) {
  for (auto element : types)
    for (const auto& s : {shape{3}, shape{2, 3}, shape{40, 2}, shape{0, 3}, shape{2, 1, 3}, shape{3, 0}})
      for (int axis = 0; axis < s.rank; ++axis)
        for (auto [before, after] : {std::tuple{0, 0}, {1, 0}, {0, 2}, {2, 3}}) {
          array x = some(element, s);
          shape to = s;
          to[axis] = dim(s.at(axis) + before + after);
          array want = gathered(
              x, to,
              [&, b = before](std::int64_t* index) {
                index[axis] -= b;
                return index[axis] >= 0 && index[axis] < s.at(axis);
              },
              1);
          BOOST_CHECK_MESSAGE(same_bits(result_of({x},
                                                  [&, b = before, a = after](const auto& v) {
                                                    return pad(v[0],
                                                               {.axis = axis, .before = b, .after = a, .value = 1});
                                                  }),
                                        want),
                              s.string() << " " << axis << " " << before << " " << after);
        }
}

BOOST_AUTO_TEST_CASE(contractions) {
  for (auto element : {dtype::float32, dtype::float64})
    for (auto [a, b, n] : {std::tuple{shape{3}, shape{3}, 1},
                           {shape{2, 3}, shape{3}, 1},
                           {shape{3}, shape{3, 4}, 1},
                           {shape{2, 3}, shape{3, 4}, 1},
                           {shape{2, 3, 4}, shape{3, 4, 5}, 2},
                           {shape{2, 3, 4}, shape{4, 5}, 1},
                           {shape{2, 3}, shape{2, 3}, 2},
                           {shape{2}, shape{3}, 0},
                           {shape{2, 2, 3}, shape{3, 4, 2}, 1},
                           {shape{2, 0}, shape{0, 3}, 1},
                           {shape{0, 2}, shape{2, 3}, 1},
                           {shape{}, shape{2}, 0}}) {
      array x = random_array(element, a, 1), y = random_array(element, b, 2);
      array want{{element, {}}, {}};
      std::int64_t m = a.size(0, a.rank - n), k = a.size(a.rank - n, a.rank), c = b.size(n, b.rank);
      for (int i = 0; i < a.rank - n; ++i) want.type.dims.push_back(a[i]);
      for (int i = n; i < b.rank; ++i) want.type.dims.push_back(b[i]);
      for (std::int64_t i = 0; i < m; ++i)
        for (std::int64_t j = 0; j < c; ++j) {
          double sum = 0;
          for (std::int64_t l = 0; l < k; ++l)
            sum += x.values[static_cast<std::size_t>(i * k + l)] * y.values[static_cast<std::size_t>(l * c + j)];
          want.values.push_back(sum);
        }
      for (const auto& o : {pass_options{}, no_passes}) {
        array got = result_of(
            {x, y},
            [count = n](const auto& v) -> value {
              return count == 0 ? dot<0>(v[0], v[1]) : count == 1 ? dot<1>(v[0], v[1]) : dot<2>(v[0], v[1]);
            },
            o);
        BOOST_CHECK_MESSAGE(distance(got, want) < (element == dtype::float32 ? 1e-5 : 1e-13),
                            a.string() << " " << b.string() << " " << n);
      }
    }
  // One matrix product and no copies.
  small_graph g;
  g.output(
      dot<2>(g.input(random_array(dtype::float32, {2, 3, 4}, 1)), g.input(random_array(dtype::float32, {3, 4, 5}, 2))));
  g.run();
  BOOST_TEST(g.plan->lines().size() == 1u);
}

BOOST_AUTO_TEST_CASE(interpolation) {
  array a = random_array(dtype::float32, {2, 3}, 1), b = random_array(dtype::float32, {3}, 2),
        l = random_array(dtype::float32, {2, 1}, 3, 0, 1);
  array r = result_of({a, b, l}, [](const auto& v) { return interpolate(v[0], v[1], v[2]); });
  for (std::size_t i = 0; i < 6; ++i) {
    double t = l.values[i / 3];
    BOOST_TEST(r.values[i] == a.values[i] * t + b.values[i % 3] * (1 - t), boost::test_tools::tolerance(1e-5));
  }
  BOOST_TEST(distance(result_of({a, b}, [](const auto& v) { return interpolate(v[0], v[1], 0.25); }),
                      result_of({a, b}, [](const auto& v) { return v[0] * 0.25 + v[1] * 0.75; })) < 1e-6);
}

BOOST_AUTO_TEST_CASE(the_typed_mode_agrees) {
  matrix<float, 2, 3> x{{1, 2, 3}, {4, 5, 6}};
  matrix<float> m{{1, 2, 3}, {4, 5, 6}};
  auto print = [](const auto& e) { return from_tensor(any_tensor(evaluate(e))); };
  for (auto r : {print(tile<2, 1>(x)), print(tile<2, 1>(m)), print(tile_to<extents<4, 3>>(m))})
    BOOST_TEST(is(r, {4, 3}, {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6}));
  BOOST_TEST((decltype(tile<2, 1>(x))::pattern == shape{4, 3}));
  BOOST_TEST(is(print(tile_to<extents<2, 2, 3>, 1>(x)), {2, 2, 3}, {1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6}));
  BOOST_TEST(is(print(repeat<2, 1>(m)), {2, 6}, {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}));
  BOOST_TEST(is(print(pad<pad_attributes{.axis = 1, .before = 1, .value = 9}>(x)), {2, 4}, {9, 1, 2, 3, 9, 4, 5, 6}));
  BOOST_TEST(is(print(unsqueeze<1>(m)), {2, 1, 3}, {1, 2, 3, 4, 5, 6}));
  BOOST_TEST(is(print(squeeze<1>(unsqueeze<1>(m))), {2, 3}, {1, 2, 3, 4, 5, 6}));
  BOOST_TEST(is(print(stack<2>(x, x)), {2, 3, 2}, {1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6}));
  BOOST_TEST(is(print(permute_inverse<1, 0>(m)), {3, 2}, {1, 4, 2, 5, 3, 6}));
  BOOST_TEST(is(print(select<1, -1>(x)), {2}, {3, 6}));
  BOOST_TEST(is(print((x * 2)[1]), {3}, {8, 10, 12}));
  BOOST_TEST(is(print((m * 2)[1][0]), {}, {8}));
  BOOST_TEST(is(print(make_dynamic(m * 2)[0]), {3}, {2, 4, 6}));
  BOOST_TEST(message_of([&] { (m * 2)[2]; }) == "select: position 2 is outside of axis 0: [2x3]");
  BOOST_TEST(message_of([&] { (m * 2)[1][3]; }) == "select: position 3 is outside of axis 0: [3]");
  auto [left, right] = split<axes(1, 2), 1>(x);
  BOOST_TEST(is(print(left), {2, 1}, {1, 4}));
  BOOST_TEST(is(print(right), {2, 2}, {2, 3, 5, 6}));
  auto [top, bottom] = split<2>(m);
  BOOST_TEST(is(print(bottom - top), {1, 3}, {3, 3, 3}));
  BOOST_TEST(item(dot<2>(x, m)) == 91);
  BOOST_TEST(is(print(dot(x, vector<float>{1, 0, 1})), {2}, {4, 10}));
  BOOST_TEST(is(print(interpolate(x, m * 0, 0.5)), {2, 3}, {0.5, 1, 1.5, 2, 2.5, 3}));
  BOOST_TEST(message_of([&] { dot(m, m); }) ==
             "dot: the last axis of the first does not match the first of the second: [2x3] [2x3]");
  BOOST_TEST(message_of([&] { select<0, 3>(vector<float>{1, 2, 3}); }) ==
             "select: position 3 is outside of axis 0: [3]");
  BOOST_TEST(message_of([&] { split<axes(1, 1)>(vector<float>{1, 2, 3}); }) ==
             "split: the parts of axis 0 add up to 2 positions: [3]");
  BOOST_TEST(message_of([&] { tile_to<extents<3, 3>>(m); }) ==
             "tile_to: extent 3 of [3x3] is not a multiple of 2: [2x3]");
}

BOOST_AUTO_TEST_CASE(types_alone_agree) {
  message_text why;
  auto of = [&](dtype t, const shape& s) { return traced({t, s}, &why); };
  auto x = of(dtype::float32, {"N", 3, 4});
  BOOST_TEST((dot<2>(x, of(dtype::float32, {3, 4, 5})).shape() == shape{"N", 5}));
  BOOST_TEST((softmax_over_last<2>(x).shape() == shape{"N", 3, 4}));
  BOOST_TEST((select(x, 1, -1).shape() == shape{"N", 4}));
  BOOST_TEST((tile(x, {2, 1}).shape() == shape{"N", 6, 4}));
  BOOST_TEST((embedding(of(dtype::float32, {10, 8}), of(dtype::int64, {"N", 6})).shape() == shape{"N", 6, 8}));
  BOOST_TEST((std::get<1>(split<axes(1, 2), 1>(x)).shape() == shape{"N", 2, 4}));
  BOOST_TEST((top_k<2>(x).indices.type == tensor_type{dtype::int64, {"N", 3, 2}}));
  BOOST_TEST((nll_loss(x, x).shape() == shape{}));
  BOOST_TEST(std::string(why.view()) == "");
  dot<1>(x, of(dtype::float32, {5}));
  BOOST_TEST(std::string(why.view()) ==
             "dot: the last axis of the first does not match the first of the second: [Nx3x4] [5]");
}

BOOST_AUTO_TEST_CASE(words) {
  small_graph g;
  auto f = [&](const shape& s, dtype t = dtype::float32) { return g.p.input("f", {t, s}); };
#define SAYS(expression, words) BOOST_TEST(message_of([&] { (void)(expression); }) == words)
  SAYS(unsqueeze(f({2, 3}), axes(3)), "unsqueeze: the axes {3} are not distinct axes of a result of rank 3: [2x3]");
  SAYS(unsqueeze(f({1, 1, 1, 1, 1, 1, 1, 1}), axes(0)),
       "unsqueeze: the result would have rank 9; the limit is 8: [1x1x1x1x1x1x1x1]");
  SAYS(squeeze(f({2, 3}), axes(0)), "squeeze: axis 0 has 2 positions, not one: [2x3]");
  SAYS(squeeze(f({2, 3}), axes(2)), "squeeze: the axes {2} are not distinct axes of the operand: [2x3]");
  SAYS(squeeze(f({"N", 1})), "squeeze: axis 0 is not known yet; name the axes: [Nx1]");
  SAYS(select(f({2, 3}), 2, 0), "select: axis 2 is outside the rank: [2x3]");
  SAYS(select(f({2, 3}), 1, 3), "select: position 3 is outside of axis 1: [2x3]");
  SAYS(select(f({2, 3}), 1, -4), "select: position -4 is outside of axis 1: [2x3]");
  SAYS(f({})[0], "select: axis 0 is outside the rank: []");
  SAYS(split(f({2, 3}), 2, 1), "split_evenly: axis 1 does not divide into 2 equal parts: [2x3]");
  SAYS(split(f({2, 3}), 0, 1), "split_evenly: 0 parts: [2x3]");
  SAYS(split(f({2, 3}), {2, 2}, 1), "split: the parts of axis 1 add up to 4 positions: [2x3]");
  SAYS(split(f({2, 3}), {4, -1}, 1), "split: a part cannot have -1 positions: [2x3]");
  // without a tensor there is no program to record the location
  const std::string here = __FILE__ ":";
  BOOST_TEST(message_of([&] { (void)(stack({}, 0)); }) == here + std::to_string(__LINE__) + ": stack: no tensors");
  BOOST_TEST(message_of([&] { (void)(concat({}, 0)); }) == here + std::to_string(__LINE__) + ": concat: no tensors");
  SAYS(tile(f({2, 3}), {"N"}), "tile: the repeats [N] must be known: [2x3]");
  SAYS(tile(f({2, 3}), {std::numeric_limits<std::int64_t>::max()}),
       "tile: 9223372036854775807 tiles are too many: [2x3]");
  SAYS(tile_to(f({2, 3}), {3, 3}), "tile_to: extent 3 of [3x3] is not a multiple of 2: [2x3]");
  SAYS(tile_to(f({2, 3}), {3}), "tile_to: the rank of [3] is less than that of the operand: [2x3]");
  SAYS(tile_to(f({2, 3}), {dyn, 3}), "tile_to: no extent of [?x3] can be inferred: [2x3]");
  SAYS(repeat(f({2, 3}), 2, 2), "repeat: axis 2 is outside the rank: [2x3]");
  SAYS(repeat(f({2, 3}), -1), "repeat: elements cannot be repeated -1 times: [2x3]");
  SAYS(pad(f({2, 3}), {.axis = 4}), "pad: axis 4 is outside the rank: [2x3]");
  SAYS(pad(f({2, 3}), {.axis = 0, .before = -1}), "pad: a border cannot have -1 positions before and 0 after: [2x3]");
  SAYS(pad(f({2, 3}, dtype::int8), {.axis = 0, .before = 1, .value = 300}),
       "pad: the number 300 does not fit int8, which holds -128 to 127; cast the tensor first, as in cast<float>(x): "
       "int8[2x3]");
  SAYS(dot<1>(f({2, 3}), f({2, 3})),
       "dot: the last axis of the first does not match the first of the second: [2x3] [2x3]");
  SAYS(dot<2>(f({2, 3}), f({3, 3})),
       "dot: the last axes of the first do not match the first axes of the second: [2x3] [3x3]");
  SAYS(dot<2>(f({2}), f({3, 3})), "dot: both operands must have 2 axes or more: [2] [3x3]");
  SAYS(dot<1>(f({2, 3}), f({3}, dtype::float64)),
       "dot: the element types differ; cast one of them: float32[2x3] float64[3]");
  SAYS(dot<0>(f({1, 1, 1, 1, 1}), f({1, 1, 1, 1})),
       "dot: the result would have rank 9; the limit is 8: [1x1x1x1x1] [1x1x1x1]");
#undef SAYS
}

BOOST_AUTO_TEST_SUITE_END()
