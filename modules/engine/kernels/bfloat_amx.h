// Products of numbers rounded to bfloat16 with AMX: matrix products, and tiles of convolutions in channel blocks.
#pragma once
#include "amx_conv.h"
#include "casts.h"
#include "conv_border.h"
#include "conv_prepare.h"
#include "gemm_driver.h"
#include "gemm_pack.h"
#include "gemm_tile.h"
#if defined(__AVX512BW__)

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// Pairs of bfloat16 numbers, of which AMX adds up those with even and those with odd positions among each 32, and then
/// both to the sum: other bits than those of the other forms.
///
/// Packed rows of A are in groups, [rows / 16][k / 32][16][32]: what a tile reads at once is contiguous.
struct bfloat_amx : bfloat_dots {
  static constexpr long tile_numbers = amx::row_bytes / 2;  // of a row of a tile
  static constexpr long row_numbers(long k) { return (k + tile_numbers - 1) / tile_numbers * tile_numbers; }
  static int there() noexcept { return bfloat_dots::there() && amx::there(); }
};

/// Rounds rows of A.
LAMINA_INLINE void round_groups(long k, long count, const float* from, long row, long column, std::uint16_t* to) {
  constexpr long numbers = bfloat_amx::tile_numbers, lanes = width<float>;
  for (long begin = 0; begin < count; begin += amx::tile_rows) {
    const long rows = count - begin < amx::tile_rows ? count - begin : amx::tile_rows;
    for (long p = 0; p < k; p += numbers, to += amx::tile_rows * numbers) {
      const long left = k - p < numbers ? k - p : numbers;
      const auto in_low = kernels::first<float>(static_cast<int>(left < lanes ? left : lanes)),
                 in_high = kernels::first<float>(static_cast<int>(left < lanes ? 0 : left - lanes));
      const float* at = from + begin * row + p * column;
      if (row == 1 && rows == lanes && left == numbers) {
        round_columns<bfloat_dots>(numbers, at, column, to);
        continue;
      }
      LAMINA_NO_UNROLL for (long i = 0; i < rows; ++i, at += row) {
        alignas(64) float held[numbers];
        const float* line = at;
        if (column != 1) {
          LAMINA_SMALL for (long l = 0; l < left; ++l) held[l] = at[l * column];
          line = held;
        }
        const auto low = load(line, in_low), high = load(line + lanes, in_high);
        _mm512_storeu_si512(to + i * numbers, bfloat_dots::narrowed(low, high));
      }
    }
  }
}

