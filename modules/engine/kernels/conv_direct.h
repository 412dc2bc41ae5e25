// Direct convolution in the plain layout for stride 1: a tile is a few output channels by a few registers of output
// pixels, summed over the taps of a zero-padded copy of the input.  No im2col matrix is made; with few channels that
// matrix would cost as much as the product.  The gradient of the input is the same sweep over the gradient of the
// result with the kernel turned round.
#pragma once
#include "conv_blocked.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace direct {

struct element_of { using f32 = float; using f64 = double; };
namespace element_index { inline constexpr int f32 = 0, f64 = 1; }

/// One register of results: where its pixels lie and how many of its lanes are results.
struct position { long source, target; long row; long lanes; };

template <class T> struct tile_args {
  const T* source;               // padded planes
  const T* weight;               // [taps][channels of the tile]
  const long* tap;               // offset of each tap in the padded planes
  long taps;
  const position* at;            // as many as the tile has registers
  T* out;
  long out_plane;
  const T* bias;                 // null: none
  T low, high;
  bool clamp;
};

template <class T, int Channels, int Vectors> LAMINA_INLINE void tile(const tile_args<T>& q) {
  vec<T> sum[Channels][Vectors];
  LAMINA_UNROLL for (int i = 0; i < Channels; ++i)
    LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = zero<T>();
  const T* source[Vectors];
  LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) source[j] = q.source + q.at[j].source;
  const T* weight = q.weight;
  LAMINA_NO_UNROLL for (long p = 0; p < q.taps; ++p, weight += Channels) {
    const long offset = q.tap[p];
    vec<T> x[Vectors];
    LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) x[j] = load(source[j] + offset);
    LAMINA_UNROLL for (int i = 0; i < Channels; ++i) {
      const auto w = broadcast(weight + i);
      LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = fma<T>(w, x[j], sum[i][j]);
    }
  }
  const vec<T> low(q.low), high(q.high);
  LAMINA_UNROLL for (int i = 0; i < Channels; ++i) {
    const auto b = q.bias ? broadcast(q.bias + i) : zero<T>();
    LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) {
      auto y = sum[i][j] + b;
      if (q.clamp) y = clamp<T>(y, low, high);
      store<T>(q.out + i * q.out_plane + q.at[j].target, y, first<T>(static_cast<int>(q.at[j].lanes)));
    }
  }
}

}  // namespace direct
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
