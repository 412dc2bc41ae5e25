// Diagnostics of operations for invalid operands: when a program is built, and when its shapes become known.
module;
#include <boost/test/unit_test.hpp>

#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

struct operands {
  small_graph g;
  value f(const shape& s) { return g.p.input("f", {dtype::float32, s}); }
  value of(dtype element, const shape& s) { return g.p.input("t", {element, s}); }
};
#define SAYS(expression, words) BOOST_TEST(message_of([&] { (void)(expression); }) == words)

}  // namespace

BOOST_AUTO_TEST_SUITE(errors)

BOOST_AUTO_TEST_CASE(elementwise) {
  operands o;
  SAYS(o.f({2, 3}) + o.f({4}), "add: the shapes do not broadcast: [2x3] [4]");
  SAYS(o.f({2, 3}) * o.f({2}), "multiply: the shapes do not broadcast: [2x3] [2]");
  SAYS(o.f({0}) + o.f({2}), "add: the shapes do not broadcast: [0] [2]");
  SAYS(o.f({2}) + o.of(dtype::float64, {2}), "add: the element types differ; cast one of them: float32[2] float64[2]");
  SAYS(exp(o.of(dtype::int32, {2})),
       "exp: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[2]");
  SAYS(exp(o.of(dtype::float16, {2})),
       "exp: takes float32 or float64, not float16; cast first, as in cast<float>(x): float16[2]");
  SAYS(-o.of(dtype::boolean, {2}),
       "negate: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[2]");
  SAYS(!o.f({2}), "logical_not: takes bool, not float32; cast first, as in cast<bool>(x): float32[2]");
  SAYS(o.f({2}) && o.f({2}),
       "logical_and: takes bool, not float32; cast first, as in cast<bool>(x): float32[2] float32[2]");
  SAYS(where(o.f({2}), o.f({2}), o.f({2})),
       "where: takes a bool condition, not float32; cast first, as in cast<bool>(x): float32[2] float32[2] float32[2]");
  SAYS(where(o.of(dtype::boolean, {3}), o.f({2}), o.f({2})),
       "where: the shapes do not broadcast: bool[3] float32[2] float32[2]");
  SAYS(clamp(o.f({2}), o.f({3}), 1), "clamp: the shapes do not broadcast: [2] [3] []");
}

BOOST_AUTO_TEST_CASE(kinds_of_errors) {
  operands o;
  BOOST_CHECK_THROW(o.f({2, 3}) + o.f({4}), shape_error);
  BOOST_CHECK_THROW(o.f({2}) + o.of(dtype::float64, {2}), type_error);
  // A single wrong element type is a type_error too; a wrong shape is not, even where element types differ.
  value i = o.of(dtype::int32, {2, 2});
  BOOST_CHECK_THROW(exp(i), type_error);
  BOOST_CHECK_THROW(bit_and(o.f({2}), o.f({2})), type_error);
  BOOST_CHECK_THROW(reduce_mean(i), type_error);
  BOOST_CHECK_THROW(softmax(i), type_error);
  BOOST_CHECK_THROW(conv2d(o.of(dtype::int32, {1, 3, 8, 8}), o.of(dtype::int32, {4, 3, 3, 3})), type_error);
  BOOST_CHECK_THROW(max_pool2d(o.of(dtype::int32, {1, 1, 3, 3}), {.kernel_size = 2}), type_error);
  BOOST_CHECK_THROW(where(o.f({2}), o.f({2}), o.f({2})), type_error);
  BOOST_CHECK_THROW(pick(o.f({2, 3}), o.f({2})), type_error);
  BOOST_CHECK_THROW(where(o.of(dtype::boolean, {3}), o.f({2}), o.f({2})), shape_error);
  BOOST_CHECK_THROW(pick(o.f({2, 3}), o.of(dtype::int64, {3})), shape_error);
  BOOST_CHECK_THROW(o.g.p.state("w", {dtype::float32, {2}}) + o.g.p.state("w", {dtype::float64, {2}}), type_error);
}

BOOST_AUTO_TEST_CASE(reductions) {
  operands o;
  SAYS(reduce_sum(o.f({2, 3}), {.axes = axes(2)}),
       "reduce_sum: the axes {2} are not distinct axes of the operand: [2x3]");
  SAYS(reduce_max(o.f({2, 3}), {.axes = axes(1, -1)}),
       "reduce_max: the axes {1, -1} are not distinct axes of the operand: [2x3]");
  SAYS(reduce_mean(o.of(dtype::int32, {2})),
       "reduce_mean: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[2]");
  SAYS(argmax(o.f({})), "argmax: axis -1 is outside the rank: []");
  SAYS(argmax(o.f({2, 0})), "argmax: axis -1 has no elements: [2x0]");
  SAYS(softmax(o.f({2}), {.axis = 1}), "softmax: axis 1 is outside the rank: [2]");
  SAYS(log_softmax(o.of(dtype::int8, {2})),
       "log_softmax: takes float32 or float64, not int8; cast first, as in cast<float>(x): int8[2]");
}

