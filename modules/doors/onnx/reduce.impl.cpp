// Operators that reduce axes, and softmax.
module lamina.onnx:reduce.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

using reduction = value (*)(const value& x, lamina::axes over, bool keepdim);
#define LAMINA_REDUCTION(name)                                           \
  value name(const value& x, lamina::axes over, bool keepdim) {          \
    return lamina::reduce_##name(x, {.axes = over, .keepdim = keepdim}); \
  }
LAMINA_REDUCTION(sum)
LAMINA_REDUCTION(mean)
LAMINA_REDUCTION(prod)
LAMINA_REDUCTION(max)
LAMINA_REDUCTION(min)
#undef LAMINA_REDUCTION
value l1(const value& x, lamina::axes over, bool keepdim) { return sum(lamina::abs(x), over, keepdim); }
value l2(const value& x, lamina::axes over, bool keepdim) { return lamina::sqrt(sum(x * x, over, keepdim)); }
value sum_square(const value& x, lamina::axes over, bool keepdim) { return sum(x * x, over, keepdim); }
value log_sum(const value& x, lamina::axes over, bool keepdim) { return lamina::log(sum(x, over, keepdim)); }
value log_sum_exp(const value& x, lamina::axes over, bool keepdim) {
  const value top = max(x, over, true),
              finite = lamina::where(lamina::abs(top) < std::numeric_limits<double>::infinity(), top, 0);
  const value made = lamina::log(sum(lamina::exp(x - finite), over, true)) + finite;
  return keepdim ? made : value(lamina::squeeze(made, over));
}

constexpr bool is_fractional(reduction_kind k) {
  return k == reduction_kind::mean || k == reduction_kind::l2 || k == reduction_kind::log_sum ||
         k == reduction_kind::log_sum_exp;
}

// Axes are an attribute before opset `Since`, an operand since. Means, L2 norms and logarithms of integers are computed
// in float64 and truncated.
template <reduction F, int Since, reduction_kind Kind> void reduce(node_call& c) {
  if constexpr (Kind == reduction_kind::l1)
    if (c.type(0).element == dtype::uint64) return reduce<sum, Since, reduction_kind::sum>(c);
  constexpr bool compares = Kind == reduction_kind::maximum || Kind == reduction_kind::minimum;
  const auto give = [&](const value& v) { compares ? c.give_ordered(0, v) : c.give_like(0, v); };
  value x = compares ? c.ordered(0) : c.number(0);
  if (is_fractional(Kind) && is_integer(x.type().element)) x = c.cast_to(c[0], dtype::float64);
  if (c.opset >= Since && c.has(1) && !c.known_integers(1))
    return give(lamina::reduce_by(x, c.cast_to(c[1], dtype::int64),
                                  {Kind, c.flag("keepdims", true), c.flag("noop_with_empty_axes")}));
  std::vector<std::int64_t> over;
  if (c.opset < Since) over = c.node_call::integers("axes");
  else if (c.has(1)) over = c.integers(1, "axes");
  const int rank = x.shape().rank;
  const bool keepdim = c.flag("keepdims", true);
  if (over.empty()) {
    if (c.opset >= Since && c.flag("noop_with_empty_axes"))
      return give(lamina::reduce_by(x, c.constant(std::vector<std::int64_t>{}), {Kind, true, true}));
    for (int i = 0; i < rank; ++i) over.push_back(i);
  }
  const bool logic = x.type().element == dtype::boolean;  // minimum and maximum of booleans
  if (logic) x = c.cast_to(x, dtype::uint8);
  give(rank == 0 ? F(lamina::reshape(x, lamina::shape{1}), lamina::axes(0), false)
                 : F(x, c.axes_of(over, rank), keepdim));
}

template <auto F, auto Last> void position(node_call& c) {
  const value x = c.ordered(0);
  const int axis = c.axis(c.integer("axis", 0), x.shape().rank);
  const bool keepdim = c.flag("keepdims", true);
  c.give(0, c.flag("select_last_index") ? Last(x, {.axis = axis, .keepdim = keepdim}, origin{}) : F(x, axis, keepdim));
}
value largest(const value& x, int axis, bool keepdim) { return lamina::argmax(x, {.axis = axis, .keepdim = keepdim}); }
value smallest(const value& x, int axis, bool keepdim) { return lamina::argmin(x, {.axis = axis, .keepdim = keepdim}); }

// Before opset 13, the axes from `axis` on are flattened to one.
template <auto F> void over_axis(node_call& c) {
  const value x = c.number(0);
  const int rank = x.shape().rank;
  const int axis = c.axis(c.integer("axis", c.opset < 13 ? 1 : -1), rank);
  if (c.opset >= 13 || axis == rank - 1) return c.give_like(0, F(x, axis));
  const value rows = axis == 0 ? value(lamina::reshape(x, lamina::shape{1, dyn})) : value(lamina::as_matrix(x, axis));
  c.give_like(0, lamina::reshape_like(F(rows, 1), x));
}
value softmax(const value& x, int axis) { return lamina::softmax(x, {.axis = axis}); }
value hardmax(const value& x, int axis) { return lamina::hardmax(x, {axis}); }
value log_softmax(const value& x, int axis) { return lamina::log_softmax(x, {.axis = axis}); }

constexpr converter_entry entries[] = {
    {"ArgMax", 1, position<largest, lamina::last_argmax>},
    {"ArgMin", 1, position<smallest, lamina::last_argmin>},
    {"Hardmax", 1, over_axis<hardmax>},
    {"LogSoftmax", 1, over_axis<log_softmax>},
    {"ReduceL1", 1, reduce<l1, 18, reduction_kind::l1>},
    {"ReduceL2", 1, reduce<l2, 18, reduction_kind::l2>},
    {"ReduceLogSum", 1, reduce<log_sum, 18, reduction_kind::log_sum>},
    {"ReduceLogSumExp", 1, reduce<log_sum_exp, 18, reduction_kind::log_sum_exp>},
    {"ReduceMax", 1, reduce<max, 18, reduction_kind::maximum>},
    {"ReduceMean", 1, reduce<mean, 18, reduction_kind::mean>},
    {"ReduceMin", 1, reduce<min, 18, reduction_kind::minimum>},
    {"ReduceProd", 1, reduce<prod, 18, reduction_kind::product>},
    {"ReduceSum", 1, reduce<sum, 13, reduction_kind::sum>},
    {"ReduceSumSquare", 1, reduce<sum_square, 18, reduction_kind::sum_square>},
    {"Softmax", 1, over_axis<softmax>},
};

}  // namespace

converter_list reduce_converters() { return entries; }

}  // namespace lamina::onnx
