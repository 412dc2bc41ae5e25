// Gradients of the operations of elementwise.cppm.
module lamina:op.elementwise.gradient;
import :core;
import :dtype;
import :op.elementwise;
import :op.shape;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void elementwise() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

namespace {
template <class T> bool holds_no_zero(view<const T> all) {
  for (const T& x : all)
    if (x == 0) return false;
  return true;
}
// True for a constant without zeros; other values may be zero.
bool never_zero(const value& v) {
  const node& n = v.owner().at(v.id());
  if (n.kind != node_kind::constant) return false;
  return v.type().element == dtype::float64 ? holds_no_zero(n.constant.elements<double>())
                                            : holds_no_zero(n.constant.elements<float>());
}
void remainder_gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(c.gradient(), c(0)); });
  c(1, [&] { return lamina::sum_like(-(c.gradient() * lamina::round((c(0) - c.result()) / c(1))), c(1)); });
}
}  // namespace

// Gradients of all shards are summed: every shard's loss depends on the same sum.
void sum_over_shards::gradient(gradient_call& c) { c(lamina::sum_over_shards(c.gradient())); }
void negate::gradient(gradient_call& c) { c(-c.gradient()); }
void abs::gradient(gradient_call& c) { c(c.gradient() * lamina::sign(c(0))); }
void sign::gradient(gradient_call&) {}  // zero wherever it exists, even for an infinite gradient
void square::gradient(gradient_call& c) { c(c.gradient() * (c(0) * 2)); }
void sqrt::gradient(gradient_call& c) { c(c.gradient() / (c.result() * 2)); }
void reciprocal::gradient(gradient_call& c) { c(-(c.gradient() * lamina::square(c.result()))); }
void exp::gradient(gradient_call& c) { c(c.gradient() * c.result()); }
void log::gradient(gradient_call& c) { c(c.gradient() / c(0)); }
void sin::gradient(gradient_call& c) { c(c.gradient() * lamina::cos(c(0))); }
void cos::gradient(gradient_call& c) { c(-(c.gradient() * lamina::sin(c(0)))); }
void tan::gradient(gradient_call& c) { c(c.gradient() * (lamina::square(c.result()) + 1)); }
void asin::gradient(gradient_call& c) { c(c.gradient() / apply_outside_patterns<sqrt>(1 - lamina::square(c(0)))); }
void acos::gradient(gradient_call& c) { c(-(c.gradient() / apply_outside_patterns<sqrt>(1 - lamina::square(c(0))))); }
void atan::gradient(gradient_call& c) { c(c.gradient() / (lamina::square(c(0)) + 1)); }
void tanh::gradient(gradient_call& c) { c(c.gradient() * (1 - lamina::square(c.result()))); }
void asinh::gradient(gradient_call& c) { c(c.gradient() / apply_outside_patterns<sqrt>(lamina::square(c(0)) + 1)); }
void acosh::gradient(gradient_call& c) { c(c.gradient() / apply_outside_patterns<sqrt>(lamina::square(c(0)) - 1)); }
void sigmoid::gradient(gradient_call& c) { c(c.gradient() * (c.result() * (1 - c.result()))); }
void relu::gradient(gradient_call& c) { c(lamina::where(c.result() > 0, c.gradient(), 0)); }
void erf::gradient(gradient_call& c) {
  c(c.gradient() * (apply_outside_patterns<exp>(-lamina::square(c(0))) * 1.1283791670955126));
}
void expm1::gradient(gradient_call& c) { c(c.gradient() * (c.result() + 1)); }
void log1p::gradient(gradient_call& c) { c(c.gradient() / (c(0) + 1)); }
void sinh::gradient(gradient_call& c) { c(c.gradient() * lamina::cosh(c(0))); }
void cosh::gradient(gradient_call& c) { c(c.gradient() * lamina::sinh(c(0))); }
void atanh::gradient(gradient_call& c) { c(c.gradient() / (1 - lamina::square(c(0)))); }
void softplus::gradient(gradient_call& c) { c(c.gradient() * lamina::sigmoid(c(0))); }
// In these derivatives x multiplies a factor that vanishes in both tails: clamping x only changes infinities.
namespace {
value bounded(const value& x) { return lamina::clamp(x, -40, 40); }
}  // namespace
// Phi(x) + x phi(x)
void gelu::gradient(gradient_call& c) {
  auto below = (lamina::erf(c(0) * 0.7071067811865476) + 1) * 0.5;
  c(c.gradient() *
    (below + bounded(c(0)) * (apply_outside_patterns<exp>(lamina::square(c(0)) * -0.5) * 0.3989422804014327)));
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
  c(1, [&] {
    return -lamina::sum_like(c.gradient(), c(1));
  });  // negated after the sum: a broadcast operand has fewer elements
}
void multiply::gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(c.gradient() * c(1), c(0)); });
  c(1, [&] { return lamina::sum_like(c.gradient() * c(0), c(1)); });
}
void divide::gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(c.gradient() / c(1), c(0)); });
  c(1, [&] { return lamina::sum_like(-(c.gradient() * c.result() / c(1)), c(1)); });
}
// Equal operands get half each, the derivative of a symmetric function.
void minimum::gradient(gradient_call& c) {
  auto share = [&](const value& operand, const value& other) {
    return lamina::where(operand < other, c.gradient(), lamina::where(operand == other, c.gradient() * 0.5, 0));
  };
  c(0, [&] { return lamina::sum_like(share(c(0), c(1)), c(0)); });
  c(1, [&] { return lamina::sum_like(share(c(1), c(0)), c(1)); });
}
void maximum::gradient(gradient_call& c) {
  auto share = [&](const value& operand, const value& other) {
    return lamina::where(operand > other, c.gradient(), lamina::where(operand == other, c.gradient() * 0.5, 0));
  };
  c(0, [&] { return lamina::sum_like(share(c(0), c(1)), c(0)); });
  c(1, [&] { return lamina::sum_like(share(c(1), c(0)), c(1)); });
}
void prelu::gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(lamina::where(c(0) > 0, c.gradient(), c.gradient() * c(1)), c(0)); });
  c(1, [&] { return lamina::sum_like(c.gradient() * lamina::min(c(0), 0), c(1)); });
}
// Uses limits where the formulas would give 0 times infinity: at 0^0 the derivative with respect to the base is 0, and
// so is the one with respect to the exponent at 0^b for b >= 0.
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
void mod::gradient(gradient_call& c) { remainder_gradient(c); }
void fmod::gradient(gradient_call& c) { remainder_gradient(c); }
// If the bounds cross, the result is the upper one for every x.
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
