// int8 images in blocks of 16 channels, each number plus 128: products read words of four channels in place, and the
// sums of 16 filters become 16 contiguous bytes of a pixel. For processors with AVX-512 VNNI.
#pragma once
#include "quantized_conv.h"
#include "quantized_pool.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

#if defined(__AVX512BW__)

/// Channels of a block.
inline constexpr long block_channels = 16;
inline constexpr int plus_128 = 128;

/// Converts four registers of 16 sums to 64 bytes: saturated(round(v) + zero point) within [low, high], NaN as `low`.
struct block_bytes {
  __m512 max;
  __m512i zero_point, low;

  LAMINA_INLINE block_bytes(std::int32_t y_zero_point, std::int32_t least, std::int32_t greatest)
      : max(_mm512_set1_ps(static_cast<float>(greatest - y_zero_point))),
        zero_point(_mm512_set1_epi16(static_cast<std::int16_t>(y_zero_point + plus_128))),
        low(_mm512_set1_epi8(static_cast<char>(least + plus_128))) {}
  /// Clamps numbers above the range before rounding; saturating instructions clamp those below it, and NaN.
  LAMINA_INLINE __m512i rounded(__m512 v) const { return _mm512_cvtps_epi32(_mm512_min_ps(max, v)); }
  /// Interleaves four lanes of each register, which belong to one pixel in `block_depthwise`.
  LAMINA_INLINE __m512i packed(__m512i a, __m512i b, __m512i c, __m512i d) const {
    const __m512i first = _mm512_adds_epi16(_mm512_packs_epi32(a, b), zero_point),
                  last = _mm512_adds_epi16(_mm512_packs_epi32(c, d), zero_point);
    return _mm512_max_epu8(_mm512_packus_epi16(first, last), low);
  }
  /// Concatenates the registers.
  LAMINA_INLINE __m512i in_order(__m512i a, __m512i b, __m512i c, __m512i d) const {
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(order, packed(a, b, c, d));
  }
};
/// Stores the first `groups` of four groups of 16 bytes.
LAMINA_INLINE void put_groups(std::int8_t* to, __m512i v, long groups) {
  if (groups >= 4) write(to, v);
  else _mm512_mask_storeu_epi32(to, static_cast<__mmask16>((1u << (4 * groups)) - 1), v);
}
LAMINA_INLINE __m512 numbers_of_block(const std::int8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(read<__m128i>(p)));
}

/// Adds another tensor to the results, with the same steps as `quantized_add`.
struct added {
  float a_factor = 0, b_factor = 0, least = 0, a_zero_point = 0, b_zero_point = 0;
  block_bytes to{0, 0, 0};
  added() = default;
  LAMINA_INLINE added(const quantized_blocked_args& a)
      : a_factor(*a.a_scale / *a.sum_scale),
        b_factor(*a.b_scale / *a.sum_scale),
        least(static_cast<float>(a.to.low - *a.to.y_zero_point)),
        a_zero_point(static_cast<float>(*a.a_zero_point - *a.to.y_zero_point)),
        b_zero_point(static_cast<float>(*a.b_zero_point + plus_128)),
        to(*a.sum_zero_point, a.sum_low, a.sum_high) {}
  LAMINA_INLINE __m512i operator()(__m512 v, const block_bytes& from, const std::int8_t* other) const {
    const __m512 whole = _mm512_roundscale_ps(_mm512_min_ps(from.max, _mm512_max_ps(v, _mm512_set1_ps(least))), 0);
    const __m512 scaled_a = _mm512_mul_ps(_mm512_sub_ps(whole, _mm512_set1_ps(a_zero_point)), _mm512_set1_ps(a_factor));
    const __m512 scaled_b =
        _mm512_mul_ps(_mm512_sub_ps(numbers_of_block(other), _mm512_set1_ps(b_zero_point)), _mm512_set1_ps(b_factor));
    return to.rounded(_mm512_add_ps(scaled_a, scaled_b));
  }
};

