// Decisions and loops of the matrix product, generic in the element type.
#pragma once
#include "gemm.h"
#include "product_form.h"
#include "simd.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// A full tile: fastest, as measured, of those whose sums, one row of B and one broadcast fit the registers.
inline constexpr int tile_rows = LAMINA_REGISTERS == 32 ? 8 : this_isa == isa::avx2 ? 6 : 4;
inline constexpr int tile_vectors = LAMINA_REGISTERS == 32 ? 3 : 2;
/// Columns of a packed panel of B.
template <class T> inline constexpr int panel_columns = tile_vectors * width<T>;

/// Maximum length of a chain of multiply-adds; the same for every set, so that AVX2 and AVX-512 give the same bits.
inline constexpr long longest_k_block = 768;
/// Rows of A and bytes of a row of B per block: a block of A stays in L2, a block of B in L3.
inline constexpr long block_rows = 120, block_row_bytes = 16384;
/// Maximum bytes of B to read unpacked; a larger B leaves L2 between two row panels.
inline constexpr long direct_bytes = this_isa == isa::avx512 ? 700 * 1024 : 280 * 1024;
/// Rows of A that are few for a packed block of B, and the bytes of such a block, which is read back from L2.
inline constexpr long max_thin_rows = 16 * tile_rows;
inline constexpr long thin_block_bytes = 256 * 1024;
/// Row strides that are multiples of this map all rows to the same few sets of L1.
inline constexpr long alias_bytes = 4096;

LAMINA_INLINE long smaller(long a, long b) { return a < b ? a : b; }
LAMINA_INLINE long larger(long a, long b) { return a > b ? a : b; }
LAMINA_INLINE long parts(long total, long part) { return (total + part - 1) / part; }

/// Size of equal parts of K: depends on K alone, because it determines the bits of a sum.
LAMINA_INLINE long k_block_of(long k) { return k == 0 ? 1 : parts(k, parts(k, longest_k_block)); }

/// Whether rows of B are contiguous, so that tiles can read it unpacked.
LAMINA_INLINE bool direct_b(const gemm_args& g) { return g.b_column == 1 || g.n == 1; }

/// Whether to pack B: its layout requires it, or it is reused often enough.
template <class T> LAMINA_INLINE bool packs_b(const gemm_args& g) {
  constexpr long size = sizeof(T);
  if (g.prepacked) return false;
  if (!direct_b(g)) return true;
  const bool thin = g.m <= 4 * tile_rows, small = g.k * g.n * size <= direct_bytes;
  const bool aliased = this_isa != isa::avx512 && g.b_row * size % alias_bytes == 0;
  return !thin && !(small && !aliased);
}

/// Whether packing A pays: it is reused often, or its rows conflict in L1.
template <class T> LAMINA_INLINE bool packing_a_pays(const gemm_args& g) {
  constexpr long size = sizeof(T);
  const bool aliased = g.a_step * size % alias_bytes == 0;
  if (g.prepacked) return g.n >= 1024 || (g.n >= 256 && (this_isa != isa::avx512 || aliased));
  return g.pack_b && g.n > 256 && (g.k * g.n * size > 1 << 20 || aliased);
}

/// Cuts M into row panels of nearly equal height, so that the last tiles are nearly full.
LAMINA_INLINE void cut_rows_evenly(gemm_args& g) {
  const long panels = larger(1, parts(g.m, tile_rows));
  g.short_rows = larger(1, g.m / panels);
  g.tall_rows = larger(1, parts(g.m, panels));
  g.tall_count = g.tall_rows == g.short_rows ? panels : g.m - panels * g.short_rows;
}

/// Decides for prepacked B and an A that is rounded, or rounded while it is packed by `packer`.
LAMINA_INLINE void round_while_packing(gemm_args& g, gemm_pack packer) {
  g.a_in_columns = 0;
  g.row = nullptr;
  g.a_step = g.a_row;
  g.pack_b = 0;
  g.packer_b = nullptr;
  g.pack_a = g.rounded ? 0 : 1;
  g.packer_a = g.rounded ? nullptr : packer;
}

/// Whether a form packs A in tiles, whose sums take all of K.
template <class Form> inline constexpr bool packs_tiles = requires { Form::row_numbers(1); };
/// Numbers of a packed row of A.
template <class Form> LAMINA_INLINE long packed_row_of(long k) {
  if constexpr (packs_tiles<Form>) return Form::row_numbers(k);
  else return steps_of<Form>(k) * Form::numbers;
}

