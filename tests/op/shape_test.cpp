// Operations that move elements against plain loops, over every element size.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
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

const dtype types[] = {dtype::float32, dtype::float64, dtype::float16, dtype::int8,
                       dtype::int16,   dtype::int64,   dtype::boolean};

// Fills a result from the operand's element at f(index).
array gathered(const array& x, const shape& to, const std::function<void(std::int64_t* index)>& f) {
  array r{{x.type.element, to}, {}};
  std::int64_t strides[max_rank];
  row_major_strides(x.shape(), strides);
  for (std::int64_t p = 0; p < to.size(); ++p) {
    std::int64_t index[max_rank] = {}, rest = p, at = 0;
    for (int i = to.rank - 1; i >= 0; --i) {
      index[i] = rest % to.at(i);
      rest /= to.at(i);
    }
    f(index);
    for (int i = 0; i < x.shape().rank; ++i) at += index[i] * strides[i];
    r.values.push_back(x.values[static_cast<std::size_t>(at)]);
  }
  return r;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(moves)

BOOST_AUTO_TEST_CASE(every_permutation) {
  for (auto element : types)
    for (const auto& s :
         {shape{3}, shape{3, 5}, shape{64, 70}, shape{0, 2}, shape{2, 3, 4}, shape{2, 1, 3, 2}, shape{17, 2, 33}}) {
      std::vector<int> order;
      for (int i = 0; i < s.rank; ++i) order.push_back(i);
      do {
        axes a;
        shape to;
        for (int i : order) {
          a.values[a.count++] = i;
          to.push_back(s[i]);
        }
        array x = random_array(element, s, 1, 0, 100);
        auto want = gathered(x, to, [&](std::int64_t* index) {
          std::int64_t moved[max_rank] = {};
          for (int i = 0; i < s.rank; ++i) moved[order[static_cast<std::size_t>(i)]] = index[i];
          std::copy(moved, moved + max_rank, index);
        });
        BOOST_CHECK_MESSAGE(same_bits(result_of({x}, [&](const auto& v) { return permute(v[0], a); }), want),
                            s.string());
      } while (std::next_permutation(order.begin(), order.end()));
    }
}

BOOST_AUTO_TEST_CASE(slices) {
  struct cut {
    slice_attributes a;
    std::vector<std::int64_t> of_seven;
  };
  const cut cuts[] = {{{}, {0, 1, 2, 3, 4, 5, 6}},
                      {{.start = 2}, {2, 3, 4, 5, 6}},
                      {{.stop = 3}, {0, 1, 2}},
                      {{.start = -2}, {5, 6}},
                      {{.stop = -2}, {0, 1, 2, 3, 4}},
                      {{.start = 1, .stop = 6, .step = 2}, {1, 3, 5}},
                      {{.start = -100, .stop = 2}, {0, 1}},
                      {{.start = 5, .stop = 2}, {}},
                      {{.start = 9}, {}},
                      {{.step = 100}, {0}},
                      {{.start = 3, .step = std::numeric_limits<std::int64_t>::max()}, {3}}};
  for (auto element : types)
    for (const auto& s : {shape{7}, shape{7, 4}, shape{3, 7}, shape{2, 7, 3}})
      for (auto c : cuts)
        for (int axis = 0; axis < s.rank; ++axis) {
          if (s.at(axis) != 7) continue;
          c.a.axis = axis;
          array x = random_array(element, s, 1, 0, 100);
          shape to = s;
          to[axis] = dim(c.of_seven.size());
          auto want = gathered(
              x, to, [&](std::int64_t* index) { index[axis] = c.of_seven[static_cast<std::size_t>(index[axis])]; });
          BOOST_CHECK_MESSAGE(same_bits(result_of({x}, [&](const auto& v) { return value(slice(v[0], c.a)); }), want),
                              s.string() << " axis " << axis);
        }
}

BOOST_AUTO_TEST_CASE(concatenations) {
  for (auto element : types)
    for (int axis = 0; axis < 3; ++axis)
      for (const auto& sizes : {std::vector<std::int64_t>{2, 3}, {1}, {1, 0, 4}, {5, 1, 1, 2}}) {
        std::vector<array> parts;
        shape whole{2, 3, 4};
        whole[axis] = dim(0);
        for (auto n : sizes) {
          shape s = whole;
          s[axis] = dim(n);
          parts.push_back(random_array(element, s, static_cast<int>(n), 0, 100));
        }
        std::int64_t total = 0;
        for (auto n : sizes) total += n;
        whole[axis] = dim(total);
        auto got = result_of(parts, [&](const auto& v) { return apply_all<op::concat>({axis}, v); });
        BOOST_TEST((got.shape() == whole));
        std::int64_t first = 0;  // slicing the result gives the parts again
        for (std::size_t i = 0; i < parts.size(); ++i) {
          auto part = result_of({got}, [&](const auto& v) {
            return value(slice(v[0], {.start = first, .stop = first + sizes[i], .axis = axis}));
          });
          BOOST_TEST(same_bits(part, parts[i]));
          first += sizes[i];
        }
      }
}

BOOST_AUTO_TEST_CASE(reshapes) {
  for (auto element : types) {
    array x = random_array(element, {2, 3, 4}, 1, 0, 100);
    for (const auto& [to, becomes] : {std::pair<shape, shape>{{6, 4}, {6, 4}},
                                      {{dyn}, {24}},
                                      {{2, dyn}, {2, 12}},
                                      {{dyn, 1, 8}, {3, 1, 8}},
                                      {{dyn, dyn, 2, 2}, {2, 3, 2, 2}},
                                      {{dyn, dyn}, {2, 12}},
                                      {{dyn, 1, dyn, 2}, {2, 1, 6, 2}},
                                      {{1, 2, 3, 4, 1}, {1, 2, 3, 4, 1}}}) {
      auto got = result_of({x}, [&](const auto& v) { return reshape(v[0], to); });
      BOOST_TEST((got.shape() == becomes));
      BOOST_TEST(got.values == x.values, boost::test_tools::per_element());
    }
    BOOST_TEST((result_of({x}, [](const auto& v) { return flatten(v[0]); }).shape() == shape{2, 12}));
    BOOST_TEST((result_of({x}, [](const auto& v) { return flatten(v[0], {.from = 0}); }).shape() == shape{24}));
    BOOST_TEST((result_of({x}, [](const auto& v) { return flatten(v[0], {.from = -1}); }).shape() == shape{2, 3, 4}));
    BOOST_TEST((result_of({x}, [](const auto& v) { return flatten(v[0], {.from = 3}); }).shape() == shape{2, 3, 4, 1}));
  }
  BOOST_TEST((result_of({array_of(dtype::float32, {}, {5})}, [](const auto& v) {
                return flatten(v[0], {.from = 0});
              }).shape() == shape{1}));
}

namespace {

// flatten with its axis in the type against the same with the axis as an attribute.
template <std::int64_t From, class Tensor> void flattened(const Tensor& x) {
  array held{{dtype::float32, x.shape()}, {}};
  for (std::int64_t i = 0; i < x.shape().size(); ++i) held.values.push_back(x.data()[static_cast<std::size_t>(i)]);
  auto want = result_of({held}, [](const auto& v) { return flatten(v[0], {.from = From}); });
  auto in_type = result_of({held}, [](const auto& v) { return value(flatten<From>(v[0])); });
  auto typed = evaluate(flatten<From>(x));
  BOOST_TEST((typed.shape() == want.shape()));
  BOOST_TEST((in_type.shape() == want.shape()));
  BOOST_TEST(std::vector<double>(typed.data().begin(), typed.data().end()) == want.values,
             boost::test_tools::per_element());
}

}  // namespace

BOOST_AUTO_TEST_CASE(flattening_from_any_axis) {
  tensor<float, extents<2, 3, 4, 5>> x;
  tensor<float, extents<dyn, 3, dyn, dyn>> y(2, 3, 1, 4);
  for (std::int64_t i = 0; i < x.shape().size(); ++i) x.writable()[static_cast<std::size_t>(i)] = static_cast<float>(i);
  for (std::int64_t i = 0; i < y.shape().size(); ++i) y.writable()[static_cast<std::size_t>(i)] = static_cast<float>(i);
  [&]<std::int64_t... From>(std::integer_sequence<std::int64_t, From...>) {
    (flattened<From - 4>(x), ...);
    (flattened<From - 4>(y), ...);
  }(std::make_integer_sequence<std::int64_t, 9>());
  static_assert(std::same_as<decltype(evaluate(flatten(x))), tensor<float, extents<2, 60>>>);
  static_assert(std::same_as<decltype(evaluate(flatten<2>(x))), tensor<float, extents<2, 3, 20>>>);
  static_assert(std::same_as<decltype(evaluate(flatten<0>(y))), tensor<float, extents<dyn>>>);
}

BOOST_AUTO_TEST_CASE(broadcast_and_sum) {
  array x = array_of(dtype::float32, {2, 1}, {1, 2}), like = random_array(dtype::float32, {3, 2, 2}, 1);
  auto r = results_of({x, like}, [](const auto& v) {
    return std::vector<value>{broadcast_like(v[0], v[1]), sum_like(broadcast_like(v[0], v[1]), v[0]), shape_of(v[1])};
  });
  BOOST_TEST(r[0].values == (std::vector<double>{1, 1, 2, 2, 1, 1, 2, 2, 1, 1, 2, 2}),
             boost::test_tools::per_element());
  BOOST_TEST((r[1].shape() == shape{2, 1}));
  BOOST_TEST(r[1].values == (std::vector<double>{6, 12}), boost::test_tools::per_element());
  BOOST_TEST(r[2].values == (std::vector<double>{3, 2, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_reshape_of_an_expression_is_no_copy_of_it) {
  matrix<float> m(4, 6);
  auto y = evaluate(reshape<extents<dyn, 8>>(m + 1));
  BOOST_TEST((y.shape() == shape{3, 8}));
  BOOST_TEST(y(2, 7) == 1);
}

BOOST_AUTO_TEST_SUITE_END()