/// Biases and factors of channel blocks, as in `factors_of`. `sums_at(block)`: address of the sums of its weights.
template <class Sums>
LAMINA_INLINE factors factors_of_blocks(const quantized_blocked_args& a, std::int8_t* memory, Sums sums_at) {
  auto* bias = reinterpret_cast<std::int32_t*>(memory);
  auto* factor = reinterpret_cast<float*>(memory + a.blocks * 64);
  const __m512i zero_point = _mm512_set1_epi32(*a.to.x_zero_point + by_fours::shift);
  const __m512 x_scale = _mm512_set1_ps(*a.to.x_scale), y_scale = _mm512_set1_ps(*a.to.y_scale);
  for (long k = 0; k < a.blocks; ++k) {
    const long o = (a.first_block + k) * block_channels, left = a.w.out_channels - o;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : (1u << left) - 1);
    const __m512 w_scale = a.to.w_scale_step ? _mm512_maskz_loadu_ps(mask, a.to.w_scale + o)
                                             : _mm512_maskz_mov_ps(mask, _mm512_set1_ps(*a.to.w_scale));
    write(factor + k * 16, _mm512_maskz_div_ps(mask, _mm512_mul_ps(x_scale, w_scale), y_scale));
    const __m512i taken = _mm512_mullo_epi32(zero_point, read<__m512i>(sums_at(a.first_block + k)));
    write(bias + k * 16, _mm512_maskz_sub_epi32(mask, _mm512_maskz_loadu_epi32(mask, a.to.bias + o), taken));
  }
  return {bias, factor};
}

// ---- products --------------------------------------------------------------------------------------------------------

/// Common parameters of the tiles of a convolution.
struct block_product {
  long words;
  const long* at;  // offsets of the words of a pixel
  long panel_step;
  block_bytes to;
  added more;
  bool far;  // whether the weights exceed the cache: then tiles prefetch the weights of later tiles
};
/// Whether the panels of a convolution exceed a part of L2.
constexpr bool is_far(const window& w, long panel_step) { return panels_of(w.out_channels) * panel_step > 256 * 1024; }
/// Number of words of a tile between prefetches of weights.
inline constexpr long words_between = 16;

/// MR pixels, at most 8, of NV blocks of filters with stride `out_step`. `b_at`: offset from a result to its addend.
template <int MR, int NV, bool Added> LAMINA_APART void block_tile(const block_product& of, const std::int8_t* const* x,
                                                                   const std::int8_t* panel, const std::int32_t* bias,
                                                                   const float* factor, std::int8_t* out, long out_step,
                                                                   long b_at, const std::int8_t* ahead, long lines) {
  __m512i s[MR][NV];
  const std::int8_t* row[MR];
  LAMINA_UNROLL
  for (int j = 0; j < NV; ++j) {
    const auto first = read<__m512i>(bias + 16 * j);
    LAMINA_UNROLL
    for (int i = 0; i < MR; ++i) s[i][j] = first;
  }
  LAMINA_UNROLL
  for (int i = 0; i < MR; ++i) row[i] = x[i];
  const long *at = of.at, step = of.panel_step, words = of.words;
  LAMINA_NO_UNROLL
  for (long first = 0; first < words; first += words_between) {
    LAMINA_NO_UNROLL
    for (long i = 0; i < lines; ++i, ahead += 64) __builtin_prefetch(ahead, 0, 2);
    steps<MR * NV>(words < first + words_between ? words - first : words_between,
                   [&](long n) __attribute__((always_inline)) {
                     const long k = first + n, place = at[k];
                     __m512i w[NV];
                     LAMINA_UNROLL
                     for (int j = 0; j < NV; ++j) w[j] = by_fours::filters(panel + k * 64 + j * step);
                     LAMINA_UNROLL
                     for (int i = 0; i < MR; ++i) {
                       const auto all = by_fours::everywhere(row[i] + place);
                       LAMINA_UNROLL
                       for (int j = 0; j < NV; ++j) s[i][j] = by_fours::plus(s[i][j], all, w[j]);
                     }
                   });
  }
  LAMINA_UNROLL
  for (int j = 0; j < NV; ++j) {
    const auto f = read<__m512>(factor + 16 * j);
    const auto number = [&](int i) __attribute__((always_inline)) {
      if (i >= MR) return _mm512_setzero_si512();
      const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(s[i < MR ? i : 0][j]), f);
      if constexpr (Added) return of.more(v, of.to, out + b_at + j * out_step + i * 16);
      else return of.to.rounded(v);
    };
    const block_bytes& to = Added ? of.more.to : of.to;
    LAMINA_UNROLL
    for (int i = 0; i < MR; i += 4)
      put_groups(out + j * out_step + i * 16, to.in_order(number(i), number(i + 1), number(i + 2), number(i + 3)),
                 MR - i);
  }
}

