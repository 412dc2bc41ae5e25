// Operations that enlarge tensors: tiling, repeated elements, constant padding.
export module lamina:op.tile;
import :core;
import :dtype;
import :emission;
import :op;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

struct tile_attributes {
  shape repeats;
  static constexpr void members(auto& a, auto&& f) { f("repeats", a.repeats); }
  bool operator==(const tile_attributes&) const = default;
};
struct tile_to_attributes {
  shape to;
  static constexpr void members(auto& a, auto&& f) { f("to", a.to); }
  bool operator==(const tile_to_attributes&) const = default;
};
struct repeat_attributes {
  std::int64_t count = 1, axis = 0;
  static constexpr void members(auto& a, auto&& f) { f("count", a.count), f("axis", a.axis); }
  bool operator==(const repeat_attributes&) const = default;
};
/// Positions added before and after those of an axis, filled with a number.
export struct pad_attributes {
  std::int64_t axis = 0, before = 0, after = 0;
  double value = 0;
  static constexpr void members(auto& a, auto&& f) {
    f("axis", a.axis), f("before", a.before), f("after", a.after), f("value", a.value);
  }
  bool operator==(const pad_attributes&) const = default;
};

namespace detail {
/// Whether `whole` is a multiple of `part`, as far as both are known.
constexpr bool multiple_of(dim whole, dim part) {
  if (!whole.is_number() || !part.is_number()) return true;
  return part.code ? whole.code % part.code == 0 : whole.code == 0;
}
/// Whether `all` is a tiling of `one`, with trailing axes aligned.
constexpr bool tiles_fit(const shape& one, const shape& all, inference& out) {
  if (all.rank < one.rank) {
    out.why << "the rank of " << all << " is less than that of the operand";
    return false;
  }
  for (int i = all.rank - one.rank; i < all.rank; ++i)
    if (const dim part = one[i - (all.rank - one.rank)]; !multiple_of(all[i], part)) {
      out.why << "extent " << all[i] << " of " << all << " is not a multiple of " << part;
      return false;
    }
  return true;
}
/// Whether `all` is the shape of `one` with the elements along an axis repeated.
constexpr bool repeats_fit(const shape& one, const shape& all, std::int64_t at, inference& out) {
  const int axis = normal_axis(at, one.rank);
  if (axis < 0) {
    out.why << "axis " << at << " is outside the rank";
    return false;
  }
  bool fit = one.rank == all.rank;
  for (int i = 0; fit && i < one.rank; ++i) fit = i == axis ? multiple_of(all[i], one[i]) : may_equal(all[i], one[i]);
  if (!fit) out.why << all << " is not " << one << " with elements repeated along axis " << axis;
  return fit;
}
}  // namespace detail

