// The kernels of one instruction set, as the planner sees them.
#pragma once
#include "conv.h"
#include "elementwise.h"
#include "gemm.h"
#include "reduce.h"

namespace lamina::kernels {

struct table {
  isa set;
  gemm_functions gemm[2];                    // [f32, f64]
  conv_functions conv;
  elementwise_functions elementwise;
  reduce_functions reduce;
};

extern "C" const table* lamina_kernels_sse2() noexcept;
extern "C" const table* lamina_kernels_avx2() noexcept;
extern "C" const table* lamina_kernels_avx512() noexcept;

/// The table of a set; all three are linked in, the caller has checked that the machine can run it.
inline const table& kernels_of(isa set) {
  return *(set == isa::avx512 ? lamina_kernels_avx512() : set == isa::avx2 ? lamina_kernels_avx2() : lamina_kernels_sse2());
}

}  // namespace lamina::kernels
