// The gradient of a convolution's weights as a sum of outer products: each pixel's gradients of a block of output channels, which
// lie side by side, by the elements of the input under the kernel. Registers are full whatever the width of the map is.
#pragma once
#include "conv_matrix.h"
#include "conv_reorder.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace outer {

/// Sums over images and pixels of gradient[pixel][lane] * source[pixel + row + j] for some rows of the kernels.
template <class T> struct tile_args {
  const T* source;    // padded planes
  const T* gradient;  // [image][pixel][lanes] of a block of output channels
  long source_image, gradient_image, gradient_block;
  const long* row;  // offset of each row of the kernels in the padded planes
  long images, height, width;
  long row_step, column_step;  // between neighboring results in the padded planes
  T* sum;                      // [rows][taps of a row][blocks][lanes]
};

template <class T, int Blocks, int Rows, int Taps> LAMINA_INLINE void tile(const tile_args<T>& q) {
  vec<T> sum[Rows][Taps][Blocks];
  LAMINA_UNROLL for (int r = 0; r < Rows; ++r) LAMINA_UNROLL for (int j = 0; j < Taps; ++j)
      LAMINA_UNROLL for (int b = 0; b < Blocks; ++b) sum[r][j][b] = zero<T>();
  const long step = q.column_step;
  for (long n = 0; n < q.images; ++n) {
    const T* gradient = q.gradient + n * q.gradient_image;
    for (long y = 0; y < q.height; ++y) {
      const T* row[Rows];
      LAMINA_UNROLL for (int r = 0; r < Rows; ++r) row[r] = q.source + n * q.source_image + y * q.row_step + q.row[r];
      LAMINA_NO_UNROLL for (long x = 0, at = 0; x < q.width; ++x, at += step, gradient += width<T>) {
        vec<T> g[Blocks];
        LAMINA_UNROLL for (int b = 0; b < Blocks; ++b) g[b] = load(gradient + b * q.gradient_block);
        LAMINA_UNROLL for (int r = 0; r < Rows; ++r) LAMINA_UNROLL for (int j = 0; j < Taps; ++j) {
          const auto s = broadcast(row[r] + at + j);
          LAMINA_UNROLL for (int b = 0; b < Blocks; ++b) sum[r][j][b] = fma<T>(g[b], s, sum[r][j][b]);
        }
      }
    }
  }
  LAMINA_UNROLL for (int r = 0; r < Rows; ++r) LAMINA_UNROLL for (int j = 0; j < Taps; ++j)
      LAMINA_UNROLL for (int b = 0; b < Blocks; ++b)
          store<T>(q.sum + ((r * Taps + j) * Blocks + b) * width<T>, sum[r][j][b]);
}

/// Rows of kernels in a tile of one block or two, by the taps of a row.
constexpr long rows_of_tile(long blocks, long taps) {
  const long most = LAMINA_REGISTERS == 32 ? 8 : 4;
  if (taps == 1) return blocks == 1 ? 8 : most;
  return (taps == 5 ? most / 2 : most) / blocks;
}

}  // namespace outer