namespace bfloat_product {

/// Rows of C that a tile of a product computes: two bands.
inline constexpr long amx_rows = 2 * amx::tile_rows;

/// Whether the epilogue is a bias of columns alone, at which sums then begin.
LAMINA_INLINE bool begins_at_bias(const gemm_args& g, int flags) {
  return flags == gemm_finish && g.bias_column && !g.bias_row && !g.residual && !g.clamp;
}

/// Computes up to 32 rows of a panel of C.
template <int Bands, int Columns> LAMINA_INLINE void amx_tile(long steps, const void* a, long a_step, const void* b,
                                                              long rows, int columns, tile_end<float> end) {
  constexpr long pair = 4, pairs = amx::row_bytes / pair, b_row = panel_columns<float> * pair;
  constexpr int lanes = width<float>;
  const float* bias = nullptr;
  alignas(64) float last_bias[Columns * lanes];
  if (begins_at_bias(*end.args, end.flags)) {
    end.flags = 0;
    bias = static_cast<const float*>(end.args->bias_column) + end.column;
    // A tile that loads what was just stored waits for all stores before it.
    if (columns < Columns * lanes) {
      LAMINA_UNROLL for (int j = 0; j < Columns; ++j) {
        const auto inside = first<float>(columns - j * lanes < lanes ? columns - j * lanes : lanes);
        store(last_bias + j * lanes, load(bias + j * lanes, inside));
      }
      bias = last_bias;
    }
  }
  amx::sums<amx::bfloat_pairs, Bands, Columns> all(bias);
  amx::operand x{static_cast<const char*>(a), amx::row_bytes, amx::tile_rows * a_step * 2},
      w{static_cast<const char*>(b), b_row, amx::row_bytes};
  long left = steps;
  LAMINA_NO_UNROLL for (; left >= pairs; left -= pairs) {
    all.add(x, w);
    x.at += amx::tile_rows * amx::row_bytes;
    w.at += pairs * b_row;
  }
  if (left > 0) all.add_rest(x, w, left);
  if (end.flags == 0 && rows == Bands * amx::tile_rows && columns == Columns * lanes)
    return all.store(end.c, end.c_row * static_cast<long>(sizeof(float)));
  alignas(64) float held[Bands * amx::tile_rows * Columns * lanes];
  all.store(held);
  finish_apart(held, static_cast<int>(rows), Columns, columns, end);
}
/// A tile of a matrix product; `Tall`: of the taller row panels.
template <bool Tall> LAMINA_INLINE void run_amx_tile(long steps, const void* a, long a_step, const void* b, void* c,
                                                     long c_row, const gemm_args* args, long column, long row,
                                                     int flags, int columns) {
  const long rows = Tall ? args->tall_rows : args->short_rows;
  amx::with_tiles(rows, parts(columns, width<float>), [&](auto bands, auto blocks) __attribute__((always_inline)) {
    amx_tile<bands, blocks>(steps, a, a_step, b, rows, columns,
                            {static_cast<float*>(c), c_row, args, column, row, flags});
  });
}

struct amx_tiles {
  gemm_tile tall, low;
  gemm_pack packer;
};
LAMINA_INLINE void prepare_amx(gemm_args& g, const amx_tiles& all) {
  round_while_packing(g, all.packer);
  g.tall_rows = amx_rows;
  g.tall_count = g.m / amx_rows;
  g.short_rows = larger(1, g.m % amx_rows);
  g.tile_columns = panel_columns<float>;
  g.tile[0][0] = g.tile[0][1] = g.tall_count > 0 ? all.tall : nullptr;
  g.tile[1][0] = g.tile[1][1] = g.m % amx_rows ? all.low : nullptr;
}

}  // namespace bfloat_product

