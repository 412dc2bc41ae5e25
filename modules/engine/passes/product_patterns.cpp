// Products along an axis that is not the last one, which exporters write as a product between two permutations: the
// heads of attention scores that are mixed, as in talking-heads attention (Shazeer et al. 2020, arXiv:2003.02436).
module lamina:passes.product_patterns;
import :core;
import :op;
import :op.elementwise;
import :op.linear;
import :op.shape;
import :passes.pattern;
import :program;
import :shape;
import lamina.std;

namespace lamina::rewriting {

// The axis that a permutation moves to the end, or the last axis back to its place; -1 for other permutations.
int moved_axis(const pattern_graph& g, value_id v, bool to_end) {
  if (!g.is<op::permute>(v)) return -1;
  const auto& order = g.at(v).attributes_as<permute_attributes>().order;
  const int rank = order.count;
  const auto at = [&](int i) { return detail::normal_axis(order[i], rank); };
  int axis = 0;
  while (axis < rank && at(axis) == axis) ++axis;
  if (axis >= rank - 1) return -1;
  for (int i = axis; i < rank; ++i) {
    const int expected = to_end ? (i == rank - 1 ? axis : i + 1) : i == axis ? rank - 1 : i - 1;
    if (at(i) != expected) return -1;
  }
  return axis;
}

// A product with a small matrix along an inner axis of x. Larger matrices stay: their product takes most of the time,
// and is faster with packed weights.
bool match_product_of_axis(const pattern_graph& g, value_id v, pattern_match& m) {
  constexpr std::int64_t max_extent = 64, min_row = 64;
  const int axis = moved_axis(g, v, false);
  if (axis < 0 || !g.type(v).dims.is_static()) return false;
  value_id y = g.operand(v, 0), bias{};
  if (g.is<op::add>(y) && g.inner(y)) {
    const std::size_t side = g.is<op::matmul>(g.operand(y, 0)) ? 0 : 1;
    bias = g.operand(y, 1 - side);
    y = g.operand(y, side);
  }
  if (!g.is<op::matmul>(y) || !g.inner(y)) return false;
  const auto& a = g.at(y).attributes_as<matmul_attributes>();
  const value_id w = g.operand(y, 1);
  value_id x = g.operand(y, 0);
  if (a.transpose_a) {
    if (axis != g.type(x).dims.rank - 2) return false;
  } else {
    if (moved_axis(g, x, true) != axis || !g.inner(x)) return false;
    x = g.operand(x, 0);
  }
  if (g.type(w).dims.rank != 2) return false;
  const shape &from = g.type(x).dims, &to = g.type(v).dims;
  const std::int64_t row = from.size(axis + 1, from.rank), results = to.at(axis);
  if (from.rank != to.rank || from.size() == 0 || to.size() == 0 || from.at(axis) > max_extent ||
      results > max_extent || row < min_row)
    return false;
  if (bias) {
    const shape& b = g.type(bias).dims;
    if (b.rank < 1 || b.size() != results || b.at(b.rank - 1) != results) return false;
  }
  m.values = {x, w};
  if (bias) m.values.push_back(bias);
  m.axis = axis;
  m.flag = a.transpose_b;
  m.compute = a.compute;
  m.result = to;
  return true;
}
value make_product_of_axis(const pattern_match& m, operands_of_match in) {
  const shape& x = in[0].shape();
  const std::int64_t outer = x.size(0, m.axis), row = x.size(m.axis + 1, x.rank);
  shape rows{x[m.axis], dim(row)};
  if (outer != 1) rows = {dim(outer), x[m.axis], dim(row)};
  value y = matmul(in[1], reshape(in[0], rows), {.transpose_a = !m.flag, .compute = m.compute});
  if (in.size() == 3) y = y + reshape(in[2], {m.result[m.axis], dim(1)});
  return reshape(y, m.result);
}

constinit const pattern product_of_axis_pattern{rewrite::product_of_axis, match_product_of_axis, make_product_of_axis};

}  // namespace lamina::rewriting
