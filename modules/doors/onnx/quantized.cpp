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

/// A scale or offset beside x: one number, one for each position of an axis, or one for each block of an axis.
value beside(node_call& c, const value& v, const value& x, std::int64_t axis, std::int64_t block = 0);
/// round(x) + offset in an integer type, saturated. The offset may be empty.
value saturated(node_call& c, const value& x, const value& offset, dtype e);
/// Operands q, scale and offset from `i` on as float32; the offset may be left out.
value dequantized(node_call& c, std::size_t i);
/// The other way, with scale and offset from operand `i` on.
value quantized(node_call& c, const value& x, std::size_t i, dtype e);

/// The product of operands a and b less their offsets, exact.
value integer_product(node_call& c, std::size_t a, std::size_t a_offset, std::size_t b, std::size_t b_offset);
/// float32 where sums of this many products of 8-bit numbers are exact in it, else float64.
dtype exact_type(dim products);
/// q less its offset, in `wide`. The offset, which may be left out, is one number, or one for each row or column.
value integers_of(node_call& c, const value& q, std::size_t offset, dtype wide, bool of_rows = false);
/// A float32 matrix as numbers 0 to 255, their scale and their offset, all as float32.
struct dynamic_numbers {
  value q{}, scale{}, offset{};
};
dynamic_numbers dynamically_quantized(const value& x);

/// Windows of a convolution or pool over images [N, C, H, W] or sequences [N, C, L].
struct window_sizes {
  extent2d kernel{}, stride{1}, dilation{1}, before{0}, after{0};
  bool symmetric() const { return before == after; }
};
window_sizes windows_of(node_call& c, const shape& x, const shape& kernel);
/// Sequences as images of one row.
value as_images(const value& x);
value as_given(const value& y, const value& x);
/// x with borders of a number, where they are not the same on both sides; then the windows have none.
value bordered(const value& x, window_sizes& w, double number);
value convolved(node_call& c, const value& x, const value& w, double border = 0);

/// Int8 numbers for those of int8 or uint8, less 128 where they are uint8; and the other way.
value as_int8(node_call& c, const value& q);
value from_int8(node_call& c, const value& q, dtype e);

/// An activation of a fused operator. Empty name: none.
value activated(node_call& c, const value& x, const std::string& name, const std::vector<double>& numbers);

}  // namespace lamina::onnx