/// Computes `pixels` pixels, with inputs at x[], for `blocks` blocks of filters.
template <bool Added> LAMINA_INLINE void block_tiles(const block_product& of, long pixels, const std::int8_t* const* x,
                                                     long blocks, const std::int8_t* panel, const factors& by,
                                                     std::int8_t* out, long out_step, long b_at) {
  const long tiles = parts_of(pixels, 8), iterations = tiles * parts_of(of.words, words_between),
             lines = of.far ? parts_of(2 * of.panel_step, 64 * iterations) : 0;
  const auto run = [&]<int NV>(long k, std::integral_constant<int, NV>) __attribute__((always_inline)) {
    const std::int8_t *weights = panel + k * of.panel_step, *ahead = weights + 2 * of.panel_step;
    even_parts(pixels, 8, [&](long p, int tall) __attribute__((always_inline)) {
      with_rows<8>(tall, [&]<int MR>() __attribute__((always_inline)) {
        block_tile<MR, NV, Added>(of, x + p, weights, by.bias + k * 16, by.factor + k * 16, out + k * out_step + p * 16,
                                  out_step, b_at, ahead, lines);
      });
      ahead += lines * 64 * (iterations / tiles);
    });
  };
  long k = 0;
  for (; k + 2 <= blocks; k += 2) run(k, std::integral_constant<int, 2>());
  if (k < blocks) run(k, std::integral_constant<int, 1>());
}

/// Layout of blocked images: words are read in place, or from a padded copy.
struct block_layout {
  static constexpr long band_bytes = 160 * 1024, pixels_at_once = 56;  // includes a whole map of 7x7
  long channel_blocks, planes, words, panel_step;
  bool padded;
  long band, pitch, rows, plane;  // output rows; pixels per row and bytes per block, of the copy or of the image
  std::size_t image, at, factors, bytes;

  block_layout(const window& w, long blocks) {
    channel_blocks = parts_of(w.channels, block_channels);
    planes = parts_of(w.channels, 4);
    words = planes * w.kernel_h * w.kernel_w;
    panel_step = words * 64 + 64;
    const long more_h = w.pad_h + w.more_h, more_w = w.pad_w + w.more_w, span = (w.kernel_h - 1) * w.dilation_h + 1;
    padded = w.pad_h > 0 || w.pad_w > 0 || more_h > 0 || more_w > 0;
    if (!padded) band = w.out_height, pitch = w.width, rows = w.height, plane = w.height * w.width * 16;
    else {
      pitch = w.width + w.pad_w + (more_w > 0 ? more_w : 0);
      const long row = pitch * 16 * channel_blocks, all = ((w.out_height - 1) * w.stride_h + span) * row;
      const long bands = parts_of(all, band_bytes);
      band = parts_of(w.out_height, bands < w.out_height ? bands : w.out_height);
      rows = (band - 1) * w.stride_h + span;
      plane = (rows * pitch * 16 + 63) / 128 * 128 + 64;  // an odd number of lines avoids cache conflicts
    }
    image = 0;
    at = padded ? whole_lines(channel_blocks * plane + 64) : 0;
    factors = at + whole_lines(words * 8);
    bytes = factors + static_cast<std::size_t>(blocks) * 128;
  }
};

/// Copies rows [top, top + count) of a block of an image; padding is filled with `zero`.
LAMINA_INLINE void copy_padded(const window& w, const std::int8_t* from, long top, long count, long pitch,
                               std::int8_t zero, std::int8_t* to) {
  const auto fill = [&](std::int8_t* p, long pixels) __attribute__((always_inline)) {
    for (long i = 0; i < pixels; ++i) write(p + i * 16, bytes16(zero));
  };
  for (long r = 0; r < count; ++r, to += pitch * 16) {
    const long y = top + r;
    if (y < 0 || y >= w.height) {
      fill(to, pitch);
      continue;
    }
    fill(to, w.pad_w);
    const std::int8_t* row = from + y * w.width * 16;
    std::int8_t* middle = to + w.pad_w * 16;
    const long used = pitch - w.pad_w < w.width ? pitch - w.pad_w : w.width;
    long i = 0;
    for (; i + 4 <= used; i += 4) write(middle + i * 16, read<__m512i>(row + i * 16));
    for (; i < used; ++i) write(middle + i * 16, read<bytes16>(row + i * 16));
    fill(middle + used * 16, pitch - w.pad_w - used);
  }
}

/// Computes output rows [first, first + count) from words of pixels at `base`; strides `row_step` and `column_step`.
template <bool Added> LAMINA_INLINE void rows_of_blocks(const quantized_blocked_args& a, const block_product& of,
                                                        const std::int8_t* base, long row_step, long column_step,
                                                        long first, long count, const std::int8_t* panel,
                                                        const factors& by, std::int8_t* out, long b_at) {
  const window& w = a.w;
  const std::int8_t* x[block_layout::pixels_at_once];
  const long all = count * w.out_width, out_step = w.out_height * w.out_width * 16;
  for (long begin = 0, row = 0, column = 0; begin < all; begin += block_layout::pixels_at_once) {
    const long pixels = all - begin < block_layout::pixels_at_once ? all - begin : block_layout::pixels_at_once;
    for (long p = 0; p < pixels; ++p) {
      x[p] = base + row * row_step + column * column_step;
      if (++column == w.out_width) column = 0, ++row;
    }
    block_tiles<Added>(of, pixels, x, a.blocks, panel, by, out + (first * w.out_width + begin) * 16, out_step, b_at);
  }
}

