// Operations with data-dependent shapes: positions of nonzero elements, distinct elements, boxes kept by suppression.
// Their kernels fill a worst-case buffer and return a count; `truncate` to that count ends a segment of the plan, and
// the next segment is planned for the actual extent.
export module lamina:op.sized;
import :core;
import :dtype;
import :emission;
import :op;
import :op.attention;
import :op.elementwise;
import :op.index;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Which boxes suppress others, and the maximum number of results.
export struct suppression_attributes {
  static constexpr std::int64_t all = -1;
  double iou_threshold = 0.5;
  double score_threshold = -std::numeric_limits<double>::infinity();
  std::int64_t max_per_class = all;  ///< per image
  bool centers = false;              ///< boxes are [x, y, width, height], not two opposite corners
  static constexpr void members(auto& a, auto&& f) {
    f("iou_threshold", a.iou_threshold), f("score_threshold", a.score_threshold), f("max_per_class", a.max_per_class),
        f("centers", a.centers);
  }
  bool operator==(const suppression_attributes&) const = default;
};
/// For a suppression with computed parameters.
struct computed_suppression_attributes {
  bool centers = false;
  static constexpr void members(auto& a, auto&& f) { f("centers", a.centers); }
  bool operator==(const computed_suppression_attributes&) const = default;
};
struct computed_top_k_attributes {
  std::int64_t axis = -1;
  bool largest = true;
};
struct unique_attributes {
  bool sorted = true;
};

namespace detail {
constexpr dim elements_of(const shape& s) { return product_of(s, 0, s.rank); }
constexpr bool is_count(const tensor_type& t, inference& out) {
  if (t.element != dtype::int64) {
    out.refuse(t.element, "an int64 count", "std::int64_t");
    return false;
  }
  if (t.dims.rank > 1 || (t.dims.rank == 1 && !may_equal(t.dims[0], 1))) {
    out.why << "the count is not one number";
    return false;
  }
  return true;
}
}  // namespace detail

namespace op {
/// The first rows of operand 0, with their number in operand 1. The only operation whose result extent is read during a
/// run: it is no step of a plan, but the boundary between two (see `segmented`).
struct truncate {
  static constexpr std::string_view name = "truncate";
  static constexpr int operands = 2;
  static constexpr bool may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
    if (s.rank < 1) {
      out.why << "a scalar has no rows";
      return;
    }
    if (!detail::is_count(in[1], out)) return;
    s[0] = dyn;
    out.result(in[0].element, s);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Results: coordinates of nonzero elements, one row each, in order, in a buffer for all elements; their number.
struct non_zero {
  static constexpr std::string_view name = "non_zero";
  static constexpr int operands = 1, results = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    const shape& s = in[0].dims;
    if (s.rank < 1) {
      out.why << "a scalar has no positions";
      return;
    }
    out.result(dtype::int64, shape{detail::elements_of(s), dim(s.rank)});
    out.result(dtype::int64, {});
  }
  static void emit(emission&);
};
/// Operands: elements, and the positions that sort them. Results: the first position of each distinct element, the
/// index of the distinct element for each element, the count of each distinct element; their number.
struct unique {
  static constexpr std::string_view name = "unique";
  static constexpr int operands = 2, results = 4;
  static constexpr bool may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::numbers, in[0].element, out) || !detail::takes_positions(in[1], out)) return;
    if (in[0].dims.rank != 1 || !fits(in[0].dims, in[1].dims)) {
      out.why << "elements and their order must be two vectors of the same length";
      return;
    }
    for (int i = 0; i < 3; ++i) out.result(dtype::int64, in[0].dims);
    out.result(dtype::int64, {});
  }
  static void emit(emission&);
};
/// Operands: boxes [N, 4] and scores [N], or boxes [B, N, 4] and scores [B, C, N]; the positions that sort the scores along
/// their last axis, largest first. Results: the kept boxes, in a buffer for all; their number.
struct non_max_suppression {
  static constexpr std::string_view name = "non_max_suppression";
  static constexpr int operands = 3, results = 2;
  static constexpr bool may_fail = true;
  using attributes = suppression_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape &boxes = in[0].dims, &scores = in[1].dims;
    if (!detail::takes(domain::real, in[0].element, out) || !detail::takes_positions(in[2], out)) return;
    const tensor_type two[] = {in[0], in[1]};
    if (!detail::same_elements(two, out)) return;
    const bool batch = boxes.rank == 3;
    if ((!batch && boxes.rank != 2) || !may_equal(boxes.back(), 4) || scores.rank != boxes.rank - 1 + (batch ? 1 : 0) ||
        !may_equal(scores.back(), boxes[boxes.rank - 2]) || (batch && !may_equal(scores[0], boxes[0]))) {
      out.why << "boxes [N, 4] and scores [N] are expected, or boxes [B, N, 4] and scores [B, C, N]";
      return;
    }
    if (!fits(scores, in[2].dims)) {
      out.why << "the order must have the shape of the scores";
      return;
    }
    if (!(a.iou_threshold >= 0 && a.iou_threshold <= 1)) {
      out.why << "iou_threshold is " << a.iou_threshold << "; expected 0 to 1";
      return;
    }
    if (a.max_per_class < suppression_attributes::all) {
      out.why << a.max_per_class << " is not a valid max_per_class";
      return;
    }
    dim rows = dyn;
    if (scores.is_static()) {
      const std::int64_t n = scores.back().code,
                         each = a.max_per_class == suppression_attributes::all || a.max_per_class > n ? n
                                                                                                      : a.max_per_class;
      rows = scores.size(0, scores.rank - 1) * each;
    }
    out.result(dtype::int64, batch ? shape{rows, 3} : shape{rows});
    out.result(dtype::int64, {});
  }
  static void emit(emission&);
};
/// The same with three more operands: the maximum number of boxes per class and image, an int64 number; the overlap
/// above which boxes are suppressed and the score that boxes must exceed, of the boxes' element type.
struct computed_suppression {
  static constexpr std::string_view name = "computed_suppression";
  static constexpr int operands = 6, results = 2;
  static constexpr bool may_fail = true;
  using attributes = computed_suppression_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::is_count(in[3], out)) return;
    for (std::size_t i : {4u, 5u})
      if (in[i].element != in[0].element || in[i].dims.rank > 1 ||
          (in[i].dims.rank == 1 && !may_equal(in[i].dims[0], 1))) {
        out.of_elements = in[i].element != in[0].element;
        out.why << "the thresholds must be one number each, of the boxes' type";
        return;
      }
    op::non_max_suppression::infer({.centers = a.centers}, {in.data(), 3}, out);
  }
  static void emit(emission&);
};
}  // namespace op