namespace blocked {

/// Rows and columns of results that a call computes: of a sequence a part of its row, else rows of the map.
struct map_part {
  long first_row, rows, first_column, columns;
  LAMINA_INLINE explicit map_part(const conv_blocked_args& a) {
    const window& w = a.w;
    const bool sequence = is_sequence(w);
    const long count = pixels_of_part(a);
    first_row = sequence ? 0 : a.first_piece;
    rows = sequence ? 1 : count / w.out_width;
    first_column = sequence ? a.first_piece * piece_pixels(w) : 0;
    columns = sequence ? count : w.out_width;
  }
};

/// Numbers of a word of AMX.
inline constexpr long amx_numbers = 2;
/// Indices of decisions of `prepare_amx`: rows of results for which pixels are copied together, and whether pixels are
/// read in place instead.
inline constexpr int amx_row_group = 0, amx_in_place = 1;

LAMINA_INLINE amx::conv_layout amx_layout(const window& w, bool planar) { return {w, amx_numbers, planar}; }
/// Whether an image is supported: in plain layout if a row of the window is one step, or some of at least half a tile.
LAMINA_INLINE bool amx_takes_window(const window& w, bool planar) {
  if (!planar || !takes_window(w)) return takes_window(w);
  if (w.channels > 4 || w.dilation_w != 1) return false;
  const amx::conv_layout has = amx_layout(w, true);
  return has.taps == 1 || has.words >= amx::tile_rows / 2;
}

/// Packs filters: [blocks of O][maps][rows of the window][taps][words][block].
LAMINA_COMPACT void pack_amx(const window& w, bool planar, const filters& from, float* packed) {
  const amx::conv_layout has = amx_layout(w, planar);
  const long taps = w.kernel_h * w.kernel_w;
  const bool turned = from.tap_step < 0;
  // Numbers that are neighbors in memory in each of the filters of a block: of all channels, or the taps of one, backward.
  const long sets = turned ? w.channels : 1, together = turned ? taps : w.channels * taps;
  for (long o = 0; o < w.out_channels; o += block, packed += has.filter_bytes / 4) {
    __builtin_memset(packed, 0, static_cast<std::size_t>(has.filter_bytes));
    const long outs = smaller(block, w.out_channels - o);
    for (long set = 0; set < sets; ++set)
      for (long first_number = 0; first_number < together; first_number += block) {
        const long count = smaller(block, together - first_number);
        const float* rows = from.from + o * from.out_step + set * from.in_step + (turned ? 1 - taps : 0) + first_number;
        const auto inside = first<float>(static_cast<int>(count));
        vec<float> r[static_cast<std::size_t>(block)];
        LAMINA_UNROLL for (int i = 0; i < block; ++i) r[i] =
            i < outs ? load(rows + i * from.out_step, inside) : zero<float>();
        transpose<float>(r);
        LAMINA_NO_UNROLL for (long i = 0; i < count; ++i) {
          const long number = first_number + i, c = turned ? set : number / taps,
                     t = turned ? taps - 1 - number : number % taps;
          const auto at = has.of(w, amx_numbers, c, t / w.kernel_w, t % w.kernel_w);
          float* words = packed + at.word * block;
          const float_bits bits = bfloat_bits(r[i]), held = __builtin_bit_cast(float_bits, to_raw<float>(load(words)));
          store(words, from_bits(held | (at.part ? bits : bits >> 16)));
        }
      }
  }
}
LAMINA_INLINE std::size_t amx_packed_bytes(const window& w, bool planar) {
  return static_cast<std::size_t>(divide_up(w.out_channels, block) * amx_layout(w, planar).filter_bytes);
}
/// Packs sets of filters, such as those of the groups of a convolution, one after the other.
LAMINA_INLINE void pack_amx_sets(const conv_pack_args& a) {
  const bool planar = a.planar_in != 0;
  each_set(a, amx_packed_bytes(a.w, planar), [&](const conv_pack_args& set) __attribute__((always_inline)) {
    pack_amx(a.w, planar, filters(set), set.packed);
  });
}

/// Rounds pixels of two channel blocks next to each other; zeros in place of the second if it is null.
LAMINA_INLINE void join_blocks(const float* first, const float* second, long pixels, std::uint16_t* to) {
  LAMINA_NO_UNROLL for (long i = 0; i < pixels; ++i, first += block, to += 2 * block) {
    const vec<float> more = second ? load(second + i * block) : zero<float>();
    _mm512_storeu_si512(to, bfloat_dots::narrowed(load(first), more));
  }
}
/// Rounds `count` pixels, at most 16, of a few channels in plain layout to pixels with all channels.
template <int Channels>
LAMINA_INLINE void join_planes(const float* from, long plane, long channels, int count, std::uint16_t* to) {
  const auto inside = first<float>(count);
  const auto channel = [&](long c) __attribute__((always_inline)) {
    return c < channels ? load(from + c * plane, inside) : zero<float>();
  };
  const auto put = [&](__m512i words, long first_word) __attribute__((always_inline)) {
    const long left = count * Channels / 2 - first_word;
    const auto mask = static_cast<__mmask16>(left >= 16 ? 0xffff : left <= 0 ? 0 : (1 << left) - 1);
    _mm512_mask_storeu_epi32(to + 2 * first_word, mask, words);
  };
  const __m512i low = __builtin_bit_cast(__m512i, bfloat_pairs(channel(0), channel(1)).data);
  if constexpr (Channels == 2) put(low, 0);
  else {
    const __m512i high = __builtin_bit_cast(__m512i, bfloat_pairs(channel(2), channel(3)).data);
    const __m512i order = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    put(_mm512_permutex2var_epi32(low, order, high), 0);
    put(_mm512_permutex2var_epi32(low, _mm512_add_epi32(order, _mm512_set1_epi32(8)), high), 16);
  }
}

/// Whether a convolution of whole maps reads rounded images as they are: each window is a pixel, or zeros are around the
/// map.
LAMINA_INLINE bool amx_reads_in_place(const conv_blocked_args& a) {
  const window& w = a.w;
  // Tiles read beyond the last result, of a row if the stride is not 1.
  const bool pixels = w.kernel_h == 1 && w.kernel_w == 1 && w.pad_h == 0 && w.pad_w == 0 &&
                      w.rows_under(w.out_height) <= w.height && w.columns_under(w.out_width) <= w.width &&
                      (w.stride_w > 1 || w.out_width == w.width);
  return a.joined_in || (a.rounded_in && pixels && amx::bytes_beyond(w) <= rounded_slack);
}
/// Maps of an image, and the rows and columns of each, that a convolution reads in place.
LAMINA_INLINE amx::conv_image image_in_place(const conv_blocked_args& a, long n) {
  const window& w = a.w;
  const amx::conv_layout has = amx_layout(w, a.planar_in != 0);
  const long rows = a.joined_in ? w.rows_under(w.out_height) : w.height,
             line = a.joined_in ? w.columns_under(w.out_width) : w.width;
  const long image = has.maps * rows * line * has.pixel_bytes(amx_numbers) + (a.joined_in ? amx::bytes_beyond(w) : 0);
  return {reinterpret_cast<const char*>(a.in) + n * image, rows, line};
}

/// Images of which `join_pixels` copies pixels.
struct amx_pixels {
  const char* at;
  bool planar, rounded;
};
/// Copies rows and columns of maps of an image, zeros outside, as bfloat16.
LAMINA_COMPACT void join_pixels(const window& w, const amx_pixels& image, long first_map, long maps, long first_row,
                                long rows, long first_column, long columns, char* to) {
  const amx::conv_layout has = amx_layout(w, image.planar);
  const long bytes = has.pixel_bytes(amx_numbers), plane = w.height * w.width, blocks = divide_up(w.channels, block);
  amx::copy_image(
      w, first_map, maps, bytes, first_row, rows, first_column, columns, to,
      [=](char* at, long pixels)
          __attribute__((always_inline)) { __builtin_memset(at, 0, static_cast<std::size_t>(pixels * bytes)); },
      [=](char* at, long map, long position, long pixels) __attribute__((always_inline)) {
        auto* numbers = reinterpret_cast<std::uint16_t*>(at);
        if (image.rounded) {
          __builtin_memcpy(at, image.at + (map * plane + position) * bytes, static_cast<std::size_t>(pixels * bytes));
          return;
        }
        const float* in = reinterpret_cast<const float*>(image.at);
        if (!image.planar) {
          const float* from = in + (2 * map * plane + position) * block;
          join_blocks(from, 2 * map + 1 < blocks ? from + plane * block : nullptr, pixels, numbers);
          return;
        }
        LAMINA_NO_UNROLL for (long x = 0; x < pixels; x += block) {
          const int count = static_cast<int>(smaller(block, pixels - x));
          if (has.channels == 2) join_planes<2>(in + position + x, plane, w.channels, count, numbers + x * 2);
          else join_planes<4>(in + position + x, plane, w.channels, count, numbers + x * 4);
        }
      });
}
/// Bytes of an image in memory.
LAMINA_INLINE long amx_image_bytes(const window& w, bool planar, bool rounded) {
  const long plane = w.height * w.width;
  if (planar) return w.channels * plane * 4;
  return maps_before(rounded, 1, divide_up(w.channels, block)) * plane * pixel_bytes;
}

/// Bytes from an image that `join_images` writes to the next one.
LAMINA_INLINE long amx_joined_bytes(const window& w, bool planar) {
  return amx::joined_bytes(w, amx_layout(w, planar), amx_numbers);
}
/// Copies maps of images, as `conv_join_args` tells.
LAMINA_COMPACT void join_images(const conv_join_args& a) {
  const window& w = a.w;
  const bool planar = a.planar_in != 0, rounded = a.rounded_in != 0;
  const long image = amx_image_bytes(w, planar, rounded);
  amx::copy_maps(w, amx_layout(w, planar), amx_numbers, a.first, a.count, static_cast<char*>(a.out),
                 [&](long n, long map, char* to) __attribute__((always_inline)) {
                   join_pixels(w, {static_cast<const char*>(a.in) + n * image, planar, rounded}, map, 1, -w.pad_h,
                               w.rows_under(w.out_height), -w.pad_w, w.columns_under(w.out_width), to);
                 });
}

/// Results of a call, for up to three blocks of output channels: where those of block `first` and of pixel 0 are.
struct amx_results {
  const float* bias;
  const char* residual;
  char* out;
  long first, pixels;  // of the first of these blocks; of a map
  bool rounded_residual, rounded_out;
  float low, high;

