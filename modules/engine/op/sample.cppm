// Sampling an axis through tables of positions, and the tables: windows, resized axes, borders. A table depends only on
// extents; it has no kernel, and becomes a constant once they are known.
export module lamina:op.sample;
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

/// Interpolation between elements: nearest element, or linear or cubic interpolation of neighbors.
export enum class resize_mode : std::uint8_t { nearest, linear, cubic };
/// How a position of a resized axis maps to the original axis, with ONNX Resize's names.
export enum class resize_coordinates : std::uint8_t {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize,
};
/// Rounding of a fractional position to the nearest element.
export enum class nearest_rounding : std::uint8_t { prefer_floor, prefer_ceil, floor, ceil };
/// Meaning of target sizes: each for its axis alone, or one scale for all axes, results at most, or at least, as large.
export enum class aspect_ratio : std::uint8_t { stretch, not_larger, not_smaller };
/// Elements beyond the borders of an axis: mirrored elements without or with the last one, the last one, or those of
/// the other end.
export enum class border_mode : std::uint8_t { reflect, edge, wrap };

/// Windows along an axis. `parts` divides it into that many windows, equal up to one element, which may overlap.
struct window_attributes {
  std::int64_t kernel = 1, stride = 1, dilation = 1, before = 0, after = 0, parts = 0;
  bool ceil = false;           // keeps a last window that begins inside and ends outside
  bool count_padding = false;  // for weights: padding counts in the divisor
  bool sum = false;            // for weights: no divisor
  bool filled = false;         // rejects windows of padding alone
  dtype element = dtype::float32;
  static constexpr void members(auto& a, auto&& f) {
    f("kernel", a.kernel), f("stride", a.stride), f("dilation", a.dilation), f("before", a.before), f("after", a.after);
    f("parts", a.parts), f("ceil", a.ceil), f("count_padding", a.count_padding), f("sum", a.sum);
    f("filled", a.filled), f("element", a.element);
  }
  bool operator==(const window_attributes&) const = default;
};
/// Resizing of one axis, `which`, of those that are resized together.
struct resize_attributes {
  std::int64_t which = 0;
  resize_mode mode = resize_mode::nearest;
  resize_coordinates coordinates = resize_coordinates::half_pixel;
  nearest_rounding rounding = nearest_rounding::prefer_floor;
  aspect_ratio policy = aspect_ratio::stretch;
  double cubic_a = -0.75;
  bool exclude_outside = false, antialias = false;
  dtype element = dtype::float32;
  static constexpr void members(auto& a, auto&& f) {
    f("which", a.which), f("mode", a.mode), f("coordinates", a.coordinates), f("rounding", a.rounding);
    f("policy", a.policy), f("cubic_a", a.cubic_a), f("exclude_outside", a.exclude_outside);
    f("antialias", a.antialias), f("element", a.element);
  }
  bool operator==(const resize_attributes&) const = default;
};
struct border_attributes {
  border_mode mode = border_mode::reflect;
  static constexpr void members(auto& a, auto&& f) { f("mode", a.mode); }
  bool operator==(const border_attributes&) const = default;
};
/// Blocks of an image; each attribute has a number for each of the image's axes.
struct block_attributes {
  lamina::axes strides, dilations, before, after;
  static constexpr void members(auto& a, auto&& f) {
    f("strides", a.strides), f("dilations", a.dilations), f("before", a.before), f("after", a.after);
  }
  bool operator==(const block_attributes&) const = default;
};
struct affine_attributes {
  bool align_corners = false;
  dtype element = dtype::float32;
  static constexpr void members(auto& a, auto&& f) { f("align_corners", a.align_corners), f("element", a.element); }
  bool operator==(const affine_attributes&) const = default;
};
/// The axis of the elements, and the number of leading batch axes that positions and weights share with them.
struct resample_attributes {
  std::int64_t axis = 0, batch_axes = 0;
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("batch_axes", a.batch_axes); }
  bool operator==(const resample_attributes&) const = default;
};

