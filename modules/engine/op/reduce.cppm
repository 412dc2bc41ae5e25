// Reductions over axes, and softmax along one or several axes.
export module lamina:op.reduce;
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

extern "C++" {
namespace kernels {
struct reduction_functions;
}
}

/// Axes to reduce (all if empty) and whether they are kept with size 1.
export struct reduce_attributes {
  lamina::axes axes{};
  bool keepdim = false;
  static constexpr void members(auto& a, auto&& f) { f("axes", a.axes), f("keepdim", a.keepdim); }
  bool operator==(const reduce_attributes&) const = default;
};
/// Attributes of typed operands: one axis that is removed, or axes that are kept.
struct one_axis {
  single_axis axes;
};
struct kept_axes {
  lamina::axes axes{};
  always_kept keepdim;
};
struct argmax_attributes {
  std::int64_t axis = -1;
  bool keepdim = false;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("keepdim", a.keepdim); }
  bool operator==(const argmax_attributes&) const = default;
};
/// The same for `argmax_attributes`: an axis that is kept.
struct kept_axis {
  std::int64_t axis;
  always_kept keepdim;
};
struct softmax_attributes {
  std::int64_t axis = -1;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis); }
  bool operator==(const softmax_attributes&) const = default;
};

namespace detail {
/// Bit mask of the reduced axes; false where one is out of range or given twice.
constexpr bool reduced_axes(const reduce_attributes& a, int rank, unsigned& bits) {
  bits = a.axes.count ? 0u : (1u << rank) - 1u;
  for (int i = 0; i < a.axes.count; ++i) {
    int axis = normal_axis(a.axes[i], rank);
    if (axis < 0 || bits >> axis & 1u) return false;
    bits |= 1u << axis;
  }
  return true;
}
constexpr shape reduced_shape(const shape& s, unsigned bits, bool keepdim) {
  shape r;
  for (int i = 0; i < s.rank; ++i) {
    if (!(bits >> i & 1u)) r.push_back(s[i]);
    else if (keepdim) r.push_back(1);
  }
  return r;
}
/// Merged adjacent axes of an operand, all of them kept or all reduced.
struct axis_group {
  std::int64_t size;
  bool reduced;
};
/// Groups of an operand's axes, outermost first; a bit for each reduced axis.
std::vector<axis_group> groups_of(const shape& s, unsigned reduced);
/// Emits one reduction of the numbers in `from` over their axis groups, outermost first, to the first result.
void emit_groups(emission&, const kernels::reduction_functions&, buffer_ref from, dtype element,
                 std::vector<axis_group> groups);
/// Axes along which broadcasting a shape to that of the operand repeats: a bit for each.
unsigned repeated_axes(const shape& x, const shape& to);
void emit_reduction(emission&, const kernels::reduction_functions&);
void emit_sum_like(emission&);
void map_reduced_axis(const reduce_attributes&, axis_map&);
/// Blocked images are reduced over whole maps without a layout change.
image_layouts reduced_images(const image_call&);
}  // namespace detail

/// Common base of the definitions of reductions.
template <fixed_string Name, domain Domain> struct reduction {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 1;
  static constexpr bool rule_of_rank = true;  // all extents are valid
  using attributes = reduce_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(Domain, in[0].element, out)) return;
    unsigned bits = 0;
    if (!detail::reduced_axes(a, in[0].dims.rank, bits)) {
      out.why << "the axes " << a.axes << " are not distinct axes of the operand";
      return;
    }
    out.result(in[0].element, detail::reduced_shape(in[0].dims, bits, a.keepdim));
  }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return static_cast<double>(in[0].dims.size());
  }
  static void map_axis(const attributes& a, axis_map& m) { detail::map_reduced_axis(a, m); }
};

