// int8 images in blocks of 16 channels, or 8 with AVX2, each number plus 128: products read words of four channels in
// place, and the sums of the filters of a block become contiguous bytes of a pixel. For products of words of four bytes.
#pragma once
#include "quantized_block_bytes.h"
#include "quantized_conv.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

#if defined(__AVX2__)

/// The first `left` numbers of V, at most all; the others are 0.
template <class V, class T> LAMINA_INLINE V some(const T* p, long left) {
  if (left >= block_channels) return read<V>(p);
  V v{};
  std::memcpy(&v, p, static_cast<std::size_t>(left) * sizeof(T));
  return v;
}
/// Bytes of memory for the factors of blocks.
constexpr std::size_t block_factor_bytes(long blocks) { return whole_lines(blocks * block_channels * 8); }
/// Biases and factors of channel blocks, as in `factors_of`; they are arbitrary beyond the last channel. `sums_at(block)`: address of the sums of its weights.
template <class Sums>
LAMINA_INLINE factors factors_of_blocks(const quantized_blocked_args& a, std::int8_t* memory, Sums sums_at) {
  using numbers = float __attribute__((ext_vector_type(block_channels)));
  using words = std::uint32_t __attribute__((ext_vector_type(block_channels)));
  auto* bias = reinterpret_cast<std::int32_t*>(memory);
  auto* factor = reinterpret_cast<float*>(memory + a.blocks * block_channels * 4);
  const auto zero_point = static_cast<std::uint32_t>(*a.to.x_zero_point + words_of_four::shift);
  const float x_scale = *a.to.x_scale, y_scale = *a.to.y_scale;
  for (long k = 0; k < a.blocks; ++k, bias += block_channels, factor += block_channels) {
    const long o = (a.first_block + k) * block_channels, left = a.w.out_channels - o;
    const words taken = read<words>(sums_at(a.first_block + k)) * zero_point;
    write(factor,
          x_scale * (a.to.w_scale_step ? some<numbers>(a.to.w_scale + o, left) : numbers(*a.to.w_scale)) / y_scale);
    write(bias, some<words>(a.to.bias + o, left) - taken);
  }
  return {bias - a.blocks * block_channels, factor - a.blocks * block_channels};
}

// ---- products --------------------------------------------------------------------------------------------------------

/// Common parameters of the tiles of a convolution.
template <class Form> struct block_product {
  panel_layout<Form> panels;
  const long* at;  // offsets of the words of a pixel
  block_bytes to;
  added more;
  bool far;  // whether the weights exceed the cache: then tiles prefetch the weights of later tiles
};
/// Whether the panels of a convolution exceed a part of L2.
constexpr bool is_far(const window& w, long panel_step) { return panels_of(w.out_channels) * panel_step > 256 * 1024; }
/// Number of words of a tile between prefetches of weights.
inline constexpr int words_between = registers == 32 ? 16 : 64;
/// Maximum number of pixels of a tile, and of its blocks of filters, which have one order of their words.
template <class Form> inline constexpr int pixels_of_tile = registers == 32 ? 8 : Form::saturates ? 4 : 6;
template <class Form> inline constexpr int blocks_of_tile = Form::ordered ? whole<Form> : 2;

/// What the tiles of a few blocks of filters read.
struct block_filters {
  const std::int8_t* words;
  const std::uint32_t* order;
  long paired;
  const std::int32_t* bias;
  const float* factor;
  const std::int8_t* later;  // weights that later tiles read, of which each tile prefetches `lines` lines at a time
  long lines;
};
/// Results and addends: the stride of blocks, and the offset from a result to its addend.
struct block_place {
  long step, b_at;
};