using sized_operations =
    operation_list<op::computed_suppression, op::non_max_suppression, op::non_zero, op::truncate, op::unique>;
template <Operation Op> requires sized_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace rule {
struct masked_select {
  static constexpr std::string_view name = "masked_select";
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (in[1].element != dtype::boolean) {
      out.refuse(in[1].element, "a bool mask", "bool");
      return;
    }
    if (!fits(in[0].dims, in[1].dims)) {
      out.why << "the mask must have the shape of the operand";
      return;
    }
    if (in[0].dims.rank < 1) out.why << "a scalar has no elements to select";
  }
};
struct compress {
  static constexpr std::string_view name = "compress";
  static constexpr int operands = 2;
  using attributes = axis_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (in[1].element != dtype::boolean) {
      out.refuse(in[1].element, "a bool mask", "bool");
      return;
    }
    const int axis = detail::indexed_axis(a.axis, in[0].dims, out);
    if (axis < 0) return;
    if (in[1].dims.rank != 1 || !may_equal(in[1].dims[0], in[0].dims[axis]))
      out.why << "the mask must have one element for each position of axis " << a.axis;
  }
};
struct unique {
  static constexpr std::string_view name = "unique";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::numbers, in[0].element, out)) return;
    if (in[0].dims.rank < 1) out.why << "a scalar has no elements to compare";
  }
};
struct computed_top_k {
  static constexpr std::string_view name = "top_k";
  static constexpr int operands = 2;
  using attributes = axis_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::numbers, in[0].element, out) || !detail::is_count(in[1], out)) return;
    detail::indexed_axis(a.axis, in[0].dims, out);
  }
};
struct non_max_suppression {
  static constexpr std::string_view name = "non_max_suppression";
  static constexpr int operands = 2;
  using attributes = suppression_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const tensor_type all[] = {in[0], in[1], {dtype::int64, in[1].dims}};
    op::non_max_suppression::infer(a, all, out);
  }
};
}  // namespace rule

/// Rejects typed operands: the extents of an expression must be known before it is evaluated.
template <fixed_string Function, class... X> struct counted_when_run {
  static consteval text message() {
    text t;
    if constexpr (std::same_as<evaluation_mode_of<X...>, lazy>)
      t << "an extent of the result of `" << Function.view()
        << "` is known only at run time, but an expression needs it before; use it on values of a program or "
           "a net";
    return t;
  }
};

namespace detail {
/// Scope guard: operations added to the program during its lifetime name the calling function in messages.
template <class Mode> struct caller_path {
  constexpr caller_path(const auto&, std::string_view) {}
};
template <> struct caller_path<program_mode> {
  caller_path(const value& x, std::string_view spelling) : path(x.owner(), with(x.owner().place(), spelling)) {}
  static std::string with(std::string here, std::string_view spelling) {
    if (!here.empty()) here += ": ";
    return here += spelling;
  }
  path_of path;
};
}  // namespace detail

