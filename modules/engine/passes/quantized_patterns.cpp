// Patterns of quantized nets as exporters write them: dequantize, an operation, quantize become one operation on int8.
// They are matched before constants are folded, while the operations that compute a weight are visible.
module lamina:passes.quantized_patterns;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.linear;
import :op.nn;
import :op.quantized;
import :op.shape;
import :op.tile;
import :op.view;
import :passes;
import :passes.pattern;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

// ---- matched values -------------------------------------------------------------------------------------------------

/// An int8 value with its scale and zero point.
struct int8_value {
  value_id q{}, scale{}, zero_point{};
  int axis = 0;
  std::int64_t bits = 8;
};
std::optional<int8_value> int8_source(const pattern_graph& g, value_id v) {
  if (!g.is<op::dequantize>(v)) return {};
  const auto& a = g.at(v).attributes_as<quantize_attributes>();
  return int8_value{g.operand(v, 0), g.operand(v, 1), g.operand(v, 2), static_cast<int>(a.axis), a.bits};
}
bool is_one(const pattern_graph& g, value_id v) { return g.type(v).dims.rank == 0; }
std::optional<int8_value> scalar_int8_source(const pattern_graph& g, value_id v) {
  auto x = int8_source(g, v);
  return x && is_one(g, x->scale) ? x : std::nullopt;
}
bool same_number(const pattern_graph& g, value_id a, value_id b) {
  if (a == b) return true;
  const auto x = g.number(a), y = g.number(b);
  return x && y && *x == *y;
}

/// How a result becomes int8: the value before bounds, and the bounds in int8.
struct int8_ending {
  value_id x{}, scale{}, zero_point{};
  std::int64_t low = -128, high = 127;
  bool bounded() const { return low != -128 || high != 127; }
};
std::optional<int8_ending> ending_of(const pattern_graph& g, value_id v) {
  if (!g.is<op::quantize>(v) || !is_one(g, g.operand(v, 1))) return {};
  int8_ending e{g.operand(v, 0), g.operand(v, 1), g.operand(v, 2)};
  const auto scale = g.number(e.scale), zero_point = g.number(e.zero_point);
  while (g.inner(e.x) && g.at(e.x).kind == node_kind::operation) {
    const auto bounds = g.p.bounds_of(g.at(e.x));
    if (!bounds || !scale || !zero_point || !(*scale > 0)) break;
    const auto in_int8 = [&](double b) {
      return static_cast<std::int64_t>(std::clamp(std::nearbyint(b / *scale) + *zero_point, -128.0, 127.0));
    };
    const std::int64_t low = std::max(e.low, in_int8(bounds->low)), high = std::min(e.high, in_int8(bounds->high));
    if (low > high) break;
    e.low = low, e.high = high;
    e.x = g.operand(e.x, 0);
  }
  return e;
}

/// Whether a value depends on constants and states alone; false beyond a depth of 12.
bool parameter_only(const pattern_graph& g, value_id v, int depth = 0) {
  const node& n = g.at(v);
  if (n.kind == node_kind::constant || n.kind == node_kind::state) return true;
  if (n.kind == node_kind::input || depth > 12 || !n.op->pure || n.op->host) return false;
  return std::all_of(n.inputs.begin(), n.inputs.end(), [&](value_id i) { return parameter_only(g, i, depth + 1); });
}

