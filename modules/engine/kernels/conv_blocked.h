// Direct convolution over channel-blocked buffers: the tile and the loops around it.
//
// A tile is `Rows` pixels of one output row by `Columns` blocks of output channels.  It sums over input blocks, kernel
// rows inside the map, and the steps of one kernel row (taps x channels), along which input and weights are contiguous.
// Padding rows are skipped, never stored; padding columns are skipped by the tile (3 taps, padding 1) or come from a
// padded copy of the current input rows.
#pragma once
#include "conv.h"
#include "product_form.h"
#include "simd.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace blocked {

inline constexpr long block = width<float>;
inline constexpr float infinite = __builtin_inff();

/// Bytes of a pixel of a channel block, and of a pair of blocks of rounded images.
inline constexpr long pixel_bytes = block * 4;
/// Bytes from the first map of an image to a channel block, and maps before an image: pairs of blocks if it is rounded.
LAMINA_INLINE constexpr long place_of(bool rounded, long of, long pixels) {
  return rounded ? of / 2 * pixels * pixel_bytes + of % 2 * pixel_bytes / 2 : of * pixels * pixel_bytes;
}
LAMINA_INLINE constexpr long maps_before(bool rounded, long image, long blocks) {
  return image * (rounded ? (blocks + 1) / 2 : blocks);
}
/// A pixel of a channel block, of float32 or rounded.
LAMINA_INLINE vec<float> load_pixel(bool rounded, const char* at) {
  if (!rounded) return load(reinterpret_cast<const float*>(at));
  return widened(reinterpret_cast<const std::uint16_t*>(at));
}

/// Largest tiles: `single_rows` x 1 block, `wide_rows` x 2 blocks, and `narrow_rows` x 3 blocks for narrow maps.
#if LAMINA_REGISTERS == 32
inline constexpr long single_rows = 14, wide_rows = 14, narrow_rows = 9;
#elif defined(__AVX2__)
inline constexpr long single_rows = 8, wide_rows = 6, narrow_rows = 4;
#else
inline constexpr long single_rows = 8, wide_rows = 6, narrow_rows = 3;
#endif

/// Cache budgets in bytes: weights of one tile column, and input rows, that are reused.
inline constexpr long weight_bytes = 400 * 1024, input_bytes = 256 * 1024;

struct tile_args {
  const void* in;  // in the input type of the form; strides of the input are in elements of it
  const float* weight;
  float* out;
  const float* bias;                    // null: none
  const float* residual;                // null: none; strides of `out`
  long blocks, in_block, weight_block;  // input blocks and their strides
  long rows, in_row, weight_row;        // kernel rows and their strides
  long steps, last_steps;               // contiguous steps of one kernel row; of the last input block
  long tap;                             // steps of one tap of a kernel row
  long pixel;                           // stride of neighboring pixels of the tile
  long weight_column, out_column;       // strides of output blocks
  long ahead, ahead_lines;  // prefetch: distance to the weights of later tiles, and cache lines per kernel row
  float low, high;
  bool accumulate, last, clamp;  // add to `out`; apply bias, residual and clamp
  bool left, right;              // the first (last) pixel misses its first (last) tap
};

/// Pointers to the first of every three pixels of a tile; addressing modes with an index reach the other two.
template <class Form, int Rows> using pixel_pointers = const typename Form::x * [(Rows + 2) / 3];

