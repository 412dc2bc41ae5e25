// A function on bytes as a table of all results.
#pragma once
#include "quantized_words.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

#if defined(__AVX2__) && !defined(__AVX512BW__)
/// Entries of `Count` tables of 16 from `table` on: `low` is the index in a table, and the highest bits of `bit[...]` choose
/// a half of 2, 4, 8 and 16 tables.
template <int Count> LAMINA_INLINE __m256i entries(const std::int8_t* table, __m256i low, const __m256i* bit) {
  if constexpr (Count == 1) return _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(read<__m128i>(table)), low);
  else {
    const __m256i first = entries<Count / 2>(table, low, bit), second = entries<Count / 2>(table + 8 * Count, low, bit);
    return _mm256_blendv_epi8(first, second, bit[__builtin_ctz(Count) - 1]);
  }
}
#endif

/// out = table[in + 128]; `shifted`: input and output are stored plus 128.
LAMINA_INLINE void look_up(const quantized_table_args& a, bool shifted) {
  const auto flip_in = static_cast<std::uint8_t>(shifted ? 0 : 128),
             flip_out = static_cast<std::uint8_t>(128 - flip_in);
  long i = 0;
#if defined(__AVX512BW__)
  // Two neighboring table entries form a 16-bit word; 128 words fill four registers.
  const auto part = [&](int k) __attribute__((always_inline)) { return read<__m512i>(a.table + 64 * k); };
  const __m512i first = part(0), second = part(1), third = part(2), fourth = part(3), one = _mm512_set1_epi16(1),
                half = _mm512_set1_epi16(128);
  const __m256i in = _mm256_set1_epi8(static_cast<char>(flip_in)), out = _mm256_set1_epi8(static_cast<char>(flip_out));
  for (; i + 32 <= a.count; i += 32) {
    const __m512i x = _mm512_cvtepu8_epi16(_mm256_xor_si256(read<__m256i>(a.in + i), in)),
                  word = _mm512_srli_epi16(x, 1);
    const __m512i low = _mm512_permutex2var_epi16(first, word, second),
                  high = _mm512_permutex2var_epi16(third, word, fourth);
    const __m512i pair = _mm512_mask_blend_epi16(_mm512_test_epi16_mask(x, half), low, high);
    const __m512i found = _mm512_srlv_epi16(pair, _mm512_slli_epi16(_mm512_and_si512(x, one), 3));
    write(a.out + i, _mm256_xor_si256(_mm512_cvtepi16_epi8(found), out));
  }
#elif defined(__AVX2__)
  const __m256i in = _mm256_set1_epi8(static_cast<char>(flip_in)), out = _mm256_set1_epi8(static_cast<char>(flip_out));
  for (; i + 32 <= a.count; i += 32) {
    const __m256i x = _mm256_xor_si256(read<__m256i>(a.in + i), in),
                  bit[4] = {_mm256_slli_epi16(x, 3), _mm256_slli_epi16(x, 2), _mm256_slli_epi16(x, 1), x};
    write(a.out + i, _mm256_xor_si256(entries<16>(a.table, _mm256_and_si256(x, _mm256_set1_epi8(15)), bit), out));
  }
#endif
  for (; i < a.count; ++i) {
    const auto at = static_cast<std::uint8_t>(static_cast<std::uint8_t>(a.in[i]) ^ flip_in);
    a.out[i] = static_cast<std::int8_t>(static_cast<std::uint8_t>(a.table[at]) ^ flip_out);
  }
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
