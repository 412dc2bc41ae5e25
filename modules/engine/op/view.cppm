// Slices of a tensor and other views of its axes: unsqueeze, squeeze, select, split, stack, and the view as a matrix.
export module lamina:op.view;
import :core;
import :dtype;
import :emission;
import :op;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

struct axes_attributes {
  lamina::axes axes;
  static constexpr void members(auto& a, auto&& f) { f("axes", a.axes); }
  bool operator==(const axes_attributes&) const = default;
};
/// One position of an axis; a negative one counts from the end.
struct select_attributes {
  std::int64_t axis = 0, index = 0;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("index", a.index); }
  bool operator==(const select_attributes&) const = default;
};
/// Positions [start, start + count) of an axis with extent `whole`.
struct section_attributes {
  std::int64_t axis = 0, start = 0, count = 0, whole = 0;
  static constexpr void members(auto& a, auto&& f) {
    f("axis", a.axis), f("start", a.start), f("count", a.count), f("whole", a.whole);
  }
  bool operator==(const section_attributes&) const = default;
};
/// One of `parts` equal parts of an axis.
struct part_attributes {
  std::int64_t axis = 0, part = 0, parts = 1;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("part", a.part), f("parts", a.parts); }
  bool operator==(const part_attributes&) const = default;
};
struct matrix_attributes {
  std::int64_t leading = 0;
  static constexpr void members(auto& a, auto&& f) { f("leading", a.leading); }
  bool operator==(const matrix_attributes&) const = default;
};

namespace detail {
/// Bit mask of the given axes; false where one is out of range or given twice.
constexpr bool named_axes(const axes& a, int rank, unsigned& bits) {
  bits = 0;
  for (int i = 0; i < a.count; ++i) {
    int axis = normal_axis(a[i], rank);
    if (axis < 0 || bits >> axis & 1u) return false;
    bits |= 1u << axis;
  }
  return true;
}
constexpr dim product_of(const shape& s, int from, int to) {
  std::int64_t n = 1;
  for (int i = from; i < to; ++i) {
    if (!s[i].is_number()) return to - from == 1 ? s[i] : dim(dyn);
    n *= s.at(i);
  }
  return n;
}
/// Inverse permutation: result[order[i]] == i; `order` itself where it is no permutation.
constexpr axes inverse_of(const axes& order) {
  axes inverse = order;
  for (int i = 0; i < order.count; ++i) {
    int axis = normal_axis(order[i], order.count);
    if (axis < 0) return order;
    inverse.values[axis] = i;
  }
  return inverse;
}
}  // namespace detail