// Weights that are sums of two int8 values: the halves of one tensor along axis 1.
std::optional<int8_value> summed_int8_source(const pattern_graph& g, value_id v) {
  if (!g.is<op::add>(v)) return {};
  const auto a = int8_source(g, g.operand(v, 0)), b = int8_source(g, g.operand(v, 1));
  if (!a || !b || a->axis != b->axis || a->scale != b->scale || !g.is_number(a->zero_point, 0) ||
      !g.is_number(b->zero_point, 0) || !g.is<op::slice>(a->q) || !g.is<op::slice>(b->q))
    return {};
  const value_id whole = g.operand(a->q, 0);
  const shape &all = g.type(whole).dims, &half = g.type(a->q).dims;
  if (g.operand(b->q, 0) != whole || all.rank != 4 || !all.is_static() || !half.is_static() ||
      2 * half.at(1) != all.at(1))
    return {};
  const auto part = [&](value_id s, std::int64_t first) {
    const auto view = op::slice::part_of(g.at(s).attributes_as<slice_attributes>(), all);
    return view && view->axis == 1 && view->first == first && view->count == half.at(1);
  };
  if (!part(a->q, 0) || !part(b->q, half.at(1))) return {};
  return int8_value{whole, a->scale, a->zero_point, a->axis};
}

/// A product of an int8 value and int8 weights, and its bias.
struct int8_product {
  value_id product{}, bias{}, matrix{};  // matrix: the weights, if not operand 1
  int8_value x{}, w{};
};
// The product that `v` is, or that `v` adds a bias to.
template <Operation Op> int8_product product_of(const pattern_graph& g, value_id v) {
  int8_product p;
  if (g.is<Op>(v)) p.product = v;
  else if (g.at(v).kind == node_kind::operation && g.at(v).op->adds && g.inner(v))
    for (std::size_t side : {0u, 1u})
      if (!p.product && g.is<Op>(g.operand(v, side)) && parameter_only(g, g.operand(v, 1 - side)))
        p.product = g.operand(v, side), p.bias = g.operand(v, 1 - side);
  return p;
}
// Whether a bias has one number, or one per channel (axis `axis` of y).
bool is_bias(const pattern_graph& g, value_id bias, const shape& y, int axis) {
  const shape& b = g.type(bias).dims;
  if (b.rank > y.rank || g.type(bias).element != dtype::float32) return false;
  for (int i = 0; i < b.rank; ++i)
    if (b[i] != dim(1) && (i + y.rank - b.rank != axis || b[i] != y[axis])) return false;
  return true;
}
/// Records why a product of int8 values stays in float; returns false.
template <class... T> bool refused(pattern_match& m, const T&... parts) {
  return near_miss(m, m.node, "stays in float: ", parts...);
}

// Reads the operands of a product whose channels are axis `w_axis` of the weights and axis `axis` of the result.
bool read_operands(const pattern_graph& g, int8_product& p, int w_axis, int axis, bool any_zero_point,
                   pattern_match& m) {
  m.node = p.product.node;
  const value_id weights = p.matrix ? p.matrix : g.operand(p.product, 1);
  const auto x = int8_source(g, g.operand(p.product, 0));
  auto w = int8_source(g, weights);
  if (!w) w = summed_int8_source(g, weights);
  if (!x && !w) return false;
  if (!x) return refused(m, "its first operand is of ", g.type(g.operand(p.product, 0)).element);
  if (!w) return refused(m, "its weights are of ", g.type(g.operand(p.product, 1)).element);
  if (!is_one(g, x->scale)) return refused(m, "its first operand has one scale per position of an axis");
  const shape &ws = g.type(w->q).dims, &y = g.type(p.product).dims;
  if (!ws.is_static()) return refused(m, "the extents of its weights are not known");
  if (!is_one(g, w->scale) && detail::normal_axis(w->axis, ws.rank) != w_axis)
    return refused(m, "its weights have scales along axis ", w->axis, ", and their channels are axis ", w_axis);
  if (!any_zero_point && !g.is_number(w->zero_point, 0)) return refused(m, "the zero points of its weights are not 0");
  if (p.bias && !is_bias(g, p.bias, y, axis))
    return refused(m, "the added ", g.type(p.bias), " is not a bias of its channels");
  p.x = *x, p.w = *w;
  // Depthwise filters that are sums of two int8 values: two products per channel are slower than float32.
  if (!g.is<op::dequantize>(weights) && ws.rank == 4 && ws.at(1) == 2 &&
      g.at(p.product).attributes_as<conv2d_attributes>().groups > 1)
    return refused(m, "the zero points of its weights, one filter for each channel, are not 0");
  return true;
}

