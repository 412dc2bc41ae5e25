// Convolutions of int8 images in channel blocks with AMX.
#pragma once
#include "amx_conv.h"
#include "quantized_blocked.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

#if defined(__AVX512BW__)

/// Numbers of a word, and blocks of channels of a pixel of the copy.
inline constexpr long numbers_of_tiles = 4, blocks_of_pixel = 4;

/// Whether tiles multiply a convolution: others have too few channels to fill them.
LAMINA_INLINE bool takes_tiles(const window& w, bool plain_in) {
  return !plain_in && w.groups == 1 && w.channels * w.kernel_h * w.kernel_w >= 64;
}

struct tile_layout {
  amx::conv_layout of;
  long blocks, rows;  // blocks of output channels; rows of results whose pixels are copied together
  std::size_t factors, bytes;

  /// `joined`: pixels are copied already.
  LAMINA_INLINE tile_layout(const window& w, long height, long computed, bool joined = false)
      : of(w, numbers_of_tiles),
        blocks(parts_of(w.out_channels, block_channels)),
        rows(amx::rows_together(w, of, numbers_of_tiles, height, w.out_width)),
        factors(joined
                    ? 0
                    : whole_lines(amx::copy_bytes(w, of, numbers_of_tiles, rows, w.out_width) + amx::bytes_beyond(w))),
        bytes(factors + block_factor_bytes(computed)) {}
  /// Packed weights: the filters of all blocks, then the sum of each filter.
  LAMINA_INLINE long sums_of(long filter) const { return blocks * of.filter_bytes + filter * 4; }
  LAMINA_INLINE long packed() const { return sums_of(blocks * block_channels); }
};

LAMINA_INLINE void pack_tiles(const quantized_blocked_pack_args& a) {
  const window& w = a.w;
  const tile_layout has(w, w.out_height, 0);
  std::memset(a.packed, 0, static_cast<std::size_t>(has.packed()));
  const long taps = w.kernel_h * w.kernel_w;
  const std::int8_t* from = a.weight;
  for (long o = 0; o < w.out_channels; ++o) {
    std::int8_t* filter = a.packed + o / block_channels * has.of.filter_bytes + o % block_channels * numbers_of_tiles;
    std::int32_t sum = 0;
    for (long c = 0; c < w.channels; ++c) {
      const auto at = has.of.of(w, numbers_of_tiles, c, 0, 0);
      std::int8_t* to = filter + at.word * amx::row_bytes + at.part;
      for (long t = 0; t < taps; ++t, ++from, to += has.of.words * amx::row_bytes) {
        *to = *from;
        sum += *from;
      }
    }
    write(a.packed + has.sums_of(o), sum);
  }
}

/// Results of some blocks of output channels. `Added`: another image is added.
template <bool Added> struct tile_results {
  using on = block_register;
  block_bytes to;
  added more;
  const std::int32_t* bias;
  const float* factor;
  std::int8_t* out;
  long step, b_at;  // between blocks, and from a result to its addend

  template <int Columns>
  LAMINA_INLINE void operator()(const std::int32_t (*sums)[Columns][16], long result, long count) const {
    LAMINA_UNROLL
    for (int j = 0; j < Columns; ++j) {
      const auto first = read<on::ints>(bias + block_channels * j);
      const auto f = read<on::floats>(factor + block_channels * j);
      std::int8_t* at = out + j * step + result * block_channels;
      LAMINA_NO_UNROLL
      for (long i = 0; i < count; i += 4, at += 4 * block_channels) {
        const auto number = [&](int k) __attribute__((always_inline)) {
          if (i + k >= count) return on::ints{};
          const on::floats v = on::to_floats(_mm512_add_epi32(read<on::ints>(sums[i + k][j]), first)) * f;
          if constexpr (Added) return more(v, to, at + b_at + k * block_channels);
          else return to.rounded(v);
        };
        const block_bytes& last = Added ? more.to : to;
        on::put(at, last.in_order(number(0), number(1), number(2), number(3)), count - i);
      }
    }
  }
};
template <bool Added> LAMINA_APART void run_tiles(const amx::conv_part& part, const tile_results<Added>& results) {
  amx::conv_tiles<amx::byte_words, std::int32_t>(part, results);
}

