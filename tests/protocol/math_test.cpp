// Elementwise layers and losses: forward equals the operation, backward equals central differences.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

import lamina;

using namespace lamina;

namespace {

using message = policies<feedback(true), element<double>>;
using numbers = vector<double>;

template <class X> std::vector<double> elements(const X& x) {
  auto t = evaluate(x);
  return {t.data().begin(), t.data().end()};
}

// Compares the backward pass with differences of sum(y * up), for every element of one port.
template <class X, class Run, class Analytic>
void compare(const char* name, const X& at, const std::vector<double>& analytic, const Run& run, const Analytic& up) {
  BOOST_TEST_CONTEXT(name)
  for (std::size_t i = 0; i < analytic.size(); ++i) {
    auto total = [&](double by) {
      X moved = at.copy();
      moved.writable()[i] += by;
      auto y = run(moved);
      double sum = 0;
      for (std::size_t k = 0; k < y.size(); ++k) sum += y[k] * up[k];
      return sum;
    };
    const double step = 1e-5, wanted = (total(step) - total(-step)) / (2 * step);
    BOOST_TEST(std::abs(analytic[i] - wanted) < 1e-7 * std::max(1.0, std::abs(wanted)));
  }
}

template <class L> void one_input(const char* name, const numbers& x, double (*function)(double)) {
  train_layer<L, inputs<port<"input", numbers>>, message> layer(name);
  const numbers up{1, -2, 0.5};
  auto forward = [&](const numbers& at) {
    auto y = layer.forward(dict("input"_key = at))["output"_key];
    return elements(y);
  };
  auto y = forward(x);
  auto analytic = elements(layer.backward(dict("output"_key = up))["input"_key]);
  for (std::size_t i = 0; i < y.size() && function; ++i) BOOST_TEST(std::abs(y[i] - function(x.data()[i])) < 1e-12);
  compare(name, x, analytic, forward, up.data());
}
template <class L>
void two_inputs(const char* name, const numbers& a, const numbers& b, double (*function)(double, double)) {
  train_layer<L, inputs<port<"lhs", numbers>, port<"rhs", numbers>>, message> layer(name);
  const numbers up{1, -2, 0.5};
  auto forward = [&](const numbers& x, const numbers& y) {
    return elements(layer.forward(dict("lhs"_key = x, "rhs"_key = y))["output"_key]);
  };
  auto y = forward(a, b);
  auto grad = layer.backward(dict("output"_key = up));
  auto of_a = elements(grad["lhs"_key]), of_b = elements(grad["rhs"_key]);
  for (std::size_t i = 0; i < y.size(); ++i) BOOST_TEST(std::abs(y[i] - function(a.data()[i], b.data()[i])) < 1e-12);
  compare(name, a, of_a, [&](const numbers& x) { return forward(x, b); }, up.data());
  compare(name, b, of_b, [&](const numbers& x) { return forward(a, x); }, up.data());
}

const numbers any{-1.3, 0.4, 2.1}, inside{-0.7, 0.2, 0.6}, above{1.2, 2.5, 7};

}  // namespace

BOOST_AUTO_TEST_SUITE(math_layers)

BOOST_AUTO_TEST_CASE(of_one_input) {
  one_input<nn::abs>("abs", any, [](double x) { return std::abs(x); });
  one_input<nn::acos>("acos", inside, [](double x) { return std::acos(x); });
  one_input<nn::acosh>("acosh", above, [](double x) { return std::acosh(x); });
  one_input<nn::asin>("asin", inside, [](double x) { return std::asin(x); });
  one_input<nn::asinh>("asinh", any, [](double x) { return std::asinh(x); });
  one_input<nn::cos>("cos", any, [](double x) { return std::cos(x); });
  one_input<nn::sigmoid>("sigmoid", any, [](double x) { return 1 / (1 + std::exp(-x)); });
  one_input<nn::sin>("sin", any, [](double x) { return std::sin(x); });
  one_input<nn::square>("square", any, [](double x) { return x * x; });
  one_input<nn::tan>("tan", inside, [](double x) { return std::tan(x); });
  one_input<nn::tanh>("tanh", any, [](double x) { return std::tanh(x); });
  one_input<nn::relu>("relu", any, [](double x) { return x > 0 ? x : 0; });
  one_input<nn::softmax>("softmax", any, nullptr);
}

BOOST_AUTO_TEST_CASE(of_two_inputs) {
  two_inputs<nn::add>("add", any, inside, [](double x, double y) { return x + y; });
  two_inputs<nn::subtract>("subtract", any, inside, [](double x, double y) { return x - y; });
  two_inputs<nn::multiply>("multiply", any, inside, [](double x, double y) { return x * y; });
  two_inputs<nn::divide>("divide", any, above, [](double x, double y) { return x / y; });
}

// The loss is -sum(weights log input) / sum(weights); gradients by probabilities and by weights.
BOOST_AUTO_TEST_CASE(of_a_loss) {
  using table = matrix<double>;
  train_layer<nn::nll_loss, inputs<port<"weights", table>, port<"input", table>>, message> layer("loss");
  infer_layer<nn::nll_loss> plain;
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{1, 1}, {1, 3}, {2, 3}, {4, 1}, {5, 9}};
  for (auto [rows, classes] : sizes) {
    table p(rows, classes), w(rows, classes);
    double total = 0, sum = 0;
    for (std::size_t i = 0; i < p.data().size(); ++i) {
      p.writable()[i] = 0.1 + static_cast<double>(i * 7 % 10) / 11;
      w.writable()[i] = 0.2 + static_cast<double>(i * 3 % 5) / 4;
      total += w.data()[i] * std::log(p.data()[i]);
      sum += w.data()[i];
    }
    auto forward = [&](const table& input, const table& weights) {
      return elements(layer.forward(dict("input"_key = input, "weights"_key = weights))["output"_key]);
    };
    BOOST_TEST(std::abs(forward(p, w)[0] + total / sum) < 1e-12);
    const std::vector<double> up{2};
    auto grad = layer.backward(dict("output"_key = scalar<double>(up[0])));
    compare("of input", p, elements(grad["input"_key]), [&](const table& x) { return forward(x, w); }, up);
    compare("of weights", w, elements(grad["weights"_key]), [&](const table& x) { return forward(p, x); }, up);
    BOOST_TEST(elements(plain.forward(dict("input"_key = p, "weights"_key = w))["output"_key]) == forward(p, w),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_SUITE_END()
