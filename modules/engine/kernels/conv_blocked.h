// Direct convolution over channel-blocked buffers: the tile and the loops around it.
//
// A tile is `Rows` pixels of one output row by `Columns` blocks of output channels.  Its sum runs over input blocks,
// kernel rows that lie inside the map, and the contiguous steps of one kernel row (taps x channels), since input and
// weights are both contiguous there.  Rows of padding are skipped, never stored; columns of padding are skipped by the
// tile (3 taps, padding 1) or come from a padded copy of the input rows at hand.
#pragma once
#include "conv.h"
#include "simd.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace blocked {

inline constexpr long block = width<float>;
inline constexpr float infinite = __builtin_inff();

/// Largest tiles: `wide_rows` x 2 blocks, and `narrow_rows` x 3 blocks for narrow maps.
#if LAMINA_REGISTERS == 32
inline constexpr long wide_rows = 14, narrow_rows = 9;
#elif defined(__AVX2__)
inline constexpr long wide_rows = 6, narrow_rows = 4;
#else
inline constexpr long wide_rows = 6, narrow_rows = 3;
#endif

/// Bytes of weights of one tile column, and of input rows, that are kept near while they are reused.
inline constexpr long weight_bytes = 400 * 1024, input_bytes = 256 * 1024;

struct tile_args {
  const float* in;
  const float* weight;
  float* out;
  const float* bias;                    // null: none
  const float* residual;                // null: none; strides of `out`
  long blocks, in_block, weight_block;  // input blocks and their strides
  long rows, in_row, weight_row;        // kernel rows and their strides
  long steps, last_steps;               // contiguous steps of one kernel row; of the last input block
  const char* ahead;                    // weights that tiles after this one read first, of which each kernel row
  long lines_ahead;                     // fetches so many lines
  long pixel;                           // floats between neighboring pixels of the tile
  long weight_column, out_column;       // strides of output blocks
  float low, high;
  bool accumulate, last, clamp;  // add to `out`; finish with bias, residual, clamp
  bool left, right;              // the first (last) pixel misses its first (last) tap
};

/// Pointers to the first of every three pixels of a tile: the others are reached by the machine's addressing modes.
template <int Rows> using pixel_pointers = const float * [(Rows + 2) / 3];

/// `steps` contiguous input channels (or taps) of the pixels [First, Last) of a tile, which lie `pixel` floats apart.
template <int First, int Last, int Rows, int Columns>
LAMINA_INLINE void accumulate_steps(vec<float> (&sum)[Rows][Columns], pixel_pointers<Rows>& at, const float*& weight,
                                    long pixel, long weight_column, long steps) {
  LAMINA_NO_UNROLL for (long p = 0; p < steps; ++p, weight += block) {
    vec<float> w[Columns];
    LAMINA_UNROLL for (int j = 0; j < Columns; ++j) w[j] = load(weight + j * weight_column);
    LAMINA_UNROLL for (int i = First; i < Last; ++i) {
      const auto x = broadcast(at[i / 3] + i % 3 * pixel);
      LAMINA_UNROLL for (int j = 0; j < Columns; ++j) sum[i][j] = fma<float>(x, w[j], sum[i][j]);
    }
    LAMINA_UNROLL for (int g = 0; g < (Rows + 2) / 3; ++g) {
      ++at[g];
      asm("" : "+r"(at[g]));  // or the compiler keeps a pointer for each pixel, most of them in memory
    }
  }
}

/// Adds what the tile held before and the epilogue, and stores.  Bias and clamp are not branched around: tiles are many,
/// and neutral values cost less than code.
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

/// A first (last) pixel that misses its first (last) tap leaves that tap to the other pixels.
template <int Columns, int Rows> LAMINA_INLINE void tile(const tile_args& q) {
  const bool left = q.left, right = q.right;
  const long blocks = q.blocks, rows = q.rows, pixel = q.pixel, weight_column = q.weight_column;
  const long edges = (left ? block : 0) + (right ? block : 0), steps = q.steps - edges,
             last_steps = q.last_steps - edges;
  const long in_row = q.in_row, weight_row = q.weight_row;
  const long next_in = q.in_block - rows * in_row, next_weight = q.weight_block - rows * weight_row;
  const float* in_at = q.in;
  const float* weight_at = q.weight;
  const char* ahead = q.ahead;
  const long lines_ahead = q.lines_ahead;
  vec<float> sum[Rows][Columns];
  LAMINA_UNROLL for (int i = 0; i < Rows; ++i) LAMINA_UNROLL for (int j = 0; j < Columns; ++j) sum[i][j] =
      zero<float>();
  for (long b = 0; b < blocks; ++b, in_at += next_in, weight_at += next_weight) {
    for (long y = 0; y < rows; ++y, in_at += in_row, weight_at += weight_row) {
      pixel_pointers<Rows> in;
      LAMINA_UNROLL for (int g = 0; g < (Rows + 2) / 3; ++g) in[g] = in_at + 3 * g * pixel;
      LAMINA_NO_UNROLL for (long i = 0; i < lines_ahead; ++i, ahead += 64) __builtin_prefetch(ahead, 0, 2);
      const float* weight = weight_at;
      if (left) accumulate_steps<1, Rows>(sum, in, weight, pixel, weight_column, block);
      accumulate_steps<0, Rows>(sum, in, weight, pixel, weight_column, b + 1 < blocks ? steps : last_steps);
      if (right) accumulate_steps<0, Rows - 1>(sum, in, weight, pixel, weight_column, block);
    }
  }
  finish<Rows, Columns>(q, sum);
}

