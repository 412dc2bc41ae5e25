// Winograd convolution F(2x2, 3x3) of 3x3 filters with stride 1 over channel-blocked buffers: 16 multiplications
// instead of 36.  Results come in tiles of 2x2: a transform of the 4x4 inputs of each tile, for each of its 16 points a
// product over the channels of many tiles (a 1x1 convolution), and the output transform.  As accurate as the direct
// sum, whose chains are longer.  An input that is not finite makes all results of the tiles that read it NaN.
// With dilation, the results of a tile and its inputs are as far apart as the taps.
// Filters of 1x3, as those of sequences, are transformed along rows alone: F(2, 3), 4 multiplications instead of 6.
// If a window allows `large_tiles`, tiles are 4x4, F(4x4, 3x3): 36 multiplications instead of 144, or 1x4: 6 instead of
// 12; and errors are about ten times as large.
// Source: Lavin, Gray, "Fast algorithms for convolutional neural networks" (2015), arXiv:1509.09308.
#pragma once
#include "casts.h"
#include "conv_blocked.h"
#include "conv_reorder.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace blocked {

/// Minimum number of tiles of an image: with fewer, reading the filters, 16 / 9 as large, costs more than is saved.
inline constexpr long winograd_tiles = 40;

/// Whether vectors are long enough; without it programs contain none of its code.
inline constexpr bool has_winograd = block >= 8;
/// Tiles along an axis, each of `size` results, which are `dilation` apart: as many tiles stand between each other.
constexpr long winograd_tiles_along(long results, long size, long dilation) {
  const long together = size * dilation;
  return results / together * dilation + smaller(results % together, dilation);
}
/// The first result of a tile along an axis.
constexpr long winograd_begin(long tile, long size, long dilation) {
  return dilation == 1 ? tile * size : tile / dilation * dilation * size + tile % dilation;
}
/// Rows of results of a tile with `size` columns.
constexpr long winograd_height(const window& w, long size) { return w.kernel_h == 1 ? 1 : size; }
constexpr long winograd_rows(const window& w, long size) {
  return winograd_tiles_along(w.out_height, winograd_height(w, size), w.dilation_h);
}
constexpr long winograd_columns(const window& w, long size) {
  return winograd_tiles_along(w.out_width, size, w.dilation_w);
}
/// Columns of results of a tile: 2, or 4 if allowed and if the image has enough tiles.
constexpr long winograd_size(const window& w) {
  return w.large_tiles && winograd_rows(w, 4) * winograd_columns(w, 4) >= winograd_tiles ? 4 : 2;
}
/// Points of a tile with `size` columns.
constexpr long winograd_points(const window& w, long size) {
  return (winograd_height(w, size) + w.kernel_h - 1) * (size + 2);
}
constexpr long winograd_points(const window& w) { return winograd_points(w, winograd_size(w)); }
constexpr long winograd_tiles_of(const window& w) {
  return winograd_rows(w, winograd_size(w)) * winograd_columns(w, winograd_size(w));
}
/// Taps inside the map along an axis, of all results together.
constexpr long taps_along(long results, long pad, long dilation, long size, long taps) {
  long count = 0;
  for (long t = 0; t < taps; ++t)
    count += larger(0, smaller(results, size + pad - t * dilation) - larger(0, pad - t * dilation));
  return count;
}
/// Whether the smaller tiles need clearly fewer products than the taps inside the map, which are all with few
/// exceptions unless they are far apart.
constexpr bool winograd_pays(const window& w) {
  if (w.dilation_h == 1 && w.dilation_w == 1) return true;
  const long products = winograd_rows(w, 2) * winograd_columns(w, 2) * winograd_points(w, 2);
  return 4 * products <= 3 * taps_along(w.out_height, w.pad_h, w.dilation_h, w.height, w.kernel_h) *
                             taps_along(w.out_width, w.pad_w, w.dilation_w, w.width, w.kernel_w);
}
/// Whether there are enough channels to repay the transforms; 1x3 filters save fewer products.
constexpr bool has_winograd_channels(const window& w) {
  return w.channels >= 2 * block && w.out_channels >= 2 * block &&
         (w.kernel_h == 3 || w.channels * w.out_channels >= 20 * (w.channels + w.out_channels));
}
constexpr bool takes_winograd(const window& w, bool planar) {
  return has_winograd && !planar && w.groups == 1 && (w.kernel_h == 3 || w.kernel_h == 1) && w.kernel_w == 3 &&
         w.stride_h == 1 && w.stride_w == 1 && has_winograd_channels(w) &&
         winograd_rows(w, 2) * winograd_columns(w, 2) >= winograd_tiles && winograd_pays(w);
}
constexpr int by_winograd(const window& w, bool planar) {
  return takes_winograd(w, planar) ? static_cast<int>(winograd_size(w)) : 0;
}
/// Tiles of a part of an image.
constexpr long tiles_of_part(const conv_blocked_args& a) {
  return a.piece_count ? a.piece_count : winograd_tiles_of(a.w);
}

