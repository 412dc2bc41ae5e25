// Depthwise convolution over channel-blocked buffers: 3x3 with weights in registers, and windows of any size.
#pragma once
#include "conv_blocked.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace blocked {

/// One channel block of a depthwise convolution: 3x3 with one column of padding, or `any_window`.
struct depthwise_args {
  const float* in;
  const float* weight;    // [taps][block]
  const float* bias;      // null: none
  const float* residual;  // null: none
  float* out;
  float* scratch;  // 3x3: a row of zeros, as wide as the map; any window: padded input of `row_group` output rows
  long height, width, out_height, out_width, stride_h, pad_h;
  const window* any_window;
  long row_group, copy_width;
  float low, high;
  bool clamp;
};

/// Adds the residual, bounds and stores neighboring results.
template <int Pixels> LAMINA_INLINE void finish_pixels(const depthwise_args& q, vec<float> (&sum)[Pixels], long at) {
  if (q.residual) { LAMINA_UNROLL for (int i = 0; i < Pixels; ++i) sum[i] += load(q.residual + (at + i) * block); }
  if (q.clamp) {
    const vec<float> low(q.low), high(q.high);
    LAMINA_UNROLL for (int i = 0; i < Pixels; ++i) sum[i] = clamp<float>(sum[i], low, high);
  }
  LAMINA_UNROLL for (int i = 0; i < Pixels; ++i) store<float>(q.out + (at + i) * block, sum[i]);
}

/// `Pixels` results from input column `x` of three rows; taps [first, last) are inside the map.
template <int Stride, int Pixels>
LAMINA_INLINE void depthwise_pixels(const depthwise_args& q, const float* const (&row)[3], const vec<float> (&w)[9],
                                    vec<float> bias, long x, int first, int last, long at) {
  vec<float> sum[Pixels];
  LAMINA_UNROLL for (int i = 0; i < Pixels; ++i) sum[i] = bias;
  LAMINA_UNROLL for (int y = 0; y < 3; ++y) {
    LAMINA_UNROLL for (int t = 0; t < (Pixels - 1) * Stride + 3; ++t) {
      if (Pixels == 1 && (t < first || t >= last)) continue;
      const auto v = load(row[y] + (x + t) * block);
      LAMINA_UNROLL for (int i = 0; i < Pixels; ++i) {
        if (t - i * Stride >= 0 && t - i * Stride < 3) sum[i] = fma<float>(v, w[y * 3 + t - i * Stride], sum[i]);
      }
    }
  }
  finish_pixels(q, sum, at);
}

template <int Stride> LAMINA_INLINE void depthwise(const depthwise_args& q) {
  constexpr int pixels = width<float> == 16 ? 8 : width<float> == 8 ? 4 : 2;
  vec<float> w[9];
  LAMINA_UNROLL for (int i = 0; i < 9; ++i) w[i] = load(q.weight + i * block);
  const auto bias = q.bias ? load(q.bias) : zero<float>();
  for (long y = 0; y < q.out_height; ++y) {
    const float* row[3];
    for (int i = 0; i < 3; ++i) {
      const long from = y * q.stride_h - q.pad_h + i;
      row[i] = from >= 0 && from < q.height ? q.in + from * q.width * block : q.scratch;
    }
    const long at = y * q.out_width;
    // The first output column misses its first tap; the last may miss its last tap.
    depthwise_pixels<Stride, 1>(q, row, w, bias, -1, 1, q.width > 1 ? 3 : 2, at);
    const long end = (q.out_width - 1) * Stride + 2 > q.width ? q.out_width - 1 : q.out_width;
    long x = 1;
    for (; x + pixels <= end; x += pixels)
      depthwise_pixels<Stride, pixels>(q, row, w, bias, x * Stride - 1, 0, 3, at + x);
    for (; x < end; ++x) depthwise_pixels<Stride, 1>(q, row, w, bias, x * Stride - 1, 0, 3, at + x);
    if (x < q.out_width) depthwise_pixels<Stride, 1>(q, row, w, bias, x * Stride - 1, 0, 2, at + x);
  }
}

