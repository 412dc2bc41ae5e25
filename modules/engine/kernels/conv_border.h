// Corrects results whose window crosses the border if the filter has an infinite or NaN element.
//
// Padding contributes nothing to a sum, whatever the filter holds there.  Kernels that sum over explicit zeros turn a
// non-finite filter element into NaN there (finite ones do no harm).  After such a call, results that are NaN and whose
// window crosses the border are summed again over the positions inside the map.
#pragma once
#include "conv_blocked.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace border {

/// Whether all numbers in `count` elements of packed weights are finite.
template <class Form, class T = typename Form::number> LAMINA_APART bool all_finite(const T* p, long count) {
  vec<T> sum[4] = {zero<T>(), zero<T>(), zero<T>(), zero<T>()};
  const auto add = [&](int k, vec<T> lanes) __attribute__((always_inline)) {
    LAMINA_UNROLL for (int part = 0; part < Form::numbers; ++part) sum[k] =
        fma<T>(Form::number_of(lanes, part), zero<T>(), sum[k]);
  };
  long i = 0;
  LAMINA_NO_UNROLL for (; i + 4 * width<T> <= count; i += 4 * width<T>) LAMINA_UNROLL for (int k = 0; k < 4; ++k)
      add(k, load(p + i + k * width<T>));
  LAMINA_NO_UNROLL for (; i < count; i += width<T>)
      add(0, load(p + i, first<T>(static_cast<int>(blocked::smaller(count - i, width<T>)))));
  return reduce_add<T>((sum[0] + sum[1]) + (sum[2] + sum[3])) == T(0);
}
/// The same for a filter. Checks its results first if they are fewer: a non-finite filter would have given NaN over
/// padding. `alone`: no other thread computes a part of these results.
template <class Form, class T = typename Form::number>
LAMINA_INLINE bool all_finite(const T* filter, long filter_count, const T* result, long result_count, bool alone) {
  return (alone && result_count < filter_count && all_finite<unconverted<T>>(result, result_count)) ||
         all_finite<Form>(filter, filter_count);
}

/// The windows along one axis: result r has taps at positions r * stride - pad + i * dilation of an axis of `size`.
struct axis {
  long results, taps, stride, pad, dilation, size;
  constexpr blocked::taps_inside at(long r) const { return {r * stride - pad, 0, taps, dilation, size}; }
};
constexpr axis rows_of(const window& w) {
  return {w.out_height, w.kernel_h, w.stride_h, w.pad_h, w.dilation_h, w.height};
}
constexpr axis columns_of(const window& w) {
  return {w.out_width, w.kernel_w, w.stride_w, w.pad_w, w.dilation_w, w.width};
}

/// Restricts an axis to the results [first, first + count), unless count is 0.
constexpr axis part_of(axis all, long first, long count) {
  if (count) all.results = count, all.pad -= first * all.stride;
  return all;
}

/// Sums each result again that is NaN and whose window crosses the border: `result(y, x)` refers to it,
/// `product(c, i, j, row, column)` a term of the sum, and `finish(sum, y, x)` the result for a sum.
template <class Result, class Product, class Finish>
LAMINA_INLINE void repair(axis rows, axis columns, long channels, Result result, Product product, Finish finish) {
  for (long y = 0; y < rows.results; ++y) {
    const blocked::taps_inside h = rows.at(y);
    for (long x = 0; x < columns.results; ++x) {
      auto&& to = result(y, x);
      if (const decltype(finish(0.0, y, x)) now = to; now == now) continue;
      const blocked::taps_inside v = columns.at(x);
      if (h.last - h.first == rows.taps && v.last - v.first == columns.taps) continue;
      double sum = 0;
      for (long c = 0; c < channels && sum == sum; ++c)
        for (long i = h.first; i < h.last; ++i)
          for (long j = v.first; j < v.last; ++j)
            sum += static_cast<double>(product(c, i, j, y * rows.stride - rows.pad + i * rows.dilation,
                                               x * columns.stride - columns.pad + j * columns.dilation));
      to = finish(sum, y, x);
    }
  }
}

