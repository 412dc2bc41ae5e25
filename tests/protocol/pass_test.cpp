// Training and inference layers: results of forward and backward passes, their order, and diagnostics for misuse.
module;
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

module lamina;

#include "graph.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

using my_policies = policies<trainable(true), feedback(true), element<float>, sub<"dot">(trainable(false))>;
using add_layer = train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>, my_policies>;

struct scaled_by {
  static constexpr view<const label> inputs() { return port_names<"x", "n">; }
  constexpr auto forward(auto&, const auto& x, const auto& n) const { return x * cast<float>(n); }
};

// Two results; the second does not depend on the first input.
struct sum_and_half {
  static constexpr view<const label> inputs() { return port_names<"a", "b">; }
  static constexpr view<const label> outputs() { return port_names<"sum", "half">; }
  constexpr auto forward(auto&, const auto& a, const auto& b) const { return std::array{a + b, b * 0.5}; }
};

template <class X> std::vector<double> numbers(const X& x) {
  auto t = evaluate(x);
  return {t.data().begin(), t.data().end()};
}
using doubles = std::vector<double>;
void equal(const doubles& is, const doubles& wanted) {
  BOOST_TEST(is.size() == wanted.size());
  for (std::size_t i = 0; i < is.size() && i < wanted.size(); ++i) BOOST_TEST(std::abs(is[i] - wanted[i]) < 1e-6);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(passes)

BOOST_AUTO_TEST_CASE(a_layer_goes_forward_and_backward_lazily) {
  add_layer layer("add");
  matrix<float> a{{1, 2}, {3, 4}}, b{{10, 20}, {30, 40}}, g{{1, 0}, {2, -1}};
  auto out = layer.forward(dict("lhs"_key = a, "rhs"_key = b));
  auto grad = layer.backward(dict("output"_key = g));
  static_assert(std::same_as<std::remove_cvref_t<decltype(out["output"_key])>, port_value<float, extents<dyn, dyn>>>);
  equal(numbers(out["output"_key]), {11, 22, 33, 44});
  equal(numbers(grad["lhs"_key]), {1, 0, 2, -1});
  equal(numbers(grad["rhs"_key]), {1, 0, 2, -1});
  equal(numbers(tanh(out["output"_key] * 0.f) + grad["rhs"_key]), {1, 0, 2, -1});  // operands like any other
  layer.assert_neutral();
}

BOOST_AUTO_TEST_CASE(backward_passes_take_forward_results_in_reverse_order) {
  train_layer<nn::multiply, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>, my_policies> layer("times");
  matrix<float> a{{2}}, b{{3}}, c{{5}}, d{{7}}, one{{1}};
  auto first = layer.forward(dict("lhs"_key = a, "rhs"_key = b));
  auto second = layer.forward(dict("lhs"_key = c, "rhs"_key = d));
  BOOST_TEST(layer.waiting() == 2u);
  BOOST_TEST(message_of([&] { layer.assert_neutral(); }) ==
             "layer `times`: 2 forward results wait for a backward pass");
  auto of_second = layer.backward(dict("output"_key = one));
  BOOST_CHECK_THROW(assert_neutral(layer), state_error);
  auto of_first = layer.backward(dict("output"_key = one));
  layer.assert_neutral();
  equal(numbers(of_second["lhs"_key]), {7});
  equal(numbers(of_first["lhs"_key]), {3});
  equal(numbers(of_first["rhs"_key]), {2});
  equal(numbers(first["output"_key] + second["output"_key]), {41});
  BOOST_TEST(message_of([&] { layer.backward(dict("output"_key = one)); }) ==
             "layer `times`: backward, but no forward result waits for it");
}

BOOST_AUTO_TEST_CASE(an_empty_gradient_pops_and_gives_empty_ones) {
  add_layer layer("add");
  matrix<float> a(2, 2);
  layer.forward(dict("lhs"_key = a, "rhs"_key = a));
  auto grad = layer.backward(dict("output"_key = no_gradient));
  static_assert(std::same_as<std::remove_cvref_t<decltype(grad["lhs"_key])>, no_gradient_type>);
  layer.assert_neutral();
}

BOOST_AUTO_TEST_CASE(gradients_of_broadcast_operands_are_summed_back) {
  train_layer<nn::multiply, inputs<port<"lhs", matrix<double>>, port<"rhs", vector<double>>>,
              policies<feedback(true), element<double>>>
      layer("times");
  matrix<double> a{{1, 2, 3}, {4, 5, 6}}, g{{1, 1, 1}, {1, 10, 100}};
  vector<double> b{1, 2, 3};
  auto out = layer.forward(dict("rhs"_key = b, "lhs"_key = a));  // by name, not by position
  auto grad = layer.backward(dict("output"_key = g));
  BOOST_TEST((grad["rhs"_key].shape() == shape{3}));
  equal(numbers(grad["lhs"_key]), {1, 2, 3, 1, 20, 300});
  equal(numbers(grad["rhs"_key]), {5, 52, 603});
  equal(numbers(out["output"_key]), {1, 4, 9, 4, 10, 18});
}

BOOST_AUTO_TEST_CASE(one_operand_for_two_ports_has_a_gradient_for_each) {
  train_layer<nn::multiply, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>, my_policies> layer("times");
  matrix<float> a{{3}}, one{{1}};
  auto half = a * 0.5f;
  layer.forward(dict("lhs"_key = half, "rhs"_key = tanh(half) * 0.f + 2.f));
  auto grad = layer.backward(dict("output"_key = one));
  equal(numbers(grad["lhs"_key]), {2});  // without the derivative through the other operand
  layer.forward(dict("lhs"_key = a, "rhs"_key = a));
  auto same = layer.backward(dict("output"_key = one));
  equal(numbers(same["lhs"_key]), {3});
  equal(numbers(same["rhs"_key]), {3});
}

BOOST_AUTO_TEST_CASE(shapes_are_checked_on_every_call) {
  add_layer layer("sum");
  matrix<float> a(2, 3), b(4, 5), g(3, 2);
  BOOST_TEST(message_of([&] { layer.forward(dict("lhs"_key = a, "rhs"_key = b)); }) ==
             "layer `sum`: add: the shapes do not broadcast: [2x3] [4x5]");
  layer.assert_neutral();
  layer.forward(dict("lhs"_key = a, "rhs"_key = a));
  BOOST_TEST(message_of([&] { layer.backward(dict("output"_key = g)); }) ==
             "layer `sum`: the gradient of port `output` is [3x2]; expected [2x3]");
  BOOST_CHECK_THROW(layer.backward(dict("output"_key = g)), shape_error);
  BOOST_TEST(layer.waiting() == 1u);  // refused, so the forward result still waits
  train_layer<nn::add, inputs<port<"lhs", tensor<float, extents<"N", 3>>>, port<"rhs", tensor<float, extents<"N", 1>>>>>
      named("named");
  BOOST_TEST(message_of([&] { named.forward(dict("lhs"_key = a, "rhs"_key = matrix<float>(1, 1))); }) ==
             "layer `named`: dimension `N` has two extents; port `rhs` is [Nx1]; got [1x1]");
  BOOST_TEST(message_of([&] { named.forward(dict("lhs"_key = matrix<float>(2, 4), "rhs"_key = a)); }) ==
             "layer `named`: port `lhs` is [Nx3]; got [2x4]");
}

BOOST_AUTO_TEST_CASE(nothing_waits_where_nothing_is_trained_or_fed_back) {
  train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
  matrix<float> a(1, 1);
  layer.forward(dict("lhs"_key = a, "rhs"_key = a));
  layer.assert_neutral();
  auto grad = layer.backward(dict("output"_key = a));
  static_assert(std::same_as<std::remove_cvref_t<decltype(grad["rhs"_key])>, no_gradient_type>);
}

BOOST_AUTO_TEST_CASE(integer_ports_have_no_gradient) {
  train_layer<scaled_by, inputs<port<"n", vector<std::int64_t>>, port<"x", vector<float>>>, my_policies> layer(
      "scaled_by");
  auto out = layer.forward(dict("x"_key = vector<float>{1, 2}, "n"_key = vector<std::int64_t>{3, 4}));
  auto grad = layer.backward(dict("output"_key = vector<float>{1, 10}));
  static_assert(std::same_as<std::remove_cvref_t<decltype(grad["n"_key])>, no_gradient_type>);
  equal(numbers(out["output"_key]), {3, 8});
  equal(numbers(grad["x"_key]), {3, 40});
}

BOOST_AUTO_TEST_CASE(a_gradient_of_one_of_two_results) {
  train_layer<sum_and_half, inputs<port<"a", vector<float>>, port<"b", vector<float>>>, my_policies> layer("two");
  vector<float> a{1, 2}, b{4, 8}, g{1, 10};
  for (int i = 0; i < 3; ++i) layer.forward(dict("a"_key = a, "b"_key = b));
  auto both = layer.backward(dict("sum"_key = g, "half"_key = g));
  auto half = layer.backward(dict("sum"_key = no_gradient, "half"_key = g));
  auto out = layer.forward(dict("a"_key = a, "b"_key = b));
  equal(numbers(both["b"_key]), {1.5, 15});
  equal(numbers(both["a"_key]), {1, 10});
  equal(numbers(half["b"_key]), {0.5, 5});
  equal(numbers(half["a"_key]), {0, 0});
  equal(numbers(out["half"_key]), {2, 4});
  equal(numbers(out["sum"_key]), {5, 10});
  BOOST_TEST(layer.waiting() == 2u);
}

BOOST_AUTO_TEST_CASE(equal_calls_are_the_same) {
  add_layer add("add");
  matrix<float> a{{1}}, b{{1}};
  auto out = [&](const auto& x) { return add.forward(dict("lhs"_key = x, "rhs"_key = x))["output"_key]; };
  BOOST_TEST(same(out(a), out(a)));
  BOOST_TEST(structure_hash(out(a)) == structure_hash(out(a)));
  BOOST_TEST(!same(out(a), out(b)));
  BOOST_TEST(same(out(out(a)), out(out(a))));
  BOOST_TEST(!same(out(out(a)), out(out(b))));
}

BOOST_AUTO_TEST_CASE(forward_and_backward_share_what_they_have_in_common) {
  train_layer<nn::tanh, inputs<port<"input", matrix<float>>>, my_policies> layer("tanh");
  matrix<float> x = matrix<float>{{0.5f, -1}}, one{{1, 1}};
  auto out = layer.forward(dict("input"_key = exp(x)));
  auto grad = layer.backward(dict("output"_key = one));
  eval_plan both;
  auto y = both.add(out["output"_key]);
  auto dx = both.add(grad["input"_key]);
  auto again = both.add(out["output"_key] + 0.f);
  both.run();
  for (int i = 0; i < 2; ++i) {
    double t = std::tanh(std::exp(static_cast<double>(x(0, i))));
    BOOST_TEST(std::abs(static_cast<double>(y.value()(0, i)) - t) < 1e-6);
    BOOST_TEST(std::abs(static_cast<double>(dx.value()(0, i)) - (1 - t * t)) < 1e-6);
  }
  // One program contains exp and tanh once each.
  program p;
  lowering l(p);
  p.output("y", lower(out["output"_key], l));
  p.output("dx", lower(grad["input"_key], l));
  auto count = [&](std::string_view name) {
    return std::count_if(p.nodes().begin(), p.nodes().end(),
                         [&](const node& n) { return n.kind == node_kind::operation && n.op->name == name; });
  };
  BOOST_TEST(count("exp") == 1);
  BOOST_TEST(count("tanh") == 1);
}

BOOST_AUTO_TEST_CASE(results_outlive_the_layer_and_chains_may_be_long) {
  matrix<float> x{{1}};
  port_value<float, extents<dyn, dyn>> y, dy;
  {
    add_layer layer("add");
    for (int i = 0; i < 3000; ++i) {
      if (i == 0) y = layer.forward(dict("lhs"_key = x, "rhs"_key = x))["output"_key];
      else y = layer.forward(dict("lhs"_key = y, "rhs"_key = x))["output"_key];
    }
    dy = layer.backward(dict("output"_key = x))["lhs"_key];
    for (int i = 1; i < 3000; ++i) dy = layer.backward(dict("output"_key = dy))["lhs"_key];
    layer.assert_neutral();
  }
  equal(numbers(y), {3001});
  equal(numbers(dy), {1});
}

BOOST_AUTO_TEST_CASE(an_inference_layer_takes_what_fits) {
  infer_layer<nn::dot> dot("dot");
  auto out = dot.forward(dict("lhs"_key = tensor<float, extents<dyn, 3>>{{1, 2, 3}},
                              "rhs"_key = tensor<float, extents<3, 2>>{{1, 0}, {0, 1}, {1, 1}}));
  static_assert(std::remove_cvref_t<decltype(out["output"_key])>::pattern == shape{dyn, 2});
  equal(numbers(out["output"_key]), {4, 5});
  auto wide = dot.forward(dict("lhs"_key = matrix<double>{{2}}, "rhs"_key = filled(3.0, 1, 2)));
  equal(numbers(wide["output"_key]), {6, 6});
  BOOST_TEST(message_of([&] { dot.forward(dict("lhs"_key = matrix<float>(2, 3), "rhs"_key = matrix<float>(2, 3))); }) ==
             "layer `dot`: matmul: the inner sizes differ: [2x3] [2x3]");
}

BOOST_AUTO_TEST_CASE(dropout_draws_other_numbers_on_each_forward_pass_and_the_same_ones_backward) {
  static constexpr nn::dropout half{0.5};
  train_layer<constant_layer<half>, inputs<port<"input", vector<float>>>, policies<feedback(true)>> layer("drop");
  vector<float> x(1000);
  for (auto& v : x.writable()) v = 1;
  auto first = layer.forward(dict("input"_key = x)), second = layer.forward(dict("input"_key = x));
  auto y1 = numbers(first["output"_key]), y2 = numbers(second["output"_key]);
  BOOST_TEST((y1 != y2));
  BOOST_TEST((numbers(first["output"_key]) == y1));
  BOOST_TEST((numbers(layer.backward(dict("output"_key = x))["input"_key]) == y2));
  BOOST_TEST((numbers(layer.backward(dict("output"_key = x))["input"_key]) == y1));
}

BOOST_AUTO_TEST_SUITE_END()
