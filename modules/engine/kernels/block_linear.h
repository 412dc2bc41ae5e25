// Products of float32 rows with packed weights of 4 or 8 bits, with a scale and a zero point for each block.
#pragma once
#include "quantized_words.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

/// 16 numbers of `Bits` bits as float32, the first one in the low bits of its byte.
template <int Bits> LAMINA_INLINE auto numbers16(const std::uint8_t* p) {
  using floats = float __attribute__((ext_vector_type(16)));
  using bytes = std::uint8_t __attribute__((ext_vector_type(16)));
  using words = std::int32_t __attribute__((ext_vector_type(16)));  // signed: one instruction converts them to float
  bytes all;
  if constexpr (Bits == 8) all = read<bytes>(p);
  else {
    using half = std::uint8_t __attribute__((ext_vector_type(8)));
    const auto both = read<half>(p);
    const half low = both & half(15), high = both >> half(4);
    all = __builtin_shufflevector(low, high, 0, 8, 1, 9, 2, 10, 3, 11, 4, 12, 5, 13, 6, 14, 7, 15);
  }
  return __builtin_convertvector(__builtin_convertvector(all, words), floats);
}

/// 32 numbers as float32, 16 in each output: for 4 bits the low halves of the bytes and the high halves, the order of
/// `copy_in_order`; for 8 bits in sequence.
template <int Bits, class V> LAMINA_INLINE void numbers32(const std::uint8_t* p, V& first, V& second) {
  if constexpr (Bits == 8) first = numbers16<8>(p), second = numbers16<8>(p + 16);
  else {
    using bytes = std::uint8_t __attribute__((ext_vector_type(16)));
    using words = std::int32_t __attribute__((ext_vector_type(16)));
    const auto both = __builtin_convertvector(read<bytes>(p), words);
    first = __builtin_convertvector(both & words(15), V), second = __builtin_convertvector(both >> words(4), V);
  }
}
/// The numbers of a block minus its zero point. With AVX-512, numbers of 4 bits are looked up in a register of all 16
/// values: fewer steps than converting each to float.
template <int Bits, class V> class block_numbers {
 public:
  LAMINA_INLINE explicit block_numbers(float z) {
    const V zero_point(z);
    if constexpr (looks_up) held_ = V{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15} - zero_point;
    else held_ = zero_point;
  }
  /// Unpacks 32 of them, in the order of `numbers32`.
  LAMINA_INLINE void take(const std::uint8_t* p, V& first, V& second) const {
#if defined(__AVX512F__)
    if constexpr (looks_up) {
      using words = std::int32_t __attribute__((ext_vector_type(16)));
      const auto of = [&](words lowest_bits) __attribute__((always_inline)) {
        return __builtin_bit_cast(
            V, _mm512_permutexvar_ps(__builtin_bit_cast(__m512i, lowest_bits), __builtin_bit_cast(__m512, held_)));
      };
      const auto both = __builtin_convertvector(read<bytes16>(p), words);
      first = of(both), second = of(both >> words(4));
      return;
    }
#endif
    numbers32<Bits>(p, first, second);
    first = first - held_, second = second - held_;
  }

 private:
  static constexpr bool looks_up = Bits == 4 && this_isa == isa::avx512;
  V held_;  // all 16 values minus the zero point, or the zero point
};
/// Adds halves until one number is left.
template <class V> LAMINA_INLINE float sum_of(V v) {
  const auto eight = v.lo + v.hi;
  const auto four = eight.lo + eight.hi;
  const auto two = four.lo + four.hi;
  return two.x + two.y;
}
/// Copies a row, padded to whole blocks; for 4 bits, each 32 numbers of a block are the even ones, then the odd ones.
template <int Bits> LAMINA_INLINE void copy_in_order(const block_linear_args& a, const float* from, float* to) {
  const long padded = a.blocks * a.block;
  const auto at = [&](long i) { return i < a.depth ? from[i] : 0.f; };
  if (Bits == 8 || a.block < 32) {
    std::memcpy(to, from, static_cast<std::size_t>(a.depth) * 4);
    std::memset(to + a.depth, 0, static_cast<std::size_t>(padded - a.depth) * 4);
    return;
  }
  for (long b = 0; b < padded; b += a.block) {
    long k = b;
    for (; k + 32 <= b + a.block; k += 32)
      for (long i = 0; i < 16; ++i) to[k + i] = at(k + 2 * i), to[k + 16 + i] = at(k + 2 * i + 1);
    for (; k < b + a.block; ++k) to[k] = at(k);
  }
}

