// Weight gradient of a convolution as a sum of outer products: for each pixel, the gradients of a block of output
// channels (contiguous) times the input elements under the kernel. Registers are full for any width of the map.
#pragma once
#include "conv_matrix.h"
#include "conv_reorder.h"
#include "product_form.h"

// Tiles of outer products: X(blocks of output channels, rows of kernels, taps of a row), consistent with
// `outer::rows_of_tile`.
#if LAMINA_REGISTERS == 32
#define LAMINA_OUTERS(X) X(1, 8, 1) X(2, 8, 1) X(1, 8, 3) X(2, 4, 3) X(1, 4, 5) X(2, 2, 5)
#else
#define LAMINA_OUTERS(X) X(1, 8, 1) X(2, 4, 1) X(1, 4, 3) X(2, 2, 3) X(1, 2, 5) X(2, 1, 5)
#endif

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace outer {

template <class T> LAMINA_INLINE void add_sum(T* to, vec<T> sum) { store<T>(to, load(to) + sum); }

/// Sums over images and pixels of gradient[pixel][lane] * source[pixel + row + j] for some kernel rows. A form with
/// several numbers per step processes that many neighbors in a row at once; their gradients are packed in the lanes.
template <class Form> struct tile_args {
  const typename Form::x* source;         // padded planes
  const typename Form::number* gradient;  // [image][row][step][lanes] of a block of output channels
  long source_image, gradient_image, gradient_block;
  const long* row;  // offset of each row of the kernels in the padded planes
  long images, height, steps;
  long row_step, column_step;  // between rows of results, and between steps, in the padded planes
  typename Form::number* sum;  // [block][row][tap of a row][lanes], to which the tile adds
  long sum_block;
};

template <class Form, int Blocks, int Rows, int Taps> LAMINA_INLINE void tile(const tile_args<Form>& q) {
  using T = typename Form::number;
  vec<T> sum[Rows][Taps][Blocks];
  LAMINA_UNROLL for (int r = 0; r < Rows; ++r) LAMINA_UNROLL for (int j = 0; j < Taps; ++j)
      LAMINA_UNROLL for (int b = 0; b < Blocks; ++b) sum[r][j][b] = zero<T>();
  const long step = q.column_step;
  for (long n = 0; n < q.images; ++n) {
    const T* gradient = q.gradient + n * q.gradient_image;
    for (long y = 0; y < q.height; ++y) {
      const typename Form::x* row[Rows];
      LAMINA_UNROLL for (int r = 0; r < Rows; ++r) row[r] = q.source + n * q.source_image + y * q.row_step + q.row[r];
      LAMINA_NO_UNROLL for (long x = 0, at = 0; x < q.steps; ++x, at += step, gradient += width<T>) {
        vec<T> g[Blocks];
        LAMINA_UNROLL for (int b = 0; b < Blocks; ++b) g[b] = load(gradient + b * q.gradient_block);
        LAMINA_UNROLL for (int part = Form::parts - 1; part >= 0; --part) LAMINA_UNROLL for (int r = 0; r < Rows; ++r)
            LAMINA_UNROLL for (int j = 0; j < Taps; ++j) {
          const auto s = Form::everywhere(row[r] + at + j, part);
          LAMINA_UNROLL for (int b = 0; b < Blocks; ++b) sum[r][j][b] =
              Form::plus(sum[r][j][b], s, Form::weights(g[b], part));
        }
      }
    }
  }
  LAMINA_UNROLL for (int r = 0; r < Rows; ++r) LAMINA_UNROLL for (int j = 0; j < Taps; ++j)
      LAMINA_UNROLL for (int b = 0; b < Blocks; ++b)
          add_sum<T>(q.sum + b * q.sum_block + (r * Taps + j) * width<T>, sum[r][j][b]);
}

/// Kernel rows in a tile of one or two blocks, by the taps of a row.
constexpr long rows_of_tile(long blocks, long taps) {
  const long max = LAMINA_REGISTERS == 32 ? 8 : 4;
  if (taps == 1) return blocks == 1 ? 8 : max;
  return (taps == 5 ? max / 2 : max) / blocks;
}

}  // namespace outer

