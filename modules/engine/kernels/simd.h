// SIMD helpers beyond xsimd, for one instruction set: fused multiply-add, masked loads and stores, reductions,
// transposes.  Only kernel sources include it; they are compiled once per set with LAMINA_KERNEL_SET.
//
// Everything that depends on the set is in an inline namespace named after it, so that the linker does not merge inline
// functions or template instances of objects built for different sets.
#pragma once
#include <cstddef>
#include <cstdint>
#include <utility>
#include <xsimd/xsimd.hpp>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "kernels.h"

#ifndef LAMINA_KERNEL_SET
#error "kernel sources are compiled with -DLAMINA_KERNEL_SET=sse2|avx2|avx512|neon64"
#endif

#define LAMINA_PASTE_(a, b) lamina_##a##_##b
#define LAMINA_PASTE(a, b) LAMINA_PASTE_(a, b)
/// Link name of a kernel: LAMINA_KERNEL(relu_f32) is lamina_relu_f32_avx2 in the AVX2 objects.
#define LAMINA_KERNEL(name) LAMINA_PASTE(name, LAMINA_KERNEL_SET)
/// For loops over register arrays, which stay in registers only if the loop is fully unrolled.
#define LAMINA_UNROLL _Pragma("clang loop unroll(full)")
/// For loops that must not be unrolled: unrolling a big tile hoists its broadcasts and spills registers.
#define LAMINA_NO_UNROLL _Pragma("clang loop unroll(disable)")
/// For helpers and lambdas of kernels: a call out of line would pass registers through memory.
#define LAMINA_INLINE __attribute__((always_inline)) inline

#define LAMINA_IS_SET_neon64 1
#define LAMINA_IS_SET_(set) LAMINA_IS_SET_##set
#define LAMINA_IS_SET(set) LAMINA_IS_SET_(set)
/// NEON, or its emulation on another architecture with registers of the same size, without intrinsics.
#if LAMINA_IS_SET(LAMINA_KERNEL_SET)
#define LAMINA_NEON64 1
#endif
/// Number of vector registers of the set, which determines tile sizes.
#if defined(__AVX512F__) || defined(LAMINA_NEON64)
#define LAMINA_REGISTERS 32
#else
#define LAMINA_REGISTERS 16
#endif
/// The set has a multiply-add with one rounding.
#if defined(__FMA__) || defined(LAMINA_NEON64)
#define LAMINA_FUSED 1
#endif

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// The instruction set of this object file.
inline constexpr isa this_isa = isa::LAMINA_KERNEL_SET;

#if defined(LAMINA_NEON64) && defined(__x86_64__)
using arch = xsimd::sse4_2;
#else
using arch = xsimd::default_arch;
#endif

/// A register of T.
template <class T> using vec = xsimd::batch<T, arch>;

/// Lanes of a register of T.
template <class T> inline constexpr int width = static_cast<int>(vec<T>::size);

/// `Count` lanes of T as the compiler's own vector type, for shuffles.
template <class T, int Count> using raw = T __attribute__((vector_size(sizeof(T) * Count)));

/// A register of T with the operators of T: generic code for T accepts it, too.
template <class T> using many = T __attribute__((ext_vector_type(width<T>)));

template <class T> LAMINA_INLINE raw<T, width<T>> to_raw(vec<T> x) {
  return __builtin_bit_cast(raw<T, width<T>>, x.data);
}
template <class T> LAMINA_INLINE vec<T> from_raw(raw<T, width<T>> x) {
  using reg = decltype(vec<T>::data);
  return vec<T>(__builtin_bit_cast(reg, x));
}
/// Bit cast to another element type.
template <class To, class T> LAMINA_INLINE vec<To> bits_as(vec<T> x) {
  return from_raw<To>(__builtin_bit_cast(raw<To, width<To>>, x.data));
}

template <class T> LAMINA_INLINE vec<T> zero() { return vec<T>(T(0)); }
template <class T> LAMINA_INLINE vec<T> broadcast(const T* p) { return vec<T>(*p); }
template <class T> LAMINA_INLINE vec<T> load(const T* p) { return vec<T>::load_unaligned(p); }
template <class T> LAMINA_INLINE void store(T* p, vec<T> x) { x.store_unaligned(p); }

/// a * b + c, fused if the set supports it (SSE2 does not).
template <class T> LAMINA_INLINE vec<T> fma(vec<T> a, vec<T> b, vec<T> c) {
#ifdef LAMINA_FUSED
  return from_raw<T>(__builtin_elementwise_fma(to_raw<T>(a), to_raw<T>(b), to_raw<T>(c)));
#else
  return a * b + c;
#endif
}