namespace op {
export struct reduce_sum : reduction<"reduce_sum", domain::numbers> {
  static unsigned summed_axes(const reduce_attributes& a, view<const tensor_type> in) {
    unsigned bits = 0;
    detail::reduced_axes(a, in[0].dims.rank, bits);
    return bits;
  }
  static image_layouts images(const image_call& c) { return detail::reduced_images(c); }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
export struct reduce_mean : reduction<"reduce_mean", domain::real> {
  static image_layouts images(const image_call& c) { return detail::reduced_images(c); }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
export struct reduce_max : reduction<"reduce_max", domain::numbers> {
  static image_layouts images(const image_call& c) { return detail::reduced_images(c); }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
export struct reduce_min : reduction<"reduce_min", domain::numbers> {
  static image_layouts images(const image_call& c) { return detail::reduced_images(c); }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
export struct reduce_prod : reduction<"reduce_prod", domain::numbers> {
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct reduce_any : reduction<"reduce_any", domain::logic> {
  static void emit(emission&);
};
struct reduce_all : reduction<"reduce_all", domain::logic> {
  static void emit(emission&);
};

/// For each entry of a row the product of the other entries: the derivative of a product, without division.
struct product_of_others {
  static constexpr std::string_view name = "product_of_others";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Directional derivative of `product_of_others`; the second operand is the direction.
struct product_of_others_slope {
  static constexpr std::string_view name = "product_of_others_slope";
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static void emit(emission&);
};

/// The adjoint of a reduction: the first operand broadcast over the reduced axes of the second; only its shape is read.
template <fixed_string Name, domain Domain> struct spread_definition {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = reduce_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(Domain, in[0].element, out)) return;
    unsigned bits = 0;
    const shape& to = in[1].dims;
    if (!detail::reduced_axes(a, to.rank, bits)) {
      out.why << "the axes " << a.axes << " are not distinct axes of the second operand";
      return;
    }
    const shape reduced = detail::reduced_shape(to, bits, a.keepdim);
    if (!fits(reduced, in[0].dims)) {
      out.why << "the operand to spread must be " << reduced;
      return;
    }
    out.result(in[0].element, to);
  }
};
struct spread : spread_definition<"spread", domain::any> {
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// The same divided by the number of elements that each was reduced from.
struct spread_mean : spread_definition<"spread_mean", domain::real> {
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};

/// Common base of argmax and argmin.
template <fixed_string Name> struct extreme_position {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 1;
  using attributes = argmax_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::numbers, in[0].element, out)) return;
    int axis = detail::normal_axis(a.axis, in[0].dims.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    if (in[0].dims[axis] == dim(0)) {
      out.why << "axis " << a.axis << " has no elements";
      return;
    }
    out.result(dtype::int64, detail::reduced_shape(in[0].dims, 1u << axis, a.keepdim));
  }
};
struct argmax : extreme_position<"argmax"> {
  static void emit(emission&);
};
struct argmin : extreme_position<"argmin"> {
  static void emit(emission&);
};

template <fixed_string Name> struct softmax_definition {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 1;
  using attributes = softmax_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::real, in[0].element, out)) return;
    if (detail::normal_axis(a.axis, in[0].dims.rank) < 0) {
      out.why << "axis " << a.axis << " is outside the rank";
      return;
    }
    out.result(in[0].element, in[0].dims);
  }
  static constexpr shape static_shape(view<const tensor_type> in) { return in[0].dims; }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return 5.0 * static_cast<double>(in[0].dims.size());
  }
  static void map_axis(const attributes& a, axis_map& m) { m.independent = m.before(a.axis); }
};
export struct softmax : softmax_definition<"softmax">, in_patterns<rewriting::attention_pattern> {
  static value logarithm(const attributes&, const value& x);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
export struct log_softmax : softmax_definition<"log_softmax"> {
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using reduce_operations =
    operation_list<op::argmax, op::argmin, op::log_softmax, op::product_of_others, op::product_of_others_slope,
                   op::reduce_all, op::reduce_any, op::reduce_max, op::reduce_mean, op::reduce_min, op::reduce_prod,
                   op::reduce_sum, op::softmax, op::spread, op::spread_mean>;
template <Operation Op> requires reduce_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

struct last_axes {
  int count = 1;
  static constexpr void members(auto& a, auto&& f) { f("count", a.count); }
  bool operator==(const last_axes&) const = default;
};
namespace rule {
template <fixed_string Name> struct softmax_of_last {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 1;
  using attributes = last_axes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::real, in[0].element, out)) return;
    if (a.count < 1 || a.count > in[0].dims.rank)
      out.why << "cannot take the last " << a.count << " axes of the operand";
  }
};
}  // namespace rule
namespace detail {
template <int Last, class X> constexpr auto last_as_columns(const X& x) {
  if constexpr (std::same_as<evaluation_mode_of<X>, lazy>)
    return as_matrix<evaluation_mode_of<X>::template rank_of<X> - Last>(x);
  else return as_matrix(x, x.shape().rank - Last);
}
}  // namespace detail

// ---- functions ------------------------------------------------------------------------------------------------------
// Over all axes: `reduce_sum(x)`, or `reduce_sum<axes(), true>(x)`, where `axes()` is parsed as a function type; over
// axes in the type: `reduce_sum<axes(0), true>(x)`, with extents known at compile time; over a list:
// `reduce_sum(x, {0, 2})`; with attributes: `reduce_sum(x, {.axes = {0, 2}, .keepdim = true})`. For a typed operand the
// rank of the result must follow from the call: its attributes give one axis, or axes that are kept.