BOOST_AUTO_TEST_CASE(shapes) {
  operands o;
  SAYS(reshape(o.f({2, 3}), {4}), "reshape: 6 elements do not make [4]: [2x3]");
  SAYS(reshape(o.f({2, 3}), {4, dyn}), "reshape: 6 elements do not divide into [4x?]: [2x3]");
  SAYS(reshape(o.f({2, 3}), {0, dyn}), "reshape: 6 elements do not divide into [0x?]: [2x3]");
  SAYS(reshape(o.f({2, 3}), {2, dyn, dyn}),
       "reshape: only leading unknown extents and one more can be inferred; "
       "[2x?x?] has more: [2x3]");
  SAYS(reshape(o.f({2, 3}), {dyn, dyn, dyn, dyn}),
       "reshape: only leading unknown extents and one more can be inferred; "
       "[?x?x?x?] has more: [2x3]");
  SAYS(reshape(o.f({2, 3}), {dyn, dyn, 2}), "reshape: 3 elements do not divide into [?x?x2]: [2x3]");
  constexpr auto huge = std::int64_t(1) << 40;
  SAYS(reshape(o.f({0}), {huge, huge}), "reshape: 0 elements do not make [1099511627776x1099511627776]: [0]");
  SAYS(reshape(o.f({1}), {1, 1, 1, 1, 1, 1, 1, 1, 1}), "a tensor has at most 8 dimensions");
  SAYS(flatten(o.f({2}), {.from = 2}), "flatten: axis 2 is outside the rank: [2]");
  SAYS(permute(o.f({2, 3}), axes(0, 0)), "permute: the order {0, 0} does not name every axis once: [2x3]");
  SAYS(permute(o.f({2, 3}), axes(0)), "permute: the order {0} does not name every axis once: [2x3]");
  SAYS(permute(o.f({2, 3}), axes(0, 2)), "permute: the order {0, 2} does not name every axis once: [2x3]");
  SAYS(transpose(o.f({2, 3, 4})), "permute: the order {1, 0} does not name every axis once: [2x3x4]");
  SAYS(slice(o.f({2}), {.axis = 1}), "slice: axis 1 is outside the rank: [2]");
  SAYS(slice(o.f({2}), {.step = 0}), "slice: a step of 0 is not positive: [2]");
  SAYS(concat<1>(o.f({2, 3}), o.f({3, 3})), "concat: the sizes differ on axis 0, not only on 1: [2x3] [3x3]");
  SAYS(concat<0>(o.f({2, 3}), o.f({3})), "concat: the ranks differ: [2x3] [3]");
  SAYS(concat<2>(o.f({2, 3})), "concat: axis 2 is outside the rank: [2x3]");
  SAYS(broadcast_like(o.f({2, 3}), o.f({3})),
       "broadcast_like: the first shape does not broadcast to the second: [2x3] [3]");
  SAYS(sum_like(o.f({3}), o.f({2, 3})), "sum_like: the second shape does not broadcast to the first: [3] [2x3]");
}

// 64-bit attributes are not truncated to their lower half.
BOOST_AUTO_TEST_CASE(axes_beyond_32_bits) {
  operands o;
  constexpr auto one = (std::int64_t(1) << 32) + 1;
  constexpr auto lowest = std::numeric_limits<std::int64_t>::min(), highest = std::numeric_limits<std::int64_t>::max();
  SAYS(slice(o.f({2, 3}), {.axis = one}), "slice: axis 4294967297 is outside the rank: [2x3]");
  SAYS(slice(o.f({2, 3}), {.axis = -one}), "slice: axis -4294967297 is outside the rank: [2x3]");
  SAYS(slice(o.f({2, 3}), {.axis = lowest}), "slice: axis -9223372036854775808 is outside the rank: [2x3]");
  SAYS(slice(o.f({2, 3}), {.axis = highest}), "slice: axis 9223372036854775807 is outside the rank: [2x3]");
  const value two[] = {o.f({2, 3}), o.f({2, 3})};
  SAYS(apply_all<op::concat>({one}, view<const value>(two, 1)), "concat: axis 4294967297 is outside the rank: [2x3]");
  SAYS(apply<op::argmax>({.axis = one}, two[0]), "argmax: axis 4294967297 is outside the rank: [2x3]");
  SAYS(apply<op::argmax>({.axis = lowest}, two[0]), "argmax: axis -9223372036854775808 is outside the rank: [2x3]");
  SAYS(softmax(two[0], {.axis = one}), "softmax: axis 4294967297 is outside the rank: [2x3]");
  SAYS(log_softmax(two[0], {.axis = -one}), "log_softmax: axis -4294967297 is outside the rank: [2x3]");
  SAYS(flatten(two[0], {.from = one}), "flatten: axis 4294967297 is outside the rank: [2x3]");
  SAYS(flatten(two[0], {.from = lowest}), "flatten: axis -9223372036854775808 is outside the rank: [2x3]");
  matrix<float> typed(2, 3);
  SAYS(softmax(typed, {.axis = one}), "softmax: axis 4294967297 is outside the rank: [2x3]");
  SAYS(slice(typed, {.axis = one}), "slice: axis 4294967297 is outside the rank: [2x3]");
}