/// Prefetches weights of later tiles, as many as a kernel row has.
template <int Columns> LAMINA_INLINE void prefetch_weights(const tile_args& q, const float* weight) {
  for (long i = 0; i < q.ahead_lines; ++i)
    LAMINA_UNROLL for (int j = 0; j < Columns; ++j)
        __builtin_prefetch(weight + q.ahead + i * block + j * q.weight_column, 0, 2);
}
/// Accumulates one step into the pixels [First, Last) of a tile; `p`: steps after the pointers.
template <class Form, int First, int Last, int Rows, int Columns>
LAMINA_INLINE void accumulate_step(vec<float> (&sum)[Rows][Columns], const pixel_pointers<Form, Rows>& at,
                                   const float* weight, long pixel, long weight_column, long p, int part) {
  vec<float> w[Columns];
  LAMINA_UNROLL for (int j = 0; j < Columns; ++j) w[j] =
      Form::weights(load(weight + p * block + j * weight_column), part);
  LAMINA_UNROLL for (int i = First; i < Last; ++i) {
    const auto x = Form::everywhere(at[i / 3] + i % 3 * pixel + p * Form::numbers, part);
    LAMINA_UNROLL for (int j = 0; j < Columns; ++j) sum[i][j] = Form::plus(sum[i][j], x, w[j]);
  }
}
/// Moves the pointers of a tile by elements.
template <class Form, int Rows> LAMINA_INLINE void advance(pixel_pointers<Form, Rows>& at, long elements) {
  LAMINA_UNROLL for (int g = 0; g < (Rows + 2) / 3; ++g) {
    at[g] += elements;
    asm("" : "+r"(at[g]));  // otherwise the compiler keeps a pointer for each pixel, most of them in memory
  }
}
/// Accumulates contiguous input channels (or taps) into the pixels [First, Last) of a tile, with stride `pixel`.
template <class Form, int First, int Last, int Rows, int Columns>
LAMINA_INLINE void accumulate_steps(vec<float> (&sum)[Rows][Columns], pixel_pointers<Form, Rows>& at,
                                    const float*& weight, long pixel, long weight_column, long steps) {
  LAMINA_NO_UNROLL for (long p = 0; p < steps; ++p, weight += block) {
    LAMINA_UNROLL for (int part = Form::parts - 1; part >= 0; --part) {
      if constexpr (Form::parts > 1)
        asm("" : : : "memory");  // keeps the loads of the parts apart: otherwise registers are spilled
      accumulate_step<Form, First, Last>(sum, at, weight, pixel, weight_column, 0, part);
    }
    advance<Form, Rows>(at, Form::numbers);
  }
}

/// Whether the loop over a block of input channels is unrolled where a kernel row has no other steps, as in a 1x1
/// window. A block of AVX2 has half the channels of one of AVX-512, and a channel half the products: the loop would
/// take a tenth of the time. Small tiles are rare.
template <class Form, int Rows, int Columns> inline constexpr bool unrolls_blocks =
    LAMINA_REGISTERS == 16 && block == 8 && Form::parts == 1 && Form::numbers == 1 && Rows * Columns >= 8;

/// Accumulates `count` whole blocks of input channels, with one kernel row of as many steps.
template <class Form, int Rows, int Columns>
LAMINA_INLINE void accumulate_blocks(const tile_args& q, vec<float> (&sum)[Rows][Columns], const typename Form::x* at,
                                     const float* weight, long count) {
  const long pixel = q.pixel, weight_column = q.weight_column, weight_block = q.weight_block;
  pixel_pointers<Form, Rows> in;
  LAMINA_UNROLL for (int g = 0; g < (Rows + 2) / 3; ++g) in[g] = at + 3 * g * pixel;
  LAMINA_NO_UNROLL for (; count > 0; --count, weight += weight_block) {
    prefetch_weights<Columns>(q, weight);
    LAMINA_UNROLL for (long p = 0; p < block; ++p)
        accumulate_step<Form, 0, Rows>(sum, in, weight, pixel, weight_column, p, 0);
    advance<Form, Rows>(in, q.in_block);
  }
}

/// Adds previous partial sums, applies the epilogue and stores.  Bias and clamp have no branches: there are many tile
/// instances, and neutral values cost less than code.
template <int Rows, int Columns> LAMINA_INLINE void finish(const tile_args& q, vec<float> (&sum)[Rows][Columns]) {
  float* const out = q.out;
  const long out_column = q.out_column;
  const float* const bias_at = q.last ? q.bias : nullptr;
  const float* const added[2] = {q.accumulate ? out : nullptr, q.last ? q.residual : nullptr};
  LAMINA_NO_UNROLL for (const float* from : added) {
    if (!from) continue;
    LAMINA_UNROLL for (int j = 0; j < Columns; ++j) LAMINA_UNROLL for (int i = 0; i < Rows; ++i) sum[i][j] +=
        load(from + j * out_column + i * block);
  }
  const bool clamps = q.last && q.clamp;
  const vec<float> low(clamps ? q.low : -infinite), high(clamps ? q.high : infinite);
  LAMINA_UNROLL for (int j = 0; j < Columns; ++j) {
    const auto bias = bias_at ? load(bias_at + j * block) : zero<float>();
    LAMINA_UNROLL for (int i = 0; i < Rows; ++i)
        store<float>(out + j * out_column + i * block, clamp<float>(sum[i][j] + bias, low, high));
  }
}