namespace op {
struct tile {
  static constexpr std::string_view name = "tile";
  static constexpr int operands = 1;
  static constexpr bool keeps_elements = true;
  using attributes = tile_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape &s = in[0].dims, &n = a.repeats;
    shape r;
    r.rank = std::max(s.rank, n.rank);
    for (int i = 0; i < r.rank; ++i) {
      int from = i - (r.rank - s.rank), by = i - (r.rank - n.rank);
      dim size = from < 0 ? dim(1) : s[from], times = by < 0 ? dim(1) : n[by];
      if (!times.is_number()) {
        out.why << "the repeats " << n << " must be known";
        return;
      }
      std::int64_t product = 0;
      if (size.is_number() && __builtin_mul_overflow(size.code, times.code, &product)) {
        out.why << times << " tiles are too many";
        return;
      }
      r[i] = size.is_number() ? dim(product) : times == dim(1) ? size : dim(dyn);
    }
    out.result(in[0].element, r);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct tile_to {
  static constexpr std::string_view name = "tile_to";
  static constexpr int operands = 1;
  static constexpr bool any_element = true;
  static constexpr bool keeps_elements = true;
  using attributes = tile_to_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape &s = in[0].dims, &to = a.to;
    for (int i = 0; i < to.rank; ++i)
      if (to[i] == dim(dyn) && to.rank >= s.rank) {
        out.why << "no extent of " << to << " can be inferred";
        return;
      }
    if (detail::tiles_fit(s, to, out)) out.result(in[0].element, to);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The first operand tiled to the shape of the second; only the shape of the second is read.
struct tile_like {
  static constexpr std::string_view name = "tile_like";
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The adjoint of tiling: the sum of the tiles, which have the shape of the second operand.
struct tile_grad {
  static constexpr std::string_view name = "tile_grad";
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct repeat {
  static constexpr std::string_view name = "repeat";
  static constexpr int operands = 1;
  static constexpr bool keeps_elements = true;
  using attributes = repeat_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
    int axis = detail::normal_axis(a.axis, s.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    std::int64_t n = 0;
    if (a.count < 0 || (s[axis].is_number() && __builtin_mul_overflow(s.at(axis), a.count, &n))) {
      out.why << "elements cannot be repeated " << a.count << " times";
      return;
    }
    s[axis] = s[axis].is_number() ? dim(n) : a.count == 1 ? s[axis] : dim(dyn);
    out.result(in[0].element, s);
  }
  static image_layouts images(const image_call&);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The adjoint of repeat: sums repeated elements; the second operand's shape, that of the result, gives the count.
struct repeat_grad {
  static constexpr std::string_view name = "repeat_grad";
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = axis_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct repeat_like {
  static constexpr std::string_view name = "repeat_like";
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = axis_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct pad {
  static constexpr std::string_view name = "pad";
  static constexpr int operands = 1;
  using attributes = pad_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
    int axis = detail::normal_axis(a.axis, s.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    std::int64_t n = 0;
    if (a.before < 0 || a.after < 0 || __builtin_add_overflow(a.before, a.after, &n) ||
        (s[axis].is_number() && __builtin_add_overflow(s.at(axis), n, &n))) {
      out.why << "a border cannot have " << a.before << " positions before and " << a.after << " after";
      return;
    }
    bool held = with_type(in[0].element, [&]<class T>() {
      T v{};
      return detail::to_element(a.value, v);
    });
    if (!held) {
      out.why << detail::number_mismatch(a.value, in[0].element);
      out.of_elements = true;
      return;
    }
    s[axis] = s[axis].is_number() ? dim(n) : n ? dim(dyn) : s[axis];
    out.result(in[0].element, s);
  }
  static image_layouts images(const image_call&);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using tile_operations = operation_list<op::pad, op::repeat, op::repeat_grad, op::repeat_like, op::tile, op::tile_grad,
                                       op::tile_like, op::tile_to>;
template <Operation Op> requires tile_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace rule {
struct tile_to_attributes {
  shape to;
  axes new_axes;
};
struct tile_to {
  static constexpr std::string_view name = "tile_to";
  static constexpr int operands = 1;
  using attributes = tile_to_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    inference widened;
    op::unsqueeze::infer({a.new_axes}, in, widened);
    if (!widened.why.empty()) out.why << widened.why;
    else op::tile_to::infer({a.to}, view<const tensor_type>(widened.results, 1), out);
  }
};
}  // namespace rule

// ---- functions ------------------------------------------------------------------------------------------------------

/// x tiled repeats[i] times along axis i; the shorter of shape and repeats is extended by leading ones (as numpy.tile).
/// Shapes: [2, 3] by {2, 1} -> [4, 3]; [3] by {2, 1} -> [2, 3].   Types: any.   Errors: shape_error.
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"tile(x, {2, 1})", X>>()>
constexpr auto tile(const X& x, const shape& repeats, origin_of<X> = {}) {
  return apply<op::tile>({repeats}, x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::tile, rank_at_least<N>, X>>()>
constexpr auto tile(const X& x, const T (&repeats)[N], origin_of<X> = {}) {
  return apply_of_rank<op::tile, rank_at_least<N>>({detail::shape_of_list(repeats)}, x);
}
/// The same with the repeats as template parameters.
export template <std::int64_t... Repeats, Symbolic X>
requires(sizeof...(Repeats) > 0) &&
        accepted<diagnostic<applying_fixed<op::tile, tile_attributes{shape{dim(Repeats)...}}, X>>()>
constexpr auto tile(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::tile, tile_attributes{shape{dim(Repeats)...}}>(x);
}
/// x tiled to a shape whose extents are multiples of its own; `new_axes` names the axes of that shape which x does not
/// have: the leading ones by default.
/// Shapes: [2, 3] to [4, 3]; [2, 3] to [4, 2, 3]; [2, 3] to [2, 5, 3] with new axis 1.   Types: any.
/// Errors: shape_error where an extent is no multiple.
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"tile_to(x, {4, 3})", X>>()>
constexpr auto tile_to(const X& x, const shape& to, axes new_axes = {}, origin_of<X> = {}) {
  return new_axes.count ? apply<op::tile_to>({to}, unsqueeze(x, new_axes)) : apply<op::tile_to>({to}, x);
}
/// Run-time extents of a typed operand are given as a list, whose length is the rank: `tile_to(x, {4, 3})`.
export template <std::size_t Rank, Typed X>
requires accepted<diagnostic<applying_of_rank<op::tile_to, fixed_rank<Rank>, X>>()>
auto tile_to(const X& x, const dim (&to)[Rank], axes new_axes = {}) {
  // One type, whether axes are given or not: by default the leading ones are new.
  if (new_axes.count == 0)
    for (int i = x.shape().rank; i < static_cast<int>(Rank); ++i)
      new_axes.values[new_axes.count] = new_axes.count, ++new_axes.count;
  detail::obey<rule::tile_to>({detail::shape_of_list(to), new_axes}, x);
  return apply_of_rank<op::tile_to, fixed_rank<Rank>>({detail::shape_of_list(to)},
                                                      apply_of_rank<op::unsqueeze, fixed_rank<Rank>>({new_axes}, x));
}
/// The same with extents as template parameters: `tile_to<extents<2, 5, 3>, 1>(x)`.
export template <class To, int... NewAxes, Symbolic X> requires accepted<
    diagnostic<applying_fixed<rule::tile_to, rule::tile_to_attributes{To::pattern, axes(NewAxes...)}, X>>()>
constexpr auto tile_to(const X& x, origin_of<X> = {}) {
  if constexpr (To::pattern.is_static()) detail::obey<rule::tile_to>({To::pattern, axes(NewAxes...)}, x);
  if constexpr (sizeof...(NewAxes) == 0) return apply_fixed<op::tile_to, tile_to_attributes{To::pattern}>(x);
  else return apply_fixed<op::tile_to, tile_to_attributes{To::pattern}>(unsqueeze<NewAxes...>(x));
}
/// Repeats each element along an axis (as numpy.repeat).   Shapes: [2, 3], 2 times along 1 -> [2, 6].   Types: any.
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<op::repeat, rank_of_rule, X>>()>
constexpr auto repeat(const X& x, std::int64_t count, std::int64_t axis = 0, origin_of<X> = {}) {
  return apply_of_rank<op::repeat, rank_of_rule>({count, axis}, x);
}
export template <Symbolic X, std::same_as<repeat_attributes> A = repeat_attributes>
requires accepted<diagnostic<applying_of_rank<op::repeat, rank_of_rule, X>>()>
constexpr auto repeat(const X& x, A a, origin_of<X> = {}) {
  return apply_of_rank<op::repeat, rank_of_rule>(a, x);
}
/// The same with count and axis as template parameters.
export template <std::int64_t Count, std::int64_t Axis = 0, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::repeat, repeat_attributes{Count, Axis}, X>>()>
constexpr auto repeat(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::repeat, repeat_attributes{Count, Axis}>(x);
}
/// Pads before and after an axis with a number; one call for each axis.
/// Shapes: [2, 3] with 1 before and 2 after axis 1 -> [2, 6].   Types: any.
/// Errors: shape_error for a negative border, type_error for a number that the element type cannot represent.
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<op::pad, rank_of_rule, X>>()>
constexpr auto pad(const X& x, pad_attributes a, origin_of<X> = {}) {
  return apply_of_rank<op::pad, rank_of_rule>(a, x);
}
/// The same with attributes as a template parameter.
export template <pad_attributes A, Symbolic X> requires accepted<diagnostic<applying_fixed<op::pad, A, X>>()>
constexpr auto pad(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::pad, A>(x);
}

}  // namespace lamina
