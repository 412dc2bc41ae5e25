// Depthwise int8 convolutions, four taps of a row at a time: two permutations extract words of neighboring bytes of a
// band of rows from a register. The same sums as in quantized_depthwise.h, in integers.
#pragma once
#include "quantized_depthwise.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

/// The result at row y, column x reads from byte (y * pitch + x) * stride_w on.
struct depthwise_words_layout : line_layout {
  long row, words;  // bytes of a row; words of a row of the kernel
  std::size_t at, line, bytes;

  explicit depthwise_words_layout(const window& w)
      : line_layout(w, 1), row(pitch * w.stride_w), words(parts_of(w.kernel_w, 4)) {
    at = whole_lines(remainders * rows * row + w.pad_w + 16 * together * w.stride_w + 128);
    line = at + whole_lines(w.kernel_h * words * 8);
    bytes = line + line_bytes();
  }
  /// Whether four neighboring results read at most 16 bytes for a word.
  static bool fits(const window& w) {
    return depthwise_layout::fits(w) && 3 * (w.stride_w + (w.kernel_w > 1 ? w.dilation_w : 0)) <= 15;
  }
  /// Words of a packed filter, including its sum at the end.
  static long packed(const window& w) { return w.kernel_h * parts_of(w.kernel_w, 4) + 1; }
};

LAMINA_INLINE void pack_depthwise_words(const quantized_conv_pack_args& a) {
  const window& w = a.w;
  const long words = parts_of(w.kernel_w, 4);
  std::memset(a.packed, 0, static_cast<std::size_t>(w.out_channels * depthwise_words_layout::packed(w) * 4));
  for (long o = 0; o < w.out_channels; ++o) {
    std::int8_t* to = a.packed + o * depthwise_words_layout::packed(w) * 4;
    std::int32_t sum = 0;
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; ++j) {
        const std::int8_t tap = a.weight[(o * w.kernel_h + i) * w.kernel_w + j];
        to[i * words * 4 + j] = tap;
        sum += tap;
      }
    write(to + w.kernel_h * words * 4, sum);
  }
}

#if defined(__AVX512BW__)

