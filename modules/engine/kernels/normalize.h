// Rows normalized to mean 0 and variance 1, or to a root mean square of 1: sums in a first and second pass over a row
// that stays in L1, then one that writes.
#pragma once
#include "fold_axis.h"
#include "transformer.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace rows {

/// a * b + c, fused where the set has it.
template <class V> LAMINA_INLINE V add_product(V a, V b, V c) {
#ifdef LAMINA_FUSED
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}
/// Sum of (p[i] - mean)^2 over up to `sum_block` elements.
template <class T> LAMINA_APART T block_of_squares(const T* p, long n, T mean) {
  using V = folds::wide_vector<T>;
  constexpr int lanes = folds::wide_lanes<T>, count = 4;
  constexpr auto added = [](auto a, auto b) __attribute__((always_inline)) { return a + b; };
  V held[count] = {};
  long i = 0;
  LAMINA_NO_UNROLL for (; i + count * lanes <= n; i += count * lanes) LAMINA_UNROLL for (int c = 0; c < count; ++c) {
    const V d = folds::load_wide(p + i + c * lanes) - mean;
    held[c] = add_product(d, d, held[c]);
  }
  LAMINA_NO_UNROLL for (; i + lanes <= n; i += lanes) {
    const V d = folds::load_wide(p + i) - mean;
    held[0] = add_product(d, d, held[0]);
  }
  if (i < n) {
    const V d = folds::load_wide(p + i, static_cast<int>(n - i), mean) - mean;
    held[1] = add_product(d, d, held[1]);
  }
  return fold::lanes<T, lanes>((held[0] + held[1]) + (held[2] + held[3]), added);
}
template <class T> LAMINA_INLINE double squares(const T* p, long n, T mean) {
  double sum = 0;
  for (long i = 0; i < n; i += folds::sum_block)
    sum += static_cast<double>(block_of_squares(p + i, n - i < folds::sum_block ? n - i : folds::sum_block, mean));
  return sum;
}

/// What is taken off and multiplied by, for one row.
template <class T> struct factors {
  T mean, scale;
};
template <class T> LAMINA_INLINE factors<T> factors_of(const normalize_args& a, const T* in) {
  const long n = a.length;
  if (n <= 0) return {T(0), static_cast<T>(1 / __builtin_sqrt(a.epsilon))};  // sums of nothing, not means of them
  const T mean = a.centered != 0 ? folds::row<folds::sum, T>(in, n) / static_cast<T>(n) : T(0);
  const double variance = squares(in, n, mean) / static_cast<double>(n);
  return {mean, static_cast<T>(1 / __builtin_sqrt(variance + a.epsilon))};
}
template <bool Weight, bool Bias, class T>
LAMINA_INLINE void write_row(const normalize_args& a, const T* in, T* out, factors<T> f) {
  const T *weight = static_cast<const T*>(a.weight), *bias = static_cast<const T*>(a.bias);
  LAMINA_INDEPENDENT for (long i = 0; i < a.length; ++i) {
    T y = (in[i] - f.mean) * f.scale;
    if constexpr (Weight && Bias) y = add_product(y, weight[i], bias[i]);
    else if constexpr (Weight) y *= weight[i];
    else if constexpr (Bias) y += bias[i];
    out[i] = y;
  }
}

/// Some rows at a time: the statistics of one do not wait for those of another.
template <class T> LAMINA_APART void normalize(const normalize_args& a) {
  constexpr long group = 8, room = 8192 / static_cast<long>(sizeof(T));
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  const long n = a.length, most = n * group <= room ? group : n < room ? room / n : 1;
  for (long r = 0; r < a.rows; r += most) {
    factors<T> f[group];
    const long count = a.rows - r < most ? a.rows - r : most;
    LAMINA_NO_UNROLL for (long i = 0; i < count; ++i) {
      f[i] = factors_of(a, in + i * n);
      if (a.mean != nullptr) static_cast<T*>(a.mean)[r + i] = f[i].mean;
      if (a.scale != nullptr) static_cast<T*>(a.scale)[r + i] = f[i].scale;
    }
    LAMINA_NO_UNROLL for (long i = 0; i < count; ++i, in += n, out += n) {
      if (a.weight != nullptr && a.bias != nullptr) write_row<true, true>(a, in, out, f[i]);
      else if (a.weight != nullptr) write_row<true, false>(a, in, out, f[i]);
      else if (a.bias != nullptr) write_row<false, true>(a, in, out, f[i]);
      else write_row<false, false>(a, in, out, f[i]);
    }
  }
}

}  // namespace rows
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
