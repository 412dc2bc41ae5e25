// Products for batch size one: a row times prepacked weights, and rows times a single column.  They are short, so that
// every cycle before the first multiply-add counts.
#pragma once
#include "gemm.h"
#include "gemm_driver.h"
#include "gemm_tile.h"
#include "simd.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// Registers of sums, in whole panels: `row_block` per block of a longer row, enough chains to hide the latency of the
/// multiply-add; `row_vectors` at most for a whole row.
inline constexpr int row_block = LAMINA_REGISTERS == 32 ? 3 * tile_vectors : 4 * tile_vectors;
inline constexpr int row_vectors = LAMINA_REGISTERS == 32 ? row_block : 6 * tile_vectors;

/// Whether a product of one row has a special kernel.
LAMINA_INLINE bool is_row(const gemm_args& g) { return g.m == 1 && g.prepacked && g.batch == 1 && !g.accumulate; }
/// Whether the weights stay in L1 from one product to the next.
LAMINA_INLINE bool fits_first_cache(const gemm_args& g) {
  constexpr long first_cache_bytes = 32 * 1024;
  return g.k * g.n * static_cast<long>(sizeof(float)) <= first_cache_bytes;
}
/// Whether multiplying the rows one by one, each `is_row`, is as good.
LAMINA_INLINE bool is_rows(const gemm_args& g) {
  gemm_args one = g;
  one.m = 1;
  return is_row(one) && g.k <= longest_k_block && fits_first_cache(g);
}
/// Whether a product of one column consists of dot products of contiguous rows.
LAMINA_INLINE bool is_column(const gemm_args& g) {
  return g.n == 1 && !g.prepacked && g.batch == 1 && (g.a_column == 1 || g.k == 1) && (g.b_row == 1 || g.k == 1);
}

/// Chains per sum for relaxed summation of `vectors` registers: together enough to hide the latency.
constexpr int free_chains(int vectors) { return vectors <= 2 ? 4 : vectors <= 4 ? 2 : 1; }