/// Sum over axes.   Shapes: reduced axes are removed, or kept as 1 with keepdim.
/// Numerics: summed in a fixed order that depends only on the extents.   Errors: shape_error for an axis out of range.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_sum, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto reduce_sum(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_sum, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_sum, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto reduce_sum(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_sum, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_sum, rank_less<N>, X>>()>
constexpr auto reduce_sum(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_sum, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"reduce_sum(x, {0, 2})", X>>()>
constexpr auto reduce_sum(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_sum>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_sum, rank_less<1>, X>>()>
auto reduce_sum(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_sum, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_sum, same_rank, X>>()>
auto reduce_sum(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_sum, same_rank>({a.axes, true}, x);
}
/// Mean over axes.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_mean, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto reduce_mean(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_mean, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_mean, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto reduce_mean(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_mean, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_mean, rank_less<N>, X>>()>
constexpr auto reduce_mean(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_mean, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"reduce_mean(x, {0, 2})", X>>()>
constexpr auto reduce_mean(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_mean>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_mean, rank_less<1>, X>>()>
auto reduce_mean(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_mean, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_mean, same_rank, X>>()>
auto reduce_mean(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_mean, same_rank>({a.axes, true}, x);
}
/// Largest element over axes; ties share the gradient.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_max, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto reduce_max(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_max, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_max, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto reduce_max(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_max, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_max, rank_less<N>, X>>()>
constexpr auto reduce_max(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_max, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"reduce_max(x, {0, 2})", X>>()>
constexpr auto reduce_max(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_max>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_max, rank_less<1>, X>>()>
auto reduce_max(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_max, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_max, same_rank, X>>()>
auto reduce_max(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_max, same_rank>({a.axes, true}, x);
}
/// Smallest element over axes.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_min, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto reduce_min(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_min, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_min, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto reduce_min(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_min, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_min, rank_less<N>, X>>()>
constexpr auto reduce_min(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_min, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"reduce_min(x, {0, 2})", X>>()>
constexpr auto reduce_min(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_min>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_min, rank_less<1>, X>>()>
auto reduce_min(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_min, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_min, same_rank, X>>()>
auto reduce_min(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_min, same_rank>({a.axes, true}, x);
}
/// Product over axes; 1 over no elements.   Types: float and integer.
/// Gradient: correct where elements are zero, too; it has a second derivative, and no third.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_prod, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto reduce_prod(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_prod, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_prod, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto reduce_prod(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_prod, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_prod, rank_less<N>, X>>()>
constexpr auto reduce_prod(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_prod, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"reduce_prod(x, {0, 2})", X>>()>
constexpr auto reduce_prod(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_prod>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_prod, rank_less<1>, X>>()>
auto reduce_prod(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_prod, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_prod, same_rank, X>>()>
auto reduce_prod(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_prod, same_rank>({a.axes, true}, x);
}
/// Whether any bool over axes is true; false over no elements.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_any, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto reduce_any(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_any, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_any, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto reduce_any(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_any, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_any, rank_less<N>, X>>()>
constexpr auto reduce_any(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_any, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"reduce_any(x, {0, 2})", X>>()>
constexpr auto reduce_any(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_any>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_any, rank_less<1>, X>>()>
auto reduce_any(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_any, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_any, same_rank, X>>()>
auto reduce_any(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_any, same_rank>({a.axes, true}, x);
}
/// Whether all bools over axes are true; true over no elements.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::reduce_all, reduce_attributes{Axes, Keepdim}, X>>()>
constexpr auto reduce_all(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_all, reduce_attributes{Axes, Keepdim}>(x);
}
export template <class All = void, bool Keepdim = false, Symbolic X>
requires std::same_as<All, axes()> &&
         accepted<diagnostic<applying_fixed<op::reduce_all, reduce_attributes{{}, Keepdim}, X>>()>
constexpr auto reduce_all(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::reduce_all, reduce_attributes{{}, Keepdim}>(x);
}
export template <Listed T, std::size_t N, Symbolic X>
requires accepted<diagnostic<applying_of_rank<op::reduce_all, rank_less<N>, X>>()>
constexpr auto reduce_all(const X& x, const T (&over)[N], origin_of<X> = {}) {
  return apply_of_rank<op::reduce_all, rank_less<N>>({axes::of(over)}, x);
}
export template <Symbolic X> requires accepted<diagnostic<run_time_check<"reduce_all(x, {0, 2})", X>>()>
constexpr auto reduce_all(const X& x, reduce_attributes a, origin_of<X> = {}) {
  return apply<op::reduce_all>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_all, rank_less<1>, X>>()>
auto reduce_all(const X& x, one_axis a) {
  return apply_of_rank<op::reduce_all, rank_less<1>>({axes(a.axes.axis)}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::reduce_all, same_rank, X>>()>
auto reduce_all(const X& x, kept_axes a) {
  return apply_of_rank<op::reduce_all, same_rank>({a.axes, true}, x);
}
/// Position of the smallest element along an axis, the first of ties; int64. The axis defaults to the last one, as in
/// all functions along one axis (`softmax`, `sort`, `cumsum`, `top_k`).
export template <int Axis = -1, bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::argmin, argmax_attributes{Axis, Keepdim}, X>>()>
constexpr auto argmin(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::argmin, argmax_attributes{Axis, Keepdim}>(x);
}
export template <Symbolic X> requires(!Typed<X>)
constexpr auto argmin(const X& x, argmax_attributes a, origin_of<X> = {}) {
  return apply<op::argmin>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::argmin, rank_of_rule, X>>()>
auto argmin(const X& x, axis_attributes a) {
  return apply_of_rank<op::argmin, rank_of_rule>({a.axis}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::argmin, same_rank, X>>()>
auto argmin(const X& x, kept_axis a) {
  return apply_of_rank<op::argmin, same_rank>({a.axis, true}, x);
}
/// Position of the largest element along an axis (default: the last one), the first of ties; int64.
export template <int Axis = -1, bool Keepdim = false, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::argmax, argmax_attributes{Axis, Keepdim}, X>>()>
constexpr auto argmax(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::argmax, argmax_attributes{Axis, Keepdim}>(x);
}
export template <Symbolic X> requires(!Typed<X>)
constexpr auto argmax(const X& x, argmax_attributes a, origin_of<X> = {}) {
  return apply<op::argmax>(a, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::argmax, rank_of_rule, X>>()>
auto argmax(const X& x, axis_attributes a) {
  return apply_of_rank<op::argmax, rank_of_rule>({a.axis}, x);
}
export template <Typed X> requires accepted<diagnostic<applying_of_rank<op::argmax, same_rank, X>>()>
auto argmax(const X& x, kept_axis a) {
  return apply_of_rank<op::argmax, same_rank>({a.axis, true}, x);
}
/// exp(x - max) / sum of exp(x - max) along an axis.   Numerics: no overflow for large x.
export template <std::int64_t Axis = -1, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::softmax, softmax_attributes{Axis}, X>>()>
constexpr auto softmax(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::softmax, softmax_attributes{Axis}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<applying<op::softmax, X>>()>
constexpr auto softmax(const X& x, softmax_attributes a, origin_of<X> = {}) {
  return apply<op::softmax>(a, x);
}
/// Logarithm of softmax, without underflow.
export template <std::int64_t Axis = -1, Symbolic X>
requires accepted<diagnostic<applying_fixed<op::log_softmax, softmax_attributes{Axis}, X>>()>
constexpr auto log_softmax(const X& x, origin_of<X> = {}) {
  return apply_fixed<op::log_softmax, softmax_attributes{Axis}>(x);
}
export template <Symbolic X> requires accepted<diagnostic<applying<op::log_softmax, X>>()>
constexpr auto log_softmax(const X& x, softmax_attributes a, origin_of<X> = {}) {
  return apply<op::log_softmax>(a, x);
}
/// Softmax over the last N axes as one distribution.   Shapes: any of that rank or more; the same.
export template <int N, Symbolic X>
requires accepted<diagnostic<applying_fixed<rule::softmax_of_last<"softmax_over_last">, last_axes{N}, X>>()>
constexpr auto softmax_over_last(const X& x, origin_of<X> = {}) {
  detail::obey<rule::softmax_of_last<"softmax_over_last">>({N}, x);
  return reshape_like(softmax(detail::last_as_columns<N>(x)), x);
}
/// Logarithm of softmax over the last N axes.
export template <int N, Symbolic X>
requires accepted<diagnostic<applying_fixed<rule::softmax_of_last<"log_softmax_over_last">, last_axes{N}, X>>()>
constexpr auto log_softmax_over_last(const X& x, origin_of<X> = {}) {
  detail::obey<rule::softmax_of_last<"log_softmax_over_last">>({N}, x);
  return reshape_like(log_softmax(detail::last_as_columns<N>(x)), x);
}

}  // namespace lamina