// ---- products -------------------------------------------------------------------------------------------------------

// Operands: x, its scale and zero point, weights, their scales, scale and zero point of the result, bias.
void take_product(const int8_product& p, const int8_ending& e, pattern_match& m) {
  m.values = {p.x.q, p.x.scale, p.x.zero_point, p.w.q, p.w.scale, e.scale, e.zero_point};
  if (p.bias) m.values.push_back(p.bias);
  m.low = e.low, m.high = e.high, m.bits = p.w.bits;
}
// Zero padding before the product becomes padding of int8 numbers with the zero point.
value_id without_borders(const pattern_graph& g, value_id v, std::vector<std::int32_t>& borders) {
  while (g.is<op::pad>(v) && g.inner(v) && g.at(v).attributes_as<pad_attributes>().value == 0) {
    borders.push_back(v.node);
    v = g.operand(v, 0);
  }
  return v;
}

bool match_quantized_conv2d(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto e = ending_of(g, v);
  if (!e || !g.inner(e->x)) return false;
  auto p = product_of<op::conv2d>(g, e->x);
  if (!p.product || !g.inner(p.product)) return false;
  std::vector<std::int32_t> borders;
  const value_id inside = without_borders(g, g.operand(p.product, 0), borders);
  if (!borders.empty()) {
    const auto x = scalar_int8_source(g, inside);
    if (!x || !g.number(x->zero_point)) return false;
    auto w = int8_source(g, g.operand(p.product, 1));
    if (!w) w = summed_int8_source(g, g.operand(p.product, 1));
    m.node = p.product.node;
    if (!w || !g.is_number(w->zero_point, 0) || (!is_one(g, w->scale) && w->axis != 0) ||
        (p.bias && !is_bias(g, p.bias, g.type(p.product).dims, 1)))
      return refused(m, "after padding, its weights or its bias do not fit an int8 product");
    p.x = *x, p.w = *w;
    m.number = *g.number(x->zero_point);
  } else if (!read_operands(g, p, 0, 1, false, m)) return false;
  take_product(p, *e, m);
  m.nodes.assign(borders.rbegin(), borders.rend());
  return true;
}
bool is_matrix_product(const pattern_graph& g, const int8_product& p, pattern_match& m) {
  if (g.at(p.product).attributes_as<matmul_attributes>().transpose_a)
    return refused(m, "its first operand is transposed");
  if (g.type(g.operand(p.product, 1)).dims.rank != 2 || g.type(g.operand(p.product, 0)).dims.rank < 2)
    return refused(m, "it is a batch of products, not one with a matrix");
  return true;
}
// The matrix before a transposition, or the value itself.
value_id untransposed(const pattern_graph& g, value_id v, bool& transposed) {
  if (!g.is<op::permute>(v) || g.type(v).dims.rank != 2) return v;
  if (detail::normal_axis(g.at(v).attributes_as<permute_attributes>().order[0], 2) == 1) transposed = !transposed;
  return g.operand(v, 0);
}
bool read_linear(const pattern_graph& g, int8_product& p, bool any_zero_point, pattern_match& m) {
  bool rows = g.at(p.product).attributes_as<matmul_attributes>().transpose_b;
  p.matrix = untransposed(g, g.operand(p.product, 1), rows);
  if (!int8_source(g, g.operand(p.product, 0)) && !int8_source(g, p.matrix)) return false;
  m.node = p.product.node;
  if (!is_matrix_product(g, p, m)) return false;
  m.flag = !rows;  // weights are [in, out]
  return read_operands(g, p, rows ? 0 : 1, g.type(p.product).dims.rank - 1, any_zero_point, m);
}
// An int8 value with one scale, before operations that move its elements; `moves`: those operations, in order.
std::optional<int8_value> moved_int8(const pattern_graph& g, value_id v, std::vector<std::int32_t>& moves) {
  std::vector<std::int32_t> found;
  while (!g.is<op::dequantize>(v)) {
    const node& n = g.at(v);
    if (n.kind != node_kind::operation || !n.op->keeps_elements || n.inputs.size() != 1 || v.result != 0) return {};
    found.push_back(v.node);
    v = n.inputs[0];
  }
  moves.assign(found.rbegin(), found.rend());
  return scalar_int8_source(g, v);
}
// A product of two int8 values that are not parameters, each with one scale.
bool read_matrices(const pattern_graph& g, value_id v, pattern_match& m) {
  const value_id left = g.operand(v, 0), right = g.operand(v, 1);
  if (parameter_only(g, right)) return false;
  std::vector<std::int32_t> of_b;
  const auto a = moved_int8(g, left, m.nodes), b = moved_int8(g, right, of_b);
  if (!a && !b) return false;
  m.node = v.node;
  if (!a || !b)
    return refused(m, "its ", a ? "second" : "first", " operand is not int8 with one scale: it is ",
                   g.type(a ? right : left));
  m.values = {a->q, a->scale, a->zero_point, b->q, b->scale, b->zero_point};
  m.axis = static_cast<int>(m.nodes.size());
  m.nodes.insert(m.nodes.end(), of_b.begin(), of_b.end());
  return true;
}
bool match_quantized_matmul(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto e = ending_of(g, v);
  if (!e || !g.inner(e->x) || !g.is<op::matmul>(e->x) || !read_matrices(g, e->x, m)) return false;
  m.values.insert(m.values.end(), {e->scale, e->zero_point});
  m.low = e->low, m.high = e->high;
  return true;
}
// The same with a float result.
bool match_integer_matmul(const pattern_graph& g, value_id v, pattern_match& m) {
  return g.is<op::matmul>(v) && read_matrices(g, v, m);
}
bool match_quantized_linear(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto e = ending_of(g, v);
  if (!e || !g.inner(e->x)) return false;
  auto p = product_of<op::matmul>(g, e->x);
  if (!p.product || !g.inner(p.product) || !read_linear(g, p, false, m)) return false;
  take_product(p, *e, m);
  return true;
}
// A product with a float result, or with zero points of weights: the sums are integers.
bool match_integer_linear(const pattern_graph& g, value_id v, pattern_match& m) {
  int8_product p;
  p.product = v;
  if (!g.is<op::matmul>(v) || !read_linear(g, p, true, m)) return false;
  m.values = {p.x.q, p.x.scale, p.x.zero_point, p.w.q, p.w.scale};
  if (!g.is_number(p.w.zero_point, 0)) m.values.push_back(p.w.zero_point);
  return true;
}
// A convolution with a float result, where its integer sums are worth a separate pass.
bool match_integer_conv2d(const pattern_graph& g, value_id v, pattern_match& m) {
  if (!g.is<op::conv2d>(v)) return false;
  int8_product p;
  p.product = v;
  if (!read_operands(g, p, 0, 1, false, m)) return false;
  const shape& w = g.type(p.w.q).dims;
  constexpr std::int64_t least = 32;  // products per sum
  if (g.at(v).attributes_as<conv2d_attributes>().groups != 1 || w.size(1, 4) < least ||
      w != g.type(g.operand(v, 1)).dims)
    return refused(m, "its result does not become int8 before something else reads it");
  m.values = {p.x.q, p.x.scale, p.x.zero_point, p.w.q, p.w.scale};
  return true;
}

