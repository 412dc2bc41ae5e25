// Max and average pooling of int8 in plain layout.
#pragma once
#include "quantized_result.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

/// Max pool of one map without indices, for any window: row by row, tap by tap.
LAMINA_INLINE void pool_map(const window& w, const std::int8_t* in, std::int8_t* out) {
  for (long y = 0; y < w.out_height; ++y, out += w.out_width) {
    std::memset(out, -128, static_cast<std::size_t>(w.out_width));
    for (long i = 0; i < w.kernel_h; ++i) {
      const long row = y * w.stride_h - w.pad_h + i;
      if (row < 0 || row >= w.height) continue;
      for (long j = 0; j < w.kernel_w; ++j) {
        const long shift = j - w.pad_w;
        const reached_results at(shift, w.stride_w, w.width, w.out_width);
        const std::int8_t* from = in + row * w.width + shift;
        LAMINA_SMALL
        for (long x = at.first; x < at.last; ++x)
          out[x] = out[x] < from[x * w.stride_w] ? from[x * w.stride_w] : out[x];
      }
    }
  }
}

/// Max pool with stride 1 or 2 and rows that fit: combines the rows of a window in a padded line, then neighbors.
inline constexpr long max_line = 512;
template <long Stride> LAMINA_INLINE void pool_lines(const window& w, const std::int8_t* in, std::int8_t* out) {
  alignas(64) std::int8_t line[max_line + 64];
  std::memset(line, -128, sizeof line);
  for (long y = 0; y < w.out_height; ++y, out += w.out_width) {
    const long top = y * w.stride_h - w.pad_h;
    const long first = top < 0 ? 0 : top, last = top + w.kernel_h < w.height ? top + w.kernel_h : w.height;
    const auto join = [&]<class V>(long x, V) __attribute__((always_inline)) {
      V max = V(static_cast<std::int8_t>(-128));
      LAMINA_NO_UNROLL for (long row = first; row < last; ++row) max =
          __builtin_elementwise_max(max, read<V>(in + row * w.width + x));
      write(line + w.pad_w + x, max);
    };
    if (w.width >= 16) {
      LAMINA_NO_UNROLL for (long x = 0; x + 16 < w.width; x += 16) join(x, bytes16());
      join(w.width - 16, bytes16());
    } else LAMINA_NO_UNROLL for (long x = 0; x < w.width; ++x) join(x, bytes<1>());
    for (long x = 0; x < w.out_width; x += 16) {
      bytes16 max(-128);
      LAMINA_NO_UNROLL for (long j = 0; j < w.kernel_w; ++j) {
        if constexpr (Stride == 1) max = __builtin_elementwise_max(max, read<bytes16>(line + x + j));
        else max = __builtin_elementwise_max(max, even_bytes(line + 2 * x + j));
      }
      put(out + x, max, w.out_width - x);
    }
  }
}

