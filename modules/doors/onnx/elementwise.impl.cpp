// Elementwise operators: arithmetic, comparisons, logic, activations.
module lamina.onnx:elementwise.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// Applies F in a type with arithmetic and converts back.
template <auto F> void unary(node_call& c) { c.give_like(0, F(c.number(0))); }
// Before opset 7, the second operand is broadcast from attribute `axis` on.
value second(node_call& c, const value& y) {
  if (c.opset >= 7 || !c.has_attribute("axis")) return y;
  lamina::axes added;
  for (int i = c.axis(c.integer("axis"), c.rank(0)) + y.shape().rank; i < c.rank(0); ++i)
    added.values[added.count++] = y.shape().rank + added.count;
  return added.count ? value(lamina::unsqueeze(y, added)) : y;
}
template <auto F> void binary(node_call& c) { c.give_like(0, F(c.number(0), second(c, c.number(1)))); }
template <auto F> void predicate(node_call& c) { c.give(0, F(c.number(0), second(c, c.number(1)))); }
template <auto F> void comparison(node_call& c) { c.give(0, F(c.ordered(0), second(c, c.ordered(1)))); }

// Wraps template functions of the library as functions of values.
#define LAMINA_UNARY(name) \
  value name##_of(const value& x) { return lamina::name(x); }
// clang-format off
LAMINA_UNARY(abs)
LAMINA_UNARY(sign)
LAMINA_UNARY(sqrt)
LAMINA_UNARY(reciprocal)
LAMINA_UNARY(exp)
LAMINA_UNARY(log)
LAMINA_UNARY(sin)
LAMINA_UNARY(cos)
LAMINA_UNARY(tan)
LAMINA_UNARY(asin)
LAMINA_UNARY(acos)
LAMINA_UNARY(atan)
LAMINA_UNARY(sinh)
LAMINA_UNARY(cosh)
LAMINA_UNARY(tanh)
LAMINA_UNARY(asinh)
LAMINA_UNARY(acosh)
LAMINA_UNARY(atanh)
LAMINA_UNARY(sigmoid)
LAMINA_UNARY(erf)
LAMINA_UNARY(softplus)
LAMINA_UNARY(softsign)
LAMINA_UNARY(mish)
LAMINA_UNARY(hard_swish)
LAMINA_UNARY(floor)
LAMINA_UNARY(ceil)
LAMINA_UNARY(round)
LAMINA_UNARY(gelu)
LAMINA_UNARY(gelu_tanh)
// clang-format on
#undef LAMINA_UNARY
value negate_of(const value& x) { return -x; }
value not_of(const value& x) { return !x; }
value sum_of(const value& a, const value& b) { return a + b; }
value difference_of(const value& a, const value& b) { return a - b; }
value product_of(const value& a, const value& b) { return a * b; }
value quotient_of(const value& a, const value& b) { return a / b; }
value equal_of(const value& a, const value& b) { return a == b; }
value greater_of(const value& a, const value& b) { return a > b; }
value greater_or_equal_of(const value& a, const value& b) { return a >= b; }
value less_of(const value& a, const value& b) { return a < b; }
value less_or_equal_of(const value& a, const value& b) { return a <= b; }
value and_of(const value& a, const value& b) { return a && b; }
value or_of(const value& a, const value& b) { return a || b; }
value xor_of(const value& a, const value& b) { return a ^ b; }
value min_of(const value& a, const value& b) { return lamina::min(a, b); }
value max_of(const value& a, const value& b) { return lamina::max(a, b); }

void pow(node_call& c) {
  const value x = c.number(0), y = c.number(1);
  const dtype e = x.type().element;
  // An exponent of another type: compute in the wider type and convert to the type of the base.
  if (y.type().element == e) return c.give_like(0, lamina::pow(x, y));
  if (is_integer(e) && is_integer(y.type().element)) return c.give_like(0, lamina::pow(x, c.cast_to(y, e)));
  const dtype wide = e == dtype::float32 && !is_integer(y.type().element) ? dtype::float32 : dtype::float64;
  c.give_like(0, lamina::pow(c.cast_to(x, wide), c.cast_to(y, wide)));
}

// `Compares`: F depends on the order of the operands.
template <auto F, bool Compares = false> void of_many(node_call& c) {
  const auto operand = [&](std::size_t i) { return Compares ? c.ordered(i) : c.number(i); };
  value made = operand(0);
  for (std::size_t i = 1; i < c.size(); ++i) made = F(made, operand(i));
  Compares ? c.give_ordered(0, made) : c.give_like(0, made);
}
void divide(node_call& c) {
  if (c.type(0).element != dtype::uint64) return binary<quotient_of>(c);
  c.give_like(0, unsigned_quotient(c.number(0), second(c, c.number(1))));
}
// Numbers of uint64 from 2^63 on are negative as int64.
void absolute(node_call& c) {
  if (c.type(0).element == dtype::uint64) c.give(0, c[0]);
  else unary<abs_of>(c);
}
void sign(node_call& c) {
  if (c.type(0).element == dtype::uint64) c.give_like(0, lamina::cast<std::int64_t>(c.number(0) != 0));
  else unary<sign_of>(c);
}
void mean(node_call& c) {
  value made = c.number(0);
  for (std::size_t i = 1; i < c.size(); ++i) made = made + c.number(i);
  c.give_like(0, made / static_cast<double>(c.size()));
}

