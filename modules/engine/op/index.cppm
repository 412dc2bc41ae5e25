// Indexing by integer positions, running sums and products, and sorting along an axis.
export module lamina:op.index;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

struct one_hot_attributes {
  std::int64_t depth = 0;
  dtype element = dtype::float32;
  static constexpr void members(auto& a, auto&& f) { f("depth", a.depth), f("element", a.element); }
  bool operator==(const one_hot_attributes&) const = default;
};
struct cumsum_attributes {
  std::int64_t axis = -1;
  bool exclusive = false, reverse = false;
  static constexpr void members(auto& a, auto&& f) {
    f("axis", a.axis), f("exclusive", a.exclusive), f("reverse", a.reverse);
  }
  bool operator==(const cumsum_attributes&) const = default;
};
/// The first `count` positions in sorted order along an axis; `all` of them by default.
struct order_attributes {
  static constexpr std::int64_t all = -1;
  std::int64_t count = all, axis = -1;
  bool descending = false;
  static constexpr void members(auto& a, auto&& f) {
    f("count", a.count), f("axis", a.axis), f("descending", a.descending);
  }
  bool operator==(const order_attributes&) const = default;
};
struct top_k_attributes {
  std::int64_t k = 1, axis = -1;
  bool largest = true;
};
struct sort_attributes {
  std::int64_t axis = -1;
  bool descending = false;
};

namespace detail {
constexpr bool takes_positions(const tensor_type& index, inference& out) {
  if (index.element == dtype::int64) return true;
  out.refuse(index.element, "int64 positions", "std::int64_t");
  return false;
}
constexpr int indexed_axis(std::int64_t axis, const shape& s, inference& out) {
  int a = normal_axis(axis, s.rank);
  if (a < 0) out.why << "axis " << axis << " is outside the rank";
  return a;
}
/// Shape of x with its axis replaced by the shape of the positions.
constexpr bool gathered_shape(const shape& x, const shape& index, int axis, shape& r, inference& out) {
  if (x.rank - 1 + index.rank > max_rank) {
    out.why << "the result would have rank " << x.rank - 1 + index.rank << "; the limit is " << max_rank;
    return false;
  }
  r = {};
  for (int i = 0; i < axis; ++i) r.push_back(x[i]);
  for (int i = 0; i < index.rank; ++i) r.push_back(index[i]);
  for (int i = axis + 1; i < x.rank; ++i) r.push_back(x[i]);
  return true;
}
/// Whether positions have the shape of x, except along an axis.
constexpr bool same_except_axis(const shape& x, const shape& index, int axis, inference& out) {
  bool fit = x.rank == index.rank;
  for (int i = 0; fit && i < x.rank; ++i) fit = i == axis || may_equal(x[i], index[i]);
  if (!fit) out.why << "the positions must have the shape of the operand except along axis " << axis;
  return fit;
}
}  // namespace detail