/// R rows of x share the unpacked weights. Block sums are scaled and added to a few chains in rotation, in the same
/// order for any number of rows. `Block`: the block size if known at compile time, else 0.
template <int Bits, int R, long Block> struct block_rows {
  using floats = float __attribute__((ext_vector_type(16)));
  static constexpr int chains = LAMINA_REGISTERS == 32 ? 4 : 2;
  static void column(const block_linear_args& a, const float* x, long x_row, long o, float* y) {
    floats sums[R][chains];
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) LAMINA_UNROLL for (int i = 0; i < chains; ++i) sums[r][i] = floats(0.f);
    const long block = Block ? Block : a.block, blocks = a.blocks, bytes = block * Bits / 8;
    const std::uint8_t* w = a.weight + o * a.blocks * bytes;
    const float *scale = a.scale + o * a.blocks, *zero_point = a.zero_point + o * a.blocks * a.zero_point_step;
    block_numbers<Bits, floats> numbers(blocks ? *zero_point : 0);
    const auto add_block = [&](long b, int chain) __attribute__((always_inline)) {
      const floats s(scale[b]);
      if (a.zero_point_step) numbers = block_numbers<Bits, floats>(zero_point[b]);
      const auto add = [&](auto part_of) __attribute__((always_inline)) {
        LAMINA_UNROLL
        for (int r = 0; r < R; ++r) sums[r][chain] = plus_product(sums[r][chain], part_of(x + r * x_row), s);
      };
      long k = 0;
      LAMINA_NO_UNROLL
      for (; k + 16 < block; k += 32) {
        floats first, second;
        numbers.take(w + k * Bits / 8, first, second);
        add([&](const float* row) __attribute__((always_inline)) {
          return plus_product(read<floats>(row + k) * first, read<floats>(row + k + 16), second);
        });
      }
      if (k < block) {
        const floats last = numbers16<Bits>(w + k * Bits / 8) - floats(zero_point[b * a.zero_point_step]);
        add([&](const float* row) __attribute__((always_inline)) { return read<floats>(row + k) * last; });
      }
      x += block, w += bytes;
    };
    long b = 0;
    for (; b + chains <= blocks; b += chains) LAMINA_UNROLL for (int i = 0; i < chains; ++i) add_block(b + i, i);
    for (; b < blocks; ++b) add_block(b, 0);
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) {
      floats all = sums[r][0] + sums[r][1];
      if constexpr (chains == 4) all = all + (sums[r][2] + sums[r][3]);
      y[r * a.y_row + o] = sum_of(all);
    }
  }
};

constexpr int block_rows_at_once = 4;
LAMINA_INLINE std::size_t block_scratch(const block_linear_args& a) {
  return whole_lines((a.rows < block_rows_at_once ? a.rows : block_rows_at_once) * a.blocks * a.block * 4);
}
/// Copies rows in the order of the numbers and pads them with zeros, because the last block may extend past them.
template <int Bits, long Block> LAMINA_INLINE void block_linear(const block_linear_args& args, void* scratch) {
  const block_linear_args a = args;
  const long padded = a.blocks * a.block;
  auto* x = static_cast<float*>(scratch);
  for (long first = 0; first < a.rows; first += block_rows_at_once) {
    const long rows = a.rows - first < block_rows_at_once ? a.rows - first : block_rows_at_once;
    for (long r = 0; r < rows; ++r) copy_in_order<Bits>(a, a.x + (first + r) * a.x_row, x + r * padded);
    float* y = a.y + first * a.y_row;
    if (rows == block_rows_at_once)
      for (long o = 0; o < a.columns; ++o) block_rows<Bits, block_rows_at_once, Block>::column(a, x, padded, o, y);
    else
      for (long r = 0; r < rows; ++r)
        for (long o = 0; o < a.columns; ++o)
          block_rows<Bits, 1, Block>::column(a, x + r * padded, padded, o, y + r * a.y_row);
  }
}
template <int Bits> LAMINA_INLINE void block_linear(const block_linear_args& a, void* scratch) {
  if (a.block == 32) block_linear<Bits, 32>(a, scratch);
  else block_linear<Bits, 0>(a, scratch);
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