/// Adds rows [p, end) of the panels, times their elements of the row, to the sums: `Chains` chains for each register.
template <int Vectors, int Chains> LAMINA_INLINE void add_products(const gemm_args& g, const float* b, long p, long end,
                                                                   vec<float> (&chain)[Chains][Vectors]) {
  const long panel = g.k * panel_columns<float>;
  const float* a = static_cast<const float*>(g.a) + p * g.a_column;
  b += p * panel_columns<float>;
  const auto add = [&](int c) __attribute__((always_inline)) {
    const vec<float> x = broadcast(a);
    LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) chain[c][j] =
        fma(x, load(b + j / tile_vectors * panel + j % tile_vectors * width<float>), chain[c][j]);
    a += g.a_column;
    b += panel_columns<float>;
  };
  LAMINA_NO_UNROLL for (; p + Chains <= end; p += Chains) LAMINA_UNROLL for (int c = 0; c < Chains; ++c) add(c);
  if constexpr (Chains > 1) LAMINA_NO_UNROLL for (; p < end; ++p) add(0);
}
/// `Vectors` registers of the row from `column` on, each summed in `Chains` chains.
template <int Vectors, int Chains, masking Masking>
LAMINA_INLINE void row_of_panels(const gemm_args& g, const float* b, long column) {
  const tile_mask<float, Vectors, Masking> lanes(static_cast<int>(smaller(g.n - column, Vectors * width<float>)));
  // With relaxed summation, a chain begins with the bias, which is available before the row.
  const float* bias = Chains > 1 && g.bias_column ? static_cast<const float*>(g.bias_column) + column : nullptr;
  vec<float> chain[Chains][Vectors];
  LAMINA_UNROLL for (int c = 0; c < Chains; ++c) LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) chain[c][j] =
      zero<float>();
  if (bias) LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) chain[Chains - 1][j] = lanes.load(bias, j);
  add_products(g, b, 0, g.k, chain);
  LAMINA_UNROLL for (int half = Chains / 2; half > 0; half /= 2) LAMINA_UNROLL for (int c = 0; c < half; ++c)
      LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) chain[c][j] = chain[c][j] + chain[c + half][j];
  vec<float> sum[1][Vectors];
  LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) sum[0][j] = chain[0][j];
  finish_rows<float, 1, Vectors, Masking>(
      sum, lanes,
      {static_cast<float*>(g.c) + column, g.c_row, &g, column, 0, bias ? gemm_finish | gemm_biased : gemm_finish});
}
/// The same for the last panel of `vectors` registers, with relaxed summation.
template <int Vectors>
LAMINA_INLINE void row_of_last_panel(int vectors, const gemm_args& g, const float* b, long column) {
  if (vectors == Vectors) row_of_panels<Vectors, free_chains(Vectors), masking::last>(g, b, column);
  else if constexpr (Vectors > 1) row_of_last_panel<Vectors - 1>(vectors, g, b, column);
}
/// `Vectors` registers of a row of any length, in the order of sums of all products: one chain in each K block.
template <int Vectors, masking Masking>
LAMINA_INLINE void row_of_long_panels(const gemm_args& g, const float* b, long column) {
  const tile_mask<float, Vectors, Masking> lanes(static_cast<int>(smaller(g.n - column, Vectors * width<float>)));
  vec<float> total[1][Vectors];
  long p = 0;
  do {
    const long end = smaller(p + g.k_block, g.k);
    vec<float> sum[1][Vectors];
    LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) sum[0][j] = zero<float>();
    add_products(g, b, p, end, sum);
    if (p == 0) LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) total[0][j] = sum[0][j];
    else LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) total[0][j] = total[0][j] + sum[0][j];
    p = end;
  } while (p < g.k);
  finish_rows<float, 1, Vectors, Masking>(total, lanes,
                                          {static_cast<float*>(g.c) + column, g.c_row, &g, column, 0, gemm_finish});
}
/// The whole blocks of a row of any length, with a fixed order of sums; returns the column after them.
template <int Vectors> LAMINA_APART long whole_blocks_of_long_row(const gemm_args& g) {
  constexpr long columns = Vectors * width<float>;
  long i = 0;
  LAMINA_NO_UNROLL for (; i + columns <= g.n; i += columns)
      row_of_long_panels<Vectors, masking::whole>(g, static_cast<const float*>(g.b) + i * g.k, i);
  return i;
}

/// A whole product that `is_row` with one K block and at most `row_vectors` registers, as counted by `prepare`.
template <int Vectors, masking Masking, int Chains> LAMINA_INLINE void run_short_row(const gemm_args& g) {
  row_of_panels<Vectors, Chains, Masking>(g, static_cast<const float*>(g.b), 0);
}
/// A whole product that `is_row` with one K block, with relaxed summation.  A stream reads the same weights again and
/// again: if they do not fit in L1, every other run processes the panels from last to first, so that it reads those
/// that are still cached before they are evicted.
LAMINA_INLINE void run_row(const gemm_args& g) {
  constexpr long panel = panel_columns<float>;
  constexpr int chains = free_chains(tile_vectors);
  const auto* b = static_cast<const float*>(g.b);
  const long first = fits_first_cache(g) ? whole_blocks_of_long_row<row_block>(g) : 0;
  const bool back = (const_cast<gemm_args&>(g).direction ^= 1) != 0;
  const long panels = parts(g.n - first, panel);
  LAMINA_NO_UNROLL for (long i = 0; i < panels; ++i) {
    const long j = first + (back ? panels - 1 - i : i) * panel;
    if (j + panel <= g.n) row_of_panels<tile_vectors, chains, masking::whole>(g, b + j * g.k, j);
    else row_of_last_panel<tile_vectors>(static_cast<int>(parts(g.n - j, width<float>)), g, b + j * g.k, j);
  }
}