// ---- sums, averages, movements, functions ---------------------------------------------------------------------------

bool match_both(const pattern_graph& g, value_id v, bool sum, pattern_match& m) {
  const auto e = ending_of(g, v);
  if (!e || !g.inner(e->x) || g.at(e->x).kind != node_kind::operation) return false;
  const bool difference = sum && g.is<op::subtract>(e->x);
  if (sum ? !g.at(e->x).op->adds && !difference : !g.is<op::multiply>(e->x)) return false;
  auto a = scalar_int8_source(g, g.operand(e->x, 0)), b = scalar_int8_source(g, g.operand(e->x, 1));
  if (!a || !b) return false;
  m.node = e->x.node;
  const shape& y = g.type(v).dims;
  const bool swapped = g.type(a->q).dims != y;
  if (swapped) std::swap(a, b);
  if (difference) m.axis = swapped ? 1 : 4;  // index of the scale that is negated
  m.values = {a->q, a->scale, a->zero_point, b->q, b->scale, b->zero_point, e->scale, e->zero_point};
  std::vector<tensor_type> types;
  for (value_id i : m.values) types.push_back(g.type(i));
  inference found;
  op::quantized_add::infer({}, types, found);
  if (!found.why.empty() || found.results[0].dims != y) return refused(m, found.why.view());
  m.low = e->low, m.high = e->high;
  return true;
}
bool match_quantized_add(const pattern_graph& g, value_id v, pattern_match& m) { return match_both(g, v, true, m); }
bool match_quantized_multiply(const pattern_graph& g, value_id v, pattern_match& m) {
  return match_both(g, v, false, m);
}
bool match_quantized_average(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto e = ending_of(g, v);
  if (!e || e->bounded() || !g.inner(e->x) || g.at(e->x).kind != node_kind::operation) return false;
  if (!detail::window_of_average(g.p, g.at(e->x))) return false;
  const auto x = scalar_int8_source(g, g.operand(e->x, 0));
  if (!x) return false;
  m.node = e->x.node;
  m.values = {x->q, x->scale, x->zero_point, e->scale, e->zero_point};
  return true;
}