BOOST_AUTO_TEST_CASE(products_and_images) {
  operands o;
  SAYS(matmul(o.f({2, 3}), o.f({4, 5})), "matmul: the inner sizes differ: [2x3] [4x5]");
  SAYS(matmul(o.f({2}), o.f({2, 5})), "matmul: both operands must be matrices: [2] [2x5]");
  SAYS(matmul(o.f({2, 2, 3}), o.f({3, 3, 5})), "matmul: the batch shapes do not broadcast: [2x2x3] [3x3x5]");
  SAYS(matmul(o.of(dtype::boolean, {2, 2}), o.of(dtype::boolean, {2, 2})),
       "matmul: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[2x2] "
       "bool[2x2]");
  SAYS(
      shift_left(o.f({2}), o.f({2})),
      "shift_left: takes an integer type, not float32; cast first, as in cast<std::int32_t>(x): float32[2] float32[2]");
  SAYS(conv2d(o.f({1, 3, 8, 8}), o.f({4, 2, 3, 3})),
       "conv2d: the weights expect 2 input channels: [1x3x8x8] [4x2x3x3]");
  SAYS(conv2d(o.f({1, 3, 2, 8}), o.f({4, 3, 3, 3})),
       "conv2d: the kernel is larger than the padded map: [1x3x2x8] [4x3x3x3]");
  SAYS(conv2d(o.f({1, 4, 8, 8}), o.f({3, 2, 3, 3}), {.groups = 2}),
       "conv2d: 3 output channels do not divide into 2 groups: [1x4x8x8] [3x2x3x3]");
  SAYS(conv2d(o.f({3, 8, 8}), o.f({4, 3, 3, 3})), "conv2d: images [N, C, H, W] are expected: [3x8x8] [4x3x3x3]");
  SAYS(conv2d(o.f({1, 3, 8, 8}), o.f({4, 3, 3})),
       "conv2d: weights [O, C / groups, H, W] are expected: [1x3x8x8] [4x3x3]");
  SAYS(conv2d(o.f({1, 3, 8, 8}), o.f({4, 3, 3, 3}), {.stride = 0}),
       "conv2d: stride, dilation and groups must be positive, padding not negative: [1x3x8x8] [4x3x3x3]");
  SAYS(conv2d(o.f({1, 1, 4, 4}), o.f({1, 1, 0, 0})), "conv2d: the kernel has no extent: [1x1x4x4] [1x1x0x0]");
  SAYS(conv2d(o.f({1, 1, 4, 4}), o.f({1, 1, 3, 0})), "conv2d: the kernel has no extent: [1x1x4x4] [1x1x3x0]");
  SAYS(conv2d(o.f({1, 0, 4, 4}), o.f({2, 0, 3, 3})), "conv2d: the weights have no input channels: [1x0x4x4] [2x0x3x3]");
  SAYS(conv2d(o.f({1, 4, 8, 8}), o.f({4, 3, 3, 3}), {.groups = 2}),
       "conv2d: the weights expect 3 input channels in each group: [1x4x8x8] [4x3x3x3]");
  constexpr auto huge = std::int64_t(1) << 62;
  SAYS(conv2d(o.f({1, 4, 8, 8}), o.f({4, 4, 3, 3}), {.groups = huge + 1}),
       "conv2d: 4611686018427387905 is too large for a window, stride, padding, dilation or groups; the limit is "
       "2147483647: [1x4x8x8] [4x4x3x3]");
  SAYS(conv2d(o.f({1, 1, 4, 4}), o.f({1, 1, 3, 3}), {.padding = huge}),
       "conv2d: 4611686018427387904 is too large for a window, stride, padding, dilation or groups; the limit is "
       "2147483647: [1x1x4x4] [1x1x3x3]");
  SAYS(conv2d(o.f({1, 1, 4, 4}), o.f({1, 1, 3, 3}), {.dilation = {1, huge}}),
       "conv2d: 4611686018427387904 is too large for a window, stride, padding, dilation or groups; the limit is "
       "2147483647: [1x1x4x4] [1x1x3x3]");
  SAYS(conv2d(o.f({1, 1, 4, 4}), o.f({1, 1, 3, 3}), {.padding = 2147483647}),
       "conv2d: the result [1x1x4294967296x4294967296] is too large: [1x1x4x4] [1x1x3x3]");
  SAYS(max_pool2d(o.f({1, 1, 3, 3}), {.kernel_size = huge, .padding = huge - 1}),
       "max_pool2d: 4611686018427387904 is too large for a window, stride, padding, dilation or groups; the limit is "
       "2147483647: [1x1x3x3]");
  SAYS(max_pool2d(o.f({1, 1, 0, 3}), {.padding = 1}), "max_pool2d: the window 2x2 is larger than the map: [1x1x0x3]");
  SAYS(max_pool2d(o.f({1, 1, 3, 3}), {.kernel_size = {2, 0}}),
       "max_pool2d: kernel_size and stride must be positive, padding not negative: [1x1x3x3]");
  SAYS(avg_pool2d(o.f({1, 1, 3, 3}), {.kernel_size = 2, .stride = -1}),
       "avg_pool2d: kernel_size and stride must be positive, padding not negative: [1x1x3x3]");
  SAYS(max_pool2d(o.f({1, 1, 3, 3}), {.kernel_size = 4}),
       "max_pool2d: the window 4x4 is larger than the map: [1x1x3x3]");
  SAYS(max_pool2d(o.f({1, 1, 3, 3}), {.kernel_size = 2, .padding = 2}),
       "max_pool2d: padding is more than half of the window: [1x1x3x3]");
  SAYS(avg_pool2d(o.f({1, 1, 3, 3}), {.kernel_size = 0}),
       "avg_pool2d: kernel_size and stride must be positive, padding not negative: [1x1x3x3]");
}

