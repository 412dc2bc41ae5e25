// Patterns over several operations, which exporters write where lamina has one operation: gelu, softmax, layer_norm, attention and
// others. A pattern is matched from its last operation backwards; what it replaces is read by nothing else.
module lamina:passes.patterns;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.elementwise;
import :op.linear;
import :op.normalize;
import :op.reduce;
import :op.shape;
import :op.tile;
import :op.view;
import :passes;
import :program;
import :rewriter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

/// A program as patterns see it: operations by value, and how often each value is read.
class pattern_graph {
 public:
  explicit pattern_graph(const program& p) : p(p), uses_(p.nodes().size()) {
    const auto needed = p.reachable();
    for (std::size_t i = 0; i < p.nodes().size(); ++i)
      if (needed[i])
        for (auto v : p.nodes()[i].inputs) ++uses_[static_cast<std::size_t>(v.node)];
    for (const auto& o : p.outputs()) uses_[static_cast<std::size_t>(o.value.node)] += 2;
    for (const auto& a : p.assignments()) uses_[static_cast<std::size_t>(a.value.node)] += 2;
  }
  const program& p;

  const node& at(value_id v) const { return p.at(v); }
  const tensor_type& type(value_id v) const { return p.type(v); }
  template <Operation Op> bool is(value_id v) const { return is_call_of<Op>(at(v)) && v.result == 0; }
  value_id operand(value_id v, std::size_t i) const { return at(v).inputs[i]; }
  /// Whether one operation alone reads a value, `times` times.
  bool inner(value_id v, int times = 1) const { return uses_[static_cast<std::size_t>(v.node)] == times; }
  std::optional<double> number(value_id v) const { return p.number_of(v); }
  bool is_number(value_id v, double n) const {
    const auto is = number(v);
    return is && std::abs(*is - n) <= 1e-4 * std::abs(n);
  }
  /// The operand of a commutative operation beside `one`; empty where it is none.
  value_id beside(value_id v, value_id one) const {
    const auto &a = operand(v, 0), &b = operand(v, 1);
    return a == one ? b : b == one ? a : value_id{};
  }

 private:
  std::vector<int> uses_;
};

/// What a match hands to the operation that takes its place.
struct pattern_match {
  std::vector<value_id> values;  // operands of the new operation
  double number = 0;
  axes order{};
  int axis = 0;
  bool flag = false;
  std::optional<double> kept{},
      masked{};  // what the mask of an attention adds where its condition holds, and elsewhere
  // Of patterns of quantized nets: the program that they are found in, the operation that they are about and those beside it, bounds of
  // the result, and of each operand whether it stands for numbers as the result does.
  const program* from = nullptr;
  std::int32_t node = -1;
  std::vector<std::int32_t> nodes{};
  std::int64_t low = -128, high = 127;
  std::vector<char> same{};
  std::string why{};  // there is no match, but nearly: what `node` is not, and what is missing
};
/// Notes a near miss, which names a node and what it lacks; false.
template <class... T> bool near_miss(pattern_match& m, std::int32_t node, const T&... words) {
  text t;
  ((t << words), ...);
  m.node = node;
  m.why = t.string();
  return false;
}
constexpr std::string_view read_elsewhere = " is read by something else, too";

/// A product of values and one number, as far as multiplications and divisions by numbers that nothing else reads make it.
struct factors {
  double by = 1;
  std::vector<value_id> of;
};
void add_factors(const pattern_graph& g, value_id v, bool root, int depth, factors& f) {
  const tensor_type& type = g.type(v);
  const auto walk = [&](value_id x) { add_factors(g, x, false, depth + 1, f); };
  if (const auto n = g.number(v); n && !root) {
    f.by *= *n;
    return;
  }
  if ((!root && !g.inner(v)) || depth > 8 || !is_real(type.element)) return f.of.push_back(v);
  if (g.is<op::multiply>(v)) {
    walk(g.operand(v, 0));
    return walk(g.operand(v, 1));
  }
  if (g.is<op::negate>(v)) {
    f.by = -f.by;
    return walk(g.operand(v, 0));
  }
  if (g.is<op::divide>(v))
    if (const auto n = g.number(g.operand(v, 1)); n && *n != 0) {
      f.by /= *n;
      return walk(g.operand(v, 0));
    }
  f.of.push_back(v);
}
factors factors_of(const pattern_graph& g, value_id v) {
  factors f;
  add_factors(g, v, true, 0, f);
  return f;
}
bool near(double a, double b) { return std::abs(a - b) <= 1e-4 * std::abs(b); }

