// Reductions along one axis: contiguous rows, and columns in parallel.  Length and inner extent alone fix the order of
// addition: rows add 64-byte vectors, four at a time, for any register size of the set, so that all sets agree.
#pragma once
#include "reduce.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace folds {

inline constexpr int levels = 40;  // of the pairwise sum of blocks

/// Operations on elements or vectors of them; `first` is the result of an empty reduction.
struct sum {
  template <class T> static constexpr T first() { return T(0); }
  template <class V> LAMINA_INLINE static V run(V a, V b) { return static_cast<V>(a + b); }
};
struct product {
  template <class T> static constexpr T first() { return T(1); }
  template <class V> LAMINA_INLINE static V run(V a, V b) {
    if constexpr (same<V, std::uint16_t>) return static_cast<V>(std::uint32_t{a} * std::uint32_t{b});  // not as int
    else return static_cast<V>(a * b);
  }
};
/// Propagates NaN from either side.
struct maximum {
  template <class T> static constexpr T first() { return smallest<T>(); }
  template <class V> LAMINA_INLINE static V run(V a, V b) { return ((b > a) | (b != b)) ? b : a; }
};
/// May drop a NaN: for callers whose results are NaN anyway.
struct largest_number {
  template <class T> static constexpr T first() { return smallest<T>(); }
  template <class V> LAMINA_INLINE static V run(V a, V b) { return b > a ? b : a; }
};
struct minimum {
  template <class T> static constexpr T first() { return largest<T>(); }
  template <class V> LAMINA_INLINE static V run(V a, V b) { return ((b < a) | (b != b)) ? b : a; }
};

template <class T> inline constexpr int wide_lanes = 64 / static_cast<int>(sizeof(T));
template <class T> using wide_vector = raw<T, wide_lanes<T>>;

template <class T> LAMINA_INLINE wide_vector<T> load_wide(const T* p) {
  wide_vector<T> x;
  __builtin_memcpy(&x, p, sizeof x);
  return x;
}
template <class T, int... I> LAMINA_INLINE constexpr wide_vector<T> lane_numbers(fold::indices<I...>) {
  return wide_vector<T>{static_cast<T>(I)...};
}
/// x in the first `count` lanes; `other` in the rest.
template <class T> LAMINA_INLINE wide_vector<T> first_lanes(wide_vector<T> x, int count, T other = 0) {
  using number = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  return lane_numbers<number>(fold::first_indices<wide_lanes<T>>{}) < static_cast<number>(count)
             ? x
             : (wide_vector<T>{} + other);
}
/// Loads the first `count` elements; `other` in the remaining lanes.
template <class T> LAMINA_INLINE wide_vector<T> load_wide(const T* p, int count, T other) {
  if constexpr (sizeof(T) >= 4) {
    constexpr int parts = wide_lanes<T> / width<T>;
    struct {
      raw<T, width<T>> part[static_cast<std::size_t>(parts)];
    } whole;
    LAMINA_UNROLL for (int i = 0; i < parts; ++i) {
      const int here = count - i * width<T>;
      whole.part[i] = here > 0 ? to_raw<T>(load(p + i * width<T>, kernels::first<T>(here))) : raw<T, width<T>>{};
    }
    return first_lanes<T>(__builtin_bit_cast(wide_vector<T>, whole), count, other);
  } else {
    wide_vector<T> x;
    LAMINA_UNROLL for (int i = 0; i < wide_lanes<T>; ++i) x[i] = other;
    __builtin_memcpy(&x, p, static_cast<std::size_t>(count) * sizeof(T));
    return x;
  }
}

template <class T> LAMINA_INLINE void store_wide(T* p, wide_vector<T> x) { __builtin_memcpy(p, &x, sizeof x); }
/// Stores the first `count` elements.
template <class T> LAMINA_INLINE void store_wide(T* p, wide_vector<T> x, int count) {
  constexpr int parts = wide_lanes<T> / width<T>;
  struct registers {
    raw<T, width<T>> part[static_cast<std::size_t>(parts)];
  };
  const auto y = __builtin_bit_cast(registers, x);
  LAMINA_UNROLL for (int i = 0; i < parts; ++i) {
    const int here = count - i * width<T>;
    if (here > 0) store(p + i * width<T>, from_raw<T>(y.part[i]), kernels::first<T>(here));
  }
}