template <class T> LAMINA_INLINE T held(T x, T low, T high) { return x < low ? low : x > high ? high : x; }

/// Corrects a forward convolution in the plain layout.
template <class T> LAMINA_COMPACT void repair_forward(const conv_plain_args& a) {
  const window& w = a.w;
  const long ins = w.channels / w.groups, outs = w.out_channels / w.groups, area = w.kernel_h * w.kernel_w;
  const long in_plane = w.height * w.width, out_plane = w.out_height * w.out_width;
  const T* bias = static_cast<const T*>(a.bias);
  for (long m = a.first * w.out_channels; m < (a.first + a.count) * w.out_channels; ++m) {
    const long n = m / w.out_channels, o = m % w.out_channels;
    const T* in = static_cast<const T*>(a.in) + (n * w.channels + o / outs * ins) * in_plane;
    const T* weight = static_cast<const T*>(a.weight) + o * ins * area;
    T* out = static_cast<T*>(a.out) + m * out_plane + a.first_row * w.out_width;
    repair(
        part_of(rows_of(w), a.first_row, a.row_count), columns_of(w), ins,
        [&](long y, long x) -> T& { return out[y * w.out_width + x]; },
        [&](long c, long i, long j, long row, long column) {
          return in[c * in_plane + row * w.width + column] * weight[c * area + i * w.kernel_w + j];
        },
        [&](double sum, long, long) {
          const T y = static_cast<T>(bias ? sum + static_cast<double>(bias[o]) : sum);
          return a.clamp ? held(y, static_cast<T>(a.low), static_cast<T>(a.high)) : y;
        });
  }
}

/// Corrects the input gradient: a sweep of stride 1 over the result gradient with the kernel rotated by 180 degrees.
template <class T> LAMINA_COMPACT void repair_input_grad(const conv_plain_args& a) {
  const window& w = a.w;
  const long ins = w.channels / w.groups, outs = w.out_channels / w.groups, area = w.kernel_h * w.kernel_w;
  const long in_plane = w.height * w.width, out_plane = w.out_height * w.out_width;
  const axis rows{w.height, w.kernel_h, 1, w.dilation_h * (w.kernel_h - 1) - w.pad_h, w.dilation_h, w.out_height};
  const axis columns{w.width, w.kernel_w, 1, w.dilation_w * (w.kernel_w - 1) - w.pad_w, w.dilation_w, w.out_width};
  for (long m = a.first * w.channels; m < (a.first + a.count) * w.channels; ++m) {
    const long n = m / w.channels, c = m % w.channels, group = c / ins;
    const T* gradient = static_cast<const T*>(a.in) + (n * w.out_channels + group * outs) * out_plane;
    const T* weight = static_cast<const T*>(a.weight) + (group * outs * ins + c % ins) * area;
    T* out = static_cast<T*>(a.out) + m * in_plane;
    repair(
        rows, columns, outs, [&](long y, long x) -> T& { return out[y * w.width + x]; },
        [&](long o, long i, long j, long row, long column) {
          return gradient[o * out_plane + row * w.out_width + column] *
                 weight[o * ins * area + area - 1 - (i * w.kernel_w + j)];
        },
        [](double sum, long, long) { return static_cast<T>(sum); });
  }
}