/// [half of the taps of a row][blocks of output channels - 1]
struct outer_tiles {
  void (*at[3][2])(const void*) noexcept {};
};

namespace plain {

/// Tiling of the sums of outer products: kernel rows by blocks of output channels.
struct outer_sizes {
  long taps;  // per row of a tile: all taps of a kernel row, or one
  long rows, blocks, tile_blocks, tile_rows;
  constexpr explicit outer_sizes(const window& w)
      : taps(w.dilation_w == 1 && (w.kernel_w == 3 || w.kernel_w == 5) ? w.kernel_w : 1),
        rows(w.channels / w.groups * w.kernel_h * (w.kernel_w / taps)),
        blocks(divide_up(w.out_channels / w.groups, blocked::block)),
        tile_blocks(smaller(blocks, 2)),
        tile_rows(outer::rows_of_tile(tile_blocks, taps)) {}
  constexpr long row_tiles() const { return divide_up(rows, tile_rows); }
  constexpr long block_tiles() const { return divide_up(blocks, tile_blocks); }
  // Rows and blocks of whole tiles, the last of which may be partly empty.
  constexpr long rows_held() const { return row_tiles() * tile_rows; }
  constexpr long blocks_held() const { return block_tiles() * tile_blocks; }
};

/// Bytes of padded planes and gradients, of several images, that a tile accumulates before adding to the result.
inline constexpr long outer_bytes = 512 * 1024;

template <class Form> struct outer_image {
  using number = typename Form::number;
  using x = typename Form::x;
  long planes, gradients;  // in elements
  long plane, block;       // buffers to pack from if steps take several numbers; else 0
  constexpr outer_image(const window& w, const outer_sizes& s)
      : planes(padded_bytes<number>(padded_input(w)) / static_cast<long>(sizeof(number))),
        gradients(s.blocks_held() * w.out_height * steps_of<Form>(w.out_width) * width<number>),
        plane(Form::numbers == 1 ? 0 : padded_input(w).height * padded_input(w).width + 2 * width<number>),
        block(Form::numbers == 1 ? 0 : w.out_height * w.out_width * width<number>) {}
  constexpr long together(long images) const {
    const long bytes = planes * static_cast<long>(sizeof(x)) + gradients * static_cast<long>(sizeof(number));
    return larger(1, smaller(images, outer_bytes / bytes));
  }
};
/// Blocks whose sums are held: all of them if images are added in several rounds.
constexpr long sums_held(const outer_sizes& s, bool at_once) { return at_once ? s.tile_blocks : s.blocks_held(); }
template <class Form> constexpr long outer_scratch_bytes(const conv_plain_args& a) {
  using T = typename Form::number;
  const outer_sizes s(a.w);
  const outer_image<Form> image(a.w, s);
  const long images = image.together(a.count);
  return aligned<typename Form::x>(image.planes * images) + aligned<T>(image.gradients * images) +
         aligned<T>(image.plane) + aligned<T>(image.block) + aligned<long>(s.rows_held()) +
         aligned<T>(sums_held(s, images >= a.count) * s.rows_held() * s.taps * width<T>);
}

/// Padded planes of an image in the format of a form; `plane` is a buffer for one plane.
template <class Form> LAMINA_COMPACT void pad_image(const typename Form::number* from, const window& w, const padded& p,
                                                    typename Form::number* plane, typename Form::x* to) {
  if constexpr (Form::numbers == 1) {
    pad_planes(from, w.height, w.width, p, to);
    static_cast<void>(plane);
  } else {
    const padded one{1, p.height, p.width, p.top, p.left};
    const long size = p.height * p.width;
    for (long c = 0; c < p.planes; ++c, to += size) {
      pad_planes(from + c * w.height * w.width, w.height, w.width, one, plane);
      Form::round(plane, size, to);
    }
    __builtin_memset(to, 0, static_cast<std::size_t>(2 * width<float>) * sizeof(typename Form::x));
  }
}
/// Gradients of a block of `count` output channels in the format of a form; `block` is a buffer for the unpacked ones.
template <class Form> LAMINA_COMPACT void gather_gradients(const typename Form::number* from, const window& w,
                                                           long count, typename Form::number* block,
                                                           typename Form::number* to) {
  using T = typename Form::number;
  const long pixels = w.out_height * w.out_width;
  if constexpr (Form::numbers == 1) {
    blocked::gather_block(from, pixels, count, to);
    static_cast<void>(block);
  } else {
    blocked::gather_block(from, pixels, count, block);
    for (long y = 0; y < w.out_height; ++y)
      for (long x = 0; x < w.out_width; x += 2, to += width<T>) {
        const T* pair = block + (y * w.out_width + x) * width<T>;
        store(to, bfloat_pairs(load(pair), x + 1 < w.out_width ? load(pair + width<T>) : zero<T>()));
      }
  }
}

template <class Form> void run_outer(const conv_plain_args& a, void* scratch) {
  using T = typename Form::number;
  using source = typename Form::x;
  const window& w = a.w;
  const padded p = padded_input(w);
  const outer_sizes s(w);
  const outer_image<Form> image(w, s);
  const long together = image.together(a.count), pixels = w.out_height * w.out_width;
  const long channels = w.out_channels / w.groups, row_taps = s.rows * s.taps;
  scratch_parts parts(scratch);
  source* planes = parts.take<source>(aligned<source>(image.planes * together));
  T* gradients = parts.take<T>(aligned<T>(image.gradients * together));
  T* plane = parts.take<T>(aligned<T>(image.plane));
  T* block = parts.take<T>(aligned<T>(image.block));
  long* row = parts.take<long>(aligned<long>(s.rows_held()));
  T* sums = parts.take<T>(0);
  for (long c = 0, k = 0; c < p.planes; ++c)
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; j += s.taps, ++k)
        row[k] = (c * p.height + i * w.dilation_h) * p.width + j * w.dilation_w;
  for (long k = s.rows; k < s.rows_held(); ++k) row[k] = row[0];

