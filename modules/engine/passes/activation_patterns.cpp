// Patterns of decomposed activations, as exporters write them: gelu, silu, sigmoid, hard swish, mish, softplus and
// others.
module lamina:passes.activation_patterns;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :passes.pattern;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

// Matches v = x/2 (1 + f(u)), where v has the type of x, for a function f. The factors are x, the sum and 1/2.
struct half_sum {
  value_id x{}, inside{};
  double sign = 1;  // of u: the functions are odd
};
template <Operation F>
std::optional<half_sum> half_sum_of(const pattern_graph& g, value_id v, std::string_view name, pattern_match& m) {
  if (!g.is<op::multiply>(v) && !g.is<op::divide>(v)) return {};
  const factors f = factors_of(g, v);
  if (f.of.size() != 2) return {};
  for (std::size_t side : {0u, 1u}) {
    const value_id x = f.of[side];
    auto sum = shifted_value(g, f.of[1 - side]);
    double sign = 1;
    if (!sum && g.inner(f.of[1 - side]) && g.is<op::subtract>(f.of[1 - side]))  // 1 - f(-u)
      if (const auto n = g.number(g.operand(f.of[1 - side], 0)))
        sum = shifted{g.operand(f.of[1 - side], 1), *n}, sign = -1;
    if (!sum || g.type(x) != g.type(v) || !g.inner(sum->x)) continue;
    if (near(sum->by, 1) && near(f.by, 0.5) && g.is<F>(sum->x)) return half_sum{x, g.operand(sum->x, 0), sign};
    if (near(sum->by, 1) && g.is<F>(sum->x) && std::is_same_v<F, op::erf>)
      near_miss(m, v.node, "is not ", name, ": its factor is ", f.by, "; expected 0.5");
    if (!near(sum->by, 0.5) || !near(f.by, 1)) continue;  // x (1/2 + f(u) / 2)
    const factors inner = factors_of(g, sum->x);
    if (inner.of.size() == 1 && near(inner.by, 0.5) && g.is<F>(inner.of[0]) && g.inner(inner.of[0]))
      return half_sum{x, g.operand(inner.of[0], 0), sign};
  }
  return {};
}

bool match_gelu(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto h = half_sum_of<op::erf>(g, v, "gelu", m);
  if (!h) return false;
  if (!g.inner(h->inside)) return near_miss(m, v.node, "is not gelu: the operand of its erf", read_elsewhere);
  factors u = factors_of(g, h->inside);
  u.by *= h->sign;
  if (u.of.size() != 1 || u.of[0] != h->x) return near_miss(m, v.node, "is not gelu: its erf is of another value");
  if (!near(u.by, 0.70710678))
    return near_miss(m, v.node, "is not gelu: its erf is of ", u.by, " x; expected 0.70710678 x");
  m.values = {h->x};
  return true;
}

// `times` sqrt(2 / pi) (x + 0.044715 x^3), or `times` sqrt(2 / pi) x (1 + 0.044715 x^2).
bool is_tanh_argument(const pattern_graph& g, value_id v, value_id x, double times = 1) {
  const factors u = factors_of(g, v);
  const double scale = 0.7978845608 * times, cube = 0.044715;
  const auto part = [&](value_id w, double exponent) {
    const factors f = factors_of(g, w);
    if (!near(f.by, cube)) return false;
    if (f.of.size() == 1) return power_base(g, f.of[0], exponent) == x;
    if (exponent == 3 && f.of.size() == 2)
      return (f.of[0] == x && power_base(g, f.of[1], 2) == x) || (f.of[1] == x && power_base(g, f.of[0], 2) == x);
    return f.of.size() == static_cast<std::size_t>(exponent) &&
           std::all_of(f.of.begin(), f.of.end(), [&](value_id i) { return i == x; });
  };
  if (!near(u.by, scale)) return false;
  if (u.of.size() == 1 && g.is<op::add>(u.of[0]) && g.inner(u.of[0])) {
    const value_id other = g.other_operand(u.of[0], x);
    return other && part(other, 3);
  }
  if (u.of.size() != 2) return false;
  const value_id sum = u.of[0] == x ? u.of[1] : u.of[1] == x ? u.of[0] : value_id{};
  const auto s = sum ? shifted_value(g, sum) : std::nullopt;
  return s && near(s->by, 1) && part(s->x, 2);
}
bool match_gelu_tanh(const pattern_graph& g, value_id v, pattern_match& m) {
  if (g.is<op::multiply>(v))  // x sigmoid(2 u) is x/2 (1 + tanh u)
    for (std::size_t side : {0u, 1u}) {
      const value_id x = g.operand(v, side), gate = g.operand(v, 1 - side);
      if (!g.is<op::sigmoid>(gate) || !g.inner(gate) || !g.inner(g.operand(gate, 0)) || g.type(x) != g.type(v) ||
          !is_tanh_argument(g, g.operand(gate, 0), x, 2))
        continue;
      m.values = {x};
      return true;
    }
  const auto h = half_sum_of<op::tanh>(g, v, "gelu_tanh", m);
  if (!h) return false;
  if (h->sign < 0 || !is_tanh_argument(g, h->inside, h->x))
    return near_miss(m, v.node, "is not gelu_tanh: its tanh is not of 0.79788456 (x + 0.044715 x^3)");
  if (!g.inner(h->inside)) return near_miss(m, v.node, "is not gelu_tanh: the operand of its tanh", read_elsewhere);
  m.values = {h->x};
  return true;
}