template <class Result> struct depthwise_words_run {
  using number = typename Result::number;
  window w;
  depthwise_words_layout has;
  std::int8_t* image;
  const long* at;
  number* line;
  const std::int8_t* end;  // of the images
  std::int8_t padding;
  Result finished;

  LAMINA_INLINE void fill(std::int8_t* to, long count) const {
    std::memset(to, padding, static_cast<std::size_t>(count));
  }
  /// Copies the rows of a map that output rows [first, first + count) read. Padding on the left and right stays.
  /// A row may write past its end into the next one, which is written later.
  LAMINA_INLINE void cut(const std::int8_t* in, long first, long count, bool bands) const {
    constexpr bytes16 lane{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    const long top = first * w.stride_h - w.pad_h, used = (count - 1) * w.stride_h + has.span, width = w.width;
    for (long rest = 0; rest < has.remainders; ++rest) {
      std::int8_t* to = image + rest * has.rows * has.row + w.pad_w;
      for (long r = rest; r < used; r += w.stride_h, to += has.row) {
        const bool inside = top + r >= 0 && top + r < w.height;
        if (!inside && bands) fill(to, width);
        if (!inside) continue;
        const std::int8_t* from = in + (top + r) * width;
        for (long x = 0; x < width; x += 16) {
          const bytes16 v = bytes_inside<1>(from + x, end) ^ bytes16(by_fours::flip);
          const long left = width - x;
          write(to + x, left >= 16 ? v : lane < bytes16(static_cast<std::int8_t>(left)) ? v : bytes16(padding));
        }
      }
    }
  }
  /// Extracts 16 words: bytes s * i + t * dilation for each result i; those of four neighboring results span 16 bytes.
  struct cutter {
    __m512i quarters, places;
    LAMINA_INLINE explicit cutter(const window& w) {
      std::int32_t quarter[16];
      std::int8_t place[64];
      const long s = w.stride_w, tap = w.kernel_w > 1 ? w.dilation_w : 0;
      for (long q = 0; q < 4; ++q)
        for (long i = 0; i < 4; ++i) {
          quarter[q * 4 + i] = static_cast<std::int32_t>(q * s + i);
          for (long t = 0; t < 4; ++t) place[q * 16 + i * 4 + t] = static_cast<std::int8_t>(i * s + t * tap);
        }
      quarters = read<__m512i>(quarter), places = read<__m512i>(place);
    }
    LAMINA_INLINE __m512i operator()(const std::int8_t* p) const {
      return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(quarters, read<__m512i>(p)), places);
    }
  };
  template <int V> LAMINA_INLINE void tile(long p, const cutter& cut_out, const std::int32_t* taps, long step,
                                           const std::int32_t* bias, const float* factor) const {
    __m512i sums[V];
    LAMINA_UNROLL
    for (int v = 0; v < V; ++v) sums[v] = by_fours::none();
    const long count = w.kernel_h * has.words;
    const std::int8_t* from = image + p * w.stride_w;
    LAMINA_NO_UNROLL
    for (long t = 0; t < count; ++t) {
      const std::int8_t* pixels = from + at[t];
      const __m512i tap = by_fours::everywhere(taps + t);
      LAMINA_UNROLL
      for (int v = 0; v < V; ++v) sums[v] = by_fours::plus(sums[v], cut_out(pixels + v * step), tap);
    }
    LAMINA_UNROLL
    for (int v = 0; v < V; ++v) {
      const auto all = __builtin_bit_cast(sums16, sums[v]);
      write(line + p + 16 * v,
            finished.template operator()<false>(reinterpret_cast<const std::int32_t*>(&all), bias, factor));
    }
  }
  /// Computes `count` output rows of a filter from the current band; `capacity`: numbers from `out` on that are writable.
  LAMINA_INLINE void filter(const cutter& cut_out, long count, const std::int32_t* taps, number* out, long capacity,
                            const std::int32_t* bias, const float* factor) const {
    const long step = 16 * w.stride_w;
    tiles_of_line(has, w, count,
                  [&]<int V>(long p) __attribute__((always_inline)) { tile<V>(p, cut_out, taps, step, bias, factor); });
    rows_of_line<typename Result::numbers16>(line, has.pitch, out, w.out_width, count, capacity);
  }
};

template <class Result> LAMINA_INLINE void depthwise_words(const quantized_conv_args& args, void* scratch) {
  const quantized_conv_args a = args;
  const window& w = a.w;
  const depthwise_words_layout has(w);
  auto* memory = static_cast<std::int8_t*>(scratch);
  const auto padding = static_cast<std::int8_t>(*a.to.x_zero_point ^ by_fours::flip);
  std::memset(memory, padding, has.at);
  auto* at = reinterpret_cast<long*>(memory + has.at);
  for (long i = 0; i < w.kernel_h; ++i)
    for (long q = 0; q < has.words; ++q) {
      const long row = i * w.dilation_h;
      at[i * has.words + q] = (row % w.stride_h * has.rows + row / w.stride_h) * has.row + 4 * q * w.dilation_w;
    }
  const depthwise_words_run<Result> run{w,
                                        has,
                                        memory,
                                        at,
                                        reinterpret_cast<typename Result::number*>(memory + has.line),
                                        a.in + (a.first + a.count) * w.channels * w.height * w.width,
                                        padding,
                                        Result(a.to)};
  const typename depthwise_words_run<Result>::cutter cut_out(w);
  const long packed = depthwise_words_layout::packed(w);
  const auto* taps = reinterpret_cast<const std::int32_t*>(a.packed);
  const std::int32_t zero_point = *a.to.x_zero_point + by_fours::shift;
  each_band<typename Result::number>(
      a, has,
      [&](const std::int8_t* in, long first, long count, bool bands)
          __attribute__((always_inline)) { run.cut(in, first, count, bands); },
      [&](long o, long count, typename Result::number* out, long capacity) __attribute__((always_inline)) {
        const float factor = Result::factor_of(a.to, o);
        const std::int32_t* words = taps + o * packed;
        const std::int32_t bias = less_zero_point(Result::bias_of(a.to, o), zero_point, words[packed - 1]);
        run.filter(cut_out, count, words, out, capacity, &bias, &factor);
      });
}

#endif

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
