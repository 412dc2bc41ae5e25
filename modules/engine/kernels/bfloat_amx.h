// Products of numbers rounded to bfloat16 with AMX: matrix products, and tiles of convolutions in channel blocks.
#pragma once
#include "amx.h"
#include "casts.h"
#include "conv_border.h"
#include "conv_prepare.h"
#include "gemm_driver.h"
#include "gemm_tile.h"
#if defined(__AVX512BW__)

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// Pairs of bfloat16 numbers, of which AMX adds up those with even and those with odd positions among each 32, and then
/// both to the sum: other bits than those of the other forms.
struct bfloat_amx : bfloat_dots {
  static int there() noexcept { return bfloat_dots::there() && amx::there(); }
};

namespace bfloat_product {

/// Rows of C that a tile of a product computes: two bands.
inline constexpr long amx_rows = 2 * amx::tile_rows;

/// A tile of a matrix product; `Tall`: of the taller row panels.
template <bool Tall> LAMINA_INLINE void run_amx_tile(long steps, const void* a, long a_step, const void* b, void* c,
                                                     long c_row, const gemm_args* args, long column, long row,
                                                     int flags, int columns) {
  const long rows = Tall ? args->tall_rows : args->short_rows;
  constexpr long pair = 4, a_pairs = amx::row_bytes / pair, b_row = panel_columns<float> * pair;
  amx::with_tiles(rows, parts(columns, width<float>),
                  [&]<int Bands, int Columns>(std::integral_constant<int, Bands>, std::integral_constant<int, Columns>)
                      __attribute__((always_inline)) {
                        amx::sums<amx::bfloat_pairs, Bands, Columns> all;
                        amx::operand x{static_cast<const char*>(a), a_step * 2, amx::tile_rows * a_step * 2},
                            w{static_cast<const char*>(b), b_row, amx::row_bytes};
                        long left = steps;
                        LAMINA_NO_UNROLL for (; left >= a_pairs; left -= a_pairs) {
                          all.add(x, w);
                          x.at += amx::row_bytes;
                          w.at += a_pairs * b_row;
                        }
                        if (left > 0) all.add_rest(x, w, left);
                        alignas(64) float held[Bands * amx::tile_rows * Columns * width<float>];
                        all.store(held);
                        finish_apart(held, static_cast<int>(rows), Columns, columns,
                                     tile_end<float>{static_cast<float*>(c), c_row, args, column, row, flags});
                      });
}

struct amx_tiles {
  gemm_tile tall, low;
  gemm_pack packer;
};
LAMINA_INLINE void prepare_amx(gemm_args& g, const amx_tiles& all) {
  g.a_in_columns = 0;
  g.row = nullptr;
  g.a_step = g.a_row;
  g.pack_b = 0;
  g.packer_b = nullptr;
  g.pack_a = g.rounded ? 0 : 1;
  g.packer_a = g.rounded ? nullptr : all.packer;
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

/// Pixels of a tile.
inline constexpr long amx_pixels = 2 * amx::tile_rows;
/// Maximum of bytes of the copy of an image, beside the weights in the second cache, unless a row of results needs more.
inline constexpr long amx_copy_bytes = 512 * 1024;
/// Index of a decision of `prepare_amx`: rows of results for which pixels are copied together.
inline constexpr int amx_row_group = 0;

/// How a convolution is summed: from a copy of the image with pixels of some channels, in steps of words (two channels
/// each) that are neighbors in the copy and in the filters.
struct amx_layout {
  long channels;       // of a pixel of the copy: two blocks, or 2 or 4 of an image in plain layout
  long maps;           // copies of the image, each with these channels
  long taps, words;    // steps of a row of the window, and words of a step
  long filter_column;  // floats between the filters of neighboring output blocks

  LAMINA_INLINE amx_layout(const window& w, bool planar)
      : channels(!planar           ? 2 * block
                 : w.channels <= 2 ? 2
                                   : 4),
        maps(planar ? 1 : divide_up(w.channels, channels)),
        taps(planar ? 1 : w.kernel_w),
        words(planar ? w.kernel_w * channels / 2 : amx::tile_rows),
        filter_column(maps * w.kernel_h * taps * words * block) {}
  /// Position of a number of a filter: the word among those of its output block, and which number of the word it is.
  struct place {
    long word;
    int part;
  };
  LAMINA_INLINE place of(const window& w, long channel, long row, long column) const {
    const long at = column * channels + channel % channels;  // in a row of the window
    return {(channel / channels * w.kernel_h + row) * taps * words + at / 2, static_cast<int>(at % 2)};
  }
};
/// Whether an image is supported: in plain layout if a row of the window is one step.
LAMINA_INLINE bool amx_takes_window(const window& w, bool planar) {
  if (!planar) return takes_window(w);
  return takes_window(w) && w.channels <= 4 && w.dilation_w == 1 && amx_layout(w, true).words <= amx::tile_rows;
}

/// Packs filters: [blocks of O][maps][rows of the window][taps][words][block].
LAMINA_COMPACT void pack_amx(const window& w, bool planar, const filters& from, float* packed) {
  const amx_layout has(w, planar);
  const long blocks = divide_up(w.out_channels, block);
  __builtin_memset(packed, 0, static_cast<std::size_t>(blocks * has.filter_column) * sizeof(float));
  auto* const to = reinterpret_cast<bfloat*>(packed);
  for (long o = 0; o < w.out_channels; ++o)
    for (long c = 0; c < w.channels; ++c)
      for (long t = 0; t < w.kernel_h * w.kernel_w; ++t) {
        const amx_layout::place at = has.of(w, c, t / w.kernel_w, t % w.kernel_w);
        to[2 * (o / block * has.filter_column + at.word * block + o % block) + at.part] =
            convert<bfloat>(from(o, c, t));
      }
}
LAMINA_INLINE std::size_t amx_packed_bytes(const window& w, bool planar) {
  return static_cast<std::size_t>(divide_up(w.out_channels, block) * amx_layout(w, planar).filter_column) *
         sizeof(float);
}
/// Packs sets of filters, such as those of the groups of a convolution, one after the other.
LAMINA_INLINE void pack_amx_sets(const conv_pack_args& a) {
  const window& w = a.w;
  conv_pack_args set = a;
  for (long i = 0; i < a.sets; ++i) {
    pack_amx(w, a.planar_in != 0, filters(set), set.packed);
    set.weight += w.out_channels * w.channels * w.kernel_h * w.kernel_w;
    set.packed += amx_packed_bytes(w, a.planar_in != 0) / sizeof(float);
  }
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

/// Copies rows and columns of an image, zeros outside the map, as bfloat16: [maps][rows][columns][channels].
LAMINA_COMPACT void join_pixels(const window& w, bool planar, const float* image, long first_row, long rows,
                                long first_column, long columns, std::uint16_t* to) {
  const amx_layout has(w, planar);
  const long pixel = has.channels, plane = w.height * w.width, blocks = divide_up(w.channels, block);
  const long before = smaller(larger(-first_column, 0), columns),
             inside = larger(smaller(columns - before, w.width - larger(first_column, 0)), 0);
  const auto clear = [&](long pixels) __attribute__((always_inline)) {
    __builtin_memset(to, 0, static_cast<std::size_t>(pixels * pixel) * sizeof *to);
    to += pixels * pixel;
  };
  for (long m = 0; m < has.maps; ++m)
    for (long y = first_row; y < first_row + rows; ++y) {
      if (y < 0 || y >= w.height || inside == 0) {
        clear(columns);
        continue;
      }
      clear(before);
      const long at = y * w.width + larger(first_column, 0);
      if (planar) {
        LAMINA_NO_UNROLL for (long x = 0; x < inside; x += block) {
          const int count = static_cast<int>(smaller(block, inside - x));
          if (pixel == 2) join_planes<2>(image + at + x, plane, w.channels, count, to + x * pixel);
          else join_planes<4>(image + at + x, plane, w.channels, count, to + x * pixel);
        }
      } else {
        const float* from = image + (2 * m * plane + at) * block;
        join_blocks(from, 2 * m + 1 < blocks ? from + plane * block : nullptr, inside, to);
      }
      to += inside * pixel;
      clear(columns - before - inside);
    }
}

/// Results of some rows, for up to three blocks of output channels.
struct amx_rows {
  const window* w;
  const amx_layout* layout;
  const std::uint16_t* in;  // the copy that the first row reads
  long copied_rows, line;   // of the copy, and pixels of its rows
  long rows, columns;       // of results
  const float *weight, *bias, *residual;
  float* out;
  long out_column;
  float low, high;
};

/// With stride 1, the pixels of all rows are one sequence, in which the last ones of a row of the copy have no result.
template <int Columns> LAMINA_APART void run_amx_rows(const amx_rows& q) {
  const window& w = *q.w;
  const amx_layout& has = *q.layout;
  const bool one = w.stride_h == 1 && w.stride_w == 1;
  const long sequences = one ? 1 : q.rows, length = one ? (q.rows - 1) * q.line + q.columns : q.columns;
  const long pixel_bytes = has.channels * 2, row_bytes = q.line * pixel_bytes, pixel = w.stride_w * pixel_bytes;
  const long across = w.dilation_w * pixel_bytes, down = w.dilation_h * row_bytes, map = q.copied_rows * row_bytes,
             tap_bytes = has.words * amx::row_bytes, column_bytes = has.filter_column * 4;
  const vec<float> low(q.low), high(q.high);
  const float* residual = q.residual;
  float* out = q.out;
  // Each tile prefetches a part of the weights of the next output blocks, which follow those of these.
  const long tiles = sequences * divide_up(length, amx_pixels), lines = Columns * has.words;
  long tile = 0;
  for (long s = 0; s < sequences; ++s)
    for (long x = 0; x < length; x += amx_pixels, ++tile) {
      const long pixels = smaller(amx_pixels, length - x);
      const long fetched_end = (tile + 1) * lines / tiles, fetched_lines = fetched_end - tile * lines / tiles;
      const char* const in = reinterpret_cast<const char*>(q.in) + s * w.stride_h * row_bytes + x * pixel;
      alignas(64) float held[amx_pixels][Columns][block];
      amx::with_bands(pixels, [&]<int Bands>(std::integral_constant<int, Bands>) __attribute__((always_inline)) {
        amx::sums<amx::bfloat_pairs, Bands, Columns> all;
        amx::operand weights{reinterpret_cast<const char*>(q.weight), amx::row_bytes, column_bytes};
        LAMINA_NO_UNROLL for (long c = 0; c < has.maps; ++c) LAMINA_NO_UNROLL for (long i = 0; i < w.kernel_h; ++i) {
          amx::operand pixels_under{in + c * map + i * down, pixel, amx::tile_rows * pixel};
          LAMINA_NO_UNROLL for (long j = 0; j < has.taps; ++j) {
            const char* next = weights.at + Columns * column_bytes;
            LAMINA_NO_UNROLL for (long l = fetched_end; l > 0; l -= has.words, next += column_bytes) {
              const long end = smaller(l, has.words);
              LAMINA_NO_UNROLL for (long k = larger(l - fetched_lines, 0); k < end; ++k)
                  __builtin_prefetch(next + k * amx::row_bytes, 0, 2);
            }
            all.add(pixels_under, weights);
            pixels_under.at += across;
            weights.at += tap_bytes;
          }
        }
        all.store(held);
      });
      long place = x % q.line;
      LAMINA_NO_UNROLL for (long i = 0; i < pixels; ++i) {
        if (place < q.columns) {
          LAMINA_UNROLL for (int j = 0; j < Columns; ++j) {
            vec<float> sum = load(held[i][j]);
            if (residual) sum = sum + load(residual + j * q.out_column);
            if (q.bias) sum = sum + load(q.bias + j * block);
            store<float>(out + j * q.out_column, clamp<float>(sum, low, high));
          }
          out += block;
          if (residual) residual += block;
        }
        if (++place == q.line) place = 0;
      }
    }
}

/// Convolves images, or parts of them.
LAMINA_COMPACT void run_amx(const conv_blocked_args& a, void* scratch) {
  const window& w = a.w;
  const bool planar = a.planar_in != 0;
  const amx_layout has(w, planar);
  const amx::session tiles(has.words);
  auto* const copy = static_cast<std::uint16_t*>(scratch);
  const map_part part(a);
  const long out_count = divide_up(w.out_channels, block), pixels = w.out_height * w.out_width;
  const long in_image = (planar ? w.channels : divide_up(w.channels, block) * block) * w.height * w.width,
             out_image = out_count * block * pixels;
  amx_rows q{};
  q.w = &w;
  q.layout = &has;
  q.in = copy;
  q.line = w.columns_under(part.columns);
  q.columns = part.columns;
  q.out_column = pixels * block;
  q.low = a.clamp ? a.low : -infinite;
  q.high = a.clamp ? a.high : infinite;
  for (long n = a.first; n < a.first + a.count; ++n)
    for (long done = 0; done < part.rows; done += q.rows) {
      const long row = part.first_row + done;
      q.rows = smaller(a.decision[amx_row_group], part.rows - done);
      q.copied_rows = w.rows_under(q.rows);
      join_pixels(w, planar, a.in + n * in_image, row * w.stride_h - w.pad_h, q.copied_rows,
                  part.first_column * w.stride_w - w.pad_w, q.line, copy);
      for (long o = 0; o < out_count; o += 3) {
        const long at = n * out_image + (o * pixels + row * w.out_width + part.first_column) * block;
        q.weight = a.weight + o * has.filter_column;
        q.bias = a.bias ? a.bias + o * block : nullptr;
        q.residual = a.residual ? a.residual + at : nullptr;
        q.out = a.out + at;
        if (out_count - o == 1) run_amx_rows<1>(q);
        else if (out_count - o == 2) run_amx_rows<2>(q);
        else run_amx_rows<3>(q);
      }
    }
  if (a.repair) a.repair(&a);
}

/// Corrects results where padding met weights that are not finite.
LAMINA_COMPACT void repair_amx(const conv_blocked_args& a) {
  const border::part_of_map part(a);
  const bool planar = a.planar_in != 0;
  const long count = static_cast<long>(amx_packed_bytes(a.w, planar) / sizeof(float));
  if (!border::is_spoiled(a, part) || border::all_finite<bfloat_amx>(a.weight, count)) return;
  const amx_layout has(a.w, planar);
  border::repair_blocked(a, part, false, [&](long o, long c, long i, long j, float x) {
    const amx_layout::place at = has.of(a.w, c, i, j);
    return border::product_of<bfloat_amx>(a.weight + o / block * has.filter_column + at.word * block + o % block,
                                          at.part, x);
  });
}

/// Output rows or parts of a sequence, of which parts of an image consist, or 0 to cut it by channels: as `pieces`.
LAMINA_INLINE long amx_pieces(const window& w, bool planar) {
  const auto image = static_cast<std::size_t>(w.channels * w.height * w.width) * sizeof(float);
  const long all = count_pieces(w);
  return w.out_channels <= block || (all >= (is_sequence(w) ? 2 : 8) && amx_packed_bytes(w, planar) <= image) ? all : 0;
}

/// Bytes of the copy for `rows` rows of results.
LAMINA_INLINE long amx_bytes(const conv_blocked_args& a, long rows) {
  const amx_layout has(a.w, a.planar_in != 0);
  return has.maps * a.w.rows_under(rows) * a.w.columns_under(map_part(a).columns) * has.channels * 2;
}
LAMINA_INLINE std::size_t amx_scratch_bytes(const conv_blocked_args& a) {
  const long beyond =
      (amx_pixels * a.w.stride_w + a.w.kernel_w) * amx::row_bytes;  // tiles read pixels after the last one
  return static_cast<std::size_t>(amx_bytes(a, a.decision[amx_row_group]) + beyond);
}
LAMINA_INLINE void prepare_amx(conv_blocked_args* a, void (*repair)(const void*) noexcept) {
  reset(a);
  const window& w = a->w;
  long group = map_part(*a).rows;
  while (group > 1 && amx_bytes(*a, group) > amx_copy_bytes) group = divide_up(group, 2);
  a->decision[amx_row_group] = group;
  const bool pads = w.pad_h > 0 || w.pad_w > 0 || w.rows_under(w.out_height) > w.height + w.pad_h ||
                    w.columns_under(w.out_width) > w.width + w.pad_w;
  if (pads) a->repair = repair;
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
#endif
