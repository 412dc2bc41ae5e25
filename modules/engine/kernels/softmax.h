// Softmax and log-softmax along one axis, the row's maximum taken off first.
#pragma once
#include "fold_axis.h"
#include "vector_math.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace soft {

/// x[i] = e^x[i].
LAMINA_APART void exp_run(float* x, long n) {
  constexpr long lanes = width<float>;
  LAMINA_NO_UNROLL for (long i = 0; i < n; i += lanes) {
    const auto m = first<float>(static_cast<int>(n - i < lanes ? n - i : lanes));
    store(x + i, kernels::exp(load(x + i, m)), m);
  }
}
LAMINA_APART void exp_run(double* x, long n) { LAMINA_SMALL for (long i = 0; i < n; ++i) x[i] = __builtin_exp(x[i]); }
template <class T> LAMINA_INLINE T log_of(T x) { return static_cast<T>(__builtin_log(static_cast<double>(x))); }

/// One row of up to 64 bytes, in registers.
LAMINA_INLINE void short_row(const float* in, float* out, int n, bool log) {
  constexpr int lanes = width<float>, parts = folds::wide_lanes<float> / lanes;
  struct registers {
    raw<float, lanes> part[static_cast<std::size_t>(parts)];
  };
  const auto x = folds::load_wide(in, n, -infinity);
  const auto larger = [](auto a, auto b) __attribute__((always_inline)) { return folds::maximum::run(a, b); };
  const auto added = [](auto a, auto b) __attribute__((always_inline)) { return a + b; };
  const auto inside = folds::lane_numbers<std::int32_t>(fold::first_indices<folds::wide_lanes<float>>{}) < n;
  const folds::wide_vector<float> none{};
  const auto shifted = inside ? x - fold::lanes<float, folds::wide_lanes<float>>(x, larger) : none;
  auto y = __builtin_bit_cast(registers, shifted);
  LAMINA_UNROLL for (int i = 0; i < parts; ++i) {
    if (i * lanes < n) y.part[i] = to_raw<float>(kernels::exp(from_raw<float>(y.part[i])));
    else y.part[i] = raw<float, lanes>{};
  }
  const auto e = inside ? __builtin_bit_cast(folds::wide_vector<float>, y) : none;
  const float total = fold::lanes<float, folds::wide_lanes<float>>(e, added);
  y = __builtin_bit_cast(registers, log ? shifted - log_of(total) : e * (1.f / total));
  LAMINA_UNROLL for (int i = 0; i < parts; ++i) {
    if (i * lanes < n) store(out + i * lanes, from_raw<float>(y.part[i]), first<float>(n - i * lanes));
  }
}

/// One row; the exponentials go to `out` by pieces that stay in L1 for log-softmax, whole for softmax.
template <class T> LAMINA_INLINE void row(const T* in, T* out, long n, bool log) {
  if constexpr (same<T, float>)
    if (n <= folds::wide_lanes<float>) return short_row(in, out, static_cast<int>(n), log);
  constexpr long piece = 512;
  T e[piece];
  const T top = folds::row<folds::maximum, T>(in, n);
  const long most = log ? piece : n;
  T total = 0;
  for (long p = 0; p < n; p += most) {
    T* const to = log ? e : out;
    const long count = n - p < most ? n - p : most;
    LAMINA_VECTORS for (long i = 0; i < count; ++i) to[i] = in[p + i] - top;
    exp_run(to, count);
    total += folds::row<folds::sum, T>(to, count);
  }
  if (log) {
    const T shift = log_of(total);
    LAMINA_VECTORS for (long i = 0; i < n; ++i) out[i] = (in[i] - top) - shift;
  } else {
    const T scale = T(1) / total;
    LAMINA_VECTORS for (long i = 0; i < n; ++i) out[i] *= scale;
  }
}

/// `n` columns of a chunk, rows `stride` apart.
template <class T> LAMINA_INLINE void columns(const T* in, T* out, long length, long stride, long n, bool log) {
  constexpr auto chunk = static_cast<std::size_t>(folds::column_chunk<T>);
  constexpr long group = 64;  // rows added up before they join the total
  T top[chunk], total[chunk], part[chunk], e[chunk];
  folds::columns<folds::maximum, T>(in, length, stride, n, top);
  for (long j = 0; j < n; ++j) total[j] = part[j] = 0;
  for (long l = 0; l < length; ++l) {
    T* to = log ? e : out + l * stride;
    const T* from = in + l * stride;
    LAMINA_VECTORS for (long j = 0; j < n; ++j) to[j] = from[j] - top[j];
    exp_run(to, n);
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
