// Decomposed patterns over rows, as exporters write them: softmax, layer and RMS normalization.
module lamina:passes.row_patterns;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.normalize;
import :op.reduce;
import :op.shape;
import :passes.pattern;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

/// The operand of a reduction that keeps its axes, the axes as bits, and the axis if it is a single one.
struct reduced {
  value_id x{};
  unsigned over = 0;
  int axis = -1;
};
// Accepts a reduction that drops its axes together with the reshape that restores them.
template <Operation R> std::optional<reduced> reduced_of(const pattern_graph& g, value_id v) {
  const bool restored =
      (g.is<op::reshape>(v) || g.is<op::unsqueeze>(v)) && g.is<R>(g.operand(v, 0)) && g.inner(g.operand(v, 0));
  const value_id r = restored ? g.operand(v, 0) : v;
  if (!g.is<R>(r)) return {};
  const auto& a = g.at(r).template attributes_as<reduce_attributes>();
  const value_id x = g.operand(r, 0);
  const shape& whole = g.type(x).dims;
  if (a.keepdim == restored || a.axes.count < 1) return {};
  reduced found{x, 0, a.axes.count == 1 ? detail::normal_axis(a.axes[0], whole.rank) : -1};
  for (int i = 0; i < a.axes.count; ++i) found.over |= 1u << detail::normal_axis(a.axes[i], whole.rank);
  const shape& kept = g.type(v).dims;
  if (kept.rank != whole.rank) return {};
  for (int i = 0; i < whole.rank; ++i)
    if (kept[i] != (found.over >> i & 1u ? dim(1) : whole[i])) return {};
  return found;
}
// A mean, also as a sum divided by the number of elements.
std::optional<reduced> mean_of(const pattern_graph& g, value_id v) {
  if (const auto mean = reduced_of<op::reduce_mean>(g, v)) return mean;
  if (!g.is<op::multiply>(v) && !g.is<op::divide>(v)) return {};
  const factors f = factors_of(g, v);
  if (f.of.size() != 1 || !g.inner(f.of[0])) return {};
  const auto sum = reduced_of<op::reduce_sum>(g, f.of[0]);
  if (!sum || !g.type(sum->x).dims.is_static() || !g.type(v).dims.is_static()) return {};
  const auto elements = static_cast<double>(g.type(sum->x).dims.size());
  return near(f.by * elements, static_cast<double>(g.type(v).dims.size())) ? sum : std::nullopt;
}

// exp(x - max x) / sum of it.
bool match_softmax(const pattern_graph& g, value_id v, pattern_match& m) {
  value_id e{}, sum{}, divisor{};
  if (g.is<op::divide>(v)) e = g.operand(v, 0), divisor = sum = g.operand(v, 1);
  else if (g.is<op::multiply>(v))
    for (std::size_t side : {0u, 1u})
      if (g.is<op::reciprocal>(g.operand(v, side)))
        e = g.operand(v, 1 - side), divisor = g.operand(v, side), sum = g.operand(divisor, 0);
  if (!e || !g.is<op::exp>(e)) return false;
  const auto s = reduced_of<op::reduce_sum>(g, sum);
  if (!s || s->x != e) return false;
  if (s->axis < 0) return near_miss(m, v.node, "is not softmax: its sum is over several axes; expected one");
  if (!g.inner(e, 2)) return near_miss(m, v.node, "is not softmax: its exp", read_elsewhere);
  if (!g.inner(sum) || !g.inner(divisor)) return near_miss(m, v.node, "is not softmax: its sum", read_elsewhere);
  value_id x = g.operand(e, 0);
  if (g.is<op::subtract>(x) && g.inner(x)) {
    const auto top = reduced_of<op::reduce_max>(g, g.operand(x, 1));
    if (top && top->x == g.operand(x, 0) && top->over == s->over) x = top->x;
  }
  m.values = {x};
  m.axis = s->axis;
  return true;
}

