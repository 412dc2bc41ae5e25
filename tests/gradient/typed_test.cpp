// Gradients of typed expressions against those of programs.
#include <boost/test/unit_test.hpp>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

import lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using namespace engine_test;

namespace {

template <class T> matrix<T> filled_matrix(std::int64_t rows, std::int64_t columns, int seed) {
  return to_tensor(random_array(dtype_of<T>, {rows, columns}, seed)).template as<T, extents<dyn, dyn>>();
}
template <class T> vector<T> filled_vector(std::int64_t n, int seed) {
  return to_tensor(random_array(dtype_of<T>, {n}, seed)).template as<T, extents<dyn>>();
}

// The gradient of the same function in a program.
std::vector<array> by_program(const std::vector<array>& in,
                              const std::function<value(const std::vector<value>&)>& loss) {
  return results_of(in, [&](const std::vector<value>& x) { return gradients(loss(x), x); });
}
template <class T> void equal(const T& typed, const array& want) {
  BOOST_TEST(distance(from_tensor(any_tensor(typed)), want) == 0);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(typed_gradients)

BOOST_AUTO_TEST_CASE(a_layer) {
  for (const auto& [m, k, n] : {std::tuple{4, 5, 3}, {1, 1, 1}, {2, 7, 1}, {0, 3, 2}, {9, 2, 17}}) {
    auto x = filled_matrix<double>(m, k, 1), w = filled_matrix<double>(k, n, 2);
    auto b = filled_vector<double>(n, 3);
    auto loss = reduce_sum(square(tanh(matmul(var<"x">(x), var<"w">(w)) + var<"b">(b))));
    auto want = by_program({from_tensor(x), from_tensor(w), from_tensor(b)},
                           [](const auto& v) -> value { return reduce_sum(square(tanh(matmul(v[0], v[1]) + v[2]))); });
    equal(evaluate(gradient<"x">(loss)), want[0]);
    equal(evaluate(gradient<"w">(loss)), want[1]);
    equal(evaluate(gradient<"b">(loss)), want[2]);
    auto [l, dw, db] = evaluate(loss, gradient<"w">(loss), gradient<"b">(loss));
    equal(dw, want[1]);
    equal(db, want[2]);
    BOOST_TEST(l() == item(loss));
  }
}

BOOST_AUTO_TEST_CASE(what_was_repeated_along_an_axis_is_summed_whatever_is_known_of_it) {
  matrix<float> row{{1, 2, 3}}, big(4, 3);
  for (int i = 0; i < 12; ++i) big.writable()[static_cast<std::size_t>(i)] = static_cast<float>(i + 1);
  std::vector<float> memory(32, -7.f);
  auto out = borrow(std::span(memory.data(), 3), {1, 3});
  evaluate_into(out, gradient<"r">(reduce_sum(big * var<"r">(row))));
  BOOST_TEST((memory[0] == 22 && memory[1] == 26 && memory[2] == 30));
  for (std::size_t i = 3; i < memory.size(); ++i) BOOST_TEST(memory[i] == -7.f);
  matrix<double> column{{1}, {2}}, wide{{1, 2, 3}, {4, 5, 6}};
  equal(evaluate(gradient<"c">(reduce_sum(wide / var<"c">(column)))), array_of(dtype::float64, {2, 1}, {-6, -3.75}));
  equal(evaluate(gradient<"c">(reduce_sum(where(wide > 2.0, var<"c">(column), wide)))),
        array_of(dtype::float64, {2, 1}, {1, 3}));
}

BOOST_AUTO_TEST_CASE(a_classifier) {
  auto x = filled_matrix<float>(6, 4, 1), w = filled_matrix<float>(4, 3, 2);
  vector<std::int64_t> labels{0, 2, 1, 1, 0, 2};
  auto loss = cross_entropy(matmul(x, var<"w">(w)), labels);
  auto want = by_program({from_tensor(x), from_tensor(w), from_tensor(labels)},
                         [](const auto& v) { return value(cross_entropy(matmul(v[0], v[1]), v[2])); });
  equal(evaluate(gradient<"w">(loss)), want[1]);
}

BOOST_AUTO_TEST_CASE(elementwise_of_any_shape) {
  for (std::int64_t n : {0, 1, 2, 100, 1000}) {
    auto x = filled_vector<double>(n, 1), y = filled_vector<double>(n, 2);
    auto loss = exp(var<"x">(x) * y) + 2 / (1 + square(var<"x">(x)));  // not a scalar: its sum is differentiated
    auto want = by_program({from_tensor(x), from_tensor(y)},
                           [](const auto& v) -> value { return exp(v[0] * v[1]) + 2 / (1 + square(v[0])); });
    equal(evaluate(gradient<"x">(loss)), want[0]);
  }
}

BOOST_AUTO_TEST_CASE(a_variable_seen_with_and_without_its_name) {
  auto x = filled_vector<double>(4, 1);
  auto loss = reduce_sum(x * var<"x">(x));
  for (int round = 0; round < 2; ++round) {
    auto g = evaluate(gradient<"x">(loss));  // only named uses are differentiated: the other `x` is a constant
    for (std::int64_t i = 0; i < 4; ++i) BOOST_TEST(g(i) == x(i));
    auto both = evaluate(gradient<"x">(reduce_sum(var<"x">(x) * var<"x">(x))));
    for (std::int64_t i = 0; i < 4; ++i) BOOST_TEST(both(i) == 2 * x(i));
  }
  dynamic<double, 1> hidden = x * x;  // used first without a name, inside a `dynamic`
  auto later = evaluate(gradient<"x">(reduce_sum(hidden * var<"x">(x) + x)));
  for (std::int64_t i = 0; i < 4; ++i) BOOST_TEST(later(i) == x(i) * x(i));
  BOOST_TEST(item(loss) == item(reduce_sum(square(x))));  // the value is the same
}

BOOST_AUTO_TEST_CASE(two_names_for_one_memory) {
  auto x = filled_vector<double>(4, 1);
  auto loss = reduce_sum(var<"a">(x) * square(var<"b">(x)));
  for (int round = 0; round < 3; ++round) {
    auto [a, b] = evaluate(gradient<"a">(loss), gradient<"b">(loss));
    for (std::int64_t i = 0; i < 4; ++i) {
      BOOST_TEST(a(i) == x(i) * x(i));
      BOOST_TEST(b(i) == x(i) * 2 * x(i));
    }
  }
}

BOOST_AUTO_TEST_CASE(one_name_for_two_tensors) {
  auto a = filled_vector<double>(4, 1), b = filled_vector<double>(4, 2);
  const auto words = "variable `w` names two tensors, [4] and [4]; give each its own name";
  // The loss has the same type each time: with one tensor, then two, then one again.
  auto loss = [](const auto& x, const auto& y) { return reduce_sum(var<"w">(x) * square(var<"w">(y))); };
  for (int round = 0; round < 2; ++round) {
    auto g = evaluate(gradient<"w">(loss(a, a)));
    for (std::int64_t i = 0; i < 4; ++i)
      BOOST_TEST(g(i) == a(i) * 2 * a(i) + a(i) * a(i), boost::test_tools::tolerance(1e-14));
    BOOST_TEST(message_of([&] { evaluate(gradient<"w">(loss(a, b))); }) == words);
    BOOST_CHECK_THROW(evaluate(gradient<"w">(loss(a, b))), value_error);
    BOOST_TEST(message_of([&] {
                 eval_plan plan;
                 plan.add(gradient<"w">(loss(a, b)));
                 plan.run();
               }) == words);
  }
  // Inside a `dynamic`, with other extents.
  auto c = filled_vector<double>(1, 3);
  auto hidden = reduce_sum(var<"w">(a) * make_dynamic(square(var<"w">(c))));
  BOOST_TEST(message_of([&] { evaluate(gradient<"w">(hidden)); }) ==
             "variable `w` names two tensors, [4] and [1]; give each its own name");
  // Without a gradient, names have no effect.
  BOOST_TEST(evaluate(loss(a, b))() == evaluate(reduce_sum(a * square(b)))());
}

BOOST_AUTO_TEST_CASE(attributes_given_at_run_time) {
  auto images = to_tensor(random_array(dtype::float64, {2, 1, 5, 5}, 1)),
       filters = to_tensor(random_array(dtype::float64, {3, 1, 3, 3}, 2));
  auto x = images.as<double, extents<dyn, dyn, dyn, dyn>>(), w = filters.as<double, extents<dyn, dyn, dyn, dyn>>();
  for (int round = 0; round < 2; ++round)
    for (std::int64_t step : {1, 2}) {
      auto want = by_program({from_tensor(images), from_tensor(filters)}, [&](const auto& v) -> value {
        return reduce_sum(square(conv2d(v[0], v[1], {.stride = step})));
      });
      equal(evaluate(gradient<"w">(reduce_sum(square(conv2d(x, var<"w">(w), {.stride = step}))))), want[1]);
    }
}

BOOST_AUTO_TEST_CASE(one_name_in_two_losses) {
  auto a = filled_vector<double>(4, 1), b = filled_vector<double>(4, 2);
  auto one = reduce_sum(square(var<"w">(a))), two = reduce_sum(square(var<"w">(b)));
  auto [da, db] = evaluate(gradient<"w">(one), gradient<"w">(two));
  for (std::int64_t i = 0; i < 4; ++i) {
    BOOST_TEST(da(i) == 2 * a(i));
    BOOST_TEST(db(i) == 2 * b(i));
  }
}

BOOST_AUTO_TEST_CASE(second_order_through_names) {
  auto x = filled_vector<double>(5, 1);
  auto loss = reduce_sum(sin(var<"x">(x)));
  auto second = evaluate(gradient<"x">(reduce_sum(gradient<"x">(loss))));
  auto want = evaluate(-sin(x));
  for (std::int64_t i = 0; i < 5; ++i) BOOST_TEST(second(i) == want(i), boost::test_tools::tolerance(1e-14));
}

BOOST_AUTO_TEST_CASE(a_gradient_is_an_operand) {
  auto x = filled_vector<double>(5, 1);
  auto loss = reduce_sum(square(var<"x">(x)));
  double rate = 0.25;
  auto stepped = evaluate(x - rate * gradient<"x">(loss));
  for (std::int64_t i = 0; i < 5; ++i) BOOST_TEST(stepped(i) == 0.5 * x(i), boost::test_tools::tolerance(1e-14));
}

BOOST_AUTO_TEST_CASE(a_variable_behind_a_dynamic) {
  for (const auto& [m, n] : {std::pair{3, 4}, {1, 1}, {0, 2}, {2, 1}, {7, 33}}) {
    auto x = filled_matrix<double>(m, n, 1), y = filled_matrix<double>(m, n, 2);
    dynamic<double, 2> d = tanh(var<"x">(x));
    auto want = by_program({from_tensor(x), from_tensor(y)},
                           [](const auto& v) -> value { return reduce_sum(square(tanh(v[0])) * v[1] + tanh(v[0])); });
    auto loss = reduce_sum(square(d) * var<"y">(y) + d);
    equal(evaluate(gradient<"x">(loss)), want[0]);
    equal(evaluate(gradient<"y">(loss)), want[1]);
    // With the loss, which evaluates the shared part first, and inside a `dynamic`.
    auto [l, dx, dy] = evaluate(loss, gradient<"x">(loss), gradient<"y">(loss));
    equal(dx, want[0]);
    equal(dy, want[1]);
    dynamic<double, 0> hidden = loss;
    equal(evaluate(gradient<"x", matrix<double>>(hidden)), want[0]);
    dynamic<double, 2> slope = gradient<"x">(loss);
    auto second = by_program({from_tensor(x), from_tensor(y)}, [](const auto& v) -> value {
      const value w[] = {v[0]};
      return reduce_sum(gradients(reduce_sum(square(tanh(v[0])) * v[1] + tanh(v[0])), w)[0]);
    });
    equal(evaluate(gradient<"x">(reduce_sum(slope))), second[0]);
    eval_plan p;
    auto h = p.add(gradient<"x">(loss)), k = p.add(slope);
    p.run();
    equal(h.value(), want[0]);
    equal(k.value(), want[0]);
  }
}

BOOST_AUTO_TEST_CASE(softmax_and_nll_behind_a_dynamic) {
  auto x = filled_matrix<float>(6, 4, 1), w = filled_matrix<float>(4, 3, 2);
  auto b = filled_vector<float>(3, 3);
  vector<std::int64_t> labels{0, 2, 1, 1, 0, 2};
  dynamic<float, 2> y = softmax(matmul(x, var<"w">(w)) + var<"b">(b));
  auto want = by_program({from_tensor(x), from_tensor(w), from_tensor(b), from_tensor(labels)},
                         [](const auto& v) { return value(nll(log(softmax(matmul(v[0], v[1]) + v[2])), v[3])); });
  eval_plan p;
  auto dw = p.add(gradient<"w">(nll(log(y), labels)));
  auto db = p.add(gradient<"b", vector<float>>(nll(log(y), labels)));
  p.run();
  equal(dw.value(), want[1]);
  equal(db.value(), want[2]);
  BOOST_TEST(p.counters().of(rewrite::logarithm) > 0);
}

constexpr nn::linear behind_layer{3, 2};

BOOST_AUTO_TEST_CASE(a_variable_behind_the_operand_of_a_layer) {
  auto x = filled_matrix<double>(4, 3, 1), up = filled_matrix<double>(4, 2, 2);
  train_layer<constant_layer<behind_layer>, inputs<port<"input", matrix<double>>>,
              policies<feedback(true), element<double>>>
      layer("layer");
  init(layer);
  auto y = layer.forward(dict("input"_key = var<"x">(x)))["output"_key];
  auto slope = evaluate(gradient<"x">(reduce_sum(y * up)));
  auto back = evaluate(layer.backward(dict("output"_key = up))["input"_key]);
  BOOST_TEST(distance(from_tensor(slope), from_tensor(back)) < 1e-14);
}

BOOST_AUTO_TEST_CASE(what_is_not_behind_a_dynamic) {
  auto x = filled_matrix<double>(2, 3, 1), other = filled_matrix<double>(4, 3, 2);
  dynamic<double, 2> d = tanh(var<"x">(x)), e = var<"x">(other) * 2.0;
  auto words = [](auto f) -> std::string {
    try {
      f();
    } catch (const value_error& error) {
      return std::string("value: ") + error.what();
    } catch (const shape_error& error) {
      return std::string("shape: ") + error.what();
    } catch (const type_error& error) { return std::string("type: ") + error.what(); }
    return "none";
  };
  BOOST_TEST(words([&] { gradient<"v">(reduce_sum(d)); }) ==
             "value: gradient: the expression has no variable named `v`");
  BOOST_TEST(words([&] { gradient<"x">(reduce_sum(dynamic<double, 2>(x))); }) ==
             "value: gradient: the expression has no variable named `x`");
  BOOST_TEST(words([&] { gradient<"x">(dynamic<double, 0>(reduce_sum(d))); }) ==
             "shape: gradient: the variable `x` is float64[2x3]; expected float64[]; name its type, as in "
             "gradient<\"x\", vector<float>>(loss)");
  BOOST_TEST(words([&] {
               gradient<"x", matrix<float>>(reduce_sum(d));
             }).starts_with("type: gradient: the variable `x` is float64[2x3]"));
  BOOST_TEST(words([&] { evaluate(gradient<"x">(reduce_sum(d) + reduce_sum(e))); }) ==
             "value: variable `x` names two tensors, [2x3] and [4x3]; give each its own name");
  BOOST_TEST(words([&] {
               evaluate(gradient<"x">(reduce_sum(d) + reduce_sum(var<"x">(other))));
             }).starts_with("value: variable `x` names two tensors"));
  // Another expression of the same evaluation may use the name for another tensor.
  auto loss = reduce_sum(d);
  auto [a, g] = evaluate(e, gradient<"x">(loss));
  equal(g, by_program({from_tensor(x)}, [](const auto& v) -> value { return reduce_sum(tanh(v[0])); })[0]);
}

BOOST_AUTO_TEST_SUITE_END()