/// A value and a number that is added to it: `x + number` in any order, or `x - number`.
struct shifted {
  value_id x{};
  double by = 0;
};
std::optional<shifted> shifted_value(const pattern_graph& g, value_id v) {
  if (!g.inner(v)) return {};
  if (g.is<op::add>(v))
    for (std::size_t side : {1u, 0u})
      if (const auto n = g.number(g.operand(v, side))) return shifted{g.operand(v, 1 - side), *n};
  if (g.is<op::subtract>(v))
    if (const auto n = g.number(g.operand(v, 1))) return shifted{g.operand(v, 0), -*n};
  return {};
}

/// The value whose power `exponent` v is, however it is spelled; empty where it is none.
value_id power_base(const pattern_graph& g, value_id v, double exponent) {
  if (g.is<op::pow>(v) && g.is_number(g.operand(v, 1), exponent)) return g.operand(v, 0);
  if (exponent == 2 && g.is<op::square>(v)) return g.operand(v, 0);
  if (exponent == 2 && g.is<op::multiply>(v) && g.operand(v, 0) == g.operand(v, 1)) return g.operand(v, 0);
  if (exponent == 0.5 && g.is<op::sqrt>(v)) return g.operand(v, 0);
  if (exponent == -0.5) {
    if (g.is<op::reciprocal>(v) && g.inner(g.operand(v, 0))) return power_base(g, g.operand(v, 0), 0.5);
    if (g.is<op::divide>(v) && g.is_number(g.operand(v, 0), 1) && g.inner(g.operand(v, 1)))
      return power_base(g, g.operand(v, 1), 0.5);
  }
  return {};
}

// ---- activations ----------------------------------------------------------------------------------------------------

// x/2 (1 + f(u)) for a function f: u, where v is that of the type of x. The factors are x, the sum and 1/2.
struct half_sum {
  value_id x{}, inside{};
};
template <Operation F>
std::optional<half_sum> half_sum_of(const pattern_graph& g, value_id v, std::string_view name, pattern_match& m) {
  if (!g.is<op::multiply>(v) && !g.is<op::divide>(v)) return {};
  const factors f = factors_of(g, v);
  if (f.of.size() != 2) return {};
  for (std::size_t side : {0u, 1u}) {
    const value_id x = f.of[side];
    const auto sum = shifted_value(g, f.of[1 - side]);
    if (!sum || g.type(x) != g.type(v) || !g.inner(sum->x)) continue;
    if (near(sum->by, 1) && near(f.by, 0.5) && g.is<F>(sum->x)) return half_sum{x, g.operand(sum->x, 0)};
    if (near(sum->by, 1) && g.is<F>(sum->x) && std::is_same_v<F, op::erf>)
      near_miss(m, v.node, "is no ", name, ": its factor is ", f.by, ", and 0.5 is expected");
    if (!near(sum->by, 0.5) || !near(f.by, 1)) continue;  // x (1/2 + f(u) / 2)
    const factors inner = factors_of(g, sum->x);
    if (inner.of.size() == 1 && near(inner.by, 0.5) && g.is<F>(inner.of[0]) && g.inner(inner.of[0]))
      return half_sum{x, g.operand(inner.of[0], 0)};
  }
  return {};
}

bool match_gelu(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto h = half_sum_of<op::erf>(g, v, "gelu", m);
  if (!h) return false;
  if (!g.inner(h->inside)) return near_miss(m, v.node, "is no gelu: the operand of its erf", read_elsewhere);
  const factors u = factors_of(g, h->inside);
  if (u.of.size() != 1 || u.of[0] != h->x) return near_miss(m, v.node, "is no gelu: its erf is of another value");
  if (!near(u.by, 0.70710678))
    return near_miss(m, v.node, "is no gelu: its erf is of ", u.by, " x, and 0.70710678 x is expected");
  m.values = {h->x};
  return true;
}