/// Maximum number of neighboring results that `window_pixels` computes together.
inline constexpr int any_pixels = 8;

/// Adds `rows` rows to the results of windows `Width` wide, side by side: each pixel is read once, and the weights of a
/// row are in registers.
template <int Width, int Pixels>
LAMINA_INLINE void slide_rows(const float* in, const float* weight, long rows, long row, vec<float> (&sum)[Pixels]) {
  LAMINA_NO_UNROLL for (long y = 0; y < rows; ++y, in += row, weight += Width * block) {
    vec<float> w[Width];
    LAMINA_UNROLL for (int x = 0; x < Width; ++x) w[x] = load(weight + x * block);
    LAMINA_UNROLL for (int t = 0; t < Pixels + Width - 1; ++t) {
      const auto v = load(in + t * block);
      LAMINA_UNROLL for (int i = 0; i < Pixels; ++i) {
        if (t - i >= 0 && t - i < Width) sum[i] = fma<float>(v, w[t - i], sum[i]);
      }
    }
  }
}

/// `Pixels` results of a row for any window; `in` is the first tap of the first result in the padded copy.
template <int Pixels> LAMINA_INLINE void window_pixels(const depthwise_args& q, const float* in, const float* weight,
                                                       long rows, vec<float> bias, long at) {
  const window& w = *q.any_window;
  const long pixel = w.stride_w * block, tap = w.dilation_w * block, row = w.dilation_h * q.copy_width * block;
  vec<float> sum[Pixels];
  LAMINA_UNROLL for (int i = 0; i < Pixels; ++i) sum[i] = bias;
  const bool adjacent = Pixels >= 4 && pixel == block && tap == block;
  if (adjacent && w.kernel_w == 5) slide_rows<5>(in, weight, rows, row, sum);
  else if (adjacent && w.kernel_w == 7) slide_rows<7>(in, weight, rows, row, sum);
  else
    for (long y = 0; y < rows; ++y, in += row) {
      const float* from = in;
      LAMINA_NO_UNROLL for (long x = 0; x < w.kernel_w; ++x, from += tap, weight += block) {
        const auto v = load(weight);
        LAMINA_UNROLL for (int i = 0; i < Pixels; ++i) sum[i] = fma<float>(load(from + i * pixel), v, sum[i]);
      }
    }
  finish_pixels(q, sum, at);
}

/// Skips kernel rows above and below the map, which meet only padding.
LAMINA_INLINE void depthwise_any(const depthwise_args& q) {
  const window& w = *q.any_window;
  const auto bias = q.bias ? load(q.bias) : zero<float>();
  const long tiles = divide_up(w.out_width, any_pixels), base = w.out_width / tiles, longer = w.out_width % tiles;
  for (long group = 0; group < w.out_height; group += q.row_group) {
    const long end = smaller(group + q.row_group, w.out_height);
    const row_range held = input_rows(w, group, end - group);
    copy_rows<unconverted<float>>(q.in + held.first * w.width * block, 1, 0, larger(0, held.last - held.first),
                                  w.width * block, q.scratch, q.copy_width, w.pad_w, w.width, block);
    for (long y = group; y < end; ++y) {
      const kernel_rows inside(w, y);
      const float* in = q.scratch + (inside.at - held.first) * q.copy_width * block;
      const float* weight = q.weight + inside.first * w.kernel_w * block;
      for (long t = 0, x = 0; t < tiles; ++t) {
        const long size = base + (t < longer), at = y * w.out_width + x;
        const auto sum = [&]<int... Pixels>(fold::indices<Pixels...>) __attribute__((always_inline)) {
          (void)((size == Pixels + 1 && (window_pixels<Pixels + 1>(q, in + x * w.stride_w * block, weight,
                                                                   inside.last - inside.first, bias, at),
                                         true)) ||
                 ...);
        };
        sum(fold::first_indices<any_pixels>{});
        x += size;
      }
    }
  }
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
