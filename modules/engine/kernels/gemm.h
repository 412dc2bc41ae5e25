// Matrix product C = epilogue(A B (+ C)), any strides, batched; f32 and f64.
#pragma once
#include "kernels.h"

namespace lamina::kernels {

struct gemm_args;

/// Adds one K block of one tile to C.  `columns` of the tile are valid; `row` and `column` are its place in C, for the
/// epilogue; `flags` combines `gemm_add` (C is read and added) and `gemm_finish` (the epilogue follows).
using gemm_tile = void (*)(long k, const void* a, long a_step, const void* b, long b_step, void* c, long c_row,
                           const gemm_args* args, long column, long row, int flags, int columns) noexcept;
inline constexpr int gemm_add = 1, gemm_finish = 2;

/// Copies k x count elements into the order that tiles read: B's from[p * row + j * column] or A's
/// from[i * row + p * column].
using gemm_pack = void (*)(long k, long count, const void* from, long row, long column, void* to) noexcept;

/// C[i, j] = sum over p of A[i, p] B[p, j]; strides in elements.  One fma chain per K block, K blocks cut by K alone:
/// the bits of C[i, j] depend on neither packing nor tiles nor on how M, N and the batch are split between calls.  Where
/// N is 1 and both operands are contiguous along K, sixteen chains side by side.
struct gemm_args {
  long m, n, k;
  const void* a;
  long a_row, a_column;  // A[i, p] = a[i * a_row + p * a_column]
  const void* b;
  long b_row, b_column;  // B[p, j] = b[p * b_row + j * b_column]; ignored where `prepacked`
  void* c;
  long c_row;               // C[i, j] = c[i * c_row + j]
  const void* bias_column;  // + bias_column[j]   (null: none)
  const void* bias_row;     // + bias_row[i]      (null: none)
  const void* residual;
  long residual_row;               // + residual[i * residual_row + j] (null: none)
  double low, high;                // clamp to [low, high] where `clamp`; NaN stays
  std::int32_t clamp, accumulate;  // accumulate: C is read and added to, before bias and residual
  std::int32_t prepacked;          // b points to what `prepack` wrote, or to the start of one of its panels
  std::int32_t rounded,
      pad;  // A holds numbers that its form has rounded, row after row in whole steps; `a_row` counts them
  std::int32_t relaxed_summation;  // a single row may be summed in several chains: other bits than in a batch
  std::int32_t pack_a, pack_b;     // from here on: decided by `prepare`
  std::int32_t a_in_columns;       // A, or its packed form, is contiguous along M
  std::int32_t direction;          // of a row in free order: which way the last run went, its only change to arguments
  long batch, a_batch, b_batch, c_batch, residual_batch;  // given: strides between products, 0 shares; batch >= 1
  long k_block, column_block, panel_block;                // K and columns per block, row panels per block
  long tall_rows, tall_count, short_rows;  // the first tall_count row panels have tall_rows rows, the rest short_rows
  long tile_columns, a_step;
  gemm_tile tile[2][2];          // [tall, short][whole, last columns]
  kernel row;                    // of each row, where rows are multiplied one by one; null: they are not
  gemm_pack packer_a, packer_b;  // null where not packed
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

/// The product of one element type.
struct gemm_functions {
  /// Fills the decisions and tile addresses of `args` from its sizes and strides (addresses may still be null).  Sizes,
  /// strides, `prepacked` and `accumulate` may not change afterwards; addresses, bias, residual and clamp may.  Gives
  /// the fastest kernel for them; `run` takes them as well.
  kernel (*prepare)(gemm_args* args) noexcept;
  /// The same for that kernel alone: tiles that it does not call are null, so that bundles do not link them. `compact`: a
  /// kernel that links less where it takes little more time.
  kernel (*prepare_kernel)(gemm_args* args, bool compact) noexcept;
  /// Bytes of scratch that `run` needs for prepared arguments.
  std::size_t (*scratch_bytes)(const gemm_args* args) noexcept;
  kernel run;  // args: gemm_args
  /// Bytes of the packed form of a [k, n] operand, and the kernel that makes it (args: gemm_prepack_args).
  std::size_t (*packed_bytes)(long k, long n) noexcept;
  kernel prepack;
  /// Rows of a full tile and columns of a packed panel: M and N are best split at multiples of these, and prepacked
  /// weights only there (column j starts at packed + j * k).
  long tile_rows, panel_columns;
};

LAMINA_FAMILY(gemm_functions, gemm_f32_functions);
LAMINA_FAMILY(gemm_functions, gemm_f64_functions);
template <class Set> const gemm_functions& gemm_of(Set set, element e) {
  return e == element::f64 ? gemm_f64_functions_of(set) : gemm_f32_functions_of(set);
}

}  // namespace lamina::kernels
