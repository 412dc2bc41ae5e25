// Matrix product C = epilogue(A B (+ C)), any strides, batched; f32 and f64.
#pragma once
#include "kernels.h"

namespace lamina::kernels {

/// Tiles and packers that one product of given sizes needs; chosen by `gemm_prepare`, so that only these are linked.
using gemm_tile = void (*)(long k, const void* a, long a_step, const void* b, long b_step, void* c, long c_row,
                           const struct gemm_args* args, long column, long row, int flags, int last_lanes) noexcept;
using gemm_pack = void (*)(long k, long count, const void* from, long row, long column, void* to) noexcept;

/// C[i, j] = sum over p of A[i, p] B[p, j]; strides in elements.  One fma chain per K block, K blocks cut by K alone.
struct gemm_args {
  long m, n, k;
  const void* a;  long a_row, a_column;      // A[i, p] = a[i * a_row + p * a_column]
  const void* b;  long b_row, b_column;      // B[p, j] = b[p * b_row + j * b_column]; ignored where `prepacked`
  void* c;        long c_row;                // C[i, j] = c[i * c_row + j]
  const void* bias_column;                   // + bias_column[j]   (null: none)
  const void* bias_row;                      // + bias_row[i]      (null: none)
  const void* residual; long residual_row;   // + residual[i * residual_row + j] (null: none)
  double low, high;                          // clamp to [low, high] where `clamp`
  std::int32_t clamp, accumulate;            // accumulate: C is read and added to
  std::int32_t prepacked;                    // b points to what `gemm_prepack` wrote
  std::int32_t pack_a, pack_b;               // decided by `gemm_prepare`
  long batch, a_batch, b_batch, c_batch, residual_batch;   // strides between products of a batch; batch >= 1
  gemm_tile tile[2][2];                      // [short rows][last columns]; decided by `gemm_prepare`
  gemm_pack packer_a[2], packer_b;
};

/// Element type, target and role of one product, from which its tiles are chosen.
struct gemm_functions {
  /// Fills the decisions and tile addresses of `args` from its sizes and strides (addresses may still be null).
  void (*prepare)(gemm_args* args) noexcept;
  /// Bytes of scratch that `run` needs for prepared arguments.
  std::size_t (*scratch_bytes)(const gemm_args* args) noexcept;
  kernel run;                                // args: gemm_args
  /// Bytes of the packed form of a [k, n] operand, and the kernel that makes it (args: gemm_prepack_args).
  std::size_t (*packed_bytes)(long k, long n) noexcept;
  kernel prepack;
};

struct gemm_prepack_args {
  long k, n;
  const void* b; long b_row, b_column;
  void* packed;
};

}  // namespace lamina::kernels