/// Whether parts of an image are channels, which share the transforms of all tiles: if the filters, of which each part of
/// tiles would read all, are larger than inputs and products.
constexpr bool shares_winograd_inputs(const window& w) {
  return w.channels * w.out_channels > winograd_tiles_of(w) * (w.channels + w.out_channels);
}
/// The window with the channels of the whole image.
constexpr window whole_window(const conv_blocked_args& a) {
  window w = a.w;
  w.out_channels = a.image_outs();
  return w;
}

/// The 1x1 convolution of one point of `tiles` tiles, each a row of one pixel.
constexpr window winograd_product(const window& w, long tiles) {
  return {w.channels, tiles, 1, w.out_channels, tiles, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1};
}
/// Packed elements of the weights of one point.
template <class Form> constexpr long winograd_filter(const window& w) {
  return divide_up(w.channels, block) * steps_of<Form>(block) * divide_up(w.out_channels, block) * block;
}

/// weight [O, C, 3 or 1, 3] -> [point][O / block][C / block][block in][block out], or [block in / 2][block out] pairs.
/// Zeros beyond O and C.
template <class Form> LAMINA_APART void pack_winograd(const window& w, const filters& from, float* packed) {
  using number = packed_number<Form>;
  auto* to = reinterpret_cast<number*>(packed);
  const long out_blocks = divide_up(w.out_channels, block), in_blocks = divide_up(w.channels, block);
  const long point = out_blocks * in_blocks * block * block;
  constexpr long together = Form::numbers;
  constexpr double of_2[4][3] = {{1, 0, 0}, {0.5, 0.5, 0.5}, {0.5, -0.5, 0.5}, {0, 0, 1}};
  constexpr double of_4[6][3] = {{1. / 4, 0, 0},
                                 {-1. / 6, -1. / 6, -1. / 6},
                                 {-1. / 6, 1. / 6, -1. / 6},
                                 {1. / 24, 1. / 12, 1. / 6},
                                 {1. / 24, -1. / 12, 1. / 6},
                                 {0, 0, 1}};
  const long size = winograd_size(w), edge = size + 2, taps = 3 * w.kernel_h;
  const double(*g)[3] = size == 2 ? of_2 : of_4;
  for (long o = 0; o < out_blocks; ++o)
    for (long c = 0; c < in_blocks * block; ++c) {
      number* at = to + ((o * in_blocks + c / block) * block + c % block / together * together) * block + c % together;
      const long lanes = c < w.channels ? smaller(block, w.out_channels - o * block) : 0;
      double f[9][block], rows[6][3][block];
      for (long l = 0; l < block; ++l)
        for (int t = 0; t < taps; ++t) f[t][l] = l < lanes ? static_cast<double>(from(o * block + l, c, t)) : 0;
      if (w.kernel_h == 1) __builtin_memcpy(rows[0], f, sizeof rows[0]);
      else
        for (long i = 0; i < edge; ++i)
          for (int x = 0; x < 3; ++x)
            LAMINA_VECTORS for (long l = 0; l < block; ++l) rows[i][x][l] =
                g[i][0] * f[x][l] + g[i][1] * f[3 + x][l] + g[i][2] * f[6 + x][l];
      for (long i = 0; i < (w.kernel_h == 1 ? 1 : edge); ++i)
        for (long j = 0; j < edge; ++j)
          LAMINA_VECTORS for (long l = 0; l < block; ++l) at[(i * edge + j) * point + l * together] = convert<number>(
              static_cast<float>(rows[i][0][l] * g[j][0] + rows[i][1][l] * g[j][1] + rows[i][2][l] * g[j][2]));
    }
}