namespace op {
/// Adds axes of size 1 at the given positions of the result.
struct unsqueeze {
  static constexpr std::string_view name = "unsqueeze";
  static constexpr int operands = 1, alias = 0;
  using attributes = axes_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape& s = in[0].dims;
    unsigned bits = 0;
    int rank = s.rank + a.axes.count;
    if (rank > max_rank) {
      out.why << "the result would have rank " << rank << "; the limit is " << max_rank;
      return;
    }
    if (!detail::named_axes(a.axes, rank, bits)) {
      out.why << "the axes " << a.axes << " are not distinct axes of a result of rank " << rank;
      return;
    }
    shape r;
    for (int i = 0, from = 0; i < rank; ++i) r.push_back(bits >> i & 1u ? dim(1) : s[from++]);
    out.result(in[0].element, r);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Removes the given axes, which have size 1; all axes of size 1 if none is given.
struct squeeze {
  static constexpr std::string_view name = "squeeze";
  static constexpr int operands = 1, alias = 0;
  using attributes = axes_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape& s = in[0].dims;
    unsigned bits = 0;
    if (!detail::named_axes(a.axes, s.rank, bits)) {
      out.why << "the axes " << a.axes << " are not distinct axes of the operand";
      return;
    }
    shape r;
    for (int i = 0; i < s.rank; ++i) {
      if (a.axes.count == 0 && !s[i].is_number()) {
        out.why << "axis " << i << " is not known yet; name the axes";
        return;
      }
      bool removed = a.axes.count ? bits >> i & 1u : s[i] == dim(1);
      if (removed && !may_equal(s[i], 1)) {
        out.why << "axis " << i << " has " << s[i] << " positions, not one";
        return;
      }
      if (!removed) r.push_back(s[i]);
    }
    out.result(in[0].element, r);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct select {
  static constexpr std::string_view name = "select";
  static constexpr int operands = 1;
  static constexpr bool keeps_elements = true;
  using attributes = select_attributes;
  static constexpr axis_view part_of(const attributes& a, const shape& s) {
    const int axis = detail::normal_axis(a.axis, s.rank);
    return {axis, a.index < 0 ? a.index + s.at(axis) : a.index, 1};
  }
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape& s = in[0].dims;
    int axis = detail::normal_axis(a.axis, s.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    if (s[axis].is_number() && (a.index >= s.at(axis) || a.index < -s.at(axis))) {
      out.why << "position " << a.index << " is outside of axis " << a.axis;
      return;
    }
    shape r;
    for (int i = 0; i < s.rank; ++i)
      if (i != axis) r.push_back(s[i]);
    out.result(in[0].element, r);
  }
  static constexpr shape static_shape(view<const tensor_type> in) {
    shape r;
    for (int i = 1; i < in[0].dims.rank; ++i) r.push_back(dyn);
    return r;
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
export struct section {
  static constexpr std::string_view name = "split";
  static constexpr int operands = 1;
  static constexpr bool keeps_elements = true;
  using attributes = section_attributes;
  static constexpr axis_view part_of(const attributes& a, const shape& s) {
    return {detail::normal_axis(a.axis, s.rank), a.start, a.count};
  }
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
    int axis = detail::normal_axis(a.axis, s.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    if (a.count < 0) {
      out.why << "a part cannot have " << a.count << " positions";
      return;
    }
    if (!may_equal(s[axis], a.whole)) {
      out.why << "the parts of axis " << a.axis << " add up to " << a.whole << " positions";
      return;
    }
    if (a.start < 0 || a.count > a.whole || a.start > a.whole - a.count) {
      out.why << a.count << " positions from " << a.start << " do not fit in " << a.whole;
      return;
    }
    s[axis] = a.count;
    out.result(in[0].element, s);
  }
  static image_layouts images(const image_call&);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct equal_part {
  static constexpr std::string_view name = "split_evenly";
  static constexpr int operands = 1;
  static constexpr bool keeps_elements = true;
  using attributes = part_attributes;
  static constexpr axis_view part_of(const attributes& a, const shape& s) {
    const int axis = detail::normal_axis(a.axis, s.rank);
    const std::int64_t count = s.at(axis) / a.parts;
    return {axis, a.part * count, count};
  }
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
    int axis = detail::normal_axis(a.axis, s.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    if (a.parts < 1) {
      out.why << a.parts << " parts";
      return;
    }
    if (a.part < 0 || a.part >= a.parts) {
      out.why << "part " << a.part << " of " << a.parts;
      return;
    }
    if (s[axis].is_number() && s.at(axis) % a.parts) {
      out.why << "axis " << a.axis << " does not divide into " << a.parts << " equal parts";
      return;
    }
    s[axis] = s[axis].is_number() ? dim(s.at(axis) / a.parts) : dim(dyn);
    out.result(in[0].element, s);
  }
  static image_layouts images(const image_call&);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The adjoint of equal_part: zeros of the second operand's shape with the first operand at the part's positions.
struct split_grad {
  static constexpr std::string_view name = "split_grad";
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = part_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Merges the first `leading` axes into rows, the others into columns.
struct as_matrix {
  static constexpr std::string_view name = "as_matrix";
  static constexpr int operands = 1, alias = 0;
  using attributes = matrix_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape& s = in[0].dims;
    if (a.leading < 0 || a.leading > s.rank) {
      out.why << a.leading << " leading axes are more than the rank";
      return;
    }
    auto leading = static_cast<int>(a.leading);
    out.result(in[0].element, {detail::product_of(s, 0, leading), detail::product_of(s, leading, s.rank)});
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The first operand, available only after the second: delays the nodes that read it, and keeps them from being merged
/// with nodes that read the operand itself.
struct computed_after {
  static constexpr std::string_view name = "computed_after";
  static constexpr int operands = 2, alias = 0;
  static constexpr auto identity = identity_rule::never;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using view_operations = operation_list<op::as_matrix, op::computed_after, op::equal_part, op::section, op::select,
                                       op::split_grad, op::squeeze, op::unsqueeze>;
template <Operation Op> requires view_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

// ---- functions ------------------------------------------------------------------------------------------------------

/// Adds axes of size 1 at positions of the result.   Shapes: [2, 3] -> [1, 2, 3] for axis 0.   Cost: none, a view.
/// Axes are template parameters, `unsqueeze<0>(x)`, or a list, `unsqueeze(x, {0})`.
export template <int... Axes, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::unsqueeze, axes_attributes{axes(Axes...)}, X>>()>
constexpr auto unsqueeze(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::unsqueeze, axes_attributes{axes(Axes...)}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"unsqueeze(x, {0})", X>>()>
constexpr auto unsqueeze(const X& x, axes at, origin_of<X> = {}) {
  return apply<op::unsqueeze>({at}, x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::unsqueeze, rank_more<N>, X>>()>
constexpr auto unsqueeze(const X& x, const T (&at)[N], origin_of<X> = {}) {
  return apply_of_rank<op::unsqueeze, rank_more<N>>({axes::of(at)}, x);
}
/// Removes the given axes of size 1, or all axes of size 1: `squeeze<0>(x)`, `squeeze(x, {0})`.
/// Cost:   none, a view.
/// Errors: shape_error for an axis of another size.
// The list overload comes first, so that its diagnostic is printed first.
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::squeeze, rank_less<N>, X>>()>
constexpr auto squeeze(const X& x, const T (&at)[N], origin_of<X> = {}) {
  return apply_of_rank<op::squeeze, rank_less<N>>({axes::of(at)}, x);
}
export template <int... Axes, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::squeeze, axes_attributes{axes(Axes...)}, X>>()>
constexpr auto squeeze(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::squeeze, axes_attributes{axes(Axes...)}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"squeeze(x, {0})", X>>()>
constexpr auto squeeze(const X& x, axes at, origin_of<X> = {}) {
  return apply<op::squeeze>({at}, x);
}

/// Element or slice at a position of an axis; the axis is removed. A negative position counts from the end.
/// Errors: shape_error for a position out of range: when the operation is made, or at planning if the extent becomes
/// known only then.
/// `x[i]` is select(x, 0, i).
export template <Symbolic X> requires accepted<diagnostic<applying<op::select, X>>()>
constexpr auto select(const X& x, std::int64_t axis, std::int64_t index, origin_of<X> = {}) {
  return apply<op::select>({axis, index}, x);
}
export template <Symbolic X, std::same_as<select_attributes> A = select_attributes>
requires accepted<diagnostic<applying<op::select, X>>()> constexpr auto select(const X& x, A a, origin_of<X> = {}) {
  return apply<op::select>(a, x);
}
/// The same with axis and position as template parameters.
export template <std::int64_t Axis, std::int64_t Index, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::select, select_attributes{Axis, Index}, X>>()>
constexpr auto select(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::select, select_attributes{Axis, Index}>(x);
}

/// Splits an axis into equal consecutive parts.   Errors: shape_error where they would not be equal.
/// For a typed operand the result is a tuple: `auto [a, b] = split<2, 1>(x)`.
export template <std::int64_t Parts, std::int64_t Axis = 0, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::equal_part, part_attributes{Axis, 0, Parts}, X>>()>
constexpr auto split(const X& x, origin_of<X> = {}) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::make_tuple(
        apply_fixed<op::equal_part, part_attributes{Axis, static_cast<std::int64_t>(I), Parts}>(x)...);
  }(std::make_index_sequence<static_cast<std::size_t>(Parts)>{});
}
/// The same along an axis known at run time: `split<2>(x, {.axis = i})`.
export template <std::int64_t Parts, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::equal_part, rank_of_rule, X>>()>
constexpr auto split(const X& x, axis_attributes a, origin_of<X> = {}) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::make_tuple(
        apply_of_rank<op::equal_part, rank_of_rule>({a.axis, static_cast<std::int64_t>(I), Parts}, x)...);
  }(std::make_index_sequence<static_cast<std::size_t>(Parts)>{});
}
export std::vector<value> split(const value& x, std::int64_t parts, std::int64_t axis = 0, const origin& = {});
/// Splits an axis into parts of the given sizes, which add up to its extent: `split(x, {2, 3}, 1)`.
export std::vector<value> split(const value& x, std::initializer_list<std::int64_t> sizes, std::int64_t axis = 0,
                                const origin& = {});
export std::vector<value> split(const value& x, view<const std::int64_t> sizes, std::int64_t axis = 0,
                                const origin& = {});
namespace detail {
constexpr std::int64_t sum_of(const axes& a, int count) {
  std::int64_t n = 0;
  for (int i = 0; i < count; ++i) n += a[i];
  return n;
}
}  // namespace detail
/// The same with the sizes as a template parameter: `split<axes(2, 3), 1>(x)`.
export template <auto Sizes, std::int64_t Axis = 0, Symbolic X>
requires std::same_as<std::remove_const_t<decltype(Sizes)>, axes> &&
         accepted<diagnostic<applying_fixed<
             op::section, section_attributes{Axis, 0, Sizes[0], detail::sum_of(Sizes, Sizes.count)}, X>>()>
constexpr auto split(const X& x, origin_of<X> = {}) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return std::make_tuple(
        apply_fixed<op::section, section_attributes{Axis, detail::sum_of(Sizes, static_cast<int>(I)),
                                                    Sizes[static_cast<int>(I)], detail::sum_of(Sizes, Sizes.count)}>(
            x)...);
  }(std::make_index_sequence<static_cast<std::size_t>(Sizes.count)>{});
}

/// Stacks tensors of one shape along a new axis.   Shapes: [2, 3] [2, 3] -> [2, 2, 3].
export template <int Axis = 0, TypedSymbolic... X> constexpr auto stack(const X&... x) {
  return concat<Axis>(apply_fixed<op::unsqueeze, axes_attributes{axes(Axis)}>(x)...);
}
/// The same for any number of values of a program.
export value stack(view<const value> x, std::int64_t axis = 0, const origin& = {});
/// Concatenates values of a program along an axis.
export value concat(view<const value> x, std::int64_t axis = 0, const origin& = {});
export template <int Axis = 0, std::same_as<value>... X> value stack(const placed_value& first, const X&... others) {
  const origin here(first.at());
  const value all[] = {first.held(), others...};
  return stack(view<const value>(all), Axis);
}
// No constraint on X: Clang 22 would explain it in three notes before it reaches the overload for tensors.
export template <int Axis = 0, class... X, class = std::enable_if_t<(std::is_same_v<X, value> && ...)>>
value concat(const placed_value& first, const X&... others) {
  const origin here(first.at());
  const value all[] = {first.held(), others...};
  return concat(view<const value>(all), Axis);
}

/// Inverse of permute: axis order[i] of the result is axis i of x.
export template <int... Order, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::permute, permute_attributes{axes(Order...)}, X>>()>
constexpr auto permute_inverse(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::permute, permute_attributes{detail::inverse_of(axes(Order...))}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<op::permute, same_rank, X>>()>
constexpr auto permute_inverse(const X& x, axes order, origin_of<X> = {}) {
  return apply_of_rank<op::permute, same_rank>(permute_attributes{detail::inverse_of(order)}, x);
}

/// Merges the first `Leading` axes into rows and the others into columns.   Cost: none, a view.
export template <std::int64_t Leading, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::as_matrix, matrix_attributes{Leading}, X>>()>
constexpr auto as_matrix(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::as_matrix, matrix_attributes{Leading}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<op::as_matrix, fixed_rank<2>, X>>()>
constexpr auto as_matrix(const X& x, std::int64_t leading, origin_of<X> = {}) {
  return apply_of_rank<op::as_matrix, fixed_rank<2>>({leading}, x);
}

}  // namespace lamina
