// Operations that only gradients add, tested alone: second derivatives go through them, third derivatives through their
// gradients.
module;
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

module lamina;

#include "graph.h"

#include "gradient_check.h"

#include "check.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

// Only the shape of the second operand is read.
struct problem {
  shape x, like;
  value (*run)(const values&);
};
void each(std::string_view name, const std::vector<problem>& all) {
  for (const auto& [x, like, run] : all)
    check_twice(name, {real(x, 1), real(like, 2)}, [f = run](const values& v) { return values{f(v)}; });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_of_adjoints)

BOOST_AUTO_TEST_CASE(of_slices_parts_and_joins) {
  each("slice_grad",
       {{{3}, {5}, [](const values& v) { return apply<op::slice_grad>({.start = 1, .stop = 4}, v[0], v[1]); }},
        {{2, 1}, {2, 4}, [](const values& v) { return apply<op::slice_grad>({.start = 3, .axis = 1}, v[0], v[1]); }},
        {{0, 3}, {0, 5}, [](const values& v) { return apply<op::slice_grad>({.stop = 3, .axis = -1}, v[0], v[1]); }},
        {{1}, {1}, [](const values& v) { return apply<op::slice_grad>({}, v[0], v[1]); }},
        {{2, 2, 2}, {2, 4, 2}, [](const values& v) {
           return apply<op::slice_grad>({.axis = 1, .step = 2}, v[0], v[1]);
         }}});
  each("split_grad",
       {{{2}, {4}, [](const values& v) { return apply<op::split_grad>({.part = 1, .parts = 2}, v[0], v[1]); }},
        {{2, 1},
         {2, 3},
         [](const values& v) { return apply<op::split_grad>({.axis = 1, .part = 0, .parts = 3}, v[0], v[1]); }},
        {{0, 3}, {0, 3}, [](const values& v) { return apply<op::split_grad>({.part = 0, .parts = 2}, v[0], v[1]); }},
        {{1}, {1}, [](const values& v) { return apply<op::split_grad>({.part = 0, .parts = 1}, v[0], v[1]); }},
        {{2, 2, 2}, {2, 6, 2}, [](const values& v) {
           return apply<op::split_grad>({.axis = 1, .part = 2, .parts = 3}, v[0], v[1]);
         }}});
  for (const auto& s : {shape{3}, shape{2, 1}, shape{0, 3}, shape{1}, shape{2, 2, 2}})
    check_twice("gradient_like", {real(s, 1), real(s, 2)},
                [](const values& v) { return values{apply<op::gradient_like>({}, v[0], v[1])}; });
  for (const auto& s : {shape{3}, shape{2, 1}, shape{0, 3}, shape{1}, shape{2, 2, 2}})
    check_twice("computed_after", {real(s, 1), real(s, 2)},
                [](const values& v) { return values{square(apply<op::computed_after>({}, v[0], square(v[1])))}; });
  struct joined {
    shape x, a, b;
    std::int64_t axis;
  };
  for (const auto& [x, a, b, axis] : {joined{{5}, {2}, {3}, 0},
                                      {{2, 3}, {2, 1}, {2, 2}, 1},
                                      {{0, 3}, {0, 2}, {0, 1}, 1},
                                      {{2, 2}, {2, 2}, {0, 2}, 0},
                                      {{1, 4, 2}, {1, 1, 2}, {1, 3, 2}, 1}})
    for (std::int64_t part : {0, 1})
      check_twice("concat_part", {real(x, 1), real(a, 2), real(b, 3)},
                  [&](const values& v) { return values{apply_all<op::concat_part>({axis, part}, v)}; });
}

BOOST_AUTO_TEST_CASE(of_tiles_and_repetitions) {
  struct sizes {
    shape tile, whole;
    std::int64_t axis;
  };
  for (const auto& [tile, whole, axis] : {sizes{{2}, {6}, 0},
                                          {{2, 3}, {2, 6}, 1},
                                          {{1}, {4}, 0},
                                          {{0, 2}, {0, 4}, 1},
                                          {{2, 1, 3}, {2, 2, 3}, 1},
                                          {{1, 1}, {1, 1}, 0}}) {
    const array small = real(tile, 1), large = real(whole, 2);
    check_twice("tile_like", {small, large},
                [](const values& v) { return values{apply<op::tile_like>({}, v[0], v[1])}; });
    check_twice("tile_grad", {large, small},
                [](const values& v) { return values{apply<op::tile_grad>({}, v[0], v[1])}; });
    check_twice("repeat_like", {small, large},
                [&](const values& v) { return values{apply<op::repeat_like>({axis}, v[0], v[1])}; });
    check_twice("repeat_grad", {large, small},
                [&](const values& v) { return values{apply<op::repeat_grad>({axis}, v[0], v[1])}; });
  }
}

