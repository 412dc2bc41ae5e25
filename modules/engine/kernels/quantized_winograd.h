// Winograd convolution F(2x2, 3x3) of int8 in integers: 16 products of 16 bits for 2x2 results instead of 36, and the same
// bits as the direct sum. Filters are transformed by four times the usual matrix, which has no fractions; the sums of a
// result are multiples of four. For words of two numbers; words of four bytes are as fast without.
//
// A band of rows of tiles is transformed into words of two channels, the lanes of a register are tiles.
#pragma once
#include "quantized_conv.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

struct winograd_layout {
  static constexpr long points = 16;
  /// Minimum number of tiles, as of floats, and of channels, of the image and of results.
  static constexpr long min_tiles = 40, min_channels = 16;
  /// With more than 3,640 channels sums, times four, may exceed 32 bits.
  static constexpr long max_channels = 2048;
  /// Limit of the words of a row of tiles, the least that a band holds.
  static constexpr long max_row_bytes = 4 * 1024 * 1024;
  /// Filters of a tile of sums, and approximate bytes of the words of a band and of the sums of a few filters.
  static constexpr long filters_at_once = 6, band_bytes = 384 * 1024, sum_bytes = 96 * 1024;

  long pairs, blocks, columns;  // pairs of channels; blocks of filters; tiles per row
  long band, pitch;             // rows of tiles; bytes per pair and point
  long raw_pitch, raw_rows;     // of a padded channel
  long lanes, chunk;            // lanes of a band / panel_columns; blocks of filters whose sums are kept
  std::size_t raws, at, factors, sums, line, bytes;

  static constexpr bool takes(const window& w) {
    return w.groups == 1 && w.kernel_h == 3 && w.kernel_w == 3 && w.stride_h == 1 && w.stride_w == 1 &&
           w.dilation_h == 1 && w.dilation_w == 1 && w.channels >= min_channels && w.channels <= max_channels &&
           w.out_channels >= min_channels &&
           parts_of(w.out_width, 2) * parts_of(w.channels, 2) * points * 4 <= max_row_bytes &&
           parts_of(w.out_height, 2) * parts_of(w.out_width, 2) >= min_tiles;
  }
  explicit winograd_layout(const window& w)
      : pairs(parts_of(w.channels, 2)),
        blocks(parts_of(w.out_channels, filters_at_once)),
        columns(parts_of(w.out_width, 2)) {
    const long all = parts_of(w.out_height, 2), bands = parts_of(all * columns * pairs * points * 4, band_bytes);
    band = parts_of(all, bands < all ? bands : all);
    lanes = parts_of(band * columns, panel_columns);
    pitch = (lanes + 1) / 2 * 128 + 64;  // an odd number of lines, with a register beyond the last tile
    raw_rows = 2 * band + 2;
    const long read = 2 * columns + 2 * panel_columns + 2, row = w.pad_w + w.width;
    raw_pitch = static_cast<long>(whole_lines(row < read ? read : row));
    const long of_block = lanes * points * filters_at_once * panel_columns * 4, most = sum_bytes / of_block;
    chunk = most < 1 ? 1 : most < blocks ? most : blocks;
    raws = static_cast<std::size_t>(points * pairs * pitch + 128);
    at = raws + static_cast<std::size_t>(2 * raw_rows * raw_pitch);
    factors = at + whole_lines(pairs * 8);
    sums = factors + factor_bytes(w.out_channels);
    line = sums + static_cast<std::size_t>(chunk * of_block);
    bytes = line + whole_lines(2 * lanes * 2 * panel_columns * 4);
  }
  /// Words of the filters of a point, [block][pair][filter of the block].
  long filter_words() const { return blocks * pairs * filters_at_once; }
  long packed_bytes(const window& w) const { return points * filter_words() * 4 + w.out_channels * 4; }
};

