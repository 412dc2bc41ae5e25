// Requantization of the int32 sums of a product to int8 results.
#pragma once
#include "quantized_words.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

/// Rounds to nearest, ties to even, for |x| < 2^22, without a rounding instruction, which SSE2 lacks.
LAMINA_INLINE float rounded(float x) { return (x + 12582912.f) - 12582912.f; }

/// saturated(round(v) + zero point) within [low, high], NaN as `low`.
LAMINA_INLINE std::int8_t finished_number(float v, std::int32_t low, std::int32_t high, std::int32_t zero_point) {
  const float least = static_cast<float>(low - zero_point), max = static_cast<float>(high - zero_point);
  v = v > least ? v : least;
  v = v < max ? v : max;
  return static_cast<std::int8_t>(static_cast<std::int32_t>(rounded(v)) + zero_point);
}

/// Factor of each output channel, and bias minus the contribution of the zero point of x to each sum.
struct factors {
  const std::int32_t* bias;
  const float* factor;
};
/// Bytes of memory for the factors of `channels`.
constexpr std::size_t factor_bytes(long channels) { return 2 * whole_lines(panels_of(channels) * panel_columns * 4); }

/// bias - zero_point * weights, with wraparound.
LAMINA_INLINE std::int32_t less_zero_point(std::int32_t bias, std::int32_t zero_point, std::int32_t weights) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(bias) -
                                   static_cast<std::uint32_t>(zero_point) * static_cast<std::uint32_t>(weights));
}

/// `weights_of(o)` returns the sum of the weights of channel o.
template <class Form, class Result, class Weights>
LAMINA_INLINE factors factors_of(const requantization& to, long channels, void* memory, Weights weights_of) {
  auto* bias = static_cast<std::int32_t*>(memory);
  auto* factor = reinterpret_cast<float*>(static_cast<std::int8_t*>(memory) + factor_bytes(channels) / 2);
  const std::int32_t zero_point = *to.x_zero_point + Form::shift;
  for (long o = 0; o < channels; ++o) {
    factor[o] = Result::factor_of(to, o);
    bias[o] = less_zero_point(Result::bias_of(to, o), zero_point, weights_of(o));
  }
  for (long o = channels; o < panels_of(channels) * panel_columns; ++o) factor[o] = 0, bias[o] = 0;
  return {bias, factor};
}

/// Factors and biases of an int8 result.
struct bytes_result {
  using number = std::int8_t;
  using numbers16 = bytes16;
  static float factor_of(const requantization& to, long o) {
    return *to.x_scale * to.w_scale[o * to.w_scale_step] / *to.y_scale;
  }
  static std::int32_t bias_of(const requantization& to, long o) { return to.bias ? to.bias[o] : 0; }
};

/// int32 results: the sums themselves.
struct sums_result {
  using number = std::int32_t;
  using numbers16 = sums16;
  LAMINA_INLINE explicit sums_result(const requantization&) {}
  static float factor_of(const requantization&, long) { return 1; }
  static std::int32_t bias_of(const requantization&, long) { return 0; }
  template <bool Each>
  LAMINA_INLINE sums16 operator()(const std::int32_t* sums, const std::int32_t* bias, const float*) const {
    using words = std::uint32_t __attribute__((ext_vector_type(16)));
    const words more = Each ? read<words>(bias) : words(static_cast<std::uint32_t>(*bias));
    return __builtin_bit_cast(sums16, read<words>(sums) + more);
  }
};

/// Copies rows with stride `pitch` in a line to contiguous rows of a map; may write only `capacity` numbers from `to` on.
template <class V, class T>
LAMINA_INLINE void rows_of_line(const T* line, long pitch, T* to, long width, long rows, long capacity) {
  for (long r = 0; r < rows; ++r, line += pitch, to += width, capacity -= width) {
    if (capacity < width + 16) copy(to, line, width);
    else  // writes past a row into the next one, which overwrites the excess
      for (long x = 0; x < width; x += 16) write(to + x, read<V>(line + x));
  }
}

// Converts 16 sums to bytes, with a bias and a factor for each of them, or one for all.  Its state stays in registers,
// because byte stores may alias any memory.
#if defined(__SSE2__)