// ---- functions ------------------------------------------------------------------------------------------------------
//
// The number of rows of a result is counted in the run; a program with such operations is planned in segments. They are
// operations on values of programs and nets, and not allowed inside a `cond`, a `loop` or a `scan`.

/// The first `count` rows of x, with `count` computed in the same run.
/// Shapes:  x [N, ...], count [] or [1] -> [count, ...].   Types: any, count int64.   Cost: none, rows are not copied.
/// Errors:  value_error in a run with a count outside 0..N; no state is assigned then.
/// Gradient: that of the rows, zero for the rest.
export template <Symbolic X, Symbolic N> requires accepted<diagnostic<counted_when_run<"truncate", X, N>>()>
constexpr auto truncate(const X& x, const N& count, origin_of<X, N> = {}) {
  return apply<op::truncate>({}, x, count);
}

/// Coordinates of all nonzero elements, one row each, in row-major order (numpy.argwhere, torch.nonzero).
/// NaN is not zero, -0 is.   Shapes: [A, B] -> int64 [n, 2].   Types: any.
export template <Symbolic X> requires accepted<diagnostic<counted_when_run<"argwhere", X>>()>
constexpr auto argwhere(const X& x, origin_of<X> = {}) {
  auto found = apply<op::non_zero>({}, x);
  return truncate(found[0], found[1]);
}
/// The same in ONNX NonZero's layout: one row of coordinates for each axis.   Shapes: [A, B] -> int64 [2, n].
export template <Symbolic X> requires accepted<diagnostic<counted_when_run<"non_zero", X>>()>
constexpr auto non_zero(const X& x, origin_of<X> = {}) {
  return permute(argwhere(x), axes(1, 0));
}

/// The elements where a mask is true, in row-major order (torch.masked_select, NumPy's x[mask]).
/// Shapes: x and mask [A, B] -> [n].   Types: any, mask bool.   Gradient: that of the elements.
export template <Symbolic X, Symbolic M> requires accepted<diagnostic<counted_when_run<"masked_select", X, M>>()>
constexpr auto masked_select(const X& x, const M& mask, origin_of<X, M> = {}) {
  detail::obey<rule::masked_select>({}, x, mask);
  return gather(reshape(x, shape{dyn}), squeeze(argwhere(reshape(mask, shape{dyn})), axes(1)), 0);
}
/// The slices along an axis where a mask is true (ONNX Compress, numpy.compress).
/// Shapes: x [3, V, 4], mask [V], axis 1 -> [3, n, 4].   Types: any, mask bool.   Gradient: that of the slices.
export template <Symbolic X, Symbolic M> requires accepted<diagnostic<counted_when_run<"compress", X, M>>()>
constexpr auto compress(const X& x, const M& mask, std::int64_t axis = 0, origin_of<X, M> = {}) {
  detail::obey<rule::compress>({axis}, x, mask);
  return gather(x, squeeze(argwhere(mask), axes(1)), axis);
}

/// Distinct elements: `auto [values, indices, inverse, counts] = unique(x)`.
template <class V, class I> struct unique_result {
  V values;
  I indices, inverse, counts;
};
/// The distinct elements of x, the first position of each in flattened x, the index of the distinct element for each
/// element of x, and their counts. In ascending order, or with {.sorted = false} in order of first appearance.
/// Shapes:  [A, B] -> values [n], indices [n], inverse [A, B], counts [n]; gather(values, inverse) is x.
/// Types:   float and integer; the others int64.   Numerics: all NaN are equal, above all numbers; -0 and 0 are equal.
/// Gradient: of the values, to the first of equal elements.
export template <Symbolic X> requires accepted<diagnostic<counted_when_run<"unique", X>>()>
constexpr auto unique(const X& x, unique_attributes a = {}, origin_of<X> = {}) {
  detail::obey<rule::unique>({}, x);
  auto row = reshape(x, shape{dyn});
  auto found = apply<op::unique>({}, row, argsort(row, sort_attributes{.axis = 0}));
  auto first = truncate(found[0], found[3]), counts = truncate(found[2], found[3]);
  auto inverse = found[1];
  if (!a.sorted) {
    auto appearance = argsort(first, sort_attributes{.axis = 0});
    inverse = gather(argsort(appearance, sort_attributes{.axis = 0}), inverse, 0);
    first = gather(first, appearance, 0);
    counts = gather(counts, appearance, 0);
  }
  auto values = gather(row, first, 0);
  auto like = reshape_like(inverse, x);
  return unique_result<decltype(values), decltype(first)>{values, first, like, counts};
}