/// What `prepare` decides, at fixed places of conv_blocked_args::decision.
enum place {
  is_depthwise,
  is_flat,  // flat: 1x1 stride 1, the map is one long row cut in pieces
  has_edge,
  has_copy,    // how padding columns are handled
  copy_width,  // pixels of a row of the padded copy
  row_pixels,
  row_count,  // pixels and number of (pseudo-)rows
  tile_rows,
  tile_columns,  // largest tile
  in_blocks,
  row_group,          // input blocks and output rows at a time
  copies_windows,     // depthwise: of any window, over a padded copy of the rows at hand
  winograd_together,  // by Winograd's way: tiles at a time
  is_spread,          // of one row with dilation: taps are taken as rows of the kernel are
  place_count
};

constexpr long divide_up(long a, long b) { return (a + b - 1) / b; }
constexpr long smaller(long a, long b) { return a < b ? a : b; }
constexpr long larger(long a, long b) { return a > b ? a : b; }

/// Pixel rows of input under `count` output rows that start at `row`: [first, last), inside the map.
struct row_range {
  long first, last;
};
LAMINA_INLINE row_range input_rows(const window& w, long row, long count) {
  const long first = row * w.stride_h - w.pad_h, last = first + w.rows_under(count);
  return {smaller(larger(first, 0), w.height), larger(smaller(last, w.height), 0)};
}

/// Rows [first, last) of a kernel that lie inside the map for one row of the result, and the row of the map under the first.
struct kernel_rows {
  long first, last, at;
  constexpr kernel_rows(const window& w, long row) {
    const long origin = row * w.stride_h - w.pad_h;
    first = origin < 0 ? smaller(w.kernel_h, divide_up(-origin, w.dilation_h)) : 0;
    last = larger(first, smaller(w.kernel_h, divide_up(larger(w.height - origin, 0), w.dilation_h)));
    at = origin + first * w.dilation_h;
  }
};

/// `from` and `to` as [blocks][rows][pixels][step]; every row gets `pad` pixels of zeros in front and zeros behind.
LAMINA_COMPACT void copy_rows(const float* from, long blocks, long from_block, long rows, long from_row, float* to,
                              long to_pixels, long pad, long pixels, long step) {
  const long before = smaller(pad, to_pixels) * step, inside = smaller(pixels, larger(0, to_pixels - pad)) * step;
  const long after = to_pixels * step - before - inside;
  for (long b = 0; b < blocks; ++b) {
    for (long y = 0; y < rows; ++y) {
      __builtin_memset(to, 0, static_cast<std::size_t>(before) * sizeof(float));
      __builtin_memcpy(to + before, from + b * from_block + y * from_row,
                       static_cast<std::size_t>(inside) * sizeof(float));
      if (after > 0) __builtin_memset(to + before + inside, 0, static_cast<std::size_t>(after) * sizeof(float));
      to += to_pixels * step;
    }
  }
}

/// Weights beyond the second cache are fetched while the ones before are at work: those of the next tile column, over all tiles
/// of this one.
struct fetched_ahead {
  static constexpr long least_bytes = 512 * 1024;
  const char* from;
  long column_bytes, column_step, bytes, tiles;  // of the tile column that follows, and the tiles of this one

  /// For tile number `at`: where it begins, and how many lines it fetches in `rows` turns.
  LAMINA_INLINE void put(tile_args& q, long at, long turns) const {
    q.lines_ahead = 0;
    if (!from) return;
    const long begin = at * bytes / tiles, end = (at + 1) * bytes / tiles;
    q.ahead = from + begin / column_bytes * column_step + begin % column_bytes;
    q.lines_ahead = divide_up(end - begin, 64 * turns);
  }
};

/// Ways of a convolution that is not depthwise through an image, each a kernel of its own: 1x1 of stride 1, whose map is one
/// long row; over the rows as they lie; over a padded copy of the rows at hand.
enum class sweep { flat, rows, copied_rows };

