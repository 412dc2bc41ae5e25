// The kernels of one instruction set, as the planner sees them.
#pragma once
#include "bfloat.h"
#include "cell.h"
#include "conv.h"
#include "elementwise.h"
#include "gemm.h"
#include "index.h"
#include "quantized.h"
#include "reduce.h"
#include "sample.h"
#include "transformer.h"

namespace lamina::kernels {

/// Points to constant data, so that a table needs no initialization at run time.
struct table {
  isa set;
  const gemm_functions* gemm[2];  // [f32, f64]
  const conv_functions* conv;
  const elementwise_functions* elementwise;
  const reduce_functions* reduce;
  const cell_functions* cell;
  const index_functions* index;
  const sample_functions* sample;
  const transformer_functions* transformer;
  const quantized_functions* quantized;
  const bfloat_functions* bfloat;
};

extern "C" {
const table* lamina_kernels_sse2() noexcept;
const table* lamina_kernels_avx2() noexcept;
const table* lamina_kernels_avx512() noexcept;
#if defined(__x86_64__)
/// That of another machine is linked into programs that name it elsewhere, as the writer of bundles does.
[[gnu::weak]]
#endif
const table* lamina_kernels_neon64() noexcept;
}

// Defined by the families, one each per set.
LAMINA_OF_EACH_SET(gemm_functions, lamina_gemm_f32_functions);
LAMINA_OF_EACH_SET(gemm_functions, lamina_gemm_f64_functions);
LAMINA_OF_EACH_SET(conv_functions, lamina_conv);

#if defined(__x86_64__)
/// The table of a set; those of this kind of machine are linked in, the caller has checked that it can run them.
inline const table& kernels_of(isa set) {
  return *(set == isa::neon64   ? lamina_kernels_neon64()
           : set == isa::avx512 ? lamina_kernels_avx512()
           : set == isa::avx2   ? lamina_kernels_avx2()
                                : lamina_kernels_sse2());
}
#else
inline const table& kernels_of(isa) { return *lamina_kernels_neon64(); }
#endif

}  // namespace lamina::kernels
