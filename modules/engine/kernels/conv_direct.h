// Direct convolution in the plain layout for stride 1: a tile is a few output channels by a few registers of output
// pixels, summed over the taps of a zero-padded copy of the input.  There is no im2col matrix, which with few channels
// would cost as much as the product.  The input gradient is the same sweep over the result gradient with the kernel
// rotated by 180 degrees.
#pragma once
#include "conv_blocked.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace direct {

/// One register of results: offsets of its pixels in source and target, first source row, number of valid lanes.
struct position {
  long source, target;
  long row;
  long lanes;
};

template <class T> struct tile_args {
  const T* source;  // padded planes
  const T* weight;  // [taps][channels of the tile]
  const long* tap;  // offset of each tap in the padded planes
  long taps;
  const position* at;  // one per register of the tile
  T* out;
  long out_plane;
  const T* bias;  // null: none
  T low, high;
  bool clamp;
};

template <class T, int Channels, int Vectors> LAMINA_INLINE void tile(const tile_args<T>& q) {
  vec<T> sum[Channels][Vectors];
  LAMINA_UNROLL for (int i = 0; i < Channels; ++i) LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] =
      zero<T>();
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
  // Neutral values cost less than branches around bias and clamp.
  const bool clamps = q.clamp;
  const vec<T> low(clamps ? q.low : -static_cast<T>(__builtin_inf())),
      high(clamps ? q.high : static_cast<T>(__builtin_inf()));
  const T* const bias = q.bias;
  const long out_plane = q.out_plane;
  vec<T> b[Channels];
  LAMINA_UNROLL for (int i = 0; i < Channels; ++i) b[i] = bias ? broadcast(bias + i) : zero<T>();
  LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) {
    const auto lanes = first<T>(static_cast<int>(q.at[j].lanes));
    T* out = q.out + q.at[j].target;
    LAMINA_UNROLL for (int i = 0; i < Channels; ++i, out += out_plane)
        store<T>(out, clamp<T>(sum[i][j] + b[i], low, high), lanes);
  }
}

/// Largest tile of a correlation: output channels x taps, each a register of partial sums.
#if LAMINA_REGISTERS == 32
inline constexpr long max_outs = 4, max_taps = 6;
#else
inline constexpr long max_outs = 3, max_taps = 4;
#endif

/// Sums over images and pixels of gradient[o][pixel] * source[pixel + tap].
template <class T> struct correlation_args {
  const T* source;  // padded planes of the current images
  const T* gradient;
  long source_image, gradient_image, gradient_plane;
  const long* tap;
  const position* at;
  long images, positions;
  T* out;  // [output channels][taps], accumulated
  long out_row;
};

template <class T, int Outs, int Taps> LAMINA_INLINE void correlation(const correlation_args<T>& q) {
  vec<T> sum[Outs][Taps];
  LAMINA_UNROLL for (int i = 0; i < Outs; ++i) LAMINA_UNROLL for (int j = 0; j < Taps; ++j) sum[i][j] = zero<T>();
  long tap[Taps];
  LAMINA_UNROLL for (int j = 0; j < Taps; ++j) tap[j] = q.tap[j];
  const T* source = q.source;
  const T* gradient = q.gradient;
  for (long n = 0; n < q.images; ++n, source += q.source_image, gradient += q.gradient_image) {
    LAMINA_NO_UNROLL for (long p = 0; p < q.positions; ++p) {
      const position at = q.at[p];
      const auto m = first<T>(static_cast<int>(at.lanes));
      const T* from = source + at.source;
      vec<T> g[Outs];
      LAMINA_UNROLL for (int i = 0; i < Outs; ++i) g[i] = load(gradient + at.target + i * q.gradient_plane, m);
      LAMINA_UNROLL for (int j = 0; j < Taps; ++j) {
        const auto x = load(from + tap[j], m);
        LAMINA_UNROLL for (int i = 0; i < Outs; ++i) sum[i][j] = fma<T>(g[i], x, sum[i][j]);
      }
    }
  }
  // once for all images: goes through memory, to keep the code small
  alignas(64) T lanes[Outs * Taps][static_cast<std::size_t>(width<T>)];
  LAMINA_UNROLL for (int i = 0; i < Outs; ++i) LAMINA_UNROLL for (int j = 0; j < Taps; ++j)
      store<T>(lanes[i * Taps + j], sum[i][j]);
  LAMINA_NO_UNROLL for (int i = 0; i < Outs; ++i) LAMINA_NO_UNROLL for (int j = 0; j < Taps; ++j)
      q.out[i * q.out_row + j] += reduce_add<T>(load(lanes[i * Taps + j]));
}

}  // namespace direct
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