/// `tiles` times MR pixels of NV blocks of filters. `Exact`: the form of the products.
template <class Form, class Exact, int MR, int NV, bool Added>
LAMINA_APART void block_run(const block_product<Form>& of, const block_filters& filters, long tiles,
                            const std::int8_t* const* x, std::int8_t* out, const block_place& place) {
  using on = block_register;
  const panel_layout<Exact> panels(of.panels.words);
  const long *at = of.at, words = panels.words, lines = filters.lines, paired = filters.paired, out_step = place.step,
             b_at = place.b_at;
  const std::int8_t *weights = filters.words, *later = filters.later;
  const std::uint32_t* order = filters.order;
  const std::int32_t* bias = filters.bias;
  const float* factor = filters.factor;
  LAMINA_NO_UNROLL
  for (long t = 0; t < tiles; ++t, x += MR, out += MR * block_channels) {
    typename Form::sums s[MR][NV];
    const std::int8_t* row[MR];
    LAMINA_UNROLL
    for (int j = 0; j < NV; ++j) {
      const auto first = read<typename Form::sums>(bias + block_channels * j);
      LAMINA_UNROLL
      for (int i = 0; i < MR; ++i) s[i][j] = first;
    }
    LAMINA_UNROLL
    for (int i = 0; i < MR; ++i) row[i] = x[i];
    LAMINA_NO_UNROLL
    for (long first = 0; first < words; first += words_between) {
      LAMINA_NO_UNROLL
      for (long i = 0; i < lines; ++i, later += 64) __builtin_prefetch(later, 0, 2);
      add_words<Exact, true>(s, panels, at, order, paired, row, weights, first,
                             words < first + words_between ? words : first + words_between);
    }
    LAMINA_UNROLL
    for (int j = 0; j < NV; ++j) {
      const auto f = read<on::floats>(factor + block_channels * j);
      const auto number = [&](int i) __attribute__((always_inline)) {
        if (i >= MR) return on::ints{};
        const on::floats v = on::to_floats(s[i < MR ? i : 0][j]) * f;
        if constexpr (Added) return of.more(v, of.to, out + b_at + j * out_step + i * block_channels);
        else return of.to.rounded(v);
      };
      const block_bytes& to = Added ? of.more.to : of.to;
      LAMINA_UNROLL
      for (int i = 0; i < MR; i += 4)
        on::put(out + j * out_step + i * block_channels,
                to.in_order(number(i), number(i + 1), number(i + 2), number(i + 3)), MR - i);
    }
  }
}

/// Computes `pixels` pixels, with inputs at x[], for the blocks [first, first + blocks) of filters.
template <class Form, bool Added> LAMINA_INLINE void block_tiles(const block_product<Form>& of, long pixels,
                                                                 const std::int8_t* const* x, long first, long blocks,
                                                                 const std::int8_t* packed, const factors& by,
                                                                 std::int8_t* out, const block_place& place) {
  constexpr int most = pixels_of_tile<Form>;
  const long tiles = parts_of(pixels, most), chunks = parts_of(of.panels.words, words_between);
  const auto run = [&]<int NV>(long k, std::integral_constant<int, NV>) __attribute__((always_inline)) {
    const std::int8_t* panel = packed + (first + k) / whole<Form> * of.panels.step;
    const auto words = of.panels.ordered(panel);
    block_filters filters{packed + of.panels.of_vector(first + k),
                          of.panels.order(panel),
                          words.paired,
                          by.bias + k * block_channels,
                          by.factor + k * block_channels,
                          panel + blocks_of_tile<Form> / whole<Form> * of.panels.step,
                          0};
    // All tiles together prefetch the panels of the next ones.
    if (of.far) filters.lines = parts_of(blocks_of_tile<Form> / whole<Form> * of.panels.step, 64 * tiles * chunks);
    even_runs(pixels, most, [&](long p, long rows, long count) __attribute__((always_inline)) {
      with_rows<most>(static_cast<int>(rows), [&]<int MR>() __attribute__((always_inline)) {
        with_panel_form<Form>(words, [&]<class Exact>(Exact) __attribute__((always_inline)) {
          block_run<Form, Exact, MR, NV, Added>(of, filters, count, x + p, out + k * place.step + p * block_channels,
                                                place);
        });
      });
      filters.later += filters.lines * 64 * chunks * count;
    });
  };
  constexpr int together = blocks_of_tile<Form>;
  long k = 0;
  if (whole<Form> > 1 && first % whole<Form> && blocks)
    run(k++, std::integral_constant<int, 1>());  // the end of a panel
  for (; k + together <= blocks; k += together) run(k, std::integral_constant<int, together>());
  if (k < blocks) run(k, std::integral_constant<int, 1>());
}