// x f(x), for a function f that `is` recognizes.
template <class Is>
bool match_gated(const pattern_graph& g, value_id v, std::string_view name, pattern_match& m, Is is) {
  if (!g.is<op::multiply>(v)) return false;
  for (std::size_t side : {0u, 1u}) {
    const value_id x = g.operand(v, side), gate = g.operand(v, 1 - side);
    if (g.type(x) != g.type(v) || !is(gate, x)) continue;
    if (!g.inner(gate)) {
      near_miss(m, v.node, "is not ", name, ": its ", g.at(gate).op->name, read_elsewhere);
      continue;
    }
    m.values = {x};
    return true;
  }
  return false;
}
/// a + b e + c e^2, where e is exp x.
struct exp_polynomial {
  double a = 0, b = 0, c = 0;
};
std::optional<exp_polynomial> exp_polynomial_of(const pattern_graph& g, value_id v, value_id e, int depth = 0) {
  if (v == e) return exp_polynomial{.b = 1};
  if (const auto n = g.number(v)) return exp_polynomial{.a = *n};
  if (depth > 4) return {};
  const auto part = [&](value_id x) { return exp_polynomial_of(g, x, e, depth + 1); };
  const auto product = [](const exp_polynomial& p, const exp_polynomial& q) -> std::optional<exp_polynomial> {
    if (p.c * q.b + p.b * q.c != 0 || p.c * q.c != 0) return {};
    return exp_polynomial{p.a * q.a, p.a * q.b + p.b * q.a, p.a * q.c + p.b * q.b + p.c * q.a};
  };
  if (const value_id base = power_base(g, v, 2)) {
    const auto p = part(base);
    return p ? product(*p, *p) : std::nullopt;
  }
  const bool sum = g.is<op::add>(v), difference = g.is<op::subtract>(v);
  if (!sum && !difference && !g.is<op::multiply>(v)) return {};
  const auto p = part(g.operand(v, 0)), q = part(g.operand(v, 1));
  if (!p || !q) return {};
  if (!sum && !difference) return product(*p, *q);
  const double sign = difference ? -1 : 1;
  return exp_polynomial{p->a + sign * q->a, p->b + sign * q->b, p->c + sign * q->c};
}
// Whether `is` accepts p and q as polynomials in e = exp x; e is found through the first operands of the denominator q.
template <class Is> bool is_rational_of_exp(const pattern_graph& g, value_id p, value_id q, value_id& x, Is is) {
  value_id e = q;
  for (int depth = 0; depth < 6 && !g.is<op::exp>(e); ++depth) {
    const node& n = g.at(e);
    if (n.kind != node_kind::operation || n.inputs.empty()) return false;
    e = n.inputs.size() > 1 && g.number(n.inputs[0]) ? n.inputs[1] : n.inputs[0];
  }
  if (!g.is<op::exp>(e)) return false;
  x = g.operand(e, 0);
  const auto above = exp_polynomial_of(g, p, e), below = exp_polynomial_of(g, q, e);
  return above && below && is(*above, *below);
}
// e / (e + 1)
bool is_sigmoid_of_exp(const exp_polynomial& p, const exp_polynomial& q) {
  return p.a == 0 && p.c == 0 && p.b > 0 && q.c == 0 && near(q.a, p.b) && near(q.b, p.b);
}
// (e^2 + 2 e) / (e^2 + 2 e + 2), which is tanh(log(1 + e))
bool is_tanh_softplus_of_exp(const exp_polynomial& p, const exp_polynomial& q) {
  return p.c > 0 && p.a == 0 && near(p.b, 2 * p.c) && near(q.a, 2 * p.c) && near(q.b, 2 * p.c) && near(q.c, p.c);
}
bool match_silu(const pattern_graph& g, value_id v, pattern_match& m) {
  if (const auto h = half_sum_of<op::tanh>(g, v, "silu", m)) {  // x/2 (1 + tanh(x / 2))
    const factors u = factors_of(g, h->inside);
    m.values = {h->x};
    if (u.of.size() == 1 && u.of[0] == h->x && near(u.by * h->sign, 0.5) && g.inner(h->inside)) return true;
  }
  const auto is = [&](value_id gate, value_id x) { return g.is<op::sigmoid>(gate) && g.operand(gate, 0) == x; };
  if (match_gated(g, v, "silu", m, is)) return true;
  if (!g.is<op::divide>(v)) return false;  // x / (1 + exp(-x))
  const value_id x = g.operand(v, 0);
  const auto s = shifted_value(g, g.operand(v, 1));
  if (!s || !near(s->by, 1) || !g.is<op::exp>(s->x) || !g.inner(s->x) || g.type(x) != g.type(v)) return false;
  const factors f = factors_of(g, g.operand(s->x, 0));
  m.values = {x};
  return f.of.size() == 1 && f.of[0] == x && near(f.by, -1);
}
// x sigmoid(1.702 x); with another number it is neither this nor silu.
bool match_quick_gelu(const pattern_graph& g, value_id v, pattern_match& m) {
  if (!g.is<op::multiply>(v)) return false;
  for (std::size_t side : {0u, 1u}) {
    const value_id gate = g.operand(v, 1 - side);
    if (!g.is<op::sigmoid>(gate) || !g.inner(g.operand(gate, 0))) continue;
    const factors f = factors_of(g, g.operand(gate, 0));
    if (f.of.size() != 1 || f.of[0] != g.operand(v, side) || f.by == 1) continue;
    m.stays = near(f.by, 1.702) && g.inner(gate);
    return m.stays || near_miss(m, v.node, "is not silu: its sigmoid is of ", f.by, " x; expected x");
  }
  return false;
}
// 1 / (1 + exp(-x))
bool match_sigmoid(const pattern_graph& g, value_id v, pattern_match& m) {
  value_id sum{};
  if (value_id x{}; g.is<op::divide>(v) && g.inner(g.operand(v, 1)) &&
                    is_rational_of_exp(g, g.operand(v, 0), g.operand(v, 1), x, is_sigmoid_of_exp)) {
    m.values = {x};
    m.number = 1;
    return g.type(x) == g.type(v);
  }
  if (g.is<op::reciprocal>(v)) sum = g.operand(v, 0);
  if (g.is<op::divide>(v) && g.is_number(g.operand(v, 0), 1)) sum = g.operand(v, 1);
  const auto s = sum ? shifted_value(g, sum) : std::nullopt;
  if (!s || !near(s->by, 1) || !g.is<op::exp>(s->x) || !g.inner(s->x)) return false;
  const factors f = factors_of(g, g.operand(s->x, 0));
  if (f.of.size() != 1 || f.by >= 0 || g.type(f.of[0]) != g.type(v)) return false;
  m.values = {f.of[0]};
  m.number = f.by == -1 ? 1 : -f.by;
  return true;
}
// log(1 + exp x)
value_id log_of_exp_sum(const pattern_graph& g, value_id v) {
  if (g.is<op::softplus>(v)) return g.operand(v, 0);
  if (g.is<op::log1p>(v) && g.is<op::exp>(g.operand(v, 0)) && g.inner(g.operand(v, 0)))
    return g.operand(g.operand(v, 0), 0);
  if (!g.is<op::log>(v)) return {};
  const auto s = shifted_value(g, g.operand(v, 0));
  return s && near(s->by, 1) && g.is<op::exp>(s->x) && g.inner(s->x) ? g.operand(s->x, 0) : value_id{};
}
bool is_absolute(const pattern_graph& g, value_id v, value_id x) {
  return g.is<op::abs>(v) && g.inner(v) && g.operand(v, 0) == x;
}
// The operand of a softplus in any spelling.
value_id softplus_operand(const pattern_graph& g, value_id v) {
  if (const value_id x = log_of_exp_sum(g, v)) return x;
  if (g.is<op::where>(v)) {  // x where it is large
    const value_id condition = g.operand(v, 0), x = g.operand(v, 1), rest = g.operand(v, 2);
    if (!g.is<op::greater>(condition) || !g.inner(condition) || g.operand(condition, 0) != x || !g.inner(rest))
      return {};
    const auto from = g.number(g.operand(condition, 1));
    return from && *from >= 15 && log_of_exp_sum(g, rest) == x ? x : value_id{};
  }
  if (!g.is<op::add>(v)) return {};
  for (std::size_t side : {0u, 1u}) {  // max(x, 0) + log(1 + exp(-|x|))
    const value_id positive = g.operand(v, side), rest = g.operand(v, 1 - side);
    if (!g.inner(positive) || !g.inner(rest)) continue;
    const value_id u = log_of_exp_sum(g, rest);
    const bool bounded = g.is<op::maximum>(positive) && g.is_number(g.operand(positive, 1), 0);
    if (!u || !g.inner(u) || !(bounded || g.is<op::relu>(positive))) continue;
    const value_id x = g.operand(positive, 0);
    const factors f = factors_of(g, u);
    if (f.of.size() == 1 && f.by == -1 && is_absolute(g, f.of[0], x)) return x;
  }
  return {};
}
bool match_mish(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto is_rational = [&](value_id p, value_id q, value_id x) {
    value_id of{};
    return is_rational_of_exp(g, p, q, of, is_tanh_softplus_of_exp) && of == x;
  };
  if (g.is<op::divide>(v) && g.is<op::multiply>(g.operand(v, 0)) && g.inner(g.operand(v, 0)))  // x p(e) / q(e)
    for (std::size_t side : {0u, 1u}) {
      const value_id x = g.operand(g.operand(v, 0), side);
      if (g.type(x) != g.type(v) || !is_rational(g.operand(g.operand(v, 0), 1 - side), g.operand(v, 1), x)) continue;
      m.values = {x};
      return true;
    }
  return match_gated(g, v, "mish", m, [&](value_id gate, value_id x) {
    if (g.is<op::divide>(gate)) return is_rational(g.operand(gate, 0), g.operand(gate, 1), x);
    return g.is<op::tanh>(gate) && g.inner(g.operand(gate, 0)) && softplus_operand(g, g.operand(gate, 0)) == x;
  });
}
bool match_softplus(const pattern_graph& g, value_id v, pattern_match& m) {
  if (g.is<op::softplus>(v)) return false;
  const value_id x = softplus_operand(g, v);
  if (x) m.values = {x};
  if (!x && g.is<op::log1p>(v) && g.is<op::exp>(g.operand(v, 0)))
    return near_miss(m, v.node, "is not softplus: its exp", read_elsewhere);
  if (!x && g.is<op::log>(v))
    if (const auto s = shifted_value(g, g.operand(v, 0)); s && g.is<op::exp>(s->x)) {
      if (near(s->by, 1)) return near_miss(m, v.node, "is not softplus: its exp", read_elsewhere);
      return near_miss(m, v.node, "is not softplus: ", s->by, " is added to its exp; expected 1");
    }
  return x && g.type(x) == g.type(v);
}