  template <int Columns>
  LAMINA_INLINE void operator()(const float (*sums)[Columns][block], long result, long count) const {
    const vec<float> least(low), greatest(high);
    LAMINA_UNROLL for (int j = 0; j < Columns; ++j) {
      const long at = result * pixel_bytes;
      const char* more = residual ? residual + place_of(rounded_residual, first + j, pixels) + at : nullptr;
      char* to = out + place_of(rounded_out, first + j, pixels) + at;
      const vec<float> shift = bias ? load(bias + j * block) : zero<float>();
      const auto sum_of = [&](long i) __attribute__((always_inline)) {
        vec<float> sum = load(sums[i][j]);
        if (more) sum = sum + load_pixel(rounded_residual, more + i * pixel_bytes);
        return clamp<float>(sum + shift, least, greatest);
      };
      if (rounded_out)
        LAMINA_NO_UNROLL for (long i = 0; i < count; ++i)
            bfloat_dots::put(reinterpret_cast<std::uint16_t*>(to + i * pixel_bytes), sum_of(i));
      else
        LAMINA_NO_UNROLL for (long i = 0; i < count; ++i)
            store<float>(reinterpret_cast<float*>(to + i * pixel_bytes), sum_of(i));
    }
  }
};
LAMINA_APART void run_amx_tiles(const amx::conv_part& part, const amx_results& results) {
  amx::conv_tiles<amx::bfloat_pairs, float>(part, results);
}
/// Zeros for the second block of the last pair, which has no channels, of rows of rounded results.
LAMINA_COMPACT void clear_last_half(char* pair, long count) {
  LAMINA_NO_UNROLL for (long i = 0; i < count; ++i)
      __builtin_memset(pair + i * pixel_bytes + pixel_bytes / 2, 0, static_cast<std::size_t>(pixel_bytes / 2));
}

/// Convolves images, or parts of them.
LAMINA_COMPACT void run_amx(const conv_blocked_args& a, void* scratch) {
  const window& w = a.w;
  const bool planar = a.planar_in != 0, rounded_in = a.rounded_in != 0;
  const map_part part(a);
  const amx::conv_layout has = amx_layout(w, planar);
  const amx::session tiles(has.words);
  const long out_count = divide_up(w.out_channels, block), whole_count = divide_up(a.image_outs(), block),
             pixels = w.out_height * w.out_width, bytes = has.pixel_bytes(amx_numbers);
  const amx_results to{.bias = a.bias,
                       .residual = reinterpret_cast<const char*>(a.residual),
                       .out = reinterpret_cast<char*>(a.out),
                       .first = 0,
                       .pixels = pixels,
                       .rounded_residual = a.rounded_residual != 0,
                       .rounded_out = a.rounded_out != 0,
                       .low = a.clamp ? a.low : -infinite,
                       .high = a.clamp ? a.high : infinite};
  const auto place = [=](bool rounded, long n, long row) __attribute__((always_inline)) {
    return (maps_before(rounded, n, whole_count) * pixels + row * w.out_width + part.first_column) * pixel_bytes;
  };
  amx::conv_images(
      {&w, has, bytes, a.first, a.count, part.first_row, part.rows, part.first_column, part.columns,
       reinterpret_cast<const char*>(a.weight), out_count, a.decision[amx_row_group],
       a.decision[amx_in_place] ? nullptr : static_cast<char*>(scratch)},
      [&](long n) __attribute__((always_inline)) {
        amx::conv_image in = image_in_place(a, n);
        if (!a.joined_in) in.at -= w.pad_h * in.line * bytes;  // of a band of a map it is less than 0
        return in;
      },
      [&](long n, long row, long rows, long line, char* copy) __attribute__((always_inline)) {
        join_pixels(
            w, {reinterpret_cast<const char*>(a.in) + n * amx_image_bytes(w, planar, rounded_in), planar, rounded_in},
            0, has.maps, row * w.stride_h - w.pad_h, rows, part.first_column * w.stride_w - w.pad_w, line, copy);
      },
      [&](const amx::conv_part& tiles, long n, long row, long o) __attribute__((always_inline)) {
        amx_results results = to;
        results.first = o;
        results.out += place(to.rounded_out, n, row);
        if (to.residual) results.residual += place(to.rounded_residual, n, row);
        if (to.bias) results.bias += o * block;
        run_amx_tiles(tiles, results);
        if (to.rounded_out && o + tiles.blocks == out_count && out_count % 2 != 0)
          clear_last_half(results.out + place_of(true, out_count - 1, pixels), tiles.rows * part.columns);
      });
  if (a.repair) a.repair(&a);
}

/// Corrects results where padding met weights that are not finite.
LAMINA_COMPACT void repair_amx(const conv_blocked_args& a) {
  const window& w = a.w;
  const border::part_of_map part(a);
  const bool planar = a.planar_in != 0;
  const long count = static_cast<long>(amx_packed_bytes(w, planar) / sizeof(float));
  if (!border::is_spoiled(a, part) || border::all_finite<bfloat_amx>(a.weight, count)) return;
  const amx::conv_layout has = amx_layout(w, planar);
  const long bytes = has.pixel_bytes(amx_numbers), plane = w.height * w.width, step = planar ? 1 : block;
  border::repair_blocked(
      a, part, w.channels,
      [&](long n, long, long c, long row, long column) -> float {
        if (!a.joined_in && !a.rounded_in)
          return a.in[n * amx_image_bytes(w, planar, false) / 4 + (c / step * plane + row * w.width + column) * step +
                      c % step];
        const amx::conv_image in = image_in_place(a, n);
        const long pixel = a.joined_in ? (row + w.pad_h) * in.line + column + w.pad_w : row * in.line + column;
        return border::image_number{
            const_cast<char*>(in.at) + (c / has.channels * in.rows * in.line + pixel) * bytes + c % has.channels * 2,
            true};
      },
      [&](long o, long c, long i, long j, float x) {
        const auto at = has.of(w, amx_numbers, c, i, j);
        const float* filter = a.weight + o / block * has.filter_bytes / 4 + at.word * block + o % block;
        return border::product_of<bfloat_amx>(filter, at.part, x);
      });
}

LAMINA_INLINE std::size_t amx_scratch_bytes(const conv_blocked_args& a) {
  if (a.decision[amx_in_place]) return 0;
  const map_part part(a);
  return static_cast<std::size_t>(
      amx::copy_bytes(a.w, amx_layout(a.w, a.planar_in != 0), amx_numbers, a.decision[amx_row_group], part.columns) +
      amx::bytes_beyond(a.w));
}
LAMINA_INLINE void prepare_amx(conv_blocked_args* a, void (*repair)(const void*) noexcept) {
  reset(a);
  const window& w = a->w;
  const map_part part(*a);
  a->decision[amx_row_group] =
      amx::rows_together(w, amx_layout(w, a->planar_in != 0), amx_numbers, part.rows, part.columns);
  a->decision[amx_in_place] = amx_reads_in_place(*a);
  const bool pads = w.pad_h > 0 || w.pad_w > 0 || w.rows_under(w.out_height) > w.height + w.pad_h ||
                    w.columns_under(w.out_width) > w.width + w.pad_w;
  if (pads) a->repair = repair;
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
#endif
