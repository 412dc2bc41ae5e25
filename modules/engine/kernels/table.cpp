// The table of one instruction set: addresses only, constant-initialized.
#include "table.h"

#include "simd.h"

namespace lamina::kernels {

extern "C" const table* LAMINA_KERNEL(kernels)() noexcept {
  static constinit const table kernels{
      this_isa,
      {&LAMINA_KERNEL(gemm_f32_functions), &LAMINA_KERNEL(gemm_f64_functions)},
      &LAMINA_KERNEL(conv),
      &LAMINA_KERNEL(elementwise),
      &LAMINA_KERNEL(reduce),
      &LAMINA_KERNEL(cell),
      &LAMINA_KERNEL(index),
      &LAMINA_KERNEL(sample),
      &LAMINA_KERNEL(transformer),
      &LAMINA_KERNEL(quantized),
      &LAMINA_KERNEL(bfloat),
  };
  return &kernels;
}

}  // namespace lamina::kernels