/// weight: [O, C, 3, 3]; zeros beyond O and C; then the sum of the weights of each filter.
LAMINA_INLINE void pack_winograd(const quantized_conv_pack_args& a) {
  const window& w = a.w;
  const winograd_layout has(w);
  std::memset(a.packed, 0, static_cast<std::size_t>(has.packed_bytes(w)));
  const auto line = [](int first, int middle, int last, int* to, int step) __attribute__((always_inline)) {
    to[0] = 2 * first, to[step] = first + middle + last, to[2 * step] = first - middle + last, to[3 * step] = 2 * last;
  };
  for (long o = 0; o < w.out_channels; ++o) {
    std::int32_t sum = 0;
    for (long c = 0; c < w.channels; ++c) {
      const std::int8_t* f = a.weight + (o * w.channels + c) * 9;
      int rows[4][3], all[4][4];
      for (int x = 0; x < 3; ++x) line(f[x], f[3 + x], f[6 + x], &rows[0][x], 3);
      for (int i = 0; i < 4; ++i) line(rows[i][0], rows[i][1], rows[i][2], all[i], 1);
      for (int t = 0; t < 9; ++t) sum += f[t];
      const long word = (o / has.filters_at_once * has.pairs + c / 2) * has.filters_at_once + o % has.filters_at_once;
      for (long p = 0; p < has.points; ++p)
        write(a.packed + (p * has.filter_words() + word) * 4 + c % 2 * 2, static_cast<std::int16_t>(all[p / 4][p % 4]));
    }
    write(a.packed + has.points * has.filter_words() * 4 + o * 4, sum);
  }
}

