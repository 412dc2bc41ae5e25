// int8 convolutions: a band of rows of the image is converted to words, with its padding; then the lanes are filters,
// or pixels if that takes fewer products.
//
// A word holds neighboring channels, or neighboring taps of a kernel row if that wastes less of it.
// Rows and columns are grouped by their remainders modulo the strides, so that an output pixel reads its words at
// y * pitch + x of each tap: the pixels of all rows form one line, with the padding between rows.
#pragma once
#include "quantized_result.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

template <class Form> struct conv_layout {
  static constexpr long numbers = Form::numbers;
  /// Approximate bytes of the words of a band, which are read again for each panel of filters.
  static constexpr long band_bytes = 160 * 1024;
  /// Pixels whose addresses are computed, and whose results are transposed, together; and pixels of a line of results.
  static constexpr long pixels_at_once = 56, line = 1024;

  long channels, filters;  // per group
  bool by_channels, pixels_in_lanes;
  long planes, taps, words;        // words: per filter
  long phase, phases, remainders;  // stored remainders: step and number of columns, number of rows
  long band, rows, pitch;          // output rows; rows per remainder, words per row
  long segment, plane, raw;  // words per remainder of columns; size in bytes of a plane of words, and of raw bytes
  long line_step;            // results per line
  std::size_t image, raws, at, factors, results, bytes;

  /// `to_blocks`: the lanes are filters, and the results channel blocks.
  explicit conv_layout(const window& w, bool to_blocks = false) {
    channels = w.channels / w.groups, filters = w.out_channels / w.groups;
    const long of_channels = parts_of(channels, numbers) * w.kernel_w,
               of_taps = channels * parts_of(w.kernel_w, numbers);
    by_channels = of_channels <= of_taps;
    planes = by_channels ? parts_of(channels, numbers) : channels;
    taps = by_channels ? w.kernel_w : parts_of(w.kernel_w, numbers);
    words = planes * w.kernel_h * taps;

    const long span = (w.kernel_h - 1) * w.dilation_h + 1;
    phase = w.stride_w;
    for (long t = 1; t < taps; ++t)
      for (long rest = column_of(w, t) % w.stride_w; rest;) {  // greatest common divisor
        const long next = phase % rest;
        phase = rest, rest = next;
      }
    phases = w.stride_w / phase;
    remainders = w.stride_h < span ? w.stride_h : span;
    pitch = parts_of(w.width + 2 * w.pad_w + (w.more_w > 0 ? w.more_w : 0), w.stride_w);
    const long more = parts_of(span, w.stride_h), row = phases * remainders * pitch * 4;
    const long bands = parts_of(planes * row * (w.out_height - 1 + more), band_bytes);
    band = parts_of(w.out_height, bands < w.out_height ? bands : w.out_height);
    rows = band - 1 + more;
    segment = remainders * rows * pitch;
    plane = (phases * segment * 4 + 63) / 128 * 128 + 64;  // an odd number of lines avoids cache conflicts
    raw = static_cast<long>(whole_lines(segment * w.stride_w + numbers * w.dilation_w + 128));

    // Counts half panels, because tiles use them if a half suffices.
    const long least = Form::lanes < 8 ? 8 : Form::lanes;
    pixels_in_lanes = !to_blocks && parts_of((w.out_height - 1) * pitch + w.out_width, least) * filters <=
                                        w.out_height * w.out_width * parts_of(filters, least);
    line_step = static_cast<long>(whole_lines((pitch < line ? line : pitch) + 4 * panel_columns));

    image = 0;
    raws = image + whole_lines(planes * plane + 256);
    at = raws + static_cast<std::size_t>((by_channels ? numbers : 1) * raw);
    factors = at + whole_lines(words * 8);
    results = factors + factor_bytes(filters);
    const long max = pixels_in_lanes ? 8 * line_step : pixels_at_once * 2 * panel_columns;
    bytes = results + static_cast<std::size_t>(max) * sizeof(std::int32_t);
  }
  /// First input column of a tap of a kernel row.
  long column_of(const window& w, long tap) const { return tap * (by_channels ? 1 : numbers) * w.dilation_w; }
  /// Size in bytes of the words of a group, or of its panels.
  long packed_filters() const { return pixels_in_lanes ? words * filters * 4 : panels_of(filters) * panel_step(); }
  panel_layout<Form> panels() const { return panel_layout<Form>(words); }
  long panel_step() const { return panels().step; }
  /// Size in bytes of the packed weights of a group: panels, or words, a sum for each filter, and `fits`.
  long packed_bytes() const {
    return static_cast<long>(whole_lines(packed_filters() + (pixels_in_lanes ? filters * 4 + fits_bytes<Form> : 0)));
  }
  /// Where the words of a filter are, which is the first one of a panel.
  long words_of(long filter) const { return pixels_in_lanes ? filter * 4 : filter / panel_columns * panel_step(); }
  long sum_of(long filter) const { return pixels_in_lanes ? packed_filters() + filter * 4 : panels().sums_of(filter); }
};