/// Sets the block sizes of the loops; requires pack_b, tile_columns and the row panels.
template <class Form> LAMINA_INLINE void cut_blocks(gemm_args& g) {
  constexpr long size = sizeof(typename Form::number);
  g.k_block = packs_tiles<Form> && g.k > 0 ? packed_row_of<Form>(g.k) : steps_of<Form>(k_block_of(g.k)) * Form::numbers;
  const bool thin = g.pack_b && g.m <= max_thin_rows;
  const long columns = thin ? thin_block_bytes / (g.k_block * size) : block_row_bytes / size;
  g.column_block = larger(1, smaller(columns / g.tile_columns, parts(g.n, g.tile_columns))) * g.tile_columns;
  const long panels = g.tall_count + parts(g.m - g.tall_count * g.tall_rows, g.short_rows);
  const long max = g.pack_b || g.prepacked ? larger(1, block_rows / tile_rows) : larger(1, panels);
  g.panel_block = larger(1, parts(panels, larger(1, parts(panels, max))));
}

/// Whether there is an epilogue after the sums.
LAMINA_INLINE bool has_epilogue(const gemm_args& g) { return g.bias_column || g.bias_row || g.residual || g.clamp; }

template <class T> LAMINA_INLINE long packed_b_count(const gemm_args& g) {
  return g.pack_b ? g.k_block * parts(g.column_block, panel_columns<T>) * panel_columns<T> : 0;
}
template <class Form> LAMINA_INLINE std::size_t scratch_of(const gemm_args& g) {
  using T = typename Form::number;
  const long packed_a = g.pack_a ? packed_row_of<Form>(g.k_block) * g.panel_block * g.tall_rows + width<T> : 0;
  return static_cast<std::size_t>(packed_b_count<T>(g)) * sizeof(T) +
         static_cast<std::size_t>(packed_a) * sizeof(typename Form::x);
}
template <class Form> LAMINA_INLINE std::size_t packed_size(long k, long n) {
  using T = typename Form::number;
  return static_cast<std::size_t>(parts(n, panel_columns<T>) * panel_columns<T> * steps_of<Form>(k)) * sizeof(T);
}

/// One block of K and N of one product, for the loops over rows and tiles.
template <class T> struct product_block {
  long k, columns;
  const void* a;  // of type T if A gets packed, else of the type that tiles read
  const T* b;
  long b_step, b_panel;  // column j of the block, a multiple of the panel width, starts at b + j * b_panel
  T* c;
  long column;
  int flags;
};

/// All rows times one block.  The outer loop is over panels of B: panels of A stream from L2 for each panel of B.
template <class Form, bool PacksA, class T = typename Form::number>
LAMINA_INLINE void run_block(const gemm_args& g, const product_block<T>& now, typename Form::x* packed_a) {
  // Packed rows are interleaved (contiguous along M); rows that are rounded while packed are contiguous along K.
  constexpr bool rounds = Form::numbers > 1;
  const long steps = steps_of<Form>(now.k), packed_row = packed_row_of<Form>(now.k);
  const long tall_end = g.tall_count * g.tall_rows;
  for (long first_row = 0; first_row < g.m;) {
    long end_row = first_row;
    for (long panel = 0; panel < g.panel_block && end_row < g.m; ++panel) {
      const long rows = end_row < tall_end ? g.tall_rows : g.short_rows;
      if (PacksA && g.pack_a)
        g.packer_a(now.k, rows, static_cast<const T*>(now.a) + end_row * g.a_row, g.a_row, g.a_column,
                   packed_a + (end_row - first_row) * packed_row);
      end_row += rows;
    }
    for (long j = 0; j < now.columns; j += g.tile_columns) {
      const long columns = smaller(g.tile_columns, now.columns - j);
      for (long i = first_row; i < end_row;) {
        const bool tall = i < tall_end;
        const long rows = tall ? g.tall_rows : g.short_rows;
        const bool packed = PacksA && g.pack_a;
        using X = typename Form::x;
        const X* a = packed ? packed_a + (i - first_row) * packed_row : static_cast<const X*>(now.a) + i * g.a_row;
        g.tile[tall ? 0 : 1][columns == g.tile_columns ? 0 : 1](steps, a,
                                                                !packed  ? g.a_step
                                                                : rounds ? packed_row
                                                                         : rows,
                                                                now.b + j * now.b_panel, now.b_step,
                                                                now.c + i * g.c_row + j, g.c_row, &g, now.column + j, i,
                                                                now.flags, static_cast<int>(columns));
        i += rows;
      }
    }
    first_row = end_row;
  }
}