// An operation that moves elements can move int8 numbers.
bool match_quantized_move(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto e = ending_of(g, v);
  if (!e || e->bounded() || !g.inner(e->x) || e->x.result != 0) return false;
  const node& n = g.at(e->x);
  if (n.kind != node_kind::operation || !n.op->keeps_elements || !n.subprograms.empty()) return false;
  std::vector<tensor_type> types;
  m.node = e->x.node;
  m.values = {e->scale, e->zero_point};
  if (n.inputs.size() == 1 && !g.is<op::dequantize>(n.inputs[0])) {  // several operations that each move one value
    const auto x = moved_int8(g, e->x, m.nodes);
    if (!x) return false;
    m.values.insert(m.values.end(), {x->q, x->scale, x->zero_point});
    m.same.push_back(same_number(g, x->scale, e->scale) && same_number(g, x->zero_point, e->zero_point) ? 1 : 2);
    return true;
  }
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const value_id in = n.inputs[k];
    types.push_back(g.type(in));
    if (!n.reads_data(k) || types.back().element != dtype::float32) {
      m.values.push_back(in);
      continue;
    }
    const auto x = scalar_int8_source(g, in);
    if (!x) return false;
    types.back().element = dtype::int8;
    m.values.insert(m.values.end(), {x->q, x->scale, x->zero_point});
    m.same.push_back(same_number(g, x->scale, e->scale) && same_number(g, x->zero_point, e->zero_point) ? 1 : 2);
  }
  if (m.same.empty()) return false;
  inference found;
  n.op->infer(n.attributes.get(), types, found);
  return found.why.empty() && found.results[0].element == dtype::int8 && found.results[0].dims == n.results[0].dims;
}

