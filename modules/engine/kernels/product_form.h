// Product forms, the building blocks of tiles: how to multiply a number of A by a register of B.  A step of a tile
// processes `numbers` neighbors in K at once.
#pragma once
#include <cstring>

#include "simd.h"
#include "storage.h"
#if defined(__AVX512BW__)
#include <cpuid.h>
#endif

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// Unconverted numbers, one per step.
template <class T> struct unconverted {
  using number = T;  // of sums
  using x = T;       // of A
  static constexpr int numbers = 1, parts = 1;
  LAMINA_INLINE static vec<T> everywhere(const T* p, int) { return broadcast(p); }
  LAMINA_INLINE static vec<T> weights(vec<T> w, int) { return w; }
  LAMINA_INLINE static vec<T> number_of(vec<T> lanes, int) { return lanes; }
  LAMINA_INLINE static vec<T> rounded(vec<T> x) { return x; }
  LAMINA_INLINE static vec<T> plus(vec<T> sum, vec<T> x, vec<T> w) { return fma(x, w, sum); }
  LAMINA_INLINE static void put(T* to, vec<T> v) { store(to, v); }
};

using float_bits = raw<std::uint32_t, width<float>>;
/// Rounds to bfloat16, with the result in the upper half of each lane; ties to even, NaN stays NaN.
LAMINA_INLINE float_bits bfloat_bits(vec<float> v) {
  const auto bits = __builtin_bit_cast(float_bits, to_raw<float>(v));
  const float_bits nearest = bits + 0x7fffu + ((bits >> 16) & 1u), nan = bits | 0x400000u;
  return (((bits & 0x7fffffffu) > 0x7f800000u) ? nan : nearest) & 0xffff0000u;
}
LAMINA_INLINE vec<float> from_bits(float_bits v) {
  return from_raw<float>(__builtin_bit_cast(raw<float, width<float>>, v));
}
/// Pairs of bfloat16 numbers, the first one in the low half of a lane.
LAMINA_INLINE vec<float> bfloat_pairs(vec<float> first, vec<float> second) {
  return from_bits(bfloat_bits(first) >> 16 | bfloat_bits(second));
}

/// The first or second number of each pair.
LAMINA_INLINE vec<float> bfloat_of(vec<float> pairs, int part) {
  const auto bits = __builtin_bit_cast(float_bits, to_raw<float>(pairs));
  return from_bits(part ? bits & 0xffff0000u : bits << 16);
}

/// Numbers of bfloat16, as floats.
LAMINA_INLINE vec<float> widened(const std::uint16_t* from) {
  raw<std::uint16_t, width<float>> half;
  __builtin_memcpy(&half, from, sizeof half);
  return from_bits(__builtin_convertvector(half, float_bits) << 16);
}

/// Pairs of bfloat16 numbers, whose products are added to float32 sums one after the other: the second of a pair first,
/// like `vdpbf16ps`, so that both forms give the same bits if the set has a fused multiply-add.  Numbers of A are
/// already rounded and stored as floats.
struct bfloat_floats {
  using number = float;
  using x = float;
  static constexpr int numbers = 2, parts = 2;
  LAMINA_INLINE static vec<float> everywhere(const float* p, int part) { return broadcast(p + part); }
  LAMINA_INLINE static vec<float> weights(vec<float> w, int part) { return bfloat_of(w, part); }
  LAMINA_INLINE static vec<float> number_of(vec<float> lanes, int part) { return bfloat_of(lanes, part); }
  LAMINA_INLINE static vec<float> rounded(vec<float> x) { return from_bits(bfloat_bits(x)); }
  LAMINA_INLINE static vec<float> plus(vec<float> sum, vec<float> x, vec<float> w) { return fma(x, w, sum); }
  LAMINA_INLINE static void put(float* to, vec<float> v) { store(to, from_bits(bfloat_bits(v))); }
  /// Rounds `count` numbers and appends a zero if the count is odd.
  LAMINA_INLINE static void round(const float* from, long count, float* to) {
    long i = 0;
    LAMINA_NO_UNROLL for (; i + width<float> <= count; i += width<float>) put(to + i, load(from + i));
    if (i == count) return;
    const int left = static_cast<int>(count - i);
    store(to + i, from_bits(bfloat_bits(load(from + i, first<float>(left)))), first<float>((left + 1) / 2 * 2));
  }
};

#if defined(__AVX512BW__)
/// The same with `vdpbf16ps`, for processors that support it.  Inline assembly, because enabling the instruction for
/// the compiler would leak it into the other form.  Denormals count as zero.
struct bfloat_dots {
  using number = float;
  using x = std::uint16_t;
  static constexpr int numbers = 2, parts = 1;
  LAMINA_INLINE static vec<float> everywhere(const std::uint16_t* p, int) {
    float pair;
    std::memcpy(&pair, p, sizeof pair);
    return vec<float>(pair);
  }
  LAMINA_INLINE static vec<float> weights(vec<float> w, int) { return w; }
  LAMINA_INLINE static vec<float> number_of(vec<float> lanes, int part) { return bfloat_of(lanes, part); }
  LAMINA_INLINE static vec<float> rounded(vec<float> x) { return from_bits(bfloat_bits(x)); }
  LAMINA_INLINE static vec<float> plus(vec<float> sum, vec<float> x, vec<float> w) {
    auto s = __builtin_bit_cast(__m512, sum.data);
    asm("vdpbf16ps %2, %1, %0"
        : "+v"(s)
        : "v"(__builtin_bit_cast(__m512, x.data)), "v"(__builtin_bit_cast(__m512, w.data)));
    return vec<float>(s);
  }
  LAMINA_INLINE static __m512i narrowed(vec<float> low, vec<float> high) {
    __m512i r;
    asm("vcvtne2ps2bf16 %2, %1, %0"
        : "=v"(r)
        : "v"(__builtin_bit_cast(__m512, high.data)), "v"(__builtin_bit_cast(__m512, low.data)));
    return r;
  }
  LAMINA_INLINE static void put(std::uint16_t* to, vec<float> v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_castsi512_si256(narrowed(v, v)));
  }
  LAMINA_INLINE static void round(const float* from, long count, std::uint16_t* to) {
    long i = 0;
    LAMINA_NO_UNROLL for (; i + 32 <= count; i += 32)
        _mm512_storeu_si512(to + i, narrowed(load(from + i), load(from + i + 16)));
    if (i == count) return;
    const int left = static_cast<int>(count - i);
    const auto low = load(from + i, first<float>(left)),
               high = load(from + i + 16, first<float>(left < 16 ? 0 : left - 16));
    _mm512_mask_storeu_epi16(to + i, _bzhi_u32(~0u, static_cast<unsigned>((left + 1) / 2 * 2)), narrowed(low, high));
  }
  static int there() noexcept {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 5 & 1);
  }
  /// Whether the instruction, where it is there, is faster than two multiply-adds of floats.  Intel's processors start
  /// one in two cycles beside two multiply-adds a cycle (measured on Emerald Rapids), AMD's as many as multiply-adds.
  static int pays() noexcept {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(0, &a, &b, &c, &d) && b != signature_INTEL_ebx;
  }
};
#endif

/// Element type of packed weights; a lane holds `numbers` of them.
template <class Form> using packed_number = std::conditional_t<Form::numbers == 1, typename Form::number, bfloat>;
/// Number of steps of a tile for `k` numbers.
template <class Form> constexpr long steps_of(long k) { return (k + Form::numbers - 1) / Form::numbers; }

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