LAMINA_INLINE void winograd_input_line(const vec<float> (&d)[4], vec<float> (&to)[4]) {
  to[0] = d[0] - d[2];
  to[1] = d[1] + d[2];
  to[2] = d[2] - d[1];
  to[3] = d[1] - d[3];
}
LAMINA_INLINE void winograd_input_line(const vec<float> (&d)[6], vec<float> (&to)[6]) {
  const vec<float> two(2), four(4), five(5);
  const auto even = fma<float>(-four, d[2], d[4]), odd = fma<float>(-four, d[1], d[3]);
  const auto apart = d[4] - d[2], twice = two * (d[3] - d[1]);
  to[0] = fma<float>(four, d[0], fma<float>(-five, d[2], d[4]));
  to[1] = even + odd;
  to[2] = even - odd;
  to[3] = apart + twice;
  to[4] = apart - twice;
  to[5] = fma<float>(four, d[1], fma<float>(-five, d[3], d[5]));
}
/// Input transform of the inputs d of a tile; `point` is the stride of its points.
template <class Form, int Rows, int Edge>
LAMINA_INLINE void winograd_input(const vec<float> (&d)[Rows][Edge], typename Form::x* to, long point) {
  vec<float> t[Rows][Edge];
  LAMINA_UNROLL for (int j = 0; j < Edge; ++j) {
    vec<float> column[Rows], made[Rows];
    LAMINA_UNROLL for (int i = 0; i < Rows; ++i) column[i] = d[i][j];
    if constexpr (Rows > 1) winograd_input_line(column, made);
    else made[0] = column[0];
    LAMINA_UNROLL for (int i = 0; i < Rows; ++i) t[i][j] = made[i];
  }
  LAMINA_UNROLL for (int i = 0; i < Rows; ++i) {
    vec<float> made[Edge];
    winograd_input_line(t[i], made);
    LAMINA_UNROLL for (int j = 0; j < Edge; ++j) Form::put(to + (i * Edge + j) * point, made[j]);
  }
}

LAMINA_INLINE void winograd_output_line(const vec<float> (&p)[4], vec<float> (&to)[2]) {
  to[0] = p[0] + p[1] + p[2];
  to[1] = p[1] - p[2] - p[3];
}
LAMINA_INLINE void winograd_output_line(const vec<float> (&p)[6], vec<float> (&to)[4]) {
  const vec<float> two(2), four(4), eight(8);
  const auto near = p[1] + p[2], far = p[3] + p[4], near_apart = p[1] - p[2], far_apart = p[3] - p[4];
  to[0] = p[0] + near + far;
  to[1] = fma<float>(two, far_apart, near_apart);
  to[2] = fma<float>(four, far, near);
  to[3] = fma<float>(eight, far_apart, near_apart) + p[5];
}
/// Output transform of the points of a tile.
template <int Rows, int Size>
LAMINA_INLINE void winograd_output(const float* from, long point, vec<float> (&y)[Rows][Size]) {
  constexpr int edge = Size + 2, edge_rows = Rows == 1 ? 1 : edge;
  vec<float> t[Rows][edge];
  LAMINA_UNROLL for (int j = 0; j < edge; ++j) {
    vec<float> column[edge_rows], made[Rows];
    LAMINA_UNROLL for (int i = 0; i < edge_rows; ++i) column[i] = load(from + (i * edge + j) * point);
    if constexpr (Rows > 1) winograd_output_line(column, made);
    else made[0] = column[0];
    LAMINA_UNROLL for (int i = 0; i < Rows; ++i) t[i][j] = made[i];
  }
  LAMINA_UNROLL for (int i = 0; i < Rows; ++i) winograd_output_line(t[i], y[i]);
}

