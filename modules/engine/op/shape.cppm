// Operations that move elements without changing them: reshape, permute, slice, concat, broadcast and their adjoints.
export module lamina:op.shape;
import :core;
import :dtype;
import :emission;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

struct reshape_attributes {
  shape to;
  static constexpr void members(auto& a, auto&& f) { f("to", a.to); }
  bool operator==(const reshape_attributes&) const = default;
};
struct flatten_attributes {
  std::int64_t from = 1;
  static constexpr void members(auto& a, auto&& f) { f("from", a.from); }
  bool operator==(const flatten_attributes&) const = default;
};
struct permute_attributes {
  axes order;
  static constexpr void members(auto& a, auto&& f) { f("order", a.order); }
  bool operator==(const permute_attributes&) const = default;
};
/// Elements [start, stop) of one axis; negative positions count from the end, stop is clamped to the end.
export struct slice_attributes {
  std::int64_t start = 0, stop = std::numeric_limits<std::int64_t>::max(), axis = 0, step = 1;
  static constexpr void members(auto& a, auto&& f) {
    f("start", a.start), f("stop", a.stop), f("axis", a.axis), f("step", a.step);
  }
  bool operator==(const slice_attributes&) const = default;
};
struct axis_attributes {
  std::int64_t axis = 0;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis); }
  bool operator==(const axis_attributes&) const = default;
};
struct concat_part_attributes {
  std::int64_t axis = 0, part = 0;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("part", a.part); }
  bool operator==(const concat_part_attributes&) const = default;
};

namespace detail {
/// First position and count of a slice of an axis with known extent.
struct slice_range {
  std::int64_t first, count;
};
constexpr slice_range resolve(const slice_attributes& a, std::int64_t size) {
  auto inside = [&](std::int64_t p) { return p < 0 ? (p + size < 0 ? 0 : p + size) : p > size ? size : p; };
  std::int64_t first = inside(a.start), last = inside(a.stop);
  return {first, last <= first ? 0 : (last - first - 1) / a.step + 1};
}
/// Whether elements of a type can be added.
constexpr bool adds(dtype element, inference& out) {
  if (is_real(element) || is_integer(element)) return true;
  out.refuse(element, "float32, float64 or an integer type", "float");
  return false;
}
template <class T, std::size_t N> constexpr shape shape_of_list(const T (&list)[N]) {
  static_assert(N <= static_cast<std::size_t>(max_rank), "a shape has at most 8 extents");
  shape s;
  for (const T& n : list) s.push_back(dim(n));
  return s;
}
/// Whether the symbolic names of the two shapes pair up from extent `first` on, so that the numbers alone decide the
/// element count. With a name on one side only, the count is not known yet.
constexpr bool same_names(const shape& from, const shape& to, int first) {
  bool paired[max_rank]{};
  for (int i = first; i < from.rank; ++i) {
    if (from[i].is_number()) continue;
    int k = first;
    while (k < to.rank && !(from[i].is_name() && to[k] == from[i] && !paired[k])) ++k;
    if (k == to.rank) return false;
    paired[k] = true;
  }
  for (int i = first; i < to.rank; ++i)
    if (to[i].is_name() && !paired[i]) return false;
  return true;
}
constexpr void infer_reshape(const shape& from, const shape& to, dtype element, inference& out) {
  int unknown = -1, own = 0, open = 0;
  for (int i = 0; i < to.rank; ++i) open += to[i] == dim(dyn);
  while (own < open - 1 && own < from.rank && to[own] == dim(dyn)) ++own;
  std::int64_t n = 1, known = 1;
  bool fits = true;  // the product fits in 64 bits
  for (int i = own; i < to.rank; ++i) {
    if (to[i].is_number()) fits = !__builtin_mul_overflow(known, to.at(i), &known) && fits;
    else if (to[i].is_name()) continue;
    else if (unknown < 0) unknown = i;
    else {
      out.why << "only leading unknown extents and one more can be inferred; " << to << " has more";
      return;
    }
  }
  for (int i = own; i < from.rank; ++i)
    if (from[i].is_number()) n *= from.at(i);
  const bool decided = same_names(from, to, own);
  shape s = to;
  for (int i = 0; i < own; ++i) s.dims[i] = from[i];
  if (decided && unknown >= 0) {
    if (!fits || known == 0 || n % known != 0) {
      out.why << n << " elements do not divide into " << to;
      return;
    }
    s[unknown] = dim(n / known);
  } else if (decided && (!fits || n != known)) {
    out.why << n << " elements do not make " << to;
    return;
  }
  out.result(element, s);
}
}  // namespace detail

