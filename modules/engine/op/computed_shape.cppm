// Operations whose result has a shape that is computed: an operand holds the target shape, positions or counts. They have no
// kernels. Once the elements of such an operand are known, `bind` says which operations of known shapes stand for the call;
// where only a run gives them, the program is cut there.
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

/// Whether 0 in a target shape keeps the extent of the operand at that place, as in ONNX; else it is an extent of 0.
struct reshape_to_attributes {
  bool keep_zero = false;
  static constexpr void members(auto& a, auto&& f) { f("keep_zero", a.keep_zero); }
  bool operator==(const reshape_to_attributes&) const = default;
};
/// The axes that have borders, and the number in the borders.
struct pad_by_attributes {
  lamina::axes axes;
  double value = 0;
  static constexpr void members(auto& a, auto&& f) { f("axes", a.axes), f("value", a.value); }
  bool operator==(const pad_by_attributes&) const = default;
};

namespace op {
/// Operands: elements; the extents of the result, of which one may be -1 and is inferred.
struct reshape_to {
  static constexpr std::string_view name = "reshape_to";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 1;
  using attributes = reshape_to_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Operands: elements; extents with which theirs are broadcast.
struct expand_to {
  static constexpr std::string_view name = "expand_to";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 1;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static value bind(const attributes&, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Operands: elements; a start, a stop and perhaps a step for each of the axes.
struct slice_at {
  static constexpr std::string_view name = "slice_at";
  static constexpr int operands = -1;
  static constexpr unsigned shape_operands = 0b1110;
  using attributes = axes_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Zeros of operand 1's shape with operand 0 where `slice_at` would take it from; the others are those of `slice_at`.
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
/// Operands: elements; how many positions are added before each of the axes, then how many after each; negative numbers
/// take positions away.
struct pad_by {
  static constexpr std::string_view name = "pad_by";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 1;
  using attributes = pad_by_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// The adjoint of `pad_by`. Operands: what has the borders, what had none (its shape), the borders.
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
/// Operands: the extents of the result; the number that all of its elements are.
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

// ---- spellings ------------------------------------------------------------------------------------------------------
//
// Of values of programs and nets. What decides a shape is an int64 vector whose length is known: the rank of a result is
// known when a program is built, its extents at the latest when that vector has been computed.

/// x under a shape that is computed; one extent may be -1 and is inferred. With {.keep_zero = true} a 0 keeps the extent of x.
/// Shapes:  x [2, 6], to = {3, -1} -> [3, 4].   Types: any, `to` int64.   Cost: none, a view.
/// Errors:  shape_error where the counts differ.
export template <Symbolic X, Symbolic S> requires accepted<diagnostic<counted_when_run<"reshape_to", X, S>>()>
constexpr auto reshape_to(const X& x, const S& to, reshape_to_attributes a = {}, origin_of<X, S> = {}) {
  return apply<op::reshape_to>(a, x, to);
}
/// x repeated along axes of extent 1, and along new leading ones, to a shape that is computed. Extents of 1 in that shape
/// leave those of x (ONNX Expand).
/// Shapes:  x [3, 1], to = {2, 1, 4} -> [2, 3, 4].   Types: any, `to` int64.   Errors: shape_error.
export template <Symbolic X, Symbolic S> requires accepted<diagnostic<counted_when_run<"expand", X, S>>()>
constexpr auto expand(const X& x, const S& to, origin_of<X, S> = {}) {
  return apply<op::expand_to>({}, x, to);
}
/// Positions start, start + step, ... before stop of several axes, where all of them are computed. Positions below 0 count
/// from the end, those beyond an axis are its ends, and steps may be negative (NumPy's x[start:stop:step]).
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
/// x side by side with itself, as often along each axis as is computed.
/// Shapes:  x [2, 3], repeats = {2, 1} -> [4, 3].   Types: any, repeats int64.   Errors: shape_error.
export template <Symbolic X, Symbolic N> requires accepted<diagnostic<counted_when_run<"tile_by", X, N>>()>
constexpr auto tile_by(const X& x, const N& repeats, origin_of<X, N> = {}) {
  return apply<op::tile_by>({}, x, repeats);
}
/// Borders whose sizes are computed: first those before each of the axes, then those after; negative ones take away.
/// Shapes:  x [2, 3], borders = {1, 0, 0, 2}, {.axes = {0, 1}} -> [3, 5].   Types: any, borders int64.   Errors: shape_error.
export template <Symbolic X, Symbolic N> requires accepted<diagnostic<counted_when_run<"pad_by", X, N>>()>
constexpr auto pad_by(const X& x, const N& borders, pad_by_attributes a, origin_of<X, N> = {}) {
  return apply<op::pad_by>(a, x, borders);
}
/// start, start + step, ... before stop, where all three are computed (numpy.arange, ONNX Range).
/// Shapes:  three numbers -> [ceil((stop - start) / step)], at least [0].   Types: int32, int64, float32, float64, all the same.
/// Numerics: element i is start + i * step.   Errors: shape_error for a step of 0 or NaN, and for more than 2^31 elements.
export template <Symbolic A, Symbolic B, Symbolic S>
requires accepted<diagnostic<counted_when_run<"arange", A, B, S>>()>
constexpr auto arange(const A& start, const B& stop, const S& step, origin_of<A, B, S> = {}) {
  return apply<op::arange>({}, start, stop, step);
}
/// One number everywhere in a shape that is computed (numpy.full, ONNX ConstantOfShape).
/// Shapes:  shape = {2, 3}, a number -> [2, 3].   Types: any, shape int64.   Gradient: of the number.
export template <Symbolic S, Symbolic X> requires accepted<diagnostic<counted_when_run<"full", S, X>>()>
constexpr auto full(const S& shape, const X& number, origin_of<S, X> = {}) {
  return apply<op::full>({}, shape, number);
}

}  // namespace lamina
