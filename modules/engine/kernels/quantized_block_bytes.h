// Registers of int8 images in channel blocks: conversion of sums to bytes, and addition of another image.
#pragma once
#include "quantized_words.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

#if defined(__AVX2__)

/// Instructions of a register with one number of each channel of a block.
#if defined(__AVX512BW__)
struct block_register {
  static constexpr int lanes = 16;
  using floats = __m512;
  using ints = __m512i;
  LAMINA_INLINE static ints four_everywhere(const void* p) { return _mm512_broadcast_i32x4(read<__m128i>(p)); }
  LAMINA_INLINE static floats four_floats_everywhere(const void* p) { return _mm512_broadcast_f32x4(read<__m128>(p)); }
  LAMINA_INLINE static floats to_floats(ints v) { return _mm512_cvtepi32_ps(v); }
  LAMINA_INLINE static ints to_ints(floats v) { return _mm512_cvtps_epi32(v); }
  LAMINA_INLINE static ints widened(const std::int8_t* p) { return _mm512_cvtepu8_epi32(read<__m128i>(p)); }
  LAMINA_INLINE static floats to_whole(floats v) { return _mm512_roundscale_ps(v, 0); }
  LAMINA_INLINE static floats min(floats a, floats b) { return _mm512_min_ps(a, b); }
  LAMINA_INLINE static floats max(floats a, floats b) { return _mm512_max_ps(a, b); }
  LAMINA_INLINE static ints max_bytes(ints a, ints b) { return _mm512_max_epu8(a, b); }
  LAMINA_INLINE static ints to_shorts(ints a, ints b) { return _mm512_packs_epi32(a, b); }
  LAMINA_INLINE static ints to_bytes(ints a, ints b) { return _mm512_packus_epi16(a, b); }
  LAMINA_INLINE static ints add_shorts(ints a, ints b) { return _mm512_adds_epi16(a, b); }
  LAMINA_INLINE static ints low_bytes(ints a, ints b) { return _mm512_unpacklo_epi8(a, b); }
  LAMINA_INLINE static ints high_bytes(ints a, ints b) { return _mm512_unpackhi_epi8(a, b); }
  LAMINA_INLINE static ints low_shorts(ints a, ints b) { return _mm512_unpacklo_epi16(a, b); }
  LAMINA_INLINE static ints high_shorts(ints a, ints b) { return _mm512_unpackhi_epi16(a, b); }
  /// Word i of the 128-bit lane k becomes word 4 i + k.
  LAMINA_INLINE static ints across(ints v) {
    return _mm512_permutexvar_epi32(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), v);
  }
  /// Four pixels that are two apart; `odd`: those after them.
  LAMINA_INLINE static ints every_second_pixel(const std::int8_t* p, bool odd) {
    const ints first = read<ints>(p), last = read<ints>(p + 64);
    return odd ? _mm512_shuffle_i32x4(first, last, 0xdd) : _mm512_shuffle_i32x4(first, last, 0x88);
  }
  /// Stores the first `pixels` of four.
  LAMINA_INLINE static void put(std::int8_t* to, ints v, long pixels) {
    if (pixels >= 4) write(to, v);
    else _mm512_mask_storeu_epi32(to, static_cast<__mmask16>((1u << (4 * pixels)) - 1), v);
  }
};
#else
struct block_register {
  static constexpr int lanes = 8;
  using floats = __m256;
  using ints = __m256i;
  LAMINA_INLINE static ints four_everywhere(const void* p) { return _mm256_broadcastsi128_si256(read<__m128i>(p)); }
  LAMINA_INLINE static floats four_floats_everywhere(const void* p) {
    return _mm256_broadcast_ps(static_cast<const __m128*>(p));
  }
  LAMINA_INLINE static floats to_floats(ints v) { return _mm256_cvtepi32_ps(v); }
  LAMINA_INLINE static ints to_ints(floats v) { return _mm256_cvtps_epi32(v); }
  LAMINA_INLINE static ints widened(const std::int8_t* p) {
    return _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p)));
  }
  LAMINA_INLINE static floats to_whole(floats v) { return _mm256_round_ps(v, 0); }
  LAMINA_INLINE static floats min(floats a, floats b) { return _mm256_min_ps(a, b); }
  LAMINA_INLINE static floats max(floats a, floats b) { return _mm256_max_ps(a, b); }
  LAMINA_INLINE static ints max_bytes(ints a, ints b) { return _mm256_max_epu8(a, b); }
  LAMINA_INLINE static ints to_shorts(ints a, ints b) { return _mm256_packs_epi32(a, b); }
  LAMINA_INLINE static ints to_bytes(ints a, ints b) { return _mm256_packus_epi16(a, b); }
  LAMINA_INLINE static ints add_shorts(ints a, ints b) { return _mm256_adds_epi16(a, b); }
  LAMINA_INLINE static ints low_bytes(ints a, ints b) { return _mm256_unpacklo_epi8(a, b); }
  LAMINA_INLINE static ints high_bytes(ints a, ints b) { return _mm256_unpackhi_epi8(a, b); }
  LAMINA_INLINE static ints low_shorts(ints a, ints b) { return _mm256_unpacklo_epi16(a, b); }
  LAMINA_INLINE static ints high_shorts(ints a, ints b) { return _mm256_unpackhi_epi16(a, b); }
  /// Word i of the 128-bit lane k becomes word 2 i + k.
  LAMINA_INLINE static ints across(ints v) {
    return _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
  }
  /// Four pixels that are two apart; `odd`: those after them.
  LAMINA_INLINE static ints every_second_pixel(const std::int8_t* p, bool odd) {
    const ints first = read<ints>(p), last = read<ints>(p + 32);
    const ints mixed = odd ? _mm256_unpackhi_epi64(first, last) : _mm256_unpacklo_epi64(first, last);  // 0, 4, 2, 6
    return _mm256_permute4x64_epi64(mixed, 0xd8);
  }
  /// Stores the first `pixels` of four.
  LAMINA_INLINE static void put(std::int8_t* to, ints v, long pixels) {
    if (pixels >= 4) return write(to, v);
    const __m256i mask = _mm256_cmpgt_epi64(_mm256_set1_epi64x(pixels), _mm256_setr_epi64x(0, 1, 2, 3));
    _mm256_maskstore_epi64(reinterpret_cast<long long*>(to), mask, v);
  }
};
#endif

