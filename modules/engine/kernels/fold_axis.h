// Reductions along one axis: rows that lie contiguous, and columns side by side.  Orders of addition are fixed by
// length and inner extent: rows add in 64-byte vectors, four at a time, whatever the set's registers, so all sets
// agree.
#pragma once
#include "reduce.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace folds {

#define LAMINA_SMALL _Pragma("clang loop unroll(disable) interleave_count(1)")
inline constexpr long sum_block = 4096;
inline constexpr int levels = 40;  // of the binary counter of blocks

/// Operations on elements or vectors of them; `first` is what nothing reduces to.
struct sum {
  template <class T>
  static constexpr T first() {
    return T(0);
  }
  template <class V>
  LAMINA_INLINE static V run(V a, V b) {
    return static_cast<V>(a + b);
  }
};
struct product {
  template <class T>
  static constexpr T first() {
    return T(1);
  }
  template <class V>
  LAMINA_INLINE static V run(V a, V b) {
    if constexpr (same<V, std::uint16_t>)
      return static_cast<V>(std::uint32_t{a} * std::uint32_t{b});  // not as int
    else
      return static_cast<V>(a * b);
  }
};
/// A NaN on either side stays.
struct maximum {
  template <class T>
  static constexpr T first() {
    return smallest<T>();
  }
  template <class V>
  LAMINA_INLINE static V run(V a, V b) {
    return ((b > a) | (b != b)) ? b : a;
  }
};
struct minimum {
  template <class T>
  static constexpr T first() {
    return largest<T>();
  }
  template <class V>
  LAMINA_INLINE static V run(V a, V b) {
    return ((b < a) | (b != b)) ? b : a;
  }
};

template <class T>
inline constexpr int wide_lanes = 64 / static_cast<int>(sizeof(T));
template <class T>
using wide_vector = raw<T, wide_lanes<T>>;

