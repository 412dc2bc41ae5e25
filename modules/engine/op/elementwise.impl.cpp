module;
#include "../kernels/families.h"
module lamina:op.elementwise.impl;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- operators of values --------------------------------------------------------------------------------------------

namespace {
template <class Op, std::same_as<placed_value>... X> value operate(const placed_value& first, const X&... others) {
  const origin here(first.at());
  const value inputs[] = {first.held(), others.held()...};
  return program_mode::add<Op>({}, view<const value>(inputs));
}
template <class Op> value operate(const value_or_number& first, const value_or_number& second) {
  const origin here(first.at());
  program* owner = nullptr;
  dtype element = dtype::float32;
  auto look = [&](const value& v) {
    if (v.empty()) return;
    if (!owner || element == dtype::boolean) element = v.type().element;
    if (!owner) owner = &v.owner();
  };
  look(first.held());
  look(second.held());
  const value inputs[] = {first.in(*owner, element, Op::name), second.in(*owner, element, Op::name)};
  return program_mode::add<Op>({}, view<const value>(inputs));
}
}  // namespace

// Friends of the class, so of its namespace.
namespace ir {
value operator-(const placed_value& x) { return operate<op::negate>(x); }
value operator!(const placed_value& x) { return operate<op::logical_not>(x); }
value operator&&(const placed_value& a, const placed_value& b) { return operate<op::logical_and>(a, b); }
value operator||(const placed_value& a, const placed_value& b) { return operate<op::logical_or>(a, b); }
value operator+(const value_or_number& a, const value_or_number& b) { return operate<op::add>(a, b); }
value operator-(const value_or_number& a, const value_or_number& b) { return operate<op::subtract>(a, b); }
value operator*(const value_or_number& a, const value_or_number& b) { return operate<op::multiply>(a, b); }
value operator/(const value_or_number& a, const value_or_number& b) { return operate<op::divide>(a, b); }
value operator==(const value_or_number& a, const value_or_number& b) { return operate<op::equal>(a, b); }
value operator!=(const value_or_number& a, const value_or_number& b) { return operate<op::not_equal>(a, b); }
value operator<(const value_or_number& a, const value_or_number& b) { return operate<op::less>(a, b); }
value operator<=(const value_or_number& a, const value_or_number& b) { return operate<op::less_equal>(a, b); }
value operator>(const value_or_number& a, const value_or_number& b) { return operate<op::greater>(a, b); }
value operator>=(const value_or_number& a, const value_or_number& b) { return operate<op::greater_equal>(a, b); }
value operator^(const value_or_number& a, const value_or_number& b) { return operate<op::logical_xor>(a, b); }
}  // namespace ir

}  // namespace lamina