/// clamp(slope x + offset, low, high) in any spelling.
struct bounded_line {
  value_id x{};
  double slope = 1, offset = 0;
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  int operations = 0;  // number of operations it consists of
  void scale(double by) { slope *= by, offset *= by, low *= by, high *= by; }
  void shift(double by) { offset += by, low += by, high += by; }
  void keep_within(double from, double to) { low = std::clamp(low, from, to), high = std::clamp(high, from, to); }
};
// Applies node v to the line of its operand; false if v is not a step of a line.
bool bend(const pattern_graph& g, value_id v, value_id& x, bounded_line& line) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const node& n = g.at(v);
  if (n.kind != node_kind::operation || n.inputs.empty()) return false;
  const auto number = [&](std::size_t i) { return i < n.inputs.size() ? g.number(n.inputs[i]) : std::nullopt; };
  x = n.inputs[0];
  if (g.is<op::relu>(v)) return line.keep_within(0, infinity), true;
  if (g.is<op::clamp>(v)) {
    const auto low = number(1), high = number(2);
    return low && high && *low <= *high && (line.keep_within(*low, *high), true);
  }
  auto by = number(1);
  const bool either = is_call_of_any<op::multiply, op::add, op::minimum, op::maximum>(n);
  if (!by && either) by = number(0), x = n.inputs.back();
  if (!by || !std::isfinite(*by)) return false;
  if (g.is<op::multiply>(v)) return *by > 0 && (line.scale(*by), true);
  if (g.is<op::divide>(v)) return *by > 0 && (line.scale(1 / *by), true);
  if (g.is<op::add>(v)) return line.shift(*by), true;
  if (g.is<op::subtract>(v)) return line.shift(-*by), true;
  if (g.is<op::maximum>(v)) return line.keep_within(*by, infinity), true;
  return g.is<op::minimum>(v) && (line.keep_within(-infinity, *by), true);
}
// The line that starts at `until`, or at the first value that something else reads or that is not part of a line.
bounded_line bounded_line_of(const pattern_graph& g, value_id v, value_id until = {}) {
  constexpr int max = 8;
  std::vector<value_id> chain;
  value_id x{};
  for (bounded_line ignored; static_cast<int>(chain.size()) < max && v != until && (chain.empty() || g.inner(v)) &&
                             bend(g, v, x, ignored) && g.type(x) == g.type(v);
       v = x)
    chain.push_back(v);
  bounded_line line;
  line.x = v;
  line.operations = static_cast<int>(chain.size());
  for (auto i = chain.rbegin(); i != chain.rend(); ++i) bend(g, *i, x, line);
  return line;
}
bool match_hard_swish(const pattern_graph& g, value_id v, pattern_match& m) {
  if (!g.is<op::multiply>(v) && !g.is<op::divide>(v)) return false;
  const factors f = factors_of(g, v);
  if (f.of.size() != 2) return false;
  for (std::size_t side : {0u, 1u}) {
    const value_id x = f.of[side], gate = f.of[1 - side];
    if (gate == x || g.type(x) != g.type(v) || !g.inner(gate)) continue;
    bounded_line line = bounded_line_of(g, gate, x);
    line.scale(f.by);
    if (line.x != x || std::abs(line.low) > 1e-6 || !near(line.high, 1)) continue;
    if (!near(line.slope, 1. / 6) || !near(line.offset, 0.5))
      return near_miss(m, v.node, "is not hard_swish: its factor is ", line.slope, " x + ", line.offset,
                       "; expected x / 6 + 1/2");
    m.values = {x};
    return true;
  }
  return false;
}
bool match_hard_sigmoid(const pattern_graph& g, value_id v, pattern_match& m) {
  if (!is_call_of_any<op::clamp, op::minimum, op::maximum, op::multiply, op::divide, op::add>(g.at(v))) return false;
  const bounded_line line = bounded_line_of(g, v);
  if (std::abs(line.low) > 1e-6 || !near(line.high, 1) || !near(line.offset, 0.5) || g.type(line.x) != g.type(v))
    return false;
  m.values = {line.x};
  m.number = line.slope;
  m.offset = line.offset;
  m.stays = line.operations <= 3 && g.is<op::clamp>(v);
  return true;
}

