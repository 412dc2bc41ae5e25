// Softmax and log-softmax along one axis, after subtracting the maximum.
#pragma once
#include "fold_axis.h"
#include "vector_math.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace soft {

/// e^x for x <= 0 or NaN.
LAMINA_INLINE folds::wide_vector<float> exp_wide(folds::wide_vector<float> x) {
  constexpr int parts = folds::wide_lanes<float> / width<float>;
  struct registers {
    raw<float, width<float>> part[static_cast<std::size_t>(parts)];
  };
  auto y = __builtin_bit_cast(registers, x);
  LAMINA_UNROLL for (int i = 0; i < parts; ++i) y.part[i] = to_raw<float>(exp_nonpositive(from_raw<float>(y.part[i])));
  return __builtin_bit_cast(folds::wide_vector<float>, y);
}
LAMINA_INLINE folds::wide_vector<double> exp_wide(folds::wide_vector<double> x) {
  double e[folds::wide_lanes<double>];
  __builtin_memcpy(e, &x, sizeof e);
  LAMINA_NO_UNROLL for (double& number : e) number = __builtin_exp(number);
  __builtin_memcpy(&x, e, sizeof e);
  return x;
}
template <class T> LAMINA_INLINE T log_of(T x) { return static_cast<T>(__builtin_log(static_cast<double>(x))); }

/// Sum of e^(in[i] - top) over up to `sum_block` elements, as 64 bytes of partial sums, in the order of float sums.
/// With `Keep`, writes the exponentials to `out`, and the last, partial 64 bytes padded with zeros to `tail`: they are
/// read again soon, which a partial store would delay.
template <bool Keep, class T>
LAMINA_INLINE folds::wide_vector<T> lanes_of_exponentials(const T* in, T* out, T* tail, long n, T top) {
  using V = folds::wide_vector<T>;
  constexpr int lanes = folds::wide_lanes<T>, count = 4;
  V held[count] = {};
  const auto step = [&](long at, V& sum) __attribute__((always_inline)) {
    const V e = exp_wide(folds::load_wide(in + at) - top);
    if constexpr (Keep) folds::store_wide(out + at, e);
    sum += e;
  };
  long i = 0;
  if constexpr (lanes == width<T>) {
    LAMINA_NO_UNROLL for (; i + count * lanes <= n; i += count * lanes) LAMINA_UNROLL for (int c = 0; c < count; ++c)
        step(i + c * lanes, held[c]);
    LAMINA_NO_UNROLL for (; i + lanes <= n; i += lanes) step(i, held[0]);
  } else {  // several registers per vector hide the latency of an exponential: one copy of the code suffices
    const long together = n / (count * lanes) * (count * lanes);
    LAMINA_NO_UNROLL for (; i + lanes <= n; i += lanes) step(i, held[i < together ? i / lanes % count : 0]);
  }
  if (i < n) {
    const int left = static_cast<int>(n - i);
    // pads with e^0: an exponential that underflows is slow
    const V e = folds::first_lanes<T>(exp_wide(folds::load_wide(in + i, left, top) - top), left);
    if constexpr (Keep) folds::store_wide(tail, e);
    held[1] += e;
  }
  return (held[0] + held[1]) + (held[2] + held[3]);
}
/// The sum of the exponentials of a row.
template <bool Keep, class T> LAMINA_APART T exponentials(const T* in, T* out, T* tail, long n, T top) {
  return folds::blocks_of_row<folds::sum, T>(n, [=](long at, long count) __attribute__((always_inline)) {
    return fold::lanes<T, folds::wide_lanes<T>>(lanes_of_exponentials<Keep>(in + at, out + at, tail, count, top),
                                                folds::combine<folds::sum>{});
  });
}

/// Rows `stride` elements apart, with n[i] elements each; `max` is the largest n[i].
template <class T> struct row_block {
  const T* in;
  T* out;  // may be `in`
  long stride, rows, max;
  const long* n;
  T (*tails)[folds::wide_lanes<T>];  // one per row; null: rows of `out` are padded to whole 64 bytes
  LAMINA_INLINE T* tail(long i) const {
    return tails != nullptr ? tails[i] : out + i * stride + n[i] / folds::wide_lanes<T> * folds::wide_lanes<T>;
  }
  LAMINA_INLINE bool together() const { return rows > 1 && max <= sum_block; }
};
/// Maximum of each row; -infinity of an empty row.
template <class T> LAMINA_APART void tops_of_rows(const row_block<T>& b, T (&top)[folds::row_group]) {
  using op = folds::largest_number;
  if (b.together()) {
    const auto tops = folds::results_of_rows<op, T>(b.rows, [&](long i) __attribute__((always_inline)) {
      return folds::lanes_of_block<op, T>(b.in + i * b.stride, b.n[i]);
    });
    __builtin_memcpy(top, &tops, sizeof tops);
  } else {
    LAMINA_NO_UNROLL for (long i = 0; i < b.rows; ++i) top[i] = folds::row<op, T>(b.in + i * b.stride, b.n[i]);
  }
}
/// Writes e^(x - top) for each row; `scale` is the factor that makes the sum of the row 1.
template <class T>
LAMINA_APART void weigh_rows(const row_block<T>& b, const T (&top)[folds::row_group], T (&scale)[folds::row_group]) {
  if (b.together()) {
    const auto scales =
        T(1) / folds::results_of_rows<folds::sum, T>(b.rows, [&](long i) __attribute__((always_inline)) {
          return lanes_of_exponentials<true>(b.in + i * b.stride, b.out + i * b.stride, b.tail(i), b.n[i], top[i]);
        });
    __builtin_memcpy(scale, &scales, sizeof scales);
  } else {
    LAMINA_NO_UNROLL for (long i = 0; i < b.rows; ++i) scale[i] =
        T(1) / exponentials<true>(b.in + i * b.stride, b.out + i * b.stride, b.tail(i), b.n[i], top[i]);
  }
}