/// Rows, along any axes, divided by their standard deviation or root mean square.
struct normalized {
  value_id x{};
  unsigned over = 0;  // bits of axes
  double epsilon = 0;
  bool centered = false;
};
/// Why rows are not normalized as one operation does it.
struct normalized_miss {
  bool centered = false;
  std::string_view reason{};
};
// x, if v is x - mean(x) over these axes; else empty.
value_id centered_value(const pattern_graph& g, value_id v, unsigned over) {
  if (!g.is<op::subtract>(v)) return {};
  const auto mean = mean_of(g, g.operand(v, 1));
  return mean && mean->x == g.operand(v, 0) && mean->over == over ? mean->x : value_id{};
}
/// mean(u^2), or mean(x^2) - mean(x)^2 for u = x - mean(x), clamped at 0 or not.
struct variance {
  value_id of{}, mean{};
  unsigned over = 0;
  bool of_x = false;  // the second form: `of` is x
  bool inner = true;  // nothing else reads its parts
};
std::optional<variance> variance_of(const pattern_graph& g, value_id v) {
  if (const auto over = mean_of(g, v))
    if (const value_id u = power_base(g, over->x, 2)) return variance{u, v, over->over, false, g.inner(over->x)};
  if ((g.is<op::relu>(v) || (g.is<op::maximum>(v) && g.is_number(g.operand(v, 1), 0))) && g.inner(g.operand(v, 0)))
    v = g.operand(v, 0);
  if (!g.is<op::subtract>(v)) return {};
  const auto squares = mean_of(g, g.operand(v, 0));
  const value_id x = squares ? power_base(g, squares->x, 2) : value_id{},
                 mean = x ? power_base(g, g.operand(v, 1), 2) : value_id{};
  const auto center = mean ? mean_of(g, mean) : std::nullopt;
  if (!center || center->x != x || center->over != squares->over) return {};
  return variance{x, v, center->over, true,
                  g.inner(g.operand(v, 0)) && g.inner(squares->x) && g.inner(g.operand(v, 1))};
}
// numerator / sqrt(variance + epsilon), also as a product with the reciprocal. `why` receives a near miss.
std::optional<normalized> normalized_rows(const pattern_graph& g, value_id v, normalized_miss* why = nullptr) {
  value_id d{}, root{}, squared{};
  if (g.is<op::divide>(v)) d = g.operand(v, 0), root = g.operand(v, 1), squared = power_base(g, root, 0.5);
  else if (g.is<op::multiply>(v))
    for (std::size_t side : {0u, 1u})
      if (const value_id base = power_base(g, g.operand(v, side), -0.5))
        d = g.operand(v, 1 - side), root = g.operand(v, side), squared = base;
  if (!d || !squared || g.type(d) != g.type(v)) return {};
  const auto shift = shifted_value(g, squared);
  const value_id mean = shift ? shift->x : squared;
  const auto miss = [&](std::string_view reason) -> std::optional<normalized> {
    if (why) *why = {g.is<op::subtract>(d), reason};
    return {};
  };
  const auto is = variance_of(g, mean);
  if (!is) {
    if (g.is<op::reduce_mean>(mean) && power_base(g, g.operand(mean, 0), 2) == d)
      return miss("its mean of squares does not keep its axes");
    return {};
  }
  if (is->of_x ? centered_value(g, d, is->over) != is->of : is->of != d) {
    // The same x - mean(x), computed twice.
    const value_id x = is->of_x ? value_id{} : centered_value(g, d, is->over);
    if (!x || centered_value(g, is->of, is->over) != x) return {};
  }
  if (!shift) return miss("no number is added to its mean of squares");
  if (!(shift->by >= 0)) return miss("the number that is added to its mean of squares is below 0");
  if (!g.inner(root) || !g.inner(mean) || !g.inner(is->mean) || !is->inner)
    return miss("a part of it has another reader");
  if (const value_id x = centered_value(g, d, is->over)) return normalized{x, is->over, shift->by, true};
  return normalized{d, is->over, shift->by, false};
}
/// The permutation that moves the axes of rows to the end; empty if they are there already.
axes rows_last(unsigned over, int rank) {
  axes order;
  for (const unsigned in_rows : {0u, 1u})
    for (int i = 0; i < rank; ++i)
      if ((over >> i & 1u) == in_rows) order.values[order.count++] = i;
  for (int i = 0; i < rank; ++i)
    if (order[i] != i) return order;
  return {};
}
// Whether a weight or bias that broadcasts to x has one number per position of a row.
bool fits_rows(const pattern_graph& g, value_id weight, const normalized& n) {
  const shape &w = g.type(weight).dims, &x = g.type(n.x).dims;
  for (int i = 0; i < x.rank; ++i) {
    const int at = i - (x.rank - w.rank);
    if (at < 0 ? n.over >> i & 1u : w[at] != (n.over >> i & 1u ? x[i] : dim(1))) return false;
  }
  return w.rank <= x.rank;
}
// Role of an operand after the rows, in `pattern_match::same`.
enum operand_of_rows : char { weight_of_rows, bias_of_rows, factor, term };