// sqrt(2 / pi) (x + 0.044715 x^3), or sqrt(2 / pi) x (1 + 0.044715 x^2).
bool is_tanh_argument(const pattern_graph& g, value_id v, value_id x) {
  const factors u = factors_of(g, v);
  constexpr double scale = 0.7978845608, cube = 0.044715;
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
    const value_id other = g.beside(u.of[0], x);
    return other && part(other, 3);
  }
  if (u.of.size() != 2) return false;
  const value_id sum = u.of[0] == x ? u.of[1] : u.of[1] == x ? u.of[0] : value_id{};
  const auto s = sum ? shifted_value(g, sum) : std::nullopt;
  return s && near(s->by, 1) && part(s->x, 2);
}
bool match_gelu_tanh(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto h = half_sum_of<op::tanh>(g, v, "gelu_tanh", m);
  if (!h) return false;
  if (!is_tanh_argument(g, h->inside, h->x))
    return near_miss(m, v.node, "is no gelu_tanh: its tanh is not of 0.79788456 (x + 0.044715 x^3)");
  if (!g.inner(h->inside)) return near_miss(m, v.node, "is no gelu_tanh: the operand of its tanh", read_elsewhere);
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
      near_miss(m, v.node, "is no ", name, ": its ", g.at(gate).op->name, read_elsewhere);
      continue;
    }
    m.values = {x};
    return true;
  }
  return false;
}
bool match_silu(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto is = [&](value_id gate, value_id x) { return g.is<op::sigmoid>(gate) && g.operand(gate, 0) == x; };
  if (match_gated(g, v, "silu", m, is)) return true;
  if (g.is<op::divide>(v)) {  // x / (1 + exp(-x))
    const value_id x = g.operand(v, 0);
    const auto s = shifted_value(g, g.operand(v, 1));
    if (!s || !near(s->by, 1) || !g.is<op::exp>(s->x) || !g.inner(s->x) || g.type(x) != g.type(v)) return false;
    const factors f = factors_of(g, g.operand(s->x, 0));
    m.values = {x};
    return f.of.size() == 1 && f.of[0] == x && near(f.by, -1);
  }
  if (!g.is<op::multiply>(v)) return false;
  for (std::size_t side : {0u, 1u}) {
    const value_id gate = g.operand(v, 1 - side);
    if (!g.is<op::sigmoid>(gate) || !g.inner(g.operand(gate, 0))) continue;
    if (const factors f = factors_of(g, g.operand(gate, 0));
        f.of.size() == 1 && f.of[0] == g.operand(v, side) && f.by != 1)
      return near_miss(m, v.node, "is no silu: its sigmoid is of ", f.by, " x, and x is expected");
  }
  return false;
}
value_id softplus_operand(const pattern_graph& g, value_id v) {
  if (g.is<op::softplus>(v)) return g.operand(v, 0);
  if (g.is<op::log1p>(v) && g.is<op::exp>(g.operand(v, 0)) && g.inner(g.operand(v, 0)))
    return g.operand(g.operand(v, 0), 0);
  if (!g.is<op::log>(v)) return {};
  const auto s = shifted_value(g, g.operand(v, 0));
  return s && near(s->by, 1) && g.is<op::exp>(s->x) && g.inner(s->x) ? g.operand(s->x, 0) : value_id{};
}
bool match_mish(const pattern_graph& g, value_id v, pattern_match& m) {
  return match_gated(g, v, "mish", m, [&](value_id gate, value_id x) {
    return g.is<op::tanh>(gate) && g.inner(g.operand(gate, 0)) && softplus_operand(g, g.operand(gate, 0)) == x;
  });
}
bool match_softplus(const pattern_graph& g, value_id v, pattern_match& m) {
  if (g.is<op::softplus>(v)) return false;
  const value_id x = softplus_operand(g, v);
  if (x) m.values = {x};
  if (!x && g.is<op::log1p>(v) && g.is<op::exp>(g.operand(v, 0)))
    return near_miss(m, v.node, "is no softplus: its exp", read_elsewhere);
  if (!x && g.is<op::log>(v))
    if (const auto s = shifted_value(g, g.operand(v, 0)); s && g.is<op::exp>(s->x)) {
      if (near(s->by, 1)) return near_miss(m, v.node, "is no softplus: its exp", read_elsewhere);
      return near_miss(m, v.node, "is no softplus: ", s->by, " is added to its exp, and 1 is expected");
    }
  return static_cast<bool>(x);
}

// ---- rows -----------------------------------------------------------------------------------------------------------

/// The operand of a reduction that keeps its axes, and what they are: `count` trailing ones, or the single one `axis`.
struct reduced {
  value_id x{};
  int count = 0, axis = -1;
};
template <Operation R> std::optional<reduced> reduced_of(const pattern_graph& g, value_id v) {
  if (!g.is<R>(v)) return {};
  const auto& a = g.at(v).template attributes_as<reduce_attributes>();
  const value_id x = g.operand(v, 0);
  const int rank = g.type(x).dims.rank;
  if (!a.keepdim || a.axes.count < 1) return {};
  reduced r{x, a.axes.count, a.axes.count == 1 ? detail::normal_axis(a.axes[0], rank) : -1};
  unsigned bits = 0;
  for (int i = 0; i < a.axes.count; ++i) bits |= 1u << detail::normal_axis(a.axes[i], rank);
  if (bits != ((1u << rank) - 1) - ((1u << (rank - r.count)) - 1)) r.count = 0;  // not the last ones
  return r;
}

