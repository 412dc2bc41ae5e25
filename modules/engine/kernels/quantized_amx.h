// Products of words of four bytes with AMX, from the weights that the form with VNNI packs.
#pragma once
#include "amx.h"
#include "quantized_words.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

#if defined(__AVX512BW__)

/// The words of `by_fours`, multiplied in tiles.
struct by_tiles : by_fours {
  static int there() noexcept { return by_fours::there() && amx::there(); }
};

/// Rows below which products are faster without tiles.
inline constexpr long least_rows_of_tiles = 4;

/// As `filter_tiles`, for rows of words at x with stride `x_row`; reads whole tiles of rows, whatever is beyond the last one.
template <class Each> LAMINA_INLINE void amx_tiles(long rows, long columns, const panel_layout<by_tiles>& of,
                                                   const std::int8_t* x, long x_row, const std::int8_t* packed,
                                                   Each each) {
  constexpr long tall = 2 * amx::tile_rows, wide = 3, step = amx::row_bytes / 4;
  alignas(64) std::int32_t held[tall * wide * panel_columns];
  const long panels = panels_of(columns);
  for (long p = 0; p < panels; p += wide)
    for (long r = 0; r < rows; r += tall)
      amx::with_tiles(rows - r, panels - p,
                      [&]<int Bands, int Columns>(std::integral_constant<int, Bands>,
                                                  std::integral_constant<int, Columns>) __attribute__((always_inline)) {
                        amx::sums<amx::byte_words, Bands, Columns> all;
                        amx::operand a{reinterpret_cast<const char*>(x + r * x_row), x_row, amx::tile_rows * x_row},
                            b{reinterpret_cast<const char*>(packed + p * of.step), amx::row_bytes, of.step};
                        long left = of.words;
                        LAMINA_NO_UNROLL for (; left >= step; left -= step) {
                          all.add(a, b);
                          a.at += amx::row_bytes;
                          b.at += step * amx::row_bytes;
                        }
                        if (left > 0) all.add_rest(a, b, left);
                        all.store(held);
                        each(r, static_cast<int>(rows - r < tall ? rows - r : tall), p, Columns,
                             static_cast<const std::int32_t*>(held));
                      });
}

#endif

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