/// If the first (last) pixel misses its first (last) tap, only the other pixels process that tap.
template <class Form, int Columns, int Rows> LAMINA_INLINE void tile(const tile_args& q) {
  const bool left = q.left, right = q.right;
  const long blocks = q.blocks, rows = q.rows, pixel = q.pixel, weight_column = q.weight_column;
  const long tap = q.tap, edges = (left ? tap : 0) + (right ? tap : 0), steps = q.steps - edges,
             last_steps = q.last_steps - edges;
  const long in_row = q.in_row, weight_row = q.weight_row;
  const long next_in = q.in_block - rows * in_row, next_weight = q.weight_block - rows * weight_row;
  const auto* in_at = static_cast<const typename Form::x*>(q.in);
  const float* weight_at = q.weight;
  vec<float> sum[Rows][Columns];
  LAMINA_UNROLL for (int i = 0; i < Rows; ++i) LAMINA_UNROLL for (int j = 0; j < Columns; ++j) sum[i][j] =
      zero<float>();
  long b = 0;
  if constexpr (unrolls_blocks<Form, Rows, Columns>)
    if (rows == 1 && steps == block && edges == 0) {
      b = last_steps == steps ? blocks : blocks - 1;
      accumulate_blocks<Form>(q, sum, in_at, weight_at, b);
      in_at += b * q.in_block;
      weight_at += b * q.weight_block;
    }
  for (; b < blocks; ++b, in_at += next_in, weight_at += next_weight) {
    for (long y = 0; y < rows; ++y, in_at += in_row, weight_at += weight_row) {
      prefetch_weights<Columns>(q, weight_at);
      pixel_pointers<Form, Rows> in;
      LAMINA_UNROLL for (int g = 0; g < (Rows + 2) / 3; ++g) in[g] = in_at + 3 * g * pixel;
      const float* weight = weight_at;
      if (left) accumulate_steps<Form, 1, Rows>(sum, in, weight, pixel, weight_column, tap);
      accumulate_steps<Form, 0, Rows>(sum, in, weight, pixel, weight_column, b + 1 < blocks ? steps : last_steps);
      if (right) accumulate_steps<Form, 0, Rows - 1>(sum, in, weight, pixel, weight_column, tap);
    }
  }
  finish<Rows, Columns>(q, sum);
}

/// Indices of conv_blocked_args::decision, set by `prepare`.
enum place {
  is_depthwise,
  is_flat,  // 1x1 with stride 1: the map is one long row, cut into pieces
  has_edge,
  has_copy,    // how padding columns are handled
  copy_width,  // pixels of a row of the padded copy
  row_pixels,
  row_count,  // pixels and number of (pseudo-)rows
  tile_rows,
  tile_columns,  // largest tile
  in_blocks,
  row_group,          // input blocks and output rows at a time
  copies_windows,     // depthwise with any window, over a padded copy of the current rows
  winograd_together,  // Winograd: tiles at a time; else 0
  is_spread,          // dilation along rows: the taps of a kernel row are processed like kernel rows
  place_count
};

constexpr long divide_up(long a, long b) { return (a + b - 1) / b; }
constexpr long smaller(long a, long b) { return a < b ? a : b; }
constexpr long larger(long a, long b) { return a > b ? a : b; }

/// Input rows [first, last), clamped to the map, that `count` output rows from `row` on read.
struct row_range {
  long first, last;
};
LAMINA_INLINE row_range input_rows(const window& w, long row, long count) {
  const long first = row * w.stride_h - w.pad_h, last = first + w.rows_under(count);
  return {smaller(larger(first, 0), w.height), larger(smaller(last, w.height), 0)};
}

/// Taps [first, last) along an axis that are inside a map of `size` for any of the results whose windows begin at
/// `origin` to `origin + reach`.
struct taps_inside {
  long first, last;
  constexpr taps_inside(long origin, long reach, long taps, long dilation, long size)
      : first(origin + reach < 0 ? smaller(taps, divide_up(-origin - reach, dilation)) : 0),
        last(larger(first, smaller(taps, divide_up(larger(size - origin, 0), dilation)))) {}
};
/// Kernel rows inside the map for one output row, and the input row `at` of the first one.
struct kernel_rows : taps_inside {
  long at;
  constexpr kernel_rows(const window& w, long row)
      : taps_inside(row * w.stride_h - w.pad_h, 0, w.kernel_h, w.dilation_h, w.height),
        at(row * w.stride_h - w.pad_h + first * w.dilation_h) {}
};

