// Decomposed rotary embeddings, as exporters write them: x cosines + rotated(x) sines, pairs in halves or interleaved.
module lamina:passes.rotary_patterns;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.elementwise;
import :op.shape;
import :op.tile;
import :op.view;
import :passes.pattern;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

/// A slice of the last axis of a value.
struct last_axis_part {
  value_id x{};
  std::int64_t start = 0, count = 0, step = 1;
};
std::optional<last_axis_part> part_of_last_axis(const pattern_graph& g, value_id v) {
  if (!g.is<op::slice>(v)) return {};
  const auto& a = g.at(v).attributes_as<slice_attributes>();
  const shape &x = g.type(g.operand(v, 0)).dims, &part = g.type(v).dims;
  if (detail::normal_axis(a.axis, x.rank) != x.rank - 1 || !x.is_static()) return {};
  const std::int64_t extent = x.back().code,
                     start = a.start < 0 ? std::max<std::int64_t>(a.start + extent, 0) : a.start;
  return last_axis_part{g.operand(v, 0), start, part.back().code, a.step};
}
/// The slice of x's last axis that holds the first or the second numbers of pairs: a half, or every other number.
std::optional<last_axis_part> pair_part(const pattern_graph& g, value_id v, bool second, bool interleaved) {
  const auto p = part_of_last_axis(g, v);
  if (!p || 2 * p->count != g.type(p->x).dims.back().code) return {};
  const std::int64_t start = second ? (interleaved ? 1 : p->count) : 0;
  return p->start == start && (p->step == (interleaved ? 2 : 1) || p->count == 1) ? p : std::nullopt;
}
/// Two operands that are joined along the last axis: as halves, or interleaved.
struct concatenated_pair {
  value_id first{}, second{};
  bool interleaved = false;
};
std::optional<concatenated_pair> concatenated_of(const pattern_graph& g, value_id v) {
  const auto of_last_axis = [&](value_id c) {
    return g.is<op::concat>(c) && g.at(c).inputs.size() == 2 &&
           detail::normal_axis(g.at(c).attributes_as<axis_attributes>().axis, g.type(c).dims.rank) ==
               g.type(c).dims.rank - 1;
  };
  if (of_last_axis(v)) return concatenated_pair{g.operand(v, 0), g.operand(v, 1), false};
  const shape& whole = g.type(v).dims;
  if (!g.is<op::reshape>(v) || !of_last_axis(g.operand(v, 0)) || !g.inner(g.operand(v, 0))) return {};
  const value_id pairs = g.operand(v, 0);
  if (g.type(pairs).dims.back() != dim(2) || g.type(pairs).dims.rank != whole.rank + 1) return {};
  for (int i = 0; i < whole.rank - 1; ++i)
    if (g.type(pairs).dims[i] != whole[i]) return {};
  value_id of[2];
  for (std::size_t i : {0u, 1u}) {  // each with a trailing axis of extent 1
    const value_id one = g.operand(pairs, i);
    if (!(g.is<op::reshape>(one) || g.is<op::unsqueeze>(one)) || !g.inner(one)) return {};
    of[i] = g.operand(one, 0);
    if (g.type(of[i]).dims.rank != whole.rank || g.type(one).dims.back() != dim(1)) return {};
  }
  return concatenated_pair{of[0], of[1], true};
}
value_id negated(const pattern_graph& g, value_id v) {
  const factors f = factors_of(g, v);
  return f.of.size() == 1 && f.by == -1 ? f.of[0] : value_id{};
}
// x, if v is x with its pairs (a, b) as (-b, a); else empty.
value_id turned_value(const pattern_graph& g, value_id v, bool& interleaved) {
  const auto both = concatenated_of(g, v);
  if (!both || !g.inner(both->first)) return {};
  const value_id minus = negated(g, both->first);
  const auto b = minus ? pair_part(g, minus, true, both->interleaved) : std::nullopt,
             a = pair_part(g, both->second, false, both->interleaved);
  interleaved = both->interleaved;
  return a && b && a->x == b->x ? a->x : value_id{};
}
// Whether rotary_embedding accepts the operands of a match.
bool takes_tables(const pattern_graph& g, value_id v, const tensor_type& table, pattern_match& m) {
  const tensor_type in[] = {g.type(m.values[0]), table, table};
  inference found;
  op::rotary_embedding::infer({m.flag}, in, found);
  if (!found.why.empty()) return near_miss(m, v.node, "is not rotary_embedding: ", found.why.view());
  return found.results[0] == g.type(v);
}
// x cos + rotated(x) sin.
bool match_rotary_sum(const pattern_graph& g, value_id v, pattern_match& m) {
  for (std::size_t side : {0u, 1u}) {
    const value_id straight = g.operand(v, side), across = g.operand(v, 1 - side);
    if (!g.is<op::multiply>(straight) || !g.is<op::multiply>(across) || !g.inner(straight) || !g.inner(across))
      continue;
    for (std::size_t at : {0u, 1u}) {
      const value_id turned = g.operand(across, at), sine = g.operand(across, 1 - at);
      const value_id x = turned_value(g, turned, m.flag), cosine = x ? g.other_operand(straight, x) : value_id{};
      if (!x) continue;
      const auto miss = [&](std::string_view why) { return near_miss(m, v.node, "is not rotary_embedding: ", why); };
      if (!cosine) return miss("the term added to the rotated pairs uses another value");
      if (!g.inner(turned)) return miss("its rotated pairs have another reader");
      if (g.type(cosine) != g.type(sine)) return miss("its cosines and sines differ in shape");
      m.values = {x, cosine, sine};
      m.axis = 1;
      return takes_tables(g, v, g.type(cosine), m);
    }
  }
  return false;
}
// The other factor of a product that has the factor `a`; else empty.
value_id other_factor(const pattern_graph& g, value_id product, value_id a) {
  return g.is<op::multiply>(product) && g.inner(product) ? g.other_operand(product, a) : value_id{};
}
// (a cos - b sin, b cos + a sin), with tables of half the depth.
bool match_rotary_halves(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto both = concatenated_of(g, v);
  if (!both || !g.is<op::subtract>(both->first) || !g.is<op::add>(both->second) || !g.inner(both->first) ||
      !g.inner(both->second))
    return false;
  const value_id straight = g.operand(both->first, 0), across = g.operand(both->first, 1);
  if (!g.is<op::multiply>(straight) || !g.is<op::multiply>(across)) return false;
  for (std::size_t i = 0; i < 4; ++i) {
    const value_id a = g.operand(straight, i / 2), b = g.operand(across, i % 2);
    const auto first = pair_part(g, a, false, both->interleaved), second = pair_part(g, b, true, both->interleaved);
    if (!first || !second || first->x != second->x || g.type(first->x) != g.type(v)) continue;
    const value_id cosine = other_factor(g, straight, a), sine = other_factor(g, across, b);
    if (!cosine || !sine || g.type(cosine) != g.type(sine)) continue;
    for (std::size_t side : {0u, 1u})
      if (other_factor(g, g.operand(both->second, side), b) == cosine &&
          other_factor(g, g.operand(both->second, 1 - side), a) == sine) {
        m.values = {first->x, cosine, sine};
        m.flag = both->interleaved;
        m.axis = 0;
        tensor_type table = g.type(cosine);
        if (table.dims.rank < 1 || table.dims.back() != dim(first->count)) return false;
        table.dims[table.dims.rank - 1] = dim(2 * first->count);
        return takes_tables(g, v, table, m);
      }
  }
  return false;
}
bool match_rotary(const pattern_graph& g, value_id v, pattern_match& m) {
  return g.is<op::add>(v) ? match_rotary_sum(g, v, m) : match_rotary_halves(g, v, m);
}

// Expands a table with one number per pair to one number per element.
value whole_table(const value& half, bool interleaved) {
  const int rank = half.shape().rank;
  const value twice[] = {interleaved ? value(unsqueeze(half, axes(rank))) : half,
                         interleaved ? value(unsqueeze(half, axes(rank))) : half};
  const value joined = concat(view<const value>(twice), interleaved ? rank : rank - 1);
  if (!interleaved) return joined;
  shape s = half.shape();
  s[rank - 1] = dim(2 * s.at(rank - 1));
  return reshape(joined, s);
}
value make_rotary(const pattern_match& m, operands_of_match in) {
  const auto table = [&](std::size_t i) { return m.axis ? in[i] : whole_table(in[i], m.flag); };
  return rotary_embedding(in[0], table(1), table(2), {m.flag});
}

constinit const pattern rotary_embedding_pattern{rewrite::rotary_embedding, match_rotary, make_rotary};

}  // namespace lamina::rewriting