/// Tiles [first, first + count) of an image, in row-major order.
struct winograd_group {
  long first, count;
};

/// Transforms `blocks` channel blocks of an image.
template <class Form, int Rows, int Size> LAMINA_INLINE void winograd_inputs(const window& w, const winograd_group& g,
                                                                             const float* in, long blocks,
                                                                             typename Form::x* to, long point) {
  constexpr int edge = Size + 2, edge_rows = Rows == 1 ? 1 : edge;
  const long columns = winograd_columns(w, Size);
  const long down = w.dilation_h, along = w.dilation_w, reach_h = (edge_rows - 1) * down, reach_w = (edge - 1) * along;
  for (long c = 0; c < blocks; ++c, in += w.height * w.width * block)
    for (long t = 0; t < g.count; ++t, to += block) {
      const long y0 = winograd_begin((g.first + t) / columns, Rows, down) - w.pad_h,
                 x0 = winograd_begin((g.first + t) % columns, Size, along) - w.pad_w;
      vec<float> d[edge_rows][edge];
      if (y0 >= 0 && x0 >= 0 && y0 + reach_h < w.height && x0 + reach_w < w.width) {
        LAMINA_UNROLL for (int i = 0; i < edge_rows; ++i) LAMINA_UNROLL for (int j = 0; j < edge; ++j) d[i][j] =
            load(in + ((y0 + i * down) * w.width + x0 + j * along) * block);
      } else {
        LAMINA_UNROLL for (int i = 0; i < edge_rows; ++i) LAMINA_UNROLL for (int j = 0; j < edge; ++j) {
          const long y = y0 + i * down, x = x0 + j * along;
          const bool inside = y >= 0 && y < w.height && x >= 0 && x < w.width;
          d[i][j] = inside ? load(in + (y * w.width + x) * block) : zero<float>();
        }
      }
      winograd_input<Form>(d, to, point);
    }
}

template <int Rows, int Size> LAMINA_INLINE void winograd_outputs(const conv_blocked_args& a, const winograd_group& g,
                                                                  const float* from, long point, const float* residual,
                                                                  float* out) {
  const window& w = a.w;
  const long columns = winograd_columns(w, Size), blocks = divide_up(w.out_channels, block);
  const long down = w.dilation_h, along = w.dilation_w;
  const bool clamps = a.clamp != 0;
  const vec<float> low(clamps ? a.low : -infinite), high(clamps ? a.high : infinite);
  for (long o = 0; o < blocks; ++o) {
    const auto bias = a.bias ? load(a.bias + o * block) : zero<float>();
    for (long t = 0; t < g.count; ++t, from += block) {
      const long y0 = winograd_begin((g.first + t) / columns, Rows, down),
                 x0 = winograd_begin((g.first + t) % columns, Size, along);
      vec<float> made[Rows][Size];
      winograd_output(from, point, made);
      LAMINA_UNROLL for (int i = 0; i < Rows; ++i) LAMINA_UNROLL for (int j = 0; j < Size; ++j) {
        const long y = y0 + i * down, x = x0 + j * along;
        if (y >= w.out_height || x >= w.out_width) continue;
        const long at = ((o * w.out_height + y) * w.out_width + x) * block;
        if (residual) made[i][j] += load(residual + at);
        store<float>(out + at, clamp<float>(made[i][j] + bias, low, high));
      }
    }
  }
}