template <class Form> LAMINA_INLINE void pack_conv(const quantized_conv_pack_args& a, bool to_blocks = false) {
  const window& w = a.w;
  const conv_layout<Form> to(w, to_blocks);
  const long taps = w.kernel_h * w.kernel_w;
  for (long g = 0; g < w.groups; ++g) {
    std::int8_t* packed = a.packed + g * to.packed_bytes();
    std::memset(packed, 0, static_cast<std::size_t>(to.packed_bytes()));
    for (long o = 0; o < to.filters; ++o) {
      const std::int8_t* filter = a.weight + (g * to.filters + o) * to.channels * taps;
      std::int32_t sum = 0;
      for (long c = 0; c < to.channels; ++c)
        for (long i = 0; i < w.kernel_h; ++i)
          for (long j = 0; j < w.kernel_w; ++j) {
            const std::int8_t v = filter[c * taps + i * w.kernel_w + j];
            const long plane = to.by_channels ? c / to.numbers : c, tap = to.by_channels ? j : j / to.numbers;
            const long word = (plane * w.kernel_h + i) * to.taps + tap, part = (to.by_channels ? c : j) % to.numbers;
            if (to.pixels_in_lanes) Form::put_number(packed + (word * to.filters + o) * 4, part, v);
            else
              packed[o / panel_columns * to.panel_step() + (word * panel_columns + o % panel_columns) * to.numbers +
                     part] = v;
            sum += v;
          }
      write(packed + to.sum_of(o), sum);
    }
    if (to.pixels_in_lanes) put_fits<Form>(packed, to.packed_bytes(), to.words, to.filters);
    else
      for (long o = 0; o < to.filters; o += panel_columns) to.panels().put_order(packed + to.words_of(o));
  }
}

/// Transposes results of 16 filters, stored pixel by pixel, to maps with stride `plane`; reads at least 16 pixels.
template <class Numbers16, class T>
LAMINA_INLINE void put_turned(const T* from, T* to, long plane, long filters, long pixels) {
  Numbers16 v[16];
  for (long next = 0; next < pixels; next += 16) {
    const long p = next + 16 <= pixels || pixels < 16 ? next : pixels - 16;  // the last group overlaps the one before
    LAMINA_UNROLL
    for (int i = 0; i < 16; ++i) v[i] = read<Numbers16>(from + (p + i) * 16);
    turn_square(v);
    if (pixels < 16)
      for (long o = 0; o < filters; ++o) put(to + o * plane + p, v[o], pixels - p);
    else
      for (long o = 0; o < filters; ++o) write(to + o * plane + p, v[o]);
  }
}