/// a / b, correctly rounded; the operator of xsimd refines an estimate on NEON.
template <class T> LAMINA_INLINE vec<T> quotient(vec<T> a, vec<T> b) {
  return from_raw<T>(to_raw<T>(a) / to_raw<T>(b));
}

/// x clamped to [low, high]; NaN in x stays (x86 min and max return the second operand if one is NaN, NEON the NaN).
template <class T> LAMINA_INLINE vec<T> clamp(vec<T> x, vec<T> low, vec<T> high) {
  return xsimd::min(high, xsimd::max(low, x));
}

/// Mask of the first lanes of a register of T (4 or 8 bytes), for masked loads and stores.  Pass a count to functions
/// and build the mask inside: a mask argument would go through memory.
template <class T> struct lane_mask {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
#if defined(__AVX512F__)
  std::uint32_t bits;
#elif defined(__AVX2__)
  __m256i bits;
  int count;
#else
  int count;
#endif
};

#if defined(__AVX512F__)

/// Mask of the first `count` lanes; larger counts select all.
template <class T> LAMINA_INLINE lane_mask<T> first(int count) {
  return {_bzhi_u32((1u << width<T>)-1, static_cast<unsigned>(count > width<T> ? width<T> : count))};
}
/// Masked load: lanes outside the mask are zero, their memory is not read.
template <class T> LAMINA_INLINE vec<T> load(const T* p, lane_mask<T> m) {
  using reg = decltype(vec<T>::data);
  if constexpr (sizeof(T) == 4)
    return vec<T>(__builtin_bit_cast(reg, _mm512_maskz_loadu_ps(static_cast<__mmask16>(m.bits), p)));
  else return vec<T>(__builtin_bit_cast(reg, _mm512_maskz_loadu_pd(static_cast<__mmask8>(m.bits), p)));
}
/// Masked store: memory outside the mask is not written.
template <class T> LAMINA_INLINE void store(T* p, vec<T> x, lane_mask<T> m) {
  if constexpr (sizeof(T) == 4)
    _mm512_mask_storeu_ps(p, static_cast<__mmask16>(m.bits), __builtin_bit_cast(__m512, x.data));
  else _mm512_mask_storeu_pd(p, static_cast<__mmask8>(m.bits), __builtin_bit_cast(__m512d, x.data));
}

#elif defined(__AVX2__)

alignas(64) inline constexpr std::int32_t mask_words[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};

/// Mask of the first `count` lanes; larger counts select all.
template <class T> LAMINA_INLINE lane_mask<T> first(int count) {
  const int n = count > width<T> ? width<T> : count;
  const auto* words = mask_words + 8 - n * static_cast<int>(sizeof(T) / 4);
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(words)), n};
}
/// Masked load: lanes outside the mask are zero, their memory is not read.
template <class T> LAMINA_INLINE vec<T> load(const T* p, lane_mask<T> m) {
  using reg = decltype(vec<T>::data);
  if constexpr (sizeof(T) == 4)
    return vec<T>(__builtin_bit_cast(reg, _mm256_maskload_ps(reinterpret_cast<const float*>(p), m.bits)));
  else return vec<T>(__builtin_bit_cast(reg, _mm256_maskload_pd(reinterpret_cast<const double*>(p), m.bits)));
}
/// Masked store, in parts of 4, 2 and 1 lanes: masked stores are microcoded on some processors.
template <class T> LAMINA_INLINE void store(T* p, vec<T> x, lane_mask<T> m) {
  if (m.count == width<T>) return store(p, x);
  char* to = reinterpret_cast<char*>(p);
  const int words = m.count * static_cast<int>(sizeof(T) / 4);
  const auto all = __builtin_bit_cast(__m256, x.data);
  auto part = _mm256_castps256_ps128(all);
  if (words & 4) {
    _mm_storeu_ps(reinterpret_cast<float*>(to), part);
    to += 16;
    part = _mm256_extractf128_ps(all, 1);
  }
  if (words & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    to += 8;
    part = _mm_movehl_ps(part, part);
  }
  if (words & 1) _mm_store_ss(reinterpret_cast<float*>(to), part);
}

#else

