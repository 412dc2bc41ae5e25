// Micro-operations over arrays: one loop per pattern of advancing operands.  The bits of an element do not depend on
// its position: loops are either scalar code that the compiler vectorizes, or registers with a masked tail.
#pragma once
#include "casts.h"
#include "micro.h"

// the vectorization pragma applies to all types; a few operations stay scalar (64-bit division, pow)
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wpass-failed"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// Storage form of a result: comparisons become bytes.
template <class T> LAMINA_INLINE T stored(T x) { return x; }
LAMINA_INLINE std::uint8_t stored(bool x) { return x ? 1 : 0; }
template <class T> using stored_as = decltype(stored(T()));

template <class T> LAMINA_APART void fill_run(T* out, T value, long n) {
  LAMINA_NO_UNROLL for (long i = 0; i < n; ++i) out[i] = value;
}

/// An integer operand with stride 0 or 1, so that one small loop serves every pattern; integers are rarely hot.
template <class T> struct stepped {
  const T* at;
  long step;
  T held;  // copy of a repeated element, because the output may alias it
  LAMINA_INLINE stepped(const void* p, unsigned advances)
      : at(static_cast<const T*>(p)), step(advances != 0 ? 1 : 0), held(*at) {
    if (step == 0) at = &held;
  }
  stepped(const stepped&) = delete;
  LAMINA_INLINE T operator[](long i) const { return at[i * step]; }
};

template <class Op, class T>
void map_unary(const void* a, const void*, const void*, void* out, long n, unsigned steps) noexcept {
  const T* x = static_cast<const T*>(a);
  auto* y = static_cast<stored_as<decltype(Op::run(*x))>*>(out);
  if constexpr (!is_float<T>) {
    if (n <= 0) return;
    const stepped<T> from(a, steps & 1);
    LAMINA_SMALL for (long i = 0; i < n; ++i) y[i] = stored(Op::run(from[i]));
    return;
  }
  if ((steps & 1) == 0) return fill_run(y, stored(Op::run(*x)), n);
  LAMINA_INDEPENDENT for (long i = 0; i < n; ++i) y[i] = stored(Op::run(x[i]));
}

template <class Op, class T, unsigned Steps> LAMINA_INLINE void binary_run(const T* x, const T* y, auto* out, long n) {
  const T x0 = *x, y0 = *y;
  LAMINA_IN_PAIRS for (long i = 0; i < n; ++i) out[i] =
      stored(Op::run((Steps & 1) != 0 ? x[i] : x0, (Steps & 2) != 0 ? y[i] : y0));
}
/// Whether a vectorized loop is worth its code size: int32 arithmetic follows each int8 product.
template <class Op, class T> inline constexpr bool in_registers =
    is_float<T> ||
    (std::is_same_v<T, std::int32_t> &&
     (std::is_same_v<Op, micro::add> || std::is_same_v<Op, micro::subtract> || std::is_same_v<Op, micro::multiply>));
template <class Op, class T>
void map_binary(const void* a, const void* b, const void*, void* out, long n, unsigned steps) noexcept {
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
  auto* z = static_cast<stored_as<decltype(Op::run(*x, *y))>*>(out);
  if (n <= 0) return;
  if constexpr (!in_registers<Op, T>) {
    const stepped<T> left(a, steps & 1), right(b, steps & 2);
    LAMINA_SMALL for (long i = 0; i < n; ++i) z[i] = stored(Op::run(left[i], right[i]));
    return;
  }
  switch (steps & 3) {
    case 3: return binary_run<Op, T, 3>(x, y, z, n);
    case 2: return binary_run<Op, T, 2>(x, y, z, n);
    case 1: return binary_run<Op, T, 1>(x, y, z, n);
    default: return fill_run(z, stored(Op::run(*x, *y)), n);
  }
}