/// Clamps numbers above the range before rounding; saturating instructions clamp numbers below it, and NaN, which
/// converts to the smallest integer.
struct finish : bytes_result {
#if defined(__AVX512BW__)
  using floats = __m512;
  using ints = __m512i;
  using shorts = __m256i;
#elif defined(__AVX2__)
  using floats = __m256;
  using ints = __m256i;
  using shorts = __m256i;
#else
  using floats = __m128;
  using ints = __m128i;
  using shorts = __m128i;
#endif
  static constexpr int lanes = sizeof(floats) / 4;
  floats max;
  shorts zero_point, low;

  LAMINA_INLINE explicit finish(const requantization& to)
      : max(everywhere<floats>(static_cast<float>(to.high - *to.y_zero_point))),
        zero_point(everywhere<shorts>(static_cast<std::int16_t>(*to.y_zero_point))),
        low(everywhere<shorts>(static_cast<std::int16_t>(to.low))) {}

  template <bool Each>
  LAMINA_INLINE bytes16 operator()(const std::int32_t* sums, const std::int32_t* bias, const float* factor) const {
    ints part[16 / lanes];
    LAMINA_UNROLL
    for (int i = 0; i < 16 / lanes; ++i) {
      const auto b = Each ? read<ints>(bias + i * lanes) : everywhere<ints>(*bias);
      const auto f = Each ? read<floats>(factor + i * lanes) : everywhere<floats>(*factor);
#if defined(__AVX512BW__)
      part[i] = _mm512_cvtps_epi32(
          _mm512_min_ps(max, _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(read<ints>(sums), b)), f)));
#elif defined(__AVX2__)
      part[i] = _mm256_cvtps_epi32(
          _mm256_min_ps(max, _mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_add_epi32(read<ints>(sums + i * lanes), b)), f)));
#else
      part[i] = _mm_cvtps_epi32(
          _mm_min_ps(max, _mm_mul_ps(_mm_cvtepi32_ps(_mm_add_epi32(read<ints>(sums + i * lanes), b)), f)));
#endif
    }
#if defined(__AVX512BW__)
    const shorts n = _mm256_max_epi16(_mm256_adds_epi16(_mm512_cvtsepi32_epi16(part[0]), zero_point), low);
    return __builtin_bit_cast(bytes16, _mm256_cvtsepi16_epi8(n));
#elif defined(__AVX2__)
    const shorts n = _mm256_permute4x64_epi64(
        _mm256_max_epi16(_mm256_adds_epi16(_mm256_packs_epi32(part[0], part[1]), zero_point), low), 0xd8);
    return __builtin_bit_cast(bytes16, _mm_packs_epi16(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1)));
#else
    const shorts first = _mm_max_epi16(_mm_adds_epi16(_mm_packs_epi32(part[0], part[1]), zero_point), low);
    const shorts last = _mm_max_epi16(_mm_adds_epi16(_mm_packs_epi32(part[2], part[3]), zero_point), low);
    return __builtin_bit_cast(bytes16, _mm_packs_epi16(first, last));
#endif
  }
};

#else

struct finish : bytes_result {
  float low, high;
  std::int32_t zero_point;
  LAMINA_INLINE explicit finish(const requantization& to)
      : low(static_cast<float>(to.low - *to.y_zero_point)),
        high(static_cast<float>(to.high - *to.y_zero_point)),
        zero_point(*to.y_zero_point) {}

  template <bool Each>
  LAMINA_INLINE bytes16 operator()(const std::int32_t* sums, const std::int32_t* bias, const float* factor) const {
    using ints = std::uint32_t __attribute__((ext_vector_type(16)));
    using numbers = std::int32_t __attribute__((ext_vector_type(16)));
    using floats = float __attribute__((ext_vector_type(16)));
    ints b;
    floats f;
    if constexpr (Each) b = read<ints>(bias), f = read<floats>(factor);
    else b = ints(static_cast<std::uint32_t>(*bias)), f = floats(*factor);
    floats v = __builtin_convertvector(__builtin_bit_cast(numbers, read<ints>(sums) + b), floats) * f;
    v = v > low ? v : floats(low);  // a NaN, too
    v = v < high ? v : floats(high);
    v = (v + 12582912.f) - 12582912.f;  // ties to even
    return __builtin_convertvector(__builtin_convertvector(v, numbers) + zero_point, bytes16);
  }
};

#endif

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