/// Writes `n` elements 64 bytes at a time: the result of f(at), where at(p) loads the same elements of a row `p`.
template <class T, class F> LAMINA_INLINE void write_row(T* out, long n, F f) {
  long i = 0;
  LAMINA_NO_UNROLL for (; i + wide_lanes<T> <= n; i += wide_lanes<T>)
      store_wide(out + i, f([i](const T* p) __attribute__((always_inline)) { return load_wide(p + i); }));
  const int left = static_cast<int>(n - i);
  if (left > 0)
    store_wide(out + i,
               f([i, left](const T* p) __attribute__((always_inline)) { return load_wide(p + i, left, T(0)); }), left);
}

/// Number of accumulators of a row, four if it pays.  Sums depend on it, so for sums it is the same on all sets.
template <class Op, class T> inline constexpr int chains =
    same<T, float> && (same<Op, sum> || (this_isa != isa::sse2 && !same<Op, product>)) ? 4 : 1;

/// 64 bytes of partial results of up to `sum_block` contiguous elements (any number if the order does not matter), to
/// be reduced across lanes. f(accumulator, x) adds 64 bytes x; elements past the end are `other`.
template <class Op, class T, int Chains, class F>
LAMINA_INLINE wide_vector<T> lanes_of_block(const T* p, long n, T other, F f) {
  using V = wide_vector<T>;
  constexpr int lanes = wide_lanes<T>;
  V held[Chains];
  LAMINA_UNROLL for (int c = 0; c < Chains; ++c) held[c] = V{} + Op::template first<T>();
  long i = 0;
  LAMINA_NO_UNROLL for (; i + Chains * lanes <= n; i += Chains * lanes) LAMINA_UNROLL for (int c = 0; c < Chains; ++c)
      held[c] = f(held[c], load_wide(p + i + c * lanes));
  if constexpr (Chains > 1) LAMINA_NO_UNROLL for (; i + lanes <= n; i += lanes) held[0] = f(held[0], load_wide(p + i));
  constexpr int last = Chains > 1 ? 1 : 0;
  if (i < n) held[last] = f(held[last], load_wide(p + i, static_cast<int>(n - i), other));
  if constexpr (Chains > 1) held[0] = Op::run(Op::run(held[0], held[1]), Op::run(held[2], held[3]));
  return held[0];
}
template <class Op, class T> LAMINA_INLINE wide_vector<T> lanes_of_block(const T* p, long n) {
  return lanes_of_block<Op, T, chains<Op, T>>(
      p, n, Op::template first<T>(), [](auto a, auto x) __attribute__((always_inline)) { return Op::run(a, x); });
}
template <class Op> struct combine {
  template <class V> LAMINA_INLINE V operator()(V a, V b) const { return Op::run(a, b); }
};
template <class Op, class T> LAMINA_APART T block_of_row(const T* p, long n) {
  return fold::lanes<T, wide_lanes<T>>(lanes_of_block<Op>(p, n), combine<Op>{});
}

/// Number of rows that are reduced together, in shared registers.
inline constexpr int row_group = 8;
/// Results of up to `row_group` rows; f(i) returns the partial results of row i.
template <class Op, class T, class F> LAMINA_INLINE raw<T, row_group> results_of_rows(long rows, F f) {
  wide_vector<T> part[row_group] = {};
  LAMINA_NO_UNROLL for (long i = 0; i < rows; ++i) part[i] = f(i);
  return fold::lanes_of_rows<T, row_group, wide_lanes<T>>(part, combine<Op>{});
}
/// Number of rows of `n` elements to process together, at most `row_group` and so that they stay in L1.
template <class T> LAMINA_INLINE long rows_together(long n) {
  constexpr long capacity = 16384 / static_cast<long>(sizeof(T));
  const long fitting = n > 0 && n <= sum_block ? capacity / n : 1;
  return fitting < 1 ? 1 : fitting < row_group ? fitting : row_group;
}

/// Combines the results of blocks pairwise; block(at, count) returns that of up to `sum_block` elements.
template <class Op, class T, class Block> LAMINA_INLINE T blocks_of_row(long n, Block block) {
  if (n <= sum_block) return block(0L, n);
  T held[levels];
  long blocks = 0;
  int depth = 0;
  LAMINA_NO_UNROLL for (long at = 0; at < n; at += sum_block) {
    T value = block(at, n - at < sum_block ? n - at : sum_block);
    LAMINA_SMALL for (long b = blocks++; (b & 1) != 0; b >>= 1) value = Op::run(held[--depth], value);
    held[depth++] = value;
  }
  T value = held[--depth];
  LAMINA_SMALL while (depth > 0) value = Op::run(held[--depth], value);
  return value;
}
template <class Op, class T> LAMINA_APART T row(const T* p, long n) {
  return blocks_of_row<Op, T>(
      n, [p](long at, long count) __attribute__((always_inline)) { return block_of_row<Op, T>(p + at, count); });
}

