// Matrix product C = epilogue(A B (+ C)), any strides, batched; f32 and f64.
#pragma once
#include "kernels.h"

namespace lamina::kernels {

struct gemm_args;

/// Adds one K block of one tile to C.  `columns` of the tile are valid; `row` and `column` are its position in C, for
/// the epilogue; `flags` combines `gemm_add` (read C and add it) and `gemm_finish` (apply the epilogue).
using gemm_tile = void (*)(long k, const void* a, long a_step, const void* b, long b_step, void* c, long c_row,
                           const gemm_args* args, long column, long row, int flags, int columns) noexcept;
inline constexpr int gemm_add = 1, gemm_finish = 2;

/// Packs k x count elements into the order that tiles read: from[p * row + j * column] of B, or
/// from[i * row + p * column] of A.
using gemm_pack = void (*)(long k, long count, const void* from, long row, long column, void* to) noexcept;

/// C[i, j] = sum over p of A[i, p] B[p, j]; strides in elements.  Each K block is one fma chain, and K alone determines
/// the blocks: the bits of C[i, j] depend neither on packing and tiles nor on how calls split M, N and the batch.  If N
/// is 1 and both operands are contiguous along K, sixteen parallel chains.
struct gemm_args {
  long m, n, k;
  const void* a;
  long a_row, a_column;  // A[i, p] = a[i * a_row + p * a_column]
  const void* b;
  long b_row, b_column;  // B[p, j] = b[p * b_row + j * b_column]; ignored if `prepacked`
  void* c;
  long c_row;               // C[i, j] = c[i * c_row + j]
  const void* bias_column;  // + bias_column[j]   (null: none)
  const void* bias_row;     // + bias_row[i]      (null: none)
  const void* residual;
  long residual_row;               // + residual[i * residual_row + j] (null: none)
  double low, high;                // clamp to [low, high] if `clamp`; NaN stays
  std::int32_t clamp, accumulate;  // accumulate: C is an addend, before bias and residual
  std::int32_t prepacked;          // b points to the output of `prepack`, or to the start of one of its panels
  std::int32_t rounded,
      pad;  // A is already rounded to the product form, each row padded to whole steps; `a_row` counts these numbers
  std::int32_t relaxed_summation;  // a single row may use several chains: its bits differ from those in a batch
  std::int32_t pack_a, pack_b;     // from here on: set by `prepare`
  std::int32_t a_in_columns;       // A, or its packed form, is contiguous along M
  std::int32_t direction;          // direction of the last run of a relaxed row: the only argument that a run changes
  long batch, a_batch, b_batch, c_batch, residual_batch;  // inputs: strides between products, 0: shared; batch >= 1
  long k_block, column_block, panel_block;                // K and columns per block, row panels per block
  long tall_rows, tall_count, short_rows;  // the first tall_count row panels have tall_rows rows, the rest short_rows
  long tile_columns, a_step;
  gemm_tile tile[2][2];          // [tall, short][whole, last columns]
  kernel row;                    // kernel of one row if rows are multiplied one by one; else null
  gemm_pack packer_a, packer_b;  // null if not packed
  template <class F> void each_code(F f) const {
    for (const auto& tiles : tile) f(tiles[0]), f(tiles[1]);
    f(packer_a), f(packer_b), f(row);
  }
};

struct gemm_prepack_args {
  long k, n;
  const void* b;
  long b_row, b_column;
  void* packed;
};

/// Matrix product of one element type.
struct gemm_functions {
  /// Sets the decisions and tile addresses of `args` from its sizes and strides (addresses may still be null).  Sizes,
  /// strides, `prepacked` and `accumulate` may not change afterwards; addresses, bias, residual and clamp may.  Returns
  /// the fastest kernel for these arguments; `run` accepts them as well.
  kernel (*prepare)(gemm_args* args) noexcept;
  /// The same for the returned kernel only: tiles that it does not call are null, so that bundles do not link them.
  /// `compact`: prefers a kernel that links less code if it is little slower.
  kernel (*prepare_kernel)(gemm_args* args, bool compact) noexcept;
  /// Scratch size in bytes of `run` for prepared arguments.
  std::size_t (*scratch_bytes)(const gemm_args* args) noexcept;
  kernel run;  // args: gemm_args
  /// Size in bytes of the packed form of a [k, n] operand, and the kernel that packs it (args: gemm_prepack_args).
  std::size_t (*packed_bytes)(long k, long n) noexcept;
  kernel prepack;
  /// Rows of a full tile and columns of a packed panel. Split M and N at multiples of these; prepacked weights can be
  /// split only there (column j starts at packed + j * k).
  long tile_rows, panel_columns;
};

LAMINA_FAMILY(gemm_functions, gemm_f32_functions);
LAMINA_FAMILY(gemm_functions, gemm_f64_functions);
template <class Set> const gemm_functions& gemm_of(Set set, element e) {
  return e == element::f64 ? gemm_f64_functions_of(set) : gemm_f32_functions_of(set);
}

}  // namespace lamina::kernels
