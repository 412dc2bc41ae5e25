// Convolutions in channel blocks with AMX: tiles of 32 pixels by three blocks of output channels, from a copy of the image
// in which pixels of several channel blocks are neighbors.
#pragma once
#include "amx.h"
#include "conv.h"
#if defined(__AVX512BW__)

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace amx {

/// Pixels and blocks of output channels of a tile.
inline constexpr long conv_pixels = 2 * tile_rows, conv_columns = 3;

/// How a convolution is summed: in steps of words that are neighbors in the copy and in the filters. `numbers`: of a word.
struct conv_layout {
  long channels;      // of a pixel of the copy: those of a row of a tile, or 2 or 4 of an image in plain layout
  long maps;          // copies of the image, each with these channels
  long tap_pixels;    // of a row of the window, in one step
  long taps, words;   // steps of a row of the window, and words of a step
  long filter_bytes;  // of the filters of a block of output channels

  LAMINA_INLINE conv_layout(const window& w, long numbers, bool planar = false)
      : channels(!planar           ? tile_rows * numbers
                 : w.channels <= 2 ? 2
                                   : 4),
        maps(planar ? 1 : (w.channels + channels - 1) / channels),
        tap_pixels(planar ? pixels_of_tap(w.kernel_w, tile_rows * numbers / channels) : 1),
        taps(w.kernel_w / tap_pixels),
        words(tap_pixels * channels / numbers),
        filter_bytes(maps * w.kernel_h * taps * words * row_bytes) {}
  /// The most pixels, up to `max`, into which a row of the window can be divided.
  LAMINA_INLINE static long pixels_of_tap(long row, long max) {
    long taps = 1;
    while (row % taps != 0 || row / taps > max) ++taps;
    return row / taps;
  }
  /// Bytes of a pixel of the copy.
  LAMINA_INLINE long pixel_bytes(long numbers) const { return channels * 4 / numbers; }
  /// Position of a number of a filter among those of its output block: its word, and which number of that it is.
  struct place {
    long word, part;
  };
  LAMINA_INLINE place of(const window& w, long numbers, long channel, long row, long column) const {
    const long at = column * channels + channel % channels;  // in a row of the window
    return {(channel / channels * w.kernel_h + row) * taps * words + at / numbers, at % numbers};
  }
};

/// Rows and columns of results, and the copy of what they read.
struct conv_part {
  const window* w;
  conv_layout layout;
  const char* copy;
  long pixel_bytes, copied_rows, line;  // of the copy; line: pixels of a row
  long rows, columns;
  const char* filters;  // of the first of `blocks` output blocks, at most `conv_columns`
  long blocks;
};

/// Calls finish(sums, result, count) for neighboring results of a tile, with sums [count][Columns][16]; `result` counts
/// from the first one. With stride 1 the pixels of all rows are one sequence, in which the last ones of a row of the copy
/// have no result.
template <class Product, class Number, int Columns, class Finish>
LAMINA_INLINE void conv_tiles(const conv_part& q, Finish finish) {
  const window& w = *q.w;
  const conv_layout& has = q.layout;
  const bool one = w.stride_h == 1 && w.stride_w == 1;
  const long sequences = one ? 1 : q.rows, length = one ? (q.rows - 1) * q.line + q.columns : q.columns;
  const long line_bytes = q.line * q.pixel_bytes, pixel = w.stride_w * q.pixel_bytes;
  const long across = w.dilation_w * has.tap_pixels * q.pixel_bytes, down = w.dilation_h * line_bytes,
             map = q.copied_rows * line_bytes, tap_bytes = has.words * row_bytes;
  const auto smaller = [](long a, long b) { return a < b ? a : b; };
  // Each tile prefetches a part of the filters of the next output blocks, which follow those of these.
  const long tiles = sequences * ((length + conv_pixels - 1) / conv_pixels), lines = Columns * has.words;
  long tile = 0, result = 0;
  for (long s = 0; s < sequences; ++s)
    for (long x = 0; x < length; x += conv_pixels, ++tile) {
      const long pixels = smaller(conv_pixels, length - x);
      const long fetched_end = (tile + 1) * lines / tiles, fetched = fetched_end - tile * lines / tiles;
      const char* const in = q.copy + s * w.stride_h * line_bytes + x * pixel;
      alignas(64) Number held[conv_pixels][Columns][row_lanes];
      with_bands(pixels, [&]<int Bands>(std::integral_constant<int, Bands>) __attribute__((always_inline)) {
        sums<Product, Bands, Columns> all;
        operand filters{q.filters, row_bytes, has.filter_bytes};
        LAMINA_NO_UNROLL for (long c = 0; c < has.maps; ++c) LAMINA_NO_UNROLL for (long i = 0; i < w.kernel_h; ++i) {
          operand under{in + c * map + i * down, pixel, tile_rows * pixel};
          LAMINA_NO_UNROLL for (long j = 0; j < has.taps; ++j) {
            const char* next = filters.at + Columns * has.filter_bytes;
            LAMINA_NO_UNROLL for (long l = fetched_end; l > 0; l -= has.words, next += has.filter_bytes) {
              const long end = smaller(l, has.words);
              LAMINA_NO_UNROLL for (long k = l > fetched ? l - fetched : 0; k < end; ++k)
                  __builtin_prefetch(next + k * row_bytes, 0, 2);
            }
            all.add(under, filters);
            under.at += across;
            filters.at += tap_bytes;
          }
        }
        all.store(held);
      });
      for (long i = 0; i < pixels;) {
        const long column = (x + i) % q.line, count = smaller(q.columns - column, pixels - i);
        if (count > 0) finish(&held[i], result, count);
        result += count > 0 ? count : 0;
        i += count > 0 ? count : smaller(q.line - column, pixels - i);
      }
    }
}
/// The same for q.blocks blocks of output channels.
template <class Product, class Number, class Finish> LAMINA_INLINE void conv_tiles(const conv_part& q, Finish finish) {
  if (q.blocks == 1) conv_tiles<Product, Number, 1>(q, finish);
  else if (q.blocks == 2) conv_tiles<Product, Number, 2>(q, finish);
  else conv_tiles<Product, Number, 3>(q, finish);
}

/// Bytes of the copy for `rows` rows of `columns` results, and of what tiles read beyond the last pixel.
LAMINA_INLINE long copy_bytes(const window& w, const conv_layout& has, long numbers, long rows, long columns) {
  return has.maps * w.rows_under(rows) * w.columns_under(columns) * has.pixel_bytes(numbers);
}
LAMINA_INLINE long bytes_beyond(const window& w) { return (conv_pixels * w.stride_w + w.kernel_w) * row_bytes; }
/// Bytes of a whole image that `copy_maps` writes, and of what tiles read beyond it.
LAMINA_INLINE long joined_bytes(const window& w, const conv_layout& has, long numbers) {
  return copy_bytes(w, has, numbers, w.out_height, w.out_width) + bytes_beyond(w);
}
/// Number of rows of results whose pixels are copied together, so that the copy stays in cache beside filters.
LAMINA_INLINE long rows_together(const window& w, const conv_layout& has, long numbers, long rows, long columns) {
  constexpr long max_bytes = 512 * 1024;
  while (rows > 1 && copy_bytes(w, has, numbers, rows, columns) > max_bytes) rows = (rows + 1) / 2;
  return rows;
}

/// Number of blocks of output channels that are computed together if so many are left: no single one after three.
LAMINA_INLINE long columns_together(long left) {
  return left == 2 || left == 4 ? 2 : left < conv_columns ? left : conv_columns;
}

/// Pixels of an image in memory, as tiles read them.
struct conv_image {
  const char* at;
  long rows, line;  // of a map; line: pixels of a row
};
/// Images [first, first + count), rows and columns of results, and the blocks of output channels whose filters these are.
struct conv_call {
  const window* w;
  conv_layout layout;
  long pixel_bytes;
  long first, count;
  long first_row, rows, first_column, columns;
  const char* filters;
  long blocks;
  long rows_together;  // rows of results whose pixels are copied together
  char* copy;          // null: images are read in place
};
/// Calls tiles(part, image, row, block) for the results of a call from a row and a block of output channels on. Pixels are
/// those of image(n), beginning with what result 0 of the map reads, or what join(n, row, rows, line, to) copies.
template <class Image, class Join, class Tiles>
LAMINA_INLINE void conv_images(const conv_call& q, Image image, Join join, Tiles tiles) {
  const window& w = *q.w;
  const auto smaller = [](long a, long b) { return a < b ? a : b; };
  for (long n = q.first; n < q.first + q.count; ++n)
    for (long done = 0; done < q.rows; done += q.rows_together) {
      const long row = q.first_row + done, rows = smaller(q.rows_together, q.rows - done);
      conv_image in{q.copy, w.rows_under(rows), w.columns_under(q.columns)};
      if (q.copy) join(n, row, in.rows, in.line, q.copy);
      else {
        in = image(n);
        in.at += (row * w.stride_h * in.line + q.first_column * w.stride_w) * q.pixel_bytes;
      }
      for (long o = 0, together; o < q.blocks; o += together) {
        together = columns_together(q.blocks - o);
        tiles(conv_part{q.w, q.layout, in.at, q.pixel_bytes, in.rows, in.line, rows, q.columns,
                        q.filters + o * q.layout.filter_bytes, together},
              n, row, o);
      }
    }
}

/// Copies rows and columns of maps of an image with what is outside: [maps][rows][columns][pixel_bytes]. `clear(to,
/// pixels)` writes pixels outside, `join(to, map, position, pixels)` those of a map from a position of a row on.
template <class Clear, class Join>
LAMINA_INLINE void copy_image(const window& w, long first_map, long maps, long pixel_bytes, long first_row, long rows,
                              long first_column, long columns, char* to, Clear clear, Join join) {
  const long from = first_column < 0 ? 0 : first_column, skipped = first_column < 0 ? -first_column : 0;
  const long before = skipped < columns ? skipped : columns, left = w.width - from;
  const long inside = left <= 0 ? 0 : columns - before < left ? columns - before : left;
  for (long m = first_map; m < first_map + maps; ++m)
    for (long y = first_row; y < first_row + rows; ++y, to += columns * pixel_bytes) {
      if (y < 0 || y >= w.height || inside == 0) {
        clear(to, columns);
        continue;
      }
      clear(to, before);
      join(to + before * pixel_bytes, m, y * w.width + from, inside);
      clear(to + (before + inside) * pixel_bytes, columns - before - inside);
    }
}

/// Copies maps [first, first + count) of all images whole: join(image, map, to) writes each.
template <class Join> LAMINA_INLINE void copy_maps(const window& w, const conv_layout& has, long numbers, long first,
                                                   long count, char* to, Join join) {
  const long image = joined_bytes(w, has, numbers), map = (image - bytes_beyond(w)) / has.maps;
  for (long m = first; m < first + count; ++m)
    join(m / has.maps, m % has.maps, to + m / has.maps * image + m % has.maps * map);
}

}  // namespace amx
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
#endif