/// The first result of a part of an image.
LAMINA_INLINE std::int8_t* block_results(const quantized_blocked_args& a, long image) {
  const long blocks = parts_of(a.w.out_channels, block_channels);
  return a.out + (image * blocks + a.first_block) * a.w.out_height * a.w.out_width * 16;
}

template <bool Added> LAMINA_INLINE void block_conv(const quantized_blocked_args& a, std::int8_t* memory) {
  const window& w = a.w;
  const block_layout has(w, a.blocks);
  const auto zero = static_cast<std::int8_t>(*a.to.x_zero_point ^ by_fours::flip);
  auto* at = reinterpret_cast<long*>(memory + has.at);
  for (long p = 0, k = 0; p < has.planes; ++p)
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; ++j, ++k)
        at[k] = p / 4 * has.plane + p % 4 * 4 + (i * w.dilation_h * has.pitch + j * w.dilation_w) * 16;
  const factors by = factors_of_blocks(a, memory + has.factors, [&](long block) __attribute__((always_inline)) {
    return a.packed + (block + 1) * has.panel_step - 64;
  });
  const block_product of{has.words,
                         at,
                         has.panel_step,
                         {*a.to.y_zero_point, a.to.low, a.to.high},
                         Added ? added(a) : added(),
                         is_far(w, has.panel_step)};
  const std::int8_t* panel = a.packed + a.first_block * has.panel_step;
  const long row_step = w.stride_h * has.pitch * 16, column_step = w.stride_w * 16;
  for (long n = a.first; n < a.first + a.count; ++n) {
    const std::int8_t* in = a.in + n * has.channel_blocks * w.height * w.width * 16;
    for (long first = a.first_row, end = a.first_row + a.rows; first < end; first += has.band) {
      const long count = end - first < has.band ? end - first : has.band;
      const std::int8_t* base = in + first * row_step;
      if (has.padded) {
        const long used = (count - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1;
        for (long c = 0; c < has.channel_blocks; ++c)
          copy_padded(w, in + c * w.height * w.width * 16, first * w.stride_h - w.pad_h, used, has.pitch, zero,
                      memory + has.image + c * has.plane);
        base = memory + has.image;
      }
      rows_of_blocks<Added>(a, of, base, row_step, column_step, first, count, panel, by, block_results(a, n),
                            a.b - a.out);
    }
  }
}

/// Convolution of images of few channels in plain layout.
template <bool Added> LAMINA_INLINE void block_conv_of_plain(const quantized_blocked_args& a, std::int8_t* memory) {
  using run = conv_run<by_fours, finish>;
  const window& w = a.w;
  const conv_layout<by_fours> has(w, true);
  const std::int8_t zero = *a.to.x_zero_point;
  prepare_scratch(has, w, zero, memory);
  const long panel_step = has.panel_step(), image = w.channels * w.height * w.width;
  const factors by = factors_of_blocks(a, memory + has.bytes, [&](long block) __attribute__((always_inline)) {
    return a.packed + (block + 1) * panel_step - panel_columns * 4;
  });
  const block_product of{has.words,
                         reinterpret_cast<const long*>(memory + has.at),
                         panel_step,
                         {*a.to.y_zero_point, a.to.low, a.to.high},
                         Added ? added(a) : added(),
                         false};
  for (long n = a.first; n < a.first + a.count; ++n) {
    const run cut{w,
                  has,
                  w.channels,
                  has.filters,
                  memory,
                  zero,
                  a.in + n * image,
                  a.in + (a.first + a.count) * image,
                  a.packed,
                  false,
                  nullptr,
                  0,
                  0,
                  finish(a.to),
                  by};
    for (long first = a.first_row, end = a.first_row + a.rows; first < end; first += has.band) {
      const long count = end - first < has.band ? end - first : has.band;
      cut.cut_band(first, count);
      rows_of_blocks<Added>(a, of, memory + has.image, has.pitch * 4, 4, first, count,
                            a.packed + a.first_block * panel_step, by, block_results(a, n), a.b - a.out);
    }
  }
}

