// Fourier transforms as products with matrices of cosines and sines, windows, and filters of the mel scale.
export module lamina:op.signal;
import :core;
import :dtype;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// Of values of programs and nets. Complex numbers are pairs (real, imaginary) in the last axis, which has an extent of 1 for real
// signals.

/// Which axis is transformed, to which length (that of the operand where it is left out), and how.
export struct dft_attributes {
  std::int64_t axis = -2;
  std::optional<std::int64_t> length{};
  bool inverse = false;
  bool onesided = false;  ///< the first half of what is symmetric: of the result, or with `inverse` of the operand
};
/// The discrete Fourier transform along an axis (ONNX DFT).
/// Shapes:  x [..., N, ..., 1 or 2] -> [..., N, ..., 2]; onesided [..., N / 2 + 1, ..., 2]; with `inverse` and `onesided`
///          [..., N / 2 + 1, ..., 2] -> [..., N, ..., 1]. Shorter signals are filled up with zeros, longer ones cut off.
/// Types:   float32, float64.   Numerics: sums of products, with factors that are right to the last place.
/// Cost:    a product with a matrix of N rows.   Errors: shape_error where the length of the axis is not known.
export value dft(const value& x, dft_attributes a = {}, const origin& = {});

/// How far frames are apart, and how long they are where no window says so.
export struct stft_attributes {
  std::int64_t step = 1;
  std::optional<std::int64_t> length{};
  bool onesided = true;
};
/// The transforms of overlapping frames of a signal, times a window (ONNX STFT).
/// Shapes:  signal [B, L] or [B, L, 1 or 2], window [N] -> [B, 1 + (L - N) / step, N or N / 2 + 1, 2].
/// Errors:  shape_error where L or N is not known, or N above L; value_error for a step below 1.
export value stft(const value& signal, const std::optional<value>& window, stft_attributes a = {}, const origin& = {});

/// Windows of a length that is a value, int32 or int64 [] or [1]; periodic ones end one step before they would begin again.
/// Numerics: computed in double.   Source: Blackman, Tukey (1958).
export value hann_window(const value& size, bool periodic = true, dtype element = dtype::float32, const origin& = {});
export value hamming_window(const value& size, bool periodic = true, dtype element = dtype::float32,
                            const origin& = {});
export value blackman_window(const value& size, bool periodic = true, dtype element = dtype::float32,
                             const origin& = {});

/// What a filter bank is made for: numbers of bands and of the samples of a transform, samples in a second, and the edges in Hz.
export struct mel_attributes {
  std::int64_t bands = 8, length = 16, rate = 8192;
  double low = 0, high = 4096;
};
/// The weights of the frequencies of a onesided transform in bands of the mel scale (ONNX MelWeightMatrix): [length / 2 + 1, bands].
/// Source: Stevens, Volkmann, Newman (1937).   Errors: value_error for numbers that make no bands.
export any_tensor mel_weight_matrix(mel_attributes a, dtype element = dtype::float32);

}  // namespace lamina