/// A whole product that `is_row`, of any length, with a fixed order of sums; the last block has `Rest` registers, or 0
/// for none.
template <int Rest> LAMINA_INLINE void run_long_row(const gemm_args& g) {
  const long i = whole_blocks_of_long_row<row_block>(g);
  if constexpr (Rest > 0) row_of_long_panels<Rest, masking::last>(g, static_cast<const float*>(g.b) + i * g.k, i);
}

/// A whole product that `is_rows`, row by row.
LAMINA_COMPACT void run_rows(const gemm_args& g) {
  gemm_args one = g;
  one.m = 1;
  for (long i = 0; i < g.m; ++i) {
    g.row(&one, nullptr);
    one.a = static_cast<const float*>(one.a) + g.a_row;
    one.c = static_cast<float*>(one.c) + g.c_row;
    if (g.bias_row) one.bias_row = static_cast<const float*>(one.bias_row) + 1;
    if (g.residual) one.residual = static_cast<const float*>(one.residual) + g.residual_row;
  }
}

/// Chains of the dot product of a row and a column, added in the same pairs on every set.
inline constexpr int column_chains = 16, column_registers = column_chains / width<float>;

LAMINA_INLINE void finish_column(vec<float> (&sum)[column_registers], const gemm_args& g, long row) {
  LAMINA_UNROLL for (int half = column_registers / 2; half > 0; half /= 2) LAMINA_UNROLL for (int j = 0; j < half; ++j)
      sum[j] = sum[j] + sum[j + half];
  float* c = static_cast<float*>(g.c) + row * g.c_row;
  float x = reduce_add(sum[0]);
  if (g.accumulate) x += *c;
  if (g.bias_column) x += *static_cast<const float*>(g.bias_column);
  if (g.bias_row) x += static_cast<const float*>(g.bias_row)[row];
  if (g.residual) x += static_cast<const float*>(g.residual)[row * g.residual_row];
  if (g.clamp) {
    const auto low = static_cast<float>(g.low), high = static_cast<float>(g.high);
    x = low > x ? low : x;  // a NaN stays
    x = high < x ? high : x;
  }
  *c = x;
}
template <int Rows> LAMINA_INLINE void column_of_rows(const gemm_args& g, long row) {
  constexpr int chains = column_chains, registers = column_registers;
  const float* a = static_cast<const float*>(g.a) + row * g.a_row;
  const auto* b = static_cast<const float*>(g.b);
  vec<float> sum[Rows][registers];
  LAMINA_UNROLL for (int i = 0; i < Rows; ++i) LAMINA_UNROLL for (int j = 0; j < registers; ++j) sum[i][j] =
      zero<float>();
  long p = 0;
  LAMINA_NO_UNROLL for (; p + chains <= g.k; p += chains) LAMINA_UNROLL for (int j = 0; j < registers; ++j) {
    const long at = p + j * width<float>;
    const vec<float> y = load(b + at);
    LAMINA_UNROLL for (int i = 0; i < Rows; ++i) sum[i][j] = fma(load(a + i * g.a_row + at), y, sum[i][j]);
  }
  LAMINA_UNROLL for (int j = 0; j < registers; ++j) {
    const long at = p + j * width<float>, left = g.k - at;
    if (left <= 0) break;
    const vec<float> y = load_lanes(b + at, left);
    LAMINA_UNROLL for (int i = 0; i < Rows; ++i) sum[i][j] = fma(load_lanes(a + i * g.a_row + at, left), y, sum[i][j]);
  }
  LAMINA_UNROLL for (int i = 0; i < Rows; ++i) finish_column(sum[i], g, row + i);
}
/// A whole product of one row and one column.
LAMINA_INLINE void run_dot(const gemm_args& g) { column_of_rows<1>(g, 0); }
/// A whole product that `is_column`.
LAMINA_INLINE void run_column(const gemm_args& g) {
  long i = 0;
  LAMINA_NO_UNROLL for (; i + 4 <= g.m; i += 4) column_of_rows<4>(g, i);
  LAMINA_NO_UNROLL for (; i < g.m; ++i) column_of_rows<1>(g, i);
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