template <class Op, class T, unsigned Steps>
LAMINA_INLINE void ternary_run(const T* x, const T* y, const T* z, T* out, long n) {
  const T x0 = *x, y0 = *y, z0 = *z;
  LAMINA_INDEPENDENT for (long i = 0; i < n; ++i) out[i] =
      Op::run((Steps & 1) != 0 ? x[i] : x0, (Steps & 2) != 0 ? y[i] : y0, (Steps & 4) != 0 ? z[i] : z0);
}
#define LAMINA_EACH_STEPS(run) \
  switch (steps & 7) {         \
    case 0: return run(0);     \
    case 1: return run(1);     \
    case 2: return run(2);     \
    case 3: return run(3);     \
    case 4: return run(4);     \
    case 5: return run(5);     \
    case 6: return run(6);     \
    default: return run(7);    \
  }
template <class Op, class T>
void map_ternary(const void* a, const void* b, const void* c, void* out, long n, unsigned steps) noexcept {
  const T *x = static_cast<const T*>(a), *y = static_cast<const T*>(b), *z = static_cast<const T*>(c);
  if (n <= 0) return;
  if constexpr (!is_float<T>) {
    const stepped<T> first(a, steps & 1), second(b, steps & 2), third(c, steps & 4);
    T* to = static_cast<T*>(out);
    LAMINA_SMALL for (long i = 0; i < n; ++i) to[i] = Op::run(first[i], second[i], third[i]);
    return;
  }
#define LAMINA_RUN(s) ternary_run<Op, T, s>(x, y, z, static_cast<T*>(out), n)
  LAMINA_EACH_STEPS(LAMINA_RUN)
#undef LAMINA_RUN
}
#undef LAMINA_EACH_STEPS

/// `where` with an advancing condition, vectorized; for words of at least 4 bytes.
template <class T, unsigned Steps>
LAMINA_INLINE void where_run(const std::uint8_t* x, const T* y, const T* z, T* out, long n) {
  const T y0 = *y, z0 = *z;
  LAMINA_VECTORS for (long i = 0; i < n; ++i) {
    const T yes = (Steps & 2) != 0 ? y[i] : y0, no = (Steps & 4) != 0 ? z[i] : z0;
    out[i] = x[i] != 0 ? yes : no;
  }
}
template <class T>
void map_where(const void* a, const void* b, const void* c, void* out, long n, unsigned steps) noexcept {
  T* to = static_cast<T*>(out);
  if (n <= 0) return;
  if constexpr (sizeof(T) >= 4) {
    const auto* x = static_cast<const std::uint8_t*>(a);
    const T *y = static_cast<const T*>(b), *z = static_cast<const T*>(c);
    if ((steps & 7) == 7) return where_run<T, 7>(x, y, z, to, n);
    if ((steps & 7) == 5) return where_run<T, 5>(x, y, z, to, n);
    if ((steps & 7) == 3) return where_run<T, 3>(x, y, z, to, n);
  }
  const stepped<std::uint8_t> condition(a, steps & 1);
  const stepped<T> yes(b, steps & 2), no(c, steps & 4);
  LAMINA_SMALL for (long i = 0; i < n; ++i) to[i] = condition[i] != 0 ? yes[i] : no[i];
}

template <class T> void map_copy(const void* a, const void*, const void*, void* out, long n, unsigned steps) noexcept {
  const T* x = static_cast<const T*>(a);
  T* y = static_cast<T*>(out);
  if ((steps & 1) == 0) return fill_run(y, *x, n);
  if (x == y || n <= 0) return;
  __builtin_memcpy(y, x, static_cast<std::size_t>(n) * sizeof(T));
}

/// Applies an operation on registers of floats.
template <class Op>
void map_register(const void* a, const void*, const void*, void* out, long n, unsigned steps) noexcept {
  const float* x = static_cast<const float*>(a);
  float* y = static_cast<float*>(out);
  constexpr long lanes = width<float>;
  if ((steps & 1) == 0) {
    float value[static_cast<std::size_t>(lanes)];
    store(value, Op::run(broadcast(x)));
    return fill_run(y, value[0], n);
  }
  long i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    const vf first_half = load(x + i), second_half = load(x + i + lanes);
    store(y + i, Op::run(first_half));
    store(y + i + lanes, Op::run(second_half));
  }
  for (; i < n; i += lanes) {
    const int count = static_cast<int>(n - i < lanes ? n - i : lanes);
    store(y + i, Op::run(load(x + i, first<float>(count))), first<float>(count));
  }
}

