// Products of float32 numbers that are rounded to bfloat16 first; sums are float32.
//
// Sums run in the same order in every form: sets with a fused multiply-add give the same bits, with or without instructions for
// bfloat16, but for denormal numbers.
#pragma once
#include "conv.h"
#include "gemm.h"
#include "kernels.h"

namespace lamina::kernels {

/// The gradient of a convolution's weights from plain images and gradients, which are rounded here.
struct bfloat_weight_grad {
  /// 1 if this window can be run here.
  int (*supports)(const window* w) noexcept;
  /// Fills what is decided from `w`, and gives the kernel, whose results are those of `conv_plain_functions::weight_grad`.
  kernel (*prepare)(conv_plain_args* args) noexcept;
  std::size_t (*scratch_bytes)(const conv_plain_args* args) noexcept;
};

/// A form of the products; each has kernels of its own, and all read the same packed weights.
struct bfloat_products {
  /// A, C, bias and residual are float32; B is `prepacked`, in pairs of bfloat16 numbers.
  const gemm_functions* gemm;
  /// Images, bias and residual are float32, weights are packed in pairs; not depthwise, and not of plain images.
  conv_blocked_functions conv;
  bfloat_weight_grad weight_grad;
  kernel round;              // args: bfloat_round_args
  std::size_t number_bytes;  // of a rounded number
};

/// Rows of [rows, k] as the products of a form read them, k up to an even number of elements each.
struct bfloat_round_args {
  long rows, k;
  const float* in;
  long row, column;  // of `in`
  void* out;
};

/// Numbers rounded to a half type, to the nearest with ties to even, and kept as float32.
struct rounded_floats_args {
  long count;
  const float* in;
  float* out;
};

struct bfloat_functions {
  /// The forms that this set can have; the fastest one that the machine has is `form()`.
  bfloat_products products[2];
  int (*form)() noexcept;
  kernel round_to_half, round_to_bfloat;  // args: rounded_floats_args
};
LAMINA_FAMILY(bfloat_functions, bfloat);

}  // namespace lamina::kernels
