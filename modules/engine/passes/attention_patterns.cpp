// Decomposed attention, as exporters write it: with a scale, masks, transposed keys, and heads repeated for groups of
// queries.
module lamina:passes.attention_patterns;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.elementwise;
import :op.linear;
import :op.reduce;
import :op.shape;
import :op.tile;
import :op.view;
import :passes.pattern;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

// Removes multiplication by a number and multiplies `scale` by it; returns v if there is none.
value_id without_scale(const pattern_graph& g, value_id v, double& scale) {
  if (!g.inner(v)) return v;
  const factors f = factors_of(g, v);
  if (f.of.size() != 1 || f.of[0] == v || g.type(f.of[0]) != g.type(v)) return v;
  scale *= f.by;
  return f.of[0];
}
// Whether shapes differ only in how the axes before the last two are split or joined.
bool same_matrices(const shape& a, const shape& b) {
  return a.rank >= 2 && b.rank >= 2 && a[a.rank - 1] == b[b.rank - 1] && a[a.rank - 2] == b[b.rank - 2] &&
         a.is_static() && b.is_static() && a.size() == b.size();
}
// The operand of such a reshape that nothing else reads; else v.
value_id without_view(const pattern_graph& g, value_id v) {
  const bool view = g.is<op::reshape>(v) && g.inner(v) && same_matrices(g.type(v).dims, g.type(g.operand(v, 0)).dims);
  return view ? g.operand(v, 0) : v;
}
// Whether a value is a product of two values that are not parameters, followed by elementwise operations. Keys may be
// an input, such as a cache.
bool is_made_of_products(const pattern_graph& g, value_id v, int depth = 0) {
  if (g.is<op::matmul>(v)) {
    const node_kind keys = g.at(g.operand(v, 1)).kind;
    return keys == node_kind::operation || keys == node_kind::input;
  }
  if (depth > 6) return false;
  const auto is_made = [&](std::size_t i) { return is_made_of_products(g, g.operand(v, i), depth + 1); };
  if (g.is<op::where>(v)) return is_made(1) || is_made(2);
  if (g.is<op::reshape>(v) || g.is<op::divide>(v)) return is_made(0);
  const bool of_two = g.is<op::add>(v) || g.is<op::subtract>(v) || g.is<op::multiply>(v) || g.is<op::maximum>(v);
  return of_two && (is_made(0) || is_made(1));
}
/// Scores that a condition replaces by a number at some positions.
struct masked_scores {
  value_id scores{}, condition{};
  double number = 0;
  bool where_it_holds = false;
};
// Scores are assumed to be far above `largest_mask`, so that positions with a lower number instead have no weight. Only
// numbers below `swallows_scores` absorb any score added to them: then all weights are equal where every position is
// masked.
constexpr double largest_mask = -9999, swallows_scores = -1e30;
std::optional<masked_scores> masked_by_condition(const pattern_graph& g, value_id v) {
  if (!g.is<op::where>(v) || !g.inner(v)) return {};
  for (std::size_t side : {1u, 2u})
    if (const auto n = g.number(g.operand(v, 3 - side));
        n && *n <= largest_mask && g.type(g.operand(v, side)) == g.type(v))
      return masked_scores{g.operand(v, side), g.operand(v, 0), *n, side == 2};
  return {};
}
/// A product of queries and keys, and what is applied to it: a factor, added masks or a condition, reshapes of leading
/// axes.
struct peeled_scores {
  value_id product{};
  double scale = 1;
  bool scaled = false;
  std::vector<value_id> masks{};
  std::vector<shape> at{};  // shapes of the scores where each of them is added, the condition last
  std::optional<masked_scores> condition{};
  std::optional<double> least{};  // lower bound of scores with their masks
  shape form{};                   // shape of the scores with the most leading axes on the way
};
// The scores before a condition or lower bound; empty if there is none, or if attention could not reproduce it.
value_id without_condition(const pattern_graph& g, value_id v, peeled_scores& s) {
  if (s.scaled || s.condition) return {};
  const auto by = masked_by_condition(g, v);
  if (!by || (!s.masks.empty() && by->number > swallows_scores)) return {};
  s.condition = by;
  s.at.push_back(g.type(v).dims);
  return by->scores;
}
value_id without_least(const pattern_graph& g, value_id v, peeled_scores& s) {
  if (!g.is<op::maximum>(v) || s.scaled || s.condition || s.least || !s.masks.empty()) return {};
  const auto n = g.number(g.operand(v, 1));
  if (!n || *n > swallows_scores) return {};
  s.least = n;
  return g.operand(v, 0);
}
std::optional<peeled_scores> peeled(const pattern_graph& g, value_id v, peeled_scores s, int depth = 0) {
  if (!g.inner(v) || depth > 10) return {};
  const shape& dims = g.type(v).dims;
  if (dims.rank > s.form.rank) s.form = dims;
  const auto continue_with = [&](value_id x) { return peeled(g, x, std::move(s), depth + 1); };
  if (g.is<op::matmul>(v)) {
    s.product = v;
    return s;
  }
  if (const value_id x = without_view(g, v); x != v) return continue_with(x);
  if (const value_id x = without_condition(g, v, s)) return continue_with(x);
  if (const value_id x = without_least(g, v, s)) return continue_with(x);
  // A finite number that a condition puts in place of masked scores is not added to their mask.
  if (g.is<op::add>(v) && !s.scaled && !(s.condition && std::isfinite(s.condition->number)))
    for (std::size_t side : {0u, 1u}) {
      const value_id x = g.operand(v, side);
      if (g.type(x) != g.type(v) || !is_made_of_products(g, x)) continue;
      peeled_scores with = s;
      with.masks.push_back(g.operand(v, 1 - side));
      with.at.insert(with.at.end() - (s.condition ? 1 : 0), dims);
      if (auto all = peeled(g, x, std::move(with), depth + 1)) return all;
    }
  const value_id x = without_scale(g, v, s.scale);
  if (x == v) return {};
  s.scaled = true;
  return continue_with(x);
}
// Whether a mask for scores of shape `at` also fits the same scores of shape `form`: it has extent 1 where axes differ.
bool is_aligned(const shape& mask, const shape& at, const shape& form) {
  int alike = 0;
  while (alike < std::min(at.rank, form.rank) && at[at.rank - 1 - alike] == form[form.rank - 1 - alike]) ++alike;
  if (at == form) return true;
  for (int i = 0; i < mask.rank - alike; ++i)
    if (mask[i] != dim(1)) return false;
  return true;
}
// Why scores are not a product with a number and masks.
std::string_view why_no_scores(const pattern_graph& g, value_id scores) {
  constexpr std::string_view by_condition =
      "its scores are masked by `where`; expected a fill value up to -1e4 or an additive mask";
  value_id s = scores;
  for (int depth = 0; depth < 6; ++depth) {
    if (g.is<op::where>(s)) return by_condition;
    if (g.is<op::add>(s)) s = g.operand(s, is_made_of_products(g, g.operand(s, 0)) ? 0 : 1);
    else if (const value_id x = without_view(g, s); x != s) s = x;
    else break;
  }
  if (g.is<op::matmul>(s) || !g.inner(s)) return "its scores have another reader";
  if (g.is<op::multiply>(s) || g.is<op::divide>(s))
    return "its scale is not a number, or its scores have another reader";
  return "its scores are not a product with a scale and a mask";
}
/// Keys or values [..., heads, T, D] before each head is repeated for a group of queries; empty if none are repeated.
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
// A shape with the leading axes of `form`, if it has as many matrices; else the shape itself.
shape in_form(const shape& s, const shape& form) {
  if (s.rank == form.rank || s.rank < 2 || !s.is_static() || s.size(0, s.rank - 2) != form.size(0, form.rank - 2))
    return s;
  shape to = form;
  to[to.rank - 2] = s[s.rank - 2];
  to[to.rank - 1] = s[s.rank - 1];
  return to;
}
shape swapped_last(shape s) {
  std::swap(s[s.rank - 1], s[s.rank - 2]);
  return s;
}
// Whether attention accepts the operands of a match, with each of its masks, and yields the type of v.
bool gives_attention(const pattern_graph& g, value_id v, pattern_match& m) {
  std::vector<tensor_type> types;
  for (std::size_t i = 0; i < 3; ++i) {
    const tensor_type& t = g.type(m.values[i]);
    if (t.dims.rank < 2) return false;
    types.push_back({t.element, in_form(m.turned[i] ? swapped_last(t.dims) : t.dims, m.form)});
  }
  for (std::size_t i = 3; i < std::max<std::size_t>(m.values.size(), 4); ++i) {
    types.resize(3);
    if (i < m.values.size()) types.push_back({types[0].element, g.type(m.values[i]).dims});
    inference found;
    op::attention::infer({false, m.number}, view<const tensor_type>(types), found);
    if (!found.why.empty()) return near_miss(m, v.node, "is not attention: ", found.why.view());
    const shape to = m.turned[3] ? swapped_last(found.results[0].dims) : found.results[0].dims;
    if (found.results[0].element != g.type(v).element || (to != g.type(v).dims && !same_matrices(to, g.type(v).dims)))
      return false;
  }
  m.result = g.type(v).dims;
  return true;
}
// The softmax inside a `where` that replaces its NaN by 0; else v.
value_id without_guard(const pattern_graph& g, value_id v) {
  if (!g.is<op::where>(v) || !g.inner(v) || !g.is_number(g.operand(v, 1), 0)) return v;
  const value_id condition = g.operand(v, 0), x = g.operand(v, 2);
  return g.is<op::not_equal>(condition) && g.inner(condition) && g.operand(condition, 0) == x &&
                 g.operand(condition, 1) == x && g.inner(x, 3)
             ? x
             : v;
}
/// A product of softmax weights and values: as it is, or both transposed.
struct weighted_values {
  value_id weights{}, values{};
  bool transposed = false, values_transposed = false;
};
std::optional<weighted_values> weighted_values_of(const pattern_graph& g, value_id v) {
  const auto& outer = g.at(v).attributes_as<matmul_attributes>();
  for (std::size_t side : {0u, 1u}) {
    const value_id w = without_guard(g, without_view(g, g.operand(v, side)));
    if (!g.is<op::softmax>(w) || !is_made_of_products(g, g.operand(w, 0))) continue;
    const bool plain = side == 0 ? !outer.transpose_a : outer.transpose_b;
    if (!plain) continue;
    return weighted_values{w, g.operand(v, 1 - side), side == 1, side == 0 ? outer.transpose_b : !outer.transpose_a};
  }
  return {};
}
// softmax(scale q k^T + masks) v, also with a condition as a mask.
bool match_attention(const pattern_graph& g, value_id v, pattern_match& m) {
  if (!g.is<op::matmul>(v)) return false;
  const auto outer = weighted_values_of(g, v);
  if (!outer) return false;
  const value_id weights = outer->weights, scores = g.operand(weights, 0);
  const int rank = g.type(weights).dims.rank;
  const auto miss = [&](const auto&... reason) { return near_miss(m, v.node, "is not attention: ", reason...); };
  const bool guarded =
      !g.inner(weights) && without_guard(g, without_view(g, g.operand(v, outer->transposed))) == weights;
  if (!g.inner(weights) && !(guarded && g.inner(weights, 3))) return miss("its softmax", read_elsewhere);
  if (detail::normal_axis(g.at(weights).attributes_as<softmax_attributes>().axis, rank) != rank - 1)
    return miss("its softmax is not along the last axis");
  if (!g.inner(scores)) return miss("the operand of its softmax", read_elsewhere);
  const auto s = peeled(g, scores, {.form = g.type(scores).dims});
  if (!s) return miss(why_no_scores(g, scores));
  m.number = s->scale;
  const auto& inside = g.at(s->product).attributes_as<matmul_attributes>();
  m.compute = inside.compute;
  if (g.at(v).attributes_as<matmul_attributes>().compute != m.compute)
    return miss("its products round their operands to ", m.compute, " and ",
                g.at(v).attributes_as<matmul_attributes>().compute);
  // The operand before a reshape, if it has the rank of the scores there.
  const auto in_its_form = [&](value_id x) {
    const value_id whole = without_view(g, x);
    return g.type(whole).dims.rank == s->form.rank ? whole : x;
  };
  const auto factor = [&](std::size_t i) {
    return without_scale(g, in_its_form(without_scale(g, g.operand(s->product, i), m.number)), m.number);
  };
  const value_id q = factor(0);
  value_id k = factor(1), values = in_its_form(outer->values);
  if (!(m.number > 0) || !std::isfinite(m.number)) return miss("its scale is ", m.number, "; expected one above 0");
  if (const value_id few = of_fewer_heads(g, k), few_values = of_fewer_heads(g, values); few && few_values)
    k = few, values = few_values;
  m.values = {q, k, values};
  m.values.insert(m.values.end(), s->masks.begin(), s->masks.end());
  if (s->condition) {
    m.values.push_back(s->condition->condition);
    const double number = std::min(s->condition->number, swallows_scores);
    m.kept = s->condition->where_it_holds ? number : 0;
    m.masked = s->condition->where_it_holds ? 0 : number;
  }
  for (std::size_t i = 3; i < m.values.size(); ++i)
    if (!is_aligned(g.type(m.values[i]).dims, s->at[i - 3], s->form))
      return miss("a mask is added to other axes of its scores than those that are multiplied");
  m.least = s->least;
  m.form = s->form;
  m.turned[0] = inside.transpose_a;
  m.turned[1] = !inside.transpose_b;
  m.turned[2] = outer->values_transposed;
  m.turned[3] = outer->transposed;
  return gives_attention(g, v, m);
}