/// The whole product.  References no tile or packer by name: it calls those that `prepare` wrote into the arguments.
template <class Form, class T = typename Form::number> LAMINA_INLINE void run_product(const gemm_args& g, T* scratch) {
  if (g.m <= 0 || g.n <= 0) return;
  auto* const packed_a = reinterpret_cast<typename Form::x*>(scratch + packed_b_count<T>(g));
  const T* const a = static_cast<const T*>(g.a);
  const T* const b = static_cast<const T*>(g.b);
  T* const c = static_cast<T*>(g.c);
  const bool epilogue = has_epilogue(g);
  for (long j = 0; j < g.n; j += g.column_block) {
    for (long p = 0; p == 0 || p < g.k; p += g.k_block) {
      product_block<T> now;
      now.k = smaller(g.k_block, g.k - p);
      now.columns = smaller(g.column_block, g.n - j);
      now.column = j;
      now.flags = (p > 0 || g.accumulate ? gemm_add : 0) | (epilogue && p + now.k == g.k ? gemm_finish : 0);
      now.b_step = g.pack_b || g.prepacked ? panel_columns<T> : g.b_row;
      for (long z = 0; z < g.batch; ++z) {
        const T* this_b = b + z * g.b_batch;
        if (g.prepacked) {
          now.b = this_b + j * steps_of<Form>(g.k) + steps_of<Form>(p) * panel_columns<T>;
          now.b_panel = steps_of<Form>(g.k);
        } else if (g.pack_b) {
          if (z == 0 || g.b_batch != 0)
            g.packer_b(now.k, now.columns, this_b + p * g.b_row + j * g.b_column, g.b_row, g.b_column, scratch);
          now.b = scratch;
          now.b_panel = now.k;
        } else {
          now.b = this_b + p * g.b_row + j;
          now.b_panel = 1;
        }
        const long first = z * g.a_batch + p * g.a_column;
        now.a = g.pack_a ? static_cast<const void*>(a + first) : static_cast<const typename Form::x*>(g.a) + first;
        now.c = c + z * g.c_batch + j;
        if (z > 0 && g.residual && g.residual_batch != 0 && (now.flags & gemm_finish)) {
          gemm_args moved = g;
          moved.residual = static_cast<const T*>(g.residual) + z * g.residual_batch;
          run_block<Form, true>(moved, now, packed_a);
        } else {
          run_block<Form, true>(g, now, packed_a);
        }
      }
    }
  }
}

/// Whether `run_prepacked` suffices for a product.
LAMINA_INLINE bool is_prepacked(const gemm_args& g) { return g.prepacked && !g.pack_a && g.batch == 1; }
/// The whole product with prepacked weights and unpacked A, the common case at inference.
template <class Form, class T = typename Form::number> LAMINA_COMPACT void run_prepacked(const gemm_args& g) {
  if (g.m <= 0 || g.n <= 0) return;
  const bool epilogue = has_epilogue(g);
  LAMINA_NO_UNROLL for (long j = 0; j < g.n; j += g.column_block)
      LAMINA_NO_UNROLL for (long p = 0; p == 0 || p < g.k; p += g.k_block) {
    const long k = smaller(g.k_block, g.k - p);
    run_block<Form, false>(
        g,
        {k, smaller(g.column_block, g.n - j), static_cast<const T*>(g.a) + p * g.a_column,
         static_cast<const T*>(g.b) + j * g.k + p * panel_columns<T>, panel_columns<T>, g.k, static_cast<T*>(g.c) + j,
         j, (p > 0 || g.accumulate ? gemm_add : 0) | (epilogue && p + k == g.k ? gemm_finish : 0)},
        nullptr);
  }
}

/// Whether a prepared product is a single tile with unpacked operands.
LAMINA_INLINE bool is_tile(const gemm_args& g) {
  return g.batch == 1 && !g.pack_a && !g.pack_b && g.m > 0 && g.n > 0 && g.m <= g.tall_rows && g.n <= g.tile_columns &&
         g.k <= g.k_block;
}
template <class T> LAMINA_INLINE void run_tile_alone(const gemm_args& g) {
  g.tile[0][g.n == g.tile_columns ? 0 : 1](
      g.k, g.a, g.a_step, g.b, g.prepacked ? panel_columns<T> : g.b_row, g.c, g.c_row, &g, 0, 0,
      (g.accumulate ? gemm_add : 0) | (has_epilogue(g) ? gemm_finish : 0), static_cast<int>(g.n));
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