/// Copies pixels of an image; the blocks of the last ones that have no channels are arbitrary: their weights are 0.
LAMINA_APART void join_blocks(const window& w, const std::int8_t* image, long map, long position, long pixels,
                              char* to) {
  const long blocks = parts_of(w.channels, block_channels), first = map * blocks_of_pixel;
  const std::int8_t* from[blocks_of_pixel];
  for (long k = 0; k < blocks_of_pixel; ++k) {
    const long b = first + k < blocks ? first + k : first;
    from[k] = image + (b * w.height * w.width + position) * block_channels;
  }
  LAMINA_NO_UNROLL
  for (long i = 0; i < pixels * block_channels; i += block_channels, to += amx::row_bytes) {
    __m512i all = _mm512_castsi128_si512(read<__m128i>(from[0] + i));
    all = _mm512_inserti32x4(all, read<__m128i>(from[1] + i), 1);
    all = _mm512_inserti32x4(all, read<__m128i>(from[2] + i), 2);
    write(to, _mm512_inserti32x4(all, read<__m128i>(from[3] + i), 3));
  }
}

/// Copies rows and columns of maps of an image, with the zero point outside.
LAMINA_APART void join_pixels(const window& w, const std::int8_t* image, std::int8_t zero_point, long first_map,
                              long maps, long first_row, long rows, long first_column, long columns, char* copy) {
  const auto zero = static_cast<std::int8_t>(zero_point ^ words_of_four::flip);
  amx::copy_image(
      w, first_map, maps, amx::row_bytes, first_row, rows, first_column, columns, copy,
      [zero](char* to, long pixels)
          __attribute__((always_inline)) { std::memset(to, zero, static_cast<std::size_t>(pixels * amx::row_bytes)); },
      [&w, image](char* to, long map, long position, long pixels)
          __attribute__((always_inline)) { join_blocks(w, image, map, position, pixels, to); });
}
LAMINA_INLINE long image_bytes(const window& w) {
  return parts_of(w.channels, block_channels) * w.height * w.width * block_channels;
}
LAMINA_INLINE long joined_bytes(const window& w) {
  return amx::joined_bytes(w, amx::conv_layout(w, numbers_of_tiles), numbers_of_tiles);
}
LAMINA_INLINE void join_images(const quantized_join_args& a) {
  const window& w = a.w;
  amx::copy_maps(w, amx::conv_layout(w, numbers_of_tiles), numbers_of_tiles, a.first, a.count,
                 reinterpret_cast<char*>(a.out), [&](long n, long map, char* to) __attribute__((always_inline)) {
                   join_pixels(w, a.in + n * image_bytes(w), *a.zero_point, map, 1, -w.pad_h,
                               w.rows_under(w.out_height), -w.pad_w, w.columns_under(w.out_width), to);
                 });
}

template <bool Added> LAMINA_APART void tile_conv(const quantized_blocked_args& a, std::int8_t* memory) {
  const window& w = a.w;
  const tile_layout has(w, a.rows, a.blocks, a.joined_in != 0);
  const amx::session tiles;
  const factors by = factors_of_blocks(a, memory + has.factors, [&](long block) __attribute__((always_inline)) {
    return a.packed + has.sums_of(block * block_channels);
  });
  const long plane = w.out_height * w.out_width * block_channels;
  amx::conv_images(
      {&w, has.of, amx::row_bytes, a.first, a.count, a.first_row, a.rows, 0, w.out_width,
       reinterpret_cast<const char*>(a.packed) + a.first_block * has.of.filter_bytes, a.blocks, has.rows,
       a.joined_in ? nullptr : reinterpret_cast<char*>(memory)},
      [&](long n) __attribute__((always_inline)) {
        return amx::conv_image{reinterpret_cast<const char*>(a.in) + n * joined_bytes(w), w.rows_under(w.out_height),
                               w.columns_under(w.out_width)};
      },
      [&](long n, long row, long rows, long line, char* copy) __attribute__((always_inline)) {
        join_pixels(w, a.in + n * image_bytes(w), *a.to.x_zero_point, 0, has.of.maps, row * w.stride_h - w.pad_h, rows,
                    -w.pad_w, line, copy);
      },
      [&](const amx::conv_part& part, long n, long row, long k) __attribute__((always_inline)) {
        run_tiles<Added>(part, {{*a.to.y_zero_point, a.to.low, a.to.high},
                                Added ? added(a) : added(),
                                by.bias + k * block_channels,
                                by.factor + k * block_channels,
                                block_results(a, n) + k * plane + row * w.out_width * block_channels,
                                plane,
                                a.b - a.out});
      });
}

#endif

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
