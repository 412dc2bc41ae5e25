// The elementwise layers one by one: forward is the operation's, backward is what central differences say.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

import lamina;

using namespace lamina;

namespace {

using said = policies<feedback(true), element<double>>;
using numbers = vector<double>;

template <class X>
std::vector<double> elements(const X& x) {
  auto t = evaluate(x);
  return {t.data().begin(), t.data().end()};
}

// Differences of sum(y * up) against the backward pass, for every element of one port.
template <class Run, class Analytic>
void compare(const char* name, numbers at, const std::vector<double>& analytic, const Run& run, const Analytic& up) {
  BOOST_TEST_CONTEXT(name)
  for (std::size_t i = 0; i < analytic.size(); ++i) {
    auto total = [&](double by) {
      numbers moved = at.copy();
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

template <class L>
void one_input(const char* name, const numbers& x, double (*function)(double)) {
  train_layer<L, inputs<port<"input", numbers>>, said> layer(name);
  const numbers up{1, -2, 0.5};
  auto forward = [&](const numbers& at) {
    auto y = layer.forward(dict(key<"input"> = at))[key<"output">];
    return elements(y);
  };
  auto y = forward(x);
  auto analytic = elements(layer.backward(dict(key<"output"> = up))[key<"input">]);
  for (std::size_t i = 0; i < y.size() && function; ++i) BOOST_TEST(std::abs(y[i] - function(x.data()[i])) < 1e-12);
  compare(name, x, analytic, forward, up.data());
}
template <class L>
void two_inputs(const char* name, const numbers& a, const numbers& b, double (*function)(double, double)) {
  train_layer<L, inputs<port<"lhs", numbers>, port<"rhs", numbers>>, said> layer(name);
  const numbers up{1, -2, 0.5};
  auto forward = [&](const numbers& x, const numbers& y) {
    return elements(layer.forward(dict(key<"lhs"> = x, key<"rhs"> = y))[key<"output">]);
  };
  auto y = forward(a, b);
  auto grad = layer.backward(dict(key<"output"> = up));
  auto of_a = elements(grad[key<"lhs">]), of_b = elements(grad[key<"rhs">]);
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

BOOST_AUTO_TEST_SUITE_END()
