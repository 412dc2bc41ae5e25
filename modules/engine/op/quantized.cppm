// Quantized tensors: int8 with value = (q - zero_point) * scale, where scale and zero point are operands (as in ONNX's
// QuantizeLinear and QLinearConv), and their integer products. For values of a program.
export module lamina:op.quantized;
import :core;
import :dtype;
import :emission;
import :op;
import :op.nn;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Axis along which scales and zero points vary, where there is more than one of each. `bits`: of int8 numbers to
/// dequantize, 7 if they are known to be within [-64, 63], else 8; a product of such weights has it as `weight_bits`.
struct quantize_attributes {
  std::int64_t axis = 0, bits = 8;
  static constexpr std::string_view later = "bits";
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("bits", a.bits); }
  bool operator==(const quantize_attributes&) const = default;
};
/// `low`, `high`: bounds of the int8 result; with a fused relu `low` is the zero point. `weight_bits`: 7 if weights are
/// within [-64, 63], which processors without VNNI multiply faster, else 8. Results do not depend on it.
struct quantized_linear_attributes {
  std::int64_t low = -128, high = 127;
  bool transposed = false;  ///< weights are [in, out]
  std::int64_t weight_bits = 8;
  static constexpr std::string_view later = "weight_bits";
  static constexpr void members(auto& a, auto&& f) {
    f("low", a.low), f("high", a.high), f("transposed", a.transposed), f("weight_bits", a.weight_bits);
  }
  bool operator==(const quantized_linear_attributes&) const = default;
};
struct quantized_matmul_attributes {
  bool transpose_b = false;  ///< b is [..., N, K]
  std::int64_t low = -128, high = 127;
  static constexpr void members(auto& a, auto&& f) {
    f("transpose_b", a.transpose_b), f("low", a.low), f("high", a.high);
  }
  bool operator==(const quantized_matmul_attributes&) const = default;
};
struct integer_matmul_attributes {
  bool transpose_b = false;  ///< b is [..., N, K]
  static constexpr void members(auto& a, auto&& f) { f("transpose_b", a.transpose_b); }
  bool operator==(const integer_matmul_attributes&) const = default;
};
struct quantized_bounds {
  std::int64_t low = -128, high = 127;
  static constexpr void members(auto& a, auto&& f) { f("low", a.low), f("high", a.high); }
  bool operator==(const quantized_bounds&) const = default;
};
struct integer_linear_attributes {
  bool transposed = false;
  static constexpr void members(auto& a, auto&& f) { f("transposed", a.transposed); }
  bool operator==(const integer_linear_attributes&) const = default;
};
/// `low`, `high`, `weight_bits`: as in `quantized_linear_attributes`.
struct quantized_conv2d_attributes {
  conv2d_attributes conv;
  std::int64_t low = -128, high = 127, weight_bits = 8;
  static constexpr std::array<std::string_view, 2> later{conv2d_attributes::later, quantized_linear_attributes::later};
  static constexpr void members(auto& a, auto&& f) {
    conv2d_attributes::members(a.conv, f);
    f("low", a.low), f("high", a.high), f("weight_bits", a.weight_bits);
  }
  bool operator==(const quantized_conv2d_attributes&) const = default;
};

/// Bits of a weight, 4 or 8, and the number of weights that share a scale.
struct block_linear_attributes {
  std::int64_t bits = 4, block = 32;
  static constexpr void members(auto& a, auto&& f) { f("bits", a.bits), f("block", a.block); }
  bool operator==(const block_linear_attributes&) const = default;
};

namespace op {
/// Operands: x; packed weights, their scales and their zero points.
struct block_linear {
  static constexpr std::string_view name = "block_linear";
  static constexpr int operands = 4;
  using attributes = block_linear_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(in[0].dims.at(in[0].dims.rank - 1));
  }
  static void emit(emission&);
};
/// Base of `quantize` and `dequantize`: a program without them links no patterns of quantized nets.
using in_quantized_patterns = in_patterns<
    rewriting::quantized_conv2d_pattern, rewriting::quantized_matmul_pattern, rewriting::quantized_linear_pattern,
    rewriting::quantized_add_pattern, rewriting::quantized_multiply_pattern, rewriting::quantized_average_pattern,
    rewriting::quantized_move_pattern, rewriting::quantized_table_pattern, rewriting::integer_linear_pattern,
    rewriting::integer_matmul_pattern, rewriting::integer_conv2d_pattern, rewriting::same_bytes_pattern>;