template <class T> inline constexpr long column_chunk = 1024 / static_cast<long>(sizeof(T));

/// Reduces `length` rows of `n` <= column_chunk elements, `stride` elements apart, into acc.
template <class Op, class T> LAMINA_APART void block_of_columns(const T* p, long length, long stride, long n, T* acc) {
  LAMINA_VECTORS for (long j = 0; j < n; ++j) acc[j] = Op::template first<T>();
  long l = 0;
  LAMINA_NO_UNROLL for (; l + 4 <= length; l += 4, p += 4 * stride) {
    const T *q = p + stride, *r = q + stride, *s = r + stride;
    LAMINA_VECTORS for (long j = 0; j < n; ++j) acc[j] =
        Op::run(acc[j], Op::run(Op::run(p[j], q[j]), Op::run(r[j], s[j])));
  }
  LAMINA_NO_UNROLL for (; l < length; ++l, p += stride) LAMINA_VECTORS for (long j = 0; j < n; ++j) acc[j] =
      Op::run(acc[j], p[j]);
}

template <class Op, class T> LAMINA_APART void columns(const T* p, long length, long stride, long n, T* acc) {
  block_of_columns<Op, T>(p, length < sum_block ? length : sum_block, stride, n, acc);
  if (length <= sum_block) return;
  T held[20][static_cast<std::size_t>(column_chunk<T>)];
  const std::size_t bytes = static_cast<std::size_t>(n) * sizeof(T);
  __builtin_memcpy(held[0], acc, bytes);
  int depth = 1;
  long blocks = 1;
  for (long l = sum_block;; l += sum_block) {
    // combines the current block with earlier ones; at the end combines all
    const bool ended = l >= length;
    if (ended) __builtin_memcpy(acc, held[--depth], bytes);
    if (!ended)
      block_of_columns<Op, T>(p + l * stride, length - l < sum_block ? length - l : sum_block, stride, n, acc);
    for (long b = blocks++; ended ? depth > 0 : (b & 1) != 0; b >>= 1) {
      const T* earlier = held[--depth];
      LAMINA_VECTORS for (long j = 0; j < n; ++j) acc[j] = Op::run(earlier[j], acc[j]);
    }
    if (ended) return;
    __builtin_memcpy(held[depth++], acc, bytes);
  }
}

/// Integers are exact in any order and rarely reduced: plain loops, a tenth of the code.
template <class Op, class T> LAMINA_INLINE void reduce_integers(const reduce_args& a, const T* in, T* out) {
  const long step = a.step();
  for (long o = 0; o < a.outer; ++o, in += a.length * step, out += a.inner) {
    if (step == 1) {
      T value = Op::template first<T>();
      LAMINA_SMALL for (long l = 0; l < a.length; ++l) value = Op::run(value, in[l]);
      *out = value;
      continue;
    }
    LAMINA_SMALL for (long i = 0; i < a.inner; ++i) out[i] = Op::template first<T>();
    for (long l = 0; l < a.length; ++l)
      LAMINA_SMALL for (long i = 0; i < a.inner; ++i) out[i] = Op::run(out[i], in[l * step + i]);
  }
}
/// Maximum length of rows that are reduced in parallel lanes, each in the order of `block_of_row`.
inline constexpr long short_row = 8;

/// 64 bytes of results of contiguous rows.
template <class Op, class T> LAMINA_INLINE wide_vector<T> short_rows(const T* p, long length) {
  using V = wide_vector<T>;
  constexpr T other = Op::template first<T>();
  V v[short_row];
  LAMINA_UNROLL for (int l = 0; l < short_row; ++l) {
    v[l] = V{} + other;
    if (l >= length) continue;
    V x;
    LAMINA_UNROLL for (int r = 0; r < wide_lanes<T>; ++r) x[r] = p[r * length + l];
    v[l] = Op::run(v[l], x);
  }
  // Same order as `block_of_row`: four chains, of which only the first lanes differ from `other`, then halves of lanes.
  if (chains<Op, T> > 1) LAMINA_UNROLL for (int l = 0; l < short_row; ++l) v[l] = Op::run(V{} + other, v[l]);
  LAMINA_UNROLL for (int half = short_row / 2; half > 0; half /= 2) LAMINA_UNROLL for (int l = 0; l < half; ++l) v[l] =
      Op::run(v[l], v[l + half]);
  return v[0];
}

