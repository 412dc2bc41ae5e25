// Conversions, pooling and sums of int8 images in channel blocks.
#pragma once
#include "quantized_block_bytes.h"
#include "quantized_pool.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

#if defined(__AVX2__)

/// Conversion from plain to blocked layout: transposes a block of channels by 16 pixels.
LAMINA_INLINE void plain_to_blocks(const reorder_args& a) {
  using pixel = bytes<block_channels>;
  const auto *in = static_cast<const std::int8_t*>(a.in), *end = in + a.images * a.channels * a.pixels;
  auto* out = static_cast<std::int8_t*>(a.out);
  for (long n = 0; n < a.images; ++n)
    for (long c = 0; c < a.channels; c += block_channels) {
      const long count = a.channels - c < block_channels ? a.channels - c : block_channels;
      const std::int8_t* from = in + (n * a.channels + c) * a.pixels;
      for (long p = 0; p < a.pixels; p += 16) {
        const long pixels = a.pixels - p < 16 ? a.pixels - p : 16;
        bytes16 v[16];
        LAMINA_UNROLL
        for (int i = 0; i < 16; ++i) v[i] = i < count ? bytes_inside<1>(from + i * a.pixels + p, end) : bytes16(0);
        turn_square(v);
        for (int i = 0; i < pixels; ++i, out += block_channels)
          write(out, read<pixel>(&v[i]) ^ pixel(words_of_four::flip));
      }
    }
}
LAMINA_INLINE void blocks_to_plain(const reorder_args& a) {
  using pixel = bytes<block_channels>;
  const auto* in = static_cast<const std::int8_t*>(a.in);
  auto* out = static_cast<std::int8_t*>(a.out);
  for (long n = 0; n < a.images; ++n)
    for (long c = 0; c < a.channels; c += block_channels) {
      const long count = a.channels - c < block_channels ? a.channels - c : block_channels;
      std::int8_t* to = out + (n * a.channels + c) * a.pixels;
      for (long p = 0; p < a.pixels; p += 16) {
        const long pixels = a.pixels - p < 16 ? a.pixels - p : 16;
        bytes16 v[16] = {};
        LAMINA_UNROLL
        for (int i = 0; i < 16; ++i)
          if (i < pixels) write(&v[i], read<pixel>(in + i * block_channels) ^ pixel(words_of_four::flip));
        in += pixels * block_channels;
        turn_square(v);
        for (long i = 0; i < count; ++i) put(to + i * a.pixels + p, v[i], pixels);
      }
    }
}

LAMINA_INLINE void max_pool_of_blocks(const pool_args& a) {
  using numbers = std::uint8_t __attribute__((ext_vector_type(block_channels)));
  const window& w = a.w;
  const auto* in = static_cast<const std::int8_t*>(a.in);
  auto* out = static_cast<std::int8_t*>(a.out);
  const long maps = a.images * parts_of(w.channels, block_channels);
  for (long m = 0; m < maps; ++m, in += w.height * w.width * block_channels)
    for (long y = 0; y < w.out_height; ++y) {
      const pool_span rows(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
      for (long x = 0; x < w.out_width; ++x, out += block_channels) {
        const pool_span columns(x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
        numbers max(0);
        for (long i = rows.begin; i < rows.end; ++i)
          for (long j = columns.begin; j < columns.end; ++j)
            max = __builtin_elementwise_max(max, read<numbers>(in + (i * w.width + j) * block_channels));
        write(out, max);
      }
    }
}

LAMINA_INLINE void average_pool_of_blocks(const quantized_average_args& a) {
  using on = block_register;
  using words = std::int32_t __attribute__((ext_vector_type(block_channels)));
  const window& w = a.pool.w;
  const auto* in = static_cast<const std::int8_t*>(a.pool.in);
  auto* out = static_cast<std::int8_t*>(a.pool.out);
  const long maps = a.pool.images * parts_of(w.channels, block_channels);
  const on::floats ratio = everywhere<on::floats>(*a.x_scale / *a.y_scale);
  const block_bytes to(*a.y_zero_point, -128, 127);
  for (long m = 0; m < maps; ++m, in += w.height * w.width * block_channels)
    for (long y = 0; y < w.out_height; ++y) {
      const pool_span rows(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
      for (long x = 0; x < w.out_width; ++x, out += block_channels) {
        const pool_span columns(x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
        const long inside = (rows.end - rows.begin) * (columns.end - columns.begin),
                   counted = a.pool.count_padding ? rows.padded * columns.padded : inside;
        words sum(-static_cast<std::int32_t>(inside) * (*a.x_zero_point + plus_128));
        for (long i = rows.begin; i < rows.end; ++i)
          for (long j = columns.begin; j < columns.end; ++j)
            sum += __builtin_bit_cast(words, on::widened(in + (i * w.width + j) * block_channels));
        const on::floats v =
            on::to_floats(__builtin_bit_cast(on::ints, sum)) * ratio /
            everywhere<on::floats>(static_cast<float>(static_cast<std::int32_t>(counted > 0 ? counted : 1)));
        const on::ints one = to.rounded(v);
        on::put(out, to.in_order(one, one, one, one), 1);
      }
    }
}

LAMINA_INLINE void add_blocks(const quantized_add_args& a) {
  using on = block_register;
  const on::floats a_factor = everywhere<on::floats>(*a.a_scale / *a.y_scale),
                   b_factor = everywhere<on::floats>(*a.b_scale / *a.y_scale),
                   a_zero_point = everywhere<on::floats>(static_cast<float>(*a.a_zero_point + plus_128)),
                   b_zero_point = everywhere<on::floats>(static_cast<float>(*a.b_zero_point + plus_128));
  const block_bytes to(*a.y_zero_point, a.low, a.high);
  const long pixels = a.rows * a.count / block_channels;
  for (long g = 0; g < pixels; g += 4) {
    on::ints v[4]{};
    const long left = pixels - g;
    LAMINA_UNROLL
    for (int i = 0; i < 4; ++i)
      if (i < left) {
        const long p = (g + i) * block_channels;
        v[i] = to.rounded((numbers_of_block(a.a + p) - a_zero_point) * a_factor +
                          (numbers_of_block(a.b + p) - b_zero_point) * b_factor);
      }
    on::put(a.y + g * block_channels, to.in_order(v[0], v[1], v[2], v[3]), left);
  }
}

#endif

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