/// Operands: x, scale, zero point.
struct quantize : in_quantized_patterns {
  static constexpr std::string_view name = "quantize";
  static constexpr int operands = 3;
  using attributes = quantize_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type>, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size());
  }
  static void emit(emission&);
};
/// Operands: q, scale, zero point.
struct dequantize : in_quantized_patterns {
  static constexpr std::string_view name = "dequantize";
  static constexpr int operands = 3;
  using attributes = quantize_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type>, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size());
  }
  static void emit(emission&);
};
/// Operands, also of `quantized_conv2d`: x, its scale and zero point; weights and their scales; bias; scale and zero
/// point of the result.
struct quantized_linear {
  static constexpr std::string_view name = "quantized_linear";
  static constexpr int operands = 8;
  using attributes = quantized_linear_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(in[0].dims.at(in[0].dims.rank - 1));
  }
  static void emit(emission&);
};
struct quantized_conv2d {
  static constexpr std::string_view name = "quantized_conv2d";
  static constexpr int version = 2;  // 1: without `padding_more`
  static constexpr int operands = 8;
  static constexpr bool joins_sums = true;
  using attributes = quantized_conv2d_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(in[3].dims.size(1, 4));
  }
  static image_layouts images(const image_call&);
  static void emit(emission&);
};
/// Operands: x and its zero point; weights.
struct integer_linear {
  static constexpr std::string_view name = "integer_linear";
  static constexpr int operands = 3;
  using attributes = integer_linear_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(in[0].dims.at(in[0].dims.rank - 1));
  }
  static void emit(emission&);
};
/// Operands: x and its zero point; weights.
struct integer_conv2d {
  static constexpr std::string_view name = "integer_conv2d";
  static constexpr int operands = 3;
  using attributes = conv2d_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(in[2].dims.size(1, 4));
  }
  static void emit(emission&);
};
/// Operands: a and its zero point; b and its zero point.
struct integer_matmul {
  static constexpr std::string_view name = "integer_matmul";
  static constexpr int operands = 4;
  using attributes = integer_matmul_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(in[0].dims.at(in[0].dims.rank - 1));
  }
  static void emit(emission&);
};
/// Operands, also of `quantized_multiply`: a, its scale and zero point; b, its scale and zero point; scale and zero
/// point of the result.
struct quantized_add {
  static constexpr std::string_view name = "quantized_add";
  static constexpr int operands = 8;
  static constexpr summed_operands sums{0, 3};
  using attributes = quantized_bounds;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type>, view<const tensor_type> out) {
    return 3.0 * static_cast<double>(out[0].dims.size());
  }
  static image_layouts images(const image_call&);
  static void emit(emission&);
};
struct quantized_multiply {
  static constexpr std::string_view name = "quantized_multiply";
  static constexpr int operands = 8;
  using attributes = quantized_bounds;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type>, view<const tensor_type> out) {
    return 3.0 * static_cast<double>(out[0].dims.size());
  }
  static void emit(emission&);
};
/// Operands: a, its scale and zero point; b, its scale and zero point; scale and zero point of the result.
struct quantized_matmul {
  static constexpr std::string_view name = "quantized_matmul";
  static constexpr int operands = 8;
  using attributes = quantized_matmul_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type> out) {
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(in[0].dims.at(in[0].dims.rank - 1));
  }
  static void emit(emission&);
};
/// Operands: x; the table of results for -128, -127 and so on to 127.
struct quantized_table {
  static constexpr std::string_view name = "quantized_table";
  static constexpr int operands = 2;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static image_layouts images(const image_call&);
  static void emit(emission&);
};
/// Operands: x, its scale and zero point; scale and zero point of the result.
struct quantized_avg_pool2d {
  static constexpr std::string_view name = "quantized_avg_pool2d";
  static constexpr int version = 2;  // 1: without `padding_more`
  static constexpr int operands = 5;
  using attributes = pool2d_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  static double flops(const attributes& a, view<const tensor_type>, view<const tensor_type> out) {
    return static_cast<double>(out[0].dims.size()) * static_cast<double>(a.kernel_size.h) *
           static_cast<double>(a.kernel_size.w);
  }
  static image_layouts images(const image_call&);
  static void emit(emission&);
};
}  // namespace op