// Collects the elementwise operations between the end and one int8 value, in order; false if there is anything else.
bool add_function(const pattern_graph& g, value_id v, value_id& from, std::vector<std::int32_t>& nodes) {
  constexpr std::size_t max = 32;
  if (g.number(v) || std::find(nodes.begin(), nodes.end(), v.node) != nodes.end()) return true;
  if (g.is<op::dequantize>(v)) {
    if (from && from != v) return false;
    from = v;
    return true;
  }
  const node& n = g.at(v);
  if (n.kind != node_kind::operation || !n.op->map || nodes.size() >= max || n.results.size() != 1) return false;
  for (value_id in : n.inputs)
    if (!add_function(g, in, from, nodes)) return false;
  nodes.push_back(v.node);
  return true;
}
bool match_quantized_table(const pattern_graph& g, value_id v, pattern_match& m) {
  if (!g.is<op::quantize>(v) || !is_one(g, g.operand(v, 1))) return false;
  value_id from{};
  if (!add_function(g, g.operand(v, 0), from, m.nodes) || !from) return false;
  const auto x = scalar_int8_source(g, from);
  if (!x || g.type(x->q) != g.type(v) || g.at(x->q).kind == node_kind::constant) return false;
  for (std::int32_t i : m.nodes)
    if (g.type({i, 0}).element != dtype::float32 && g.type({i, 0}).element != dtype::boolean) return false;
  m.values = {x->q, x->scale, x->zero_point, g.operand(v, 1), g.operand(v, 2)};
  m.node = from.node;
  m.flag = m.nodes.empty() && same_number(g, x->scale, m.values[3]) && same_number(g, x->zero_point, m.values[4]);
  return true;
}

// u - 128 for a uint8 value u = q + 128, with operations in between that move elements.
bool match_same_bytes(const pattern_graph& g, value_id v, pattern_match& m) {
  const auto cast_from = [&](value_id at, dtype to, dtype from) {
    return g.is<op::cast>(at) && g.type(at).element == to && g.type(g.operand(at, 0)).element == from ? g.operand(at, 0)
                                                                                                      : value_id{};
  };
  const value_id less = cast_from(v, dtype::int8, dtype::int32);
  if (!less || !g.is<op::subtract>(less) || !g.is_number(g.operand(less, 1), 128)) return false;
  value_id x = cast_from(g.operand(less, 0), dtype::int32, dtype::uint8);
  while (x) {
    if (const value_id more = cast_from(x, dtype::uint8, dtype::int32)) {
      if (!g.is<op::add>(more) || !g.is_number(g.operand(more, 1), 128)) return false;
      const value_id q = cast_from(g.operand(more, 0), dtype::int32, dtype::int8);
      if (!q) return false;
      m.values = {q};
      for (std::int32_t i : m.nodes)
        for (std::size_t k = 1; k < g.at({i, 0}).inputs.size(); ++k) m.values.push_back(g.operand({i, 0}, k));
      std::reverse(m.nodes.begin(), m.nodes.end());
      return true;
    }
    const node& n = g.at(x);
    if (n.kind != node_kind::operation || !n.op->keeps_elements || n.inputs.size() != 1 || x.result != 0) return false;
    m.nodes.push_back(x.node);
    x = n.inputs[0];
  }
  return false;
}

// ---- replacements ---------------------------------------------------------------------------------------------------

