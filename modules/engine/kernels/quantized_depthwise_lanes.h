// Depthwise int8 convolutions with channels in the lanes, in integers: the same sums as in quantized_depthwise.h.
//
// 16 channels of a band of rows are transposed to pixels, then become words of the neighboring columns that the taps of
// a word read, [row][column][channel]. The results, too, are pixels first.
#pragma once
#include "quantized_conv.h"
#include "quantized_depthwise.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

template <class Form> struct depthwise_lanes_layout {
  static constexpr long word_bytes = panel_columns * 4;  // of a pixel
  static constexpr long band_bytes = 48 * 1024,
                        max_bytes = 512 * 1024;  // of the words of a band; of one row of results
  static constexpr int together = 4;             // results of a row that are summed together
  long words_of_row, taps;                       // words of a row of a filter, of all its rows
  long pitch, band, rows;  // columns that a row of results reads; rows of results, and rows that they read
  std::size_t words, at, factors, results, bytes;  // before the words: pixels

  explicit depthwise_lanes_layout(const window& w)
      : words_of_row(parts_of(w.kernel_w, Form::numbers)),
        taps(w.kernel_h * words_of_row),
        pitch(w.columns_under(w.out_width)) {
    const long fitting = band_bytes / (pitch * word_bytes), span = w.rows_under(1);
    band = fitting < span ? 1 : (fitting - span) / w.stride_h + 1;
    if (band > w.out_height) band = w.out_height;
    rows = w.rows_under(band);
    words = whole_lines((rows * w.width + panel_columns) * panel_columns);
    at = words + static_cast<std::size_t>(rows * pitch * word_bytes);
    factors = at + whole_lines(taps * 8);
    results = factors + factor_bytes(w.channels);
    bytes = results + static_cast<std::size_t>((band * w.out_width + panel_columns) * word_bytes);
  }
  /// Whether a convolution is depthwise with one filter per channel, and fills lanes.
  static bool fits(const window& w) {
    return w.groups == w.channels && w.out_channels == w.channels && 2 * w.channels > panel_columns &&
           w.rows_under(1) * w.columns_under(w.out_width) * word_bytes <= max_bytes && w.width <= 4096;
  }
  /// Bytes of 16 packed filters, with their sums at the end.
  long packed() const { return taps * word_bytes + panel_end<Form>; }
};

/// [block of 16 filters][row][word][filter][tap]; zeros beyond the taps of a row.
template <class Form> LAMINA_INLINE void pack_depthwise_lanes(const quantized_conv_pack_args& a) {
  const window& w = a.w;
  const depthwise_lanes_layout<Form> has(w);
  std::memset(a.packed, 0, static_cast<std::size_t>(panels_of(w.channels) * has.packed()));
  for (long o = 0; o < w.channels; ++o) {
    std::int8_t* to = a.packed + o / panel_columns * has.packed() + o % panel_columns * 4;
    std::int32_t sum = 0;
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; ++j) {
        const std::int8_t tap = a.weight[(o * w.kernel_h + i) * w.kernel_w + j];
        Form::put_number(to + (i * has.words_of_row + j / Form::numbers) * has.word_bytes, j % Form::numbers, tap);
        sum += tap;
      }
    write(to + has.taps * has.word_bytes, sum);
  }
  for (long p = 0; p < panels_of(w.channels); ++p)
    put_fits<Form>(a.packed + p * has.packed(), has.packed(), has.taps, panel_columns);
}