// Extents that become known when a plan is made are checked again.
BOOST_AUTO_TEST_CASE(windows_without_extent_are_found_by_the_planner) {
  small_graph g;
  value x = g.p.input("x", {dtype::float32, {"N", dyn, dyn, dyn}}),
        w = g.p.input("w", {dtype::float32, {dyn, dyn, dyn, dyn}});
  g.output(conv2d(x, w));
  auto plan_for = [&](const shape& a, const shape& b) {
    const shape all[] = {a, b};
    return make_plan(g.p, all, target_isa());
  };
  SAYS(plan_for({1, 1, 4, 4}, {1, 1, 0, 0}), "conv2d: the kernel has no extent: [1x1x4x4] [1x1x0x0]");
  SAYS(plan_for({1, 0, 4, 4}, {2, 0, 3, 3}), "conv2d: the weights have no input channels: [1x0x4x4] [2x0x3x3]");
  BOOST_TEST((plan_for({1, 2, 4, 4}, {0, 2, 3, 3})->output_types()[0].dims == shape{1, 0, 2, 2}));
}

BOOST_AUTO_TEST_CASE(labels_and_generators) {
  operands o;
  SAYS(pick(o.f({2, 3}), o.f({2})),
       "pick: takes an int64 index, not float32; cast first, as in cast<std::int64_t>(x): float32[2x3] float32[2]");
  SAYS(pick(o.f({2, 3}), o.of(dtype::int64, {3})),
       "pick: the index must have the shape of the operand without its last axis: float32[2x3] int64[3]");
  SAYS(one_hot(5, 7, 1.0f), "one_hot: position 7 is outside 0..4");
  SAYS(pick(o.f({}), o.of(dtype::int64, {})),
       "pick: the index must have the shape of the operand without its last axis: float32[] int64[]");
  SAYS(random_uniform(o.f({2}), o.f({3}), {}),
       "random_uniform: takes an int64 generator state, not float32; cast first, as in cast<std::int64_t>(x): "
       "float32[2] float32[3]");
  SAYS(random_uniform(o.of(dtype::int64, {3}), o.f({3}), {}),
       "random_uniform: the generator state is not [2]: int64[3] float32[3]");
}