/// An image, or rows [first_row, end_row) of its results.
template <class Form, class Result> struct winograd_run {
  using number = typename Result::number;
  using numbers16 = typename Result::numbers16;
  static constexpr long filters_at_once = winograd_layout::filters_at_once, points = winograd_layout::points;
  static constexpr int lanes = Form::lanes;
  window w;
  winograd_layout has;
  long channels;  // of the image
  std::int8_t* scratch;
  std::int8_t zero;  // value of padding
  const std::int8_t *in, *packed;
  number* out;
  long first_row, end_row;
  Result finished;
  factors by;

  /// Rows [top, top + used) of a channel, padded.
  LAMINA_INLINE const std::int8_t* raw(long channel, long top, long used, long which) const {
    const std::int8_t* from = in + (channel < channels ? channel : channel - channels) * w.height * w.width;
    std::int8_t *all = scratch + has.raws + which * has.raw_rows * has.raw_pitch, *row = all + w.pad_w;
    for (long r = 0; r < used; ++r, row += has.raw_pitch) {
      const long y = top + r;
      if (y >= 0 && y < w.height) copy_bytes(row, from + y * w.width, w.width);
      else std::memset(row, zero, static_cast<std::size_t>(w.width));
    }
    return all;
  }
  /// Transforms a register of tiles of two channels: rows, then columns, of which words hold the even or the odd ones.
  LAMINA_INLINE void transform(const std::int8_t* first, const std::int8_t* second, std::int8_t* to, long step) const {
    using shorts = std::int16_t __attribute__((ext_vector_type(2 * lanes)));
    using words = std::uint32_t __attribute__((ext_vector_type(lanes)));
    shorts d[2][2][4];  // [channel][0, 2 columns on][row]
    LAMINA_UNROLL
    for (int c = 0; c < 2; ++c) {
      LAMINA_UNROLL
      for (int x = 0; x < 2; ++x) {
        shorts v[4];
        LAMINA_UNROLL
        for (int i = 0; i < 4; ++i)
          v[i] =
              __builtin_convertvector(read<bytes<2 * lanes>>((c ? second : first) + i * has.raw_pitch + 2 * x), shorts);
        d[c][x][0] = v[0] - v[2], d[c][x][1] = v[1] + v[2], d[c][x][2] = v[2] - v[1], d[c][x][3] = v[1] - v[3];
      }
    }
    LAMINA_UNROLL
    for (int i = 0; i < 4; ++i) {
      shorts even[2], odd[2];
      LAMINA_UNROLL
      for (int x = 0; x < 2; ++x) {
        const auto a = __builtin_bit_cast(words, d[0][x][i]), b = __builtin_bit_cast(words, d[1][x][i]);
        even[x] = __builtin_bit_cast(shorts, (a & 0xffffu) | (b << 16));
        odd[x] = __builtin_bit_cast(shorts, (a >> 16) | (b & 0xffff0000u));
      }
      std::int8_t* row = to + 4 * i * step;
      write(row, even[0] - even[1]);
      write(row + step, odd[0] + even[1]);
      write(row + 2 * step, even[1] - odd[0]);
      write(row + 3 * step, odd[0] - odd[1]);
    }
  }
  /// Words of the tiles of `rows` rows of tiles whose results begin at row `first`.
  LAMINA_INLINE void transform_band(long first, long rows) const {
    const long top = first - w.pad_h, used = 2 * rows + 2, step = has.pairs * has.pitch;
    for (long k = 0; k < has.pairs; ++k) {
      const std::int8_t* one = raw(2 * k, top, used, 0);
      const std::int8_t* two = 2 * k + 1 < w.channels ? raw(2 * k + 1, top, used, 1) : one;
      std::int8_t* to = scratch + k * has.pitch;
      for (long t = 0; t < rows; ++t)
        for (long x = 0; x < has.columns; x += lanes) {
          const long at = 2 * t * has.raw_pitch + 2 * x;
          transform(one + at, two + at, to + (t * has.columns + x) * 4, step);
        }
    }
  }
  /// Sums [block][panel of tiles][point][filter][tile] of `count` blocks of filters.
  LAMINA_INLINE void multiply(long first, long count, long tiles, std::int32_t* sums) const {
    const auto* at = reinterpret_cast<const long*>(scratch + has.at);
    constexpr long of_point = filters_at_once * panel_columns;
    for (long p = 0; p < points; ++p)
      for (long x = 0, panel = 0; x < tiles; x += panel_columns, ++panel) {
        const std::int8_t* words = scratch + p * has.pairs * has.pitch + x * 4;
        for (long b = 0; b < count; ++b) {
          const std::int8_t* filters =
              packed + (p * has.filter_words() + (first + b) * has.pairs * filters_at_once) * 4;
          const long left = w.out_channels - (first + b) * filters_at_once;
          std::int32_t* to = sums + ((b * has.lanes + panel) * points + p) * of_point;
          with_rows<filters_at_once>(
              static_cast<int>(left < filters_at_once ? left : filters_at_once),
              [&]<int MR>() __attribute__((always_inline)) {
                if (lanes < panel_columns && tiles - x <= lanes)
                  pixel_tile<Form, MR, 1>(has.pairs, at, words, filters, filters_at_once * 4, to);
                else pixel_tile<Form, MR, whole<Form>>(has.pairs, at, words, filters, filters_at_once * 4, to);
              });
        }
      }
  }
  /// Results of 16 tiles of a filter: two rows of 32.
  LAMINA_INLINE void finish_tiles(const std::int32_t* sums, const std::int32_t* bias, const float* factor, number* line,
                                  long row) const {
    using numbers32 = number __attribute__((ext_vector_type(32)));
    using unsigned16 = std::uint32_t __attribute__((ext_vector_type(16)));  // wraps
    unsigned16 t[2][4];
    LAMINA_UNROLL
    for (int j = 0; j < 4; ++j) {
      unsigned16 m[4];
      LAMINA_UNROLL
      for (int i = 0; i < 4; ++i) m[i] = read<unsigned16>(sums + (4 * i + j) * filters_at_once * panel_columns);
      t[0][j] = m[0] + m[1] + m[2], t[1][j] = m[1] - m[2] - m[3];
    }
    LAMINA_UNROLL
    for (int i = 0; i < 2; ++i) {
      const auto even = __builtin_bit_cast(sums16, t[i][0] + t[i][1] + t[i][2]) >> 2,
                 odd = __builtin_bit_cast(sums16, t[i][1] - t[i][2] - t[i][3]) >> 2;
      const numbers16 a = result_of(even, bias, factor), b = result_of(odd, bias, factor);
      write(line + i * row,
            numbers32(__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9,
                                              25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31)));
    }
  }
  LAMINA_INLINE numbers16 result_of(const sums16& sums, const std::int32_t* bias, const float* factor) const {
    return finished.template operator()<false>(reinterpret_cast<const std::int32_t*>(&sums), bias, factor);
  }
  /// Results of `count` blocks of filters for the rows of tiles whose results begin at row `first`.
  LAMINA_INLINE void finish_blocks(long block, long count, long first, long tiles, const std::int32_t* sums) const {
    auto* line = reinterpret_cast<number*>(scratch + has.line);
    const long row = has.lanes * 2 * panel_columns, end = first + 2 * (tiles / has.columns);
    for (long f = 0; f < count * filters_at_once && block * filters_at_once + f < w.out_channels; ++f) {
      const long o = block * filters_at_once + f;
      const std::int32_t* from =
          sums + (f / filters_at_once * has.lanes * points * filters_at_once + f % filters_at_once) * panel_columns;
      for (long x = 0; x < tiles; x += panel_columns)
        finish_tiles(from + x * points * filters_at_once, by.bias + o, by.factor + o, line + 2 * x, row);
      number* to = out + o * w.out_height * w.out_width;
      for (long y = first; y < end && y < end_row; ++y)
        copy(to + y * w.out_width, line + (y - first) % 2 * row + (y - first) / 2 * 2 * has.columns, w.out_width);
    }
  }
  LAMINA_INLINE void run() const {
    auto* sums = reinterpret_cast<std::int32_t*>(scratch + has.sums);
    const long all = parts_of(end_row - first_row, 2);
    for (long t = 0; t < all; t += has.band) {
      const long rows = all - t < has.band ? all - t : has.band, first = first_row + 2 * t, tiles = rows * has.columns;
      transform_band(first, rows);
      for (long b = 0; b < has.blocks; b += has.chunk) {
        const long count = has.blocks - b < has.chunk ? has.blocks - b : has.chunk;
        multiply(b, count, tiles, sums);
        finish_blocks(b, count, first, tiles, sums);
      }
    }
  }
};

