// Depthwise int8 convolutions. Sums of so few products are exact in float32, where a tap is one multiplication for a
// register of pixels of any width; a band of rows is converted with its padding, minus the zero point.
#pragma once
#include "quantized_result.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

/// Rows and columns are grouped by their remainders modulo the strides, so that the results of all rows form one line
/// of pixels: row y, column x is at y * pitch + x. With stride 1, neighboring rows share the padding between them.
struct line_layout {
  static constexpr long band_bytes = 24 * 1024, slack = 5 * 16;
  static constexpr int together = this_isa == isa::sse2 ? 2 : 4;  // registers of 16 pixels that are summed together
  long span, more, pitch;       // rows that a result reads; padding columns on the right; results per row of the line
  long remainders, band, rows;  // remainders of rows; output rows at a time, and rows of each remainder that they read

  line_layout(const window& w, long bytes_of_pixel)
      : span((w.kernel_h - 1) * w.dilation_h + 1),
        more(w.pad_w + w.more_w),
        pitch(w.stride_w == 1 ? w.width + (w.pad_w > more ? w.pad_w : more)
                              : parts_of(w.width + w.pad_w + more, w.stride_w)) {
    if (pitch < w.out_width) pitch = w.out_width;
    remainders = w.stride_h < span ? w.stride_h : span;
    const long of_span = parts_of(span, w.stride_h);
    band = band_bytes / (remainders * pitch * w.stride_w * bytes_of_pixel) - of_span + 1;
    band = band < 1 ? 1 : band > w.out_height ? w.out_height : band;
    rows = band - 1 + of_span;
  }
  std::size_t line_bytes() const { return whole_lines((band * pitch + slack) * 4); }
};

/// Calls tile<V>(first pixel) for tiles of V registers along the line of results of `count` rows.
template <class Tile> LAMINA_INLINE void tiles_of_line(const line_layout& has, const window& w, long count, Tile tile) {
  constexpr int max = line_layout::together;
  const long pixels = (count - 1) * has.pitch + w.out_width;
  long p = 0;
  for (; p + 16 * (max - 1) < pixels; p += 16 * max) tile.template operator()<max>(p);
  if constexpr (max > 2)
    if (p + 16 < pixels) tile.template operator()<2>(p), p += 32;
  if (p < pixels) tile.template operator()<1>(p);
}

/// For each band of rows of each channel, calls cut(channel, first row, rows, whether there are several bands), then
/// for each filter of the channel filter(filter, rows, results, number of results that belong to this part).
template <class Number, class Cut, class Filter>
LAMINA_INLINE void each_band(const quantized_conv_args& a, const line_layout& has, Cut cut, Filter filter) {
  const window& w = a.w;
  const long plane = w.height * w.width, results = w.out_height * w.out_width, filters = w.out_channels / w.groups;
  const long end = a.first_row + a.rows;
  for (long n = a.first; n < a.first + a.count; ++n)
    for (long c = 0; c < w.channels; ++c)
      for (long first = a.first_row; first < end; first += has.band) {
        const long count = end - first < has.band ? end - first : has.band;
        cut(a.in + (n * w.channels + c) * plane, first, count, a.rows > has.band);
        for (long o = c * filters; o < (c + 1) * filters; ++o)
          filter(o, count, static_cast<Number*>(a.out) + (n * w.out_channels + o) * results + first * w.out_width,
                 (end - first) * w.out_width);
      }
}

struct depthwise_layout : line_layout {
  long segment;  // floats per remainder of columns
  std::size_t at, line, bytes;

  explicit depthwise_layout(const window& w) : line_layout(w, 4), segment(remainders * rows * pitch) {
    at = whole_lines((segment * w.stride_w + w.pad_w + slack) * 4);
    line = at + whole_lines(w.kernel_h * w.kernel_w * 8);
    bytes = line + line_bytes();
  }
  /// Whether a convolution is depthwise with exact sums. Many filters per channel are faster with the general kernel.
  static bool fits(const window& w) {
    return w.groups == w.channels && w.out_channels <= 2 * w.channels && w.kernel_h * w.kernel_w <= 512 &&
           w.stride_w <= 4 && w.width <= 4096;
  }
  /// Number of taps of a filter.
  static long packed(const window& w) { return w.kernel_h * w.kernel_w; }
};

