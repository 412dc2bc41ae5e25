// Softmax and log-softmax along one axis, the row's maximum taken off first.
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
  LAMINA_UNROLL for (int i = 0; i < folds::wide_lanes<double>; ++i) x[i] = __builtin_exp(x[i]);
  return x;
}
template <class T> LAMINA_INLINE T log_of(T x) { return static_cast<T>(__builtin_log(static_cast<double>(x))); }

/// Sum of e^(in[i] - top) over up to `sum_block` elements, in the order of `folds::block_of_row` of floats; with `Keep` the
/// exponentials go to `out`.
template <bool Keep, class T> LAMINA_APART T block_of_exponentials(const T* in, T* out, long n, T top) {
  using V = folds::wide_vector<T>;
  constexpr int lanes = folds::wide_lanes<T>, count = 4;
  constexpr auto added = [](auto a, auto b) __attribute__((always_inline)) { return a + b; };
  V held[count] = {};
  const auto step = [&](long at, V& sum) __attribute__((always_inline)) {
    const V e = exp_wide(folds::load_wide(in + at) - top);
    if constexpr (Keep) folds::store_wide(out + at, e);
    sum += e;
  };
  long i = 0;
  LAMINA_NO_UNROLL for (; i + count * lanes <= n; i += count * lanes) LAMINA_UNROLL for (int c = 0; c < count; ++c)
      step(i + c * lanes, held[c]);
  LAMINA_NO_UNROLL for (; i + lanes <= n; i += lanes) step(i, held[0]);
  if (i < n) {
    const int left = static_cast<int>(n - i);
    const V e = exp_wide(folds::load_wide(in + i, left, -std::numeric_limits<T>::infinity()) - top);
    if constexpr (Keep) folds::store_wide(out + i, e, left);
    held[1] += e;
  }
  return fold::lanes<T, lanes>((held[0] + held[1]) + (held[2] + held[3]), added);
}
/// The same of a row.
template <bool Keep, class T> LAMINA_INLINE T exponentials(const T* in, T* out, long n, T top) {
  return folds::blocks_of_row<folds::sum, T>(n, [=](long at, long count) __attribute__((always_inline)) {
    return block_of_exponentials<Keep>(in + at, out + at, count, top);
  });
}

/// One row.
template <class T> LAMINA_INLINE void row(const T* in, T* out, long n, bool log) {
  const T top = folds::row<folds::largest_number, T>(in, n);
  if (log) {
    const T shift = log_of(exponentials<false>(in, out, n, top));
    folds::write_row(out, n, [=](auto at) __attribute__((always_inline)) { return (at(in) - top) - shift; });
  } else {
    const T scale = T(1) / exponentials<true>(in, out, n, top);
    folds::write_row(out, n, [=](auto at) __attribute__((always_inline)) { return at(out) * scale; });
  }
}

/// `n` columns of a chunk, rows `stride` apart.
template <class T> LAMINA_INLINE void columns(const T* in, T* out, long length, long stride, long n, bool log) {
  constexpr auto chunk = static_cast<std::size_t>(folds::column_chunk<T>);
  constexpr long group = 64;  // rows added up before they join the total
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
  const long plane = a.length * a.inner;
  if (a.length <= 0) return;
  for (long o = 0; o < a.outer; ++o, in += plane, out += plane) {
    if (a.inner == 1) {
      row(in, out, a.length, log);
      continue;
    }
    for (long c = 0; c < a.inner; c += folds::column_chunk<T>)
      columns(in + c, out + c, a.length, a.inner,
              a.inner - c < folds::column_chunk<T> ? a.inner - c : folds::column_chunk<T>, log);
  }
}

}  // namespace soft
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
