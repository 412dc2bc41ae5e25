// Elementwise functions of one operand, a line each, for tests of kernels, operations, gradients, layers, plans and
// bundles. A function has a micro-operation; a formula consists of other operations. Both have a layer of that name.
#pragma once

#include <algorithm>
#include <cmath>
#include <iterator>

// name, range of test arguments, range of arguments for the gradient check (0, 0: it has kinks and is checked away from
// them in first order), error of float32 and of float64 in units of the last place, and the reference for a T x.
// clang-format off
#define ELEMENTWISE_FUNCTIONS(F)                                                                                       \
  F(abs, -9, 9, 0, 0, 0, 0, std::abs(x))                                                                               \
  F(sign, -9, 9, 0, 0, 0, 0, x > 0 ? T(1) : x < 0 ? T(-1) : x)                                                         \
  F(square, -9, 9, -2, 2, 0.5, 0.5, x * x)                                                                             \
  F(sqrt, 0, 99, 0.5, 3, 0.5, 0.5, std::sqrt(x))                                                                       \
  F(reciprocal, 0.1, 9, 0.5, 3, 0.5, 0.5, 1 / x)                                                                       \
  F(exp, -20, 20, -3, 2, 1, 2, std::exp(x))                                                                            \
  F(log, 0.001, 99, 0.5, 3, 1, 2, std::log(x))                                                                         \
  F(sin, -50, 50, -4, 4, 1, 2, std::sin(x))                                                                            \
  F(cos, -50, 50, -4, 4, 1, 2, std::cos(x))                                                                            \
  F(tan, -1.5, 1.5, -1, 1, 1, 2, std::tan(x))                                                                          \
  F(asin, -1, 1, -0.8, 0.8, 1, 2, std::asin(x))                                                                        \
  F(acos, -1, 1, -0.8, 0.8, 1, 2, std::acos(x))                                                                        \
  F(atan, -9, 9, -3, 3, 1, 2, std::atan(x))                                                                            \
  F(sinh, -9, 9, -2, 2, 1, 2, std::sinh(x))                                                                            \
  F(cosh, -9, 9, -2, 2, 1, 2, std::cosh(x))                                                                            \
  F(tanh, -9, 9, -3, 3, 1.1, 2, std::tanh(x))                                                                          \
  F(asinh, -9, 9, -3, 3, 1, 2, std::asinh(x))                                                                          \
  F(acosh, 1, 9, 1.5, 4, 1, 2, std::acosh(x))                                                                          \
  F(atanh, -0.99, 0.99, -0.7, 0.7, 1, 2, std::atanh(x))                                                                \
  F(erf, -4, 4, -2, 2, 2.2, 2, std::erf(x))                                                                            \
  F(expm1, -9, 9, -3, 2, 1.5, 2, std::expm1(x))                                                                        \
  F(log1p, -0.99, 30, -0.5, 3, 1.5, 2, std::log1p(x))                                                                  \
  F(floor, -9, 9, 0, 0, 0, 0, std::floor(x))                                                                           \
  F(ceil, -9, 9, 0, 0, 0, 0, std::ceil(x))                                                                             \
  F(round, -9, 9, 0, 0, 0, 0, std::nearbyint(x))                                                                       \
  F(relu, -9, 9, 0, 0, 0, 0, x <= 0 ? T(0) : x)                                                                        \
  F(sigmoid, -40, 40, -5, 5, 1.9, 2, 1 / (1 + std::exp(-x)))                                                           \
  F(softplus, -9, 9, -5, 5, 2.9, 2, (x > 0 ? x : T(0)) + std::log1p(std::exp(-std::abs(x))))                           \
  F(softsign, -9, 9, -3, 3, 1.5, 1.5, std::abs(x) > 1e30 ? std::copysign(T(1), x) : x / (1 + std::abs(x)))             \
  F(hard_swish, -9, 9, -2.5, 2.5, 2.5, 2.5, x < -3 ? T(-0.) : x * std::clamp((x + 3) / 6, T(0), T(1)))                     \
  F(gelu, -9, 9, -4, 4, 3.3, 8, x < -1e9 ? T(-0.) : x / 2 * std::erfc(-x * T(0.707106781186547524400844362104849039L)))\
  F(gelu_tanh, -9, 9, -4, 4, 3.8, 4, x < -1e9 ? T(-0.) :                                                               \
    x / (1 + std::exp(-x * (T(0.0713548162726002487763875227498635L) * x * x + T(1.59576912160573071175978423973752747L)))))\
  F(silu, -9, 9, -5, 5, 4, 4, x < -1e9 ? T(-0.) : x / (1 + std::exp(-x)))                                              \
  F(mish, -9, 9, -4, 4, 5, 4, x < -1e9 ? T(-0.) : x * std::tanh(std::log1p(std::exp(x))))