/// Corrects the weight gradient: the window of an element are the results, its channels the images.
template <class T> LAMINA_COMPACT void repair_weight_grad(const conv_plain_args& a) {
  const window& w = a.w;
  const long ins = w.channels / w.groups, outs = w.out_channels / w.groups, area = w.kernel_h * w.kernel_w;
  const long in_plane = w.height * w.width, out_plane = w.out_height * w.out_width;
  const long image_results = a.image_outs() * out_plane;
  const axis rows{w.kernel_h, w.out_height, w.dilation_h, w.pad_h, w.stride_h, w.height};
  const axis columns{w.kernel_w, w.out_width, w.dilation_w, w.pad_w, w.stride_w, w.width};
  for (long m = 0; m < w.out_channels * ins; ++m) {
    const long o = m / ins, c = o / outs * ins + m % ins;
    const T* in = static_cast<const T*>(a.in) + (a.first * w.channels + c) * in_plane;
    const T* gradient = static_cast<const T*>(a.weight) + a.first * image_results + o * out_plane;
    T* out = static_cast<T*>(a.out) + m * area;
    repair(
        rows, columns, a.count, [&](long i, long j) -> T& { return out[i * w.kernel_w + j]; },
        [&](long n, long y, long x, long row, long column) {
          return in[n * w.channels * in_plane + row * w.width + column] *
                 gradient[n * image_results + y * w.out_width + x];
        },
        [](double sum, long, long) { return static_cast<T>(sum); });
  }
}

/// The windows of the results of a call in the blocked layout.
struct part_of_map {
  axis rows, columns;
  LAMINA_INLINE explicit part_of_map(const conv_blocked_args& a) : rows(rows_of(a.w)), columns(columns_of(a.w)) {
    const bool sequence = blocked::is_sequence(a.w);
    if (!sequence) rows = part_of(rows, a.first_piece, a.piece_count);
    else if (a.piece_count)
      columns = part_of(columns, a.first_piece * blocked::piece_pixels(a.w), blocked::pixels_of_part(a));
  }
};
/// A number of an image: of float32, or of bfloat16.
struct image_number {
  char* at;
  bool rounded;
  LAMINA_INLINE operator float() const {
    if (!rounded) return *reinterpret_cast<const float*>(at);
    return __builtin_bit_cast(float, *reinterpret_cast<const std::uint16_t*>(at) * 0x10000u);
  }
  LAMINA_INLINE void operator=(float x) const {
    if (!rounded) {
      *reinterpret_cast<float*>(at) = x;
      return;
    }
    const float half = to_raw<float>(from_bits(bfloat_bits(vec<float>(x))))[0];
    *reinterpret_cast<std::uint16_t*>(at) = static_cast<std::uint16_t>(__builtin_bit_cast(std::uint32_t, half) >> 16);
  }
};
/// Images of maps of `pixels` in channel blocks, of float32 or rounded.
struct image_blocks {
  char* at;
  long blocks, pixels;  // of an image
  bool rounded;
  LAMINA_INLINE image_blocks(const float* images, const window& w, bool rounded_images)
      : at(reinterpret_cast<char*>(const_cast<float*>(images))),
        blocks(blocked::divide_up(w.out_channels, blocked::block)),
        pixels(w.out_height * w.out_width),
        rounded(rounded_images) {}
  /// A pixel of a channel block.
  LAMINA_INLINE char* block(long image, long of, long pixel) const {
    return at + (blocked::maps_before(rounded, image, blocks) * pixels + pixel) * blocked::pixel_bytes +
           blocked::place_of(rounded, of, pixels);
  }
  LAMINA_INLINE image_number number(long image, long channel, long pixel) const {
    return {block(image, channel / blocked::block, pixel) + channel % blocked::block * (rounded ? 2 : 4), rounded};
  }
  LAMINA_INLINE vec<float> load(long image, long of, long pixel) const {
    return blocked::load_pixel(rounded, block(image, of, pixel));
  }
};

