#include "probe.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#if defined(__x86_64__) && defined(__linux__)
#define WIDEST_VECTORS __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define WIDEST_VECTORS
#endif

namespace {

constexpr int lanes = 96;  // 12 AVX2 or 6 AVX-512 registers: enough independent chains to saturate the FMA units
constexpr int rounds = 20000;

WIDEST_VECTORS void multiply_add(float* sums, float a, float b) {
#pragma clang fp contract(fast)
  float x[lanes];
  for (int i = 0; i < lanes; ++i) x[i] = sums[i];
  for (int r = 0; r < rounds; ++r)
    for (int i = 0; i < lanes; ++i) x[i] = x[i] * a + b;
  for (int i = 0; i < lanes; ++i) sums[i] = x[i];
}

// Keeps the compiler from discarding the computation: the result goes to a volatile.
float consume(const float* sums) {
  static volatile float sink = 0;
  sink = sums[0];
  return sink;
}

double busy(std::chrono::duration<double> least) {
  alignas(64) float sums[lanes];
  for (int i = 0; i < lanes; ++i) sums[i] = static_cast<float>(i);
  const auto begin = std::chrono::steady_clock::now();
  std::chrono::duration<double> passed{};
  double done = 0;
  do {
    multiply_add(sums, 0.5f, 1.0f);
    done += static_cast<double>(lanes) * rounds;
    passed = std::chrono::steady_clock::now() - begin;
  } while (passed < least);
  return std::isfinite(consume(sums)) ? done / passed.count() / 1e9 : 0;
}

}  // namespace

double fma_rate(int workers) {
  std::vector<double> rates(static_cast<std::size_t>(workers));
  {
    std::vector<std::thread> threads;
    for (auto& rate : rates) threads.emplace_back([&rate] { rate = busy(std::chrono::milliseconds(100)); });
    for (auto& t : threads) t.join();
  }
  double sum = 0;
  for (double r : rates) sum += r;
  return sum;
}