BOOST_AUTO_TEST_CASE(of_reductions_and_choices) {
  struct spread {
    shape x, like;
    reduce_attributes a;
  };
  for (const auto& [x, like, a] : {spread{{}, {2, 3}, {}},
                                   {{3}, {2, 3}, {axes(0), false}},
                                   {{2, 1}, {2, 3}, {axes(1), true}},
                                   {{1, 1}, {1, 4}, {axes(1), true}},
                                   {{0}, {0, 3}, {axes(1), false}},
                                   {{2, 4}, {2, 3, 4}, {axes(-2), false}},
                                   {{2}, {2, 0}, {axes(1), false}},
                                   {{}, {0}, {}},
                                   {{1, 3}, {0, 3}, {axes(0), true}}}) {
    check_twice("spread", {real(x, 1), real(like, 2)},
                [&](const values& v) { return values{apply<op::spread>(a, v[0], v[1])}; });
    check_twice("spread_mean", {real(x, 1), real(like, 2)},
                [&](const values& v) { return values{apply<op::spread_mean>(a, v[0], v[1])}; });
  }
  for (const auto& s : {shape{2, 3}, shape{1, 1}, shape{0, 3}, shape{5, 2}, shape{2, 2, 3}}) {
    shape rows = s;
    --rows.rank;
    check_twice("pick_grad",
                {real(rows, 1), random_array(dtype::int64, rows, 2, 0, static_cast<double>(s.back().code)), real(s, 3)},
                [](const values& v) { return values{apply<op::pick_grad>({}, v[0], v[1], v[2])}; });
    check_twice("pick_label_grad",
                {real(rows, 1), random_array(dtype::int64, rows, 2, 0, static_cast<double>(s.back().code)), real(s, 3)},
                [](const values& v) { return values{apply<op::pick_label_grad>({true}, v[0], v[1], v[2])}; });
    check_twice("same_shape", {real(s, 1), real(s, 2)},
                [](const values& v) { return values{apply<op::same_shape>({}, v[0], v[1])}; });
  }
}

BOOST_AUTO_TEST_CASE(of_images) {
  struct convolution {
    shape x, w, y;
    conv2d_attributes a;
  };
  for (const auto& [x, w, y, a] : {convolution{{2, 2, 4, 3}, {3, 2, 2, 2}, {2, 3, 3, 2}, {}},
                                   {{1, 1, 1, 1}, {1, 1, 1, 1}, {1, 1, 1, 1}, {}},
                                   {{0, 2, 3, 3}, {2, 2, 3, 3}, {0, 2, 3, 3}, {.padding = 1}},
                                   {{1, 4, 5, 4}, {2, 2, 3, 2}, {1, 2, 2, 2}, {.stride = 2, .groups = 2}},
                                   {{2, 1, 5, 5}, {1, 1, 2, 2}, {2, 1, 3, 3}, {.dilation = 2}}}) {
    check_twice("conv2d_input_grad", {real(y, 1), real(w, 2), real(x, 3)},
                [&](const values& v) { return values{apply<op::conv2d_input_grad>(a, v[0], v[1], v[2])}; });
    check_twice("conv2d_weight_grad", {real(y, 1), real(x, 2), real(w, 3)},
                [&](const values& v) { return values{apply<op::conv2d_weight_grad>(a, v[0], v[1], v[2])}; });
  }
  struct pooling {
    shape x, y;
    pool2d_attributes a;
  };
  for (const auto& [x, y, a] : {pooling{{2, 2, 4, 4}, {2, 2, 2, 2}, {}},
                                {{1, 1, 2, 2}, {1, 1, 1, 1}, {}},
                                {{0, 2, 4, 4}, {0, 2, 2, 2}, {}},
                                {{1, 2, 5, 4}, {1, 2, 3, 2}, {.kernel_size = 3, .stride = 1}},
                                {{2, 1, 4, 4}, {2, 1, 3, 3}, {.kernel_size = 2, .stride = 2, .padding = 1}}})
    check_twice("avg_pool2d_grad", {real(y, 1), real(x, 2)},
                [&](const values& v) { return values{apply<op::avg_pool2d_grad>(a, v[0], v[1])}; });
}

BOOST_AUTO_TEST_CASE(of_cells) {
  for (const auto& s : {shape{2, 3}, shape{1, 1}, shape{0, 2}, shape{3, 1}, shape{1, 17}, shape{4, 2}}) {
    const shape four{s[0], 4 * s.at(1)}, three{s[0], 3 * s.at(1)};
    check_twice(
        "lstm_gates", {real(four, 1), real(s, 2)},
        [](const values& v) {
          const auto r = lstm_gates(v[0], v[1]);
          return values{r[0], r[1]};
        },
        true, extents_known::when_built);
    check_twice(
        "gru_gates", {real(three, 1), real(three, 2), real(s, 3)},
        [](const values& v) { return values{gru_gates(v[0], v[1], v[2])}; }, true, extents_known::when_built);
    // The gradient by both results, with the next cell as a separate operand.
    check_twice(
        "lstm_gates_grad", {real(four, 1), real(s, 2), real(s, 3), real(s, 4), real(s, 5)},
        [](const values& v) {
          const auto r = apply<op::lstm_gates_grad>({}, v[0], v[1], v[2], v[3], v[4]);
          return values{r[0], r[1]};
        },
        true, extents_known::when_built);
    check_twice(
        "gru_gates_grad", {real(three, 1), real(three, 2), real(s, 3), real(s, 4)},
        [](const values& v) {
          const auto r = apply<op::gru_gates_grad>({}, v[0], v[1], v[2], v[3]);
          return values{r[0], r[1], r[2]};
        },
        true, extents_known::when_built);
  }
}

BOOST_AUTO_TEST_SUITE_END()