namespace op {
/// Common base of definitions that read positions, which are range-checked in a run.
template <fixed_string Name, int Operands, unsigned ShapeOnly = 0> struct by_position {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = Operands;
  static constexpr bool may_fail = true;
  static constexpr unsigned shape_only = ShapeOnly;
  using attributes = axis_attributes;
};
struct gather : by_position<"gather", 2> {
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    shape r;
    if (!detail::takes_positions(in[1], out)) return;
    int axis = detail::indexed_axis(a.axis, in[0].dims, out);
    if (axis >= 0 && detail::gathered_shape(in[0].dims, in[1].dims, axis, r, out)) out.result(in[0].element, r);
  }
  static image_layouts images(const image_call&);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Zeros of the third operand's shape, with rows of the first operand added at the positions of the second.
struct scatter_rows : by_position<"scatter_rows", 3, 4> {
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    shape r;
    if (!detail::takes_positions(in[1], out) || !detail::takes(domain::numbers, in[0].element, out)) return;
    int axis = detail::indexed_axis(a.axis, in[2].dims, out);
    if (axis < 0 || !detail::gathered_shape(in[2].dims, in[1].dims, axis, r, out)) return;
    if (!fits(r, in[0].dims)) {
      out.why << "the rows to add must be " << r;
      return;
    }
    out.result(in[0].element, in[2].dims);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct take_along_axis : by_position<"take_along_axis", 2> {
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes_positions(in[1], out)) return;
    int axis = detail::indexed_axis(a.axis, in[0].dims, out);
    if (axis < 0 || !detail::same_except_axis(in[0].dims, in[1].dims, axis, out)) return;
    shape r = in[1].dims;
    for (int i = 0; i < r.rank; ++i)
      if (i != axis) r[i] = better(r[i], in[0].dims[i]);
    out.result(in[0].element, r);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Zeros of the third operand's shape, with elements of the first operand added at the positions of the second.
struct scatter_elements : by_position<"scatter_elements", 3, 4> {
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes_positions(in[1], out) || !detail::takes(domain::numbers, in[0].element, out)) return;
    int axis = detail::indexed_axis(a.axis, in[2].dims, out);
    if (axis < 0 || !detail::same_except_axis(in[2].dims, in[1].dims, axis, out)) return;
    if (!fits(in[1].dims, in[0].dims)) {
      out.why << "positions and elements to add must have the same shape";
      return;
    }
    out.result(in[0].element, in[2].dims);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct to_one_hot {
  static constexpr std::string_view name = "to_one_hot";
  static constexpr int operands = 1;
  static constexpr bool may_fail = true;
  using attributes = one_hot_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes_positions(in[0], out)) return;
    shape s = in[0].dims;
    if (a.depth < 0) {
      out.why << "depth is " << a.depth << "; expected at least 0";
      return;
    }
    if (s.rank == max_rank) {
      out.why << "the result would have rank " << max_rank + 1 << "; the limit is " << max_rank;
      return;
    }
    s.push_back(a.depth);
    out.result(a.element, s);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct cumsum {
  static constexpr std::string_view name = "cumsum";
  static constexpr int operands = 1;
  using attributes = cumsum_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::numbers, in[0].element, out) || detail::indexed_axis(a.axis, in[0].dims, out) < 0)
      return;
    out.result(in[0].element, in[0].dims);
  }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return static_cast<double>(in[0].dims.size());
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct cumprod {
  static constexpr std::string_view name = "cumprod";
  static constexpr int operands = 1;
  using attributes = cumsum_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    op::cumsum::infer(a, in, out);
  }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return static_cast<double>(in[0].dims.size());
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// int64 positions in sorted order; the sort is stable, NaN sorts above all numbers. The extent of an optional second
/// operand, of one axis, gives the number of positions; only its shape is read.
struct order {
  static constexpr std::string_view name = "order";
  static constexpr int operands = -1;
  static constexpr unsigned shape_only = 2;
  using attributes = order_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::numbers, in[0].element, out)) return;
    shape s = in[0].dims;
    int axis = detail::indexed_axis(a.axis, s, out);
    if (axis < 0) return;
    if (in.size() == 2) {
      if (in[1].dims.rank != 1 || a.count != order_attributes::all) {
        out.why << "the count must be the extent of a vector";
        return;
      }
      const dim n = in[1].dims[0];
      if (n.is_number() && s[axis].is_number() && n.code > s.at(axis)) {
        out.why << "axis " << a.axis << " cannot give " << n << " elements";
        return;
      }
      s[axis] = n;
    } else if (in.size() != 1) {
      out.why << "takes one operand or two";
      return;
    } else if (a.count != order_attributes::all) {
      if (a.count < 0 || (s[axis].is_number() && a.count > s.at(axis))) {
        out.why << "axis " << a.axis << " cannot give " << a.count << " elements";
        return;
      }
      s[axis] = a.count;
    }
    out.result(dtype::int64, s);
  }
  static void emit(emission&);
};
/// The first operand with rows of its first axis replaced by rows of the third at the positions of the second; for
/// duplicates the last row wins. The producer of the rows has checked the positions: one out of range is skipped here.
/// A state that is assigned the result is updated in place.
struct put_rows {
  static constexpr std::string_view name = "put_rows";
  static constexpr int operands = 3, updates = 0;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    shape r;
    if (!detail::takes_positions(in[1], out) || detail::indexed_axis(0, in[0].dims, out) < 0) return;
    if (!detail::gathered_shape(in[0].dims, in[1].dims, 0, r, out)) return;
    if (in[0].element != in[2].element || !fits(r, in[2].dims)) {
      out.why << "the rows to put must be " << in[0].element << r;
      return;
    }
    out.result(in[0].element, in[0].dims);
  }
  static void emit(emission&);
};
/// Rows [n, ...] of the first operand, each replaced by the sum of all rows with the same position [n], a position in
/// the first axis of the third. Numerics: summed in the order of the positions.
struct sum_rows_alike : by_position<"sum_rows_alike", 3, 4> {
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::takes_positions(in[1], out) || !detail::takes(domain::numbers, in[0].element, out) ||
        detail::indexed_axis(0, in[2].dims, out) < 0)
      return;
    if (in[1].dims.rank != 1 || in[0].dims.rank < 1 || !may_equal(in[0].dims[0], in[1].dims[0])) {
      out.why << "rows [n, ...] and positions [n] are expected";
      return;
    }
    out.result(in[0].element, in[0].dims);
  }
  static void emit(emission&);
};
}  // namespace op