// exp(x - max x) / sum of it.
bool match_softmax(const pattern_graph& g, value_id v, pattern_match& m) {
  if (!g.is<op::divide>(v)) return false;
  const value_id e = g.operand(v, 0), sum = g.operand(v, 1);
  if (!g.is<op::exp>(e)) return false;
  const auto s = reduced_of<op::reduce_sum>(g, sum);
  if (!s || s->x != e) return false;
  if (s->axis < 0) return near_miss(m, v.node, "is no softmax: its sum is over several axes, and one is expected");
  if (!g.inner(e, 2)) return near_miss(m, v.node, "is no softmax: its exp", read_elsewhere);
  if (!g.inner(sum)) return near_miss(m, v.node, "is no softmax: its sum", read_elsewhere);
  value_id x = g.operand(e, 0);
  if (g.is<op::subtract>(x) && g.inner(x)) {
    const auto top = reduced_of<op::reduce_max>(g, g.operand(x, 1));
    if (top && top->x == g.operand(x, 0) && top->axis == s->axis) x = top->x;
  }
  m.values = {x};
  m.axis = s->axis;
  return true;
}

/// Rows that are divided by their deviation or root mean square.
struct normalized {
  value_id x{};
  int axes = 0;
  double epsilon = 0;
  bool centered = false;
};
/// Why rows are not normalized as one operation does it.
struct normalized_miss {
  bool centered = false;
  std::string_view reason{};
};
// numerator / sqrt(mean(numerator^2) + epsilon), also with a product of the reciprocal.
// `why`: a near miss, if it is one.
std::optional<normalized> normalized_rows(const pattern_graph& g, value_id v, normalized_miss* why = nullptr) {
  value_id d{}, root{}, variance{};
  if (g.is<op::divide>(v)) d = g.operand(v, 0), root = g.operand(v, 1), variance = power_base(g, root, 0.5);
  else if (g.is<op::multiply>(v))
    for (std::size_t side : {0u, 1u})
      if (const value_id base = power_base(g, g.operand(v, side), -0.5))
        d = g.operand(v, 1 - side), root = g.operand(v, side), variance = base;
  if (!d || !variance || g.type(d) != g.type(v)) return {};
  const auto shift = shifted_value(g, variance);
  const value_id mean = shift ? shift->x : variance;
  if (!g.is<op::reduce_mean>(mean) || power_base(g, g.operand(mean, 0), 2) != d) return {};
  const auto miss = [&](std::string_view reason) -> std::optional<normalized> {
    if (why) *why = {g.is<op::subtract>(d), reason};
    return {};
  };
  if (!shift) return miss("no number is added to its mean of squares");
  if (!(shift->by >= 0)) return miss("the number that is added to its mean of squares is below 0");
  const auto over = reduced_of<op::reduce_mean>(g, mean);
  if (!over) return miss("its mean of squares does not keep its axes");
  if (over->count < 1) return miss("its mean of squares is not over the last axes");
  if (!g.inner(root) || !g.inner(mean) || !g.inner(over->x)) return miss("a part of it is read by something else, too");
  normalized n{d, over->count, shift->by, false};
  if (!g.is<op::subtract>(d)) return n;
  const auto center = reduced_of<op::reduce_mean>(g, g.operand(d, 1));
  if (center && center->x == g.operand(d, 0) && center->count == over->count) n.x = center->x, n.centered = true;
  return n;
}
bool fits_rows(const pattern_graph& g, value_id weight, const normalized& n) {
  const shape &w = g.type(weight).dims, &x = g.type(n.x).dims;
  if (w.rank != n.axes) return false;
  for (int i = 0; i < w.rank; ++i)
    if (w[i] != x[x.rank - w.rank + i]) return false;
  return true;
}
// weight / sqrt(mean((x - mean)^2) + epsilon) with the weight as operand 1 - `root_at`: rows of x, if it is that.
std::optional<normalized> rows_of_factor(const pattern_graph& g, value_id factor, std::size_t root_at,
                                         const reduced& center, value_id mean) {
  const value_id root = g.operand(factor, root_at), variance = power_base(g, root, -0.5);
  const auto shift = variance && g.inner(root) ? shifted_value(g, variance) : std::nullopt;
  const auto over = shift && shift->by >= 0 ? reduced_of<op::reduce_mean>(g, shift->x) : std::nullopt;
  if (!over || over->count != center.count || !g.inner(shift->x) || !g.inner(over->x)) return {};
  const value_id d = power_base(g, over->x, 2);
  if (!d || !g.is<op::subtract>(d) || g.operand(d, 0) != center.x || g.operand(d, 1) != mean) return {};
  const normalized n{center.x, over->count, shift->by, true};
  return fits_rows(g, g.operand(factor, 1 - root_at), n) ? std::optional(n) : std::nullopt;
}
// x f + (bias - mean f) with a factor f as above: batch normalization by rows.
bool match_rows_by_factor(const pattern_graph& g, value_id v, value_id scaled, value_id rest, pattern_match& m) {
  if (!g.is<op::multiply>(scaled) || !g.is<op::subtract>(rest) || !g.inner(scaled) || !g.inner(rest)) return false;
  const value_id bias = g.operand(rest, 0), moved = g.operand(rest, 1);
  if (!g.is<op::multiply>(moved) || !g.inner(moved)) return false;
  for (std::size_t i = 0; i < 4; ++i) {
    const value_id x = g.operand(scaled, i / 2), factor = g.operand(scaled, 1 - i / 2), mean = g.beside(moved, factor);
    const auto center = mean ? reduced_of<op::reduce_mean>(g, mean) : std::nullopt;
    if (!center || center->x != x || center->count < 1 || !g.inner(factor, 2) || !g.is<op::multiply>(factor)) continue;
    const auto n = rows_of_factor(g, factor, i % 2, *center, mean);
    if (!n || !fits_rows(g, bias, *n) || g.type(x) != g.type(v)) continue;
    m.values = {x, g.operand(factor, 1 - i % 2), bias};
    m.axis = n->axes;
    m.number = n->epsilon;
    return true;
  }
  return false;
}
// The rows, then perhaps a weight and a bias.
bool match_normalized(const pattern_graph& g, value_id v, bool centered, pattern_match& m) {
  const auto taken = [&](const normalized& n, std::vector<value_id> with) {
    if (n.centered != centered) return false;
    m.values = std::move(with);
    m.values.insert(m.values.begin(), n.x);
    m.axis = n.axes;
    m.number = n.epsilon;
    return true;
  };
  const auto weighted = [&](value_id w, value_id& weight) -> std::optional<normalized> {
    if (!g.is<op::multiply>(w)) return {};
    for (std::size_t side : {0u, 1u}) {
      const value_id rows = g.operand(w, side);
      weight = g.operand(w, 1 - side);
      if (!g.inner(rows)) continue;
      if (const auto n = normalized_rows(g, rows); n && fits_rows(g, weight, *n)) return n;
    }
    return {};
  };
  value_id weight{};
  if (centered && g.is<op::add>(v))
    for (std::size_t side : {0u, 1u})
      if (match_rows_by_factor(g, v, g.operand(v, side), g.operand(v, 1 - side), m)) return true;
  if (centered && g.is<op::add>(v))
    for (std::size_t side : {0u, 1u})
      if (g.inner(g.operand(v, side)))
        if (const auto n = weighted(g.operand(v, side), weight); n && fits_rows(g, g.operand(v, 1 - side), *n))
          return taken(*n, {weight, g.operand(v, 1 - side)});
  if (const auto n = weighted(v, weight)) return taken(*n, {weight});
  normalized_miss why;
  const auto n = normalized_rows(g, v, &why);
  if (!why.reason.empty() && why.centered == centered)
    return near_miss(m, v.node, "is no ", centered ? "layer_norm" : "rms_norm", ": ", why.reason);
  return n && taken(*n, {});
}
bool match_layer_norm(const pattern_graph& g, value_id v, pattern_match& m) { return match_normalized(g, v, true, m); }
bool match_rms_norm(const pattern_graph& g, value_id v, pattern_match& m) { return match_normalized(g, v, false, m); }

