// Reductions over axes, and softmax along one.
export module lamina:op.reduce;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Which axes to reduce (none named: all) and whether they stay with size 1.
export struct reduce_attributes {
  lamina::axes axes;
  bool keepdim = false;
  static constexpr void members(auto& a, auto&& f) { f("axes", a.axes), f("keepdim", a.keepdim); }
  bool operator==(const reduce_attributes&) const = default;
};
export struct argmax_attributes {
  std::int64_t axis = -1;
  bool keepdim = false;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("keepdim", a.keepdim); }
  bool operator==(const argmax_attributes&) const = default;
};
export struct softmax_attributes {
  std::int64_t axis = -1;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis); }
  bool operator==(const softmax_attributes&) const = default;
};

namespace detail {
/// A bit for each axis that is reduced; false where one is outside the rank or named twice.
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
void emit_reduction(emission&, int kind);
}  // namespace detail

/// What the definitions of reductions share.
export template <fixed_string Name, domain Domain>
struct reduction {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 1;
  using attributes = reduce_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(Domain, in[0].element, out)) return;
    unsigned bits = 0;
    if (!detail::reduced_axes(a, in[0].dims.rank, bits)) { out.why << "the axes " << a.axes << " are not distinct axes of the operand"; return; }
    out.result(in[0].element, detail::reduced_shape(in[0].dims, bits, a.keepdim));
  }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) { return static_cast<double>(in[0].dims.size()); }
};

namespace op {
export struct reduce_sum : reduction<"reduce_sum", domain::numbers> { static void gradient(gradient_call&); static void emit(emission&); };
export struct reduce_mean : reduction<"reduce_mean", domain::real> { static void gradient(gradient_call&); static void emit(emission&); };
export struct reduce_max : reduction<"reduce_max", domain::numbers> { static void gradient(gradient_call&); static void emit(emission&); };
export struct reduce_min : reduction<"reduce_min", domain::numbers> { static void gradient(gradient_call&); static void emit(emission&); };

/// The adjoint of a reduction: the first operand repeated over the reduced axes of the second, whose shape alone is read.
template <fixed_string Name>
struct spread_definition {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 2;
  static constexpr unsigned shape_only = 2;
  using attributes = reduce_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) { out.result(in[0].element, in[1].dims); }
};
export struct spread : spread_definition<"spread"> { static void gradient(gradient_call&); static void emit(emission&); };
/// The same divided by the number of elements that each was reduced from.
export struct spread_mean : spread_definition<"spread_mean"> { static void gradient(gradient_call&); static void emit(emission&); };

export struct argmax {
  static constexpr std::string_view name = "argmax";
  static constexpr int operands = 1;
  using attributes = argmax_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::numbers, in[0].element, out)) return;
    int axis = detail::normal_axis(a.axis, in[0].dims.rank);
    if (axis < 0) { out.why << "axis " << a.axis << " is outside the rank"; return; }
    if (in[0].dims[axis] == dim(0)) { out.why << "axis " << a.axis << " has no elements"; return; }
    out.result(dtype::int64, detail::reduced_shape(in[0].dims, 1u << axis, a.keepdim));
  }
  static void emit(emission&);
};

template <fixed_string Name>
struct softmax_definition {
  static constexpr std::string_view name = Name.view();
  static constexpr int operands = 1;
  using attributes = softmax_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::takes(domain::real, in[0].element, out)) return;
    if (detail::normal_axis(a.axis, in[0].dims.rank) < 0) { out.why << "axis " << a.axis << " is outside the rank"; return; }
    out.result(in[0].element, in[0].dims);
  }
  static constexpr shape loose(view<const tensor_type> in) { return in[0].dims; }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) { return 5.0 * static_cast<double>(in[0].dims.size()); }
};
export struct softmax : softmax_definition<"softmax"> { static void gradient(gradient_call&); static void emit(emission&); };
export struct log_softmax : softmax_definition<"log_softmax"> { static void gradient(gradient_call&); static void emit(emission&); };
}  // namespace op

// ---- spellings: all axes, axes in the type (`reduce_sum<axes(0), true>(x)`), or run-time attributes ------------------

/// Sum over axes.   Shapes: reduced axes vanish, or stay as 1 with keepdim.
/// Numerics: summed in a fixed order that depends on the lengths alone.   Errors: shape_error for an axis outside the rank.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
  requires ApplicableFixed<op::reduce_sum, reduce_attributes{Axes, Keepdim}, X>
constexpr auto reduce_sum(const X& x) { return apply_fixed<op::reduce_sum, reduce_attributes{Axes, Keepdim}>(x); }
export template <Symbolic X>
  requires RunTimeAttributes<"reduce_sum<axes(0)>(x)", X>
constexpr auto reduce_sum(const X& x, reduce_attributes a) { return apply<op::reduce_sum>(a, x); }
/// Mean over axes.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
  requires ApplicableFixed<op::reduce_mean, reduce_attributes{Axes, Keepdim}, X>
constexpr auto reduce_mean(const X& x) { return apply_fixed<op::reduce_mean, reduce_attributes{Axes, Keepdim}>(x); }
export template <Symbolic X>
  requires RunTimeAttributes<"reduce_mean<axes(0)>(x)", X>
constexpr auto reduce_mean(const X& x, reduce_attributes a) { return apply<op::reduce_mean>(a, x); }
/// Largest element over axes; the gradient is shared by equal ones.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
  requires ApplicableFixed<op::reduce_max, reduce_attributes{Axes, Keepdim}, X>
constexpr auto reduce_max(const X& x) { return apply_fixed<op::reduce_max, reduce_attributes{Axes, Keepdim}>(x); }
export template <Symbolic X>
  requires RunTimeAttributes<"reduce_max<axes(0)>(x)", X>
constexpr auto reduce_max(const X& x, reduce_attributes a) { return apply<op::reduce_max>(a, x); }
/// Smallest element over axes.
export template <axes Axes = axes(), bool Keepdim = false, Symbolic X>
  requires ApplicableFixed<op::reduce_min, reduce_attributes{Axes, Keepdim}, X>
constexpr auto reduce_min(const X& x) { return apply_fixed<op::reduce_min, reduce_attributes{Axes, Keepdim}>(x); }
export template <Symbolic X>
  requires RunTimeAttributes<"reduce_min<axes(0)>(x)", X>
constexpr auto reduce_min(const X& x, reduce_attributes a) { return apply<op::reduce_min>(a, x); }
/// Position of the largest element along an axis, the first of equals; int64.
export template <int Axis = -1, bool Keepdim = false, Symbolic X>
  requires ApplicableFixed<op::argmax, argmax_attributes{Axis, Keepdim}, X>
constexpr auto argmax(const X& x) { return apply_fixed<op::argmax, argmax_attributes{Axis, Keepdim}>(x); }
/// exp(x - max) / sum of it along an axis.   Numerics: safe for large x.
export template <Symbolic X>
  requires Applicable<op::softmax, X>
constexpr auto softmax(const X& x, softmax_attributes a = {}) { return apply<op::softmax>(a, x); }
/// Logarithm of softmax, without its underflow.
export template <Symbolic X>
  requires Applicable<op::log_softmax, X>
constexpr auto log_softmax(const X& x, softmax_attributes a = {}) { return apply<op::log_softmax>(a, x); }

}  // namespace lamina