value make_gelu(const pattern_match&, operands_of_match in) { return gelu(in[0]); }
value make_gelu_tanh(const pattern_match&, operands_of_match in) { return gelu_tanh(in[0]); }
value make_silu(const pattern_match&, operands_of_match in) { return silu(in[0]); }
value make_hard_swish(const pattern_match&, operands_of_match in) { return hard_swish(in[0]); }
value make_hard_sigmoid(const pattern_match& m, operands_of_match in) {
  return clamp(in[0] * m.number + m.offset, 0, 1);
}
value make_sigmoid(const pattern_match& m, operands_of_match in) {
  return m.number == 1 ? value(sigmoid(in[0])) : value(sigmoid(in[0] * m.number));
}
value make_mish(const pattern_match&, operands_of_match in) { return mish(in[0]); }
value make_softplus(const pattern_match&, operands_of_match in) { return softplus(in[0]); }

constinit const pattern gelu_pattern{rewrite::gelu, match_gelu, make_gelu};
constinit const pattern gelu_tanh_pattern{rewrite::gelu_tanh, match_gelu_tanh, make_gelu_tanh};
constinit const pattern mish_pattern{rewrite::mish, match_mish, make_mish};
constinit const pattern silu_pattern{rewrite::silu, match_silu, make_silu};
constinit const pattern quick_gelu_pattern{rewrite::quick_gelu, match_quick_gelu, nullptr};
constinit const pattern hard_swish_pattern{rewrite::hard_swish, match_hard_swish, make_hard_swish};
constinit const pattern hard_sigmoid_pattern{rewrite::hard_sigmoid, match_hard_sigmoid, make_hard_sigmoid};
constinit const pattern sigmoid_pattern{rewrite::sigmoid, match_sigmoid, make_sigmoid};
constinit const pattern softplus_pattern{rewrite::softplus, match_softplus, make_softplus};

}  // namespace lamina::rewriting