/// Mask of the first `count` lanes; larger counts select all.
template <class T> LAMINA_INLINE lane_mask<T> first(int count) { return {count > width<T> ? width<T> : count}; }
#if defined(LAMINA_NEON64)
/// Masked load: lanes outside the mask are zero, their memory is not read.
template <class T> LAMINA_INLINE vec<T> load(const T* p, lane_mask<T> m) {
  if (m.count == width<T>) return load(p);
  const char* from = reinterpret_cast<const char*>(p);
  const int words = m.count * static_cast<int>(sizeof(T) / 4);
  std::uint64_t half[2] = {0, 0};
  if (words & 2) __builtin_memcpy(&half[0], from, 8);
  if (words & 1) {
    std::uint32_t word;
    __builtin_memcpy(&word, from + (words & 2) * 4, 4);
    half[words >> 1] = word;
  }
  return from_raw<T>(__builtin_bit_cast(raw<T, width<T>>, raw<std::uint64_t, 2>{half[0], half[1]}));
}
/// Masked store: memory outside the mask is not written.
template <class T> LAMINA_INLINE void store(T* p, vec<T> x, lane_mask<T> m) {
  if (m.count == width<T>) return store(p, x);
  char* to = reinterpret_cast<char*>(p);
  const int words = m.count * static_cast<int>(sizeof(T) / 4);
  const auto half = __builtin_bit_cast(raw<std::uint64_t, 2>, to_raw<T>(x));
  std::uint64_t next = half[0];
  if (words & 2) {
    __builtin_memcpy(to, &next, 8);
    to += 8;
    next = half[1];
  }
  const auto word = static_cast<std::uint32_t>(next);
  if (words & 1) __builtin_memcpy(to, &word, 4);
}
#else
/// Masked load: lanes outside the mask are zero, their memory is not read.
template <class T> LAMINA_INLINE vec<T> load(const T* p, lane_mask<T> m) {
  using reg = decltype(vec<T>::data);
  if (m.count == width<T>) return load(p);
  const char* from = reinterpret_cast<const char*>(p);
  const int words = m.count * static_cast<int>(sizeof(T) / 4);
  auto part = _mm_setzero_ps();
  if (words & 1) part = _mm_load_ss(reinterpret_cast<const float*>(from + (words & 2) * 4));
  if (words & 2) part = _mm_loadl_pi(_mm_movelh_ps(part, part), reinterpret_cast<const __m64*>(from));
  return vec<T>(__builtin_bit_cast(reg, part));
}
/// Masked store: memory outside the mask is not written.
template <class T> LAMINA_INLINE void store(T* p, vec<T> x, lane_mask<T> m) {
  if (m.count == width<T>) return store(p, x);
  char* to = reinterpret_cast<char*>(p);
  const int words = m.count * static_cast<int>(sizeof(T) / 4);
  auto part = __builtin_bit_cast(__m128, x.data);
  if (words & 2) {
    _mm_storel_pi(reinterpret_cast<__m64*>(to), part);
    to += 8;
    part = _mm_movehl_ps(part, part);
  }
  if (words & 1) _mm_store_ss(reinterpret_cast<float*>(to), part);
}
#endif

#endif

/// Orders non-temporal stores before later stores, for other threads.
LAMINA_INLINE void fence_streamed() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

/// Loads and stores the first `count` lanes of memory that is also accessed right before or after: store forwarding
/// works for whole and half registers, but masked AVX-512 accesses wait for the cache.
template <class T> LAMINA_INLINE vec<T> load_lanes(const T* p, long count) {
  if (count >= width<T>) return load(p);
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    if (count == width<T> / 2) return vec<T>(_mm512_zextps256_ps512(_mm256_loadu_ps(p)));
#endif
  return load(p, first<T>(count < 0 ? 0 : static_cast<int>(count)));
}
template <class T> LAMINA_INLINE void store_lanes(T* p, vec<T> x, long count) {
  if (count >= width<T>) return store(p, x);
#if defined(__AVX512F__)
  if constexpr (sizeof(T) == 4)
    if (count == width<T> / 2) return _mm256_storeu_ps(p, _mm512_castps512_ps256(x));
#endif
  store(p, x, first<T>(count < 0 ? 0 : static_cast<int>(count)));
}