  outer::tile_args<Form> q;
  q.source = planes;
  q.source_image = image.planes, q.gradient_image = image.gradients,
  q.gradient_block = image.gradients / s.blocks_held();
  q.height = w.out_height, q.steps = steps_of<Form>(w.out_width);
  q.row_step = w.stride_h * p.width, q.column_step = w.stride_w * Form::numbers;
  q.sum_block = s.rows_held() * s.taps * width<T>;
  T* out = static_cast<T*>(a.out);
  const long in_group = p.planes * w.height * w.width;
  const bool at_once = together >= a.count;
  for (long g = 0; g < w.groups; ++g, out += channels * row_taps) {
    for (long done = 0; done < a.count; done += together) {
      q.images = smaller(together, a.count - done);
      for (long n = 0; n < q.images; ++n) {
        const long at = (a.first + done + n) * w.groups + g;
        pad_image<Form>(static_cast<const T*>(a.in) + at * in_group, w, p, plane, planes + n * image.planes);
        const T* gradient =
            static_cast<const T*>(a.weight) + ((a.first + done + n) * a.image_outs() + g * channels) * pixels;
        for (long b = 0; b < s.blocks_held(); ++b)
          gather_gradients<Form>(gradient + b * width<T> * pixels, w, channels - b * width<T>, block,
                                 gradients + n * image.gradients + b * q.gradient_block);
      }
      T* sum = sums;
      for (long u = 0; u < s.blocks_held(); u += s.tile_blocks) {
        if (done == 0) __builtin_memset(sum, 0, static_cast<std::size_t>(s.tile_blocks * q.sum_block) * sizeof(T));
        q.gradient = gradients + u * q.gradient_block;
        for (long v = 0; v < s.rows_held(); v += s.tile_rows) {
          q.row = row + v;
          q.sum = sum + v * s.taps * width<T>;
          a.tile[0](&q);
        }
        if (done + q.images == a.count)
          for (long b = u; b < smaller(u + s.tile_blocks, s.blocks); ++b)
            blocked::scatter_block(sum + (b - u) * q.sum_block, row_taps, channels - b * width<T>,
                                   out + b * width<T> * row_taps);
        if (!at_once) sum += s.tile_blocks * q.sum_block;
      }
    }
  }
}

}  // namespace plain
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
