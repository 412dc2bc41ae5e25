// Channel shuffles, which exporters write as reshape, permute and reshape, with a concatenation before and slices
// after.
module lamina:passes.channel_patterns;
import :core;
import :dtype;
import :op;
import :op.channels;
import :op.shape;
import :op.view;
import :passes.pattern;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

/// Whether a value is a permutation of axes by `order`.
bool permutes(const pattern_graph& g, value_id v, std::initializer_list<int> order) {
  if (!g.is<op::permute>(v)) return false;
  const auto& is = g.at(v).attributes_as<permute_attributes>().order;
  if (is.count != static_cast<int>(order.size())) return false;
  int i = 0;
  for (int axis : order)
    if (detail::normal_axis(is[i++], is.count) != axis) return false;
  return true;
}

// Operands of a shuffle: the value, or those of a concatenation of channels that nothing else reads.
void shuffled_values(const pattern_graph& g, value_id x, pattern_match& m) {
  const bool joined = g.is<op::concat>(x) && g.inner(x) &&
                      detail::normal_axis(g.at(x).attributes_as<axis_attributes>().axis, g.type(x).dims.rank) == 1;
  if (joined) m.values = g.at(x).inputs;
  else m.values = {x};
}

// [N, C, H, W] as [N, groups, C / groups, H, W], permuted to [N, C / groups, groups, H, W].
bool match_shuffle(const pattern_graph& g, value_id v, pattern_match& m) {
  const value_id turned = g.operand(v, 0);
  if (!permutes(g, turned, {0, 2, 1, 3, 4}) || !g.inner(turned)) return false;
  const value_id parts = g.operand(turned, 0);
  if (!g.is<op::reshape>(parts)) return false;
  const value_id x = g.operand(parts, 0);
  const shape &s = g.type(x).dims, &p = g.type(parts).dims;
  if (s.rank != 4 || g.type(v).dims != s || p[0] != s[0] || p[3] != s[2] || p[4] != s[3] || p.size(1, 3) != s.at(1) ||
      s.size() == 0)
    return false;
  m.shuffled = {.groups = p.at(1)};
  shuffled_values(g, x, m);
  return true;
}

// [N, C, H, W] as [N C / 2, 2, H W], permuted and split: one part [N, C / 2, H, W] has the even channels, one the odd
// ones.
bool match_alternating(const pattern_graph& g, value_id v, const axis_view& part, pattern_match& m) {
  const value_id whole = g.operand(v, 0);
  if (!g.is<op::reshape>(whole) || part.axis != 0 || part.count != 1) return false;
  const value_id turned = g.operand(whole, 0);
  if (!permutes(g, turned, {1, 0, 2}) || !g.is<op::reshape>(g.operand(turned, 0))) return false;
  const value_id pairs = g.operand(turned, 0), x = g.operand(pairs, 0);
  const shape &s = g.type(x).dims, &p = g.type(pairs).dims, &y = g.type(v).dims;
  if (s.rank != 4 || y.rank != 4 || p[1] != dim(2) || y[0] != s[0] || y.at(1) * 2 != s.at(1) || y[2] != s[2] ||
      y[3] != s[3] || p.at(2) != s.size(2, 4) || g.type(whole).dims[0] != dim(2))
    return false;
  m.shuffled = {.groups = y.at(1), .start = part.first * y.at(1), .count = y.at(1)};
  m.values = {x};
  return true;
}

bool match_channel_shuffle(const pattern_graph& g, value_id v, pattern_match& m) {
  const node& n = g.at(v);
  if (g.is<op::reshape>(v)) return match_shuffle(g, v, m);
  if (!n.op->part_of) return false;
  const value_id of = n.inputs[0];
  const auto part = n.op->part_of(n.attributes.get(), g.type(of).dims);
  if (!part) return false;
  if (!g.is<op::channel_shuffle>(of)) return match_alternating(g, v, *part, m);
  if (part->axis != 1 || g.at(of).attributes_as<channel_shuffle_attributes>().inverse ||
      g.type(v).dims.rank != g.type(of).dims.rank)
    return false;
  m.shuffled = g.at(of).attributes_as<channel_shuffle_attributes>();
  m.shuffled.start += part->first;
  m.shuffled.count = part->count;
  m.values = g.at(of).inputs;
  return true;
}
value make_channel_shuffle(const pattern_match& m, operands_of_match in) { return channel_shuffle(in, m.shuffled); }

constinit const pattern channel_shuffle_pattern{rewrite::channel_shuffle, match_channel_shuffle, make_channel_shuffle};

}  // namespace lamina::rewriting
