// Products of rows of float32 with weights of 4 or 8 bits that have a scale and an offset for each block, which stay packed.
#pragma once
#include "quantized_words.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

/// 16 numbers of `Bits` bits as float32, the first one in the low bits of its byte.
template <int Bits> LAMINA_INLINE auto numbers16(const std::uint8_t* p) {
  using floats = float __attribute__((ext_vector_type(16)));
  using bytes = std::uint8_t __attribute__((ext_vector_type(16)));
  using words = std::int32_t __attribute__((ext_vector_type(16)));  // signed ones become floats by one instruction
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

/// Rows of x that share what is unpacked; each sum runs in two chains of 16, for any number of rows.
template <int Bits, int R> struct block_rows {
  using floats = float __attribute__((ext_vector_type(16)));
  static void column(const block_linear_args& a, const float* x, long x_row, long o, float* y) {
    floats sums[R][2];
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = floats(0.f);
    const long bytes = a.block * Bits / 8;
    const std::uint8_t* w = a.weight + o * a.blocks * bytes;
    const float *scale = a.scale + o * a.blocks, *offset = a.offset + o * a.blocks * a.offset_step;
    for (long b = 0; b < a.blocks; ++b, x += a.block, w += bytes) {
      const floats s(scale[b]), z(offset[b * a.offset_step]);
      const auto step = [&](long k, int chain) __attribute__((always_inline)) {
        const floats v = (numbers16<Bits>(w + k * Bits / 8) - z) * s;
        LAMINA_UNROLL
        for (int r = 0; r < R; ++r) sums[r][chain] = plus_product(sums[r][chain], read<floats>(x + r * x_row + k), v);
      };
      long k = 0;
      LAMINA_NO_UNROLL
      for (; k + 16 < a.block; k += 32) step(k, 0), step(k + 16, 1);
      if (k < a.block) step(k, 0);
    }
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) {
      const floats both = sums[r][0] + sums[r][1];
      alignas(64) float all[16];
      write(all, both);
      LAMINA_UNROLL
      for (int half = 8; half > 0; half /= 2)
        for (int i = 0; i < half; ++i) all[i] += all[i + half];
      y[r * a.y_row + o] = all[0];
    }
  }
};

constexpr int block_rows_at_once = 4;
LAMINA_INLINE std::size_t block_scratch(const block_linear_args& a) {
  return whole_lines((a.rows < block_rows_at_once ? a.rows : block_rows_at_once) * a.blocks * a.block * 4);
}
/// Rows are copied with zeros behind them, as the last block may be longer than they are.
template <int Bits> LAMINA_INLINE void block_linear(const block_linear_args& args, void* scratch) {
  const block_linear_args a = args;
  const long padded = a.blocks * a.block;
  auto* x = static_cast<float*>(scratch);
  for (long first = 0; first < a.rows; first += block_rows_at_once) {
    const long rows = a.rows - first < block_rows_at_once ? a.rows - first : block_rows_at_once;
    for (long r = 0; r < rows; ++r) {
      std::memcpy(x + r * padded, a.x + (first + r) * a.x_row, static_cast<std::size_t>(a.depth) * 4);
      std::memset(x + r * padded + a.depth, 0, static_cast<std::size_t>(padded - a.depth) * 4);
    }
    float* y = a.y + first * a.y_row;
    if (rows == block_rows_at_once)
      for (long o = 0; o < a.columns; ++o) block_rows<Bits, block_rows_at_once>::column(a, x, padded, o, y);
    else
      for (long r = 0; r < rows; ++r)
        for (long o = 0; o < a.columns; ++o) block_rows<Bits, 1>::column(a, x + r * padded, padded, o, y + r * a.y_row);
  }
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