template <class T>
LAMINA_INLINE wide_vector<T> load_wide(const T* p) {
  wide_vector<T> x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
template <class T, int... I>
LAMINA_INLINE constexpr wide_vector<T> lane_numbers(fold::indices<I...>) {
  return wide_vector<T>{static_cast<T>(I)...};
}
/// The first `count` elements; `other` in the lanes beyond.
template <class T>
LAMINA_INLINE wide_vector<T> load_wide(const T* p, int count, T other) {
  if constexpr (sizeof(T) >= 4) {
    constexpr int parts = wide_lanes<T> / width<T>;
    using number = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
    struct {
      raw<T, width<T>> part[static_cast<std::size_t>(parts)];
    } whole;
    LAMINA_UNROLL for (int i = 0; i < parts; ++i) {
      const int here = count - i * width<T>;
      whole.part[i] = here > 0 ? to_raw<T>(load(p + i * width<T>, kernels::first<T>(here))) : raw<T, width<T>>{};
    }
    const auto x = __builtin_bit_cast(wide_vector<T>, whole);
    return lane_numbers<number>(fold::first_indices<wide_lanes<T>>{}) < static_cast<number>(count)
               ? x
               : (wide_vector<T>{} + other);
  } else {
    wide_vector<T> x;
    LAMINA_UNROLL for (int i = 0; i < wide_lanes<T>; ++i) x[i] = other;
    __builtin_memcpy(&x, p, static_cast<std::size_t>(count) * sizeof(T));
    return x;
  }
}

/// Up to `sum_block` contiguous elements (any number where the order does not matter).
template <class Op, class T>
LAMINA_INLINE T block_of_row(const T* p, long n) {
  using V = wide_vector<T>;
  constexpr int lanes = wide_lanes<T>;
  constexpr auto op = [](auto a, auto b) __attribute__((always_inline)) { return Op::run(a, b); };
  constexpr T other = Op::template first<T>();
  if (n <= lanes) return fold::lanes<T, lanes>(load_wide(p, static_cast<int>(n), other), op);
  const V none = load_wide(p, 0, other);
  V a = none, b = none, c = none, d = none;
  long i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a = Op::run(a, load_wide(p + i));
    b = Op::run(b, load_wide(p + i + lanes));
    c = Op::run(c, load_wide(p + i + 2 * lanes));
    d = Op::run(d, load_wide(p + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a = Op::run(a, load_wide(p + i));
  if (i < n) b = Op::run(b, load_wide(p + i, static_cast<int>(n - i), other));
  return fold::lanes<T, lanes>(Op::run(Op::run(a, b), Op::run(c, d)), op);
}

template <class Op, class T>
LAMINA_INLINE T row(const T* p, long n) {
  if (n <= sum_block) return block_of_row<Op, T>(p, n);
  T held[levels];
  long blocks = 0;
  int depth = 0;
  for (; n > 0; n -= sum_block, p += sum_block) {
    T value = block_of_row<Op, T>(p, n < sum_block ? n : sum_block);
    for (long b = blocks++; (b & 1) != 0; b >>= 1) value = Op::run(held[--depth], value);
    held[depth++] = value;
  }
  T value = held[--depth];
  while (depth > 0) value = Op::run(held[--depth], value);
  return value;
}

template <class T>
inline constexpr long column_chunk = 1024 / static_cast<long>(sizeof(T));

/// `length` rows of `n` <= column_chunk elements, `stride` elements apart, into acc.
template <class Op, class T>
LAMINA_INLINE void block_of_columns(const T* p, long length, long stride, long n, T* acc) {
  for (long j = 0; j < n; ++j) acc[j] = Op::template first<T>();
  long l = 0;
  for (; l + 4 <= length; l += 4, p += 4 * stride) {
    const T *q = p + stride, *r = q + stride, *s = r + stride;
    LAMINA_INDEPENDENT for (long j = 0; j < n; ++j) acc[j] =
        Op::run(acc[j], Op::run(Op::run(p[j], q[j]), Op::run(r[j], s[j])));
  }
  for (; l < length; ++l, p += stride) LAMINA_INDEPENDENT for (long j = 0; j < n; ++j) acc[j] = Op::run(acc[j], p[j]);
}

template <class Op, class T>
LAMINA_INLINE void columns(const T* p, long length, long stride, long n, T* acc) {
  block_of_columns<Op, T>(p, length < sum_block ? length : sum_block, stride, n, acc);
  if (length <= sum_block) return;
  T held[20][static_cast<std::size_t>(column_chunk<T>)];
  const auto merge = [n](const T* earlier, T* later) __attribute__((always_inline)) {
    LAMINA_INDEPENDENT for (long j = 0; j < n; ++j) later[j] = Op::run(earlier[j], later[j]);
  };
  const auto keep = [&held, n](int at, const T* from) __attribute__((always_inline)) {
    for (long j = 0; j < n; ++j) held[at][j] = from[j];
  };
  keep(0, acc);
  int depth = 1;
  long blocks = 1;
  for (long l = sum_block; l < length; l += sum_block) {
    block_of_columns<Op, T>(p + l * stride, length - l < sum_block ? length - l : sum_block, stride, n, acc);
    for (long b = blocks++; (b & 1) != 0; b >>= 1) merge(held[--depth], acc);
    keep(depth++, acc);
  }
  --depth;
  for (long j = 0; j < n; ++j) acc[j] = held[depth][j];
  while (depth > 0) merge(held[--depth], acc);
}

template <class Op, class T, bool Mean>
void reduce(const void* arguments, void*) noexcept {
  const auto& a = *static_cast<const reduce_args*>(arguments);
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  const T length = static_cast<T>(a.length);
  if constexpr (!is_float<T>) {
    // integers are exact in any order, and seldom reduced: plain loops, a tenth of the code
    for (long o = 0; o < a.outer; ++o, in += a.length * a.inner, out += a.inner) {
      if (a.inner == 1) {
        T value = Op::template first<T>();
        LAMINA_SMALL for (long l = 0; l < a.length; ++l) value = Op::run(value, in[l]);
        *out = value;
        continue;
      }
      LAMINA_SMALL for (long i = 0; i < a.inner; ++i) out[i] = Op::template first<T>();
      for (long l = 0; l < a.length; ++l)
        LAMINA_SMALL for (long i = 0; i < a.inner; ++i) out[i] = Op::run(out[i], in[l * a.inner + i]);
    }
    return;
  }
  if (a.inner == 1) {
    for (long o = 0; o < a.outer; ++o) {
      const T value = row<Op, T>(in + o * a.length, a.length);
      out[o] = Mean ? static_cast<T>(value / length) : value;
    }
    return;
  }
  for (long o = 0; o < a.outer; ++o)
    for (long c = 0; c < a.inner; c += column_chunk<T>) {
      const long n = a.inner - c < column_chunk<T> ? a.inner - c : column_chunk<T>;
      T acc[static_cast<std::size_t>(column_chunk<T>)];
      columns<Op, T>(in + o * a.length * a.inner + c, a.length, a.inner, n, acc);
      for (long j = 0; j < n; ++j) out[o * a.inner + c + j] = Mean ? static_cast<T>(acc[j] / length) : acc[j];
    }
}

/// The first place of `value`, which is there; NaN is found as any NaN.
template <class T>
LAMINA_INLINE long find(const T* p, long n, T value) {
  const bool nan = value != value;
  constexpr long step = 64;
  long i = 0;
  for (; i + step <= n; i += step) {
    unsigned hit = 0;
    for (long j = 0; j < step; ++j) hit |= p[i + j] == value || (nan && p[i + j] != p[i + j]) ? 1u : 0u;
    if (hit != 0) break;
  }
  while (i < n && !(p[i] == value || (nan && p[i] != p[i]))) ++i;
  return i;
}

template <class Op, class T>
void arg(const void* arguments, void*) noexcept {
  const auto& a = *static_cast<const reduce_args*>(arguments);
  const T* in = static_cast<const T*>(a.in);
  auto* out = static_cast<std::int64_t*>(a.out);
  if (a.length <= 0) {
    for (long i = 0; i < a.outer * a.inner; ++i) out[i] = 0;
  } else if constexpr (!is_float<T>) {
    for (long o = 0; o < a.outer; ++o, in += a.length * a.inner)
      for (long i = 0; i < a.inner; ++i, ++out) {
        *out = 0;
        for (long l = 1; l < a.length; ++l) {
          const T x = in[l * a.inner + i], best = in[*out * a.inner + i];
          if (same<Op, maximum> ? x > best : x < best) *out = l;
        }
      }
  } else if (a.inner == 1) {
    for (long o = 0; o < a.outer; ++o, in += a.length) out[o] = find(in, a.length, row<Op, T>(in, a.length));
  } else {
    for (long o = 0; o < a.outer; ++o)
      for (long c = 0; c < a.inner; c += column_chunk<T>) {
        const long n = a.inner - c < column_chunk<T> ? a.inner - c : column_chunk<T>;
        const T* p = in + o * a.length * a.inner + c;
        std::int64_t* at = out + o * a.inner + c;
        T best[static_cast<std::size_t>(column_chunk<T>)];
        for (long j = 0; j < n; ++j) best[j] = p[j], at[j] = 0;
        for (long l = 1; l < a.length; ++l) {
          p += a.inner;
          LAMINA_INDEPENDENT for (long j = 0; j < n; ++j) {
            const T x = p[j], b = best[j];
            const bool beyond = same<Op, maximum> ? x > b : x < b;
            const bool better = beyond || (x != x && b == b);
            best[j] = better ? x : b;
            at[j] = better ? l : at[j];
          }
        }
      }
  }
}

}  // namespace folds
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