template <class Result> struct depthwise_run {
  using number = typename Result::number;
  using floats = float __attribute__((ext_vector_type(16)));
  using ints = std::int32_t __attribute__((ext_vector_type(16)));
  window w;
  depthwise_layout has;
  float* image;
  const long* at;
  number* line;
  const std::int8_t* end;  // of the images
  std::int32_t zero;
  Result finished;

  /// Converts a row of one remainder: `count` columns, Stride apart, then zeros up to a whole register.
  template <int Stride> LAMINA_INLINE void convert_row(const std::int8_t* from, float* to, long count) const {
    constexpr ints lane{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const floats zero_point(static_cast<float>(zero));
    for (long x = 0; x < count; x += 16) {
      const floats v = __builtin_convertvector(bytes_inside<Stride>(from + x * Stride, end), floats) - zero_point;
      const ints inside = lane < ints(static_cast<std::int32_t>(count - x));
      write(to + x, __builtin_bit_cast(ints, v) & inside);
    }
  }
  /// Converts the rows of a map that output rows [first, first + count) read. Padding on the left and right stays 0.
  /// A row may write past its end into the next one, which is written later.
  LAMINA_INLINE void convert(const std::int8_t* in, long first, long count, bool bands) const {
    const long top = first * w.stride_h - w.pad_h, used = (count - 1) * w.stride_h + has.span;
    const long stride = w.stride_w, width = w.width, pad = w.pad_w;
    for (long k = 0; k < stride; ++k) {
      const long begin = k < pad ? parts_of(pad - k, stride) : 0;
      long last = width + pad > k ? parts_of(width + pad - k, stride) : 0;
      if (stride > 1 && last > has.pitch) last = has.pitch;
      const long n = last - begin, column = begin * stride + k - pad;
      if (n <= 0) continue;
      for (long rest = 0; rest < has.remainders; ++rest) {
        float* to = image + k * has.segment + rest * has.rows * has.pitch + begin;
        for (long r = rest; r < used; r += w.stride_h, to += has.pitch) {
          const bool inside = top + r >= 0 && top + r < w.height;
          if (!inside && bands)
            for (long x = 0; x < n; ++x) to[x] = 0;
          if (!inside) continue;
          const std::int8_t* from = in + (top + r) * width + column;
          if (stride == 1) convert_row<1>(from, to, n);
          else if (stride == 2) convert_row<2>(from, to, n);
          else
            for (long x = 0; x < n; ++x) to[x] = static_cast<float>(from[x * stride] - zero);
        }
      }
    }
  }
  template <int V>
  LAMINA_INLINE void tile(long p, const float* taps, const std::int32_t* bias, const float* factor) const {
    floats sums[V];
    LAMINA_UNROLL
    for (int v = 0; v < V; ++v) sums[v] = floats(0.f);
    const long count = w.kernel_h * w.kernel_w;
    const float* from = image + p;
    LAMINA_NO_UNROLL
    for (long t = 0; t < count; ++t) {
      const float *pixels = from + at[t], tap = taps[t];
      LAMINA_UNROLL
      for (int v = 0; v < V; ++v) sums[v] = plus_product(sums[v], read<floats>(pixels + 16 * v), floats(tap));
    }
    LAMINA_UNROLL
    for (int v = 0; v < V; ++v) {
      const ints all = __builtin_convertvector(sums[v], ints);
      write(line + p + 16 * v,
            finished.template operator()<false>(reinterpret_cast<const std::int32_t*>(&all), bias, factor));
    }
  }
  /// Computes `count` output rows of a filter from the current band; `capacity`: numbers from `out` on that are writable.
  LAMINA_INLINE void filter(long count, const float* taps, number* out, long capacity, const std::int32_t* bias,
                            const float* factor) const {
    tiles_of_line(has, w, count, [&]<int V>(long p) __attribute__((always_inline)) { tile<V>(p, taps, bias, factor); });
    rows_of_line<typename Result::numbers16>(line, has.pitch, out, w.out_width, count, capacity);
  }
};

LAMINA_INLINE void pack_depthwise(const quantized_conv_pack_args& a) {
  auto* to = reinterpret_cast<float*>(a.packed);
  for (long i = 0; i < a.w.out_channels * depthwise_layout::packed(a.w); ++i) to[i] = static_cast<float>(a.weight[i]);
}
template <class Result> LAMINA_APART void depthwise(const quantized_conv_args& args, void* scratch) {
  const quantized_conv_args a = args;
  const window& w = a.w;
  const depthwise_layout has(w);
  auto* memory = static_cast<std::int8_t*>(scratch);
  std::memset(memory, 0, has.at);
  auto* at = reinterpret_cast<long*>(memory + has.at);
  for (long i = 0; i < w.kernel_h; ++i)
    for (long j = 0; j < w.kernel_w; ++j) {
      const long row = i * w.dilation_h, column = j * w.dilation_w;
      at[i * w.kernel_w + j] = column % w.stride_w * has.segment + column / w.stride_w +
                               (row % w.stride_h * has.rows + row / w.stride_h) * has.pitch;
    }
  const depthwise_run<Result> run{w,
                                  has,
                                  reinterpret_cast<float*>(memory),
                                  at,
                                  reinterpret_cast<typename Result::number*>(memory + has.line),
                                  a.in + (a.first + a.count) * w.channels * w.height * w.width,
                                  *a.to.x_zero_point,
                                  Result(a.to)};
  const auto* taps = reinterpret_cast<const float*>(a.packed);
  each_band<typename Result::number>(
      a, has,
      [&](const std::int8_t* in, long first, long count, bool bands)
          __attribute__((always_inline)) { run.convert(in, first, count, bands); },
      [&](long o, long count, typename Result::number* out, long capacity) __attribute__((always_inline)) {
        const float factor = Result::factor_of(a.to, o);
        const std::int32_t bias = Result::bias_of(a.to, o);
        run.filter(count, taps + o * depthwise_layout::packed(w), out, capacity, &bias, &factor);
      });
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
