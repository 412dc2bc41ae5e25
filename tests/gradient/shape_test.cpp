// Gradients of operations that move elements.
#include <boost/test/unit_test.hpp>

#include <algorithm>
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

BOOST_AUTO_TEST_SUITE(gradient_of_shapes)

BOOST_AUTO_TEST_CASE(reshape_and_flatten) {
  for (const auto& [from, to] : {std::pair<shape, shape>{{2, 3}, {3, 2}},
                                 {{2, 3}, {6}},
                                 {{6}, {1, dyn, 2}},
                                 {{}, {1, 1}},
                                 {{1}, {}},
                                 {{0, 3}, {3, 0}},
                                 {{2, 3, 4}, {dyn}}})
    check_twice("reshape", {real(from, 1)}, [&](const auto& x) { return values{square(reshape(x[0], to))}; });
  for (const auto& s : {shape{2, 3, 4}, shape{2, 3}, shape{1, 1, 5}, shape{0, 2, 3}, shape{2, 2, 2, 2}})
    for (int from = 0; from < s.rank; ++from)
      check_twice("flatten", {real(s, 2)},
                  [&](const auto& x) { return values{square(flatten(x[0], {.from = from}))}; });
  for (const auto& [from, to] :
       {std::pair<shape, shape>{{2, 6}, {3, 4}}, {{1}, {}}, {{0, 3}, {2, 0}}, {{4}, {2, 1, 2}}, {{2, 2, 2}, {8}}})
    check_twice("reshape_like", {real(from, 3), real(to, 4)},
                [](const auto& x) { return values{reshape_like(square(x[0]), x[1]) * x[1]}; });
  for (const auto& s : {shape{2, 3, 4}, shape{2, 3}, shape{1, 1, 5}, shape{0, 2, 3}, shape{3}})
    for (std::int64_t leading = 0; leading <= s.rank; ++leading)
      check_twice("as_matrix", {real(s, 2)}, [&](const auto& x) { return values{square(as_matrix(x[0], leading))}; });
}

BOOST_AUTO_TEST_CASE(every_permutation) {
  for (const auto& s : {shape{3}, shape{2, 3}, shape{1, 4}, shape{0, 2}, shape{2, 3, 4}, shape{2, 1, 3, 2}}) {
    std::vector<int> order;
    for (int i = 0; i < s.rank; ++i) order.push_back(i);
    do {
      axes a;
      for (int i : order) a.values[a.count++] = i;
      check_twice("permute", {real(s, 5)}, [&](const auto& x) { return values{square(permute(x[0], a))}; });
    } while (std::next_permutation(order.begin(), order.end()));
  }
  check_twice("permute from the end", {real({2, 3, 4}, 5)},
              [](const auto& x) { return values{square(permute(x[0], axes(-1, 0, -2)))}; });
  for (const auto& s : {shape{2, 3}, shape{1, 4}, shape{0, 2}, shape{5, 2}, shape{1, 1}})
    check_twice("transpose", {real(s, 5)},
                [](const auto& x) { return values{transpose(square(transpose(x[0]))) * x[0], transpose(x[0])}; });
}

BOOST_AUTO_TEST_CASE(slices) {
  const slice_attributes cuts[] = {{},
                                   {.start = 1},
                                   {.stop = 2},
                                   {.start = 1, .stop = -1},
                                   {.start = -2},
                                   {.step = 2},
                                   {.start = 1, .stop = 4, .step = 3},
                                   {.start = 3, .stop = 1},
                                   {.stop = 100}};
  for (const auto& s : {shape{5}, shape{4, 3}, shape{3, 4, 2}, shape{1, 6}, shape{0, 5}})
    for (auto cut : cuts)
      for (int axis = 0; axis < s.rank; ++axis) {
        cut.axis = axis % 2 ? axis - s.rank : axis;
        check_twice("slice", {real(s, 6)}, [&](const auto& x) { return values{square(slice(x[0], cut))}; });
      }
}

BOOST_AUTO_TEST_CASE(concatenations) {
  const auto join = [](const auto& x) { return values{square(concat<0>(x[0], x[1], x[2]))}; };
  check_twice("concat", {real({2}, 1), real({3}, 2), real({1}, 3)}, join);
  check_twice("concat", {real({2, 3}, 1), real({1, 3}, 2), real({0, 3}, 3)}, join);
  check_twice("concat", {real({1, 2, 2}, 1), real({1, 2, 2}, 2), real({2, 2, 2}, 3)}, join);
  check_twice("concat", {real({2, 0}, 1), real({1, 0}, 2), real({2, 0}, 3)}, join);
  check_twice("concat", {real({2, 3}, 1), real({2, 1}, 2)},
              [](const auto& x) { return values{square(concat<1>(x[0], x[1]))}; });
  check_twice("concat", {real({2, 3}, 1), real({2, 1}, 2)},
              [](const auto& x) { return values{square(concat<-1>(x[0], x[1]))}; });
  check_twice("concat", {real({2, 1, 3}, 1), real({2, 2, 3}, 2)},
              [](const auto& x) { return values{square(concat<1>(x[0], x[1]))}; });
  check_twice("concat of one", {real({2, 3}, 1)}, [](const auto& x) { return values{square(concat<1>(x[0]))}; });
  check_twice("concat with itself", {real({2, 3}, 1)},
              [](const auto& x) { return values{concat<0>(x[0], square(x[0]), x[0])}; });
  check_twice("slices of a concat", {real({2, 3}, 1), real({2, 2}, 2)}, [](const auto& x) {
    return values{square(slice(concat<1>(x[0], x[1]), {.start = 1, .stop = 4, .axis = 1}))};
  });
}

BOOST_AUTO_TEST_SUITE_END()
