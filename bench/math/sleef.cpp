// SLEEF's vector functions in both accuracies.
#if LAMINA_BENCH_SLEEF
#include <immintrin.h>
#include <sleef.h>
#endif

#include "math.h"

namespace bench::math {

#if LAMINA_BENCH_SLEEF
namespace {

#if defined(__AVX512F__)
using vector = __m512;
constexpr long lanes = 16;
inline vector load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, vector x) { _mm512_storeu_ps(p, x); }
constexpr auto exp_1 = Sleef_expf16_u10avx512f, tanh_1 = Sleef_tanhf16_u10avx512f, tanh_35 = Sleef_tanhf16_u35avx512f;
#else
using vector = __m256;
constexpr long lanes = 8;
inline vector load(const float* p) { return _mm256_loadu_ps(p); }
inline void store(float* p, vector x) { _mm256_storeu_ps(p, x); }
constexpr auto exp_1 = Sleef_expf8_u10avx2, tanh_1 = Sleef_tanhf8_u10avx2, tanh_35 = Sleef_tanhf8_u35avx2;
#endif

template <auto F> void over(const float* in, float* out, long n) {
  for (long i = 0; i < n; i += lanes) store(out + i, F(load(in + i)));
}

const std::string version = std::to_string(SLEEF_VERSION_MAJOR) + "." + std::to_string(SLEEF_VERSION_MINOR) + "." +
                            std::to_string(SLEEF_VERSION_PATCHLEVEL);

}  // namespace

library sleef_1() {
  const auto find = [](const std::string& name) {
    return name == "exp" ? function(&over<exp_1>) : function(&over<tanh_1>);
  };
  return {"SLEEF u10", version, program_isa_name, find};
}
library sleef_35() {
  const auto find = [](const std::string& name) { return name == "exp" ? function() : function(&over<tanh_35>); };
  return {"SLEEF u35", version, program_isa_name, find};
}
#else
library sleef_1() { return {"SLEEF u10", "", "", {}}; }
library sleef_35() { return {"SLEEF u35", "", "", {}}; }
#endif

}  // namespace bench::math