/// One group of one image. `Result` converts sums to results.
template <class Form, class Result> struct conv_run {
  static constexpr long numbers = Form::numbers;
  using number = typename Result::number;
  using numbers16 = typename Result::numbers16;
  window w;
  conv_layout<Form> has;
  long channels;  // of the group in the image
  long filters;   // of the group, that are computed
  std::int8_t* scratch;
  std::int8_t zero;             // value of padding
  const std::int8_t *in, *end;  // the group's first channel; the end of the images
  const std::int8_t* packed;
  fits weights;  // if lanes are pixels
  number* out;
  long first_row, end_row;  // of the results
  Result finished;
  factors by;

  const long* at() const { return reinterpret_cast<const long*>(scratch + has.at); }
  std::int8_t* image() const { return scratch + has.image; }

  LAMINA_INLINE const std::int8_t* map_of(long channel) const {
    return in + (channel < channels ? channel : channel - channels) * w.height * w.width;
  }
  /// Packs words of `numbers` channels row by row, with their padding, for a stride of 1. A row overwrites the end of
  /// what the row before it wrote; the last one writes up to 60 bytes past its end, where the next plane follows. False,
  /// with nothing written, if it would read past the images.
  LAMINA_INLINE bool cut_rows(long plane, long top, long used, std::int32_t padding) const {
    const long bottom = top + used < w.height ? top + used : w.height, row_end = w.pad_w + w.width;
    const std::int8_t* from[numbers];
    for (long i = 0; i < numbers; ++i) {
      from[i] = map_of(plane * numbers + (plane * numbers + i < has.channels ? i : 0));
      if (bottom > 0 && end - from[i] < (bottom - 1) * w.width + parts_of(w.width, 16) * 16) return false;
    }
    std::int8_t* to = image() + plane * has.plane;
    for (long y = top; y < top + used; ++y, to += has.pitch * 4) {
      const bool inside = y >= 0 && y < w.height;
      if (inside)
        for (long x = 0; x < w.width; x += 16) put_words<Form, 1>(to + (w.pad_w + x) * 4, from, y * w.width + x);
      LAMINA_NO_UNROLL for (long x = 0; x < (inside ? w.pad_w : has.pitch); ++x) write(to + x * 4, padding);
      LAMINA_NO_UNROLL for (long x = row_end; x < has.pitch; ++x) write(to + x * 4, padding);
    }
    return true;
  }
  /// Padded rows of a channel from `top` on, grouped by remainder; in place if the image already has that layout.
  LAMINA_INLINE const std::int8_t* raw(long channel, long top, long used, long which) const {
    const std::int8_t* from = map_of(channel);
    if (w.width == has.pitch * w.stride_w && w.stride_h == 1 && top >= 0 && top + used <= w.height &&
        end - (from + top * w.width) >= has.raw)
      return from + top * w.width;
    std::int8_t* all = scratch + has.raws + which * has.raw;
    const long step = has.pitch * w.stride_w;
    for (long r = 0, rest = 0, q = 0; r < used; ++r) {
      std::int8_t* row = all + (rest * has.rows + q) * step + w.pad_w;
      const long y = top + r;
      if (rest < has.remainders && y >= 0 && y < w.height) copy_bytes(row, from + y * w.width, w.width);
      else if (rest < has.remainders)
        for (long x = 0; x < step - w.pad_w; x += 16) put(row + x, bytes16(zero), step - w.pad_w - x);
      if (++rest == w.stride_h) rest = 0, ++q;
    }
    return all;
  }
  /// Packs the words that output rows [first, first + count) read.
  LAMINA_INLINE void cut_band(long first, long count) const {
    const long top = first * w.stride_h - w.pad_h,
               used = (count - 1) * w.stride_h + (w.kernel_h - 1) * w.dilation_h + 1;
    const bool by_rows = has.by_channels && w.stride_h == 1 && w.stride_w == 1 && has.pitch > w.width;
    std::int32_t padding = 0;
    for (long i = 0; i < numbers; ++i)
      Form::put_number(reinterpret_cast<std::int8_t*>(&padding), i, static_cast<std::int8_t>(zero ^ Form::flip));
    for (long p = 0; p < has.planes; ++p) {
      if (by_rows && cut_rows(p, top, used, padding)) continue;
      const std::int8_t* from[numbers];
      for (long i = 0; i < numbers; ++i)
        if (!has.by_channels) from[i] = i ? from[0] + i * w.dilation_w : raw(p, top, used, 0);
        else from[i] = p * numbers + i < has.channels ? raw(p * numbers + i, top, used, i) : from[0];
      for (long k = 0; k < has.phases; ++k) {
        std::int8_t* to = image() + p * has.plane + k * has.segment * 4;
        if (w.stride_w == 1)
          for (long x = 0; x < has.segment; x += 16) put_words<Form, 1>(to + x * 4, from, x);
        else if (w.stride_w == numbers && !has.by_channels && w.dilation_w == 1)
          for (long x = 0; x < has.segment; x += 16) put_words<Form>(to + x * 4, from[0] + k * has.phase + x * numbers);
        else if (w.stride_w == 2)
          for (long x = 0; x < has.segment; x += 16) put_words<Form, 2>(to + x * 4, from, x * 2 + k * has.phase);
        else
          for (long x = 0; x < has.segment; ++x)
            for (long i = 0; i < numbers; ++i)
              Form::put_number(to + x * 4, i,
                               static_cast<std::int8_t>(from[i][x * w.stride_w + k * has.phase] ^ Form::flip));
      }
    }
  }

  /// Computes `count` pixels of the line for some filters.
  template <int NV> LAMINA_INLINE void line_of_pixels(const std::int8_t* words, long count, long o, int some,
                                                      number* to, long step) const {
    alignas(64) std::int32_t sums[max_sums<Form>];
    const long* where = at();
    constexpr long each = NV * Form::lanes;
    for (long x = 0; x < count; x += each) {
      with_rows<max_rows<Form>(NV)>(some, [&]<int MR>() __attribute__((always_inline)) {
        with_exact_form<Form>(weights, [&]<class Exact>(Exact) __attribute__((always_inline)) {
          pixel_tile<Exact, MR, NV>(has.words, where, words + x * 4, packed + o * 4, has.filters * 4, sums);
        });
      });
      for (int i = 0; i < some; ++i) {
        LAMINA_UNROLL
        for (int j = 0; j < (each + 15) / 16; ++j)
          if (const long left = count - x - j * 16; left > 0)
            put(to + i * step + x + j * 16,
                finished.template operator()<false>(sums + i * row_of_sums<Form, NV> + j * 16, by.bias + o + i,
                                                    by.factor + o + i),
                left);
      }
    }
  }
  LAMINA_INLINE void rows_of_pixels(long first, long count) const {
    const long results = w.out_height * w.out_width, max = has.line_step - 4 * panel_columns;
    const long end_of_part = end_row * w.out_width;
    const bool straight = has.pitch == w.out_width;
    const long at_once = max / has.pitch < count ? max / has.pitch : count;
    const auto run = [&]<int NV>(std::integral_constant<int, NV>) __attribute__((always_inline)) {
      for (long y = 0; y < count; y += at_once) {
        const long rows = count - y < at_once ? count - y : at_once, pixels = (rows - 1) * has.pitch + w.out_width;
        even_parts(filters, max_rows<Form>(NV), [&](long o, int some) __attribute__((always_inline)) {
          number* to = out + o * results + (first + y) * w.out_width;
          number* line = straight ? to : reinterpret_cast<number*>(scratch + has.results);
          const long step = straight ? results : has.line_step;
          line_of_pixels<NV>(image() + y * has.pitch * 4, pixels, o, some, line, step);
          if (!straight)
            for (int i = 0; i < some; ++i)
              rows_of_line<numbers16>(line + i * step, has.pitch, to + i * results, w.out_width, rows,
                                      end_of_part - (first + y) * w.out_width);
        });
      }
    };
    constexpr int one = max_rows<Form>(whole<Form>), two = max_rows<Form>(2 * whole<Form>);
    if constexpr (two > 0)
      if (filters <= two || two >= one) return run(std::integral_constant<int, 2 * whole<Form>>());
    run(std::integral_constant<int, whole<Form>>());
  }

  LAMINA_INLINE void rows_of_filters(long first, long count) const {
    constexpr long max = conv_layout<Form>::pixels_at_once;
    const std::int8_t* x[max];
    auto* block = reinterpret_cast<number*>(scratch + has.results);
    constexpr long tile = max_rows<Form>(whole<Form>), whole_tiles = max / tile * tile;
    const long all = count * w.out_width, even = parts_of(parts_of(all, parts_of(all, whole_tiles)), tile) * tile,
               group = all <= max ? all : even;
    for (long begin = 0; begin < all; begin += group) {
      const long pixels = all - begin < group ? all - begin : group;
      for (long p = 0, row = begin / w.out_width, column = begin % w.out_width; p < pixels; ++p) {
        x[p] = image() + (row * has.pitch + column) * 4;
        if (++column == w.out_width) column = 0, ++row;
      }
      number* to_pixel = out + first * w.out_width + begin;
      filter_tiles<Form, true>(
          pixels, filters, has.panels(), at(), x, packed,
          [&](long p, int tall, long panel, int wide, const std::int32_t* sums) __attribute__((always_inline)) {
            for (int j = 0; j < wide; ++j) {
              const long o = (panel + j) * panel_columns;
              for (int i = 0; i < tall; ++i)
                write(block + (j * max + p + i) * 16,
                      finished.template operator()<true>(sums + (i * wide + j) * panel_columns, by.bias + o,
                                                         by.factor + o));
              if (const long left = filters - o; p + tall == pixels)
                put_turned<numbers16>(block + j * max * 16, to_pixel + o * w.out_height * w.out_width,
                                      w.out_height * w.out_width, left < panel_columns ? left : panel_columns, pixels);
            }
          });
    }
  }

  LAMINA_INLINE void run() const {
    for (long first = first_row; first < end_row; first += has.band) {
      const long count = end_row - first < has.band ? end_row - first : has.band;
      cut_band(first, count);
      if (has.pixels_in_lanes) rows_of_pixels(first, count);
      else rows_of_filters(first, count);
    }
  }
};