LAMINA_INLINE void pack_blocks(const quantized_blocked_pack_args& a) {
  const window& w = a.w;
  const block_layout has(w, 0);
  const long taps = w.kernel_h * w.kernel_w;
  std::memset(a.packed, 0, static_cast<std::size_t>(panels_of(w.out_channels) * has.panel_step));
  const long size = w.channels * taps;
  for (long o = 0; o < w.out_channels; ++o) {
    const std::int8_t* filter = a.weight + o * size;
    std::int8_t *panel = a.packed + o / 16 * has.panel_step, *to = panel + o % 16 * 4;
    for (long c = 0; c < w.channels; c += 4) {
      const long count = w.channels - c < 4 ? w.channels - c : 4;
      for (long t = 0; t < taps; ++t, to += 64)
        if (count == 4) {
          const std::int8_t* from = filter + c * taps + t;
          write(to, bytes<4>{from[0], from[taps], from[2 * taps], from[3 * taps]});
        } else
          for (long k = 0; k < count; ++k) to[k] = filter[(c + k) * taps + t];
    }
    std::int32_t sum = 0;
    LAMINA_IN_PAIRS for (long k = 0; k < size; ++k) sum += filter[k];
    write(panel + has.panel_step - 64 + o % 16 * 4, sum);
  }
}

// ---- depthwise -------------------------------------------------------------------------------------------------------

/// Four taps of a kernel row at a time: bytes of four pixels are combined to words of one channel, in the lanes of four
/// registers, each with four channels of four results.
struct block_depthwise_layout {
  static constexpr long band_bytes = 24 * 1024;
  long groups, words, span, band, pitch, rows;  // groups of four taps per kernel row; registers of words per block
  std::size_t bytes;

  explicit block_depthwise_layout(const window& w) {
    groups = parts_of(w.kernel_w, 4);
    words = w.kernel_h * groups;
    span = (w.kernel_h - 1) * w.dilation_h + 1;
    const long more = w.pad_w + w.more_w;
    pitch = w.width + w.pad_w + (more > 0 ? more : 0);
    band = (band_bytes / (pitch * 16) - span) / w.stride_h + 1;
    band = band < 1 ? 1 : band > w.out_height ? w.out_height : band;
    rows = (band - 1) * w.stride_h + span;
    // Includes the bytes that the last results of a row read past it.
    bytes = whole_lines((rows * pitch + 8 * w.stride_w + w.kernel_w * w.dilation_w) * 16);
  }
  /// Size in bytes of the packed weights of a block: words, and a sum for each channel.
  long packed() const { return words * 64 + 64; }
  static bool fits(const window& w) {
    return w.groups == w.channels && w.out_channels == w.channels && w.groups > 1 &&
           (w.stride_w == 1 || (w.stride_w == 2 && w.dilation_w == 1));
  }
};

LAMINA_INLINE void pack_block_depthwise(const quantized_blocked_pack_args& a) {
  const window& w = a.w;
  const block_depthwise_layout has(w);
  std::memset(a.packed, 0, static_cast<std::size_t>(panels_of(w.channels) * has.packed()));
  for (long c = 0; c < w.channels; ++c) {
    std::int8_t* to = a.packed + c / 16 * has.packed();
    std::int32_t sum = 0;
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; ++j) {
        const std::int8_t v = a.weight[(c * w.kernel_h + i) * w.kernel_w + j];
        to[(i * has.groups + j / 4) * 64 + c % 16 * 4 + j % 4] = v;
        sum += v;
      }
    write(to + has.words * 64 + c % 16 * 4, sum);
  }
}

/// Loads four pixels, Stride apart.
template <int Stride, int Tap> LAMINA_INLINE __m512i four_pixels(const std::int8_t* p, long dilation) {
  if constexpr (Stride == 1) return read<__m512i>(p + Tap * dilation * 16);
  else {
    const auto first = read<__m512i>(p + Tap / 2 * 32), last = read<__m512i>(p + Tap / 2 * 32 + 64);
    return _mm512_shuffle_i32x4(first, last, Tap % 2 ? 0xdd : 0x88);
  }
}

