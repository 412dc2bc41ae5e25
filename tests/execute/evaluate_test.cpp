// Evaluation of typed expressions: one plan per alias pattern and extents, however the operands are given.
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

template <class T> bool equal(const T& t, const std::vector<double>& v) {
  std::vector<double> mine(t.data().begin(), t.data().end());
  return mine == v;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(evaluation)

BOOST_AUTO_TEST_CASE(aliases_alternate) {
  vector<float> a{1, 2, 3}, b{10, 20, 30};
  auto f = [](const auto& x, const auto& y) { return evaluate(x * y + x); };
  for (int round = 0; round < 3; ++round) {
    BOOST_TEST(equal(f(a, b), {11, 42, 93}));
    BOOST_TEST(equal(f(a, a), {2, 6, 12}));
    BOOST_TEST(equal(f(b, a), {20, 60, 120}));
    vector<float> c = a;  // shares memory
    BOOST_TEST(equal(f(a, c), {2, 6, 12}));
    c.detach();
    BOOST_TEST(equal(f(a, c), {2, 6, 12}));
  }
}

// Expressions that contain each other many times, like a hand-written recurrent step.
BOOST_AUTO_TEST_CASE(deep_expressions) {
  vector<double> a{0.3, -0.7, 1.1}, b{0.5, 0.2, -0.4};
  auto x = tanh(a * b) + 2 * a;
  auto y = x * x + x;
  auto z = y * y + y;
  auto w = z * z + z;
  const auto squares = evaluate(w);
  auto h = [&](const auto& before) {
    auto s = sigmoid(a + before);
    auto r = sigmoid(before);
    auto n = tanh(a + r * before);
    return n + s * (before - n);
  };
  const auto steps = evaluate(h(h(h(b))));
  for (std::size_t i = 0; i < 3; ++i) {
    double v = std::tanh(a.data()[i] * b.data()[i]) + 2 * a.data()[i], state = b.data()[i];
    for (int k = 0; k < 3; ++k) {
      v = v * v + v;
      const double s = 1 / (1 + std::exp(-a.data()[i] - state)), r = 1 / (1 + std::exp(-state)),
                   n = std::tanh(a.data()[i] + r * state);
      state = n + s * (state - n);
    }
    BOOST_TEST(squares.data()[i] == v, boost::test_tools::tolerance(1e-13));
    BOOST_TEST(steps.data()[i] == state, boost::test_tools::tolerance(1e-13));
  }
}

BOOST_AUTO_TEST_CASE(extents_alternate) {
  auto f = [](std::int64_t m, std::int64_t n, float v) {
    matrix<float> x(m, n);
    for (auto& e : x.writable()) e = v;
    auto y = evaluate(reduce_sum<axes(1)>(x * 2 + 1));
    BOOST_TEST((y.shape() == shape{dim(m)}));
    for (float e : y.data()) BOOST_REQUIRE_EQUAL(e, static_cast<float>(n) * (v * 2 + 1));
  };
  for (int round = 0; round < 3; ++round)
    for (std::int64_t n : {1, 5, 0, 700, 5}) f(n + 1, n, static_cast<float>(round + n));
  for (std::int64_t n = 1; n < 100; ++n) f(2, n, 1);  // more plans than the cache holds
  for (std::int64_t n = 1; n < 100; ++n) f(2, n, 2);
}

BOOST_AUTO_TEST_CASE(same_memory_under_two_extents) {
  matrix<float> x{{1, 2}, {3, 4}, {5, 6}};
  for (int round = 0; round < 3; ++round) {
    auto top = x.rows(0, 1);
    BOOST_TEST(equal(evaluate(x + top), {2, 4, 4, 6, 6, 8}));
    auto last = x.rows(2, 3);
    BOOST_TEST(equal(evaluate(x + last), {6, 8, 8, 10, 10, 12}));
    auto all = x.rows(0, 3);
    BOOST_TEST(equal(evaluate(x + all), {2, 4, 6, 8, 10, 12}));
  }
}

BOOST_AUTO_TEST_CASE(numbers_change_without_a_new_plan) {
  context where(1, target_isa());
  vector<float> x{1, 2};
  auto step = [&](float rate) { return evaluate(x - rate * x, where); };
  BOOST_TEST(equal(step(0.5f), {0.5, 1}));
  auto before = memory::counters().allocations;
  auto y = step(0.25f);
  auto made = memory::counters().allocations - before;  // the result alone
  BOOST_TEST(made == 1);
  BOOST_TEST(equal(y, {0.75, 1.5}));
}

// A run with the operand and result addresses of the run before binds nothing.
BOOST_AUTO_TEST_CASE(operands_and_results_stay_and_change) {
  vector<float> a{1, 2, 3}, b{10, 20, 30}, out(3), other(3);
  const auto f = formula([](const auto& x, const auto& y) { return x * y + x; });
  for (int round = 0; round < 3; ++round) {
    for (vector<float>* to : {&out, &out, &other, &out}) {
      evaluate_into(*to, a * b + a);
      BOOST_TEST(equal(*to, {11, 42, 93}));
      f(b, a, *to);
      BOOST_TEST(equal(*to, {20, 60, 120}));
    }
    b.writable()[0] = 5;
    evaluate_into(out, a * b + a);
    f(a, b, other);
    BOOST_TEST((equal(out, {6, 42, 93}) && equal(other, {6, 42, 93})));
    b.writable()[0] = 10;
    vector<float> kept = a.copy();
    for (int i = 0; i < 2; ++i) {
      evaluate_into(kept, kept * b + kept);  // over an operand
      BOOST_TEST(kept(0) == (i ? 121 : 11));
    }
    evaluate_into(out, kept * b + kept);
    BOOST_TEST(out(0) == 1331);
  }
}

BOOST_AUTO_TEST_CASE(data_without_storage) {
  vector<float> x{1, 2, 3};
  BOOST_TEST(equal(evaluate(x + one_hot<float>(3, 1)), {1, 3, 3}));
  BOOST_TEST(equal(evaluate(x + one_hot<float>(3, 2, 5)), {1, 2, 8}));
  BOOST_TEST(equal(evaluate(one_hot<double>(4, 0) * 2), {2, 0, 0, 0}));
  BOOST_TEST(evaluate(one_hot(3, 2, std::int64_t(9007199254740993)))(2) == 9007199254740993);
  BOOST_TEST(equal(evaluate(one_hot<std::int8_t>(3, 1, -7)), {0, -7, 0}));
  BOOST_TEST(equal(evaluate(one_hot<std::int16_t>(3, 1, 300) + std::int16_t(1)), {1, 301, 1}));
  BOOST_TEST(equal(evaluate(one_hot<bool>(2, 0)), {1, 0}));
  BOOST_TEST(equal(evaluate(cast<float>(one_hot<float16>(2, 1))), {0, 1}));
  BOOST_TEST(equal(evaluate(x * filled(2.0f, 3) + zeros<float>(2, 1)), {2, 4, 6, 2, 4, 6}));
  BOOST_TEST(equal(evaluate(filled(3.0f, 2, 2)), {3, 3, 3, 3}));
  BOOST_TEST(equal(evaluate(zeros<float, extents<3>>()), {0, 0, 0}));
  BOOST_TEST(equal(evaluate(reduce_sum(filled(0.5f, 100))), {50}));
  BOOST_TEST(equal(evaluate(matmul(filled(1.0f, 2, 3), filled(2.0f, 3, 2))), {6, 6, 6, 6}));
  BOOST_TEST(equal(evaluate(concat<0>(filled(1.0f, 2), x)), {1, 1, 1, 2, 3}));
  BOOST_TEST(equal(evaluate(reshape<extents<2, 2>>(filled(7.0f, 4)) + 1), {8, 8, 8, 8}));
  BOOST_TEST(equal(evaluate(x), {1, 2, 3}));
  for (std::int64_t at = 0; at < 3; ++at)
    BOOST_TEST(evaluate(x * one_hot<float>(3, at))(at) == x(at));  // a changing position
}

BOOST_AUTO_TEST_CASE(static_and_named_extents) {
  tensor<float, extents<2, 3>> m{{1, 2, 3}, {4, 5, 6}};
  tensor<float, extents<3>> v{1, 1, 1};
  auto y = evaluate(m + v);
  static_assert(std::same_as<decltype(y), tensor<float, extents<2, 3>>>);
  BOOST_TEST(y(1, 2) == 7);
  tensor<float, extents<"N", 3>> n(5);
  auto z = evaluate(n + v);
  BOOST_TEST((z.shape() == shape{5, 3}));
  static_assert(std::same_as<decltype(evaluate(reduce_sum(m))), scalar<float>>);
}

BOOST_AUTO_TEST_CASE(run_time_mismatches) {
  vector<float> a(3), b(4);
  BOOST_TEST(message_of([&] { evaluate(a + b); }) == "add: the shapes do not broadcast: [3] [4]");
  matrix<float> x(2, 3), w(4, 5);
  BOOST_TEST(message_of([&] { evaluate(matmul(x, w)); }) == "matmul: the inner sizes differ: [2x3] [4x5]");
  vector<float> out(2);
  BOOST_TEST(message_of([&] { evaluate_into(out, a * 2); }) == "evaluate_into: the result is [3] and the tensor [2]");
  BOOST_TEST(message_of([&] { (void)item(a); }) == "item: a tensor of shape [3] is not one number");
}

BOOST_AUTO_TEST_CASE(a_label_out_of_range_is_an_error_and_the_next_run_works) {
  matrix<float> x{{1, 2}, {3, 4}};
  vector<std::int64_t> good{1, 0}, bad{2, -1};
  auto loss = [&](const vector<std::int64_t>& l) { return evaluate(pick(x, l)); };
  BOOST_TEST(equal(loss(good), {2, 3}));
  BOOST_TEST(message_of([&] { loss(bad); }) == "pick: an index is outside 0..1: 2 at [0] (2 in total)");
  BOOST_CHECK_THROW(loss(bad), value_error);
  BOOST_TEST(equal(loss(good), {2, 3}));
  // Classification losses, and their gradients alone, name themselves, the label, its sample and the number of classes.
  const std::string two = "a label is outside 0..1 (2 classes): 2 of sample 0 (2 in total)";
  BOOST_TEST(message_of([&] { evaluate(cross_entropy(x, bad)); }) == "cross_entropy: " + two);
  BOOST_TEST(message_of([&] { evaluate(nll(x, bad)); }) == "nll: " + two);
  BOOST_TEST(message_of([&] { evaluate(gradient<"x">(cross_entropy(var<"x">(x), bad))); }) == "cross_entropy: " + two);
  tensor<float, extents<2, 2, 3>> sequences;
  matrix<std::int64_t, 2, 2> of_positions;
  of_positions.writable()[1] = -7;
  BOOST_TEST(message_of([&] { evaluate(cross_entropy(sequences, of_positions)); }) ==
             "cross_entropy: a label is outside 0..2 (3 classes): -7 at [0, 1] (1 in total)");
}

// Extents known only at run time: a loss rejects shapes that a difference would broadcast.
BOOST_AUTO_TEST_CASE(losses_do_not_broadcast) {
  const matrix<float> column(3, 1), square_of_3(3, 3), row_of_3(1, 3);
  const std::string rule = "results and targets must have the same shape; a loss does not broadcast: ";
  BOOST_TEST(message_of([&] { evaluate(mse(column, square_of_3)); }) == "mse: " + rule + "[3x1] [3x3]");
  BOOST_TEST(message_of([&] { evaluate(l1_loss(column * 2, row_of_3)); }) == "l1_loss: " + rule + "[3x1] [1x3]");
  BOOST_TEST(message_of([&] { evaluate(squared_l2_distance(square_of_3, row_of_3)); }) ==
             "squared_l2_distance: " + rule + "[3x3] [1x3]");
  BOOST_CHECK_THROW(evaluate(mse(column, row_of_3)), shape_error);
  BOOST_TEST(item(evaluate(mse(column + 2, column))) == 4.f);
  BOOST_TEST(item(evaluate(l1_loss(column - 3, column))) == 3.f);
  // A formula is built once; operands of later calls are checked nevertheless.
  auto loss = formula([](const auto& a, const auto& b) { return mse(a, b); });
  BOOST_TEST(item(evaluate(loss(square_of_3 + 1, square_of_3))) == 1.f);
  BOOST_CHECK_THROW(evaluate(loss(column, square_of_3)), shape_error);
  BOOST_CHECK_THROW(evaluate(loss(square_of_3, matrix<float>(1, 1))), shape_error);
}

BOOST_AUTO_TEST_CASE(several_results) {
  vector<float> x{1, 2, 3};
  auto [sum, twice, index] = evaluate(reduce_sum(x), x * 2, argmax(x));
  BOOST_TEST(sum() == 6);
  BOOST_TEST(equal(twice, {2, 4, 6}));
  BOOST_TEST(index() == 2);
  auto [a, b] = evaluate(x, x);
  BOOST_TEST(equal(a, {1, 2, 3}));
  BOOST_TEST(equal(b, {1, 2, 3}));
  BOOST_TEST(a.data().data() != b.data().data());
}

BOOST_AUTO_TEST_CASE(dynamic_operands) {
  vector<float> x{1, 2, 3};
  dynamic<float, 1> d = x;
  BOOST_TEST((d.try_cast<vector<float>>() != nullptr));
  BOOST_TEST((d.try_cast<tensor<float, extents<3>>>() == nullptr));
  for (int i = 0; i < 200; ++i) d = d * 1.0f + x;
  BOOST_TEST(equal(evaluate(d), {201, 402, 603}));
  auto shared = make_dynamic(exp(x) - exp(x) + x);
  BOOST_TEST(equal(evaluate(shared * shared + shared), {2, 6, 12}));
  dynamic<float, 1> empty;
  BOOST_TEST(empty.is_empty());
  BOOST_TEST(message_of([&] { (void)empty.shape(); }) == "dynamic: it is empty");
  dynamic<float, 1> choice = zeros<float>(3);
  BOOST_TEST(equal(evaluate(choice + x), {1, 2, 3}));
  choice = one_hot<float>(3, 0);
  BOOST_TEST(equal(evaluate(choice + x), {2, 2, 3}));
}

BOOST_AUTO_TEST_CASE(names_in_a_reshape) {
  tensor<float, extents<"N", 12>> x(2);
  for (int i = 0; i < 24; ++i) x.writable(i / 12, i % 12) = static_cast<float>(i);
  auto folded = reshape<extents<"N", 3, 4>>(x);
  BOOST_TEST((folded.shape() == shape{2, 3, 4}));
  BOOST_TEST((evaluate(folded + 1.f).shape() == shape{2, 3, 4}));
  auto inferred = reshape<extents<"N", dyn, 4>>(x);
  BOOST_TEST((decltype(inferred)::pattern == shape{"N", 3, 4}));
  BOOST_TEST((evaluate(inferred).shape() == shape{2, 3, 4}));
  BOOST_TEST(message_of([&] { reshape<extents<"M", 12>>(x); }) ==
             "reshape: result [Mx12] has a dimension that no operand has: [2x12]");
}

BOOST_AUTO_TEST_CASE(an_executor_without_memory) {
  program p;
  p.output("y", value(p.input("x", {dtype::float32, {2}}) + 1));
  const shape extents[] = {shape{2}};
  executor e(make_plan(p, extents, target_isa()), nullptr);
  float x[] = {1, 2}, y[2];
  BOOST_TEST(message_of([&] { e.run(); }) == "input 0 has no memory; bind it before the run");
  e.bind_input(0, x);
  BOOST_TEST(message_of([&] { e.run(); }) == "output 0 has no memory; bind it before the run");
  e.bind_output(0, y);
  e.run();
  BOOST_TEST(y[1] == 3);
  BOOST_TEST(message_of([&] { e.bind_input(1, x); }) == "a plan of 1 inputs and 1 outputs has no index 1");
  e.bind_input(0, nullptr);
  BOOST_TEST(message_of([&] { e.run(); }) == "input 0 has no memory; bind it before the run");
}

BOOST_AUTO_TEST_CASE(deep_dynamic_expressions) {
  constexpr int depth = 300000;  // recursion would overflow the call stack far earlier
  dynamic<float, 1> d = vector<float>{1, 2};
  for (int i = 0; i < depth; ++i) d = d + 1.f;
  dynamic<float, 1> half = vector<float>{1, 2};
  for (int i = 0; i < depth / 10; ++i) half = half + half * 0.f;
  BOOST_TEST(equal(evaluate(half), {1, 2}));
}

BOOST_AUTO_TEST_CASE(fused_through_dynamic) {
  vector<float> x{0.5f, -1, 2};
  dynamic<float, 1> d = make_dynamic(tanh(x));
  eval_plan p;
  auto h = p.add(d * 2 + 1);
  p.run();
  BOOST_TEST(p.counters().fused_elementwise == 2);
  auto direct = evaluate(tanh(x) * 2 + 1);
  for (std::int64_t i = 0; i < 3; ++i) BOOST_TEST(h.value()(i) == direct(i));
}

BOOST_AUTO_TEST_CASE(formulas) {
  auto f = formula([](auto x, auto y) { return x * y + 1; });
  vector<float> a{1, 2}, b{3, 4}, out(2);
  BOOST_TEST(equal(f(a, b), {4, 9}));
  BOOST_TEST(equal(f(a, a), {2, 5}));
  f(a, b, out);
  BOOST_TEST(equal(out, {4, 9}));
  const void* memory = out.data().data();
  f(b, b, out);
  BOOST_TEST(equal(out, {10, 17}));
  BOOST_TEST(out.data().data() == memory);
  vector<float> shared = out;
  BOOST_CHECK_THROW(f(a, b, out), state_error);
  f(a, out, shared.detach());
  BOOST_TEST(equal(shared, {11, 35}));
  auto g = formula([](auto x) { return sqrt(reduce_sum(square(x))); });
  vector<double> three{3, 4};
  BOOST_TEST(g(three)() == 5);
}

BOOST_AUTO_TEST_CASE(results_replace_what_they_were_made_of) {
  vector<float> x{1, 2, 3};
  const vector<float> y{10, 20, 30};
  const void* memory = x.data().data();
  evaluate_into(x, x + y);
  BOOST_TEST(equal(x, {11, 22, 33}));
  evaluate_into(x, x * x + reduce_sum(x));  // all of x is read before any of it is written
  BOOST_TEST(equal(x, {187, 550, 1155}));
  matrix<float> m{{1, 2}, {3, 4}};
  evaluate_into(m, matmul(m, m));
  BOOST_TEST(equal(m, {7, 10, 15, 22}));
  evaluate_into(m, transpose(m));
  BOOST_TEST(equal(m, {7, 15, 10, 22}));
  evaluate_into(m, m);
  BOOST_TEST(equal(m, {7, 15, 10, 22}));
  auto e = x - y;
  BOOST_CHECK_THROW(evaluate_into(x, e), state_error);  // e would give another result the next time
  evaluate_into(x, std::move(e));
  BOOST_TEST(equal(x, {177, 530, 1125}));
  BOOST_CHECK_THROW(evaluate(e), state_error);  // NOLINT(bugprone-use-after-move): it was moved from
  BOOST_TEST(x.data().data() == memory);
  const auto shares = x;
  BOOST_CHECK_THROW(evaluate_into(x, x + y), state_error);
  BOOST_CHECK_THROW(evaluate_into(x, make_dynamic(x + y)), state_error);  // the inner expression may have other holders
  BOOST_TEST(equal(shares, {177, 530, 1125}));
}

BOOST_AUTO_TEST_CASE(steps_in_place) {
  vector<float> x{1, 2, 3};
  const vector<float> y{10, 20, 30};
  const void* memory = x.data().data();
  BOOST_TEST(&(x += y) == &x);
  BOOST_TEST(equal(x, {11, 22, 33}));
  BOOST_TEST(equal(x -= 1, {10, 21, 32}));
  BOOST_TEST(equal(x *= x, {100, 441, 1024}));
  BOOST_TEST(equal(x /= 2 * y, {5, 11.025f, 1024.f / 60}));
  x -= 0.5f * x;  // the expression that reads x is released with it
  BOOST_TEST(x(0) == 2.5f);
  const auto before = memory::counters().allocations;
  x -= 0.5f * x;
  BOOST_TEST(memory::counters().allocations == before);  // computed in place
  x *= 2;
  BOOST_TEST(x.data().data() == memory);
  matrix<float, dyn, 2> m{{1, 2}, {3, 4}};
  m += vector<float>{10, 20};
  m *= m[0];  // a row of m itself
  BOOST_TEST(equal(m, {121, 484, 143, 528}));
  matrix<float> one(1, 3);
  BOOST_TEST(message_of([&] { one += matrix<float>(2, 3); }) == "+=: the result is [2x3] and the tensor [1x3]");
  BOOST_TEST(message_of([&] { x += vector<float>(2); }) == "add: the shapes do not broadcast: [3] [2]");
  const auto shares = x;
  BOOST_CHECK_THROW(x += y, state_error);
  x.detach() += y;
  BOOST_TEST(shares(0) == 2.5f);
  BOOST_TEST(x(0) == 12.5f);
  vector<std::int64_t> n{1, 2};
  n *= 3;
  BOOST_TEST(equal(n, {3, 6}));
  BOOST_CHECK_THROW(n += 0.5, value_error);
  float mine[] = {1, 2, 3};
  auto seen = borrow(mine, {3});
  seen += borrow(mine, {3});  // the same memory under two handles
  BOOST_TEST((mine[0] == 2 && mine[2] == 6));
}

// Lengths beyond a register and a tile, and results that start inside their operands.
BOOST_AUTO_TEST_CASE(results_that_overlap_their_operands) {
  for (std::int64_t n : {0, 1, 7, 8, 9, 33, 1000, 40000}) {
    std::vector<double> memory(static_cast<std::size_t>(n) + 3);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = std::sin(static_cast<double>(i));
    for (std::int64_t shift : {-3, -1, 0, 1, 3}) {
      auto mine = memory;
      auto from = borrow(mine.data() + (shift < 0 ? 0 : shift), {n}),
           to = borrow(mine.data() + (shift < 0 ? -shift : 0), {n});
      const std::vector<double> x(from.data().begin(), from.data().end());
      evaluate_into(to, from * 2 + from);
      for (std::size_t i = 0; i < x.size(); ++i) BOOST_REQUIRE_EQUAL(to.data()[i], x[i] * 2 + x[i]);
      auto f = formula([](const auto& v) { return v * 2 + v; });
      mine = memory;
      for (int round = 0; round < 2; ++round) {
        const std::vector<double> now(from.data().begin(), from.data().end());
        f(from, to);
        for (std::size_t i = 0; i < now.size(); ++i) BOOST_REQUIRE_EQUAL(to.data()[i], now[i] * 2 + now[i]);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(two_threads_write_where_they_read) {
  context two(2, target_isa());
  matrix<double> x(1000, 300);
  std::vector<double> want;
  for (double v = 0; auto& e : x.writable()) want.push_back(3 * (e = std::sin(++v)));
  evaluate_into(x, x * 2 + x, two);
  for (std::size_t i = 0; i < want.size(); ++i) BOOST_REQUIRE_CLOSE(x.data()[i], want[i], 1e-12);
  const auto row = x[999].copy();
  evaluate_into(x, x - x[999], two);  // the whole row is read until the end
  for (std::size_t i = 0; i < want.size(); ++i)
    BOOST_REQUIRE_SMALL(x.data()[i] - (want[i] - row.data()[i % 300]), 1e-12);
}

BOOST_AUTO_TEST_CASE(rows_are_assigned) {
  matrix<float> m{{1, 2}, {3, 4}, {5, 6}};
  const void* memory = m.data().data();
  assign_row(m, 0, vector<float>{7, 8});
  assign_row(m, 1, m[0] + m[2]);
  assign_row(m, 2, m[1]);
  BOOST_TEST(equal(m, {7, 8, 12, 14, 12, 14}));
  assign_row(m, 1, 0);
  assign_row(m, 2, reduce_sum<axes(0)>(m));
  BOOST_TEST(equal(m, {7, 8, 0, 0, 19, 22}));
  BOOST_TEST(m.data().data() == memory);
  vector<float> v{1, 2};
  assign_row(v, 1, 5.f);
  assign_row(v, 0, reduce_sum(v));
  BOOST_TEST(equal(v, {6, 5}));
  BOOST_TEST(message_of([&] { assign_row(m, 3, v); }) == "index (3) is outside the shape [3x2]");
  assign_row(m, -1, 1);  // from the end
  assign_row(m, -2, m[-1] * 2.f);
  BOOST_TEST(equal(m, {7, 8, 2, 2, 1, 1}));
  assign_row(v, -2, 3);
  BOOST_TEST(equal(v, {3, 5}));
  BOOST_TEST(message_of([&] { assign_row(m, -4, 0); }) == "index (-4) is outside the shape [3x2]");
  BOOST_TEST(message_of([&] { assign_row(m, -4, v); }) == "index (-4) is outside the shape [3x2]");
  BOOST_TEST(message_of([&] { assign_row(m, 0, vector<float>(3)); }) == "assign_row: the operand is [3] and a row [2]");
  const auto row = m[1];
  BOOST_CHECK_THROW(assign_row(m, 0, row), state_error);
  BOOST_CHECK_THROW(assign_row(m, 0, 1), state_error);
  tensor<std::int64_t, extents<2, 2>> whole;
  BOOST_CHECK_THROW(assign_row(whole, 0, 0.5), value_error);
}

// State outside of a function without captures.
int calls = 0;
vector<float>& elsewhere() {
  static vector<float> v{1, 1};
  return v;
}

BOOST_AUTO_TEST_CASE(a_formula_into_memory_is_traced_once) {
  auto f = formula([](const auto& x, const auto& w) { return ++calls, matmul(x, w) * x + w; });
  calls = 0;
  for (int round = 0; round < 4; ++round)
    for (std::int64_t n : {2, 1, 3, 0}) {
      matrix<float> x(n, n), w(n, n), out(n, n);
      for (auto& v : x.writable()) v = static_cast<float>(round + 1);
      for (auto& v : w.writable()) v = static_cast<float>(n);
      f(x, w, out);
      for (float v : out.data()) BOOST_REQUIRE_EQUAL(v, static_cast<float>(n * n * (round + 1) * (round + 1) + n));
      f(w, x, out);  // operands swapped
      for (float v : out.data()) BOOST_REQUIRE_EQUAL(v, static_cast<float>(n * n * (round + 1) * n + (round + 1)));
      f(x, x, out);  // one memory for both
      for (float v : out.data())
        BOOST_REQUIRE_EQUAL(v, static_cast<float>((n * (round + 1) * (round + 1) + 1) * (round + 1)));
    }
  BOOST_TEST(calls == 4);  // one per shape
  auto copy = f;
  matrix<float> x(2, 2), out(2, 2), other(2, 3);
  copy(x, x, out);
  BOOST_TEST(calls == 4);
  BOOST_TEST(message_of([&] { f(x, x, other); }) == "evaluate_into: the result is [2x2] and the tensor [2x3]");
  BOOST_TEST(message_of([&] { f(x, other, out); }) == "multiply: the shapes do not broadcast: [2x3] [2x2]");
  for (auto& v : out.writable()) v = 3;
  for (auto& v : x.writable()) v = 2;
  f(x, out, out);  // the result's memory is an operand, too
  BOOST_TEST(equal(out, {27, 27, 27, 27}));
  matrix<float> held = out;
  BOOST_CHECK_THROW(f(x, x, out), state_error);
  BOOST_TEST(same_bits(from_tensor(f(x, x)), from_tensor(evaluate(matmul(x, x) * x + x))));
}

BOOST_AUTO_TEST_CASE(a_formula_that_gives_its_result_is_traced_once) {
  auto f = formula([](const auto& x, const auto& w) { return ++calls, matmul(x, w) * x + w; });
  calls = 0;
  for (int round = 0; round < 4; ++round)
    for (std::int64_t n : {2, 1, 3, 0, 2}) {
      matrix<float> x(n, n), w(n, n);
      for (auto& v : x.writable()) v = static_cast<float>(round + 1);
      for (auto& v : w.writable()) v = static_cast<float>(n);
      auto y = f(x, w), kept = f(w, x);
      BOOST_REQUIRE(y.shape() == shape({n, n}));
      for (float v : y.data()) BOOST_REQUIRE_EQUAL(v, static_cast<float>(n * n * (round + 1) * (round + 1) + n));
      for (float v : kept.data()) BOOST_REQUIRE_EQUAL(v, static_cast<float>(n * n * (round + 1) * n + (round + 1)));
      for (float v : f(x, x).data())
        BOOST_REQUIRE_EQUAL(v, static_cast<float>((n * (round + 1) * (round + 1) + 1) * (round + 1)));
    }
  BOOST_TEST(calls == 4);  // one per shape
  matrix<float> x(2, 2), other(2, 3);
  BOOST_TEST(message_of([&] { f(x, other); }) == "multiply: the shapes do not broadcast: [2x3] [2x2]");
  calls = 0;
  matrix<float, 2, 2> a(x), b(matrix<float>{{1, 2}, {3, 4}});
  for (int i = 0; i < 3; ++i) BOOST_TEST(same_bits(from_tensor(f(a, b)), from_tensor(evaluate(matmul(a, b) * a + b))));
  BOOST_TEST(calls == 1);  // other types
  // Large operands too; they are copied when the formula is traced.
  matrix<float> large(300, 300), weights(300, 300), out(300, 300);
  calls = 0;
  for (int i = 0; i < 3; ++i) f(large, weights), f(large, weights, out);
  BOOST_TEST(calls == 2);  // with memory for the result, and without
  auto same = formula([](const auto& v) { return v; });
  BOOST_TEST(same_bits(from_tensor(same(b)), from_tensor(b)));
  auto labels = formula([](const auto& p, const auto& at) { return pick(p, at); });
  vector<std::int64_t> right{0, 1}, wrong{0, 7};
  BOOST_TEST(equal(labels(b, right), {1, 4}));
  BOOST_CHECK_THROW(labels(b, wrong), value_error);
  BOOST_TEST(equal(labels(b, right), {1, 4}));
}

BOOST_AUTO_TEST_CASE(formulas_take_numbers_and_data_without_storage) {
  auto f = formula([](const auto& x, const auto& w) { return x * w; });
  matrix<float> x{{1, 2, 3}, {4, 5, 6}}, out(2, 3);
  for (float by : {2.f, 3.f}) {
    f(x, filled(by, 2, 3), out);
    BOOST_TEST(equal(out, {1 * by, 2 * by, 3 * by, 4 * by, 5 * by, 6 * by}));
    BOOST_TEST(equal(f(x, filled(by, 2, 3)), {1 * by, 2 * by, 3 * by, 4 * by, 5 * by, 6 * by}));
    f(x, by, out);
    BOOST_TEST(equal(out, {1 * by, 2 * by, 3 * by, 4 * by, 5 * by, 6 * by}));
    f(x, x + by, out);
    BOOST_TEST(equal(out, {1 * (1 + by), 2 * (2 + by), 3 * (3 + by), 4 * (4 + by), 5 * (5 + by), 6 * (6 + by)}));
  }
  f(x, zeros<float>(2, 3), out);
  BOOST_TEST(equal(out, {0, 0, 0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(what_a_formula_has_from_elsewhere_is_read_each_time) {
  vector<float> a{1, 2}, out(2);
  auto f = formula([](const auto& x) { return x * elsewhere(); });
  f(a, out);
  BOOST_TEST(equal(out, {1, 2}));
  elsewhere() = vector<float>{3, 4};
  f(a, out);
  BOOST_TEST(equal(out, {3, 8}));
  f(elsewhere(), out);  // operand and global are one tensor here, and separate again below
  BOOST_TEST(equal(out, {9, 16}));
  f(a, out);
  BOOST_TEST(equal(out, {3, 8}));
  BOOST_TEST(equal(f(a), {3, 8}));
  elsewhere() = vector<float>{5, 6};
  BOOST_TEST(equal(f(a), {5, 12}));
  elsewhere() = vector<float>{3, 4};
  auto first = formula([](const auto& x) { return elsewhere() + x; });
  first(elsewhere(), out);
  BOOST_TEST(equal(out, {6, 8}));
  first(a, out);
  BOOST_TEST(equal(out, {4, 6}));

  float rate = 2;
  auto scaled = formula([&rate](const auto& x) { return x * rate; });
  scaled(a, out);
  BOOST_TEST(equal(out, {2, 4}));
  BOOST_TEST(equal(scaled(a), {2, 4}));
  rate = 3;
  scaled(a, out);
  BOOST_TEST(equal(out, {3, 6}));
  BOOST_TEST(equal(scaled(a), {3, 6}));
  auto counted = formula(
      [](const auto& x) { return x * static_cast<float>(calls) + slice(x, {.start = calls, .stop = calls + 1}); });
  for (calls = 0; calls < 2; ++calls) {
    counted(a, out);
    BOOST_TEST(equal(out, {calls * 1. + a(calls), calls * 2. + a(calls)}));
    BOOST_TEST(equal(counted(a), {calls * 1. + a(calls), calls * 2. + a(calls)}));
  }
  auto table = formula([](const auto& x) { return x + vector<float>{10, 20}; });
  table(a, out);
  table(a, out);
  BOOST_TEST(equal(out, {11, 22}));
}

BOOST_AUTO_TEST_CASE(a_traced_formula_of_gradients_and_names) {
  auto f = formula([](const auto& x, const auto& w) { return gradient<"w">(reduce_sum(square(x * var<"w">(w)))); });
  vector<double> x{1, 2}, w{3, 5}, out(2);
  for (int round = 0; round < 3; ++round) {
    f(x, w, out);
    BOOST_TEST(equal(out, {6, 40}));
    f(w, x, out);
    BOOST_TEST(equal(out, {18, 100}));
    f(x, x, out);
    BOOST_TEST(equal(out, {2, 16}));
  }
  auto same_name = formula([](const auto& x, const auto& w) { return var<"v">(x) + var<"v">(w); });
  same_name(x, x, out);
  BOOST_TEST(equal(out, {2, 4}));
}

BOOST_AUTO_TEST_CASE(plans_of_many_results) {
  vector<float> x{1, 2, 3};
  eval_plan p;
  auto a = p.add(exp(x) * 2), b = p.add(exp(x) + 1);
  auto c = p.add(reduce_sum(x));
  BOOST_TEST(message_of([&] { a.value(); }) == "handle: the plan has not run, so there is no value yet");
  p.run();
  BOOST_TEST(c.value()() == 6);
  auto direct = evaluate(exp(x) * 2);
  for (std::int64_t i = 0; i < 3; ++i) {
    BOOST_TEST(a.value()(i) == direct(i));
    BOOST_TEST(b.value()(i) == direct(i) / 2 + 1, boost::test_tools::tolerance(1e-6f));
  }
  auto later = p.add(x + 1);
  BOOST_CHECK_THROW(later.value(), state_error);
  p.run();
  BOOST_TEST(equal(later.value(), {2, 3, 4}));
  BOOST_TEST(c.value()() == 6);  // an earlier run's result stays
  p.run();                       // nothing to do
}

BOOST_AUTO_TEST_CASE(a_plan_of_many_results_that_fails_can_be_cleared) {
  matrix<float> table{{1, 2}, {3, 4}};
  vector<std::int64_t> wrong{0, 5};
  vector<float> x{1, 2};
  eval_plan p;
  auto bad = p.add(embedding(table, wrong));
  for (int i = 0; i < 2; ++i) BOOST_CHECK_THROW(p.run(), value_error);  // the failing entry stays
  auto beside = p.add(x + 1);
  BOOST_CHECK_THROW(p.run(), value_error);
  p.clear();
  wrong.writable(1) = 1;  // released, though the handle still exists
  p.run();                // nothing to do
  BOOST_CHECK_THROW(bad.value(), state_error);
  BOOST_CHECK_THROW(beside.value(), state_error);
  auto good = p.add(embedding(table, wrong));
  auto other = p.add(x * 2);
  p.run();
  BOOST_TEST(equal(good.value(), {1, 2, 3, 4}));
  BOOST_TEST(equal(other.value(), {2, 4}));
  BOOST_TEST(message_of([&] { p.add(dynamic<float, 1>{}); }) == "dynamic: it is empty");
  BOOST_CHECK_THROW(p.add(dynamic<float, 1>{}), state_error);
  auto third = p.add(x * 3);
  p.run();
  BOOST_TEST(equal(third.value(), {3, 6}));
}

BOOST_AUTO_TEST_CASE(a_plan_of_many_results_says_what_it_costs) {
  vector<float> x(1000);
  eval_plan p;
  auto a = p.add(exp(x) + exp(x));
  p.run();
  BOOST_TEST(p.counters().common == 1);  // the second exp
  BOOST_TEST(p.counters().nodes == 3);
  BOOST_TEST(p.cost().steps == 1u);  // one pass
  BOOST_TEST(p.cost().bytes == 8000u);
  BOOST_TEST(p.cost().arena == 0u);
  auto b = p.add(exp(x) * 2);
  auto c = p.add(reduce_sum(exp(x)));
  matrix<float> m(20, 30), w(30, 40), v(40, 5);
  auto d = p.add(matmul(matmul(m, w), v));
  p.run();
  BOOST_TEST(p.counters().common == 1);
  BOOST_TEST(p.cost().steps >= 4u);
  BOOST_TEST(p.cost().live_peak >= 20u * 40u * sizeof(float));
  BOOST_TEST(p.cost().arena >= p.cost().live_peak);
  BOOST_TEST(p.cost().bytes >= 4u * (20 * 30 + 30 * 40 + 2 * 20 * 40 + 40 * 5 + 20 * 5));
}

BOOST_AUTO_TEST_CASE(a_plan_of_data_as_it_is) {
  vector<float> x{1, 2, 3};
  eval_plan p;
  auto typed = p.add(x);
  auto erased = p.add(make_dynamic(x));
  static_assert(std::same_as<decltype(typed.value()), decltype(erased.value())>);
  BOOST_CHECK_THROW(erased.value(), state_error);
  p.run();
  BOOST_TEST(equal(typed.value(), {1, 2, 3}));
  BOOST_TEST(equal(erased.value(), {1, 2, 3}));
}

BOOST_AUTO_TEST_CASE(a_position_of_every_operand) {
  const matrix<float> m{{1, 2}, {3, 4}};
  BOOST_TEST(equal(evaluate((m + 1.f)[1]), {4, 5}));
  BOOST_TEST(equal(evaluate(dynamic<float, 2>(m)[0]), {1, 2}));
  BOOST_TEST(equal(evaluate(zeros<float>(2, 3)[1]), {0, 0, 0}));
  BOOST_TEST(equal(evaluate(filled(2.5f, 2, 2)[0] + m[1]), {5.5, 6.5}));
  BOOST_TEST(item(one_hot<float>(3, 1)[1]) == 1);
  BOOST_TEST(item(one_hot<float>(3, 1)[2]) == 0);
  const auto loss = reduce_sum(square(var<"m">(m)));
  BOOST_TEST(equal(evaluate(gradient<"m">(loss)[1]), {6, 8}));
  infer_layer<nn::add> layer;
  BOOST_TEST(equal(evaluate(layer.forward(dict("lhs"_key = m, "rhs"_key = m))["output"_key][1]), {6, 8}));
  BOOST_CHECK_THROW(zeros<float>(2, 3)[2], shape_error);
}

BOOST_AUTO_TEST_CASE(borrowed_memory) {
  std::vector<float> mine{1, 2, 3, 4, 5, 6};
  auto x = borrow(mine.data(), {2, 3});
  BOOST_TEST(equal(evaluate(x * 2), {2, 4, 6, 8, 10, 12}));
  mine[0] = 100;
  BOOST_TEST(evaluate(x * 2)(0, 0) == 200);
  std::vector<float> result(6);
  auto out = borrow(std::span(result), {2, 3});
  evaluate_into(out, x + 1);
  BOOST_TEST(result[5] == 7);
  BOOST_TEST(message_of([&] { borrow(std::span(result), {2, 4}); }) ==
             "borrow: a span of 6 elements cannot hold [2x4]");
  auto unaligned = borrow(mine.data() + 1, {5});
  BOOST_TEST(evaluate(reduce_sum(unaligned))() == 20);
}

BOOST_AUTO_TEST_CASE(borrowed_const_memory) {
  static const float table[] = {1, 2, 3, 4, 5, 6};
  auto x = borrow(table, {2, 3});
  static_assert(std::same_as<decltype(x), matrix<float>>);
  BOOST_TEST(x.data().data() == table);
  BOOST_TEST(equal(evaluate(x + borrow(std::span(table), {2, 3})), {2, 4, 6, 8, 10, 12}));
  BOOST_TEST(equal(borrow<extents<3, dyn>>(std::span(table), {3, 2}), {1, 2, 3, 4, 5, 6}));
  BOOST_TEST(borrow(std::span(table), shape{6}).shape().string() == "[6]");
  BOOST_TEST(message_of([&] { x.writable(); }) ==
             "tensor [2x3]: its memory is const, so it cannot be written; call detach() first");
  BOOST_TEST(message_of([&] { evaluate_into(x, x + 1.f); }) ==
             "tensor [2x3]: its memory is const, so it cannot be written; call detach() first");
  any_tensor any = borrow(std::span(table), shape{6});
  BOOST_TEST(message_of([&] { any.mutable_data(); }) ==
             "tensor [6]: its memory is const, so it cannot be written; call detach() first");
  BOOST_TEST(message_of([&] { fill(any, initializer::constant(9), 1, "w"); }) ==
             "tensor [6]: its memory is const, so it cannot be written; call detach() first");
  x.detach().writable(0, 0) = 7;
  BOOST_TEST(table[0] == 1);
  BOOST_TEST(x(0, 0) == 7);
}

BOOST_AUTO_TEST_CASE(threads_change_no_bit) {
  matrix<float> x = to_tensor(random_array(dtype::float32, {300, 500}, 1)).as<float, extents<dyn, dyn>>();
  matrix<float> w = to_tensor(random_array(dtype::float32, {500, 400}, 2)).as<float, extents<dyn, dyn>>();
  auto run = [&](int threads) {
    context where(threads, target_isa());
    return from_tensor(evaluate(reduce_sum<axes(0)>(tanh(matmul(x, w)) * 0.5f + exp(matmul(x, w) * 0.01f)), where));
  };
  auto one = run(1);
  for (int threads : {2, 3, 4}) BOOST_TEST(same_bits(run(threads), one));
}

// Number of plan lookups while f ran; an executor that is reused looks up none.
template <class F> std::uint64_t plans_asked_for(context& where, F f) {
  const auto asked = [&] {
    const auto s = where.slot<plan_cache>().statistics();
    return s.hits + s.misses;
  };
  const auto before = asked();
  f();
  return asked() - before;
}

BOOST_AUTO_TEST_CASE(what_stands_behind_a_dynamic_is_planned_once) {
  context where(1, target_isa());
  const auto chain = [](const vector<float>& a, const vector<float>& b, float n) {
    dynamic<float, 1> d = a * b;
    for (int i = 0; i < 20; ++i) d = d + dynamic<float, 1>(b) * n;
    return d;
  };
  vector<float> a{1, 2}, b{3, 4}, c{5, 6, 7};
  BOOST_TEST(plans_asked_for(where, [&] { BOOST_TEST(equal(evaluate(chain(a, b, 1), where), {63, 88})); }) == 1u);
  BOOST_TEST(plans_asked_for(where, [&] {
               BOOST_TEST(equal(evaluate(chain(b, a, 1), where), {23, 48}));    // other operands
               BOOST_TEST(equal(evaluate(chain(a, b, 2), where), {123, 168}));  // other numbers
             }) == 0u);
  BOOST_TEST(plans_asked_for(where, [&] { BOOST_TEST(equal(evaluate(chain(a, a, 1), where), {21, 44})); }) ==
             1u);  // one operand twice
  BOOST_TEST(plans_asked_for(where, [&] { BOOST_TEST(equal(evaluate(chain(c, c, 1), where), {125, 156, 189})); }) ==
             1u);  // other extents
  BOOST_TEST(plans_asked_for(where, [&] { BOOST_TEST(equal(evaluate(chain(a, b, 1) + a, where), {64, 90})); }) == 1u);
}

BOOST_AUTO_TEST_CASE(what_stands_behind_a_dynamic_is_told_apart) {
  context where(1, target_isa());
  using some = dynamic<float, 1>;
  vector<float> a{1, 2}, b{3, 5}, c{7, 11};
  for (int round = 0; round < 2; ++round) {
    BOOST_TEST(equal(evaluate(some(a - b), where), {-2, -3}));
    BOOST_TEST(equal(evaluate(some(b - a), where), {2, 3}));
    BOOST_TEST(equal(evaluate(some(a + b), where), {4, 7}));
    // which subexpressions are shared
    const some x = exp(a) * 0.f + b, y = exp(a) * 0.f + c;
    BOOST_TEST(equal(evaluate(some(some(x - y) * x), where), {-12, -30}));
    BOOST_TEST(equal(evaluate(some(some(x - y) * y), where), {-28, -66}));
    BOOST_TEST(equal(evaluate(some(some(y - x) * x), where), {12, 30}));
    BOOST_TEST(equal(evaluate(some(some(x - x) * y), where), {0, 0}));
    const auto [p, q] = evaluate(some(x + a), some(x - a));
    BOOST_TEST(equal(p, {4, 7}));
    BOOST_TEST(equal(q, {2, 3}));
    // attributes that are not part of the type
    const matrix<float> m{{1, 2}, {3, 5}};
    BOOST_TEST(equal(evaluate(dynamic<float, 1>(select(m, 0, 1)), where), {3, 5}));
    BOOST_TEST(equal(evaluate(dynamic<float, 1>(select(m, 0, 0)), where), {1, 2}));
    BOOST_TEST(equal(evaluate(dynamic<float, 1>(select(m, 1, 0)), where), {1, 3}));
    // gradients with respect to a variable inside the dynamic
    const some loss = var<"a">(a) * var<"b">(b);
    BOOST_TEST(equal(evaluate(gradient<"a">(loss), where), {3, 5}));
    BOOST_TEST(equal(evaluate(gradient<"b">(loss), where), {1, 2}));
    BOOST_TEST(equal(evaluate(some(gradient<"a">(loss) + a), where), {4, 7}));
  }
}

BOOST_AUTO_TEST_CASE(many_leaves_find_their_plan_too) {
  context where(1, target_isa());
  vector<float> x{1, 2};
  std::vector<vector<float>> many;
  for (int i = 0; i < 1000; ++i) many.push_back({1, 1});
  const auto sum = [&] {
    dynamic<float, 1> s = x;
    for (const auto& v : many) s = s + v;
    return s;
  };
  BOOST_TEST(equal(evaluate(sum(), where), {1001, 1002}));
  BOOST_TEST(plans_asked_for(where, [&] { BOOST_TEST(equal(evaluate(sum(), where), {1001, 1002})); }) == 0u);
  many[500] = many[400];  // two operands share memory
  BOOST_TEST(plans_asked_for(where, [&] { BOOST_TEST(equal(evaluate(sum(), where), {1001, 1002})); }) == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