using index_operations =
    operation_list<op::cumprod, op::cumsum, op::gather, op::order, op::put_rows, op::scatter_elements, op::scatter_rows,
                   op::sum_rows_alike, op::take_along_axis, op::to_one_hot>;
template <Operation Op> requires index_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace rule {
struct embedding {
  static constexpr std::string_view name = "embedding";
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::takes_positions(in[1], out)) return;
    if (in[0].dims.rank != 2) {
      out.why << "a table [rows, features] is expected";
      return;
    }
    op::gather::infer({0}, in, out);
  }
};
/// Operands in the order in which users pass them: the base, the positions, the updates.
template <class Op, fixed_string Name> struct addition {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 3;
  using attributes = axis_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const tensor_type two[] = {in[0], in[2]};
    if (!detail::same_elements(two, out)) return;
    const tensor_type turned[] = {in[2], in[1], in[0]};
    Op::infer(a, turned, out);
  }
};
template <fixed_string Name> struct order : op::order {
  static constexpr std::string_view name = Name.view();
};
using scatter_add = addition<op::scatter_elements, "scatter_add">;
using index_add = addition<op::scatter_rows, "index_add">;
}  // namespace rule

// ---- functions ------------------------------------------------------------------------------------------------------
//
// Positions are int64 and may be negative, as in NumPy: -1 is the last. A position out of range ends the run with a
// value_error that names the operation, and no state is assigned.