/// Applies an operation with a fast path for plain arguments and a slow path for the others, by tiles.
inline constexpr long guarded_tile = 64;
template <class Op>
void map_guarded(const void* a, const void*, const void*, void* out, long n, unsigned steps) noexcept {
  const float* x = static_cast<const float*>(a);
  float* y = static_cast<float*>(out);
  if ((steps & 1) == 0) return fill_run(y, Op::plain(*x) ? Op::fast(*x) : Op::slow(*x), n);
  for (long i = 0; i < n; i += guarded_tile) {
    float value[guarded_tile];
    const long count = n - i < guarded_tile ? n - i : guarded_tile;
    unsigned odd = 0;
    LAMINA_INDEPENDENT for (long j = 0; j < count; ++j) {
      value[j] = Op::fast(x[i + j]);
      odd |= Op::plain(x[i + j]) ? 0u : 1u;
    }
    if (odd != 0)
      for (long j = 0; j < count; ++j)
        if (!Op::plain(x[i + j])) value[j] = Op::slow(x[i + j]);
    LAMINA_INDEPENDENT for (long j = 0; j < count; ++j) y[i + j] = value[j];
  }
}
/// The same for two operands; a repeated operand is expanded to a tile.
template <class Op>
void map_guarded_binary(const void* a, const void* b, const void*, void* out, long n, unsigned steps) noexcept {
  const float *x = static_cast<const float*>(a), *y = static_cast<const float*>(b);
  float* z = static_cast<float*>(out);
  if (n <= 0) return;
  const long steps_x = steps & 1, steps_y = steps >> 1 & 1, max = n < guarded_tile ? n : guarded_tile;
  float repeated[guarded_tile], value[guarded_tile];
  if (steps_x == 0 && steps_y == 0) return fill_run(z, Op::plain(*x, *y) ? Op::fast(*x, *y) : Op::slow(*x, *y), n);
  if (steps_x == 0 || steps_y == 0) fill_run(repeated, steps_x == 0 ? *x : *y, max);
  for (long i = 0; i < n; i += guarded_tile) {
    const float *p = steps_x != 0 ? x + i : repeated, *q = steps_y != 0 ? y + i : repeated;
    const long count = n - i < guarded_tile ? n - i : guarded_tile;
    unsigned odd = 0;
    LAMINA_INDEPENDENT for (long j = 0; j < count; ++j) {
      value[j] = Op::fast(p[j], q[j]);
      odd |= Op::plain(p[j], q[j]) ? 0u : 1u;
    }
    if (odd != 0)
      for (long j = 0; j < count; ++j)
        if (!Op::plain(p[j], q[j])) value[j] = Op::slow(p[j], q[j]);
    __builtin_memcpy(z + i, value, static_cast<std::size_t>(count) * sizeof(float));
  }
}

/// Common conversions, of data and weights, which are vectorized.
template <class To, class From> inline constexpr bool converts_often =
    (same<To, float> && !same<From, float>) ||
    (same<From, float> && !same<To, float> && !same<To, boolean> && sizeof(To) != 1);
template <class To, class From>
void map_cast(const void* a, const void*, const void*, void* out, long n, unsigned steps) noexcept {
  if constexpr (same<From, boolean>) {
    return map_cast<To, std::uint8_t>(a, nullptr, nullptr, out, n, steps);
  } else {
    To* y = static_cast<To*>(out);
    if (n <= 0) return;
    if constexpr (converts_often<To, From>) {
      const From* x = static_cast<const From*>(a);
      if ((steps & 1) != 0) {
        LAMINA_VECTORS for (long i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
        return;
      }
    }
    const stepped<From> x(a, steps & 1);
    LAMINA_SMALL for (long i = 0; i < n; ++i) y[i] = convert<To>(x[i]);
  }
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels

#pragma clang diagnostic pop