namespace plain {

/// How the sums of outer products are cut: tiles of rows of kernels by blocks of output channels.
struct outer_sizes {
  long taps;  // of a row of a tile: those of a row of the kernel, or one
  long rows, blocks, tile_blocks, tile_rows;
  constexpr explicit outer_sizes(const window& w)
      : taps(w.dilation_w == 1 && (w.kernel_w == 3 || w.kernel_w == 5) ? w.kernel_w : 1),
        rows(w.channels / w.groups * w.kernel_h * (w.kernel_w / taps)),
        blocks(divide_up(w.out_channels / w.groups, blocked::block)),
        tile_blocks(smaller(blocks, 2)),
        tile_rows(outer::rows_of_tile(tile_blocks, taps)) {}
  constexpr long row_tiles() const { return divide_up(rows, tile_rows); }
  constexpr long block_tiles() const { return divide_up(blocks, tile_blocks); }
};

/// Padded planes and gradients of several images at a time, in bytes, over which the sums go before they are put in their places.
inline constexpr long outer_bytes = 512 * 1024;

template <class T> struct outer_image {
  long planes, gradients;  // in elements
  constexpr outer_image(const window& w, const outer_sizes& s)
      : planes(padded_bytes<T>(padded_input(w)) / static_cast<long>(sizeof(T))),
        gradients(s.blocks * w.out_height * w.out_width * width<T>) {}
  constexpr long together(long images) const {
    return larger(1, smaller(images, outer_bytes / ((planes + gradients) * static_cast<long>(sizeof(T)))));
  }
};
template <class T> constexpr long outer_scratch_bytes(const conv_plain_args& a) {
  const outer_sizes s(a.w);
  const outer_image<T> image(a.w, s);
  const long images = image.together(a.count);
  return aligned<T>(image.planes * images) + aligned<T>(image.gradients * images) +
         aligned<long>(larger(s.rows, s.tile_rows)) + aligned<T>(s.tile_rows * s.taps * s.tile_blocks * width<T>);
}

/// Adds the lanes of a tile to the gradient: out[channel][row][tap], but for what the tile before has given already.
template <class T> struct outer_places {
  long tile_rows, taps, tile_blocks;
  long first_row, first_block;    // of the tile
  long done_rows, done_channels;  // of those before
  long rows, channels;            // of the gradient
};
template <class T> LAMINA_COMPACT void add_outer(const outer_places<T>& p, const T* sum, T* out) {
  const long row_taps = p.rows * p.taps;
  for (long r = larger(0, p.done_rows - p.first_row); r < smaller(p.tile_rows, p.rows - p.first_row); ++r)
    for (long b = 0; b < p.tile_blocks; ++b) {
      const long channel = (p.first_block + b) * width<T>;
      for (long i = larger(0, p.done_channels - channel); i < smaller(width<T>, p.channels - channel); ++i)
        LAMINA_SMALL for (long j = 0; j < p.taps; ++j) out[(channel + i) * row_taps + (p.first_row + r) * p.taps + j] +=
            sum[((r * p.taps + j) * p.tile_blocks + b) * width<T> + i];
    }
}

template <class T> void run_outer(const conv_plain_args& a, void* scratch) {
  const window& w = a.w;
  const padded p = padded_input(w);
  const outer_sizes s(w);
  const outer_image<T> image(w, s);
  const long together = image.together(a.count), pixels = w.out_height * w.out_width;
  const long channels = w.out_channels / w.groups, row_taps = s.rows * s.taps;
  scratch_parts parts(scratch);
  T* planes = parts.take<T>(aligned<T>(image.planes * together));
  T* gradients = parts.take<T>(aligned<T>(image.gradients * together));
  long* row = parts.take<long>(aligned<long>(larger(s.rows, s.tile_rows)));
  T* sum = parts.take<T>(0);
  for (long c = 0, k = 0; c < p.planes; ++c)
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; j += s.taps, ++k)
        row[k] = (c * p.height + i * w.dilation_h) * p.width + j * w.dilation_w;
  for (long k = s.rows; k < s.tile_rows; ++k) row[k] = row[0];  // of a tile that has more rows than there are

  outer::tile_args<T> q;
  q.source = planes;
  q.source_image = image.planes, q.gradient_image = image.gradients, q.gradient_block = pixels * width<T>;
  q.height = w.out_height, q.width = w.out_width;
  q.row_step = w.stride_h * p.width, q.column_step = w.stride_w;
  q.sum = sum;
  T* out = static_cast<T*>(a.out);
  __builtin_memset(out, 0, static_cast<std::size_t>(w.out_channels * row_taps) * sizeof(T));
  const long in_group = p.planes * w.height * w.width;
  for (long g = 0; g < w.groups; ++g, out += channels * row_taps) {
    for (long done = 0; done < a.count; done += together) {
      q.images = smaller(together, a.count - done);
      for (long n = 0; n < q.images; ++n) {
        const long at = (a.first + done + n) * w.groups + g;
        pad_planes(static_cast<const T*>(a.in) + at * in_group, w.height, w.width, p, planes + n * image.planes);
        const T* gradient = static_cast<const T*>(a.weight) + at * channels * pixels;
        for (long b = 0; b < s.blocks; ++b)
          blocked::gather_block(gradient + b * width<T> * pixels, pixels, channels - b * width<T>,
                                gradients + n * image.gradients + b * q.gradient_block);
      }
      // The last tile of rows or blocks may repeat sums of the one before.
      for (long v = 0; v < s.row_tiles(); ++v) {
        const long first_row = larger(0, smaller(v * s.tile_rows, s.rows - s.tile_rows));
        q.row = row + first_row;
        for (long u = 0; u < s.block_tiles(); ++u) {
          const long first_block = smaller(u * s.tile_blocks, s.blocks - s.tile_blocks);
          q.gradient = gradients + first_block * q.gradient_block;
          a.tile[0](&q);
          add_outer<T>({s.tile_rows, s.taps, s.tile_blocks, first_row, first_block, v * s.tile_rows,
                        u * s.tile_blocks * width<T>, s.rows, channels},
                       sum, out);
        }
      }
    }
  }
}

}  // namespace plain
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