/// One image; tiles are reached through `args->tile` alone: [2 * (larger of two heights) + 4 * (short row) + last
/// blocks].
template <sweep Way> LAMINA_COMPACT void run_image(const conv_blocked_args& a, const float* in, const float* residual,
                                                   float* out, float* copy) {
  const window& w = a.w;
  const long* d = a.decision;
  constexpr bool flat = Way == sweep::flat;
  const bool planar = a.planar_in != 0, edge = Way == sweep::rows && d[has_edge] != 0;
  const long step = planar ? 1 : block;
  const long in_count = planar ? w.channels : divide_up(w.channels, block),
             out_count = divide_up(w.out_channels, block);
  const long pixels = w.out_height * w.out_width;
  const long kernel_row = w.kernel_w * step * block;  // floats of weights of one kernel row
  tile_args q;
  const bool spread = !flat && d[is_spread] != 0;
  q.steps = spread ? step : w.kernel_w * step;
  q.pixel = w.stride_w * step;
  q.weight_row = spread ? step * block : kernel_row;
  q.weight_block = w.kernel_h * kernel_row;
  q.weight_column = in_count * q.weight_block;
  q.out_column = pixels * block;
  q.low = a.low;
  q.high = a.high;
  q.clamp = a.clamp != 0;
  const bool far =
      out_count * q.weight_column * long(sizeof(float)) * larger(a.weight_sets, 1) >= fetched_ahead::least_bytes;
  const bool part = a.row_count != 0;
  const long begin = part ? a.first_row * d[row_count] / w.out_height : 0;
  const long end = part ? (a.first_row + a.row_count) * d[row_count] / w.out_height : d[row_count];
  for (long group = begin; group < end; group += d[row_group]) {
    const long group_end = smaller(group + d[row_group], end);
    for (long c = 0; c < in_count; c += d[in_blocks]) {
      q.blocks = smaller(d[in_blocks], in_count - c);
      q.accumulate = c > 0;
      q.last = c + q.blocks == in_count;
      // Of one tap, channels beyond the last one are left out.
      q.last_steps = q.last && flat && !planar ? w.channels - (in_count - 1) * block : q.steps;
      const float* source = in + c * w.height * w.width * step;
      long source_row = 0, source_x = -w.pad_w;  // first row held by `source`; column of its first pixel
      q.in_row = w.width * step;
      q.in_block = w.height * q.in_row;
      if (Way == sweep::copied_rows) {
        const auto held = input_rows(w, group, group_end - group);
        const long count = larger(0, held.last - held.first);
        copy_rows(source + held.first * q.in_row, q.blocks, q.in_block, count, q.in_row, copy, d[copy_width], w.pad_w,
                  w.width, step);
        source = copy;
        source_row = held.first;
        source_x = 0;
        q.in_row = d[copy_width] * step;
        q.in_block = count * q.in_row;
      }
      const long line = q.in_row;
      q.in_row = spread ? w.dilation_w * step : w.dilation_h * line;
      for (long o = 0; o < out_count; o += d[tile_columns]) {
        const bool last_blocks = out_count - o < d[tile_columns];
        q.bias = a.bias ? a.bias + o * block : nullptr;
        const long next = o + d[tile_columns];
        const float* const following = next < out_count ? a.weight + next * q.weight_column + c * q.weight_block
                                       : q.last         ? a.weight + out_count * q.weight_column
                                                        : a.weight + (c + d[in_blocks]) * q.weight_block;
        const long column_bytes = q.blocks * q.weight_block * long(sizeof(float));
        const fetched_ahead fetched{far ? reinterpret_cast<const char*>(following) : nullptr, column_bytes,
                                    q.weight_column * long(sizeof(float)), d[tile_columns] * column_bytes,
                                    (group_end - group) * divide_up(d[row_pixels], d[tile_rows])};
        long number = 0;
        for (long y = group; y < group_end; ++y) {
          const kernel_rows inside(w, y);  // of a flat map, of which `y` is no row, not read
          q.rows = flat ? 1 : spread ? w.kernel_w : inside.last - inside.first;
          const long count = flat ? smaller(d[row_pixels], pixels - y * d[row_pixels]) : d[row_pixels];
          const bool short_row = flat && count != d[row_pixels];
          const long tiles = divide_up(count, d[tile_rows]), base = count / tiles, longer = count % tiles;
          const float* from = source + (flat ? 0 : inside.at - source_row) * line;
          const float* weight =
              a.weight + o * q.weight_column + c * q.weight_block + (flat || spread ? 0 : inside.first * kernel_row);
          for (long t = 0, x = 0; t < tiles; ++t) {
            const long size = base + (t < longer);
            const long x0 = flat ? y * d[row_pixels] + x : x * w.stride_w + source_x;
            q.left = edge && x0 < 0;
            q.right = edge && x0 + (size - 1) * w.stride_w + w.kernel_w > w.width;
            q.in = from + x0 * step;
            q.weight = weight;
            const long at = (o * pixels + y * d[row_pixels] + x) * block;
            q.out = out + at;
            q.residual = residual ? residual + at : nullptr;
            fetched.put(q, number++, q.blocks * q.rows);
            a.tile[(size > base ? 2 : 0) + (short_row ? 4 : 0) + (last_blocks ? 1 : 0)](&q);
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