/// Layout of blocked images: words are read in place, or from a padded copy.
template <class Form> struct block_layout {
  static constexpr long band_bytes = 160 * 1024, pixels_at_once = 56;  // includes a whole map of 7x7
  static constexpr long words_of_pixel = block_channels / 4;           // of a block
  long channel_blocks, planes;
  panel_layout<Form> panels;
  bool padded;
  long band, pitch, rows, plane;  // output rows; pixels per row and bytes per block, of the copy or of the image
  std::size_t image, at, factors, bytes;

  block_layout(const window& w, long blocks)
      : channel_blocks(parts_of(w.channels, block_channels)),
        planes(parts_of(w.channels, 4)),
        panels(planes * w.kernel_h * w.kernel_w) {
    const long more_h = w.pad_h + w.more_h, more_w = w.pad_w + w.more_w, span = (w.kernel_h - 1) * w.dilation_h + 1;
    padded = w.pad_h > 0 || w.pad_w > 0 || more_h > 0 || more_w > 0;
    if (!padded) band = w.out_height, pitch = w.width, rows = w.height, plane = w.height * w.width * block_channels;
    else {
      pitch = w.width + w.pad_w + (more_w > 0 ? more_w : 0);
      const long row = pitch * block_channels * channel_blocks, all = ((w.out_height - 1) * w.stride_h + span) * row;
      const long bands = parts_of(all, band_bytes);
      band = parts_of(w.out_height, bands < w.out_height ? bands : w.out_height);
      rows = (band - 1) * w.stride_h + span;
      // An odd number of lines avoids cache conflicts.
      plane = (rows * pitch * block_channels + 63) / 128 * 128 + 64;
    }
    image = 0;
    at = padded ? whole_lines(channel_blocks * plane + 64) : 0;
    factors = at + whole_lines(panels.words * 8);
    bytes = factors + block_factor_bytes(blocks);
  }
};

/// Copies rows [top, top + count) of a block of an image; padding is filled with `zero`.
LAMINA_INLINE void copy_padded(const window& w, const std::int8_t* from, long top, long count, long pitch,
                               std::int8_t zero, std::int8_t* to) {
  const auto fill = [&](std::int8_t* p, long pixels) __attribute__((always_inline)) {
    for (long i = 0; i < pixels; ++i) write(p + i * block_channels, bytes<block_channels>(zero));
  };
  for (long r = 0; r < count; ++r, to += pitch * block_channels) {
    const long y = top + r;
    if (y < 0 || y >= w.height) {
      fill(to, pitch);
      continue;
    }
    fill(to, w.pad_w);
    const std::int8_t* row = from + y * w.width * block_channels;
    std::int8_t* middle = to + w.pad_w * block_channels;
    const long used = pitch - w.pad_w < w.width ? pitch - w.pad_w : w.width;
    using four = bytes<4 * block_channels>;
    long i = 0;
    for (; i + 4 <= used; i += 4) write(middle + i * block_channels, read<four>(row + i * block_channels));
    for (; i < used; ++i) write(middle + i * block_channels, read<bytes<block_channels>>(row + i * block_channels));
    fill(middle + used * block_channels, pitch - w.pad_w - used);
  }
}

/// Computes output rows [first, first + count) from words of pixels at `base`; strides `row_step` and `column_step`.
template <class Form, bool Added>
LAMINA_INLINE void rows_of_blocks(const quantized_blocked_args& a, const block_product<Form>& of,
                                  const std::int8_t* base, long row_step, long column_step, long first, long count,
                                  const factors& by, std::int8_t* out, long b_at) {
  constexpr long at_once = block_layout<Form>::pixels_at_once;
  const window& w = a.w;
  const std::int8_t* x[at_once];
  const long all = count * w.out_width;
  const block_place place{w.out_height * w.out_width * block_channels, b_at};
  for (long begin = 0, row = 0, column = 0; begin < all; begin += at_once) {
    const long pixels = all - begin < at_once ? all - begin : at_once;
    for (long p = 0; p < pixels; ++p) {
      x[p] = base + row * row_step + column * column_step;
      if (++column == w.out_width) column = 0, ++row;
    }
    block_tiles<Form, Added>(of, pixels, x, a.first_block, a.blocks, a.packed, by,
                             out + (first * w.out_width + begin) * block_channels, place);
  }
}

/// The first result of a part of an image.
LAMINA_INLINE std::int8_t* block_results(const quantized_blocked_args& a, long image) {
  const long blocks = parts_of(a.w.out_channels, block_channels);
  return a.out + (image * blocks + a.first_block) * a.w.out_height * a.w.out_width * block_channels;
}