/// Copies [blocks][rows][pixels][step] from `from` to `to`; each row gets `pad` pixels of zeros before and zeros after.
/// Converts elements to the input type of the form.
template <class Form> LAMINA_COMPACT void copy_rows(const float* from, long blocks, long from_block, long rows,
                                                    long from_row, typename Form::x* to, long to_pixels, long pad,
                                                    long pixels, long step) {
  constexpr auto size = sizeof(typename Form::x);
  const long before = smaller(pad, to_pixels) * step, inside = smaller(pixels, larger(0, to_pixels - pad)) * step;
  const long after = to_pixels * step - before - inside;
  for (long b = 0; b < blocks; ++b) {
    for (long y = 0; y < rows; ++y) {
      __builtin_memset(to, 0, static_cast<std::size_t>(before) * size);
      const float* row = from + b * from_block + y * from_row;
      if constexpr (Form::numbers > 1) Form::round(row, inside, to + before);
      else __builtin_memcpy(to + before, row, static_cast<std::size_t>(inside) * size);
      if (after > 0) __builtin_memset(to + before + inside, 0, static_cast<std::size_t>(after) * size);
      to += to_pixels * step;
    }
  }
}

/// Copies the rows that output rows [first, first + count) of a spread window read: [blocks][kernel rows][together], rows
/// outside the map left out. `pixels`: of a row of the copy.
template <class Form> LAMINA_COMPACT void copy_spread_rows(const window& w, const float* from, long blocks, long first,
                                                           long count, long together, typename Form::x* to, long pixels,
                                                           long pad, long step) {
  const long row = w.width * step, line = pixels * step;
  for (long b = 0; b < blocks; ++b)
    for (long i = 0; i < w.kernel_h; ++i, to += together * line) {
      const long offset = i * w.dilation_h - w.pad_h;
      const long begin = larger(first, divide_up(larger(0, -offset), w.stride_h)),
                 end = smaller(first + count, divide_up(larger(0, w.height - offset), w.stride_h));
      if (begin < end)
        copy_rows<Form>(from + (b * w.height + begin * w.stride_h + offset) * row, 1, 0, end - begin, w.stride_h * row,
                        to + (begin - first) * line, pixels, pad, w.width, step);
    }
}

/// Output rows of a call that is not by Winograd: of a part of the image, or all.
constexpr long rows_of_part(const conv_blocked_args& a) { return a.piece_count ? a.piece_count : a.w.out_height; }

/// Whether the pieces of an image are parts of its only row: of a sequence. Each reads all weights.
constexpr bool is_sequence(const window& w) {
  constexpr long max_weights = 512 * 1024 / 4;
  return w.height == 1 && w.out_height == 1 && w.kernel_h == 1 && w.pad_h == 0 && w.groups == 1 &&
         w.out_width >= 16 * wide_rows && w.channels * w.out_channels * w.kernel_w <= max_weights;
}
/// Pixels of a piece: a row, or a part of a sequence: an eighth of it, in whole tiles.
constexpr long piece_pixels(const window& w) {
  if (!is_sequence(w)) return w.out_width;
  return divide_up(larger(divide_up(w.out_width, 8), 8 * wide_rows), wide_rows) * wide_rows;
}
/// Pieces of an image that is not convolved by Winograd.
constexpr long count_pieces(const window& w) {
  return is_sequence(w) ? divide_up(w.out_width, piece_pixels(w)) : w.out_height;
}
/// Output pixels of such a call.
constexpr long pixels_of_part(const conv_blocked_args& a) {
  const long all = a.w.out_height * a.w.out_width, piece = piece_pixels(a.w);
  return a.piece_count ? smaller(a.piece_count * piece, all - a.first_piece * piece) : all;
}

/// Traversal of an image by a convolution that is not depthwise, each with its own kernel: 1x1 with stride 1, whose map
/// is one long row; rows in place; rows of a padded copy.
enum class sweep { flat, rows, copied_rows };

