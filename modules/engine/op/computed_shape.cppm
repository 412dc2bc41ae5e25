// Operations whose result shape is computed: an operand holds the target shape, positions or counts. They have no
// kernels. Once the elements of that operand are known, `bind` replaces the call by operations of known shapes; where
// they are known only in a run, the program is split there.
export module lamina:op.computed_shape;
import :core;
import :dtype;
import :op;
import :op.sized;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Whether 0 in a target shape keeps the operand's extent at that axis, as in ONNX; else it is an extent of 0.
struct reshape_to_attributes {
  bool keep_zero = false;
  static constexpr void members(auto& a, auto&& f) { f("keep_zero", a.keep_zero); }
  bool operator==(const reshape_to_attributes&) const = default;
};
/// The padded axes, and the padding value.
struct pad_by_attributes {
  lamina::axes axes;
  double value = 0;
  static constexpr void members(auto& a, auto&& f) { f("axes", a.axes), f("value", a.value); }
  bool operator==(const pad_by_attributes&) const = default;
};

namespace op {
/// Operands: elements; the extents of the result, of which one may be -1 (inferred).
struct reshape_to {
  static constexpr std::string_view name = "reshape_to";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 1;
  using attributes = reshape_to_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Operands: elements; the extents to broadcast them with.
struct expand_to {
  static constexpr std::string_view name = "expand_to";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 1;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static value bind(const attributes&, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Operands: elements; a start, a stop and optionally a step for each of the axes.
struct slice_at {
  static constexpr std::string_view name = "slice_at";
  static constexpr int operands = -1;
  static constexpr unsigned shape_operands = 0b1110;
  using attributes = axes_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Adjoint of `slice_at`: zeros of operand 1's shape with operand 0 at the sliced positions; the rest as in `slice_at`.
struct slice_at_grad {
  static constexpr std::string_view name = "slice_at_grad";
  static constexpr int operands = -1;
  static constexpr unsigned shape_only = 1u << 1, shape_operands = 0b11100;
  using attributes = axes_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Operands: elements; the number of tiles along each axis.
struct tile_by {
  static constexpr std::string_view name = "tile_by";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 1;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static value bind(const attributes&, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Operands: elements; the numbers of positions added before each of the axes, then after each; negative ones crop.
struct pad_by {
  static constexpr std::string_view name = "pad_by";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 1;
  using attributes = pad_by_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// The adjoint of `pad_by`. Operands: the padded tensor, the unpadded one (only its shape is read), the border sizes.
struct pad_by_grad {
  static constexpr std::string_view name = "pad_by_grad";
  static constexpr int operands = 3;
  static constexpr unsigned shape_only = 1u << 1, shape_operands = 1u << 2;
  using attributes = axes_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Operands: start, stop and step, one number each.
struct arange {
  static constexpr std::string_view name = "arange";
  static constexpr int operands = 3;
  static constexpr unsigned shape_operands = 0b111;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static value bind(const attributes&, view<const value> in);
};
/// Operands: the extents of the result; the value of all its elements.
struct full {
  static constexpr std::string_view name = "full";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 0;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static value bind(const attributes&, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
}  // namespace op

using computed_shape_operations = operation_list<op::arange, op::expand_to, op::full, op::pad_by, op::pad_by_grad,
                                                 op::reshape_to, op::slice_at, op::slice_at_grad, op::tile_by>;
template <Operation Op> requires computed_shape_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

// ---- functions ------------------------------------------------------------------------------------------------------
//
// For values of programs and nets. The operand that decides a shape is an int64 vector of known length: the rank of a
// result is known when a program is built, its extents at the latest when that vector has been computed.

/// Reshapes x to a computed shape; one extent may be -1 (inferred). With {.keep_zero = true} a 0 keeps the extent of x.
/// Shapes:  x [2, 6], to = {3, -1} -> [3, 4].   Types: any, `to` int64.   Cost: none, a view.
/// Errors:  shape_error where the counts differ.
export template <Symbolic X, Symbolic S> requires accepted<diagnostic<counted_when_run<"reshape_to", X, S>>()>
constexpr auto reshape_to(const X& x, const S& to, reshape_to_attributes a = {}, origin_of<X, S> = {}) {
  return apply<op::reshape_to>(a, x, to);
}
/// Broadcasts x to a computed shape, along axes of extent 1 and new leading axes. An extent of 1 in that shape keeps
/// the extent of x (ONNX Expand).
/// Shapes:  x [3, 1], to = {2, 1, 4} -> [2, 3, 4].   Types: any, `to` int64.   Errors: shape_error.
export template <Symbolic X, Symbolic S> requires accepted<diagnostic<counted_when_run<"expand", X, S>>()>
constexpr auto expand(const X& x, const S& to, origin_of<X, S> = {}) {
  return apply<op::expand_to>({}, x, to);
}
/// Slices several axes at computed positions start, start + step, ... before stop. Negative positions count from the
/// end, positions beyond an axis are clamped, and steps may be negative (NumPy's x[start:stop:step]).
/// Shapes:  x [5, 7], starts = {1, -3}, stops = {9, 6}, axes {0, 1} -> [4, 2].   Types: any, the others int64.
/// Errors:  shape_error for a step of 0, and for an axis that x does not have.
export template <Symbolic X, Symbolic A, Symbolic B>
requires accepted<diagnostic<counted_when_run<"slice_at", X, A, B>>()>
constexpr auto slice_at(const X& x, const A& starts, const B& stops, axes along, origin_of<X, A, B> = {}) {
  return apply<op::slice_at>({along}, x, starts, stops);
}
export template <Symbolic X, Symbolic A, Symbolic B, Symbolic S>
requires accepted<diagnostic<counted_when_run<"slice_at", X, A, B, S>>()>
constexpr auto slice_at(const X& x, const A& starts, const B& stops, axes along, const S& steps,
                        origin_of<X, A, B, S> = {}) {
  return apply<op::slice_at>({along}, x, starts, stops, steps);
}
/// Repeats x along each axis a computed number of times.
/// Shapes:  x [2, 3], repeats = {2, 1} -> [4, 3].   Types: any, repeats int64.   Errors: shape_error.
export template <Symbolic X, Symbolic N> requires accepted<diagnostic<counted_when_run<"tile_by", X, N>>()>
constexpr auto tile_by(const X& x, const N& repeats, origin_of<X, N> = {}) {
  return apply<op::tile_by>({}, x, repeats);
}
/// Pads by computed border sizes: first those before each of the axes, then those after; negative ones crop.
/// Shapes:  x [2, 3], borders = {1, 0, 0, 2}, {.axes = {0, 1}} -> [3, 5].   Types: any, borders int64.   Errors: shape_error.
export template <Symbolic X, Symbolic N> requires accepted<diagnostic<counted_when_run<"pad_by", X, N>>()>
constexpr auto pad_by(const X& x, const N& borders, pad_by_attributes a, origin_of<X, N> = {}) {
  return apply<op::pad_by>(a, x, borders);
}
/// start, start + step, ... before stop, all three computed (numpy.arange, ONNX Range).
/// Shapes:  three numbers -> [ceil((stop - start) / step)], at least [0].   Types: int32, int64, float32, float64, all the same.
/// Numerics: element i is start + i * step.   Errors: shape_error for a step of 0 or NaN, and for more than 2^31 elements.
export template <Symbolic A, Symbolic B, Symbolic S>
requires accepted<diagnostic<counted_when_run<"arange", A, B, S>>()>
constexpr auto arange(const A& start, const B& stop, const S& step, origin_of<A, B, S> = {}) {
  return apply<op::arange>({}, start, stop, step);
}
/// A tensor of a computed shape filled with one number (numpy.full, ONNX ConstantOfShape).
/// Shapes:  shape = {2, 3}, a number -> [2, 3].   Types: any, shape int64.   Gradient: of the number.
export template <Symbolic S, Symbolic X> requires accepted<diagnostic<counted_when_run<"full", S, X>>()>
constexpr auto full(const S& shape, const X& number, origin_of<S, X> = {}) {
  return apply<op::full>({}, shape, number);
}

}  // namespace lamina