// ---- attention ------------------------------------------------------------------------------------------------------

// A product with a number that a value is, or the value itself.
value_id without_scale(const pattern_graph& g, value_id v, double& scale) {
  if (!g.inner(v)) return v;
  const factors f = factors_of(g, v);
  if (f.of.size() != 1 || f.of[0] == v || g.type(f.of[0]) != g.type(v)) return v;
  scale *= f.by;
  return f.of[0];
}
// Whether a value is a product of two values that are no parameters, behind what is done to each of its elements. Keys may be an
// input: those of a cache.
bool is_made_of_products(const pattern_graph& g, value_id v, int depth = 0) {
  if (g.is<op::matmul>(v)) {
    const node_kind keys = g.at(g.operand(v, 1)).kind;
    return keys == node_kind::operation || keys == node_kind::input;
  }
  if (depth > 4) return false;
  if (g.is<op::where>(v))
    return is_made_of_products(g, g.operand(v, 1), depth + 1) || is_made_of_products(g, g.operand(v, 2), depth + 1);
  const bool of_two = g.is<op::add>(v) || g.is<op::subtract>(v) || g.is<op::multiply>(v) || g.is<op::divide>(v);
  return of_two && (is_made_of_products(g, g.operand(v, 0), depth + 1) ||
                    (!g.is<op::divide>(v) && is_made_of_products(g, g.operand(v, 1), depth + 1)));
}
/// Scores that a condition replaces by a number at some positions.
struct masked_scores {
  value_id scores{}, condition{};
  double kept = 0, masked = 0;  // what comes to the same if it is added: where the condition holds, and elsewhere
};
// Only numbers of this size swallow any score that is added to them, so that a row without a position left has equal weights too.
constexpr double largest_mask = -1e30;
std::optional<masked_scores> masked_by_condition(const pattern_graph& g, value_id v) {
  if (!g.is<op::where>(v) || !g.inner(v)) return {};
  for (std::size_t side : {1u, 2u})
    if (const auto n = g.number(g.operand(v, 3 - side));
        n && *n <= largest_mask && g.type(g.operand(v, side)) == g.type(v))
      return masked_scores{g.operand(v, side), g.operand(v, 0), side == 1 ? 0 : *n, side == 1 ? *n : 0};
  return {};
}
// Why scores are no product with a number and a mask that is added.
std::string_view why_no_scores(const pattern_graph& g, value_id scores) {
  constexpr std::string_view by_condition =
      "its scores are masked by `where`, and a number up to -1e30 in their place, or a mask that is added, is expected";
  if (g.is<op::where>(scores)) return by_condition;
  value_id s = scores;
  if (g.is<op::add>(s)) {
    s = g.operand(s, is_made_of_products(g, g.operand(s, 0)) ? 0 : 1);
    if (g.is<op::add>(s)) return "several values are added to its scores, and one is expected";
    if (g.is<op::where>(s)) return by_condition;
  }
  if (g.is<op::matmul>(s) || !g.inner(s)) return "its scores are read by something else, too";
  if (g.is<op::multiply>(s) || g.is<op::divide>(s))
    return "its scale is no number, or its scores are read by something else, too";
  return "its scores are no product with a number and a mask";
}
/// Keys or values [..., heads, T, D] whose heads are repeated one by one for groups of queries: those before; else empty.
value_id of_fewer_heads(const pattern_graph& g, value_id v) {
  const auto views = [&](value_id x) { return (g.is<op::reshape>(x) || g.is<op::unsqueeze>(x)) && g.inner(x); };
  if (!views(v)) return {};
  const value_id tiled = g.operand(v, 0);
  if (!g.is<op::tile_to>(tiled) || !g.inner(tiled) || !views(g.operand(tiled, 0))) return {};
  const value_id few = g.operand(g.operand(tiled, 0), 0);
  const shape &all = g.type(v).dims, &groups = g.type(tiled).dims, &one = g.type(g.operand(tiled, 0)).dims,
              &is = g.type(few).dims;
  const int heads = all.rank - 3;
  if (heads < 0 || is.rank != all.rank || groups.rank != all.rank + 1 || one.rank != groups.rank) return {};
  if (!all.is_static() || one[heads + 1] != dim(1) || groups[heads] != is[heads]) return {};
  for (int i = 0; i < all.rank; ++i) {
    const int to = i <= heads ? i : i + 1;
    if (one[to] != is[i] || groups[to] != is[i] || (i != heads && all[i] != is[i])) return {};
  }
  return few;
}
// Whether attention takes the operands of a match, with each of its masks, and gives the type of v.
bool gives_attention(const pattern_graph& g, value_id v, pattern_match& m, double scale, bool keys_last) {
  std::vector<tensor_type> types;
  for (std::size_t i = 0; i < 3; ++i) types.push_back(g.type(m.values[i]));
  shape& keys = types[1].dims;
  if (keys.rank < 2) return false;
  if (keys_last) std::swap(keys[keys.rank - 1], keys[keys.rank - 2]);
  for (std::size_t i = 3; i < std::max<std::size_t>(m.values.size(), 4); ++i) {
    types.resize(3);
    if (i < m.values.size()) types.push_back({types[0].element, g.type(m.values[i]).dims});
    inference found;
    op::attention::infer({false, scale}, view<const tensor_type>(types), found);
    if (!found.why.empty()) return near_miss(m, v.node, "is no attention: ", found.why.view());
    if (found.results[0] != g.type(v)) return false;
  }
  return true;
}
// softmax(scale q k^T + mask) v, also where a condition masks.
bool match_attention(const pattern_graph& g, value_id v, pattern_match& m) {
  if (!g.is<op::matmul>(v)) return false;
  const auto& outer = g.at(v).attributes_as<matmul_attributes>();
  const value_id weights = g.operand(v, 0);
  value_id values = g.operand(v, 1);
  if (!g.is<op::softmax>(weights)) return false;
  const int rank = g.type(weights).dims.rank;
  const auto miss = [&](const auto&... words) { return near_miss(m, v.node, "is no attention: ", words...); };
  value_id scores = g.operand(weights, 0), mask{};
  if (!is_made_of_products(g, scores)) return false;
  if (outer.transpose_a || outer.transpose_b) return miss("its softmax or its values are transposed");
  if (!g.inner(weights)) return miss("its softmax", read_elsewhere);
  if (detail::normal_axis(g.at(weights).attributes_as<softmax_attributes>().axis, rank) != rank - 1)
    return miss("its softmax is not along the last axis");
  if (!g.inner(scores)) return miss("the operand of its softmax", read_elsewhere);
  double scale = 1;
  std::optional<masked_scores> by_condition;
  const auto product = [&](value_id s) {
    by_condition = masked_by_condition(g, s);
    if (by_condition) s = by_condition->scores;
    const value_id p = without_scale(g, s, scale);
    return g.is<op::matmul>(p) && g.inner(p) ? p : value_id{};
  };
  value_id p = product(scores);
  if (!p && g.is<op::add>(scores))
    for (std::size_t side : {0u, 1u}) {
      scale = 1;
      if (p = product(g.operand(scores, side)); !p) continue;
      mask = g.operand(scores, 1 - side);
      break;
    }
  if (!p) return miss(why_no_scores(g, scores));
  const auto& inside = g.at(p).attributes_as<matmul_attributes>();
  if (inside.transpose_a) return miss("its queries are transposed");
  const value_id q = without_scale(g, g.operand(p, 0), scale);
  value_id k = without_scale(g, g.operand(p, 1), scale);
  if (!(scale > 0) || !std::isfinite(scale)) return miss("its scale is ", scale, ", and one above 0 is expected");
  if (const value_id few = of_fewer_heads(g, k), few_values = of_fewer_heads(g, values); few && few_values)
    k = few, values = few_values;
  m.values = {q, k, values};
  if (mask) m.values.push_back(mask);
  if (by_condition)
    m.values.push_back(by_condition->condition), m.kept = by_condition->kept, m.masked = by_condition->masked;
  if (!gives_attention(g, v, m, scale, !inside.transpose_b)) return false;
  m.number = scale;
  m.flag = !inside.transpose_b;  // keys lie with their positions last
  return true;
}

