// The rewrite rules of `pass_options::simplify`: each returns the value that replaces an operation, or an empty one.
module lamina:passes.rules;
import :core;
import :dtype;
import :op;
import :op.control;
import :op.elementwise;
import :op.index;
import :op.linear;
import :op.nn;
import :op.quantized;
import :op.reduce;
import :op.shape;
import :op.tile;
import :op.view;
import :passes;
import :passes.images;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::rewriting {

const node& node_of(const value& v) { return v.owner().at(v.id()); }
value operand(const node& n, std::size_t i, program& p) { return {&p, n.inputs[i]}; }

std::optional<double> constant_number(const value& v) { return v.owner().number_of(v.id()); }

using rule = value (*)(const node& n, view<const value> in, program& p);

value identity_number(const node& n, view<const value> in, program&) {
  const neutral_number& neutral = n.op->neutral;
  if (in.size() != 2 || n.results.size() != 1) return {};
  auto changes_nothing = [&](std::size_t at) {
    return in[1 - at].type() == n.results[0] && constant_number(in[at]) == neutral.number;
  };
  if (neutral.right && changes_nothing(1)) return in[0];
  return neutral.left && changes_nothing(0) ? in[1] : value();
}

value same_type(const node& n, view<const value> in, program&) {
  return n.op->identity == identity_rule::if_types_agree && in[0].type() == n.results[0] ? in[0] : value();
}

value operand_itself(const node& n, view<const value> in, program&) {
  return n.op->identity == identity_rule::always && in[0].type() == n.results[0] ? in[0] : value();
}

value double_inverse(const node& n, view<const value> in, program& p) {
  const node& inner = node_of(in[0]);
  if (!n.op->involution || !inner.op || inner.op->id != n.op->id) return {};
  const value from = operand(inner, 0, p);
  return from.type() == n.results[0] ? from : value();
}

value log_of(const node& n, view<const value> in, program& p) {
  if (!is_call_of<op::log>(n)) return {};
  const node& inner = node_of(in[0]);
  return inner.op && inner.op->logarithm ? inner.op->logarithm(inner.attributes.get(), operand(inner, 0, p)) : value();
}

/// The same operation with other operands and attributes.
template <class A> value again(const node& n, const A& attributes, view<const value> in, program& p) {
  return {&p, p.add(*n.op, std::make_shared<const A>(attributes), in)};
}

value composed_permutation(const node& n, view<const value> in, program& p) {
  if (!is_call_of<op::permute>(n)) return {};
  const auto& outer = n.attributes_as<permute_attributes>().order;
  axes order = outer;
  bool identity = true;
  const node& inner = node_of(in[0]);
  bool composed = is_call_of<op::permute>(inner);
  for (int i = 0; i < outer.count; ++i) {
    int axis = detail::normal_axis(outer[i], outer.count);
    if (composed) axis = detail::normal_axis(inner.attributes_as<permute_attributes>().order[axis], outer.count);
    order.values[i] = axis;
    identity = identity && axis == i;
  }
  value from = composed ? operand(inner, 0, p) : in[0];
  if (identity) return from;
  return composed ? again(n, permute_attributes{order}, {&from, 1}, p) : value();
}

value composed_reshape(const node& n, view<const value> in, program& p) {
  const shape& becomes = n.results[0].dims;
  if (!reshapes(n) || std::count(becomes.dims, becomes.dims + becomes.rank, dim(dyn)) > 1)
    return {};  // `in` cannot determine several unknown extents
  const node& inner = node_of(in[0]);
  if (reshapes(inner)) {
    value from = operand(inner, 0, p);
    return from.type() == n.results[0] ? from : reshape(from, n.results[0].dims);
  }
  // One canonical form: a reshape to known extents.
  return is_call_of<op::reshape>(n) && n.attributes_as<reshape_attributes>().to == n.results[0].dims
             ? value()
             : reshape(in[0], n.results[0].dims);
}

value transposed_operand(const node& n, view<const value> in, program& p) {
  const bool of_int8 = is_call_of<op::quantized_matmul>(n), of_integers = is_call_of<op::integer_matmul>(n);
  if (!of_int8 && !of_integers && !is_call_of<op::matmul>(n)) return {};
  auto swaps_last = [&](const value& v) {
    const node& t = node_of(v);
    if (!is_call_of<op::permute>(t)) return false;
    const auto& order = t.attributes_as<permute_attributes>().order;
    int rank = order.count;
    for (int i = 0; i < rank; ++i) {
      int expected = i == rank - 2 ? rank - 1 : i == rank - 1 ? rank - 2 : i;
      if (detail::normal_axis(order[i], rank) != expected) return false;
    }
    return true;
  };
  // For products that can transpose only their second matrix.
  const auto with_second = [&](std::size_t at, auto attributes) {
    if (!swaps_last(in[at])) return value();
    attributes.transpose_b = !attributes.transpose_b;
    std::vector<value> operands(in.begin(), in.end());
    operands[at] = operand(node_of(in[at]), 0, p);
    return again(n, attributes, operands, p);
  };
  if (of_integers) return with_second(2, n.attributes_as<integer_matmul_attributes>());
  if (of_int8) return with_second(3, n.attributes_as<quantized_matmul_attributes>());
  auto at = n.attributes_as<matmul_attributes>();
  bool a = swaps_last(in[0]), b = swaps_last(in[1]);
  if (!a && !b) return {};
  return matmul(a ? operand(node_of(in[0]), 0, p) : in[0], b ? operand(node_of(in[1]), 0, p) : in[1],
                {at.transpose_a != a, at.transpose_b != b, at.compute});
}

/// A product with a number: the other operand and the number.
struct scaled {
  value x;
  double by = 0;
  explicit operator bool() const { return !x.empty(); }
};
scaled scaled_by_number(const node& n, view<const value> in) {
  if (!is_call_of<op::multiply>(n) || !is_real(n.results[0].element)) return {};
  for (std::size_t side : {1u, 0u})
    if (auto by = constant_number(in[side]); by && in[1 - side].type() == n.results[0]) return {in[1 - side], *by};
  return {};
}
scaled scaled_by_number(const value& v) {
  const node& n = node_of(v);
  if (!is_call_of<op::multiply>(n)) return {};
  const value in[] = {operand(n, 0, v.owner()), operand(n, 1, v.owner())};
  return scaled_by_number(n, in);
}

value joined_scale(const node& n, view<const value> in, program& p) {
  dtype element = n.results[0].element;
  if (is_call_of<op::negate>(n)) {
    scaled inner = scaled_by_number(in[0]);
    return inner ? value(inner.x * p.number(-inner.by, element)) : value();
  }
  scaled outer = scaled_by_number(n, in);
  if (!outer) return {};
  const node& of = node_of(outer.x);
  if (is_call_of<op::negate>(of)) return operand(of, 0, p) * p.number(-outer.by, element);
  scaled inner = scaled_by_number(outer.x);
  if (!inner) return {};
  // If both shrink or both grow, x * a leaves the range of numbers only if x * a * b does.
  double a = std::abs(inner.by), b = std::abs(outer.by), both = a * b;
  bool alike = (a <= 1 && b <= 1) || (a >= 1 && b >= 1);
  double least = element == dtype::float32 ? std::numeric_limits<float>::min() : std::numeric_limits<double>::min();
  double max = element == dtype::float32 ? std::numeric_limits<float>::max() : std::numeric_limits<double>::max();
  if (!alike || !(both >= least && both <= max)) return {};
  return inner.x * p.number(inner.by * outer.by, element);
}

value power_of_number(const node& n, view<const value> in, program&) {
  if (!is_call_of<op::pow>(n) || !is_real(n.results[0].element) || in[0].type() != n.results[0]) return {};
  const auto exponent = constant_number(in[1]);
  if (exponent == 2) return in[0] * in[0];
  if (exponent == 3) return in[0] * (in[0] * in[0]);
  return exponent == -1 ? value(reciprocal(in[0])) : value();
}

// Zero padding around the rows or columns of images, or around sequences that become images of one row or column.
value joined_padding(const node& n, view<const value> in, program& p) {
  if (!is_call_of<op::conv2d>(n)) return {};
  const bool sequence = reshapes(node_of(in[0]));
  value x = sequence ? operand(node_of(in[0]), 0, p) : in[0];
  const shape s = x.shape();
  shape image = in[0].shape();
  int along = -1;  // the axis of images that is the last one of sequences
  if (sequence) {
    if (s.rank != 3 || !detail::shapes_into_row(s)) return {};
    const int one = one_axis(image, s);
    if (one < 0) return {};
    along = 5 - one;
  }
  auto a = n.attributes_as<conv2d_attributes>();
  bool any = false;
  for (; is_call_of<op::pad>(node_of(x)); any = true) {
    const auto& by = node_of(x).attributes_as<pad_attributes>();
    const int axis = detail::normal_axis(by.axis, s.rank), of_image = sequence && axis == 2 ? along : axis;
    if (axis < 2 || by.value != 0 || by.before < 0 || by.after < 0) break;
    (of_image == 3 ? a.padding.w : a.padding.h) += by.before;
    (of_image == 3 ? a.padding_more.w : a.padding_more.h) += by.after - by.before;
    x = operand(node_of(x), 0, p);
  }
  if (!any) return {};
  if (sequence) {
    image.dims[along] = x.shape()[2];
    x = reshape(x, image);
  }
  const value operands[] = {x, in[1]};
  return again(n, a, operands, p);
}

// (u / y) * y, from the gradient of log y, for y a softmax or an exp.
value gradient_of_log(const node& n, view<const value> in, program& p) {
  if (!is_call_of<op::multiply>(n)) return {};
  auto bare = [&](const value& v) { return reshapes(node_of(v)) ? operand(node_of(v), 0, p) : v; };
  for (std::size_t side : {0u, 1u}) {
    value y = bare(in[side]), quotient = bare(in[1 - side]);
    const node& q = node_of(quotient);
    if (!(is_call_of<op::softmax>(node_of(y)) || is_call_of<op::exp>(node_of(y))) || !is_call_of<op::divide>(q) ||
        !bare(operand(q, 1, p)).same(y))
      continue;
    value u = operand(q, 0, p);
    if (u.type() != q.results[0] || in[0].shape() != in[1].shape()) continue;
    return u.type() == n.results[0] ? u : value(reshape(u, n.results[0].dims));
  }
  return {};
}

// An operand that is spread over a map: elementwise operations broadcast it themselves.
value spread_operand(const node& n, view<const value> in, program& p) {
  if (!n.op->layout_free || in.size() < 2 || n.results.size() != 1) return {};
  const auto is_spread = [](const value& v) { return is_call_of_any<op::spread, op::spread_mean>(node_of(v)); };
  const bool any = std::any_of(in.begin(), in.end(), is_spread),
             has_map = std::any_of(in.begin(), in.end(),
                                   [&](auto& v) { return !is_spread(v) && v.shape() == n.results[0].dims; });
  if (!any || !has_map) return {};
  std::vector<value> operands(in.begin(), in.end());
  for (value& v : operands) {
    if (!is_spread(v)) continue;
    const node s = node_of(v);  // adding operations moves the nodes
    const shape& to = s.results[0].dims;
    unsigned bits = 0;
    detail::reduced_axes(s.attributes_as<reduce_attributes>(), to.rank, bits);
    const shape kept = detail::reduced_shape(to, bits, true);
    value from = operand(s, 0, p);
    if (from.shape() != kept) from = reshape(from, kept);
    if (is_call_of<op::spread_mean>(s)) {
      double parts = 1;
      for (int axis = 0; axis < to.rank; ++axis)
        if (bits >> axis & 1u) parts *= static_cast<double>(to.at(axis));
      from = from / p.number(parts, s.results[0].element);
    }
    v = from;
  }
  return {&p, p.add(*n.op, n.attributes, operands)};
}

// Gathering at constant positions that follow each other.
value gathered_part(const node& n, view<const value> in, program&) {
  if (!is_call_of<op::gather>(n) || node_of(in[1]).kind != node_kind::constant) return {};
  const auto* at = reinterpret_cast<const std::int64_t*>(node_of(in[1]).constant.data());
  const int axis = detail::normal_axis(n.attributes_as<axis_attributes>().axis, in[0].shape().rank);
  const std::int64_t extent = in[0].shape().at(axis), count = in[1].shape().size();
  if (count == 0 || at[0] < -extent || at[0] >= extent) return {};  // the run reports the position
  for (std::int64_t i = 1; i < count; ++i)
    if (at[i] != at[0] + i) return {};
  const std::int64_t first = at[0] < 0 ? at[0] + extent : at[0];
  if (first + count > extent) return {};
  if (in[1].shape().rank == 0) return select(in[0], axis, first);
  const value part = slice(in[0], {.start = first, .stop = first + count, .axis = axis});
  return in[1].shape().rank == 1 ? part : value(reshape(part, n.results[0].dims));
}

/// A concatenation that begins with the operands of others, as those of DenseNet do: plans write the results of each
/// inside that of the next.
value nested_concatenation(const node& n, view<const value> in, program& p) {
  if (!is_call_of<op::concat>(n)) return {};
  constexpr std::size_t most = 8;   // operands that one concatenation adds to another
  std::vector<value> first{in[0]};  // what is joined, and operands after it
  std::size_t joined = 1;           // of `in`
  for (bool found = true; found;) {
    found = false;
    first.resize(1);
    for (std::size_t k = joined; k + 1 < in.size() && first.size() < most && !found; ++k) {
      first.push_back(in[k]);
      const auto known = p.find_operation(*n.op, n.attributes, first);
      if (!known) continue;
      first[0] = {&p, known};
      joined = k + 1;
      found = true;
    }
  }
  if (joined == 1) return {};
  first.resize(1);
  first.insert(first.end(), in.begin() + static_cast<std::ptrdiff_t>(joined), in.end());
  return {&p, p.add(*n.op, n.attributes, first)};
}

/// In the order of `rewrite`.
inline constexpr rule rules[] = {
    identity_number,      same_type,        operand_itself,     double_inverse, log_of,
    composed_permutation, composed_reshape, transposed_operand, joined_scale,   power_of_number,
    joined_padding,       gradient_of_log,  spread_operand,     gathered_part,  nested_concatenation};
static_assert(std::size(rules) == static_cast<std::size_t>(rewrite::attention));

}  // namespace lamina::rewriting
