// Convolutions of bytes in which each filter reads one channel. Sums of so few products are exact in float32, where a tap is one
// multiplication for a register of pixels, however wide; a band of rows is converted with its padding, less its offset.
#pragma once
#include "quantized_result.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

/// Columns lie by their remainders of the stride, as those of `conv_layout` do.
struct depthwise_layout {
  static constexpr long band_bytes = 24 * 1024, slack = 4 * 16;
  long span, pitch, segment,
      band;  // rows that one row of results reads; floats of a row, and of a remainder; rows of results
  std::size_t image, at, bytes;

  explicit depthwise_layout(const window& w)
      : span((w.kernel_h - 1) * w.dilation_h + 1),
        pitch(parts_of(w.width + 2 * w.pad_w + (w.more_w > 0 ? w.more_w : 0), w.stride_w)) {
    const long each = pitch * w.stride_w * 4;
    band = (band_bytes / each - span) / w.stride_h + 1;
    band = band < 1 ? 1 : band > w.out_height ? w.out_height : band;
    segment = ((band - 1) * w.stride_h + span) * pitch;
    image = whole_lines((segment * w.stride_w + slack) * 4);
    at = image;
    bytes = at + whole_lines(w.kernel_h * w.kernel_w * 8);
  }
  /// Whether a convolution is one of these, with sums that are exact. Many filters of one channel are better off together.
  static bool fits(const window& w) {
    return w.groups == w.channels && w.out_channels <= 2 * w.channels && w.kernel_h * w.kernel_w <= 512 &&
           w.stride_w <= 4 && w.width <= 4096;
  }
  /// The taps of a filter.
  static long packed(const window& w) { return w.kernel_h * w.kernel_w; }
};

template <class Result> struct depthwise_run {
  using number = typename Result::number;
  using floats = float __attribute__((ext_vector_type(16)));
  using ints = std::int32_t __attribute__((ext_vector_type(16)));
  window w;
  depthwise_layout has;
  float* image;
  std::int32_t zero;
  Result finished;

  /// Rows of a map that rows [first, first + count) of the results read. What is left and right of them stays 0.
  LAMINA_INLINE void convert(const std::int8_t* in, long first, long count, bool bands) const {
    const long top = first * w.stride_h - w.pad_h, rows = (count - 1) * w.stride_h + has.span;
    const float offset = static_cast<float>(zero);
    const long stride = w.stride_w, width = w.width, pad = w.pad_w;
    for (long k = 0; k < stride; ++k) {
      const long begin = k < pad ? parts_of(pad - k, stride) : 0;
      long end = width + pad > k ? parts_of(width + pad - k, stride) : 0;
      if (end > has.pitch) end = has.pitch;
      float* to = image + k * has.segment + begin;
      const std::int8_t* from = in + top * width + begin * stride + k - pad;
      for (long r = 0; r < rows; ++r, to += has.pitch, from += width) {
        const bool inside = top + r >= 0 && top + r < w.height;
        if (!inside && bands)
          for (long x = 0; x < end - begin; ++x) to[x] = 0;
        if (!inside) continue;
        if (stride == 1) LAMINA_IN_PAIRS
        for (long x = 0; x < end - begin; ++x) to[x] = static_cast<float>(from[x]) - offset;
        else LAMINA_IN_PAIRS for (long x = 0; x < end - begin; ++x) to[x] =
            static_cast<float>(from[x * stride]) - offset;
      }
    }
  }
  /// R rows of results, V registers of each.
  template <int R, int V> LAMINA_INLINE void tile(const float* from, const long* at, const float* taps, number* out,
                                                  long left, const std::int32_t* bias, const float* factor) const {
    floats sums[R][V];
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) LAMINA_UNROLL
    for (int v = 0; v < V; ++v) sums[r][v] = floats(0.f);
    const long count = w.kernel_h * w.kernel_w, step = w.stride_h * has.pitch, width = w.out_width;
    LAMINA_NO_UNROLL
    for (long t = 0; t < count; ++t) {
      const float* row = from + at[t];
      const float tap = taps[t];
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) LAMINA_UNROLL
      for (int v = 0; v < V; ++v)
        sums[r][v] = plus_product(sums[r][v], read<floats>(row + r * step + 16 * v), floats(tap));
    }
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) LAMINA_UNROLL
    for (int v = 0; v < V; ++v) {
      const ints all = __builtin_convertvector(sums[r][v], ints);
      if (left > 16 * v)
        put(out + r * width + 16 * v,
            finished.template operator()<false>(reinterpret_cast<const std::int32_t*>(&all), bias, factor),
            left - 16 * v);
    }
  }
  template <int R> LAMINA_INLINE void rows(const float* from, const long* at, const float* taps, number* out,
                                           const std::int32_t* bias, const float* factor) const {
    for (long x = 0; x < w.out_width;) {
      const long left = w.out_width - x;
      if (left > 16) tile<R, 2>(from + x, at, taps, out + x, left, bias, factor), x += 32;
      else tile<R, 1>(from + x, at, taps, out + x, left, bias, factor), x += 16;
    }
  }
  /// Rows [begin, end) of the results of a map.
  LAMINA_INLINE void map(const std::int8_t* in, long begin, long end, const long* at, const float* taps, number* out,
                         const std::int32_t* bias, const float* factor) const {
    constexpr int together = this_isa == isa::avx512 ? 4 : 1;  // rows whose sums stay in registers
    for (long first = begin; first < end; first += has.band) {
      const long count = end - first < has.band ? end - first : has.band;
      convert(in, first, count, end - begin > has.band);
      long y = 0;
      const auto next = [&]<int R>(std::integral_constant<int, R>) __attribute__((always_inline)) {
        rows<R>(image + y * w.stride_h * has.pitch, at, taps, out + (first + y) * w.out_width, bias, factor);
        y += R;
      };
      while (y + together <= count) next(std::integral_constant<int, together>());
      if constexpr (together > 1)
        while (y < count) next(std::integral_constant<int, 1>());
    }
  }
};