/// Slices of x along an axis at any positions: result[.., j, ..] = x[.., index[j], ..] (ONNX Gather, numpy.take).
/// Shapes: x [3, V, 4], index [5, 6], axis 1 -> [3, 5, 6, 4].   Types: any, index int64.
/// Gradient: slices are added back where they came from, in the order of the positions for any number of threads.
export template <Symbolic X, Symbolic I>
requires accepted<diagnostic<applying_of_rank<op::gather, rank_of_rule, X, I>>()>
constexpr auto gather(const X& x, const I& index, std::int64_t axis, origin_of<X, I> = {}) {
  return apply_of_rank<op::gather, rank_of_rule>({axis}, x, index);
}
export template <Symbolic X, Symbolic I, std::same_as<axis_attributes> A = axis_attributes>
requires accepted<diagnostic<applying_of_rank<op::gather, rank_of_rule, X, I>>()>
constexpr auto gather(const X& x, const I& index, A a, origin_of<X, I> = {}) {
  return apply_of_rank<op::gather, rank_of_rule>(a, x, index);
}
/// The same with the axis as a template parameter; 0 by default.
export template <int Axis = 0, Symbolic X, Symbolic I>
requires accepted<diagnostic<applying_fixed<op::gather, axis_attributes{Axis}, X, I>>()>
constexpr auto gather(const X& x, const I& index, origin_of<X, I> = {}) {
  return apply_fixed<op::gather, axis_attributes{Axis}>(x, index);
}
/// Rows of a table: result[.., :] = table[ids[..], :].   Shapes: table [V, D], ids [...] -> [..., D].
/// Source: Bengio, Ducharme, Vincent, Jauvin, "A neural probabilistic language model" (2003).
export template <Symbolic W, Symbolic I> requires accepted<diagnostic<applying<rule::embedding, W, I>>()>
constexpr auto embedding(const W& table, const I& ids, origin_of<W, I> = {}) {
  detail::obey<rule::embedding>({}, table, ids);
  return gather<0>(table, ids);
}
/// Elements of x along an axis, each at its own position (ONNX GatherElements, numpy.take_along_axis).
/// Shapes: x [3, V], index [3, 5], axis 1 -> [3, 5].   Types: any, index int64.
export template <Symbolic X, Symbolic I>
requires accepted<diagnostic<applying_of_rank<op::take_along_axis, rank_of_rule, X, I>>()>
constexpr auto take_along_axis(const X& x, const I& index, std::int64_t axis, origin_of<X, I> = {}) {
  return apply_of_rank<op::take_along_axis, rank_of_rule>({axis}, x, index);
}
export template <Symbolic X, Symbolic I, std::same_as<axis_attributes> A = axis_attributes>
requires accepted<diagnostic<applying_of_rank<op::take_along_axis, rank_of_rule, X, I>>()>
constexpr auto take_along_axis(const X& x, const I& index, A a, origin_of<X, I> = {}) {
  return apply_of_rank<op::take_along_axis, rank_of_rule>(a, x, index);
}
export template <int Axis, Symbolic X, Symbolic I>
requires accepted<diagnostic<applying_fixed<op::take_along_axis, axis_attributes{Axis}, X, I>>()>
constexpr auto take_along_axis(const X& x, const I& index, origin_of<X, I> = {}) {
  return apply_fixed<op::take_along_axis, axis_attributes{Axis}>(x, index);
}
/// x with updates added at positions along an axis, duplicates accumulated; the adjoint of take_along_axis.
/// Shapes: x [3, V], index and updates [3, 5], axis 1 -> [3, V].   Types: float and integer.
/// Numerics: updates for one position are summed in the order of the positions, then added to x.
export template <Symbolic X, Symbolic I, Symbolic U, std::same_as<axis_attributes> A = axis_attributes>
requires accepted<diagnostic<applying_of_rank<rule::scatter_add, rank_of_rule, X, I, U>>()>
constexpr auto scatter_add(const X& x, const I& index, const U& updates, A a, origin_of<X, I, U> = {}) {
  detail::obey<rule::scatter_add>(a, x, index, updates);
  return x + apply_of_rank<op::scatter_elements, rank_of_rule>(a, updates, index, x);
}
export template <Symbolic X, Symbolic I, Symbolic U>
requires accepted<diagnostic<applying_of_rank<rule::scatter_add, rank_of_rule, X, I, U>>()>
constexpr auto scatter_add(const X& x, const I& index, const U& updates, std::int64_t axis, origin_of<X, I, U> = {}) {
  return scatter_add(x, index, updates, axis_attributes{axis});
}
export template <int Axis, Symbolic X, Symbolic I, Symbolic U>
requires accepted<diagnostic<applying_fixed<rule::scatter_add, axis_attributes{Axis}, X, I, U>>()>
constexpr auto scatter_add(const X& x, const I& index, const U& updates, origin_of<X, I, U> = {}) {
  detail::obey<rule::scatter_add>({Axis}, x, index, updates);
  return x + apply_fixed<op::scatter_elements, axis_attributes{Axis}>(updates, index, x);
}
/// x with slices of updates added at positions of an axis; the adjoint of gather.
/// Shapes: x [V, 4], index [5], updates [5, 4], axis 0 -> [V, 4].   Types: float and integer.
export template <Symbolic X, Symbolic I, Symbolic U, std::same_as<axis_attributes> A = axis_attributes>
requires accepted<diagnostic<applying_of_rank<rule::index_add, rank_of_rule, X, I, U>>()>
constexpr auto index_add(const X& x, const I& index, const U& updates, A a, origin_of<X, I, U> = {}) {
  detail::obey<rule::index_add>(a, x, index, updates);
  return x + apply_of_rank<op::scatter_rows, rank_of_rule>(a, updates, index, x);
}
export template <Symbolic X, Symbolic I, Symbolic U>
requires accepted<diagnostic<applying_of_rank<rule::index_add, rank_of_rule, X, I, U>>()>
constexpr auto index_add(const X& x, const I& index, const U& updates, std::int64_t axis, origin_of<X, I, U> = {}) {
  return index_add(x, index, updates, axis_attributes{axis});
}
export template <int Axis, Symbolic X, Symbolic I, Symbolic U>
requires accepted<diagnostic<applying_fixed<rule::index_add, axis_attributes{Axis}, X, I, U>>()>
constexpr auto index_add(const X& x, const I& index, const U& updates, origin_of<X, I, U> = {}) {
  detail::obey<rule::index_add>({Axis}, x, index, updates);
  return x + apply_fixed<op::scatter_rows, axis_attributes{Axis}>(updates, index, x);
}
/// Zeros with 1 at each position, along a new last axis.   Shapes: [2, 3] with depth 10 -> [2, 3, 10].
/// (`one_hot` makes a tensor from one position known at compile time.)
export template <Symbolic I> requires accepted<diagnostic<run_time_check<"to_one_hot<10>(index)", I>>()>
constexpr auto to_one_hot(const I& index, std::int64_t depth, dtype element = dtype::float32, origin_of<I> = {}) {
  return apply<op::to_one_hot>({depth, element}, index);
}
/// For a typed operand the element type is a template parameter; the depth may be known only at run time.
export template <Element T = float, Typed I>
requires accepted<diagnostic<applying_of_rank<op::to_one_hot, rank_of_rule, I>>()>
auto to_one_hot(const I& index, std::int64_t depth) {
  return cast<T>(apply_of_rank<op::to_one_hot, rank_of_rule>({depth, dtype::float32}, index));
}
/// The same with depth and element type as template parameters.
export template <std::int64_t Depth, Element T = float, Symbolic I>
requires accepted<diagnostic<applying_fixed<op::to_one_hot, one_hot_attributes{Depth, dtype_of<T>}, I>>()>
constexpr auto to_one_hot(const I& index, origin_of<I> = {}) {
  return apply_fixed<op::to_one_hot, one_hot_attributes{Depth, dtype_of<T>}>(index);
}