// The same, without error bounds.
#define ELEMENTWISE_FORMULAS(F)                                                                                        \
  F(rsqrt, 0.01, 50, 0.5, 3, 1 / std::sqrt(x))                                                                         \
  F(leaky_relu, -9, 9, 0, 0, x > 0 ? x : x / 100)                                                                      \
  F(elu, -9, 9, 0, 0, x > 0 ? x : std::expm1(x))                                                                       \
  F(selu, -9, 9, 0, 0, T(1.0507009873554804934L) * (x > 0 ? x : T(1.6732632423543772848L) * std::expm1(x)))            \
  F(relu6, -9, 9, 0, 0, std::clamp(x, T(0), T(6)))                                                                     \
  F(hard_sigmoid, -9, 9, 0, 0, std::clamp(x / 6 + T(0.5L), T(0), T(1)))
// clang-format on

// F(name, ...) of each, in the order of `elementwise_functions::all`.
#define EACH_ELEMENTWISE_FUNCTION(F) ELEMENTWISE_FUNCTIONS(F) ELEMENTWISE_FORMULAS(F)

namespace elementwise_functions {

/// The references, for float64 and wider.
namespace reference {
#define ELEMENTWISE_REFERENCE(name, low, high, gradient_low, gradient_high, float_units, double_units, ...) \
  template <class T> T name(T x) { return __VA_ARGS__; }
ELEMENTWISE_FUNCTIONS(ELEMENTWISE_REFERENCE)
#undef ELEMENTWISE_REFERENCE
#define ELEMENTWISE_REFERENCE(name, low, high, gradient_low, gradient_high, ...) \
  template <class T> T name(T x) { return __VA_ARGS__; }
ELEMENTWISE_FORMULAS(ELEMENTWISE_REFERENCE)
#undef ELEMENTWISE_REFERENCE
}  // namespace reference

struct function {
  const char* name;
  double low, high, gradient_low, gradient_high;
  double (*reference)(double);
  bool has_kinks() const { return gradient_low == gradient_high; }
};
inline constexpr function all[] = {
#define ELEMENTWISE_LINE(name, low, high, gradient_low, gradient_high, ...) \
  {#name, low, high, gradient_low, gradient_high, &reference::name<double>},
    ELEMENTWISE_FUNCTIONS(ELEMENTWISE_LINE) ELEMENTWISE_FORMULAS(ELEMENTWISE_LINE)
#undef ELEMENTWISE_LINE
};

/// A layer: the mean of all functions, at arguments that are valid for each.
struct mean_of_all {
  constexpr auto forward(auto&, const auto& x) const {
    const auto part = sigmoid(x) * 0.4;
#define ELEMENTWISE_TERM(name, low, ...) +name(part + (low < 1 ? 0.3 : 1.0))
    return (part EACH_ELEMENTWISE_FUNCTION(ELEMENTWISE_TERM)) * (1.0 / static_cast<double>(std::size(all)));
#undef ELEMENTWISE_TERM
  }
};

}  // namespace elementwise_functions