/// Max pool of 2 x 2 windows with stride 2: combines rows, then neighbors, 16 results at a time.  Reads and writes past
/// a row stay inside the maps.
LAMINA_INLINE void pool_pairs(const window& w, const std::int8_t* in, std::int8_t* out, const std::int8_t* in_end,
                              const std::int8_t* out_end) {
  const auto joined = [](const std::int8_t* top, const std::int8_t* bottom) __attribute__((always_inline)) {
    const auto all = __builtin_elementwise_max(read<bytes<32>>(top), read<bytes<32>>(bottom));
    const bytes16 even = __builtin_shufflevector(all, all, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const bytes16 odd = __builtin_shufflevector(all, all, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    return bytes16(__builtin_elementwise_max(even, odd));
  };
  for (long y = 0; y < w.out_height; ++y, out += w.out_width, in += 2 * w.width)
    for (long x = 0; x < w.out_width; x += 16) {
      const std::int8_t *top = in + 2 * x, *bottom = top + w.width;
      if (in_end - bottom >= 32 && out_end - out - x >= 16) {
        write(out + x, joined(top, bottom));
        continue;
      }
      const long count = w.out_width - x < 16 ? w.out_width - x : 16;
      std::int8_t rows[2][32];
      copy_bytes(rows[0], top, 2 * count);
      copy_bytes(rows[1], bottom, 2 * count);
      put(out + x, joined(rows[0], rows[1]), count);
    }
}

LAMINA_APART void pool_with_index(const window& w, const std::int8_t* in, std::int8_t* out, std::int32_t* index) {
  for (long y = 0; y < w.out_height; ++y)
    for (long x = 0; x < w.out_width; ++x) {
      std::int32_t best = -128;
      long place = -1;
      for (long i = 0; i < w.kernel_h; ++i)
        for (long j = 0; j < w.kernel_w; ++j) {
          const long row = y * w.stride_h - w.pad_h + i, column = x * w.stride_w - w.pad_w + j;
          if (row < 0 || row >= w.height || column < 0 || column >= w.width) continue;
          if (const std::int8_t v = in[row * w.width + column]; place < 0 || v > best)
            best = v, place = row * w.width + column;
        }
      *out++ = static_cast<std::int8_t>(best);
      *index++ = static_cast<std::int32_t>(place);
    }
}

LAMINA_INLINE void max_pool(const pool_args& a) {
  const window& w = a.w;
  const long plane = w.height * w.width, results = w.out_height * w.out_width, maps = a.images * w.channels;
  const auto *first = static_cast<const std::int8_t*>(a.in), *in_end = first + maps * plane;
  auto *to = static_cast<std::int8_t*>(a.out), *out_end = to + maps * results;
  const bool pairs = w.kernel_h == 2 && w.kernel_w == 2 && w.stride_h == 2 && w.stride_w == 2 && !w.pad_h && !w.pad_w &&
                     2 * w.out_height <= w.height && 2 * w.out_width <= w.width;
  const bool fits = w.width + 2 * w.pad_w + w.kernel_w <= max_line &&
                    (w.out_width + 15) / 16 * 16 * w.stride_w + w.kernel_w <= max_line;
  for (long m = 0; m < maps; ++m) {
    const std::int8_t* in = first + m * plane;
    std::int8_t* out = to + m * results;
    if (a.index) pool_with_index(w, in, out, a.index + m * results);
    else if (pairs) pool_pairs(w, in, out, in_end, out_end);
    else if (fits && w.stride_w == 1) pool_lines<1>(w, in, out);
    else if (fits && w.stride_w == 2) pool_lines<2>(w, in, out);
    else pool_map(w, in, out);
  }
}

/// Range of a window inside the map along one axis, and its extent including padding.
struct pool_span {
  long begin, end, padded;
  LAMINA_INLINE pool_span(long at, long stride, long pad, long kernel, long size, long more) {
    const long first = at * stride - pad, last = first + kernel;
    begin = first < 0 ? 0 : first, end = last < size ? last : size;
    padded = (last < size + pad + more ? last : size + pad + more) - first;
  }
};

/// Common parameters of average pooling.
struct average_run {
  window w;
  long maps;
  const std::int8_t* in;
  std::int8_t* out;
  float ratio;
  std::int32_t x_zero_point, y_zero_point;
  bool padding;

  LAMINA_INLINE std::int8_t finished(std::int32_t sum, std::int32_t inside, std::int32_t padded) const {
    const std::int32_t counted = padding ? padded : inside;
    const float mean =
        static_cast<float>(sum - inside * x_zero_point) * ratio / static_cast<float>(counted > 0 ? counted : 1);
    return finished_number(mean, -128, 127, y_zero_point);
  }
  /// Computes one result after the other.
  LAMINA_INLINE void each() const {
    const std::int8_t* from = in;
    std::int8_t* to = out;
    for (long m = 0; m < maps; ++m, from += w.height * w.width)
      for (long y = 0; y < w.out_height; ++y) {
        const pool_span rows(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
        for (long x = 0; x < w.out_width; ++x) {
          const pool_span columns(x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
          std::int32_t sum = 0;
          if (columns.end - columns.begin == w.width)  // whole rows are one line
            for (long k = rows.begin * w.width; k < rows.end * w.width; ++k) sum += from[k];
          else
            for (long i = rows.begin; i < rows.end; ++i)
              LAMINA_SMALL for (long k = columns.begin; k < columns.end; ++k) sum += from[i * w.width + k];
          *to++ = finished(sum, static_cast<std::int32_t>((rows.end - rows.begin) * (columns.end - columns.begin)),
                           static_cast<std::int32_t>(rows.padded * columns.padded));
        }
      }
  }
  /// Computes parts of output rows, tap by tap.
  static constexpr long part = 64;
  LAMINA_INLINE void parts() const {
    for (long begin = 0; begin < w.out_width; begin += part) {
      const long count = w.out_width - begin < part ? w.out_width - begin : part;
      std::int32_t inside[part], padded[part];
      for (long x = 0; x < count; ++x) {
        const pool_span columns(begin + x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
        inside[x] = static_cast<std::int32_t>(columns.end - columns.begin);
        padded[x] = static_cast<std::int32_t>(columns.padded);
      }
      const std::int8_t* from = in;
      std::int8_t* to = out + begin;
      for (long m = 0; m < maps; ++m, from += w.height * w.width)
        for (long y = 0; y < w.out_height; ++y, to += w.out_width) {
          const pool_span rows(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
          std::int32_t sums[part] = {};
          for (long i = rows.begin; i < rows.end; ++i)
            for (long k = 0; k < w.kernel_w; ++k) add(sums, from + i * w.width, begin, count, k - w.pad_w);
          const auto high = static_cast<std::int32_t>(rows.end - rows.begin),
                     high_padded = static_cast<std::int32_t>(rows.padded);
          LAMINA_IN_PAIRS for (long x = 0; x < count; ++x) to[x] =
              finished(sums[x], high * inside[x], high_padded * padded[x]);
        }
    }
  }
  LAMINA_INLINE void add(std::int32_t* sums, const std::int8_t* row, long begin, long count, long shift) const {
    const long stride = w.stride_w;
    const reached_results at(shift, stride, w.width, begin + count);
    const long first = at.first > begin ? at.first - begin : 0, last = at.last - begin;
    const std::int8_t* from = row + begin * stride + shift;
    if (stride == 1) LAMINA_IN_PAIRS
    for (long x = first; x < last; ++x) sums[x] += from[x];
    else LAMINA_IN_PAIRS for (long x = first; x < last; ++x) sums[x] += from[x * stride]; }
};
LAMINA_INLINE void average_pool(const quantized_average_args& a) {
  const average_run run{a.pool.w,
                        a.pool.images * a.pool.w.channels,
                        static_cast<const std::int8_t*>(a.pool.in),
                        static_cast<std::int8_t*>(a.pool.out),
                        *a.x_scale / *a.y_scale,
                        *a.x_zero_point,
                        *a.y_zero_point,
                        a.pool.count_padding != 0};
  if (run.w.out_width < 4) run.each();
  else run.parts();
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