namespace fold {
template <int... I> struct indices {};
template <int... I> indices<I...> make(std::integer_sequence<int, I...>);
template <int Count> using first_indices = decltype(make(std::make_integer_sequence<int, Count>{}));

template <class T, int Count, int... I> LAMINA_INLINE raw<T, Count> lower(raw<T, 2 * Count> x, indices<I...>) {
  return __builtin_shufflevector(x, x, I...);
}
template <class T, int Count, int... I> LAMINA_INLINE raw<T, Count> upper(raw<T, 2 * Count> x, indices<I...>) {
  return __builtin_shufflevector(x, x, (I + Count)...);
}
/// Reduces the lanes by combining halves until one is left: the order depends only on the lane count.
template <class T, int Count, class Op> LAMINA_INLINE T lanes(raw<T, Count> x, Op op) {
  if constexpr (Count == 2) {
    return op(x[0], x[1]);
  } else {
    using index = first_indices<Count / 2>;
    return lanes<T, Count / 2>(op(lower<T, Count / 2>(x, index{}), upper<T, Count / 2>(x, index{})), op);
  }
}

/// Reduces each row of `Each` lanes of one register, in the order of `lanes`.
template <class T, int Rows, int Count, int Each, int Shift, int... I>
LAMINA_INLINE raw<T, Count / 2> half_of_rows(raw<T, Count> x, indices<I...>) {
  return __builtin_shufflevector(x, x, (I / (Each / 2) * Each + I % (Each / 2) + Shift)...);
}
template <class T, int Rows, int Count, int Each, class Op>
LAMINA_INLINE raw<T, Rows> lanes_within(raw<T, Count> x, Op op) {
  if constexpr (Each == 1) return x;
  else {
    using index = first_indices<Count / 2>;
    return lanes_within<T, Rows, Count / 2, Each / 2>(
        op(half_of_rows<T, Rows, Count, Each, 0>(x, index{}), half_of_rows<T, Rows, Count, Each, Each / 2>(x, index{})),
        op);
  }
}
/// Lower halves (upper with `Shift` = Each / 2) of the rows of `Each` lanes in two registers, packed into one register.
template <class T, int Count, int Each, int Shift, int... I>
LAMINA_INLINE raw<T, Count> halves(raw<T, Count> a, raw<T, Count> b, indices<I...>) {
  return __builtin_shufflevector(a, b, (I / (Each / 2) * Each + I % (Each / 2) + Shift)...);
}
/// The result of `lanes` for each of `Rows` registers, in one register; Rows <= Count.
template <class T, int Rows, int Count, class Op, int Each = Count>
LAMINA_INLINE raw<T, Rows> lanes_of_rows(const raw<T, Count> (&x)[Rows * Each / Count], Op op) {
  constexpr int registers = Rows * Each / Count;
  using index = first_indices<Count>;
  if constexpr (registers > 1) {
    raw<T, Count> half[registers / 2];
    LAMINA_UNROLL for (int i = 0; i < registers / 2; ++i) half[i] =
        op(halves<T, Count, Each, 0>(x[2 * i], x[2 * i + 1], index{}),
           halves<T, Count, Each, Each / 2>(x[2 * i], x[2 * i + 1], index{}));
    return lanes_of_rows<T, Rows, Count, Op, Each / 2>(half, op);
  } else {
    return lanes_within<T, Rows, Count, Each>(x[0], op);
  }
}
}  // namespace fold

/// Sum, maximum and minimum of the lanes.  The latter two may drop a NaN: test for it first if it matters.
template <class T> LAMINA_INLINE T reduce_add(vec<T> x) {
  return fold::lanes<T, width<T>>(to_raw<T>(x), [](auto a, auto b) __attribute__((always_inline)) { return a + b; });
}
template <class T> LAMINA_INLINE T reduce_max(vec<T> x) {
  return fold::lanes<T, width<T>>(to_raw<T>(x),
                                  [](auto a, auto b) __attribute__((always_inline)) { return a > b ? a : b; });
}
template <class T> LAMINA_INLINE T reduce_min(vec<T> x) {
  return fold::lanes<T, width<T>>(to_raw<T>(x),
                                  [](auto a, auto b) __attribute__((always_inline)) { return a < b ? a : b; });
}