// A value with its last two axes swapped: composes with an earlier permutation, or adds one.
value with_axes_swapped(const value& v) {
  const node& n = v.owner().at(v.id());
  const int rank = v.shape().rank;
  axes order;
  for (int i = 0; i < rank; ++i) order.values[order.count++] = i < rank - 2 ? i : i == rank - 2 ? rank - 1 : rank - 2;
  if (!is_call_of<op::permute>(n)) {
    const value of = is_call_of<op::reshape>(n) ? value(&v.owner(), n.inputs[0]) : v;
    if (is_call_of<op::permute>(v.owner().at(of.id())) && same_matrices(of.shape(), v.shape()) && of.shape().rank == 3)
      return reshape(with_axes_swapped(of), swapped_last(v.shape()));
    return permute(v, order);
  }
  const auto& first = n.attributes_as<permute_attributes>().order;  // one permutation for both
  bool same = true;
  for (int i = 0; i < rank; ++i) {
    order.values[i] = detail::normal_axis(first[order[i]], rank);
    same = same && order[i] == i;
  }
  const value from(&v.owner(), n.inputs[0]);
  return same ? from : value(permute(from, order));
}
value make_attention(const pattern_match& m, operands_of_match in) {
  program& p = in[0].owner();
  const auto number = [&](double n) { return value_or_number(n).in(p, in[0].type().element, op::attention::name); };
  std::vector<value> all;
  for (std::size_t i = 0; i < 3; ++i) {
    const value x = m.turned[i] ? with_axes_swapped(in[i]) : in[i];
    const shape to = in_form(x.shape(), m.form);
    all.push_back(to == x.shape() ? x : value(reshape(x, to)));
  }
  value mask;
  for (std::size_t i = 3; i < in.size(); ++i) {
    const bool by_condition = m.masked && i + 1 == in.size();
    const value one = by_condition ? value(where(in[i], number(*m.kept), number(*m.masked))) : in[i];
    mask = mask.empty() ? one : value(mask + one);
  }
  if (!mask.empty()) all.push_back(m.least ? value(max(mask, number(*m.least))) : mask);
  const value made = apply_all<op::attention>(attention_attributes{false, m.number, m.compute}, all),
              turned = m.turned[3] ? with_axes_swapped(made) : made;
  return turned.shape() == m.result ? turned : value(reshape(turned, m.result));
}

