// Shared parts of the quantized operators: quantized integers, exact sums of their products, and windows.
module lamina.onnx:quantized;
import :convert;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// Smallest and largest value of an integer type.
struct integer_range {
  double low = 0, high = 0;
};
integer_range range_of(dtype e);

/// Reshapes a scale or zero point to broadcast against x: one number, one per position of an axis, or one per block of
/// an axis.
value align_to_axis(node_call& c, const value& v, const value& x, std::int64_t axis, std::int64_t block = 0);
/// round(x) + zero point as an integer type, saturated. The zero point may be empty.
value saturated(node_call& c, const value& x, const value& zero_point, dtype e);
/// Dequantizes operands i, i + 1 and i + 2 (q, scale, zero point) to float32; the zero point may be omitted.
value dequantized(node_call& c, std::size_t i);
/// Quantizes x with scale and zero point from operand `i` on.
value quantized(node_call& c, const value& x, std::size_t i, dtype e);

/// Exact product of operands a and b after subtracting their zero points.
value integer_product(node_call& c, std::size_t a, std::size_t a_zero_point, std::size_t b, std::size_t b_zero_point);
/// float32 if it represents sums of this many 8-bit products exactly, otherwise float64.
dtype exact_type(dim products);
/// q minus its zero point, in type `wide`. The zero point, which may be omitted, is one number, or one per row or
/// column.
value integers_of(node_call& c, const value& q, std::size_t zero_point, dtype wide, bool of_rows = false);
/// Dynamically quantized float32 values: int8 over the range of the values, equal to the operator's 0 to 255 minus 128.
struct dynamic_numbers {
  value q{};
  quantization as{};
};
dynamic_numbers dynamically_quantized(const value& x);

/// Windows of a convolution or pool over images [N, C, H, W] or sequences [N, C, L].
struct window_sizes {
  extent2d kernel{}, stride{1}, dilation{1}, before{0}, after{0};
  bool symmetric() const { return before == after; }
};
window_sizes windows_of(node_call& c, const shape& x, const shape& kernel);
/// Errors: file_error if the attribute `kernel_shape` contradicts the weights [O, C, ...].
void check_kernel_shape(node_call& c, const shape& weights);
/// Converts sequences to images of one row, and y back to the rank of x.
value as_images(const value& x);
value as_given(const value& y, const value& x);
/// Pads x with a number if the padding is asymmetric; the windows then have no padding.
value bordered(const value& x, window_sizes& w, double number);
value convolved(node_call& c, const value& x, const value& w, double border = 0);

bool of_bytes(dtype e);
/// Maps int8 or uint8 values to int8, uint8 minus 128; and back.
value as_int8(node_call& c, const value& q);
value from_int8(node_call& c, const value& q, dtype e);
/// The same for operand i; known elements are converted at once. `one`: a single number, which may be reshaped to [].
value int8_operand(node_call& c, std::size_t i, bool one = false);
/// Slice `at` of its first axis.
value int8_part(node_call& c, std::size_t i, std::int64_t at);
/// Scale and zero point of int8 values from operands, per tensor or per position of an axis; the zero point may be
/// omitted. `e` is the type of the values, int8 or uint8. Both results are empty if the operands do not match.
quantization int8_scales(node_call& c, std::size_t scale, std::size_t zero_point, dtype e);
/// Dequantizes operand i, 8-bit weights; empty if scale and zero point do not match.
value real_weights(node_call& c, std::size_t i, std::size_t scale, std::size_t zero_point, std::int64_t axis);
/// Product of 8-bit rows and matrix, operands a and b minus their zero points, as int32; empty for other types or
/// ranks.
value byte_product(node_call& c, const value& a, const value& a_zero_point, std::size_t b, std::size_t b_zero_point);

/// Applies the activation of a fused operator; an empty name means none.
value activated(node_call& c, const value& x, const std::string& name, const std::vector<double>& numbers);

}  // namespace lamina::onnx
