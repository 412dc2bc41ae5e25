// Rows normalised to mean 0 and variance 1, or to a root mean square of 1: sums in a first and second pass over a row
// that stays in L1, then one that writes.
#pragma once
#include "fold_axis.h"
#include "transformer.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace rows {

/// Sum of (p[i] - mean)^2 over up to `sum_block` elements.
template <class T>
LAMINA_APART T block_of_squares(const T* p, long n, T mean) {
  using V = folds::wide_vector<T>;
  constexpr int lanes = folds::wide_lanes<T>, count = 4;
  constexpr auto added = [](auto a, auto b) __attribute__((always_inline)) { return a + b; };
  V held[count] = {};
  long i = 0;
  LAMINA_NO_UNROLL for (; i + count * lanes <= n; i += count * lanes) LAMINA_UNROLL for (int c = 0; c < count; ++c) {
    const V d = folds::load_wide(p + i + c * lanes) - mean;
    held[c] += d * d;
  }
  LAMINA_NO_UNROLL for (; i + lanes <= n; i += lanes) {
    const V d = folds::load_wide(p + i) - mean;
    held[0] += d * d;
  }
  if (i < n) {
    const V d = folds::load_wide(p + i, static_cast<int>(n - i), mean) - mean;
    held[1] += d * d;
  }
  return fold::lanes<T, lanes>((held[0] + held[1]) + (held[2] + held[3]), added);
}
template <class T>
LAMINA_INLINE double squares(const T* p, long n, T mean) {
  double sum = 0;
  for (long i = 0; i < n; i += folds::sum_block)
    sum += static_cast<double>(block_of_squares(p + i, n - i < folds::sum_block ? n - i : folds::sum_block, mean));
  return sum;
}

template <class T>
LAMINA_APART void normalise(const normalise_args& a) {
  const T *in = static_cast<const T*>(a.in), *weight = static_cast<const T*>(a.weight),
          *bias = static_cast<const T*>(a.bias);
  T* out = static_cast<T*>(a.out);
  const long n = a.length;
  for (long r = 0; r < a.rows; ++r, in += n, out += n) {
    const T mean = a.centred != 0 && n > 0 ? folds::row<folds::sum, T>(in, n) / static_cast<T>(n) : T(0);
    const double variance = squares(in, n, mean) / static_cast<double>(n > 0 ? n : 1);
    const T scale = static_cast<T>(1 / __builtin_sqrt(variance + a.epsilon));
    if (a.mean != nullptr) static_cast<T*>(a.mean)[r] = mean;
    if (a.scale != nullptr) static_cast<T*>(a.scale)[r] = scale;
    if (weight != nullptr && bias != nullptr)
      LAMINA_VECTORS for (long i = 0; i < n; ++i) out[i] = (in[i] - mean) * scale * weight[i] + bias[i];
    else if (weight != nullptr)
      LAMINA_VECTORS for (long i = 0; i < n; ++i) out[i] = (in[i] - mean) * scale * weight[i];
    else if (bias != nullptr)
      LAMINA_VECTORS for (long i = 0; i < n; ++i) out[i] = (in[i] - mean) * scale + bias[i];
    else
      LAMINA_VECTORS for (long i = 0; i < n; ++i) out[i] = (in[i] - mean) * scale;
  }
}

}  // namespace rows
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