// ---- the table ------------------------------------------------------------------------------------------------------

using operands_of_match = view<const value>;
value make_gelu(const pattern_match&, operands_of_match in) { return gelu(in[0]); }
value make_gelu_tanh(const pattern_match&, operands_of_match in) { return gelu_tanh(in[0]); }
value make_silu(const pattern_match&, operands_of_match in) { return silu(in[0]); }
value make_mish(const pattern_match&, operands_of_match in) { return mish(in[0]); }
value make_softplus(const pattern_match&, operands_of_match in) { return softplus(in[0]); }
value make_softmax(const pattern_match& m, operands_of_match in) { return softmax(in[0], softmax_attributes{m.axis}); }
value make_layer_norm(const pattern_match& m, operands_of_match in) {
  return apply_all<op::layer_norm>(normalize_attributes{m.axis, m.number}, in)[0];
}
value make_rms_norm(const pattern_match& m, operands_of_match in) {
  return apply_all<op::rms_norm>(normalize_attributes{m.axis, m.number}, in)[0];
}
value make_attention(const pattern_match& m, operands_of_match in) {
  std::vector<value> all(in.begin(), in.end());
  if (m.flag) {
    const node& n = all[1].owner().at(all[1].id());
    const int rank = all[1].shape().rank;
    axes order;
    for (int i = 0; i < rank; ++i) order.values[order.count++] = i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2;
    if (is_call_of<op::permute>(n)) {  // one permutation of both
      const auto& first = n.attributes_as<permute_attributes>().order;
      for (int i = 0; i < rank; ++i) order.values[i] = detail::normal_axis(first[order[i]], rank);
      all[1] = value(&all[1].owner(), n.inputs[0]);
    }
    bool same = true;
    for (int i = 0; i < rank; ++i) same = same && order[i] == i;
    if (!same) all[1] = permute(all[1], order);
  }
  if (m.masked) {
    const auto number = [&](double n) {
      return value_or_number(n).in(all[0].owner(), all[0].type().element, op::attention::name);
    };
    const value by_condition = where(all.back(), number(*m.kept), number(*m.masked));
    all.pop_back();
    if (all.size() == 4) all[3] = all[3] + by_condition;
    else all.push_back(by_condition);
  }
  return apply_all<op::attention>(attention_attributes{false, m.number}, all);
}