bool take_rows(const pattern_graph& g, const normalized& n, std::optional<value_id> weight,
               std::optional<value_id> bias, pattern_match& m) {
  const int rank = g.type(n.x).dims.rank;
  m.values = {n.x};
  m.order = rows_last(n.over, rank);
  m.axis = std::popcount(n.over);
  m.number = n.epsilon;
  m.flag = n.centered;
  bool in_rows = true;  // all operands so far
  if (weight) {
    in_rows = fits_rows(g, *weight, n);
    m.values.push_back(*weight);
    m.same.push_back(in_rows ? weight_of_rows : factor);
  }
  if (bias) {
    m.values.push_back(*bias);
    m.same.push_back(weight && in_rows && fits_rows(g, *bias, n) ? bias_of_rows : term);
  }
  return true;
}
// 1 / sqrt(variance of x + epsilon) without other readers: rows of x, over the axes of its mean.
std::optional<normalized> rows_of_root(const pattern_graph& g, value_id root, const reduced& center) {
  const value_id squared = power_base(g, root, -0.5);
  const auto shift = squared ? shifted_value(g, squared) : std::nullopt;
  const auto is = shift && shift->by >= 0 ? variance_of(g, shift->x) : std::nullopt;
  if (!is || is->over != center.over || !g.inner(is->mean) || !is->inner) return {};
  if ((is->of_x ? is->of : centered_value(g, is->of, is->over)) != center.x) return {};
  return normalized{center.x, is->over, shift->by, true};
}
// x f + (bias - mean f) with f = weight / sqrt(variance + epsilon), as batch normalization is written, also without weight or bias.
bool match_rows_by_factor(const pattern_graph& g, value_id v, value_id scaled, value_id rest, pattern_match& m) {
  if (!g.is<op::multiply>(scaled) || !g.inner(scaled) || !g.inner(rest)) return false;
  std::optional<value_id> bias;
  value_id moved{};  // mean f
  if (g.is<op::subtract>(rest)) bias = g.operand(rest, 0), moved = g.operand(rest, 1);
  else if (g.is<op::negate>(rest)) moved = g.operand(rest, 0);
  if (!moved || !g.is<op::multiply>(moved) || !g.inner(moved)) return false;
  for (std::size_t side : {0u, 1u}) {
    const value_id x = g.operand(scaled, side), f = g.operand(scaled, 1 - side), mean = g.other_operand(moved, f);
    const auto center = mean ? mean_of(g, mean) : std::nullopt;
    if (!center || center->x != x || !g.inner(f, 2) || g.type(x) != g.type(v)) continue;
    if (const auto n = rows_of_root(g, f, *center)) return take_rows(g, *n, {}, bias, m);
    for (std::size_t root : {0u, 1u})
      if (g.is<op::multiply>(f) && g.inner(g.operand(f, root)))
        if (const auto n = rows_of_root(g, g.operand(f, root), *center))
          return take_rows(g, *n, g.operand(f, 1 - root), bias, m);
  }
  return false;
}
// The rows, then an optional weight and bias.
bool match_normalized(const pattern_graph& g, value_id v, bool centered, pattern_match& m) {
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
  if (centered && g.is<op::add>(v)) {
    for (std::size_t side : {0u, 1u})
      if (match_rows_by_factor(g, v, g.operand(v, side), g.operand(v, 1 - side), m)) return true;
    for (std::size_t side : {0u, 1u})
      if (g.inner(g.operand(v, side)))
        if (const auto n = weighted(g.operand(v, side), weight); n && fits_rows(g, g.operand(v, 1 - side), *n))
          return n->centered && take_rows(g, *n, weight, g.operand(v, 1 - side), m);
  }
  if (const auto n = weighted(v, weight)) return n->centered == centered && take_rows(g, *n, weight, {}, m);
  normalized_miss why;
  const auto n = normalized_rows(g, v, &why);
  if (!why.reason.empty() && why.centered == centered)
    return near_miss(m, v.node, "is not ", centered ? "layer_norm" : "rms_norm", ": ", why.reason);
  return n && n->centered == centered && take_rows(g, *n, {}, {}, m);
}
bool match_layer_norm(const pattern_graph& g, value_id v, pattern_match& m) { return match_normalized(g, v, true, m); }
bool match_rms_norm(const pattern_graph& g, value_id v, pattern_match& m) { return match_normalized(g, v, false, m); }

value make_softmax(const pattern_match& m, operands_of_match in) { return softmax(in[0], softmax_attributes{m.axis}); }
// Rows along other axes than the last are permuted to the end and back.
value make_normalized(const pattern_match& m, operands_of_match in) {
  const bool moves = m.order.count > 0;
  std::vector<value> rows{moves ? value(permute(in[0], m.order)) : in[0]};
  const shape& s = rows[0].shape();
  shape one_row;
  for (int i = s.rank - m.axis; i < s.rank; ++i) one_row.push_back(s[i]);
  std::size_t at = 1;
  for (; at < in.size() && m.same[at - 1] < factor; ++at) rows.push_back(reshape(in[at], one_row));
  const normalize_attributes a{m.axis, m.number};
  value y = m.flag ? apply_all<op::layer_norm>(a, rows)[0] : apply_all<op::rms_norm>(a, rows)[0];
  if (moves) {
    axes back = m.order;
    for (int i = 0; i < back.count; ++i) back.values[m.order[i]] = i;
    y = permute(y, back);
  }
  for (; at < in.size(); ++at) y = m.same[at - 1] == factor ? value(y * in[at]) : value(y + in[at]);
  return y;
}

constinit const pattern layer_norm_pattern{rewrite::layer_norm, match_layer_norm, make_normalized};
constinit const pattern rms_norm_pattern{rewrite::rms_norm, match_rms_norm, make_normalized};
constinit const pattern softmax_pattern{rewrite::softmax, match_softmax, make_softmax};

}  // namespace lamina::rewriting
