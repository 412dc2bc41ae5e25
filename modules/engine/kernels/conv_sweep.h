// Direct convolution in the plain layout and its gradients for stride 1: padding, tables of taps and
// pixels, tile loops.
#pragma once
#include "conv_direct.h"
#include "conv_matrix.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace plain {

enum role { forward, input_grad, weight_grad };

/// Indices of conv_plain_args::decision, set by `prepare`.
enum place {
  method,  // one of `methods`
  row_group,
  group_count,  // output rows of one product; number of such groups (the last may be shorter)
  tile_channels,
  tile_vectors  // direct: larger of the two tile heights; registers of pixels
};
enum methods {
  by_tiles,          // direct
  by_product,        // matrix product on the input in place (1x1)
  by_columns,        // im2col
  by_outer_products  // weight gradient, pixel by pixel
};

/// Sizes of a direct sweep, forward or input gradient.
struct sweep {
  padded source;
  long source_height, source_width;  // planes before padding
  long channels, height, width;      // results of one group
  long kernel_h, kernel_w, dilation_h, dilation_w;
  long stride_h, stride_w, pitch;  // pitch: row of the source, whose columns are grouped by x mod stride_w

  LAMINA_INLINE constexpr sweep(const conv_plain_args& a, role r) : sweep(a.w, r, rows_of(a)) {
    if (r == forward) source = padded_input(a);
    pitch = divide_up(source.width, stride_w);
  }
  LAMINA_INLINE constexpr sweep(const window& w, role r, long rows)
      : source(r == forward ? padded_input(w) : padded_result(w)),
        source_height(r == forward ? w.height : w.out_height),
        source_width(r == forward ? w.width : w.out_width),
        channels((r == forward ? w.out_channels : w.channels) / w.groups),
        height(r == forward ? rows : w.height),
        width(r == forward ? w.out_width : w.width),
        kernel_h(w.kernel_h),
        kernel_w(w.kernel_w),
        dilation_h(w.dilation_h),
        dilation_w(w.dilation_w),
        stride_h(r == forward ? w.stride_h : 1),
        stride_w(r == forward ? w.stride_w : 1),
        pitch(divide_up(source.width, stride_w)) {}
  /// Elements of the padded source.
  constexpr long elements() const { return source.planes * stride_w * source.height * pitch; }
  constexpr long taps() const { return source.planes * kernel_h * kernel_w; }
  template <class T> constexpr long positions() const { return height * divide_up(width, lamina::kernels::width<T>); }
};

template <class T> constexpr long tiles_bytes(const sweep& s) {
  return aligned<T>(s.elements() + 2 * width<T>) + aligned<long>(s.taps()) +
         aligned<direct::position>(s.positions<T>()) + aligned<T>(s.taps() * s.channels);
}

/// Weights of one group as [tile][taps in the order (i, source plane, j)][channels of the tile].
template <class T, role R> LAMINA_COMPACT void pack_direct(const sweep& s, const T* weight, long tile_channels, T* to) {
  const long area = s.kernel_h * s.kernel_w;
  const long tiles = divide_up(s.channels, tile_channels), base = s.channels / tiles, longer = s.channels % tiles;
  for (long t = 0, first = 0; t < tiles; ++t) {
    const long size = base + (t < longer);
    for (long i = 0; i < s.kernel_h; ++i)
      for (long c = 0; c < s.source.planes; ++c)
        for (long j = 0; j < s.kernel_w; ++j)
          LAMINA_SMALL for (long m = first; m < first + size; ++m)* to++ =
              R == forward ? weight[(m * s.source.planes + c) * area + i * s.kernel_w + j]
                           : weight[(c * s.channels + m) * area + area - 1 - (i * s.kernel_w + j)];
    first += size;
  }
}