namespace butterfly {
/// Swaps the lanes of a whose index has bit `Block` set with the lanes of b whose index has it clear.
template <class T, int Block, int... I> LAMINA_INLINE void swap(vec<T>& a, vec<T>& b, fold::indices<I...>) {
  constexpr int count = width<T>;
  const auto x = to_raw<T>(a), y = to_raw<T>(b);
  a = from_raw<T>(__builtin_shufflevector(x, y, ((I & Block) == 0 ? I : count + I - Block)...));
  b = from_raw<T>(__builtin_shufflevector(x, y, ((I & Block) == 0 ? I + Block : count + I)...));
}
/// Interleaves the low and high halves of each 16-byte block in units of `Unit` lanes.
template <class T, int Unit, int... I>
LAMINA_INLINE void interleave(vec<T>& low, vec<T>& high, vec<T> a, vec<T> b, fold::indices<I...>) {
  constexpr int count = width<T>, block = 16 / static_cast<int>(sizeof(T));
  const auto x = to_raw<T>(a), y = to_raw<T>(b);
  // lane I of a block takes unit I / Unit: even units from a, odd from b
  low = from_raw<T>(__builtin_shufflevector(
      x, y, (I / block * block + I % block / Unit / 2 * Unit + I % Unit + I % block / Unit % 2 * count)...));
  high = from_raw<T>(__builtin_shufflevector(
      x, y,
      (I / block * block + block / 2 + I % block / Unit / 2 * Unit + I % Unit + I % block / Unit % 2 * count)...));
}
/// The lanes of a and b in turns, from the lane `First` on.
template <class T, int First, int... I> LAMINA_INLINE vec<T> in_turns(vec<T> a, vec<T> b, fold::indices<I...>) {
  return from_raw<T>(
      __builtin_shufflevector(to_raw<T>(a), to_raw<T>(b), (First + I / 2 + (I % 2 == 0 ? 0 : width<T>))...));
}
}  // namespace butterfly

/// a[0], b[0], a[1], b[1] and so on, in two registers.
template <class T> LAMINA_INLINE void in_turns(vec<T>& low, vec<T>& high, vec<T> a, vec<T> b) {
  using index = fold::first_indices<width<T>>;
  low = butterfly::in_turns<T, 0>(a, b, index{});
  high = butterfly::in_turns<T, width<T> / 2>(a, b, index{});
}

/// Transposes a square of `width<T>` registers in place.
template <class T> LAMINA_INLINE void transpose(vec<T> (&r)[static_cast<std::size_t>(width<T>)]) {
  constexpr int count = width<T>;
  using index = fold::first_indices<count>;
  if constexpr (sizeof(T) == 4) {
    LAMINA_UNROLL for (int g = 0; g < count; g += 4) {
      vec<T> t0, t1, t2, t3;
      butterfly::interleave<T, 1>(t0, t1, r[g], r[g + 1], index{});
      butterfly::interleave<T, 1>(t2, t3, r[g + 2], r[g + 3], index{});
      butterfly::interleave<T, 2>(r[g], r[g + 1], t0, t2, index{});
      butterfly::interleave<T, 2>(r[g + 2], r[g + 3], t1, t3, index{});
    }
    if constexpr (count >= 8) {
      LAMINA_UNROLL for (int i = 0; i < count; ++i) if ((i & 4) == 0) butterfly::swap<T, 4>(r[i], r[i + 4], index{});
    }
    if constexpr (count >= 16) {
      LAMINA_UNROLL for (int i = 0; i < 8; ++i) butterfly::swap<T, 8>(r[i], r[i + 8], index{});
    }
  } else {
    LAMINA_UNROLL for (int g = 0; g < count; g += 2) {
      vec<T> low, high;
      butterfly::interleave<T, 1>(low, high, r[g], r[g + 1], index{});
      r[g] = low;
      r[g + 1] = high;
    }
    if constexpr (count >= 4) {
      LAMINA_UNROLL for (int i = 0; i < count; ++i) if ((i & 2) == 0) butterfly::swap<T, 2>(r[i], r[i + 2], index{});
    }
    if constexpr (count >= 8) {
      LAMINA_UNROLL for (int i = 0; i < 4; ++i) butterfly::swap<T, 4>(r[i], r[i + 4], index{});
    }
  }
}

/// Transposes N vectors of N elements in place, N = 16 or 8.
template <class V, std::size_t N> LAMINA_INLINE void turn_square(V (&v)[N]) {
  static_assert(N == 16 || N == 8);
  V half[N];
  LAMINA_UNROLL
  for (std::size_t pass = N; pass > 1; pass /= 2) {
    LAMINA_UNROLL
    for (std::size_t i = 0; i < N / 2; ++i) {
      const V a = v[i], b = v[i + N / 2];
      if constexpr (N == 16) {
        half[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        half[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
      } else {
        half[2 * i] = __builtin_shufflevector(a, b, 0, 8, 1, 9, 2, 10, 3, 11);
        half[2 * i + 1] = __builtin_shufflevector(a, b, 4, 12, 5, 13, 6, 14, 7, 15);
      }
    }
    LAMINA_UNROLL
    for (std::size_t i = 0; i < N; ++i) v[i] = half[i];
  }
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