/// A pattern by the name of what it becomes.
struct named_pattern {
  rewrite as;
  std::string_view name;
  bool (*match)(const pattern_graph&, value_id, pattern_match&);
  value (*make)(const pattern_match&, operands_of_match);
};
/// Longer ones before those that are a part of them.
inline constexpr named_pattern patterns[] = {
    {rewrite::attention, "attention", match_attention, make_attention},
    {rewrite::layer_norm, "layer_norm", match_layer_norm, make_layer_norm},
    {rewrite::rms_norm, "rms_norm", match_rms_norm, make_rms_norm},
    {rewrite::softmax, "softmax", match_softmax, make_softmax},
    {rewrite::gelu, "gelu", match_gelu, make_gelu},
    {rewrite::gelu_tanh, "gelu_tanh", match_gelu_tanh, make_gelu_tanh},
    {rewrite::mish, "mish", match_mish, make_mish},
    {rewrite::silu, "silu", match_silu, make_silu},
    {rewrite::softplus, "softplus", match_softplus, make_softplus},
};

/// Whether a pattern can end with an operation: what spares the others a look.
bool may_end_pattern(const node& n) {
  return n.kind == node_kind::operation &&
         is_call_of_any<op::multiply, op::divide, op::add, op::matmul, op::log, op::log1p>(n);
}