template <int Stride, bool Added> struct block_depthwise_run {
  const window& w;
  block_depthwise_layout has;
  block_bytes to;
  added more;

  /// Adds the products of `Taps` taps of a kernel row, at most four.
  template <int Taps> LAMINA_INLINE void add(__m512i (&s)[4], const std::int8_t* p, const std::int8_t* weights) const {
    const __m512i a = four_pixels<Stride, 0>(p, w.dilation_w);
    const __m512i b = Taps > 1 ? four_pixels<Stride, (Taps > 1 ? 1 : 0)>(p, w.dilation_w) : a;
    __m512i first = _mm512_unpacklo_epi8(a, b), last = _mm512_unpackhi_epi8(a, b);
    __m512i next_first = first, next_last = last;
    if constexpr (Taps > 2) {
      const __m512i c = four_pixels<Stride, 2>(p, w.dilation_w);
      const __m512i d = Taps > 3 ? four_pixels<Stride, (Taps > 3 ? 3 : 2)>(p, w.dilation_w) : c;
      next_first = _mm512_unpacklo_epi8(c, d), next_last = _mm512_unpackhi_epi8(c, d);
    }
    const __m512i x[4] = {_mm512_unpacklo_epi16(first, next_first), _mm512_unpackhi_epi16(first, next_first),
                          _mm512_unpacklo_epi16(last, next_last), _mm512_unpackhi_epi16(last, next_last)};
    LAMINA_UNROLL
    for (int v = 0; v < 4; ++v)
      s[v] = by_fours::plus(s[v], x[v], _mm512_broadcast_i32x4(read<__m128i>(weights + v * 16)));
  }
  LAMINA_INLINE void add_any(long taps, __m512i (&s)[4], const std::int8_t* p, const std::int8_t* weights) const {
    if (taps >= 4) add<4>(s, p, weights);
    else if (taps == 3) add<3>(s, p, weights);
    else if (taps == 2) add<2>(s, p, weights);
    else add<1>(s, p, weights);
  }
  /// Computes a row of results; `from`: the first byte that the first result reads.
  template <bool Three> LAMINA_INLINE void row(const std::int8_t* from, long pitch, const std::int8_t* weights,
                                               const std::int32_t* bias, const float* factor, std::int8_t* out,
                                               long b_at) const {
    __m512 f[4];
    __m512i first[4];
    LAMINA_UNROLL
    for (int v = 0; v < 4; ++v) {
      f[v] = _mm512_broadcast_f32x4(read<__m128>(factor + v * 4));
      first[v] = _mm512_broadcast_i32x4(read<__m128i>(bias + v * 4));
    }
    const long row_step = w.dilation_h * pitch * 16;
    LAMINA_NO_UNROLL
    for (long x = 0; x < w.out_width; x += 4) {
      __m512i s[4] = {first[0], first[1], first[2], first[3]};
      const std::int8_t* p = from + x * Stride * 16;
      if constexpr (Three) {
        LAMINA_UNROLL
        for (int i = 0; i < 3; ++i) add<3>(s, p + i * row_step, weights + i * 64);
      } else
        for (long i = 0, k = 0; i < w.kernel_h; ++i)
          for (long j = 0; j < w.kernel_w; j += 4, ++k)
            add_any(w.kernel_w - j, s, p + i * row_step + j * w.dilation_w * 16, weights + k * 64);
      const long pixels = w.out_width - x;
      std::int8_t* results = out + x * 16;
      if constexpr (!Added) {
        LAMINA_UNROLL
        for (int v = 0; v < 4; ++v) s[v] = to.rounded(_mm512_mul_ps(_mm512_cvtepi32_ps(s[v]), f[v]));
        put_groups(results, to.packed(s[0], s[1], s[2], s[3]), pixels);
      } else {
        // The addend is stored pixel by pixel: transposes it to the order of the sums.
        alignas(64) std::int8_t other[64], turned[64];
        std::memcpy(other, results + b_at, static_cast<std::size_t>(pixels < 4 ? pixels : 4) * 16);
        for (int v = 0; v < 4; ++v)
          for (int i = 0; i < 4; ++i) std::memcpy(turned + v * 16 + i * 4, other + i * 16 + v * 4, 4);
        for (int v = 0; v < 4; ++v) s[v] = more(_mm512_mul_ps(_mm512_cvtepi32_ps(s[v]), f[v]), to, turned + v * 16);
        put_groups(results, more.to.packed(s[0], s[1], s[2], s[3]), pixels);
      }
    }
  }
  LAMINA_INLINE void run(const quantized_blocked_args& a, std::int8_t* memory, const factors& by) const {
    const auto zero = static_cast<std::int8_t>(*a.to.x_zero_point ^ by_fours::flip);
    const long blocks = parts_of(w.channels, block_channels), map = w.height * w.width * 16;
    const bool three = w.kernel_h == 3 && w.kernel_w == 3;
    for (long n = a.first; n < a.first + a.count; ++n)
      for (long k = 0; k < a.blocks; ++k) {
        const std::int8_t *in = a.in + (n * blocks + a.first_block + k) * map,
                          *weights = a.packed + (a.first_block + k) * has.packed();
        std::int8_t* out = block_results(a, n) + k * w.out_height * w.out_width * 16;
        for (long first = a.first_row, end = a.first_row + a.rows; first < end; first += has.band) {
          const long count = end - first < has.band ? end - first : has.band;
          copy_padded(w, in, first * w.stride_h - w.pad_h, (count - 1) * w.stride_h + has.span, has.pitch, zero,
                      memory);
          for (long y = 0; y < count; ++y) {
            const std::int8_t* from = memory + y * w.stride_h * has.pitch * 16;
            std::int8_t* to_row = out + (first + y) * w.out_width * 16;
            if (three) row<true>(from, has.pitch, weights, by.bias + k * 16, by.factor + k * 16, to_row, a.b - a.out);
            else row<false>(from, has.pitch, weights, by.bias + k * 16, by.factor + k * 16, to_row, a.b - a.out);
          }
        }
      }
  }
};
template <int Stride, bool Added>
LAMINA_APART void block_depthwise(const quantized_blocked_args& a, std::int8_t* memory) {
  const block_depthwise_layout has(a.w);
  const factors by = factors_of_blocks(a, memory + has.bytes, [&](long block) __attribute__((always_inline)) {
    return a.packed + (block + 1) * has.packed() - 64;
  });
  block_depthwise_run<Stride, Added>{a.w, has, {*a.to.y_zero_point, a.to.low, a.to.high}, Added ? added(a) : added()}
      .run(a, memory, by);
}