/// The k largest (or smallest) elements along an axis in sorted order and their positions, where k is an int64 value
/// computed in the same run. Otherwise as with a known k.
/// Shapes:  x [3, 9], k [] or [1] -> twice [3, k].   Errors: value_error in a run with k outside the axis.
export template <Symbolic X, Symbolic K> requires accepted<diagnostic<counted_when_run<"top_k", X, K>>()>
constexpr auto top_k(const X& x, const K& k, computed_top_k_attributes a = {}, origin_of<X, K> = {}) {
  detail::obey<rule::computed_top_k>({a.axis}, x, k);
  const detail::caller_path<evaluation_mode_of<X>> here(x, "top_k");
  auto at = apply<op::order>({order_attributes::all, a.axis, a.largest}, x, truncate(positions(x, a.axis), k));
  auto values = take_along_axis(x, at, a.axis);
  return top_k_result<decltype(values), decltype(at)>{values, at};
}

/// Non-maximum suppression: in descending order of scores, each box removes those that overlap it by more than a
/// threshold (intersection over union of their areas). Boxes are two opposite corners in any order,
/// or with {.centers = true} a center, width and height.
/// Shapes:  boxes [N, 4], scores [N] -> positions of boxes [n]. For a batch with classes boxes [B, N, 4], scores [B, C, N] ->
///          [n, 3], rows {image, class, box} (ONNX NonMaxSuppression).   Types: float32 or float64 -> int64.
/// Numerics: overlaps are computed in double; equal scores in box order. Only scores above `score_threshold` count; NaN
///          does not. A box without area, or with NaN, overlaps nothing.
/// Source:  Girshick, Donahue, Darrell, Malik, "Rich feature hierarchies" (2014), arXiv:1311.2524.
export template <Symbolic X, Symbolic S> requires accepted<diagnostic<counted_when_run<"non_max_suppression", X, S>>()>
constexpr auto non_max_suppression(const X& boxes, const S& scores, suppression_attributes a = {},
                                   origin_of<X, S> = {}) {
  detail::obey<rule::non_max_suppression>(a, boxes, scores);
  auto left = apply<op::non_max_suppression>(a, boxes, scores,
                                             argsort(scores, sort_attributes{.axis = -1, .descending = true}));
  return truncate(left[0], left[1]);
}

/// The same with all three parameters as values: at most `max_per_class` boxes per image, an int64, thresholds of the
/// boxes' element type.   Errors: none for numbers out of range; below 0 `max_per_class` keeps no box.
export value non_max_suppression(const value& boxes, const value& scores, const value& max_per_class,
                                 const value& iou_threshold, const value& score_threshold,
                                 computed_suppression_attributes a = {}, const origin& = {});

/// The distinct slices of x along an axis: `unique` whose elements are slices over all other axes, compared
/// lexicographically (ONNX Unique with an axis, numpy.unique).
/// Shapes:  x [A, N, B], axis 1 -> values [A, n, B], indices [n], inverse [N], counts [n].   Types: float and integer.
/// Cost:    compares every pair of slices; memory of N copies of x.
export unique_result<value, value> unique_slices(const value& x, axis_attributes along, unique_attributes a = {},
                                                 const origin& = {});
/// The slices along an axis, or without one the elements of flattened x, where a mask is true that may be shorter than
/// the axis (ONNX Compress).   Shapes: x [3, V, 4], mask [U], U <= V, axis 1 -> [3, n, 4].   Types: any, mask bool.
export value compress_first(const value& x, const value& mask, std::optional<std::int64_t> axis = {},
                            const origin& = {});

// ---- programs -------------------------------------------------------------------------------------------------------

/// Name, as in messages, of an operation that gives a program a data-dependent shape; empty if there is none. Searches
/// the nodes reachable from the roots, and subprograms.
export std::string counted_when_run_in(const program& p);
/// The same for one node, which is a `truncate`.
std::string spelling_of(const program& p, const node& n);
/// Name, as in messages, of an operation of a program that runs on the host, between plans; empty if there is none.
/// Searches the nodes reachable from the roots, and planned subprograms.
export std::string run_on_host_in(const program& p);
/// Reasons why a program needs more than one plan, one per operation or input, at most `max` of them: "non_zero: the
/// extent of its result is known only at run time"; empty if one plan suffices.
export std::vector<std::string> why_in_segments(const program& p, std::size_t max = 1);
/// Errors: unsupported_error where the program of a `cond`, `loop` or `scan` has one of these operations.
void refuse_counted(const program& sub, std::string_view op, std::string_view path);

}  // namespace lamina