/// One operation that ends a pattern, and what takes its place.
struct found_pattern {
  const named_pattern* is;
  pattern_match match;
};
/// The patterns of a program by their last operations, the longest ones, and the operations that only they read.
struct found_patterns {
  std::map<std::int32_t, found_pattern> by_root;
  std::set<std::int32_t> inside;

  std::map<std::int32_t, std::string> misses;  // operations that a pattern is about, and why it does not match

  found_patterns(const program& p, view<const named_pattern> of, bool (*may_end)(const node&),
                 const pass_options& options) {
    std::optional<pattern_graph> g;
    std::vector<char> needed;
    for (auto i = static_cast<std::int32_t>(p.nodes().size()); i-- > 0;) {
      if (!may_end(p.at(i)) || inside.contains(i)) continue;
      if (!g) g.emplace(p), needed = p.reachable();
      if (!needed[static_cast<std::size_t>(i)]) continue;
      for (const auto& pattern : of) {
        pattern_match m;
        m.from = &p;
        if (options.without.has(pattern.as)) continue;
        if (!pattern.match(*g, {i, 0}, m)) {
          if (!m.why.empty()) misses.emplace(m.node, std::move(m.why));
          continue;
        }
        m.why.clear();
        claim(*g, i, m);
        by_root.emplace(i, found_pattern{&pattern, std::move(m)});
        break;
      }
    }
    std::erase_if(misses,
                  [&](const auto& miss) { return by_root.contains(miss.first) || inside.contains(miss.first); });
  }

 private:
  // The operations between the end of a pattern and its operands that nothing outside of it reads: readers come first.
  void claim(const pattern_graph& g, std::int32_t root, const pattern_match& m) {
    std::map<std::int32_t, int, std::greater<>> reads;  // of each operation by those that are claimed
    const auto add_reads = [&](std::int32_t i) {
      for (auto v : g.p.at(i).inputs)
        if (g.at(v).kind == node_kind::operation && std::find(m.values.begin(), m.values.end(), v) == m.values.end())
          ++reads[v.node];
    };
    add_reads(root);
    while (!reads.empty()) {
      const auto [i, times] = *reads.begin();
      reads.erase(reads.begin());
      if (!g.inner({i, 0}, times)) continue;
      inside.insert(i);
      add_reads(i);
    }
  }
};

/// The program with patterns replaced, to a fixed point, or nothing where there are none; counts each, and notes those that nearly match.
std::optional<program> recognized(const program& first, view<const named_pattern> of, bool (*may_end)(const node&),
                                  const pass_options& options, pass_counters& counters) {
  constexpr int most_rounds = 8;
  std::optional<program> last;
  for (int round = 0; round < most_rounds; ++round) {
    const program& p = last ? *last : first;
    const found_patterns found(p, of, may_end, options);
    if (found.by_root.empty()) {
      for (const auto& [i, why] : found.misses) {
        text t;
        const node& n = p.at(i);
        t << n.op->name << (n.path.empty() ? "" : " ") << n.path << ' ' << why;
        counters.missed.push_back(t.string());
      }
      return last;
    }
    program made;
    made.path = p.path;
    made.common_subexpressions = p.common_subexpressions;
    rewriter r(p, made);
    r.run([&](std::int32_t i, const node& n) {
      if (found.inside.contains(i)) return true;
      const auto at = found.by_root.find(i);
      if (at == found.by_root.end()) return false;
      std::vector<value> in;
      for (auto v : at->second.match.values) in.push_back(r.at(v));
      made.path = n.path;
      r.set({i, 0}, at->second.is->make(at->second.match, in));
      made.path = p.path;
      ++counters.simplified;
      ++counters.rewritten[static_cast<int>(at->second.is->as)];
      return true;
    });
    last = std::move(made);
  }
  return last;
}

}  // namespace lamina::rewriting
