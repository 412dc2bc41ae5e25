// What the quantized operators share: integers that stand for numbers, exact sums of their products, and windows.
module lamina.onnx:quantized;
import :convert;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// The smallest and largest number of an integer type.
struct integer_range {
  double low = 0, high = 0;
};
integer_range range_of(dtype e);

/// A scale or zero point beside x: one number, one for each position of an axis, or one for each block of an axis.
value beside(node_call& c, const value& v, const value& x, std::int64_t axis, std::int64_t block = 0);
/// round(x) + zero point in an integer type, saturated. The zero point may be empty.
value saturated(node_call& c, const value& x, const value& zero_point, dtype e);
/// Operands q, scale and zero point from `i` on as float32; the zero point may be left out.
value dequantized(node_call& c, std::size_t i);
/// The other way, with scale and zero point from operand `i` on.
value quantized(node_call& c, const value& x, std::size_t i, dtype e);

/// The product of operands a and b less their zero points, exact.
value integer_product(node_call& c, std::size_t a, std::size_t a_zero_point, std::size_t b, std::size_t b_zero_point);
/// float32 where sums of this many products of 8-bit numbers are exact in it, else float64.
dtype exact_type(dim products);
/// q less its zero point, in `wide`. The zero point, which may be left out, is one number, or one for each row or column.
value integers_of(node_call& c, const value& q, std::size_t zero_point, dtype wide, bool of_rows = false);
/// Float32 numbers as int8, between their smallest and their largest: as the operator's 0 to 255 less 128.
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
/// Errors: file_error where the attribute `kernel_shape` contradicts the weights [O, C, ...].
void check_kernel_shape(node_call& c, const shape& weights);
/// Sequences as images of one row.
value as_images(const value& x);
value as_given(const value& y, const value& x);
/// x with borders of a number, where they are not the same on both sides; then the windows have none.
value bordered(const value& x, window_sizes& w, double number);
value convolved(node_call& c, const value& x, const value& w, double border = 0);

bool of_bytes(dtype e);
/// Int8 numbers for those of int8 or uint8, less 128 where they are uint8; and the other way.
value as_int8(node_call& c, const value& q);
value from_int8(node_call& c, const value& q, dtype e);
/// The same of operand i; where its elements are known now, they are changed now. `one`: it is one number, which may become [].
value int8_operand(node_call& c, std::size_t i, bool one = false);
/// Position `at` of the first axis of it.
value int8_part(node_call& c, std::size_t i, std::int64_t at);
/// Scale and zero point of int8 numbers from operands, one for all or one for each position of an axis; the zero point may be left out. `e` is
/// the type of the numbers, int8 or uint8. Both empty where they do not fit.
quantization int8_scales(node_call& c, std::size_t scale, std::size_t zero_point, dtype e);
/// Operand i, weights of bytes, as numbers that int8 stands for; empty where scale and zero point do not fit.
value real_weights(node_call& c, std::size_t i, std::size_t scale, std::size_t zero_point, std::int64_t axis);
/// The product of rows of bytes, operands a and b less their zero points, as int32; empty where it is none of 8 bits with a matrix.
value byte_product(node_call& c, const value& a, const value& a_zero_point, std::size_t b, std::size_t b_zero_point);

/// An activation of a fused operator. Empty name: none.
value activated(node_call& c, const value& x, const std::string& name, const std::vector<double>& numbers);

}  // namespace lamina::onnx