/// Whether a result of a call in the blocked layout is not finite whose window crosses the border.
LAMINA_COMPACT bool is_spoiled(const conv_blocked_args& a, const part_of_map& part) {
  using namespace blocked;
  const window& w = a.w;
  const auto& [rows, columns] = part;
  long first = 0, last = columns.results;  // results whose columns are all inside the map
  while (first < last && columns.at(first).first > 0) ++first;
  while (last > first && columns.at(last - 1).last < columns.taps) --last;
  const image_blocks out(a.out, w, a.rounded_out != 0);
  vec<float> sum = zero<float>();
  for (long m = a.first * out.blocks; m < (a.first + a.count) * out.blocks; ++m) {
    const char* row = out.block(m / out.blocks, m % out.blocks, a.first_piece * piece_pixels(w));
    for (long y = 0; y < rows.results; ++y, row += w.out_width * pixel_bytes) {
      const taps_inside h = rows.at(y);
      const bool crosses = h.last - h.first < rows.taps;
      for (long x = 0; x < columns.results; ++x) {
        if (!crosses && x == first) x = last;
        if (x < columns.results) sum = fma(load_pixel(out.rounded, row + x * pixel_bytes), zero<float>(), sum);
      }
    }
  }
  return reduce_add<float>(sum) != 0;
}

/// Corrects a convolution in the blocked layout of which is_spoiled(): `input(n, o, c, row, column)` is a number of image n
/// that output channel o reads, of input channel c < `channels`, and `product(o, c, i, j, x)` multiplies it by a number of
/// the filter.
template <class Input, class Product> LAMINA_COMPACT void repair_blocked(const conv_blocked_args& a,
                                                                         const part_of_map& part, long channels,
                                                                         Input input, Product product) {
  using namespace blocked;
  const window& w = a.w;
  const long first = a.first_piece * piece_pixels(w);
  const image_blocks out(a.out, w, a.rounded_out != 0), residual(a.residual, w, a.rounded_residual != 0);
  for (long m = a.first * w.out_channels; m < (a.first + a.count) * w.out_channels; ++m) {
    const long n = m / w.out_channels, o = m % w.out_channels;
    repair(
        part.rows, part.columns, channels,
        [&](long y, long x) { return out.number(n, o, first + y * w.out_width + x); },
        [&](long c, long i, long j, long row, long column) { return product(o, c, i, j, input(n, o, c, row, column)); },
        [&](double sum, long y, long x) {
          if (a.bias) sum += static_cast<double>(a.bias[o]);
          if (a.residual)
            sum += static_cast<double>(static_cast<float>(residual.number(n, o, first + y * w.out_width + x)));
          const float result = static_cast<float>(sum);
          return a.clamp ? held(result, a.low, a.high) : result;
        });
  }
}

/// A number of a packed filter times an input: number `part` of the lane at `weight`.
template <class Form> LAMINA_INLINE float product_of(const float* weight, long part, float x) {
  return to_raw<float>(Form::rounded(vec<float>(x)))[0] *
         to_raw<float>(Form::number_of(vec<float>(*weight), static_cast<int>(part)))[0];
}
/// The same for packed filters of the direct kernels, which have `filter_count` elements; depthwise or not.
template <class Form> LAMINA_COMPACT void repair_blocked(const conv_blocked_args& a, long filter_count) {
  using namespace blocked;
  const window& w = a.w;
  const part_of_map part(a);
  if (!is_spoiled(a, part) || all_finite<Form>(a.weight, filter_count)) return;
  const bool depthwise = w.groups > 1;
  const long step = a.planar_in && !depthwise ? 1 : block;
  const long kernel_row = steps_of<Form>(w.kernel_w * (depthwise ? 1 : step)) * block,
             weight_block = w.kernel_h * kernel_row;
  const long weight_column = (depthwise ? 1 : divide_up(w.channels, step)) * weight_block;
  const long plane = w.height * w.width, image = divide_up(w.channels, step) * step * plane;
  repair_blocked(
      a, part, depthwise ? 1 : w.channels,
      [&](long n, long o, long c, long row, long column) {
        const long channel = depthwise ? o : c;
        return a.in[n * image + (channel / step * plane + row * w.width + column) * step + channel % step];
      },
      [&](long o, long c, long i, long j, float x) {
        const long tap = depthwise ? j : j * step + c % step;
        const float* filter = a.weight + o / block * weight_column + o % block;
        return product_of<Form>(filter + c / step * weight_block + i * kernel_row + tap / Form::numbers * block,
                                tap % Form::numbers, x);
      });
}

}  // namespace border
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
