// Attention that exporters take apart: with a scale, masks, transposed keys, and heads repeated for groups of queries.
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

}  // namespace lamina::rewriting
