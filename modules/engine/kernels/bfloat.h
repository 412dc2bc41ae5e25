// Products of float32 numbers rounded to bfloat16, with float32 sums.
//
// All forms sum in the same order, except that with AMX: sets with a fused multiply-add give the same bits with and without
// bfloat16 instructions, except for denormal numbers.
#pragma once
#include "conv.h"
#include "gemm.h"
#include "kernels.h"

namespace lamina::kernels {

/// Weight gradient of a convolution from plain images and gradients, which the kernel rounds.
struct bfloat_weight_grad {
  /// 1 if this window is supported.
  int (*supports)(const window* w) noexcept;
  /// Sets the decisions from `w` and returns the kernel, with the contract of `conv_plain_functions::weight_grad`.
  kernel (*prepare)(conv_plain_args* args) noexcept;
  std::size_t (*scratch_bytes)(const conv_plain_args* args) noexcept;
};

/// Index of the form with AMX, which adds in an order of its own, among those of AVX-512.
inline constexpr int bfloat_form_of_amx = 2;
/// One form of the products: separate kernels, but all forms share the layout of packed weights; that of convolutions
/// differs where `conv.by_amx` does.
struct bfloat_products {
  /// A, C, bias and residual are float32; B is `prepacked`, in pairs of bfloat16 numbers.
  const gemm_functions* gemm;
  /// Images, bias and residual are float32, weights are packed in pairs; supports neither depthwise nor plain images.
  conv_blocked_functions conv;
  bfloat_weight_grad weight_grad;
  kernel round;              // args: bfloat_round_args
  std::size_t number_bytes;  // size of a rounded number
  /// A rounded operand has rows and numbers of a row in multiples of these; products do not use what is beyond its own.
  long row_group, numbers_group;
  kernel round_chain = nullptr;  // args: chain_rounded_args, scratch: chain_rounded_scratch_bytes; with `conv.by_amx`
};

/// Rounds [rows, k] to the format that the products of a form read: rows of a multiple of `numbers_group` numbers; for AMX
/// groups of 16 rows, [rows / 16][k / 32][16][32]. The first row begins a group.
struct bfloat_round_args {
  long rows, k;
  const float* in;
  long row, column;  // of `in`
  void* out;
};

/// Rounds to the precision of a 16-bit float, to nearest, ties to even; results stay float32.
struct rounded_floats_args {
  long count;
  const float* in;
  float* out;
};

struct bfloat_functions {
  /// The product forms of this set, of which the processor supports the first `forms()`; `form()` is the index of the
  /// fastest one, `form_without_amx()` of those without AMX.
  bfloat_products products[3];
  int (*forms)() noexcept;
  int (*form)() noexcept;
  int (*form_without_amx)() noexcept;
  kernel round_to_half, round_to_bfloat;  // args: rounded_floats_args
};
LAMINA_FAMILY(bfloat_functions, bfloat);

}  // namespace lamina::kernels