/// 16 channels of an image.
template <class Form, class Result> struct depthwise_lanes_run {
  using number = typename Result::number;
  using numbers16 = typename Result::numbers16;
  using layout = depthwise_lanes_layout<Form>;
  static constexpr long word_bytes = layout::word_bytes;
  window w;
  layout has;
  std::int8_t* scratch;
  const std::int8_t* end;  // of the images
  bytes16 zero;            // a pixel of padding
  Result finished;

  /// The words of pixel(0), pixel(1), ...
  template <class Pixel> LAMINA_INLINE static void join(std::int8_t* to, Pixel pixel) {
    Form::put_x(to, interleaved<Form>(pixel));
  }
  /// Words of the rows that results [first, first + count) read of `channels` channels from `in` on.
  LAMINA_INLINE void cut(const std::int8_t* in, long channels, long first, long count) const {
    const long top = first * w.stride_h - w.pad_h, used = w.rows_under(count), plane = w.height * w.width;
    const long begin = top < 0 ? 0 : top, last = top + used < w.height ? top + used : w.height;
    const std::int8_t* from[panel_columns];
    for (long i = 0; i < panel_columns; ++i) from[i] = in + (i < channels ? i : channels - 1) * plane;
    const auto turn = [&](long p, auto pixels) __attribute__((always_inline)) {
      bytes16 v[panel_columns];
      LAMINA_UNROLL
      for (int i = 0; i < panel_columns; ++i) v[i] = pixels(from[i] + p);
      turn_square(v);
      std::int8_t* to = scratch + (p - begin * w.width) * panel_columns;
      LAMINA_UNROLL
      for (int i = 0; i < panel_columns; ++i) write(to + i * panel_columns, v[i]);
    };
    for (long p = begin * w.width; p < last * w.width; p += panel_columns)
      if (end - (from[panel_columns - 1] + p) >= panel_columns)
        turn(p, [](const std::int8_t* at) __attribute__((always_inline)) { return read<bytes16>(at); });
      else turn(p, [&](const std::int8_t* at) { return bytes_inside<1>(at, end); });
    for (long r = 0; r < used; ++r) {
      std::int8_t* to = scratch + has.words + r * has.pitch * word_bytes;
      const bool inside = top + r >= begin && top + r < last;
      join_row(inside ? scratch + (top + r - begin) * w.width * panel_columns : nullptr, to);
    }
  }
  /// Words of a row of pixels, or of padding.
  LAMINA_INLINE void join_row(const std::int8_t* pixels, std::int8_t* to) const {
    const long apart = w.dilation_w, whole_end = w.pad_w + w.width - (Form::numbers - 1) * apart;
    const auto pixel = [&](long x) __attribute__((always_inline)) {
      return pixels && x >= 0 && x < w.width ? read<bytes16>(pixels + x * panel_columns) : zero;
    };
    long x = 0;
    const auto until = [&](long stop) __attribute__((always_inline)) {
      if (stop > has.pitch) stop = has.pitch;
      for (; x < stop; ++x)
        join(to + x * word_bytes, [&](int i) __attribute__((always_inline)) { return pixel(x - w.pad_w + i * apart); });
    };
    if (pixels && whole_end > w.pad_w) {
      until(w.pad_w);
      const long stop = whole_end < has.pitch ? whole_end : has.pitch;
      for (const std::int8_t* from = pixels; x < stop; ++x, from += panel_columns)
        join(to + x * word_bytes,
             [&](int i) __attribute__((always_inline)) { return read<bytes16>(from + i * apart * panel_columns); });
    }
    until(has.pitch);
  }
  /// N neighboring results of a row. `Exact`: the form of their products.
  template <class Exact, int N> LAMINA_INLINE void tile(const std::int8_t* words, const std::int8_t* filters,
                                                        const std::int32_t* bias, const float* factor,
                                                        number* to) const {
    constexpr int registers_of_pixel = whole<Form>, bytes_of_register = Form::lanes * 4;
    const auto* at = reinterpret_cast<const long*>(scratch + has.at);
    const long step = w.stride_w * word_bytes;
    typename Form::sums s[N][registers_of_pixel];
    LAMINA_UNROLL
    for (int i = 0; i < N; ++i) {
      LAMINA_UNROLL
      for (int j = 0; j < registers_of_pixel; ++j) s[i][j] = Form::none();
    }
    steps<2 * N * registers_of_pixel, Exact::words_at_once == 2>(
        has.taps, [&]<int Words>(long t, std::integral_constant<int, Words>) __attribute__((always_inline)) {
          LAMINA_UNROLL
          for (int j = 0; j < registers_of_pixel; ++j) {
            typename Form::vector tap[Words], x[Words];
            LAMINA_UNROLL
            for (int n = 0; n < Words; ++n)
              tap[n] = Form::words(filters + (t + n) * word_bytes + j * bytes_of_register);
            LAMINA_UNROLL
            for (int i = 0; i < N; ++i) {
              LAMINA_UNROLL
              for (int n = 0; n < Words; ++n) x[n] = Form::words(words + at[t + n] + i * step + j * bytes_of_register);
              s[i][j] = plus<Exact, Words>(s[i][j], x, tap);
            }
          }
        });
    LAMINA_UNROLL
    for (int i = 0; i < N; ++i) {
      alignas(64) std::int32_t sums[panel_columns];
      LAMINA_UNROLL
      for (int j = 0; j < registers_of_pixel; ++j) Form::put(sums + j * Form::lanes, s[i][j]);
      write(to + i * panel_columns, finished.template operator()<true>(sums, bias, factor));
    }
  }
  /// Results of `count` rows from the current band for `channels` filters; `out`: of the first one.
  LAMINA_INLINE void rows(long count, const std::int8_t* filters, const std::int32_t* bias, const float* factor,
                          number* out, long channels) const {
    constexpr int together = layout::together;
    const fits weights = fits_in<Form>(filters, has.packed());
    auto* pixels = reinterpret_cast<number*>(scratch + has.results);
    number* to = pixels;
    for (long y = 0; y < count; ++y) {
      const std::int8_t* words = scratch + has.words + y * w.stride_h * has.pitch * word_bytes;
      long x = 0;
      const auto next = [&]<int N>(std::integral_constant<int, N>) __attribute__((always_inline)) {
        with_exact_form<Form>(weights, [&]<class Exact>(Exact) __attribute__((always_inline)) {
          tile<Exact, N>(words + x * w.stride_w * word_bytes, filters, bias, factor, to);
        });
        x += N, to += N * panel_columns;
      };
      while (x + together <= w.out_width) next(std::integral_constant<int, together>());
      if (x + 2 <= w.out_width) next(std::integral_constant<int, 2>());
      if (x < w.out_width) next(std::integral_constant<int, 1>());
    }
    put_turned<numbers16>(pixels, out, w.out_height * w.out_width, channels, count * w.out_width);
  }
};

