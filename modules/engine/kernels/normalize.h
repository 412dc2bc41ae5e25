// Normalizes rows to mean 0 and variance 1, or to a root mean square of 1: two passes of sums over a row that stays in
// L1, then one that writes.
#pragma once
#include "fold_axis.h"
#include "transformer.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace rows {

/// a * b + c, fused if the set supports it.
template <class V> LAMINA_INLINE V add_product(V a, V b, V c) {
#ifdef LAMINA_FUSED
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}
/// 64 bytes of partial sums of (p[i] - mean)^2 over up to `sum_block` elements.
template <class T> LAMINA_INLINE folds::wide_vector<T> lanes_of_squares(const T* p, long n, T mean) {
  return folds::lanes_of_block<folds::sum, T, 4>(p, n, mean, [mean](auto sum, auto x) __attribute__((always_inline)) {
    const auto d = x - mean;
    return add_product(d, d, sum);
  });
}
template <class T> LAMINA_APART T block_of_squares(const T* p, long n, T mean) {
  return fold::lanes<T, folds::wide_lanes<T>>(lanes_of_squares(p, n, mean), folds::combine<folds::sum>{});
}
template <class T> LAMINA_INLINE double squares(const T* p, long n, T mean) {
  double sum = 0;
  for (long i = 0; i < n; i += sum_block)
    sum += static_cast<double>(block_of_squares(p + i, n - i < sum_block ? n - i : sum_block, mean));
  return sum;
}

/// Mean and scale of each row of a group.
template <class T> struct factors {
  T mean[folds::row_group], scale[folds::row_group];
};
/// Means of one row, or of several of up to `sum_block` elements.
template <class T> LAMINA_INLINE void find_means(const normalize_args& a, const T* in, long rows, factors<T>& f) {
  const long n = a.length;
  raw<T, folds::row_group> mean{};
  if (a.centered != 0 && n > 0) {
    if (rows == 1) {
      f.mean[0] = folds::row<folds::sum, T>(in, n) / static_cast<T>(n);
      return;
    }
    mean = folds::results_of_rows<folds::sum, T>(rows,
                                                 [=](long i) __attribute__((always_inline)) {
                                                   return folds::lanes_of_block<folds::sum, T>(in + i * n, n);
                                                 }) /
           static_cast<T>(n);
  }
  __builtin_memcpy(f.mean, &mean, sizeof mean);
}
template <class T> LAMINA_INLINE void find_scales(const normalize_args& a, const T* in, long rows, factors<T>& f) {
  const long n = a.length;
  if (rows == 1) {
    const double variance = n > 0 ? squares(in, n, f.mean[0]) / static_cast<double>(n) : 0;
    f.scale[0] = static_cast<T>(1 / __builtin_sqrt(variance + a.epsilon));
    return;
  }
  const auto squared = folds::results_of_rows<folds::sum, T>(
      rows, [&](long i) __attribute__((always_inline)) { return lanes_of_squares(in + i * n, n, f.mean[i]); });
  const auto variance = __builtin_convertvector(squared, raw<double, folds::row_group>) / static_cast<double>(n);
  const auto scale = 1 / __builtin_elementwise_sqrt(variance + a.epsilon);
  const auto rounded = __builtin_convertvector(scale, raw<T, folds::row_group>);
  __builtin_memcpy(f.scale, &rounded, sizeof rounded);
}

template <bool Weight, bool Bias, class T>
LAMINA_APART void write_row(const normalize_args& a, const T* in, T* out, T mean, T scale) {
  const T *weight = static_cast<const T*>(a.weight), *bias = static_cast<const T*>(a.bias);
  folds::write_row(out, a.length, [=](auto at) __attribute__((always_inline)) {
    const auto y = (at(in) - mean) * scale;
    if constexpr (Weight && Bias) return add_product(y, at(weight), at(bias));
    else if constexpr (Weight) return y * at(weight);
    else if constexpr (Bias) return y + at(bias);
    else return y;
  });
}

/// Processes groups of rows.  Hides the latency of divisions and roots behind passes over other rows: computes means,
/// writes the previous group, sums squares.
template <class T> LAMINA_APART void normalize(const normalize_args& a) {
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  const long n = a.length, max = folds::rows_together<T>(n);
  const auto write = a.weight != nullptr
                         ? (a.bias != nullptr ? &write_row<true, true, T> : &write_row<true, false, T>)
                         : (a.bias != nullptr ? &write_row<false, true, T> : &write_row<false, false, T>);
  factors<T> known[2];
  for (long r = 0, before = 0, current = 0; r < a.rows || before > 0; current = 1 - current) {
    const long left = a.rows - r, count = left < max ? left : max;
    factors<T>& f = known[current];
    if (count > 0) find_means(a, in + r * n, count, f);
    LAMINA_NO_UNROLL for (long i = 0, at = r - before; at < r; ++i, ++at) {
      const T mean = known[1 - current].mean[i], scale = known[1 - current].scale[i];
      if (a.mean != nullptr) static_cast<T*>(a.mean)[at] = mean;
      if (a.scale != nullptr) static_cast<T*>(a.scale)[at] = scale;
      write(a, in + at * n, out + at * n, mean, scale);
    }
    if (count > 0) find_scales(a, in + r * n, count, f);
    before = count;
    r += count;
  }
}

}  // namespace rows
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