// ---- the functions ---------------------------------------------------------------------------------------------------

LAMINA_INLINE std::size_t blocked_packed(const window& w, bool plain_in) {
  const long panels = panels_of(w.out_channels);
  if (block_depthwise_layout::fits(w)) return static_cast<std::size_t>(panels * block_depthwise_layout(w).packed());
  if (plain_in) return static_cast<std::size_t>(conv_layout<by_fours>(w, true).packed_bytes());
  return static_cast<std::size_t>(panels * block_layout(w, 0).panel_step);
}
LAMINA_INLINE std::size_t blocked_scratch(const quantized_blocked_args& a) {
  const std::size_t factors = static_cast<std::size_t>(a.blocks) * 128;
  if (block_depthwise_layout::fits(a.w)) return block_depthwise_layout(a.w).bytes + factors;
  if (a.plain_in) return whole_lines(static_cast<long>(conv_layout<by_fours>(a.w, true).bytes)) + factors;
  return block_layout(a.w, a.blocks).bytes;
}
template <bool Added> LAMINA_INLINE void any_blocked_conv(const quantized_blocked_args& a, std::int8_t* memory) {
  if (block_depthwise_layout::fits(a.w)) {
    if (a.w.stride_w == 1) block_depthwise<1, Added>(a, memory);
    else block_depthwise<2, Added>(a, memory);
  } else if (a.plain_in) block_conv_of_plain<Added>(a, memory);
  else block_conv<Added>(a, memory);
}

/// Conversion from plain to blocked layout: transposes 16 channels by 16 pixels.
LAMINA_INLINE void plain_to_blocks(const reorder_args& a) {
  const auto* in = static_cast<const std::int8_t*>(a.in);
  auto* out = static_cast<std::int8_t*>(a.out);
  for (long n = 0; n < a.images; ++n)
    for (long c = 0; c < a.channels; c += 16) {
      const long count = a.channels - c < 16 ? a.channels - c : 16;
      const std::int8_t* from = in + (n * a.channels + c) * a.pixels;
      for (long p = 0; p < a.pixels; p += 16, out += 256) {
        const long pixels = a.pixels - p < 16 ? a.pixels - p : 16;
        const auto mask = static_cast<__mmask16>((1u << pixels) - 1);
        bytes16 v[16];
        LAMINA_UNROLL
        for (int i = 0; i < 16; ++i)
          v[i] =
              i < count ? __builtin_bit_cast(bytes16, _mm_maskz_loadu_epi8(mask, from + i * a.pixels + p)) : bytes16(0);
        turn_square(v);
        for (int i = 0; i < pixels; ++i) write(out + i * 16, v[i] ^ bytes16(by_fours::flip));
        if (pixels < 16) out -= (16 - pixels) * 16;
      }
    }
}
LAMINA_INLINE void blocks_to_plain(const reorder_args& a) {
  const auto* in = static_cast<const std::int8_t*>(a.in);
  auto* out = static_cast<std::int8_t*>(a.out);
  for (long n = 0; n < a.images; ++n)
    for (long c = 0; c < a.channels; c += 16) {
      const long count = a.channels - c < 16 ? a.channels - c : 16;
      std::int8_t* to = out + (n * a.channels + c) * a.pixels;
      for (long p = 0; p < a.pixels; p += 16) {
        const long pixels = a.pixels - p < 16 ? a.pixels - p : 16;
        const auto mask = static_cast<__mmask16>((1u << pixels) - 1);
        bytes16 v[16];
        LAMINA_UNROLL
        for (int i = 0; i < 16; ++i)
          v[i] = i < pixels ? read<bytes16>(in + i * 16) ^ bytes16(by_fours::flip) : bytes16(0);
        in += pixels * 16;
        turn_square(v);
        for (long i = 0; i < count; ++i)
          _mm_mask_storeu_epi8(to + i * a.pixels + p, mask, __builtin_bit_cast(__m128i, v[i]));
      }
    }
}