template <class Op, class T> LAMINA_APART void reduce_floats(const reduce_args& a, const T* in, T* out, bool mean) {
  const T length = mean ? static_cast<T>(a.length) : T(1);
  const long step = a.step();
  long o = 0;
  if (step == 1 && a.length <= short_row)
    for (; o + wide_lanes<T> <= a.outer; o += wide_lanes<T>, in += wide_lanes<T> * a.length, out += wide_lanes<T>) {
      const auto rows = short_rows<Op, T>(in, a.length) / length;
      __builtin_memcpy(out, &rows, sizeof rows);
    }
  for (; o < a.outer; ++o, in += a.length * step, out += a.inner) {
    if (step == 1) {
      *out = row<Op, T>(in, a.length) / length;
      continue;
    }
    for (long c = 0; c < a.inner; c += column_chunk<T>) {
      const long n = a.inner - c < column_chunk<T> ? a.inner - c : column_chunk<T>;
      T acc[static_cast<std::size_t>(column_chunk<T>)];
      columns<Op, T>(in + c, a.length, step, n, acc);
      LAMINA_VECTORS for (long j = 0; j < n; ++j) out[c + j] = acc[j] / length;
    }
  }
}

template <class Op, class T, bool Mean> void reduce(const void* arguments, void*) noexcept {
  const auto& a = *static_cast<const reduce_args*>(arguments);
  if constexpr (is_float<T>) reduce_floats<Op, T>(a, static_cast<const T*>(a.in), static_cast<T*>(a.out), Mean);
  else reduce_integers<Op, T>(a, static_cast<const T*>(a.in), static_cast<T*>(a.out));
}

/// The first position of `value`, which must occur; a NaN matches any NaN.
template <class T> LAMINA_INLINE long find(const T* p, long n, T value) {
  using number = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  constexpr long step = wide_lanes<T>;
  const bool nan = value != value;
  const auto joined = [](auto a, auto b) __attribute__((always_inline)) { return a | b; };
  long i = 0;
  LAMINA_NO_UNROLL for (; i + step <= n; i += step) {
    const auto x = load_wide(p + i);
    const auto hit = nan ? x != x : x == (wide_vector<T>{} + value);
    if (fold::lanes<number, static_cast<int>(step)>(__builtin_bit_cast(wide_vector<number>, hit), joined) != 0) break;
  }
  LAMINA_SMALL while (i < n && !(nan ? p[i] != p[i] : p[i] == value))++ i;
  return i;
}

/// The positions of the extremes of at least 16 columns, 16 at a time.
template <class Op>
LAMINA_COMPACT void args_of_columns(const float* in, long length, long inner, long step, std::int64_t* out) {
  constexpr int lanes = wide_lanes<float>;
  for (long column = 0;; column += lanes) {
    const long i = column + lanes <= inner ? column : inner - lanes;  // the last ones overlap those before them
    const float* p = in + i;
    wide_vector<float> best = load_wide(p);
    wide_vector<std::int32_t> place{};
    LAMINA_NO_UNROLL for (long l = 1; l < length; ++l) {
      const wide_vector<float> x = load_wide(p += step);
      const auto further = same<Op, maximum> ? x > best : x < best;
      const auto better = further | ((x != x) & (best == best));
      best = better ? x : best;
      place = better ? wide_vector<std::int32_t>{} + static_cast<std::int32_t>(l) : place;
    }
    for (int k = 0; k < lanes; ++k) out[i + k] = place[k];
    if (i + lanes == inner) return;
  }
}
template <class Op, class T> void arg(const void* arguments, void*) noexcept {
  const auto& a = *static_cast<const reduce_args*>(arguments);
  const T* in = static_cast<const T*>(a.in);
  auto* out = static_cast<std::int64_t*>(a.out);
  const long step = a.step();
  for (long o = 0; o < a.outer; ++o, in += a.length * step) {
    if constexpr (is_float<T>)
      if (step == 1 && a.length > 0) {
        *out++ = find(in, a.length, row<Op, T>(in, a.length));
        continue;
      }
    if constexpr (same<T, float>)
      if (a.inner >= wide_lanes<T> && a.length > 0 && a.length <= 0x7fffffff) {
        args_of_columns<Op>(in, a.length, a.inner, step, out);
        out += a.inner;
        continue;
      }
    for (long i = 0; i < a.inner; ++i) out[i] = 0;
    const T* p = in;
    for (long l = 1; l < a.length; ++l) {
      p += step;
      LAMINA_SMALL for (long i = 0; i < a.inner; ++i) {
        const T x = p[i], best = in[out[i] * step + i];
        const bool beyond = same<Op, maximum> ? x > best : x < best;
        if (beyond || (x != x && best == best)) out[i] = l;
      }
    }
    out += a.inner;
  }
}

}  // namespace folds
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