LAMINA_INLINE void pack_depthwise(const quantized_conv_pack_args& a) {
  auto* to = reinterpret_cast<float*>(a.packed);
  for (long i = 0; i < a.w.out_channels * depthwise_layout::packed(a.w); ++i) to[i] = static_cast<float>(a.weight[i]);
}
template <class Result> LAMINA_INLINE void depthwise(const quantized_conv_args& args, void* scratch) {
  const quantized_conv_args a = args;
  const window& w = a.w;
  const depthwise_layout has(w);
  const depthwise_run<Result> run{w, has, static_cast<float*>(scratch), *a.to.x_offset, Result(a.to)};
  std::memset(scratch, 0, has.image);
  auto* at = reinterpret_cast<long*>(static_cast<std::int8_t*>(scratch) + has.at);
  for (long i = 0; i < w.kernel_h; ++i)
    for (long j = 0; j < w.kernel_w; ++j) {
      const long column = j * w.dilation_w;
      at[i * w.kernel_w + j] = i * w.dilation_h * has.pitch + column % w.stride_w * has.segment + column / w.stride_w;
    }
  const long filters = w.out_channels / w.groups, plane = w.height * w.width, results = w.out_height * w.out_width;
  const auto* taps = reinterpret_cast<const float*>(a.packed);
  for (long n = a.first; n < a.first + a.count; ++n)
    for (long o = 0; o < w.out_channels; ++o) {
      const float factor = Result::factor_of(a.to, o);
      const std::int32_t bias = Result::bias_of(a.to, o);
      run.map(a.in + (n * w.channels + o / filters) * plane, a.first_row, a.first_row + a.rows, at,
              taps + o * depthwise_layout::packed(w),
              static_cast<typename Result::number*>(a.out) + (n * w.out_channels + o) * results, &bias, &factor);
    }
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