using quantized_operations =
    operation_list<op::block_linear, op::dequantize, op::integer_conv2d, op::integer_linear, op::integer_matmul,
                   op::quantize, op::quantized_add, op::quantized_avg_pool2d, op::quantized_conv2d,
                   op::quantized_linear, op::quantized_matmul, op::quantized_multiply, op::quantized_table>;
template <Operation Op> requires quantized_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

/// Quantization parameters: value = (q - zero_point) * scale.  float32 and int8; [], or one each per axis position.
export struct quantization {
  value scale, zero_point;
};
/// Weights [out, ...] of int8, with zero point 0, with their scales, [] or [out]; a bias [out] of int32 in units of the
/// product of the scales of x and weights.
struct quantized_weights {
  value weight, scale, bias;
};

/// Quantizes to int8: saturated(round(x / scale) + zero_point), ties to even; NaN becomes 0, infinities saturate.
/// Shapes:  x [...] -> [...].   Errors: type_error unless x is float32; shape_error where scales and axis do not fit.
export value quantize(const value& x, const quantization& as, quantize_attributes a = {}, const origin& = {});
/// Dequantizes int8 to float32.   Shapes: q [...] -> [...].   Errors: as of `quantize`.
export value dequantize(const value& q, const quantization& as, quantize_attributes a = {}, const origin& = {});
/// Integer linear layer, x w^T + b:
/// saturated(round((bias + sum of (x - x_zero_point) w) * x_scale * w_scale / y_scale) + y_zero_point), within [low, high].
/// Shapes:  x int8 [..., in], weight [out, in], or [in, out] with `transposed` -> int8 [..., out].
/// Numerics: sums are exact in int32 up to 65000 features and wrap beyond. Ties to even. Bit-identical on all
///           instruction sets.   No gradient.   Errors: type_error, shape_error.
export value quantized_linear(const value& x, const quantization& x_as, const quantized_weights& w,
                              const quantization& y_as, quantized_linear_attributes a = {}, const origin& = {});
/// Cross-correlation of images with filters, in integers as `quantized_linear`; padding has the value 0.
/// Shapes:  x int8 [N, C, H, W], weight [O, C / groups, KH, KW] -> int8 [N, O, OH, OW], as in `conv2d`. Weights
///          [O, 2 C / groups, KH, KW] are two addends per channel, for weights beyond int8.   No gradient.
export value quantized_conv2d(const value& x, const quantization& x_as, const quantized_weights& w,
                              const quantization& y_as, quantized_conv2d_attributes a = {}, const origin& = {});

/// Products of two quantized matrices, with broadcast leading axes, in integers:
/// saturated(round((sum of (a - a_zero_point) (b - b_zero_point)) * a_scale * b_scale / y_scale) + y_zero_point), within [low, high].
/// Shapes:  a int8 [..., M, K], b int8 [..., K, N], or [..., N, K] with `transpose_b` -> int8 [..., M, N].
/// Numerics: sums are exact in int32 up to 32000 products and wrap beyond. Ties to even. Bit-identical on all
///           instruction sets.   No gradient.   Errors: type_error, shape_error.
export value quantized_matmul(const value& a, const quantization& a_as, const value& b, const quantization& b_as,
                              const quantization& y_as, quantized_matmul_attributes with = {}, const origin& = {});

/// The int32 sums of an integer linear layer: sum of (x - x_zero_point) (w - w_zero_point). `w_zero_point` is empty
/// (0), one number, or one for each output channel.
/// Shapes:  x int8 [..., in], weight int8 [out, in], or [in, out] with `transposed` -> int32 [..., out].
/// Numerics: exact in int32 up to 32000 features; wraps beyond. Bit-identical on all instruction sets.   No gradient.
/// Errors:  type_error, shape_error.
export value integer_linear(const value& x, const value& x_zero_point, const value& weight,
                            const value& w_zero_point = {}, bool transposed = false, const origin& = {});