/// Channels of a block, and bytes of a pixel.
inline constexpr long block_channels = block_register::lanes;
inline constexpr int plus_128 = 128;

/// Converts four registers of sums to bytes: saturated(round(v) + zero point) within [low, high], NaN as `low`.
struct block_bytes {
  using on = block_register;
  on::floats max;
  on::ints zero_point, low;

  LAMINA_INLINE block_bytes(std::int32_t y_zero_point, std::int32_t least, std::int32_t greatest)
      : max(everywhere<on::floats>(static_cast<float>(greatest - y_zero_point))),
        zero_point(everywhere<on::ints>(static_cast<std::int16_t>(y_zero_point + plus_128))),
        low(everywhere<on::ints>(static_cast<char>(least + plus_128))) {}
  /// Clamps numbers above the range before rounding; saturating instructions clamp those below it, and NaN.
  LAMINA_INLINE on::ints rounded(on::floats v) const { return on::to_ints(on::min(max, v)); }
  /// Interleaves four lanes of each register, which belong to one pixel in `block_depthwise`.
  LAMINA_INLINE on::ints packed(on::ints a, on::ints b, on::ints c, on::ints d) const {
    const on::ints first = on::add_shorts(on::to_shorts(a, b), zero_point),
                   last = on::add_shorts(on::to_shorts(c, d), zero_point);
    return on::max_bytes(on::to_bytes(first, last), low);
  }
  /// Concatenates the registers.
  LAMINA_INLINE on::ints in_order(on::ints a, on::ints b, on::ints c, on::ints d) const {
    return on::across(packed(a, b, c, d));
  }
};
LAMINA_INLINE block_register::floats numbers_of_block(const std::int8_t* p) {
  return block_register::to_floats(block_register::widened(p));
}

/// Adds another tensor to the results, with the same steps as `quantized_add`.
struct added {
  using on = block_register;
  float a_factor = 0, b_factor = 0, least = 0, a_zero_point = 0, b_zero_point = 0;
  block_bytes to{0, 0, 0};
  added() = default;
  LAMINA_INLINE added(const quantized_blocked_args& a)
      : a_factor(*a.a_scale / *a.sum_scale),
        b_factor(*a.b_scale / *a.sum_scale),
        least(static_cast<float>(a.to.low - *a.to.y_zero_point)),
        a_zero_point(static_cast<float>(*a.a_zero_point - *a.to.y_zero_point)),
        b_zero_point(static_cast<float>(*a.b_zero_point + plus_128)),
        to(*a.sum_zero_point, a.sum_low, a.sum_high) {}
  LAMINA_INLINE on::ints operator()(on::floats v, const block_bytes& from, const std::int8_t* other) const {
    const on::floats whole = on::to_whole(on::min(from.max, on::max(v, everywhere<on::floats>(least))));
    return to.rounded((whole - everywhere<on::floats>(a_zero_point)) * everywhere<on::floats>(a_factor) +
                      (numbers_of_block(other) - everywhere<on::floats>(b_zero_point)) *
                          everywhere<on::floats>(b_factor));
  }
};

#endif

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