template <class T> LAMINA_INLINE void log_row(const T* in, T* out, long n) {
  const T top = folds::row<folds::largest_number, T>(in, n);
  const T shift = log_of(exponentials<false, T>(in, nullptr, nullptr, n, top));
  folds::write_row(out, n, [=](auto at) __attribute__((always_inline)) { return (at(in) - top) - shift; });
}
template <class T> LAMINA_INLINE void scale_row(T* row, long n, T scale) {
  folds::write_row(row, n, [=](auto at) __attribute__((always_inline)) { return at(row) * scale; });
}
/// Softmax of `count` contiguous rows of `n` elements.
template <class T> LAMINA_INLINE void rows(const T* in, T* out, long count, long n) {
  const long max = folds::rows_together<T>(n);
  long lengths[folds::row_group];
  for (long& length : lengths) length = n;
  for (long r = 0; r < count; r += max) {
    constexpr long lanes = folds::wide_lanes<T>;
    alignas(64) T tails[folds::row_group][lanes];
    const row_block<T> b{in + r * n, out + r * n, n, count - r < max ? count - r : max, n, lengths, tails};
    T top[folds::row_group], scale[folds::row_group];
    tops_of_rows(b, top);
    weigh_rows(b, top, scale);
    LAMINA_NO_UNROLL for (long i = 0; i < b.rows; ++i) {
      T* const row = b.out + i * n;
      scale_row(row, n / lanes * lanes, scale[i]);
      if (n % lanes != 0)
        folds::store_wide(row + n / lanes * lanes, folds::load_wide(tails[i]) * scale[i], static_cast<int>(n % lanes));
    }
  }
}

/// Softmax along `length` rows, `stride` elements apart, of `n` columns (at most a chunk).
template <class T> LAMINA_INLINE void columns(const T* in, T* out, long length, long stride, long n, bool log) {
  constexpr auto chunk = static_cast<std::size_t>(folds::column_chunk<T>);
  constexpr long group = 64;  // rows summed before they are added to the total
  T top[chunk], total[chunk], part[chunk], e[chunk];
  folds::columns<folds::largest_number, T>(in, length, stride, n, top);
  for (long j = 0; j < n; ++j) total[j] = part[j] = 0;
  for (long l = 0; l < length; ++l) {
    T* to = log ? e : out + l * stride;
    const T* from = in + l * stride;
    for (long j = 0; j < n; j += folds::wide_lanes<T>) {
      const int here = static_cast<int>(n - j < folds::wide_lanes<T> ? n - j : folds::wide_lanes<T>);
      const auto x = folds::load_wide(from + j, here, T(0)) - folds::load_wide(top + j, here, T(0));
      folds::store_wide(to + j, exp_wide(x), here);
    }
    LAMINA_VECTORS for (long j = 0; j < n; ++j) part[j] += to[j];
    if (l % group == group - 1 || l == length - 1)
      LAMINA_SMALL for (long j = 0; j < n; ++j) total[j] += part[j], part[j] = 0;
  }
  LAMINA_SMALL for (long j = 0; j < n; ++j) total[j] = log ? log_of(total[j]) : T(1) / total[j];
  for (long l = 0; l < length; ++l) {
    const T* from = in + l * stride;
    T* to = out + l * stride;
    if (log) LAMINA_VECTORS for (long j = 0; j < n; ++j) to[j] = (from[j] - top[j]) - total[j];
    else LAMINA_VECTORS for (long j = 0; j < n; ++j) to[j] *= total[j];
  }
}

template <class T> LAMINA_APART void run(const softmax_args& a, bool log) {
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  const long step = a.step(), plane = a.length * step;
  if (a.length <= 0) return;
  if (step == 1 && !log) return rows(in, out, a.outer, a.length);
  for (long o = 0; o < a.outer; ++o, in += plane, out += plane) {
    if (step == 1) {
      log_row(in, out, a.length);
      continue;
    }
    for (long c = 0; c < a.inner; c += folds::column_chunk<T>)
      columns(in + c, out + c, a.length, step,
              a.inner - c < folds::column_chunk<T> ? a.inner - c : folds::column_chunk<T>, log);
  }
}

}  // namespace soft
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
