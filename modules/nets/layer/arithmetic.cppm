// Elementwise operations as layers: with one input, or with two that broadcast; comparisons and logic.
export module lamina:layer.arithmetic;
import :core;
import :dtype;
import :layer;
import :op;
import :op.activation;
import :op.elementwise;
import lamina.std;

namespace lamina::nn {

/// Absolute value |x|.
export struct abs {
  constexpr auto forward(auto&, const auto& x) const { return lamina::abs(x); }
};
/// Negation: -x.
export struct negative {
  constexpr auto forward(auto&, const auto& x) const { return -x; }
};
/// Sign of x: -1, 0 or 1.
export struct sign {
  constexpr auto forward(auto&, const auto& x) const { return lamina::sign(x); }
};
/// Square of x.
export struct square {
  constexpr auto forward(auto&, const auto& x) const { return lamina::square(x); }
};
/// Square root; NaN below zero.
export struct sqrt {
  constexpr auto forward(auto&, const auto& x) const { return lamina::sqrt(x); }
};
/// Reciprocal square root: 1 / sqrt(x).
export struct rsqrt {
  constexpr auto forward(auto&, const auto& x) const { return lamina::rsqrt(x); }
};
/// 1 / x.
export struct reciprocal {
  constexpr auto forward(auto&, const auto& x) const { return lamina::reciprocal(x); }
};
/// Exponential function: e^x.
export struct exp {
  constexpr auto forward(auto&, const auto& x) const { return lamina::exp(x); }
};
/// e^x - 1, accurate for small x.
export struct expm1 {
  constexpr auto forward(auto&, const auto& x) const { return lamina::expm1(x); }
};
/// Natural logarithm.
export struct log {
  constexpr auto forward(auto&, const auto& x) const { return lamina::log(x); }
};
/// log(1 + x), accurate for small x.
export struct log1p {
  constexpr auto forward(auto&, const auto& x) const { return lamina::log1p(x); }
};
/// Sine; x in radians.
export struct sin {
  constexpr auto forward(auto&, const auto& x) const { return lamina::sin(x); }
};
/// Cosine; x in radians.
export struct cos {
  constexpr auto forward(auto&, const auto& x) const { return lamina::cos(x); }
};
/// Tangent; x in radians.
export struct tan {
  constexpr auto forward(auto&, const auto& x) const { return lamina::tan(x); }
};
/// Arc sine in radians.
export struct asin {
  constexpr auto forward(auto&, const auto& x) const { return lamina::asin(x); }
};
/// Arc cosine in radians.
export struct acos {
  constexpr auto forward(auto&, const auto& x) const { return lamina::acos(x); }
};
/// Arc tangent in radians.
export struct atan {
  constexpr auto forward(auto&, const auto& x) const { return lamina::atan(x); }
};
/// Hyperbolic sine.
export struct sinh {
  constexpr auto forward(auto&, const auto& x) const { return lamina::sinh(x); }
};
/// Hyperbolic cosine.
export struct cosh {
  constexpr auto forward(auto&, const auto& x) const { return lamina::cosh(x); }
};
/// Inverse hyperbolic sine.
export struct asinh {
  constexpr auto forward(auto&, const auto& x) const { return lamina::asinh(x); }
};
/// Inverse hyperbolic cosine.
export struct acosh {
  constexpr auto forward(auto&, const auto& x) const { return lamina::acosh(x); }
};
/// Inverse hyperbolic tangent.
export struct atanh {
  constexpr auto forward(auto&, const auto& x) const { return lamina::atanh(x); }
};
/// Error function.
export struct erf {
  constexpr auto forward(auto&, const auto& x) const { return lamina::erf(x); }
};
/// Largest integer not above x.
export struct floor {
  constexpr auto forward(auto&, const auto& x) const { return lamina::floor(x); }
};
/// Smallest integer not below x.
export struct ceil {
  constexpr auto forward(auto&, const auto& x) const { return lamina::ceil(x); }
};
/// Nearest integer; ties round to even.
export struct round {
  constexpr auto forward(auto&, const auto& x) const { return lamina::round(x); }
};
/// x clamped to low..high.
export struct clamp {
  double low = 0, high = 1;
  constexpr auto forward(auto&, const auto& x) const { return lamina::clamp(x, low, high); }
};

/// Common base of layers with two inputs: ports `lhs` and `rhs`, which broadcast.
struct two_operands {
  static constexpr view<const label> inputs() { return port_names<"lhs", "rhs">; }
};
/// Sum lhs + rhs.
export struct add : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs + rhs; }
};
/// Difference lhs - rhs.
export struct subtract : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs - rhs; }
};
/// Elementwise product.
export struct multiply : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs * rhs; }
};
/// Quotient lhs / rhs.
export struct divide : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs / rhs; }
};
/// Elementwise minimum of lhs and rhs.
export struct minimum : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lamina::min(lhs, rhs); }
};
/// Elementwise maximum of lhs and rhs.
export struct maximum : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lamina::max(lhs, rhs); }
};
/// lhs to the power of rhs.
export struct pow : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lamina::pow(lhs, rhs); }
};
/// Elementwise comparison of lhs and rhs; the result is bool.
export struct equal : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs == rhs; }
};
export struct not_equal : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs != rhs; }
};
export struct less : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs < rhs; }
};
export struct less_equal : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs <= rhs; }
};
export struct greater : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs > rhs; }
};
export struct greater_equal : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs >= rhs; }
};
/// Elementwise logic on bool: and, or, not.
export struct logical_and : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs && rhs; }
};
export struct logical_or : two_operands {
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lhs || rhs; }
};
export struct logical_not {
  constexpr auto forward(auto&, const auto& x) const { return !x; }
};
/// x where the condition is true, else y. All three broadcast.
export struct where {
  static constexpr view<const label> inputs() { return port_names<"condition", "x", "y">; }
  constexpr auto forward(auto&, const auto& condition, const auto& x, const auto& y) const {
    return lamina::where(condition, x, y);
  }
};
/// Converts numbers to another element type.
export struct cast {
  dtype to = dtype::float32;
  constexpr auto forward(auto&, const auto& x) const { return apply<op::cast>({to}, x); }
};
/// Linear interpolation, a where the weight is 1 and b where it is 0: a weight + b (1 - weight). All three broadcast.
export struct interpolate {
  static constexpr view<const label> inputs() { return port_names<"a", "b", "weight">; }
  constexpr auto forward(auto&, const auto& a, const auto& b, const auto& weight) const {
    return lamina::interpolate(a, b, weight);
  }
};

}  // namespace lamina::nn