/// Fills padding and the offsets of the words of a pixel.
template <class Form> LAMINA_INLINE void prepare_scratch(const conv_layout<Form>& has, const window& w,
                                                         std::int8_t zero, std::int8_t* memory) {
  std::memset(memory + has.raws, zero, has.at - has.raws);
  auto* at = reinterpret_cast<long*>(memory + has.at);
  const long each = w.kernel_h * has.taps;  // words of a plane
  for (long i = 0; i < w.kernel_h; ++i)
    for (long t = 0; t < has.taps; ++t) {
      const long column = has.column_of(w, t), row = i * w.dilation_h;
      at[i * has.taps + t] =
          ((column % w.stride_w / has.phase * has.remainders + row % w.stride_h) * has.rows + row / w.stride_h) *
              has.pitch * 4 +
          column / w.stride_w * 4;
    }
  for (long k = each; k < has.planes * each; ++k) at[k] = at[k - each] + has.plane;
}

template <class Form, class Result> LAMINA_INLINE void conv(const quantized_conv_args& args, void* scratch) {
  const quantized_conv_args a = args;
  const window& w = a.w;
  const Result finished(a.to);
  const conv_layout<Form> has(w);
  auto* memory = static_cast<std::int8_t*>(scratch);
  const std::int8_t zero = *a.to.x_zero_point;
  prepare_scratch(has, w, zero, memory);
  const long plane = w.height * w.width, results = w.out_height * w.out_width, channels = has.channels / a.repeats;
  for (long g = 0; g < w.groups; ++g) {
    const std::int8_t* packed = a.packed + g * has.packed_bytes();
    requantization to = a.to;
    const long first = g * has.filters + a.first_filter;
    if (to.bias) to.bias += first;
    if (to.w_scale) to.w_scale += first * to.w_scale_step;
    const factors by = factors_of<Form, Result>(to, a.filters, memory + has.factors, [&](long o) {
      return read<std::int32_t>(packed + has.sum_of(a.first_filter + o));
    });
    for (long n = a.first; n < a.first + a.count; ++n)
      conv_run<Form, Result>{w,
                             has,
                             channels,
                             a.filters,
                             memory,
                             zero,
                             a.in + (n * w.groups + g) * channels * plane,
                             a.in + (a.first + a.count) * w.groups * channels * plane,
                             packed + has.words_of(a.first_filter),
                             has.pixels_in_lanes ? fits_in<Form>(packed, has.packed_bytes()) : fits::two,
                             static_cast<typename Result::number*>(a.out) + (n * w.out_channels + first) * results,
                             a.first_row,
                             a.first_row + a.rows,
                             finished,
                             by}
          .run();
  }
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
