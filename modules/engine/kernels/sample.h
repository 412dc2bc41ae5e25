// Elements at tabulated positions of one axis: weighted sums (resampling), their gradients, and maxima (pooling).
#pragma once
#include "kernels.h"

namespace lamina::kernels {

/// A position outside 0..length-1 means no element: it contributes nothing to sums and maxima.  Tables are
/// [tables, points, taps]; each applies to `rows` of the [outer, length, inner] slices, outer = tables * rows.

/// out[o, p, :] = sum over k of weight[o / rows, p, k] * in[o, at[o / rows, p, k], :], for the `count` pairs
/// o * points + p from `first` on.
struct resample_args {
  const void* in;
  const std::int64_t* at;
  const void* weight;
  void* out;  // of pair `first`
  long first, count, rows, length, points, taps, inner;
};
/// out[o, at[o / rows, p, k], :] += weight[o / rows, p, k] * in[o, p, :] in ascending p and k, from zeros, for `count`
/// slices o from `first` on.
struct resample_grad_args {
  const void* in;  // [outer, points, inner]
  const std::int64_t* at;
  const void* weight;
  void* out;  // of slice `first`
  long first, count, rows, length, points, taps, inner;
};
/// out[b, p, k] = sum over the rows o of table b and over i of grad[o, p, i] * in[o, at[b, p, k], i], added in double, for
/// the `count` pairs b * points + p from `first` on.
struct resample_weight_grad_args {
  const void* grad;
  const void* in;
  const std::int64_t* at;
  void* out;  // of pair `first`
  long first, count, rows, length, points, taps, inner;
};
/// out[o, p, :] = the maximum of in[o, at[p, k], :] over k, index[o, p, :] its position: the first k of equal elements,
/// the first NaN if there is one.  Without any element: the lowest number and position 0.  Pairs as above.
struct max_windows_args {
  const void* in;
  const std::int64_t* at;
  void* out;            // of pair `first`
  std::int64_t* index;  // of pair `first`; null: none
  long first, count, length, points, taps, inner;
};

struct sample_functions {
  kernel resample[2], resample_grad[2], resample_weight_grad[2];  // [f32, f64]
  kernel max_windows[element_count];                              // null for types without an order
};
LAMINA_FAMILY(sample_functions, sample);

}  // namespace lamina::kernels