namespace op {
/// Positions [windows, taps] for an axis whose extent is the operand, int64 [1]; -1 in the padding.
struct window_positions {
  static constexpr std::string_view name = "window_positions";
  static constexpr int operands = 1;
  static constexpr unsigned shape_operands = 1u << 0;
  using attributes = window_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
/// Weights of those positions in a mean or sum over each window.
struct window_weights {
  static constexpr std::string_view name = "window_weights";
  static constexpr int operands = 1;
  static constexpr unsigned shape_operands = 1u << 0;
  using attributes = window_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
/// Operands: the extents of the axes that are resized together, int64; their sizes, int64, or scales, float32 or float64;
/// for `tf_crop_and_resize` the starts, then the ends of a region, as fractions of the axes. Result: positions
/// [size, taps], or [size] for nearest elements.
struct resize_positions {
  static constexpr std::string_view name = "resize_positions";
  static constexpr int operands = -1;
  static constexpr unsigned shape_operands = 0b111;
  using attributes = resize_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
/// Weights of those positions.
struct resize_weights {
  static constexpr std::string_view name = "resize_weights";
  static constexpr int operands = -1;
  static constexpr unsigned shape_operands = 0b111;
  using attributes = resize_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
/// 1 for each position of the resized axis that maps into the original axis, else 0.
struct resize_inside {
  static constexpr std::string_view name = "resize_inside";
  static constexpr int operands = -1;
  static constexpr unsigned shape_operands = 0b111;
  using attributes = resize_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
/// Operands: the extent of an axis, int64 [1]; the numbers of positions added before and after it, int64 [2]; negative
/// ones crop first. Result: the source position of each element of the padded axis.
struct border_positions {
  static constexpr std::string_view name = "border_positions";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 0b11;
  using attributes = border_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
/// Operands: current and target extents, int64 [n] each. Result: borders [2 n] that center-pad or crop to the target.
struct center_borders {
  static constexpr std::string_view name = "center_borders";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 0b11;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static value bind(const attributes&, view<const value> in);
};
/// Operands: the extents of an image and of its blocks, int64 [n] each. Result: positions
/// [elements of a block times blocks, 1] in the image, -1 in its padding.
struct block_positions {
  static constexpr std::string_view name = "block_positions";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 0b11;
  using attributes = block_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
/// Operand: the extents [N, C, H, W] or [N, C, D, H, W] of images, int64. Result: a row {x, y, 1} or {x, y, z, 1} for
/// each position, with coordinates from -1 to 1.
struct affine_base {
  static constexpr std::string_view name = "affine_base";
  static constexpr int operands = 1;
  static constexpr unsigned shape_operands = 1u << 0;
  using attributes = affine_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};

/// Operands: elements [B..., ..., length, ...], int64 positions [B..., points, taps] of an axis, their weights. The points are
/// weighted sums of elements; a position out of range adds nothing.
struct resample {
  static constexpr std::string_view name = "resample";
  static constexpr int operands = 3;
  using attributes = resample_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(in[1].dims.at(in[1].dims.rank - 1));
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// Gradient of resample with respect to its elements. Operands: the result's gradient, positions, weights, and the
/// elements' shape.
struct resample_grad {
  static constexpr std::string_view name = "resample_grad";
  static constexpr int operands = 4;
  static constexpr unsigned shape_only = 8;
  using attributes = resample_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return 2.0 * static_cast<double>(in[0].dims.size()) * static_cast<double>(in[1].dims.at(in[1].dims.rank - 1));
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Gradient of resample with respect to its weights. Operands: the result's gradient, the elements, positions.
struct resample_weight_grad {
  static constexpr std::string_view name = "resample_weight_grad";
  static constexpr int operands = 3;
  using attributes = resample_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return 2.0 * static_cast<double>(in[0].dims.size()) * static_cast<double>(in[2].dims.at(in[2].dims.rank - 1));
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
/// Operands: elements; int64 positions [points, taps] of an axis. Result 0: the largest elements; result 1: their
/// positions on the axis, int64. Positions out of range are skipped.
struct max_windows {
  static constexpr std::string_view name = "max_windows";
  static constexpr int operands = 2, results = 2;
  using attributes = axis_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return static_cast<double>(out[0].dims.size()) * static_cast<double>(in[1].dims.at(1));
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
}  // namespace op

using sample_operations =
    operation_list<op::affine_base, op::block_positions, op::border_positions, op::center_borders, op::max_windows,
                   op::resample, op::resample_grad, op::resample_weight_grad, op::resize_inside, op::resize_positions,
                   op::resize_weights, op::window_positions, op::window_weights>;
template <Operation Op> requires sample_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace detail {
/// Parameters of a resized axis.
struct resized_axis {
  std::int64_t extent = 0, size = 0, taps = 1;
  double scale = 1, roi_start = 0, roi_end = 1;
};
/// Parameters of the resized axis `a.which` for these extents; `roi` may be null. Errors go into `why`.
resized_axis resize_of(const resize_attributes& a, view<const std::int64_t> extents, const any_tensor& target,
                       const any_tensor* roi, text& why);
/// Positions of the nearest elements.
std::vector<std::int64_t> nearest_positions(const resize_attributes& a, const resized_axis& r);
/// Borders before, then after, that center-pad or crop `extents` to `sizes`; all int64.
any_tensor borders_around(const any_tensor& extents, const any_tensor& sizes);
/// Number of windows of an axis; -1 with a reason where there are none.
std::int64_t windows_of(const window_attributes& a, std::int64_t extent, text& why);
}  // namespace detail

// ---- functions ------------------------------------------------------------------------------------------------------

/// Weighted sums of elements along an axis: result[.., p, ..] = sum over k of weights[p, k] * x[.., positions[p, k], ..]. With
/// {.batch_axes = n} the first n axes of x have separate tables: positions and weights [B..., points, taps].
/// Shapes:  x [N, 8, 5], positions and weights [3, 2], {.axis = 1} -> [N, 3, 5].   Types: float32 or float64, positions int64.
/// Numerics: summed in the order of the taps. A position out of range adds nothing.
/// Gradient: of x and of the weights.   Errors: shape_error, type_error.
export value resample(const value& x, const value& positions, const value& weights, resample_attributes a = {},
                      const origin& = {});

}  // namespace lamina