template <class Form, bool Added> LAMINA_INLINE void block_conv(const quantized_blocked_args& a, std::int8_t* memory) {
  using layout = block_layout<Form>;
  const window& w = a.w;
  const layout has(w, a.blocks);
  const auto zero = static_cast<std::int8_t>(*a.to.x_zero_point ^ Form::flip);
  auto* at = reinterpret_cast<long*>(memory + has.at);
  for (long p = 0, k = 0; p < has.planes; ++p)
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; ++j, ++k)
        at[k] = p / layout::words_of_pixel * has.plane + p % layout::words_of_pixel * 4 +
                (i * w.dilation_h * has.pitch + j * w.dilation_w) * block_channels;
  const factors by = factors_of_blocks(a, memory + has.factors, [&](long block) __attribute__((always_inline)) {
    return a.packed + has.panels.sums_of(block * block_channels);
  });
  const block_product<Form> of{has.panels,
                               at,
                               {*a.to.y_zero_point, a.to.low, a.to.high},
                               Added ? added(a) : added(),
                               is_far(w, has.panels.step)};
  const long row_step = w.stride_h * has.pitch * block_channels, column_step = w.stride_w * block_channels;
  for (long n = a.first; n < a.first + a.count; ++n) {
    const std::int8_t* in = a.in + n * has.channel_blocks * w.height * w.width * block_channels;
    for (long first = a.first_row, end = a.first_row + a.rows; first < end; first += has.band) {
      const long count = end - first < has.band ? end - first : has.band;
      const std::int8_t* base = in + first * row_step;
      if (has.padded) {
        const long used = (count - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1;
        for (long c = 0; c < has.channel_blocks; ++c)
          copy_padded(w, in + c * w.height * w.width * block_channels, first * w.stride_h - w.pad_h, used, has.pitch,
                      zero, memory + has.image + c * has.plane);
        base = memory + has.image;
      }
      rows_of_blocks<Form, Added>(a, of, base, row_step, column_step, first, count, by, block_results(a, n),
                                  a.b - a.out);
    }
  }
}

/// Convolution of images of few channels in plain layout.
template <class Form, bool Added>
LAMINA_INLINE void block_conv_of_plain(const quantized_blocked_args& a, std::int8_t* memory) {
  using run = conv_run<Form, finish>;
  const window& w = a.w;
  const conv_layout<Form> has(w, true);
  const panel_layout<Form> panels = has.panels();
  const std::int8_t zero = *a.to.x_zero_point;
  prepare_scratch(has, w, zero, memory);
  const long image = w.channels * w.height * w.width;
  const factors by = factors_of_blocks(a, memory + has.bytes, [&](long block) __attribute__((always_inline)) {
    return a.packed + panels.sums_of(block * block_channels);
  });
  const block_product<Form> of{panels,
                               reinterpret_cast<const long*>(memory + has.at),
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
                  fits::two,
                  nullptr,
                  0,
                  0,
                  finish(a.to),
                  by};
    for (long first = a.first_row, end = a.first_row + a.rows; first < end; first += has.band) {
      const long count = end - first < has.band ? end - first : has.band;
      cut.cut_band(first, count);
      rows_of_blocks<Form, Added>(a, of, memory + has.image, has.pitch * 4, 4, first, count, by, block_results(a, n),
                                  a.b - a.out);
    }
  }
}

template <class Form> LAMINA_INLINE void pack_blocks(const quantized_blocked_pack_args& a) {
  const window& w = a.w;
  const panel_layout<Form> panels = block_layout<Form>(w, 0).panels;
  const long taps = w.kernel_h * w.kernel_w, all = panels_of(w.out_channels);
  std::memset(a.packed, 0, static_cast<std::size_t>(all * panels.step));
  const long size = w.channels * taps;
  for (long o = 0; o < w.out_channels; ++o) {
    const std::int8_t* filter = a.weight + o * size;
    std::int8_t* to = a.packed + o / panel_columns * panels.step + o % panel_columns * 4;
    for (long c = 0; c < w.channels; c += 4) {
      const long count = w.channels - c < 4 ? w.channels - c : 4;
      for (long t = 0; t < taps; ++t, to += panels.bytes_of_word)
        if (count == 4) {
          const std::int8_t* from = filter + c * taps + t;
          write(to, bytes<4>{from[0], from[taps], from[2 * taps], from[3 * taps]});
        } else
          for (long k = 0; k < count; ++k) to[k] = filter[(c + k) * taps + t];
    }
    std::int32_t sum = 0;
    LAMINA_IN_PAIRS for (long k = 0; k < size; ++k) sum += filter[k];
    write(a.packed + panels.sums_of(o), sum);
  }
  for (long p = 0; p < all; ++p) panels.put_order(a.packed + p * panels.step);
}