LAMINA_INLINE void max_pool_of_blocks(const pool_args& a) {
  using numbers = std::uint8_t __attribute__((ext_vector_type(16)));
  const window& w = a.w;
  const auto* in = static_cast<const std::int8_t*>(a.in);
  auto* out = static_cast<std::int8_t*>(a.out);
  const long maps = a.images * parts_of(w.channels, block_channels);
  for (long m = 0; m < maps; ++m, in += w.height * w.width * 16)
    for (long y = 0; y < w.out_height; ++y) {
      const pool_span rows(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
      for (long x = 0; x < w.out_width; ++x, out += 16) {
        const pool_span columns(x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
        numbers max(0);
        for (long i = rows.begin; i < rows.end; ++i)
          for (long j = columns.begin; j < columns.end; ++j)
            max = __builtin_elementwise_max(max, read<numbers>(in + (i * w.width + j) * 16));
        write(out, max);
      }
    }
}

LAMINA_INLINE void average_pool_of_blocks(const quantized_average_args& a) {
  const window& w = a.pool.w;
  const auto* in = static_cast<const std::int8_t*>(a.pool.in);
  auto* out = static_cast<std::int8_t*>(a.pool.out);
  const long maps = a.pool.images * parts_of(w.channels, block_channels);
  const __m512 ratio = _mm512_set1_ps(*a.x_scale / *a.y_scale);
  const block_bytes to(*a.y_zero_point, -128, 127);
  for (long m = 0; m < maps; ++m, in += w.height * w.width * 16)
    for (long y = 0; y < w.out_height; ++y) {
      const pool_span rows(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
      for (long x = 0; x < w.out_width; ++x, out += 16) {
        const pool_span columns(x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
        __m512i sum = _mm512_setzero_si512();
        for (long i = rows.begin; i < rows.end; ++i)
          for (long j = columns.begin; j < columns.end; ++j)
            sum = _mm512_add_epi32(sum, _mm512_cvtepu8_epi32(read<__m128i>(in + (i * w.width + j) * 16)));
        const long inside = (rows.end - rows.begin) * (columns.end - columns.begin),
                   counted = a.pool.count_padding ? rows.padded * columns.padded : inside;
        const auto taken = static_cast<std::int32_t>(inside) * (*a.x_zero_point + plus_128);
        const __m512 v =
            _mm512_div_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(sum, _mm512_set1_epi32(taken))), ratio),
                          _mm512_set1_ps(static_cast<float>(static_cast<std::int32_t>(counted > 0 ? counted : 1))));
        const __m512i one = to.rounded(v);
        put_groups(out, to.in_order(one, one, one, one), 1);
      }
    }
}

LAMINA_INLINE void add_blocks(const quantized_add_args& a) {
  const __m512 a_factor = _mm512_set1_ps(*a.a_scale / *a.y_scale), b_factor = _mm512_set1_ps(*a.b_scale / *a.y_scale),
               a_zero_point = _mm512_set1_ps(static_cast<float>(*a.a_zero_point + plus_128)),
               b_zero_point = _mm512_set1_ps(static_cast<float>(*a.b_zero_point + plus_128));
  const block_bytes to(*a.y_zero_point, a.low, a.high);
  const long groups = a.rows * a.count / 16;
  for (long g = 0; g < groups; g += 4) {
    __m512i v[4]{};
    const long left = groups - g;
    LAMINA_UNROLL
    for (int i = 0; i < 4; ++i)
      if (i < left) {
        const long p = (g + i) * 16;
        const __m512 x = _mm512_mul_ps(_mm512_sub_ps(numbers_of_block(a.a + p), a_zero_point), a_factor);
        const __m512 y = _mm512_mul_ps(_mm512_sub_ps(numbers_of_block(a.b + p), b_zero_point), b_factor);
        v[i] = to.rounded(_mm512_add_ps(x, y));
      }
    put_groups(a.y + g * 16, to.in_order(v[0], v[1], v[2], v[3]), left);
  }
}

#endif

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