BOOST_AUTO_TEST_CASE(the_path_of_a_layer_comes_first) {
  operands o;
  o.g.p.path = "encoder.block1";
  SAYS(matmul(o.f({2, 3}), o.f({4, 5})), "encoder.block1: matmul: the inner sizes differ: [2x3] [4x5]");
  SAYS(tanh(o.of(dtype::int32, {2})),
       "encoder.block1: tanh: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[2]");
}

BOOST_AUTO_TEST_CASE(the_path_is_kept_for_planning_gradients_and_runs) {
  small_graph g;
  value x = g.p.input("x", {dtype::float32, {"N", 3}}), y = g.p.input("y", {dtype::float32, {dyn, 4}}),
        i = g.p.input("i", {dtype::int64, {"N"}});
  g.p.path = "encoder.block1";
  value sum = x + matmul(y, reshape(y, {4, dyn}));
  g.p.path = "head";
  value picked = pick(sum, i);
  g.p.path.clear();
  g.output(picked * 2);
  auto plan_for = [&](const shape& a, const shape& b, const shape& c) {
    const shape all[] = {a, b, c};
    return make_plan(g.p, all, target_isa());
  };
  SAYS(plan_for({4, 3}, {2, 4}, {4}), "encoder.block1: add: the shapes do not broadcast: [4x3] [2x2]");
  std::vector<float> a(9), b(12), out(3);
  std::vector<std::int64_t> bad{0, 1, 3};
  executor e(plan_for({3, 3}, {3, 4}, {3}), nullptr);
  const void* in[] = {a.data(), b.data(), bad.data()};
  void* to[] = {out.data()};
  SAYS(e.run(in, to), "head: pick: an index is outside 0..2: 3 at [2] (1 in total)");

  small_graph h;
  value image = h.p.input("x", {dtype::float32, {1, 1, 4, 4}});
  h.p.path = "pool";
  value first = reduce_sum(square(max_pool2d(image, {.kernel_size = 2})));
  h.p.path.clear();
  value once = gradients(first, {&image, 1})[0];
  SAYS(gradients(reduce_sum(square(once)), {&image, 1}), "pool: max_pool2d_grad: this operation has no gradient");
}

BOOST_AUTO_TEST_CASE(values_of_two_programs_do_not_meet) {
  operands o, q;
  SAYS(o.f({2}) + q.f({2}), "add: an operand belongs to another program");
  program a, b;
  const value mine = a.state("s", {dtype::float32, {2}}), foreign = b.state("s", {dtype::float32, {2}});
  SAYS(a.output("y", foreign), "output: the value belongs to another program");
  SAYS(a.assign(foreign, mine), "assign: the state belongs to another program");
  SAYS(a.assign(mine, foreign), "assign: the value belongs to another program");
  SAYS(gradients(reduce_sum(mine), {&foreign, 1}), "gradients: a variable belongs to another program");
}

BOOST_AUTO_TEST_CASE(names_and_unknown_extents) {
  small_graph g;
  value x = g.p.input("x", {dtype::float32, {"N", 3}}), y = g.p.input("y", {dtype::float32, {"N"}}),
        z = g.p.input("z", {dtype::float32, {dyn, 4}});
  value sum = reduce_sum<axes(1)>(x) + y;
  g.output(sum);
  BOOST_TEST((sum.shape() == shape{"N"}));
  SAYS(x + z, "add: the shapes do not broadcast: [Nx3] [?x4]");
  auto plan_for = [&](const shape& a, const shape& b, const shape& c) {
    const shape all[] = {a, b, c};
    return make_plan(g.p, all, target_isa());
  };
  BOOST_TEST((plan_for({5, 3}, {5}, {1, 4})->output_types()[0].dims == shape{5}));
  SAYS(plan_for({5, 3}, {6}, {1, 4}), "input `y`: dimension `N` is 6 here and 5 in another input");
  SAYS(plan_for({5, 2}, {5}, {1, 4}), "input `x` is [Nx3]; got [5x2]");
  SAYS(plan_for({5, 3}, {5, 1}, {1, 4}), "input `y` is [N]; got [5x1]");
  g.output(x + matmul(z, reshape(x, {4, dyn})));
  SAYS(plan_for({4, 3}, {4}, {3, 4}), "add: the shapes do not broadcast: [4x3] [3x3]");
  BOOST_TEST((plan_for({4, 3}, {4}, {4, 4})->output_types()[1].dims == shape{4, 3}));
  SAYS(make_plan(g.p, {}, target_isa()), "a program is planned with fewer input shapes than it has inputs");
}

BOOST_AUTO_TEST_SUITE_END()