// ---- depthwise -------------------------------------------------------------------------------------------------------

/// Four taps of a kernel row at a time: bytes of four pixels are combined to words of one channel, in the lanes of four
/// registers, each with four channels of four results.
template <class Form> struct block_depthwise_layout {
  static constexpr long band_bytes = block_channels * 1536;
  long groups, words, span, band, pitch, rows;  // groups of four taps per kernel row; registers of words per block
  std::size_t bytes;

  explicit block_depthwise_layout(const window& w) {
    groups = parts_of(w.kernel_w, 4);
    words = w.kernel_h * groups;
    span = (w.kernel_h - 1) * w.dilation_h + 1;
    const long more = w.pad_w + w.more_w;
    pitch = w.width + w.pad_w + (more > 0 ? more : 0);
    band = (band_bytes / (pitch * block_channels) - span) / w.stride_h + 1;
    band = band < 1 ? 1 : band > w.out_height ? w.out_height : band;
    rows = (band - 1) * w.stride_h + span;
    // Includes the bytes that the last results of a row read past it.
    bytes = whole_lines((rows * pitch + 8 * w.stride_w + w.kernel_w * w.dilation_w) * block_channels);
  }
  static constexpr long bytes_of_word = block_channels * 4;
  /// Size in bytes of the packed weights of a block: words, a sum for each channel, and how many products sums hold.
  long packed() const { return words * bytes_of_word + 64 + fits_bytes<Form>; }
  static bool fits(const window& w) {
    return w.groups == w.channels && w.out_channels == w.channels && w.groups > 1 &&
           (w.stride_w == 1 || (w.stride_w == 2 && w.dilation_w == 1));
  }
};

template <class Form> LAMINA_INLINE void pack_block_depthwise(const quantized_blocked_pack_args& a) {
  const window& w = a.w;
  const block_depthwise_layout<Form> has(w);
  const long blocks = parts_of(w.channels, block_channels);
  std::memset(a.packed, 0, static_cast<std::size_t>(blocks * has.packed()));
  for (long c = 0; c < w.channels; ++c) {
    std::int8_t* to = a.packed + c / block_channels * has.packed() + c % block_channels * 4;
    std::int32_t sum = 0;
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; ++j) {
        const std::int8_t v = a.weight[(c * w.kernel_h + i) * w.kernel_w + j];
        to[(i * has.groups + j / 4) * has.bytes_of_word + j % 4] = v;
        sum += v;
      }
    write(to + has.words * has.bytes_of_word, sum);
  }
  for (long k = 0; k < blocks; ++k)
    put_fits<Form>(a.packed + k * has.packed(), has.packed(), has.words, block_channels);
}

/// Loads four pixels, Stride apart.
template <int Stride, int Tap> LAMINA_INLINE block_register::ints four_pixels(const std::int8_t* p, long dilation) {
  if constexpr (Stride == 1) return read<block_register::ints>(p + Tap * dilation * block_channels);
  else return block_register::every_second_pixel(p + Tap / 2 * 2 * block_channels, Tap % 2 != 0);
}