/// Running sums along an axis; `exclusive` omits the element itself, `reverse` sums from the end.
/// Numerics: float32 adds in double; integers wrap.
export template <std::int64_t Axis = -1, bool Exclusive = false, bool Reverse = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::cumsum, cumsum_attributes{Axis, Exclusive, Reverse}, X>>()>
constexpr auto cumsum(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::cumsum, cumsum_attributes{Axis, Exclusive, Reverse}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<op::cumsum, rank_of_rule, X>>()>
constexpr auto cumsum(const X& x, cumsum_attributes a, origin_of<X> = {}) {
  return apply_of_rank<op::cumsum, rank_of_rule>(a, x);
}

/// Running products along an axis; otherwise as `cumsum`.   Numerics: float32 multiplies in double; integers wrap.
/// Gradient: without division; its memory is quadratic in the extent.
export template <std::int64_t Axis = -1, bool Exclusive = false, bool Reverse = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::cumprod, cumsum_attributes{Axis, Exclusive, Reverse}, X>>()>
constexpr auto cumprod(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::cumprod, cumsum_attributes{Axis, Exclusive, Reverse}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<op::cumprod, rank_of_rule, X>>()>
constexpr auto cumprod(const X& x, cumsum_attributes a, origin_of<X> = {}) {
  return apply_of_rank<op::cumprod, rank_of_rule>(a, x);
}

/// Positions that sort x along an axis; the sort is stable, NaN sorts above all numbers.
export template <std::int64_t Axis = -1, bool Descending = false, Symbolic X> requires accepted<
    diagnostic<applying_fixed<rule::order<"argsort">, order_attributes{order_attributes::all, Axis, Descending}, X>>()>
constexpr auto argsort(const X& x, origin_of<X> = {}) {
  detail::obey<rule::order<"argsort">>({order_attributes::all, Axis, Descending}, x);
  return apply_fixed<op::order, order_attributes{order_attributes::all, Axis, Descending}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<rule::order<"argsort">, rank_of_rule, X>>()>
constexpr auto argsort(const X& x, sort_attributes a, origin_of<X> = {}) {
  detail::obey<rule::order<"argsort">>({order_attributes::all, a.axis, a.descending}, x);
  return apply_of_rank<op::order, rank_of_rule>({order_attributes::all, a.axis, a.descending}, x);
}
/// x sorted along an axis.
export template <std::int64_t Axis = -1, bool Descending = false, Symbolic X> requires accepted<
    diagnostic<applying_fixed<rule::order<"sort">, order_attributes{order_attributes::all, Axis, Descending}, X>>()>
constexpr auto sort(const X& x, origin_of<X> = {}) {
  return take_along_axis<static_cast<int>(Axis)>(x, argsort<Axis, Descending>(x));
}
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<rule::order<"sort">, rank_of_rule, X>>()>
constexpr auto sort(const X& x, sort_attributes a, origin_of<X> = {}) {
  return take_along_axis(x, argsort(x, a), a.axis);
}

/// Elements and their positions: `auto [values, indices] = top_k<3>(x)`.
template <class V, class I> struct top_k_result {
  V values;
  I indices;
};
/// The k largest (or smallest) elements along an axis in sorted order, and their int64 positions; ties: the first ones.
/// Shapes: [3, 9] -> twice [3, k].   Types: float and integer.   Errors: shape_error where there are fewer than k.
/// Gradient: that of the values.
export template <std::int64_t K, std::int64_t Axis = -1, bool Largest = true, Symbolic X>
requires accepted<diagnostic<applying_fixed<rule::order<"top_k">, order_attributes{K, Axis, Largest}, X>>()>
constexpr auto top_k(const X& x, origin_of<X> = {}) {
  detail::obey<rule::order<"top_k">>({K, Axis, Largest}, x);
  auto at = apply_fixed<op::order, order_attributes{K, Axis, Largest}>(x);
  auto values = take_along_axis<static_cast<int>(Axis)>(x, at);
  return top_k_result<decltype(values), decltype(at)>{std::move(values), std::move(at)};
}
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<rule::order<"top_k">, rank_of_rule, X>>()>
constexpr auto top_k(const X& x, top_k_attributes a, origin_of<X> = {}) {
  detail::obey<rule::order<"top_k">>({a.k, a.axis, a.largest}, x);
  auto at = apply_of_rank<op::order, rank_of_rule>({a.k, a.axis, a.largest}, x);
  auto values = take_along_axis(x, at, a.axis);
  return top_k_result<decltype(values), decltype(at)>{std::move(values), std::move(at)};
}

}  // namespace lamina