template <class Form, class Result> LAMINA_INLINE void depthwise_lanes(const quantized_conv_args& args, void* scratch) {
  const quantized_conv_args a = args;
  const window& w = a.w;
  const depthwise_lanes_layout<Form> has(w);
  auto* memory = static_cast<std::int8_t*>(scratch);
  auto* at = reinterpret_cast<long*>(memory + has.at);
  for (long i = 0; i < w.kernel_h; ++i)
    for (long j = 0; j < has.words_of_row; ++j)
      at[i * has.words_of_row + j] = (i * w.dilation_h * has.pitch + Form::numbers * j * w.dilation_w) * has.word_bytes;
  const factors by =
      factors_of<Form, Result>(a.to, w.channels, memory + has.factors, [&](long o) __attribute__((always_inline)) {
        return read<std::int32_t>(a.packed + (o / panel_columns + 1) * has.packed() - panel_end<Form> +
                                  o % panel_columns * 4);
      });
  const long plane = w.height * w.width, results = w.out_height * w.out_width, end_row = a.first_row + a.rows;
  const depthwise_lanes_run<Form, Result> run{
      w, has, memory, a.in + (a.first + a.count) * w.channels * plane, bytes16(*a.to.x_zero_point), Result(a.to)};
  for (long n = a.first; n < a.first + a.count; ++n)
    for (long c = 0; c < w.channels; c += panel_columns) {
      const long channels = w.channels - c < panel_columns ? w.channels - c : panel_columns;
      for (long first = a.first_row; first < end_row; first += has.band) {
        const long count = end_row - first < has.band ? end_row - first : has.band;
        run.cut(a.in + (n * w.channels + c) * plane, channels, first, count);
        run.rows(count, a.packed + c / panel_columns * has.packed(), by.bias + c, by.factor + c,
                 static_cast<typename Result::number*>(a.out) + (n * w.channels + c) * results + first * w.out_width,
                 channels);
      }
    }
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