template <class Form, class Exact, int Stride, bool Added> struct block_depthwise_run {
  using on = block_register;
  const window& w;
  block_depthwise_layout<Form> has;
  block_bytes to;
  added more;

  /// The first of four channels of the pixels in register v of a word.
  static constexpr long first_channel(int v) { return v * 4 % block_channels; }
  /// Adds the products of `Taps` taps of a kernel row, at most four.
  template <int Taps> LAMINA_INLINE void add(on::ints (&s)[4], const std::int8_t* p, const std::int8_t* weights) const {
    const on::ints a = four_pixels<Stride, 0>(p, w.dilation_w);
    const on::ints b = Taps > 1 ? four_pixels<Stride, (Taps > 1 ? 1 : 0)>(p, w.dilation_w) : a;
    const on::ints first = on::low_bytes(a, b), last = on::high_bytes(a, b);
    on::ints next_first = first, next_last = last;
    if constexpr (Taps > 2) {
      const on::ints c = four_pixels<Stride, 2>(p, w.dilation_w);
      const on::ints d = Taps > 3 ? four_pixels<Stride, (Taps > 3 ? 3 : 2)>(p, w.dilation_w) : c;
      next_first = on::low_bytes(c, d), next_last = on::high_bytes(c, d);
    }
    const on::ints x[4] = {on::low_shorts(first, next_first), on::high_shorts(first, next_first),
                           on::low_shorts(last, next_last), on::high_shorts(last, next_last)};
    LAMINA_UNROLL
    for (int v = 0; v < 4; ++v) s[v] = Exact::plus(s[v], x[v], on::four_everywhere(weights + first_channel(v) * 4));
  }
  LAMINA_INLINE void add_any(long taps, on::ints (&s)[4], const std::int8_t* p, const std::int8_t* weights) const {
    if (taps >= 4) add<4>(s, p, weights);
    else if (taps == 3) add<3>(s, p, weights);
    else if (taps == 2) add<2>(s, p, weights);
    else add<1>(s, p, weights);
  }
  /// Computes a row of results; `from`: the first byte that the first result reads.
  template <bool Three> LAMINA_INLINE void row(const std::int8_t* from, long pitch, const std::int8_t* weights,
                                               const std::int32_t* bias, const float* factor, std::int8_t* out,
                                               long b_at) const {
    on::floats f[4];
    on::ints first[4];
    LAMINA_UNROLL
    for (int v = 0; v < 4; ++v) {
      f[v] = on::four_floats_everywhere(factor + first_channel(v));
      first[v] = on::four_everywhere(bias + first_channel(v));
    }
    const long row_step = w.dilation_h * pitch * block_channels;
    LAMINA_NO_UNROLL
    for (long x = 0; x < w.out_width; x += 4) {
      on::ints s[4] = {first[0], first[1], first[2], first[3]};
      const std::int8_t* p = from + x * Stride * block_channels;
      if constexpr (Three) {
        LAMINA_UNROLL
        for (int i = 0; i < 3; ++i) add<3>(s, p + i * row_step, weights + i * has.bytes_of_word);
      } else
        for (long i = 0, k = 0; i < w.kernel_h; ++i)
          for (long j = 0; j < w.kernel_w; j += 4, ++k)
            add_any(w.kernel_w - j, s, p + i * row_step + j * w.dilation_w * block_channels,
                    weights + k * has.bytes_of_word);
      const long pixels = w.out_width - x;
      std::int8_t* results = out + x * block_channels;
      if constexpr (!Added) {
        LAMINA_UNROLL
        for (int v = 0; v < 4; ++v) s[v] = to.rounded(on::to_floats(s[v]) * f[v]);
        on::put(results, to.packed(s[0], s[1], s[2], s[3]), pixels);
      } else {
        // The addend is stored pixel by pixel: moves it to the order of the sums, in which the words of four channels of
        // a 128-bit lane belong to one register each.
        alignas(64) std::int8_t other[4 * block_channels], moved[4 * block_channels];
        std::memcpy(other, results + b_at, static_cast<std::size_t>((pixels < 4 ? pixels : 4) * block_channels));
        constexpr int lanes_of_register = static_cast<int>(block_channels) / 4;
        for (int v = 0; v < 4; ++v)
          for (int i = 0; i < lanes_of_register; ++i)
            std::memcpy(moved + (v * lanes_of_register + i) * 4, other + (i * 4 + v) * 4, 4);
        for (int v = 0; v < 4; ++v) s[v] = more(on::to_floats(s[v]) * f[v], to, moved + v * block_channels);
        on::put(results, more.to.packed(s[0], s[1], s[2], s[3]), pixels);
      }
    }
  }
  /// The results of a block of channels.
  LAMINA_INLINE void run(const quantized_blocked_args& a, long n, long k, std::int8_t* memory,
                         const std::int8_t* weights, const factors& by) const {
    const auto zero = static_cast<std::int8_t>(*a.to.x_zero_point ^ Form::flip);
    const long blocks = parts_of(w.channels, block_channels);
    const bool three = w.kernel_h == 3 && w.kernel_w == 3;
    const std::int8_t* in = a.in + (n * blocks + a.first_block + k) * w.height * w.width * block_channels;
    std::int8_t* out = block_results(a, n) + k * w.out_height * w.out_width * block_channels;
    const std::int32_t* bias = by.bias + k * block_channels;
    const float* factor = by.factor + k * block_channels;
    for (long first = a.first_row, end = a.first_row + a.rows; first < end; first += has.band) {
      const long count = end - first < has.band ? end - first : has.band;
      copy_padded(w, in, first * w.stride_h - w.pad_h, (count - 1) * w.stride_h + has.span, has.pitch, zero, memory);
      for (long y = 0; y < count; ++y) {
        const std::int8_t* from = memory + y * w.stride_h * has.pitch * block_channels;
        std::int8_t* to_row = out + (first + y) * w.out_width * block_channels;
        if (three) row<true>(from, has.pitch, weights, bias, factor, to_row, a.b - a.out);
        else row<false>(from, has.pitch, weights, bias, factor, to_row, a.b - a.out);
      }
    }
  }
};
template <class Form, int Stride, bool Added>
LAMINA_APART void block_depthwise(const quantized_blocked_args& a, std::int8_t* memory) {
  const block_depthwise_layout<Form> has(a.w);
  const factors by = factors_of_blocks(a, memory + has.bytes, [&](long block) __attribute__((always_inline)) {
    return a.packed + block * has.packed() + has.words * has.bytes_of_word;
  });
  const block_bytes to(*a.to.y_zero_point, a.to.low, a.to.high);
  const added more = Added ? added(a) : added();
  for (long n = a.first; n < a.first + a.count; ++n)
    for (long k = 0; k < a.blocks; ++k) {
      const std::int8_t* weights = a.packed + (a.first_block + k) * has.packed();
      with_exact_form<Form, false>(
          fits_in<Form>(weights, has.packed()), [&]<class Exact>(Exact) __attribute__((always_inline)) {
            block_depthwise_run<Form, Exact, Stride, Added>{a.w, has, to, more}.run(a, n, k, memory, weights, by);
          });
    }
}

