// gradcheck: correct gradients pass, wrong ones are named.
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

import lamina;

#include "message.h"

using namespace lamina;
using namespace lamina::ir;
using engine_test::message_of;

namespace {

matrix<double> some(std::int64_t rows, std::int64_t columns, double first) {
  matrix<double> m(rows, columns);
  double x = first;
  for (auto& v : m.writable()) v = x = std::sin(12.9898 * x) * 1.5 + 0.1;
  return m;
}

// Layers with a wrong gradient: none for the weight, or half of the input's.
struct forgets_weight {
  constexpr auto forward(auto& s, const auto& x) const {
    return x * stop_gradient(s.parameter("weight", shape{3}, initializer::constant(0.5)));
  }
};
struct halves_input {
  constexpr auto forward(auto&, const auto& x) const { return (x + stop_gradient(x)) * 0.5; }
};
struct twins {
  static constexpr view<const label> inputs() { return port_names<"a", "b">; }
  static constexpr view<const label> outputs() { return port_names<"sum", "product">; }
  constexpr auto forward(auto&, const auto& a, const auto& b) const { return std::array{a + b, a * b}; }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(gradchecks)

BOOST_AUTO_TEST_CASE(right_gradients_pass) {
  const auto a = some(2, 3, 0.3), b = some(3, 4, 0.7);
  const auto report = gradcheck([](const value& x, const value& y) { return tanh(matmul(x, y)); }, a, b);
  BOOST_TEST(static_cast<bool>(report), report.message);
  BOOST_TEST(report.message.empty());
  BOOST_TEST(report.error < 1e-6);
  BOOST_TEST(!report.where.empty());
  BOOST_TEST(gradcheck({.second_order = true}, [](const value& x) { return exp(x) * x; }, a).message == "");
  // Several results, one of them without a derivative, and an operand other than float64.
  vector<std::int64_t> labels(2);
  labels.writable()[1] = 2;
  BOOST_TEST(
      gradcheck([](const value& x, const value& l) { return std::array{value(cross_entropy(x, l)), value(argmax(x))}; },
                a, labels)
          .message == "");
  BOOST_TEST(gradcheck([](const value& x) { return std::vector<value>{square(x), sin(x)}; }, a).message == "");
}

BOOST_AUTO_TEST_CASE(a_wrong_gradient_is_named) {
  const matrix<double> x{{1, 2}, {3, 4}};
  const auto report = gradcheck([](const value& a, const value& b) { return a * 3 + b * stop_gradient(b); }, x, x);
  BOOST_TEST(!report);
  BOOST_TEST(report.where.starts_with("input 1 at ["));
  BOOST_TEST(std::abs(report.numeric - 2 * report.analytic) < 1e-6 * std::abs(report.numeric));
  BOOST_TEST(std::abs(report.error - 0.5) < 1e-6);
  BOOST_TEST(report.message.starts_with("gradcheck: " + report.where + ": the gradient is "));
  BOOST_TEST(report.message.ends_with(" is above the tolerance of 1e-6"));
  BOOST_TEST(gradcheck({.tolerance = 0.6}, [](const value& a) { return a * stop_gradient(a); }, x).message == "");
}

// The square, with a correct gradient whose own derivative is 0.
BOOST_AUTO_TEST_CASE(a_second_derivative_alone) {
  const matrix<double> x{{1, 2}};
  const auto f = [](const value& a) {
    const value at = stop_gradient(a);
    return at * at + (a - at) * at * 2;
  };
  BOOST_TEST(gradcheck(f, x).message == "");
  const auto report = gradcheck({.second_order = true}, f, x);
  BOOST_TEST(!report);
  BOOST_TEST(report.message.find(": the second derivative is ") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(layers_and_their_parameters) {
  const auto x = some(4, 3, 0.2);
  for (bool training : {false, true}) {
    BOOST_TEST(
        gradcheck({.training = training, .second_order = true}, nn::linear{.in_features = 3, .out_features = 2}, x)
            .message == "");
    BOOST_TEST(gradcheck({.training = training}, nn::layer_norm{shape{3}}, x).message == "");
    BOOST_TEST(gradcheck({.training = training}, nn::dropout{0.5}, x).message == "");
  }
  BOOST_TEST(gradcheck(twins{}, x, some(4, 3, 0.9)).message == "");
  constexpr auto net = sequential(nn::linear{.in_features = 3, .out_features = 5}, nn::tanh{},
                                  nn::linear{.in_features = 5, .out_features = 2});
  BOOST_TEST(gradcheck(net, x).message == "");
  BOOST_TEST(gradcheck({.seed = 7}, net, x).message == "");
  BOOST_TEST(gradcheck(nn::embedding{.num_embeddings = 5, .embedding_dim = 3}, vector<std::int64_t>{0, 4, 4}).message ==
             "");
  tensor<double, extents<2, 2, 3, 3>> images;
  double v = 0.1;
  for (auto& p : images.writable()) p = v = std::sin(7 * v) + 0.3;
  BOOST_TEST(gradcheck({.tolerance = 1e-5}, nn::batch_norm2d{2}, images).message == "");

  const auto weight = gradcheck(forgets_weight{}, x);
  BOOST_TEST(!weight);
  BOOST_TEST(weight.where.starts_with("parameter `weight` at ["));
  BOOST_TEST(weight.analytic == 0);
  constexpr auto inside = sequential(sublayer<"first">(nn::linear{.in_features = 3, .out_features = 3}),
                                     sublayer<"second">(forgets_weight{}));
  BOOST_TEST(gradcheck(inside, x).where.starts_with("parameter `second.weight` at ["));
  const auto input = gradcheck(halves_input{}, x);
  BOOST_TEST(input.where.starts_with("input 0 at ["));
  BOOST_TEST(std::abs(input.error - 0.5) < 1e-6);
}

// For operations without a float64 kernel: less precise, but errors are still found.
BOOST_AUTO_TEST_CASE(operands_in_float32) {
  const matrix<float> x{{0.3f, -1.2f, 0.8f}, {1.5f, 0.1f, -0.4f}};
  const auto right = gradcheck([](const value& a) { return tanh(a) * exp(a); }, x);
  BOOST_TEST(right.message == "");
  BOOST_TEST(right.error > 0);
  const auto wrong = gradcheck([](const value& a) { return a * stop_gradient(a); }, x);
  BOOST_TEST(wrong.message.ends_with(" is above the tolerance of 0.002"));
  BOOST_TEST(gradcheck(nn::linear{.in_features = 3, .out_features = 2}, x).message == "");
  BOOST_TEST(gradcheck(forgets_weight{}, x).where.starts_with("parameter `weight` at ["));
}

// Operands keep their elements: differences use copies.
BOOST_AUTO_TEST_CASE(operands_stay_as_they_are) {
  const auto x = some(2, 2, 0.4);
  const auto before = std::vector<double>(x.data().begin(), x.data().end());
  (void)gradcheck([](const value& a) { return square(a); }, x);
  BOOST_TEST(std::vector<double>(x.data().begin(), x.data().end()) == before, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_is_refused) {
  const auto squared = [](const value& a) { return square(a); };
  const matrix<double> x{{1, 2}};
  BOOST_TEST(message_of([&] {
               gradcheck([](const value& i) { return cast<double>(i); }, vector<std::int64_t>{1, 2});
             }) == "gradcheck: no operand is float64 or float32");
  BOOST_TEST(message_of([&] { gradcheck([](const value& a) { return argmax(a); }, x); }) ==
             "gradcheck: no result is float64 or float32");
  BOOST_TEST(message_of([&] { gradcheck({.step = std::numeric_limits<double>::quiet_NaN()}, squared, x); }) ==
             "gradcheck: `step` is nan; expected a finite number >= 0");
  BOOST_TEST(message_of([&] { gradcheck({.tolerance = -1}, squared, x); }) ==
             "gradcheck: `tolerance` is -1; expected a finite number >= 0");
  BOOST_TEST(message_of([&] { gradcheck(nn::linear{.in_features = 5, .out_features = 2}, x); }).find("linear") !=
             std::string::npos);
  BOOST_CHECK_THROW(gradcheck(nn::linear{.in_features = 5, .out_features = 2}, x), shape_error);
}

BOOST_AUTO_TEST_CASE(differences_of_a_program) {
  auto p = std::make_shared<program>();
  value a = p->input("a", {dtype::float64, {2}}), b = p->input("b", {dtype::float64, {}});
  p->output("sum", reduce_sum(exp(a)) * b);
  central_differences d(p, {any_tensor(vector<double>{0, 1}), any_tensor(scalar<double>(2))});
  BOOST_TEST(std::abs(d.at(0, 1) - 2 * std::exp(1.0)) < 1e-8);
  BOOST_TEST(std::abs(d.at(1, 0) - 1 - std::exp(1.0)) < 1e-8);
  auto two = std::make_shared<program>();
  value c = two->input("c", {dtype::float64, {2}});
  two->output("c", c * 2);
  BOOST_TEST(message_of([&] { central_differences(two, {any_tensor(vector<double>{0, 1})}); }) ==
             "central_differences: the output is float64[2]; expected float64[]");
}

BOOST_AUTO_TEST_SUITE_END()