/// Convolves one image. Calls tiles through `a.tile`: [2 * (larger of two heights) + 4 * (short row) + last blocks].
/// `Rounds`: the image is float, copied and rounded for each group of rows; else it has the input type of the form.
template <class Form, sweep Way, bool Rounds = (Form::numbers > 1)>
LAMINA_COMPACT void run_image(const conv_blocked_args& a, const void* image, const float* residual, float* out,
                              typename Form::x* copy) {
  using X = typename Form::x;
  const auto* in = static_cast<const std::conditional_t<Rounds, float, X>*>(image);
  const window& w = a.w;
  const long* d = a.decision;
  constexpr bool flat = Way == sweep::flat, copies = Way == sweep::copied_rows || Rounds;
  const bool planar = a.planar_in != 0, edge = Way == sweep::rows && d[has_edge] != 0,
             sequence = !flat && is_sequence(w);
  const long step = planar ? 1 : block;
  const long in_count = planar ? w.channels : divide_up(w.channels, block),
             out_count = divide_up(w.out_channels, block);
  const long pixels = w.out_height * w.out_width;
  const long kernel_row = steps_of<Form>(w.kernel_w * step) * block;  // lanes of weights of one kernel row
  tile_args q;
  const bool spread = !flat && d[is_spread] != 0;
  q.tap = steps_of<Form>(step);
  q.steps = spread ? q.tap : steps_of<Form>(w.kernel_w * step);
  q.pixel = w.stride_w * step;
  q.weight_row = spread ? q.tap * block : kernel_row;
  q.weight_block = w.kernel_h * kernel_row;
  q.weight_column = in_count * q.weight_block;
  q.out_column = pixels * block;
  q.low = a.low;
  q.high = a.high;
  q.clamp = a.clamp != 0;
  // Output rows of this part, or parts of a sequence; for a flat map, pieces of its pixels, counted from the part's
  // first pixel.
  const long begin = flat ? 0 : a.first_piece, end = begin + d[row_count];
  const long first_pixel = flat ? a.first_piece * piece_pixels(w) : 0, part_pixels = pixels_of_part(a);
  for (long group = begin; group < end; group += d[row_group]) {
    const long group_end = smaller(group + d[row_group], end);
    for (long c = 0; c < in_count; c += d[in_blocks]) {
      q.blocks = smaller(d[in_blocks], in_count - c);
      const bool last_channels = c + q.blocks == in_count;
      // With a single tap, skips the channels beyond the last one.
      q.last_steps = last_channels && flat && !planar ? steps_of<Form>(w.channels - (in_count - 1) * block) : q.steps;
      const auto* whole = in + c * w.height * w.width * step;
      const X* source = copy;
      // First row and column of the map in `source`; of a flat map, less the first pixel of the part.
      long source_row = 0, source_column = Way == sweep::copied_rows ? -w.pad_w : -first_pixel;
      q.in_row = w.width * step;
      q.in_block = w.height * q.in_row;
      if constexpr (!copies) source = whole;
      else if constexpr (flat) {
        source_column = group * d[row_pixels];
        const long count = smaller(group_end * d[row_pixels], part_pixels) - source_column;
        copy_rows<Form>(whole + (first_pixel + source_column) * step, q.blocks, q.in_block, 1, 0, copy, count, 0, count,
                        step);
        q.in_block = count * step;
      } else if (sequence) {
        // Only parts that read padding, or are rounded, are copied.
        const long x = group * d[row_pixels], column = x * w.stride_w - w.pad_w,
                   beyond = column + w.columns_under(smaller(d[row_pixels], w.out_width - x));
        const bool pads = Way == sweep::copied_rows && (column < 0 || beyond > w.width);
        if (Rounds || pads) {
          const long first = larger(column, 0), held = larger(smaller(beyond, w.width) - first, 0);
          const long count = pads ? beyond - column : held;
          source_column = pads ? column : first;
          copy_rows<Form>(whole + (held > 0 ? first * step : 0), q.blocks, q.in_block, 1, 0, copy, count,
                          first - source_column, held, step);
          q.in_block = count * step;
        } else if constexpr (!Rounds) {
          source = whole;
          source_column = 0;
        }
      } else {
        const bool pads = Way == sweep::copied_rows;
        const long width = pads ? d[copy_width] : w.width, pad = pads ? w.pad_w : 0;
        if (spread) {
          copy_spread_rows<Form>(w, whole, q.blocks, group, group_end - group, d[row_group], copy, width, pad, step);
          q.in_block = w.kernel_h * d[row_group] * width * step;
        } else {
          const auto held = input_rows(w, group, group_end - group);
          const long count = larger(0, held.last - held.first);
          copy_rows<Form>(whole + held.first * q.in_row, q.blocks, q.in_block, count, q.in_row, copy, width, pad,
                          w.width, step);
          source_row = held.first;
          q.in_block = count * width * step;
        }
        q.in_row = width * step;
      }
      const bool gathered = spread && copies && !sequence;
      // Distance of the rows that neighboring kernel rows read.
      const long line = q.in_row, below = (gathered ? d[row_group] : w.dilation_h) * line;
      q.in_row = spread ? w.dilation_w * step : below;
      for (long o = 0; o < out_count; o += d[tile_columns]) {
        const bool last_blocks = out_count - o < d[tile_columns];
        q.bias = a.bias ? a.bias + o * block : nullptr;
        // Each tile of these channels prefetches its share of the next weights, of every kernel row: those of the next
        // channels, of the next input blocks, or after all of them, such as those of the next Winograd point.
        const long tiles_here = (group_end - group) * divide_up(d[row_pixels], d[tile_rows]);
        const long lines = divide_up(q.steps, tiles_here);
        const long next = o + d[tile_columns] < out_count ? d[tile_columns] * q.weight_column
                          : last_channels                 ? (out_count - o) * q.weight_column - c * q.weight_block
                                                          : d[in_blocks] * q.weight_block - o * q.weight_column;
        long fetched = 0;
        for (long y = group; y < group_end; ++y) {
          const kernel_rows inside(w, sequence ? 0 : y);  // unused for a flat map, where `y` is not a row
          const long kernel_rows_inside = flat ? 1 : inside.last - inside.first;
          // Taps of several kernel rows are not equally far apart: one call for each kernel row adds to the tile.
          const long calls = spread ? larger(kernel_rows_inside, 1) : 1;
          const long first_x = flat || sequence ? y * d[row_pixels] : 0;
          const long count = smaller(d[row_pixels], (flat ? part_pixels : w.out_width) - first_x);
          const bool short_row = count != d[row_pixels];
          const long tiles = divide_up(count, d[tile_rows]), base = count / tiles, longer = count % tiles;
          const X* from = source + (flat       ? 0
                                    : gathered ? inside.first * d[row_group] + y - group
                                               : inside.at - source_row) *
                                       line;
          const float* weight =
              a.weight + o * q.weight_column + c * q.weight_block + (flat ? 0 : inside.first * kernel_row);
          for (long t = 0, x = 0; t < tiles; ++t) {
            const long size = base + (t < longer);
            const long column = flat ? first_x + x : (first_x + x) * w.stride_w - w.pad_w, x0 = column - source_column;
            q.left = edge && column < 0;
            q.right = edge && column + (size - 1) * w.stride_w + w.kernel_w > w.width;
            q.in = from + x0 * step;
            q.weight = weight;
            q.ahead = next + fetched * block;
            q.ahead_lines = smaller(lines, q.steps - fetched);
            fetched += q.ahead_lines;
            const long at = (o * pixels + first_pixel + y * d[row_pixels] + x) * block;
            q.out = out + at;
            q.residual = residual ? residual + at : nullptr;
            const auto tile = a.tile[(size > base ? 2 : 0) + (short_row ? 4 : 0) + (last_blocks ? 1 : 0)];
            q.rows = kernel_rows_inside;
            if (spread) {
              const taps_inside taps(column, (size - 1) * w.stride_w, w.kernel_w, w.dilation_w, w.width);
              q.rows = kernel_rows_inside > 0 ? taps.last - taps.first : 0;
              q.in = from + x0 * step + taps.first * q.in_row;
              q.weight = weight + taps.first * q.weight_row;
            }
            for (long call = 0; call < calls; ++call) {
              q.accumulate = c > 0 || call > 0;
              q.last = last_channels && call + 1 == calls;
              tile(&q);
              if (spread) {
                q.in = static_cast<const X*>(q.in) + below;
                q.weight += kernel_row;
              }
            }
            x += size;
          }
        }
      }
    }
  }
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