void leaky_relu(node_call& c) { c.give_like(0, lamina::leaky_relu(c.number(0), {c.real("alpha", 0.01)})); }
void elu(node_call& c) { c.give_like(0, lamina::elu(c.number(0), {c.real("alpha", 1)})); }
void selu(node_call& c) {
  const value x = c.number(0);
  const double alpha = c.real("alpha", 1.67326319217681884765625), gamma = c.real("gamma", 1.05070102214813232421875);
  c.give_like(0, lamina::where(x > 0, x * gamma, (lamina::exp(lamina::min(x, 0)) - 1) * (alpha * gamma)));
}
void celu(node_call& c) {
  const value x = c.number(0);
  const double alpha = c.real("alpha", 1);
  c.give_like(0, lamina::max(x, 0) + lamina::min(lamina::expm1(x / alpha) * alpha, 0));
}
void hard_sigmoid(node_call& c) {
  const double alpha = c.real("alpha", 0.2), beta = c.real("beta", 0.5);
  c.give_like(0, lamina::clamp(c.number(0) * alpha + beta, 0, 1));
}
void thresholded_relu(node_call& c) {
  const value x = c.number(0);
  c.give_like(0, lamina::where(x > c.real("alpha", 1), x, 0));
}
void relu(node_call& c) {
  const value x = c.number(0);
  c.give_like(0, is_integer(x.type().element) ? value(lamina::max(x, 0)) : value(lamina::relu(x)));
}
// Computes integers in float64.
void shrink(node_call& c) {
  value x = c.number(0);
  if (is_integer(x.type().element)) x = c.cast_to(c[0], dtype::float64);
  const double bias = c.real("bias", 0), lambd = c.real("lambd", 0.5);
  c.give_like(0, lamina::shrink(x, {.threshold = lambd, .offset = bias}));
}
void swish(node_call& c) {
  const value x = c.number(0);
  const double alpha = c.real("alpha", 1);
  c.give_like(0, alpha == 1 ? value(lamina::silu(x)) : value(x * lamina::sigmoid(x * alpha)));
}
void gelu(node_call& c) {
  c.give_like(0, c.string("approximate", "none") == "tanh" ? gelu_tanh_of(c.number(0)) : gelu_of(c.number(0)));
}
void prelu(node_call& c) {
  if (c.type(0).element == dtype::uint64) return c.give(0, c[0]);  // none is negative
  const value x = c.number(0);
  value slope = c.number(1);
  // Before opset 7, a vector of slopes is per channel.
  if (c.opset < 7 && slope.shape().rank == 1 && x.shape().rank > 2 && slope.shape()[0] != dim(1)) {
    lamina::axes after;
    for (int i = 1; i < x.shape().rank - 1; ++i) after.values[after.count++] = i;
    slope = lamina::unsqueeze(slope, after);
  }
  c.give_like(0,
              is_real(x.type().element) ? value(lamina::prelu(x, slope)) : value(lamina::where(x < 0, x * slope, x)));
}

// Bound of Clip: operand i since opset 11, an attribute from opset 6 to 10; either bound may be omitted. `number` is
// its value, if known.
struct bound {
  std::optional<value> v{};
  std::optional<double> number{};
};
bound bound_of(node_call& c, std::size_t i, std::string_view attribute, dtype element) {
  if (c.opset < 11) {
    if (!c.has_attribute(attribute)) return {};
    const double number = c.real(attribute, 0);
    return {c.constant(number, element), number};
  }
  if (!c.has(i)) return {};
  if (const any_tensor* known = c.known(i); known && known->type().dims.size() == 1 && is_floating(element)) {
    const double number = c.known_number(i, attribute, 0);
    return {c.constant(number, element), number};
  }
  return {c.ordered(i), {}};
}
void clip(node_call& c) {
  value x = c.ordered(0);
  const dtype element = x.type().element;
  bound low = bound_of(c, 1, "min", element), high = bound_of(c, 2, "max", element);
  // Constant bounds become `clamp` attributes, which fuse into the epilogue of a preceding product.
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (!low.v) low.number = -infinity;
  if (!high.v) high.number = infinity;
  const auto is_number = [](const bound& b) { return b.number && *b.number == *b.number; };
  if (is_floating(element) && is_number(low) && is_number(high) && (low.v || high.v))
    return c.give_like(0, lamina::clamp(x, low.v ? *low.v : c.constant(-infinity, element),
                                        high.v ? *high.v : c.constant(infinity, element)));
  if (low.v) x = lamina::max(x, *low.v);
  if (high.v) x = lamina::min(x, *high.v);
  c.give_ordered(0, x);
}