template <class T, role R> LAMINA_COMPACT void run_tiles(const conv_plain_args& a, void* scratch) {
  const window& w = a.w;
  const sweep s(a, R);
  const padded& p = s.source;
  scratch_parts parts(scratch);
  T* planes = parts.take<T>(aligned<T>(s.elements() + 2 * width<T>));
  long* tap = parts.take<long>(aligned<long>(s.taps()));
  const long positions = s.positions<T>();
  auto* at = parts.take<direct::position>(aligned<direct::position>(positions));
  T* weights = parts.take<T>(aligned<T>(s.taps() * s.channels));
  for (long i = 0, k = 0; i < s.kernel_h; ++i)
    for (long c = 0; c < p.planes; ++c)
      for (long j = 0; j < s.kernel_w; ++j, ++k)
        tap[k] = ((c * s.stride_w + j * s.dilation_w % s.stride_w) * p.height + i * s.dilation_h) * s.pitch +
                 j * s.dilation_w / s.stride_w;
  for (long y = 0, k = 0; y < s.height; ++y)
    for (long x = 0; x < s.width; x += width<T>, ++k)
      at[k] = {y * s.stride_h * s.pitch + x, y * s.width + x, y * s.stride_h, smaller(width<T>, s.width - x)};

  const long vectors = a.decision[tile_vectors], row_taps = p.planes * s.kernel_w;
  const long tiles = divide_up(s.channels, a.decision[tile_channels]);
  const long base = s.channels / tiles, longer = s.channels % tiles;
  const long source_image = w.groups * p.planes * s.source_height * s.source_width;
  direct::tile_args<T> q;
  q.out_plane = (R == forward ? w.out_height : s.height) * s.width;
  const long out_image = w.groups * s.channels * q.out_plane, first = R == forward ? a.first_row * s.width : 0;
  q.low = static_cast<T>(a.low);
  q.high = static_cast<T>(a.high);
  q.clamp = a.clamp != 0 && R == forward;
  for (long g = 0; g < w.groups; ++g) {
    pack_direct<T, R>(s, static_cast<const T*>(a.weight) + g * s.taps() * s.channels, a.decision[tile_channels],
                      weights);
    for (long n = a.first; n < a.first + a.count; ++n) {
      const T* in = static_cast<const T*>(a.in) + n * source_image + g * p.planes * s.source_height * s.source_width;
      T* out = static_cast<T*>(a.out) + n * out_image + g * s.channels * q.out_plane + first;
      if (s.stride_w == 1) pad_planes(in, s.source_height, s.source_width, p, planes);
      else pad_phases(in, s.source_height, s.source_width, p, s.stride_w, s.pitch, planes);
      q.source = planes;
      for (long v = 0; v < positions; v += vectors) {
        q.at = at + smaller(v, positions - vectors);  // the last tile may overlap the one before
        // Kernel rows inside the map for at least one pixel of the tile.
        const long low = q.at[0].row, high = q.at[vectors - 1].row;
        const long begin = larger(0, divide_up(larger(0, p.top - high), s.dilation_h));
        const long end =
            larger(begin, smaller(s.kernel_h, divide_up(larger(0, s.source_height + p.top - low), s.dilation_h)));
        q.tap = tap + begin * row_taps;
        q.taps = (end - begin) * row_taps;
        const T* weight = weights;
        for (long t = 0, m = 0; t < tiles; ++t) {
          const long size = base + (t < longer);
          q.weight = weight + begin * row_taps * size;
          q.out = out + m * q.out_plane;
          q.bias = a.bias && R == forward ? static_cast<const T*>(a.bias) + g * s.channels + m : nullptr;
          a.tile[size > base ? 1 : 0](&q);
          weight += s.taps() * size;
          m += size;
        }
      }
    }
  }
}

/// Bytes of padded planes, of several images, that a correlation accumulates before it reduces its lanes.
inline constexpr long correlated_bytes = 512 * 1024;

template <class T> constexpr long correlated_images(const conv_plain_args& a) {
  return larger(1, smaller(a.count, correlated_bytes / padded_bytes<T>(padded_input(a.w))));
}
template <class T> constexpr long correlation_bytes(const conv_plain_args& a) {
  const sweep s(a.w, forward, a.w.out_height);
  return padded_bytes<T>(s.source) * correlated_images<T>(a) + aligned<long>(s.taps()) +
         aligned<direct::position>(s.positions<T>());
}

template <class T> void run_correlation(const conv_plain_args& a, void* scratch) {
  const window& w = a.w;
  const sweep s(w, forward, w.out_height);
  const padded& p = s.source;
  const long together = correlated_images<T>(a), taps = s.taps();
  scratch_parts parts(scratch);
  T* planes = parts.take<T>(padded_bytes<T>(p) * together);
  long* tap = parts.take<long>(aligned<long>(taps));
  auto* at = parts.take<direct::position>(0);
  for (long c = 0, k = 0; c < p.planes; ++c)
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; ++j, ++k)
        tap[k] = (c * p.height + i * w.dilation_h) * p.width + j * w.dilation_w;
  direct::correlation_args<T> q;
  q.at = at;
  q.positions = s.positions<T>();
  for (long y = 0, k = 0; y < w.out_height; ++y)
    for (long x = 0; x < w.out_width; x += width<T>, ++k)
      at[k] = {y * w.stride_h * p.width + x, y * w.out_width + x, y, smaller(width<T>, w.out_width - x)};

  const long in_group = p.planes * w.height * w.width, pixels = w.out_height * w.out_width;
  const long out_tiles = divide_up(s.channels, direct::max_outs), tap_tiles = divide_up(taps, direct::max_taps);
  q.source = planes;
  q.source_image = padded_bytes<T>(p) / static_cast<long>(sizeof(T));
  q.gradient_image = a.image_outs() * pixels;
  q.gradient_plane = pixels;
  q.out_row = taps;
  T* out = static_cast<T*>(a.out);
  __builtin_memset(out, 0, static_cast<std::size_t>(w.groups * s.channels * taps) * sizeof(T));
  for (long g = 0; g < w.groups; ++g) {
    for (long done = 0; done < a.count; done += together) {
      q.images = smaller(together, a.count - done);
      const long image = a.first + done;
      for (long n = 0; n < q.images; ++n)
        pad_planes(static_cast<const T*>(a.in) + ((image + n) * w.groups + g) * in_group, w.height, w.width, p,
                   planes + n * q.source_image);
      const T* gradient = static_cast<const T*>(a.weight) + image * q.gradient_image + g * s.channels * pixels;
      for (long v = 0, k = 0; v < tap_tiles; ++v) {
        const long base_taps = taps / tap_tiles, tap_count = base_taps + (v < taps % tap_tiles);
        for (long u = 0, m = 0; u < out_tiles; ++u) {
          const long base_outs = s.channels / out_tiles, out_count = base_outs + (u < s.channels % out_tiles);
          q.tap = tap + k;
          q.gradient = gradient + m * pixels;
          q.out = out + (g * s.channels + m) * taps + k;
          a.tile[(out_count > base_outs ? 2 : 0) + (tap_count > base_taps ? 1 : 0)](&q);
          m += out_count;
        }
        k += tap_count;
      }
    }
  }
}

}  // namespace plain
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
