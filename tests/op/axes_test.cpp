// Axes and attributes as run-time arguments give the same as in the type, for typed operands and program values.
#include <boost/test/unit_test.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>

import lamina;

#include "message.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

using block = tensor<float, extents<2, 3, 4>>;
block numbers() {
  block x;
  for (int i = 0; i < 24; ++i) x.writable()[static_cast<std::size_t>(i)] = static_cast<float>((i * 7) % 11);
  return x;
}
const block x = numbers();
const int one = 1;  // not a compile-time constant for the types

void alike(const char* what, const auto& a, const auto& b) {
  const auto first = evaluate(a);
  const auto second = evaluate(b);
  bool equal = first.shape() == second.shape();
  for (std::size_t i = 0; equal && i < first.data().size(); ++i) equal = first.data()[i] == second.data()[i];
  BOOST_TEST(equal, what << ": " << first << " and " << second);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(axes_at_run_time)

BOOST_AUTO_TEST_CASE(reductions_take_lists_and_attributes) {
  alike("list", reduce_sum<axes(0, 2)>(x), reduce_sum(x, {0, 2}));
  alike("one", reduce_sum<axes(1)>(x), reduce_sum(x, {.axes = one}));
  alike("one list", reduce_sum<axes(1)>(x), reduce_sum(x, {one}));
  alike("kept", reduce_mean<axes(0, 2), true>(x), reduce_mean(x, {.axes = {0, 2}, .keepdim = true}));
  alike("kept one", reduce_max<axes(1), true>(x), reduce_max(x, {.axes = one, .keepdim = true}));
  alike("kept all", reduce_max<axes(), true>(x), reduce_max(x, {.keepdim = true}));
  alike("all", reduce_sum(x), sum<axes()>(x));
}
BOOST_AUTO_TEST_CASE(reductions_have_their_usual_names) {
  alike("sum", reduce_sum<axes(1)>(x), sum<1>(x));
  alike("sum list", reduce_sum<axes(1, 2)>(x), sum(x, {1, 2}));
  alike("mean", reduce_mean<axes(1)>(x), mean<axes(1)>(x));
  alike("max", reduce_max<axes(1)>(x), max<1>(x));
  alike("max attributes", reduce_max<axes(1)>(x), max(x, {.axes = 1}));
  alike("min kept", reduce_min<axes(1), true>(x), min(x, {.axes = 1, .keepdim = true}));
  alike("prod", reduce_prod(x), prod(x));
  alike("maximum", max(x, 5), max(x, filled(5.f, 2, 3, 4)));
}
BOOST_AUTO_TEST_CASE(functions_along_one_axis) {
  alike("argmax", argmax<1>(x), argmax(x, {.axis = one}));
  alike("argmax kept", argmax<1, true>(x), argmax(x, {.axis = one, .keepdim = true}));
  alike("argmin", argmin(x), argmin(x, {.axis = -1}));
  alike("softmax", softmax<1>(x), softmax(x, {.axis = one}));
  alike("log_softmax", log_softmax<1>(x), log_softmax(x, {.axis = one}));
}
BOOST_AUTO_TEST_CASE(views_and_tiles) {
  alike("permute", permute<2, 0, 1>(x), permute(x, {2, 0, 1}));
  alike("permute_inverse", permute_inverse<2, 0, 1>(x), permute_inverse(x, axes(2, 0, 1)));
  alike("reshape", reshape<extents<6, 4>>(x), reshape(x, {6, one * 4}));
  alike("reshape dyn", reshape<extents<dyn, 4>>(x), reshape(x, {dyn, 4}));
  alike("tile", tile<2, 1, 1>(x), tile(x, {2, 1, 1}));
  alike("tile rank", tile<2, 1, 1, 1>(x), tile(x, {2, 1, 1, 1}));
  alike("tile_to", tile_to<extents<2, 3, 8>>(x), tile_to(x, {2, 3, 8}));
  alike("tile_to new", tile_to<extents<2, 5, 3, 4>, 1>(x), tile_to(x, {2, 5, 3, 4}, axes(1)));
  alike("tile_to lead", tile_to<extents<5, 2, 3, 4>>(x), tile_to(x, {5, 2, 3, 4}));
  alike("repeat", repeat<2, 1>(x), repeat(x, 2, one));
  alike("repeat attributes", repeat<2, 1>(x), repeat(x, {.count = 2, .axis = one}));
  alike("pad", pad<pad_attributes{.axis = 1, .before = 1}>(x), pad(x, {.axis = one, .before = 1}));
  alike("unsqueeze", unsqueeze<1>(x), unsqueeze(x, {one}));
  alike("squeeze", squeeze<1>(unsqueeze<1>(x)), squeeze(unsqueeze(x, {1}), {1}));
  alike("slice", slice<slice_attributes{.start = 1, .axis = 1}>(x), slice(x, {.start = 1, .axis = one}));
  alike("select", select<1, 2>(x), select(x, {.axis = one, .index = 2}));
  alike("as_matrix", as_matrix<1>(x), as_matrix(x, one));
}
BOOST_AUTO_TEST_CASE(parts) {
  auto [a, b] = split<2, 2>(x);
  auto [c, d] = split<2>(x, {.axis = 2});
  alike("split", a, c);
  alike("split", b, d);
}
BOOST_AUTO_TEST_CASE(positions_and_order) {
  vector<std::int64_t> at{1, 0};
  alike("gather", gather<1>(x, at), gather(x, at, one));
  alike("gather attributes", gather<1>(x, at), gather(x, at, {.axis = one}));
  alike("cumsum", cumsum<1>(x), cumsum(x, {.axis = one}));
  alike("sort", sort<1>(x), sort(x, {.axis = one}));
  alike("argsort", argsort<1>(x), argsort(x, {.axis = one}));
  alike("top_k", top_k<2, 1>(x).values, top_k(x, {.k = 2, .axis = one}).values);
  alike("take", take_along_axis<1>(x, argsort<1>(x)), take_along_axis(x, argsort<1>(x), {.axis = one}));
  alike("positions", positions<1>(x), positions(x, {.axis = one}));
  alike("one_hot", to_one_hot<4>(at), to_one_hot(at, 4));
  alike("scatter_add", scatter_add<1>(x, argsort<1>(x), x), scatter_add(x, argsort<1>(x), x, {.axis = one}));
}
BOOST_AUTO_TEST_CASE(products_and_norms) {
  matrix<float, 2, 3> w{{1, 2, 3}, {4, 5, 6}};
  alike("matmul", matmul<false, true>(w, w), matmul(w, w, {.transpose_b = true}));
  alike("group_norm", group_norm<1>(x), group_norm(x, {.num_groups = 1}));
  vector<float, 3> g{1, 2, 3};
  alike("group_norm", group_norm<3>(x, g, g), group_norm(x, g, g, {.num_groups = 3}));
}
BOOST_AUTO_TEST_CASE(negative_positions) {
  alike("last", x[-1], (x * 1.f)[-1]);
  alike("first", x[-2], (x * 1.f)[-2]);
  BOOST_TEST(message_of([] { x[-3]; }) == "index (-3) is outside the shape [2x3x4]");
  BOOST_TEST(message_of([] { (void)(x * 1.f)[-3]; }) == "select: position -3 is outside of axis 0: [2x3x4]");
}
BOOST_AUTO_TEST_CASE(gradients_go_through) {
  alike("gradient", gradient<"w">(sum(sum<axes(1)>(var<"w">(x) * x) * 2)),
        gradient<"w">(sum(sum(var<"w">(x) * x, {.axes = 1}) * 2)));
  alike("permuted", gradient<"w">(sum(permute<2, 0, 1>(var<"w">(x)) * permute<2, 0, 1>(x))),
        gradient<"w">(sum(permute(var<"w">(x), {2, 0, 1}) * permute(x, {2, 0, 1}))));
}
// Plans are cached by axes: another axis is another plan.
BOOST_AUTO_TEST_CASE(each_axis_has_its_result) {
  for (int axis : {0, 1, 2, -1}) {
    const auto s = evaluate(sum(x, {axis}));
    BOOST_TEST(s.shape().string() == (axis == 0 ? "[3x4]" : axis == 1 ? "[2x4]" : "[2x3]"));
    BOOST_TEST(item(sum(s)) == item(sum(x)));
  }
}
BOOST_AUTO_TEST_CASE(values_of_a_program_take_the_same) {
  const auto same_type = [](const value& a, const value& b) { BOOST_TEST((a.type() == b.type())); };
  program p;
  const value v = p.input("v", {dtype::float32, {2, 3, 4}});
  same_type(sum<axes(0, 2)>(v), sum(v, {0, 2}));
  same_type(sum<axes(0, 2), true>(v), sum(v, {.axes = {0, 2}, .keepdim = true}));
  same_type(mean<axes(), true>(v), mean(v, {.keepdim = true}));
  same_type(argmax<1>(v), argmax(v, {.axis = 1}));
  same_type(softmax<1>(v), softmax(v, {.axis = 1}));
  same_type(permute<2, 0, 1>(v), permute(v, {2, 0, 1}));
  same_type(reshape<extents<6, 4>>(v), reshape(v, {6, 4}));
  same_type(unsqueeze<1>(v), unsqueeze(v, {1}));
  same_type(squeeze<0>(slice(v, {.stop = 1})), squeeze(slice<slice_attributes{.stop = 1}>(v), {0}));
  same_type(tile<2, 1, 1>(v), tile(v, {2, 1, 1}));
  same_type(select<1, 2>(v), select(v, {.axis = 1, .index = 2}));
  const value two[] = {v, v};
  same_type(concat<1>(v, v), concat(two, 1));
  same_type(stack<1>(v, v), stack(two, 1));
}
BOOST_AUTO_TEST_CASE(what_does_not_fit_is_said_when_the_expression_is_made) {
  BOOST_TEST(message_of([] { sum(x, {0, 0}); }) ==
             "reduce_sum: the axes {0, 0} are not distinct axes of the operand: [2x3x4]");
  BOOST_TEST(message_of([] { sum(x, {3}); }) ==
             "reduce_sum: the axes {3} are not distinct axes of the operand: [2x3x4]");
  BOOST_TEST(message_of([] { permute(x, {0, 1}); }) ==
             "permute: the order {0, 1} does not name every axis once: [2x3x4]");
  BOOST_TEST(message_of([] { reshape(x, {5, dyn}); }) == "reshape: 24 elements do not divide into [5x?]: [2x3x4]");
  BOOST_TEST(message_of([] { group_norm(x, {.num_groups = 2}); }) ==
             "group_norm: 3 channels do not divide into 2 groups: [2x3x4]");
}
BOOST_AUTO_TEST_CASE(more_than_six_expressions_at_once) {
  auto [e1, e2, e3, e4, e5, e6, e7, e8, e9, e10, e11, e12] =
      evaluate(x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9, x + 10, x + 11);
  alike("seventh", e7, x + 6);
  alike("twelfth", e12, x + 11);
}
BOOST_AUTO_TEST_CASE(element_types_that_are_left_out_are_float) {
  alike("one_hot", one_hot(5, 2), one_hot<float>(5, 2));
  alike("zeros", zeros(5, 2), zeros<float>(5, 2));
}

BOOST_AUTO_TEST_SUITE_END()