void where(node_call& c) { c.give(0, lamina::where(c[0], c[1], c[2])); }
void cast_into(node_call& c, dtype to) {
  const value x = c[0];
  if (x.type().element == to) return c.give(0, x);
  const auto mode = c.string("round_mode", "up");
  c.give(0, lamina::apply<op::cast>(cast_attributes{.to = to,
                                                    .saturate = c.flag("saturate", true),
                                                    .round_mode = mode == "up"     ? power_rounding::up
                                                                  : mode == "down" ? power_rounding::down
                                                                                   : power_rounding::nearest},
                                    x));
}
void cast(node_call& c) { cast_into(c, c.element("to")); }
void cast_like(node_call& c) { cast_into(c, c.type(1).element); }
void bit_cast(node_call& c) { c.give(0, lamina::apply<op::bit_cast>({c.element("to")}, c[0])); }
void identity(node_call& c) { c.results[0] = c.operand(0); }
void is_nan(node_call& c) {
  const value x = c.number(0);
  c.give(0, x != x);
}
void is_inf(node_call& c) {
  const value x = c.number(0);
  const double inf = std::numeric_limits<double>::infinity();
  const bool low = c.flag("detect_negative", true), high = c.flag("detect_positive", true);
  if (low && high) c.give(0, lamina::abs(x) == inf);
  else if (low) c.give(0, x == -inf);
  else if (high) c.give(0, x == inf);
  else c.give(0, x != x && x == x);
}

constexpr converter_entry entries[] = {
    {"Abs", 1, absolute},
    {"Acos", 7, unary<acos_of>},
    {"Acosh", 9, unary<acosh_of>},
    {"Add", 1, binary<sum_of>},
    {"And", 1, predicate<and_of>},
    {"Asin", 7, unary<asin_of>},
    {"Asinh", 9, unary<asinh_of>},
    {"Atan", 7, unary<atan_of>},
    {"Atanh", 9, unary<atanh_of>},
    {"BitCast", 26, bit_cast},
    {"Cast", 6, cast},
    {"CastLike", 15, cast_like},
    {"Ceil", 6, unary<ceil_of>},
    {"Celu", 12, celu},
    {"Clip", 6, clip},
    {"Cos", 7, unary<cos_of>},
    {"Cosh", 9, unary<cosh_of>},
    {"Div", 1, divide},
    {"Elu", 6, elu},
    {"Equal", 1, predicate<equal_of>},
    {"Erf", 9, unary<erf_of>},
    {"Exp", 6, unary<exp_of>},
    {"Floor", 6, unary<floor_of>},
    {"Gelu", 20, gelu},
    {"Greater", 1, comparison<greater_of>},
    {"GreaterOrEqual", 12, comparison<greater_or_equal_of>},
    {"HardSigmoid", 6, hard_sigmoid},
    {"HardSwish", 14, unary<hard_swish_of>},
    {"Identity", 1, identity},
    {"IsInf", 10, is_inf},
    {"IsNaN", 9, is_nan},
    {"LeakyRelu", 6, leaky_relu},
    {"Less", 1, comparison<less_of>},
    {"LessOrEqual", 12, comparison<less_or_equal_of>},
    {"Log", 6, unary<log_of>},
    {"Max", 6, of_many<max_of, true>},
    {"Mean", 6, mean},
    {"Min", 6, of_many<min_of, true>},
    {"Mish", 18, unary<mish_of>},
    {"Mul", 1, binary<product_of>},
    {"Neg", 6, unary<negate_of>},
    {"Not", 1, unary<not_of>},
    {"Or", 1, predicate<or_of>},
    {"PRelu", 1, prelu},
    {"Pow", 1, pow},
    {"Reciprocal", 6, unary<reciprocal_of>},
    {"Relu", 6, relu},
    {"Round", 11, unary<round_of>},
    {"Selu", 6, selu},
    {"Shrink", 9, shrink},
    {"Sigmoid", 6, unary<sigmoid_of>},
    {"Sign", 9, sign},
    {"Sin", 7, unary<sin_of>},
    {"Sinh", 9, unary<sinh_of>},
    {"Softplus", 1, unary<softplus_of>},
    {"Softsign", 1, unary<softsign_of>},
    {"Sqrt", 6, unary<sqrt_of>},
    {"Sub", 1, binary<difference_of>},
    {"Sum", 6, of_many<sum_of>},
    {"Swish", 24, swish},
    {"Tan", 7, unary<tan_of>},
    {"Tanh", 6, unary<tanh_of>},
    {"ThresholdedRelu", 10, thresholded_relu},
    {"Where", 9, where},
    {"Xor", 1, predicate<xor_of>},
};

}  // namespace

converter_list elementwise_converters() { return entries; }

}  // namespace lamina::onnx