/// Numbers of the transforms of an image.
template <class Form> constexpr long winograd_input_size(const window& w) {
  return winograd_points(w) * divide_up(w.channels, block) * winograd_tiles_of(w) * block;
}
/// The transforms of maps of images, for parts by channels.
template <class Form, int Rows, int Size> LAMINA_APART void transform_maps(const conv_join_args& a) {
  const window& w = a.w;
  const long blocks = divide_up(w.channels, block), tiles = winograd_tiles_of(w);
  for (long m = a.first; m < a.first + a.count; ++m)
    winograd_inputs<Form, Rows, Size>(
        w, {0, tiles}, static_cast<const float*>(a.in) + m * w.height * w.width * block, 1,
        static_cast<typename Form::x*>(a.out) + m / blocks * winograd_input_size<Form>(w) + m % blocks * tiles * block,
        blocks * tiles * block);
}

/// All tiles of images [first, first + count), or those of a part.
template <class Form, int Rows, int Size>
LAMINA_APART void run_winograd_tiles(const conv_blocked_args& a, void* scratch) {
  constexpr long points = (Rows == 1 ? 1 : Rows + 2) * (Size + 2);
  const window& w = a.w;
  const long in_blocks = divide_up(w.channels, block), out_blocks = divide_up(w.out_channels, block);
  const long end = a.first_piece + tiles_of_part(a);
  const long together = a.decision[winograd_together], filter = winograd_filter<Form>(whole_window(a));
  const bool joined = a.joined_in != 0;
  for (long n = a.first; n < a.first + a.count; ++n) {
    const float* in = a.in + n * in_blocks * w.height * w.width * block;
    const long image = n * out_blocks * w.out_height * w.out_width * block;
    for (long t = a.first_piece; t < end; t += together) {
      const winograd_group g{t, smaller(together, end - t)};
      const long in_point = in_blocks * g.count * block, out_point = out_blocks * g.count * block;
      const auto* inputs = joined ? reinterpret_cast<const typename Form::x*>(a.in) + n * winograd_input_size<Form>(w)
                                  : static_cast<const typename Form::x*>(scratch);
      float* const products = static_cast<float*>(scratch) +
                              (joined ? 0 : points * in_point * static_cast<long>(sizeof(typename Form::x)) / 4);
      if (!joined)
        winograd_inputs<Form, Rows, Size>(w, g, in, in_blocks, static_cast<typename Form::x*>(scratch), in_point);
      conv_blocked_args product = a;
      product.w = winograd_product(w, g.count);
      product.clamp = 0;
      product.first_piece = product.piece_count = 0;
      product.bias = nullptr;
      product.decision[row_count] = product.decision[row_group] = divide_up(g.count, product.decision[row_pixels]);
      for (long p = 0; p < points; ++p) {
        product.weight = a.weight + p * filter;
        run_image<Form, sweep::flat, false>(product, inputs + p * in_point, nullptr, products + p * out_point, nullptr);
      }
      winograd_outputs<Rows, Size>(a, g, products, out_point, a.residual ? a.residual + image : nullptr, a.out + image);
    }
  }
}

/// Calls f with rows and columns of results of a tile, as constants.
template <class Form, class F> LAMINA_INLINE void with_winograd_tile(const window& w, F f) {
  if constexpr (has_winograd) {
    const bool flat = w.kernel_h == 1;
    if constexpr (Form::numbers == 1)
      if (winograd_size(w) == 4) return flat ? f.template operator()<1, 4>() : f.template operator()<4, 4>();
    return flat ? f.template operator()<1, 2>() : f.template operator()<2, 2>();
  }
}
template <class Form> LAMINA_INLINE void run_winograd(const conv_blocked_args& a, void* scratch) {
  with_winograd_tile<Form>(a.w, [&]<int Rows, int Size>() { run_winograd_tiles<Form, Rows, Size>(a, scratch); });
}
template <class Form> LAMINA_INLINE void join_winograd(const conv_join_args& a) {
  with_winograd_tile<Form>(a.w, [&]<int Rows, int Size>() { transform_maps<Form, Rows, Size>(a); });
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
