// Fourier transforms as products with matrices of cosines and sines, windows, and mel filter banks.
export module lamina:op.signal;
import :core;
import :dtype;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// For transforms along a computed axis, and to a computed length.
struct computed_dft_attributes {
  bool inverse = false, onesided = false;
  static constexpr void members(auto& a, auto&& f) { f("inverse", a.inverse), f("onesided", a.onesided); }
  bool operator==(const computed_dft_attributes&) const = default;
};
struct computed_stft_attributes {
  bool onesided = true;
  static constexpr void members(auto& a, auto&& f) { f("onesided", a.onesided); }
  bool operator==(const computed_stft_attributes&) const = default;
};
struct mel_weights_attributes {
  dtype element = dtype::float32;
  static constexpr void members(auto& a, auto&& f) { f("element", a.element); }
  bool operator==(const mel_weights_attributes&) const = default;
};

namespace op {
/// Operands: numbers; the axis of the transform; optionally its length.
struct computed_dft {
  static constexpr std::string_view name = "computed_dft";
  static constexpr int operands = -1;
  static constexpr unsigned shape_operands = 0b110;
  using attributes = computed_dft_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
/// Operands: signals; the step between frames; their length, or -1; optionally a window.
struct computed_stft {
  static constexpr std::string_view name = "computed_stft";
  static constexpr int operands = -1;
  static constexpr unsigned shape_operands = 0b110;
  using attributes = computed_stft_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
/// Operands: number of bands, transform length and sample rate, int64; lower and upper edge, float32.
struct mel_weights {
  static constexpr std::string_view name = "mel_weights";
  static constexpr int operands = 5;
  static constexpr unsigned shape_operands = 0b11111;
  using attributes = mel_weights_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
};
}  // namespace op

using signal_operations = operation_list<op::computed_dft, op::computed_stft, op::mel_weights>;
template <Operation Op> requires signal_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

// ---- functions ------------------------------------------------------------------------------------------------------
//
// For values of programs and nets. Complex numbers are pairs (real, imaginary) in the last axis, which has extent 1 for
// real signals.

/// Transformed axis, transform length (default: the axis's extent), and kind of transform.
struct dft_attributes {
  std::int64_t axis = -2;
  std::optional<std::int64_t> length{};
  bool inverse = false;
  bool onesided = false;  ///< only the non-redundant half: of the result, or with `inverse` of the operand
};
/// The discrete Fourier transform along an axis (ONNX DFT).
/// Shapes:  x [..., N, ..., 1 or 2] -> [..., N, ..., 2]; onesided [..., N / 2 + 1, ..., 2]; with `inverse` and `onesided`
///          [..., N / 2 + 1, ..., 2] -> [..., N, ..., 1]. Short signals are zero-padded, long ones truncated.
/// Types:   float32, float64.   Numerics: sums of products, with factors accurate to the last place.
/// Cost:    a product with a matrix of N rows.   Errors: shape_error where the extent of the axis is not known.
export value dft(const value& x, dft_attributes a = {}, const origin& = {});

/// The same along a computed axis, and to a computed length, int64 numbers.   Gradient: none.
export value dft(const value& x, const value& axis, const std::optional<value>& length, computed_dft_attributes a = {},
                 const origin& = {});

/// Distance between frames, and their length where no window gives it.
struct stft_attributes {
  std::int64_t step = 1;
  std::optional<std::int64_t> length{};
  bool onesided = true;
};
/// Transforms of overlapping frames of a signal, multiplied by a window (ONNX STFT).
/// Shapes:  signal [B, L] or [B, L, 1 or 2], window [N] -> [B, 1 + (L - N) / step, N or N / 2 + 1, 2].
/// Errors:  shape_error where L or N is not known, or N above L; value_error for a step below 1.
export value stft(const value& signal, const std::optional<value>& window, stft_attributes a = {}, const origin& = {});

/// The same with a computed step and frame length, int64 numbers.   Gradient: none.
export value stft(const value& signal, const value& step, const std::optional<value>& length,
                  const std::optional<value>& window, computed_stft_attributes a = {}, const origin& = {});

/// Windows of a length that is a value, int32 or int64 [] or [1]; periodic ones omit the sample that would start the
/// next period.
/// Numerics: computed in double.   Source: Blackman, Tukey (1958).
export value hann_window(const value& size, bool periodic = true, dtype element = dtype::float32, const origin& = {});
export value hamming_window(const value& size, bool periodic = true, dtype element = dtype::float32,
                            const origin& = {});
export value blackman_window(const value& size, bool periodic = true, dtype element = dtype::float32,
                             const origin& = {});

/// Parameters of a filter bank: number of bands, transform length, sample rate, and the edges in Hz.
struct mel_attributes {
  std::int64_t bands = 8, length = 16, rate = 8192;
  double low = 0, high = 4096;
};
/// Weights of the frequencies of a onesided transform in mel bands (ONNX MelWeightMatrix): [length / 2 + 1, bands].
/// Source: Stevens, Volkmann, Newman (1937).   Errors: value_error for parameters that define no bands.
export any_tensor mel_weight_matrix(mel_attributes a, dtype element = dtype::float32);
/// The same for computed parameters: three int64, two float32.
export value mel_weight_matrix(const value& bands, const value& length, const value& rate, const value& low,
                               const value& high, dtype element = dtype::float32, const origin& = {});

}  // namespace lamina
