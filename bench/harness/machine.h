// Machine setup of the benchmarks: pinning to one core, the instruction set of this program, the FMA probe.
#pragma once
#include <sched.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "kernels.h"

namespace bench {

// Each program is compiled once per instruction set; all its code, including peers' templates, uses that set.
#if defined(__AVX512F__)
inline constexpr auto program_isa = lamina::kernels::isa::avx512;
inline constexpr const char* program_isa_name = "avx512";
#else
inline constexpr auto program_isa = lamina::kernels::isa::avx2;
inline constexpr const char* program_isa_name = "avx2";
#endif

/// Pins the calling thread to a core; threads that a peer starts inherit it.
inline void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(static_cast<std::size_t>(core), &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) {
    std::fprintf(stderr, "core %d cannot be used\n", core);
    std::exit(2);
  }
}

/// Restricts the calling thread to some cores.
inline void pin(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int c : cores) CPU_SET(static_cast<std::size_t>(c), &set);
  sched_setaffinity(0, sizeof set, &set);
}

/// Cores that this process may use; call before pinning.
inline std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof set, &set);
  std::vector<int> cores;
  for (int i = 0; i < CPU_SETSIZE; ++i)
    if (CPU_ISSET(static_cast<std::size_t>(i), &set)) cores.push_back(i);
  return cores;
}

/// Runs independent chains of fused multiply-adds; returns the seconds.
double fma_probe() noexcept;
/// Floating-point operations of one probe.
extern const double fma_probe_flops;

/// Reads `count` floats, a multiple of 1024, to measure the read bandwidth of their memory.
void read_probe(const float* from, long count) noexcept;

/// Buffer that a contender reads or writes: aligned to cache lines, filled with numbers in [-0.5, 0.5).
class buffer {
 public:
  explicit buffer(long count) : data_(allocate(static_cast<std::size_t>(count))), count_(count) {
    unsigned state = 1;
    for (long i = 0; i < count; ++i) {
      state = state * 1664525u + 1013904223u;
      data_.get()[i] = static_cast<float>(state >> 8) * 0x1p-24f - 0.5f;
    }
  }
  float* data() const { return data_.get(); }
  long size() const { return count_; }
  float& operator[](long i) const { return data_.get()[i]; }

 private:
  struct release {
    void operator()(float* p) const { std::free(p); }
  };
  static float* allocate(std::size_t count) {
    auto* p = static_cast<float*>(std::aligned_alloc(64, (count * sizeof(float) + 127) / 64 * 64));
    if (!p) std::abort();
    return p;
  }
  std::unique_ptr<float, release> data_;
  long count_;
};

}  // namespace bench