value constant_of(const value& like, any_tensor t) { return like.owner().constant(std::move(t)); }
value as_type(const value& v, dtype to) { return v.type().element == to ? v : value(apply<op::cast>({.to = to}, v)); }
// The bias in units of the product of both scales, as int32.
value integer_bias(operands_of_match in, std::int64_t channels) {
  if (in.size() < 8) return constant_of(in[0], any_tensor({dtype::int32, {channels}}));
  constexpr double max = 1 << 30;
  value b = in[7].shape().size() == 1 ? value(reshape(in[7], shape{})) : value(reshape(in[7], shape{channels}));
  b = clamp(round(b / (in[1] * in[4])), -max, max);
  if (b.shape().rank == 0) b = b + constant_of(b, any_tensor({dtype::float32, {channels}}));
  return as_type(b, dtype::int32);
}
value make_quantized_conv2d(const pattern_match& m, operands_of_match in) {
  value x = in[0];
  for (std::int32_t i : m.nodes) {
    auto border = m.from->at({i, 0}).attributes_as<pad_attributes>();
    border.value = m.number;
    x = pad(x, border);
  }
  const auto& conv = m.from->at({m.node, 0}).attributes_as<conv2d_attributes>();
  const value bias = integer_bias(in, in[3].shape().at(0));
  return quantized_conv2d(x, {in[1], in[2]}, {in[3], in[4], bias}, {in[5], in[6]}, {conv, m.low, m.high, m.bits});
}
value make_quantized_linear(const pattern_match& m, operands_of_match in) {
  const value bias = integer_bias(in, in[3].shape().at(m.flag ? 1 : 0));
  return quantized_linear(in[0], {in[1], in[2]}, {in[3], in[4], bias}, {in[5], in[6]}, {m.low, m.high, m.flag, m.bits});
}
// Applies the operation of a node with one operand to x.
value applied_to(const program& from, std::int32_t i, const value& x) {
  const node& n = from.at({i, 0});
  const value operands[] = {x};
  return {&x.owner(), x.owner().add(*n.op, n.attributes, operands)};
}
// Both operands of a product after their elements are moved; the first one transposed if the product does so.
std::pair<value, value> moved_operands(const pattern_match& m, operands_of_match in) {
  value a = in[0], b = in[3];
  for (int i = 0; i < static_cast<int>(m.nodes.size()); ++i) {
    value& moved = i < m.axis ? a : b;
    moved = applied_to(*m.from, m.nodes[static_cast<std::size_t>(i)], moved);
  }
  if (m.from->at({m.node, 0}).attributes_as<matmul_attributes>().transpose_a) {
    axes order;
    const int rank = a.shape().rank;
    for (int i = 0; i < rank; ++i) order.values[order.count++] = i < rank - 2 ? i : 2 * rank - 3 - i;
    a = permute(a, order);
  }
  return {a, b};
}
value make_quantized_matmul(const pattern_match& m, operands_of_match in) {
  const auto [a, b] = moved_operands(m, in);
  const auto& at = m.from->at({m.node, 0}).attributes_as<matmul_attributes>();
  return quantized_matmul(a, {in[1], in[2]}, b, {in[4], in[5]}, {in[6], in[7]}, {at.transpose_b, m.low, m.high});
}
value make_integer_matmul(const pattern_match& m, operands_of_match in) {
  const auto [a, b] = moved_operands(m, in);
  const auto& at = m.from->at({m.node, 0}).attributes_as<matmul_attributes>();
  const value sums = integer_matmul(a, in[2], b, in[5], at.transpose_b);
  return as_type(sums, dtype::float32) * (in[1] * in[4]);
}
value make_integer_conv2d(const pattern_match& m, operands_of_match in) {
  const auto& conv = m.from->at({m.node, 0}).attributes_as<conv2d_attributes>();
  const value sums = integer_conv2d(in[0], in[2], in[3], conv), scale = in[1] * in[4];
  return as_type(sums, dtype::float32) * (scale.shape().rank ? value(reshape(scale, {scale.shape()[0], 1, 1})) : scale);
}
value make_integer_linear(const pattern_match& m, operands_of_match in) {
  const value sums = integer_linear(in[0], in[2], in[3], in.size() > 5 ? in[5] : value(), m.flag);
  return as_type(sums, dtype::float32) * (in[1] * in[4]);
}
value make_quantized_add(const pattern_match& m, operands_of_match in) {
  const auto scale = [&](std::size_t i) {
    return static_cast<int>(i) == m.axis ? value(-in[i]) : in[i];
  };  // negated for a difference
  return quantized_add(in[0], {scale(1), in[2]}, in[3], {scale(4), in[5]}, {in[6], in[7]}, {m.low, m.high});
}
value make_quantized_multiply(const pattern_match& m, operands_of_match in) {
  return quantized_multiply(in[0], {in[1], in[2]}, in[3], {in[4], in[5]}, {in[6], in[7]}, {m.low, m.high});
}
value make_quantized_average(const pattern_match& m, operands_of_match in) {
  return quantized_avg_pool2d(in[0], {in[1], in[2]}, {in[3], in[4]},
                              *detail::window_of_average(*m.from, m.from->at({m.node, 0})));
}
value make_quantized_move(const pattern_match& m, operands_of_match in) {
  const node& n = m.from->at({m.node, 0});
  const quantization to{in[0], in[1]};
  const auto in_its_scale = [&](std::size_t at, std::size_t which) {
    return m.same[which] == 1 ? in[at] : value(quantize(dequantize(in[at], {in[at + 1], in[at + 2]}), to));
  };
  if (!m.nodes.empty()) {
    value x = in_its_scale(2, 0);
    for (std::int32_t i : m.nodes) x = applied_to(*m.from, i, x);
    return x;
  }
  std::vector<value> operands;
  std::size_t at = 2, which = 0;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    if (!n.reads_data(k) || m.from->type(n.inputs[k]).element != dtype::float32) {
      operands.push_back(in[at++]);
      continue;
    }
    operands.push_back(in_its_scale(at, which++));
    at += 3;
  }
  program& owner = in[0].owner();
  return {&owner, owner.add(*n.op, n.attributes, operands)};
}
value make_quantized_table(const pattern_match& m, operands_of_match in) {
  if (m.flag) return in[0];
  any_tensor all({dtype::int8, {256}});
  for (int i = 0; i < 256; ++i)
    reinterpret_cast<std::int8_t*>(all.mutable_data())[i] = static_cast<std::int8_t>(i - 128);
  program& owner = in[0].owner();
  std::map<value_id, value> made{{{m.node, 0}, dequantize(owner.constant(std::move(all)), {in[1], in[2]})}};
  const auto of = [&](value_id v) {
    if (const auto known = made.find(v); known != made.end()) return known->second;
    return owner.number(*m.from->number_of(v), m.from->type(v).element);
  };
  for (std::int32_t i : m.nodes) {
    const node& n = m.from->at({i, 0});
    std::vector<value> operands;
    for (value_id v : n.inputs) operands.push_back(of(v));
    made[{i, 0}] = value(&owner, owner.add(*n.op, n.attributes, operands));
  }
  const value last = m.nodes.empty() ? made.begin()->second : made.at({m.nodes.back(), 0});
  return quantized_table(in[0], quantize(last, {in[3], in[4]}));
}
value make_same_bytes(const pattern_match& m, operands_of_match in) {
  value x = in[0];
  for (std::int32_t i : m.nodes) x = applied_to(*m.from, i, x);
  return x;
}