/// The int32 sums of an int8 convolution: of (x - x_zero_point) (w - w_zero_point); padding is 0. `w_zero_point` is
/// empty (0), one number, or one for each output channel; it requires known weight extents and one group.
/// Shapes:  x int8 [N, C, H, W], weight int8 [O, C / groups, KH, KW] -> int32 [N, O, OH, OW], as in `conv2d`.
/// Numerics: exact in int32 up to 32000 products; wraps beyond. Bit-identical on all instruction sets.   No gradient.
/// Errors:  type_error, shape_error.
export value integer_conv2d(const value& x, const value& x_zero_point, const value& weight, conv2d_attributes a = {},
                            const value& w_zero_point = {}, const origin& = {});

/// The int32 sums of matrix products, with broadcast leading axes: of (a - a_zero_point) (b - b_zero_point).
/// Shapes:  a int8 [..., M, K], b int8 [..., K, N], [..., N, K] if `transpose_b`, zero points [] -> int32 [..., M, N].
/// Numerics: exact in int32 up to 32000 products; wraps beyond. Bit-identical on all instruction sets.   No gradient.
/// Errors:  type_error, shape_error.
export value integer_matmul(const value& a, const value& a_zero_point, const value& b, const value& b_zero_point,
                            bool transpose_b = false, const origin& = {});

/// Linear layer with packed weights of 4 or 8 bits: sums of x (q - zero_point) scale.
/// Shapes:  x float32 [..., in], weight uint8 [out, blocks, bytes of a block], scale float32 [out, blocks], zero_point
///          float32 [] or [out, blocks] -> float32 [..., out]. Blocks hold the features in order, the first number of a
///          byte in its low bits; numbers after the last feature are ignored.
/// Numerics: x is rounded to 16 bits, with a scale for each block of features: an error of at most 2^-15.9 of the largest
///           |x| of a block in each product. A block that is not finite gives NaN.   No gradient.
/// Errors:   type_error, shape_error.
export value block_linear(const value& x, const value& weight, const value& scale, const value& zero_point,
                          block_linear_attributes a = {}, const origin& = {});

/// Sum of two quantized tensors with different scales:
/// saturated(round((a - a_zero_point) (a_scale / y_scale) + (b - b_zero_point) (b_scale / y_scale)) + y_zero_point), within [low, high].
/// Shapes:  a int8 [...], b of the same shape, or its last axes, or its first with 1 for the others -> int8 [...].
/// Numerics: each step in float32, ties to even. Bit-identical on all instruction sets.   No gradient.
/// Errors:  type_error, shape_error.
export value quantized_add(const value& a, const quantization& a_as, const value& b, const quantization& b_as,
                           const quantization& y_as, quantized_bounds within = {}, const origin& = {});
/// Elementwise product: saturated(round((a - a_zero_point) (b - b_zero_point) (a_scale b_scale / y_scale)) +
/// y_zero_point), within [low, high].   Shapes, numerics, errors: as of `quantized_add`.
export value quantized_multiply(const value& a, const quantization& a_as, const value& b, const quantization& b_as,
                                const quantization& y_as, quantized_bounds within = {}, const origin& = {});
/// An elementwise function of int8 as a table: table[x + 128].
/// Shapes:  x int8 [...], table int8 [256] -> int8 [...].   No gradient.   Errors: type_error, shape_error.
export value quantized_table(const value& x, const value& table, const origin& = {});
/// Averages over windows: saturated(round((sum of x - x_zero_point) (x_scale / y_scale) / count) + y_zero_point);
/// padding has the value 0 and counts in the divisor as in `avg_pool2d`.
/// Shapes:  x int8 [N, C, H, W] -> int8 [N, C, OH, OW], as in `avg_pool2d`.
/// Numerics: sums are exact in int32 up to 8 million positions; the rest in float32, ties to even. With equal scales
///           this is the mean, rounded once. Bit-identical on all instruction sets.   No gradient.
/// Errors:  type_error, shape_error.
export value quantized_avg_pool2d(const value& x, const quantization& x_as, const quantization& y_as,
                                  pool2d_attributes a = {}, const origin& = {});

namespace detail {
/// Window of a node that averages over windows or over whole maps, keeping their axes; empty for other nodes or unknown
/// extents.
std::optional<pool2d_attributes> window_of_average(const program& p, const node& n);
}  // namespace detail

}  // namespace lamina