namespace lamina::op {

namespace {
template <class T> bool holds_no_zero(view<const T> all) {
  for (const T& x : all)
    if (x == 0) return false;
  return true;
}
// A constant without zeros; what is not constant may be zero.
bool never_zero(const value& v) {
  const node& n = v.owner().at(v.id());
  if (n.kind != node_kind::constant) return false;
  return v.type().element == dtype::float64 ? holds_no_zero(n.constant.elements<double>())
                                            : holds_no_zero(n.constant.elements<float>());
}
}  // namespace

// A micro-operation has the name of its operation.
#define LAMINA_MAP(name) \
  const kernels::map_functions& name::map(isa set) { return kernels::map_##name##_of(set); }
LAMINA_MICRO_OPERATIONS(LAMINA_MAP)
LAMINA_MAP(where)
LAMINA_MAP(cast)
#undef LAMINA_MAP
const kernels::map_functions& stop_gradient::map(isa set) { return kernels::map_copy_of(set); }
const kernels::map_functions& sum_over_shards::map(isa set) { return kernels::map_copy_of(set); }
// What each shard's loss changes by is added: all of them read the same sum.
void sum_over_shards::gradient(gradient_call& c) { c(lamina::sum_over_shards(c.gradient())); }

dtype cast::between(dtype from, dtype to) {
  const auto a = static_cast<kernels::element>(from), b = static_cast<kernels::element>(to);
  return kernels::casts_at_once(a, b) ? to : static_cast<dtype>(kernels::cast_between(a));
}

// The sign of a few bits fills their byte, so that between a type with a sign and one without they are cast.
void bit_cast::emit(emission& e) {
  const auto as_integer = [](dtype t) { return t == dtype::float4_e2m1 ? dtype::uint4 : t; };
  const dtype from = as_integer(e.in_type(0).element), to = as_integer(e.out_type(0).element);
  const auto size = static_cast<std::int64_t>(size_of(to));
  kernels::map_args a{};
  a.steps = 1;
  const bool cast = from != to && detail::bits_of(to) < 8;
  a.run = cast ? (*kernels::map_cast_of(e.isa()).casts)[static_cast<int>(from)][static_cast<int>(to)]
               : kernels::map_copy_of(e.isa()).of[static_cast<int>(detail::moved_as(to))];
  emission::cut(
      e.out_type(0).dims.size(), 8,
      [&](std::int64_t first, std::int64_t count) {
        a.n = count;
        e.step(kernels::elementwise_of(e.isa()).map, a,
               {{&a.in[0], e.in(0).at(first * size)}, {&a.out, e.out(0).at(first * size)}});
      },
      400e3, 64);
}
void bit_cast::map_axis(const attributes&, axis_map& m) { m.elementwise(); }

// Gradients: y is the result, x the operand, g the gradient of the result. Broadcast operands are summed back.

void negate::gradient(gradient_call& c) { c(-c.gradient()); }
void abs::gradient(gradient_call& c) { c(c.gradient() * lamina::sign(c(0))); }
void sign::gradient(gradient_call&) {}  // 0 where there is one, also times an infinite gradient
void square::gradient(gradient_call& c) { c(c.gradient() * (c(0) * 2)); }
void sqrt::gradient(gradient_call& c) { c(c.gradient() / (c.result() * 2)); }
void reciprocal::gradient(gradient_call& c) { c(-(c.gradient() * lamina::square(c.result()))); }
void exp::gradient(gradient_call& c) { c(c.gradient() * c.result()); }
void log::gradient(gradient_call& c) { c(c.gradient() / c(0)); }
void sin::gradient(gradient_call& c) { c(c.gradient() * lamina::cos(c(0))); }
void cos::gradient(gradient_call& c) { c(-(c.gradient() * lamina::sin(c(0)))); }
void tan::gradient(gradient_call& c) { c(c.gradient() * (lamina::square(c.result()) + 1)); }
void asin::gradient(gradient_call& c) { c(c.gradient() / lamina::sqrt(1 - lamina::square(c(0)))); }
void acos::gradient(gradient_call& c) { c(-(c.gradient() / lamina::sqrt(1 - lamina::square(c(0))))); }
void atan::gradient(gradient_call& c) { c(c.gradient() / (lamina::square(c(0)) + 1)); }
void tanh::gradient(gradient_call& c) { c(c.gradient() * (1 - lamina::square(c.result()))); }
void asinh::gradient(gradient_call& c) { c(c.gradient() / lamina::sqrt(lamina::square(c(0)) + 1)); }
void acosh::gradient(gradient_call& c) { c(c.gradient() / lamina::sqrt(lamina::square(c(0)) - 1)); }
void sigmoid::gradient(gradient_call& c) { c(c.gradient() * (c.result() * (1 - c.result()))); }
void relu::gradient(gradient_call& c) { c(lamina::where(c.result() > 0, c.gradient(), 0)); }
void erf::gradient(gradient_call& c) { c(c.gradient() * (lamina::exp(-lamina::square(c(0))) * 1.1283791670955126)); }
void expm1::gradient(gradient_call& c) { c(c.gradient() * (c.result() + 1)); }
void log1p::gradient(gradient_call& c) { c(c.gradient() / (c(0) + 1)); }
void sinh::gradient(gradient_call& c) { c(c.gradient() * lamina::cosh(c(0))); }
void cosh::gradient(gradient_call& c) { c(c.gradient() * lamina::sinh(c(0))); }
void atanh::gradient(gradient_call& c) { c(c.gradient() / (1 - lamina::square(c(0)))); }
void softplus::gradient(gradient_call& c) { c(c.gradient() * lamina::sigmoid(c(0))); }
// In the derivatives of these, x is a factor of what vanishes in both tails: a bound on it is read by nothing but infinities.
namespace {
value bounded(const value& x) { return lamina::clamp(x, -40, 40); }
}  // namespace
// Phi(x) + x phi(x)
void gelu::gradient(gradient_call& c) {
  auto below = (lamina::erf(c(0) * 0.7071067811865476) + 1) * 0.5;
  c(c.gradient() * (below + bounded(c(0)) * (lamina::exp(lamina::square(c(0)) * -0.5) * 0.3989422804014327)));
}
// x s(u) with s the sigmoid: s + x s (1 - s) u'
void gelu_tanh::gradient(gradient_call& c) {
  constexpr double cubic = 0.07135481627260025, linear = 1.5957691216057308;
  const value x = bounded(c(0)), squared = lamina::square(x), s = lamina::sigmoid(x * (squared * cubic + linear));
  c(c.gradient() * (s * (x * (1 - s) * (squared * (3 * cubic) + linear) + 1)));
}
// s + x s (1 - s)
void silu::gradient(gradient_call& c) {
  const value s = lamina::sigmoid(c(0));
  c(c.gradient() * (s * (lamina::clamp(c(0), -1000, 1000) * (1 - s) + 1)));
}
// t + x (1 - t^2) s with t = tanh(softplus(x))
void mish::gradient(gradient_call& c) {
  const value t = lamina::tanh(lamina::softplus(c(0)));
  c(c.gradient() * (t + lamina::clamp(c(0), -1000, 1000) * ((1 - lamina::square(t)) * lamina::sigmoid(c(0)))));
}
void softsign::gradient(gradient_call& c) { c(c.gradient() * lamina::square(1 - lamina::abs(c.result()))); }
// x / 3 + 1/2 between -3 and 3
void hard_swish::gradient(gradient_call& c) {
  const value inside = c(0) * (1. / 3) + 0.5;
  c(c.gradient() * lamina::where(c(0) < -3, 0, lamina::where(c(0) > 3, 1, inside)));
}
void floor::gradient(gradient_call&) {}
void ceil::gradient(gradient_call&) {}
void round::gradient(gradient_call&) {}

void add::gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(c.gradient(), c(0)); });
  c(1, [&] { return lamina::sum_like(c.gradient(), c(1)); });
}
void subtract::gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(c.gradient(), c(0)); });
  c(1, [&] { return -lamina::sum_like(c.gradient(), c(1)); });  // of a broadcast operand fewer elements are negated
}
void multiply::gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(c.gradient() * c(1), c(0)); });
  c(1, [&] { return lamina::sum_like(c.gradient() * c(0), c(1)); });
}
void divide::gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(c.gradient() / c(1), c(0)); });
  c(1, [&] { return lamina::sum_like(-(c.gradient() * c.result() / c(1)), c(1)); });
}
// Where both operands are equal each gets half, as the derivative of a symmetric function.
void minimum::gradient(gradient_call& c) {
  auto share = [&](const value& mine, const value& other) {
    return lamina::where(mine < other, c.gradient(), lamina::where(mine == other, c.gradient() * 0.5, 0));
  };
  c(0, [&] { return lamina::sum_like(share(c(0), c(1)), c(0)); });
  c(1, [&] { return lamina::sum_like(share(c(1), c(0)), c(1)); });
}
void maximum::gradient(gradient_call& c) {
  auto share = [&](const value& mine, const value& other) {
    return lamina::where(mine > other, c.gradient(), lamina::where(mine == other, c.gradient() * 0.5, 0));
  };
  c(0, [&] { return lamina::sum_like(share(c(0), c(1)), c(0)); });
  c(1, [&] { return lamina::sum_like(share(c(1), c(0)), c(1)); });
}
// Limits that the formulas do not reach are taken instead of 0 times infinity: at 0 to the power of 0 the derivative by the
// base is 0, and so is the one by the exponent at 0 to any power from 0 on.
void pow::gradient(gradient_call& c) {
  auto base_or_one = [&](const value& at) { return lamina::where(at, 1, c(0)); };
  c(0, [&] {
    value base = never_zero(c(1)) ? c(0) : value(base_or_one(c(0) == 0 && c(1) == 0));
    return lamina::sum_like(c.gradient() * (c(1) * lamina::pow(base, c(1) - 1)), c(0));
  });
  c(1, [&] {
    return lamina::sum_like(c.gradient() * (c.result() * lamina::log(base_or_one(c(0) == 0 && c(1) >= 0))), c(1));
  });
}
// a - b n with the whole number n that `mod` and `fmod` differ in.
namespace {
void remainder_gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(c.gradient(), c(0)); });
  c(1, [&] { return lamina::sum_like(-(c.gradient() * lamina::round((c(0) - c.result()) / c(1))), c(1)); });
}
}  // namespace
void mod::gradient(gradient_call& c) { remainder_gradient(c); }
void fmod::gradient(gradient_call& c) { remainder_gradient(c); }
// Bounds that cross give the upper one, wherever x lies.
void clamp::gradient(gradient_call& c) {
  auto inside = [&] { return (c(0) >= c(1)) && (c(0) <= c(2)); };
  c(0, [&] { return lamina::sum_like(lamina::where(inside(), c.gradient(), 0), c(0)); });
  c(1, [&] { return lamina::sum_like(lamina::where((c(0) < c(1)) && !(c(1) > c(2)), c.gradient(), 0), c(1)); });
  c(2, [&] {
    return lamina::sum_like(lamina::where((c(0) > c(2)) || ((c(0) < c(1)) && (c(1) > c(2))), c.gradient(), 0), c(2));
  });
}
void where::gradient(gradient_call& c) {
  c(1, [&] { return lamina::sum_like(lamina::where(c(0), c.gradient(), 0), c(1)); });
  c(2, [&] { return lamina::sum_like(lamina::where(c(0), 0, c.gradient()), c(2)); });
}
void cast::gradient(gradient_call& c) { c(apply<op::cast>(cast_attributes{c(0).type().element}, c.gradient())); }

}  // namespace lamina::op