constinit const pattern quantized_conv2d_pattern{rewrite::quantized_conv2d, match_quantized_conv2d,
                                                 make_quantized_conv2d, true};
constinit const pattern quantized_matmul_pattern{rewrite::quantized_matmul, match_quantized_matmul,
                                                 make_quantized_matmul, true};
constinit const pattern quantized_linear_pattern{rewrite::quantized_linear, match_quantized_linear,
                                                 make_quantized_linear, true};
constinit const pattern quantized_add_pattern{rewrite::quantized_add, match_quantized_add, make_quantized_add, true};
constinit const pattern quantized_multiply_pattern{rewrite::quantized_multiply, match_quantized_multiply,
                                                   make_quantized_multiply, true};
constinit const pattern quantized_average_pattern{rewrite::quantized_average, match_quantized_average,
                                                  make_quantized_average, true};
constinit const pattern quantized_move_pattern{rewrite::quantized_move, match_quantized_move, make_quantized_move,
                                               true};
constinit const pattern quantized_table_pattern{rewrite::quantized_table, match_quantized_table, make_quantized_table,
                                                true};
constinit const pattern integer_linear_pattern{rewrite::integer_linear, match_integer_linear, make_integer_linear,
                                               true};
constinit const pattern integer_matmul_pattern{rewrite::integer_matmul, match_integer_matmul, make_integer_matmul,
                                               true};
constinit const pattern integer_conv2d_pattern{rewrite::integer_conv2d, match_integer_conv2d, make_integer_conv2d,
                                               true};
constinit const pattern same_bytes_pattern{rewrite::same_bytes, match_same_bytes, make_same_bytes, true};

}  // namespace lamina::rewriting