template <class Form, class Result> LAMINA_APART void conv_by_winograd(const quantized_conv_args& args, void* scratch) {
  const quantized_conv_args a = args;
  const window& w = a.w;
  const winograd_layout has(w);
  auto* memory = static_cast<std::int8_t*>(scratch);
  const std::int8_t zero = *a.to.x_zero_point;
  std::memset(memory + has.raws, zero, has.at - has.raws);
  auto* at = reinterpret_cast<long*>(memory + has.at);
  for (long k = 0; k < has.pairs; ++k) at[k] = k * has.pitch;
  const std::int8_t* of_filters = a.packed + has.points * has.filter_words() * 4;
  const factors by = factors_of<Form, Result>(a.to, w.out_channels, memory + has.factors,
                                              [&](long o) { return read<std::int32_t>(of_filters + o * 4); });
  const long channels = w.channels / a.repeats;
  for (long n = a.first; n < a.first + a.count; ++n)
    winograd_run<Form, Result>{
        w,
        has,
        channels,
        memory,
        zero,
        a.in + n * channels * w.height * w.width,
        a.packed,
        static_cast<typename Result::number*>(a.out) + n * w.out_channels * w.out_height * w.out_width,
        a.first_row,
        a.first_row + a.rows,
        Result(a.to),
        by}
        .run();
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
