// The FMA probe: just enough independent FMA chains to hide the latency.
#include <chrono>

#include "machine.h"

namespace bench {
namespace {

#if defined(__AVX512F__)
constexpr int lanes = 16, chains = 24;
#else
constexpr int lanes = 8, chains = 12;
#endif
constexpr long turns = 40000;
using vector = float __attribute__((vector_size(lanes * sizeof(float))));

}  // namespace

const double fma_probe_flops = 2.0 * lanes * chains * turns;

double fma_probe() noexcept {
  vector sum[chains];
  for (int i = 0; i < chains; ++i) sum[i] = vector{} + static_cast<float>(i);
  vector factor = vector{} + 0.999f, term = vector{} + 0.001f;
  __asm__ volatile("" : "+v"(factor), "+v"(term));
  const auto begin = std::chrono::steady_clock::now();
  for (long t = 0; t < turns; ++t) {
#pragma clang loop unroll(full)
    for (int i = 0; i < chains; ++i) sum[i] = __builtin_elementwise_fma(sum[i], factor, term);
  }
  for (int i = 0; i < chains; ++i) __asm__ volatile("" ::"v"(sum[i]));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void read_probe(const float* from, long count) noexcept {
  constexpr int sums = 8;
  vector sum[sums]{};
  for (long i = 0; i < count; i += sums * lanes) {
#pragma clang loop unroll(full)
    for (int j = 0; j < sums; ++j) sum[j] += *reinterpret_cast<const vector*>(from + i + j * lanes);
  }
  for (int j = 0; j < sums; ++j) __asm__ volatile("" ::"v"(sum[j]));
}

}  // namespace bench