// Heads [..., heads, rows, columns] that are a position of an axis of a permuted value, whose other axes keep their order
// but for rows and heads: as the position of `axis` of the value before, with the permutation `swap`.
struct position_of_heads {
  value_id of;
  int axis;
  std::int64_t position;
  axes swap{};
};
std::optional<position_of_heads> position_of(const program& p, value_id v) {
  const auto last_three = [&](value_id x) {
    const shape& s = p.type(x).dims;
    return s.rank < 3 ? std::array<dim, 3>{} : std::array{s[s.rank - 3], s[s.rank - 2], s[s.rank - 1]};
  };
  const auto heads = last_three(v);
  while (p.at(v).op && p.at(v).op->alias == 0 && last_three(p.at(v).inputs[0]) == heads) v = p.at(v).inputs[0];
  const node& part = p.at(v);
  if (!part.op || !part.op->part_of) return {};
  const node& moved = p.at(part.inputs[0]);
  const shape& whole = p.type(part.inputs[0]).dims;
  const auto at = part.op->part_of(part.attributes.get(), whole);
  if (!is_call_of<op::permute>(moved) || !at || at->count != 1 || at->axis > whole.rank - 4) return {};
  const auto& order = moved.attributes_as<permute_attributes>().order;
  position_of_heads found{moved.inputs[0], detail::normal_axis(order[at->axis], whole.rank), at->first};
  const int last = whole.rank - 2;
  for (int i = 0; i < whole.rank; ++i) {
    if (i == at->axis) continue;
    const int from = detail::normal_axis(order[i], whole.rank), k = found.swap.count;
    found.swap.values[found.swap.count++] = from - (from > found.axis ? 1 : 0);
    if (found.swap.values[k] != (k == last - 2 ? last - 1 : k == last - 1 ? last - 2 : k)) return {};
  }
  return found;
}
// Operations that take rows first, such as attention, read such heads where they are.
bool match_part_of_heads(const pattern_graph& g, value_id v, pattern_match& m) {
  const node& n = g.at(v);
  const auto count = std::min(n.inputs.size(), static_cast<std::size_t>(n.op->rows_first));
  m.node = v.node;
  m.values = n.inputs;
  return std::any_of(n.inputs.begin(), n.inputs.begin() + static_cast<std::ptrdiff_t>(count),
                     [&](value_id x) { return position_of(g.p, x).has_value(); });
}
value make_part_of_heads(const pattern_match& m, operands_of_match in) {
  program& p = in[0].owner();
  const node& n = m.from->at(m.node);
  std::vector<value> operands(in.begin(), in.end());
  for (std::size_t k = 0; k < std::min(in.size(), static_cast<std::size_t>(n.op->rows_first)); ++k)
    if (const auto heads = position_of(p, in[k].id())) {
      const value swapped = permute(select(value(&p, heads->of), heads->axis, heads->position), heads->swap);
      operands[k] = swapped.shape() == in[k].shape() ? swapped : value(reshape(swapped, in[k].shape()));
    }
  return {&p, p.add(*n.op, n.attributes, operands)};
}

constinit const pattern part_of_heads_pattern{rewrite::part_of_heads, match_part_of_heads, make_part_of_heads};

constinit const pattern attention_pattern{rewrite::attention, match_attention, make_attention};

}  // namespace lamina::rewriting
