// Shared by kernel tests: the set under test, random buffers between guards, and a comparator with rounding bounds.
#pragma once
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <string_view>
#include <type_traits>
#include <vector>

#include "compile_chain.h"
#include "every_map.h"
#include "families.h"

namespace kernel_test {

using lamina::kernels::isa;

/// Whether this machine runs the code of a set.
inline bool usable(isa set) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return set == isa::avx512 ? avx512 : set == isa::sse2 ? true : avx2;
#else
  return set == isa::neon64;
#endif
}

/// The set under test: LAMINA_ISA, or the best of the machine.
inline isa tested() {
#if defined(__x86_64__)
  if (const char* wanted = std::getenv("LAMINA_ISA")) {
    for (int set = 0; set < lamina::kernels::isa_count; ++set)
      if (std::string_view(lamina::kernels::isa_names[set]) == wanted) return static_cast<isa>(set);
    std::fprintf(stderr, "LAMINA_ISA is %s; known: sse2, avx2, avx512, neon64\n", wanted);
    std::exit(1);
  }
  return usable(isa::avx512) ? isa::avx512 : usable(isa::avx2) ? isa::avx2 : isa::sse2;
#else
  return isa::neon64;
#endif
}

/// `compile_chain` with the map functions of each step's operation.
inline void compile(lamina::kernels::chain_args& chain) {
  const lamina::kernels::map_functions* maps[lamina::kernels::chain_steps];
  for (int i = 0; i < chain.step_count; ++i) maps[i] = &lamina::kernels::map_of(tested(), chain.step[i].op);
  lamina::kernels::compile_chain(maps, chain);
}

/// Exits with CTest's code for a skipped test if the machine lacks the set.
struct skip_without_set {
  skip_without_set() {
    if (!usable(tested())) {
      std::fprintf(stderr, "this machine lacks the instruction set; skipped\n");
      std::_Exit(77);
    }
  }
};
BOOST_TEST_GLOBAL_FIXTURE(skip_without_set);

/// `count` elements, 64-byte aligned plus `offset` elements, between guards that a kernel must not touch.
template <class T> class buffer {
 public:
  explicit buffer(std::size_t count, std::size_t offset = 0)
      : bytes_(count * sizeof(T) + offset * sizeof(T) + 3 * guard_bytes, std::byte{guard}), count_(count) {
    const auto address = reinterpret_cast<std::uintptr_t>(bytes_.data()) + guard_bytes;
    const auto start = (address + 63) / 64 * 64 - reinterpret_cast<std::uintptr_t>(bytes_.data()) + offset * sizeof(T);
    start_ = static_cast<std::ptrdiff_t>(start);
  }
  T* data() { return reinterpret_cast<T*>(bytes_.data() + start_); }
  const T* data() const { return reinterpret_cast<const T*>(bytes_.data() + start_); }
  std::size_t size() const { return count_; }
  T& operator[](std::size_t i) { return data()[i]; }
  const T& operator[](std::size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + count_; }

  bool guards_intact() const {
    const std::byte* first = bytes_.data() + start_;
    const std::byte* last = first + count_ * sizeof(T);
    for (const std::byte* p = bytes_.data(); p < first; ++p)
      if (*p != std::byte{guard}) return false;
    for (const std::byte* p = last; p < bytes_.data() + bytes_.size(); ++p)
      if (*p != std::byte{guard}) return false;
    return true;
  }

 private:
  static constexpr std::size_t guard_bytes = 256;
  static constexpr unsigned char guard = 0xa5;
  std::vector<std::byte> bytes_;
  std::size_t count_;
  std::ptrdiff_t start_;
};

/// Fills with values uniform in [low, high).
template <class Range> void fill_uniform(Range& range, std::mt19937& generator, double low = -1, double high = 1) {
  // not uniform_real_distribution: it takes a logarithm for every number
  for (auto& x : range)
    x = static_cast<std::remove_reference_t<decltype(x)>>(low +
                                                          (high - low) * (static_cast<double>(generator()) * 0x1p-32));
}

/// A number with the 8 bits of bfloat16, ties to even, whatever its exponent.
inline float rounded_to_bfloat(float x) {
  constexpr int bits = 8;  // with the leading one; std::nearbyint takes ties to even
  if (!std::isfinite(x)) return x;
  int exponent = 0;
  std::frexp(x, &exponent);
  return std::ldexp(std::nearbyint(std::ldexp(x, bits - exponent)), exponent - bits);
}

/// Whether a sum of `terms` rounded terms is correct: |actual - expected| <= 4 terms eps magnitude, where magnitude is
/// the sum of the absolute terms.  NaN equals only NaN, an infinity only itself.
template <class T, class Wide> bool close(T actual, Wide expected, Wide magnitude, long terms) {
  if (std::isnan(actual) || std::isnan(expected)) return std::isnan(actual) && std::isnan(expected);
  if (std::isinf(actual) || std::isinf(expected)) return static_cast<Wide>(actual) == expected;
  const Wide eps = static_cast<Wide>(std::numeric_limits<T>::epsilon());
  return std::abs(static_cast<Wide>(actual) - expected) <= 4 * static_cast<Wide>(terms) * eps * magnitude;
}

template <class T> bool same_bits(const T* a, const T* b, std::size_t count) {
  return count == 0 || std::memcmp(a, b, count * sizeof(T)) == 0;
}

}  // namespace kernel_test