namespace op {
struct reshape {
  static constexpr std::string_view name = "reshape";
  static constexpr int operands = 1, alias = 0;
  using attributes = reshape_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    detail::infer_reshape(in[0].dims, a.to, in[0].element, out);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// The first operand reshaped to the second's shape; only the shape of the second is read.
struct reshape_like {
  static constexpr std::string_view name = "reshape_like";
  static constexpr int operands = 2, alias = 0;
  static constexpr unsigned shape_only = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    const shape &from = in[0].dims, &to = in[1].dims;
    if (from.is_static() && to.is_static() && from.size() != to.size()) {
      out.why << from.size() << " elements do not make " << to;
      return;
    }
    out.result(in[0].element, to);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The first operand, which must have the element type and shape of the second: result of a gradient rule for an
/// operand whose extents are known only when a plan is made.
struct gradient_like {
  static constexpr std::string_view name = "gradient_like";
  static constexpr int operands = 2, alias = 0;
  static constexpr unsigned shape_only = 2;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct flatten {
  static constexpr std::string_view name = "flatten";
  static constexpr int operands = 1, alias = 0;
  using attributes = flatten_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape& s = in[0].dims;
    int from = a.from == s.rank ? s.rank : detail::normal_axis(a.from, s.rank);
    if (from < 0) {
      out.why << "axis " << a.from << " is outside the rank";
      return;
    }
    shape r;
    dim rest = 1;
    for (int i = 0; i < s.rank; ++i) {
      if (i < from) r.push_back(s[i]);
      else rest = rest.is_number() && s[i].is_number() ? dim(rest.code * s.at(i)) : dim(dyn);
    }
    r.push_back(rest);
    out.result(in[0].element, r);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
export struct permute : in_patterns<rewriting::channel_shuffle_pattern> {
  static constexpr std::string_view name = "permute";
  static constexpr bool keeps_elements = true;
  static bool swaps_heads_and_rows(const permute_attributes& a) {
    const int rank = a.order.count;
    for (int i = 0; i < rank; ++i)
      if (detail::normal_axis(a.order[i], rank) != (i == rank - 3 ? rank - 2 : i == rank - 2 ? rank - 3 : i))
        return false;
    return rank >= 3;
  }
  static constexpr bool any_element = true;
  static constexpr int operands = 1;
  using attributes = permute_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    const shape& s = in[0].dims;
    if (a.order.count != s.rank) {
      out.why << "the order " << a.order << " does not name every axis once";
      return;
    }
    unsigned seen = 0;
    shape r;
    for (int i = 0; i < s.rank; ++i) {
      int axis = detail::normal_axis(a.order[i], s.rank);
      if (axis < 0 || seen >> axis & 1u) {
        out.why << "the order " << a.order << " does not name every axis once";
        return;
      }
      seen |= 1u << axis;
      r.push_back(s[axis]);
    }
    out.result(in[0].element, r);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
struct slice {
  static constexpr std::string_view name = "slice";
  static constexpr int operands = 1;
  static constexpr bool keeps_elements = true;
  static std::optional<axis_view> part_of(const slice_attributes& a, const shape& whole) {
    if (a.step != 1) return {};
    const int axis = detail::normal_axis(static_cast<int>(a.axis), whole.rank);
    const auto at = detail::resolve(a, whole.at(axis));
    return axis_view{axis, at.first, at.count};
  }
  using attributes = slice_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
    int axis = detail::normal_axis(a.axis, s.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    if (a.step < 1) {
      out.why << "a step of " << a.step << " is not positive";
      return;
    }
    s[axis] = s[axis].is_number() ? dim(detail::resolve(a, s.at(axis)).count) : dim(dyn);
    out.result(in[0].element, s);
  }
  static constexpr shape static_shape(view<const tensor_type> in) {
    shape s = in[0].dims;
    for (int i = 0; i < s.rank; ++i) s[i] = dyn;
    return s;
  }
  static image_layouts images(const image_call&);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// The adjoint of `slice`: zeros of the second operand's shape with the first operand at the sliced positions.
struct slice_grad {
  static constexpr std::string_view name = "slice_grad";
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = slice_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
export struct concat : in_patterns<rewriting::rotary_embedding_pattern> {
  static constexpr std::string_view name = "concat";
  static constexpr int operands = -1;
  static constexpr bool keeps_elements = true;
  using attributes = axis_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::same_elements(in, out)) return;
    shape s = in[0].dims;
    int axis = detail::normal_axis(a.axis, s.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    for (std::size_t i = 1; i < in.size(); ++i) {
      const shape& o = in[i].dims;
      if (o.rank != s.rank) {
        out.why << "the ranks differ";
        return;
      }
      for (int d = 0; d < s.rank; ++d) {
        if (d == axis) s[d] = s[d].is_number() && o[d].is_number() ? dim(s.at(d) + o.at(d)) : dim(dyn);
        else if (!may_equal(s[d], o[d])) {
          out.why << "the sizes differ on axis " << d << ", not only on " << axis;
          return;
        } else s[d] = better(s[d], o[d]);
      }
    }
    out.result(in[0].element, s);
  }
  static axis_view operand_place(const attributes& a, view<const tensor_type> in, std::size_t i) {
    const int axis = detail::normal_axis(a.axis, in[i].dims.rank);
    axis_view at{axis, 0, in[i].dims.at(axis)};
    for (std::size_t k = 0; k < i; ++k) at.first += in[k].dims.at(axis);
    return at;
  }
  static image_layouts images(const image_call&);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// The slice of a concatenation, operand 0, that came from operand 1 + `part`; of the others only shapes are read.
struct concat_part {
  static constexpr std::string_view name = "concat_part";
  static constexpr int operands = -1;
  static constexpr unsigned shape_only = ~1u;
  using attributes = concat_part_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The first operand broadcast to the shape of the second; only the shape of the second is read.
struct broadcast_like {
  static constexpr std::string_view name = "broadcast_like";
  static constexpr int operands = 2;
  static constexpr auto identity = identity_rule::if_types_agree;
  static constexpr unsigned shape_only = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    shape s;
    if (!broadcast(in[0].dims, in[1].dims, s) || !fits(s, in[1].dims)) {
      out.why << "the first shape does not broadcast to the second";
      return;
    }
    out.result(in[0].element, in[1].dims);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The adjoint of broadcasting: the first operand summed to the shape of the second; only that shape is read.
struct sum_like {
  static constexpr std::string_view name = "sum_like";
  static constexpr int operands = 2;
  static constexpr auto identity = identity_rule::if_types_agree;
  static constexpr unsigned shape_only = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    shape s;
    if (!detail::adds(in[0].element, out)) return;
    if (!broadcast(in[1].dims, in[0].dims, s) || !fits(s, in[0].dims)) {
      out.why << "the second shape does not broadcast to the first";
      return;
    }
    out.result(in[0].element, in[1].dims);
  }
  static unsigned summed_axes(const attributes&, view<const tensor_type> in);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The extents of the operand as int64; constant-folded when the plan is made.
struct shape_of {
  static constexpr std::string_view name = "shape_of";
  static constexpr int operands = 1;
  static constexpr unsigned shape_only = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    out.result(dtype::int64, shape{dim(in[0].dims.rank)});
  }
  static void emit(emission&);
};
}  // namespace op

using shape_operations =
    operation_list<op::broadcast_like, op::concat, op::concat_part, op::flatten, op::gradient_like, op::permute,
                   op::reshape, op::reshape_like, op::shape_of, op::slice, op::slice_grad, op::sum_like>;
template <Operation Op> requires shape_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace rule {
struct transpose {
  static constexpr std::string_view name = "transpose";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (in[0].dims.rank != 2) out.why << "takes a matrix; `permute` exchanges axes of other ranks";
  }
};
}  // namespace rule

// ---- functions ------------------------------------------------------------------------------------------------------

/// The same elements with another shape; one `dyn` extent is inferred. Of several, all but the last must be leading and
/// keep the operand's extents: [5, 3, 8] to [dyn, dyn, 2, 4] is [5, 3, 2, 4].   Cost: none, a view.
/// Errors: shape_error where the element counts differ.
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"reshape(x, {6, 2})", X>>()>
constexpr auto reshape(const X& x, const shape& to, origin_of<X> = {}) {
  return apply<op::reshape>(reshape_attributes{to}, x);
}
/// Run-time extents of a typed operand are given as a list, whose length is the rank: `reshape(x, {n, dyn})`.
export template <std::size_t Rank, Typed X>
requires accepted<diagnostic<applying_of_rank<op::reshape, fixed_rank<Rank>, X>>()>
auto reshape(const X& x, const dim (&to)[Rank]) {
  return apply_of_rank<op::reshape, fixed_rank<Rank>>({detail::shape_of_list(to)}, x);
}
/// The same with extents as a template parameter: `reshape<extents<dyn, 10>>(x)`.
// The default makes it the later of two candidates where extents are an argument.
export template <class To = void, Symbolic X> requires requires {
  To::pattern;
} && accepted<diagnostic<applying_fixed<op::reshape, reshape_attributes{To::pattern}, X>>()>
constexpr auto reshape(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reshape, reshape_attributes{To::pattern}>(x);
}
/// Merges the axes from `from` on.   Shapes: [N, C, H, W] -> [N, C H W].
/// For a typed operand the axis is a template parameter (`flatten<2>(x)`), since it decides the rank of the result.
/// Errors: shape_error for an axis outside the rank.
export template <std::int64_t From = 1, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::flatten, flatten_attributes{From}, X>>()>
constexpr auto flatten(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::flatten, flatten_attributes{From}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"flatten<2>(x)", X>>()>
constexpr auto flatten(const X& x, flatten_attributes a, origin_of<X> = {}) {
  return apply<op::flatten>(a, x);
}
/// Axis i of the result is axis order[i] of x: `permute<1, 0>(x)`, or `permute(x, {1, 0})` at run time.
export template <int... Order, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::permute, permute_attributes{axes(Order...)}, X>>()>
constexpr auto permute(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::permute, permute_attributes{axes(Order...)}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<applying_of_rank<op::permute, same_rank, X>>()>
constexpr auto permute(const X& x, axes order, origin_of<X> = {}) {
  return apply_of_rank<op::permute, same_rank>(permute_attributes{order}, x);
}
/// Exchanges rows and columns.   Shapes: [M, N] -> [N, M].
export template <Symbolic X> requires accepted<diagnostic<applying<rule::transpose, X>>()>
constexpr auto transpose(const X& x, origin_of<X> = {}) {
  return permute<1, 0>(x);
}
/// Positions start, start + step, ... before stop of one axis.
export template <Symbolic X> requires accepted<diagnostic<applying<op::slice, X>>()>
constexpr auto slice(const X& x, slice_attributes a, origin_of<X> = {}) {
  return apply<op::slice>(a, x);
}
/// The same with attributes as a template parameter: `slice<slice_attributes{.stop = 2}>(x)`.
// The invalid default makes it the later of two candidates where attributes are an argument.
export template <slice_attributes A = slice_attributes{.step = 0}, Symbolic X>
requires(A.step != 0) && accepted<diagnostic<applying_fixed<op::slice, A, X>>()>
constexpr auto slice(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::slice, A>(x);
}
/// Concatenates tensors along an axis.   Errors: shape_error where another axis differs.
// With the mismatch as a template parameter, Clang prints it earlier, right after the overload for values of a program.
export template <int Axis = 0, TypedSymbolic... X,
                 fixed_string Mismatch = diagnostic<applying_fixed<op::concat, axis_attributes{Axis}, X...>>()>
requires message_is<Mismatch, ""> constexpr auto concat(const X&... x) {
  return apply_fixed<op::concat, axis_attributes{Axis}>(x...);
}
/// x broadcast to the shape of `like`.
export template <Symbolic X, Symbolic Like> requires accepted<diagnostic<applying<op::broadcast_like, X, Like>>()>
constexpr auto broadcast_like(const X& x, const Like& like, origin_of<X, Like> = {}) {
  return apply<op::broadcast_like>({}, x, like);
}
/// x summed over the axes along which `like` would be broadcast to its shape.
export template <Symbolic X, Symbolic Like> requires accepted<diagnostic<applying<op::sum_like, X, Like>>()>
constexpr auto sum_like(const X& x, const Like& like, origin_of<X, Like> = {}) {
  if constexpr (std::same_as<evaluation_mode_of<X>, program_mode>)
    if (surely_equal(x.shape(), like.shape())) return x;
  if constexpr (std::same_as<evaluation_mode_of<X>, program_mode>) return value(apply<op::sum_like>({}, x, like));
  else return apply<op::sum_like>({}, x, like);
}
/// x reshaped to the shape of `like`.
export template <Symbolic X, Symbolic Like> requires accepted<diagnostic<applying<op::reshape_like, X, Like>>()>
constexpr auto reshape_like(const X& x, const Like& like, origin_of<X, Like> = {}) {
  return apply<op::reshape_like>({}, x, like);
}
/// The extents of x as an int64 vector.
export template <Symbolic X> constexpr auto shape_of(const X& x, origin_of<X> = {}) {
  return apply<op::shape_of>({}, x);
}

}  // namespace lamina
