// The kernels of one instruction set, as the planner sees them.
#pragma once
#include "cell.h"
#include "conv.h"
#include "elementwise.h"
#include "gemm.h"
#include "index.h"
#include "quantized.h"
#include "reduce.h"
#include "transformer.h"

namespace lamina::kernels {

/// Points to constant data, so that a table needs no initialisation at run time.
struct table {
  isa set;
  const gemm_functions* gemm[2];             // [f32, f64]
  const conv_functions* conv;
  const elementwise_functions* elementwise;
  const reduce_functions* reduce;
  const cell_functions* cell;
  const index_functions* index;
  const transformer_functions* transformer;
  const quantized_functions* quantized;
};

extern "C" {
const table* lamina_kernels_sse2() noexcept;
const table* lamina_kernels_avx2() noexcept;
const table* lamina_kernels_avx512() noexcept;

// Defined by the families, one each per set.
extern const gemm_functions lamina_gemm_f32_functions_sse2, lamina_gemm_f64_functions_sse2;
extern const gemm_functions lamina_gemm_f32_functions_avx2, lamina_gemm_f64_functions_avx2;
extern const gemm_functions lamina_gemm_f32_functions_avx512, lamina_gemm_f64_functions_avx512;
extern const conv_functions lamina_conv_sse2, lamina_conv_avx2, lamina_conv_avx512;
extern const elementwise_functions lamina_elementwise_sse2, lamina_elementwise_avx2, lamina_elementwise_avx512;
extern const cell_functions lamina_cell_sse2, lamina_cell_avx2, lamina_cell_avx512;
extern const reduce_functions lamina_reduce_sse2, lamina_reduce_avx2, lamina_reduce_avx512;
extern const index_functions lamina_index_sse2, lamina_index_avx2, lamina_index_avx512;
extern const transformer_functions lamina_transformer_sse2, lamina_transformer_avx2, lamina_transformer_avx512;
}

/// The table of a set; all three are linked in, the caller has checked that the machine can run it.
inline const table& kernels_of(isa set) {
  return *(set == isa::avx512 ? lamina_kernels_avx512()
           : set == isa::avx2 ? lamina_kernels_avx2()
                              : lamina_kernels_sse2());
}

}  // namespace lamina::kernels