// ---- the functions ---------------------------------------------------------------------------------------------------

template <class Form> LAMINA_INLINE std::size_t blocked_packed(const window& w, bool plain_in) {
  if (block_depthwise_layout<Form>::fits(w))
    return static_cast<std::size_t>(parts_of(w.channels, block_channels) * block_depthwise_layout<Form>(w).packed());
  const panel_layout<Form> panels = plain_in ? conv_layout<Form>(w, true).panels() : block_layout<Form>(w, 0).panels;
  return static_cast<std::size_t>(panels_of(w.out_channels) * panels.step);
}
template <class Form> LAMINA_INLINE std::size_t blocked_scratch(const quantized_blocked_args& a) {
  const std::size_t factors = block_factor_bytes(a.blocks);
  if (block_depthwise_layout<Form>::fits(a.w)) return block_depthwise_layout<Form>(a.w).bytes + factors;
  if (a.plain_in) return whole_lines(static_cast<long>(conv_layout<Form>(a.w, true).bytes)) + factors;
  return block_layout<Form>(a.w, a.blocks).bytes;
}
template <class Form> LAMINA_INLINE bool blocked_supports(const window& w, bool plain_in) {
  return w.groups == 1 || (!plain_in && block_depthwise_layout<Form>::fits(w));
}
template <class Form> LAMINA_INLINE void pack_blocked(const quantized_blocked_pack_args& a) {
  if (block_depthwise_layout<Form>::fits(a.w)) pack_block_depthwise<Form>(a);
  else if (a.plain_in) pack_conv<Form>({a.w, a.weight, a.packed}, true);
  else pack_blocks<Form>(a);
}
template <class Form, bool Added>
LAMINA_INLINE void any_blocked_conv(const quantized_blocked_args& a, std::int8_t* memory) {
  if (block_depthwise_layout<Form>::fits(a.w)) {
    if (a.w.stride_w == 1) block_depthwise<Form, 1, Added>(a, memory);
    else block_depthwise<Form, 2, Added>(a, memory);
  } else if (a.plain_in) block_conv_of_plain<Form, Added>(a, memory);
  else block_conv<Form, Added>(a, memory);
}

#endif

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
