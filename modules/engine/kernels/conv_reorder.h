// Conversion between plain and channel-blocked activations by register transposes, and packing of weights.
#pragma once
#include "casts.h"
#include "conv_blocked.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace blocked {

/// Row `i` of rows with stride `step`, for i in ascending order. Advances `at` every three rows, which addressing modes
/// reach; otherwise the compiler would keep a pointer to each row.
template <class T> LAMINA_INLINE T* row_of(T*& at, int i, long step) {
  if (i > 0 && i % 3 == 0) {
    at += 3 * step;
    asm("" : "+r"(at));
  }
  return at + i % 3 * step;
}

/// Calls f(p) for the first pixel p of each block of pixels; the last block may overlap the one before. Returns the
/// number of pixels done: all, or none if there are fewer than a block.
template <class F> LAMINA_INLINE long each_block_of_pixels(long pixels, F f) {
  if (pixels < block) return 0;
  LAMINA_NO_UNROLL for (long p = 0; p < pixels; p += block) f(smaller(p, pixels - block));
  return pixels;
}

/// Gathers `count` plain channels into one block; lanes beyond `count` become zero.
LAMINA_APART void gather_block(const float* in, long pixels, long count, float* out) {
  long p = each_block_of_pixels(pixels, [&](long at) __attribute__((always_inline)) {
    vec<float> r[static_cast<std::size_t>(block)];
    const float* from = in + at;
    LAMINA_UNROLL for (int i = 0; i < block; ++i) {
      const float* row = row_of(from, i, pixels);
      r[i] = i < count ? load(row) : zero<float>();
    }
    transpose<float>(r);
    LAMINA_UNROLL for (int i = 0; i < block; ++i) store<float>(out + (at + i) * block, r[i]);
  });
  LAMINA_SMALL for (; p < pixels; ++p) LAMINA_SMALL for (long i = 0; i < block; ++i) out[p * block + i] =
      i < count ? in[i * pixels + p] : 0.0f;
}

LAMINA_APART void scatter_block(const float* in, long pixels, long count, float* out) {
  long p = each_block_of_pixels(pixels, [&](long at) __attribute__((always_inline)) {
    vec<float> r[static_cast<std::size_t>(block)];
    LAMINA_UNROLL for (int i = 0; i < block; ++i) r[i] = load(in + (at + i) * block);
    transpose<float>(r);
    float* to = out + at;
    LAMINA_UNROLL for (int i = 0; i < block; ++i) {
      float* row = row_of(to, i, pixels);
      if (i < count) store<float>(row, r[i]);
    }
  });
  const long lanes = smaller(count, block);
  LAMINA_SMALL for (; p < pixels; ++p) LAMINA_SMALL for (long i = 0; i < lanes; ++i) out[i * pixels + p] =
      in[p * block + i];
}

/// Filters of a convolution; with `turned`, the rotated ones of the convolution whose input gradient it computes.
struct filters {
  const float* from;
  long out_step, in_step, tap_step;
  LAMINA_INLINE explicit filters(const conv_pack_args& a) {
    const window& w = a.w;
    const long taps = w.kernel_h * w.kernel_w;
    from = a.turned ? a.weight + taps - 1 : a.weight;
    out_step = a.turned ? taps : (w.groups > 1 ? 1 : w.channels) * taps;
    in_step = a.turned ? w.out_channels * taps : taps;
    tap_step = a.turned ? -1 : 1;
  }
  LAMINA_INLINE const float& operator()(long out_channel, long in_channel, long tap) const {
    return from[out_channel * out_step + in_channel * in_step + tap * tap_step];
  }
};

/// Up to a block of rows with numbers for `count` places each -> [place][row]; `place(i)` is where those of i begin.
template <class F> LAMINA_INLINE void pack_rows(const float* from, long step, long rows, long count, F place) {
  for (long at = 0; at < count; at += block) {
    const long n = smaller(block, count - at);
    const auto inside = first<float>(static_cast<int>(n));
    vec<float> r[static_cast<std::size_t>(block)];
    LAMINA_UNROLL for (int i = 0; i < block; ++i) r[i] = i >= rows    ? zero<float>()
                                                         : n == block ? load(from + i * step + at)
                                                                      : load(from + i * step + at, inside);
    transpose<float>(r);
    LAMINA_UNROLL for (int i = 0; i < block; ++i) if (i < n) store<float>(place(at + i), r[i]);
  }
}
/// `pack_weights` of numbers as they are, of an ungrouped convolution of channel blocks.
LAMINA_APART void pack_blocks(const window& w, const filters& from, float* packed) {
  const long taps = w.kernel_h * w.kernel_w, in_blocks = divide_up(w.channels, block), square = block * block;
  for (long o = 0; o < w.out_channels; o += block, packed += in_blocks * taps * square) {
    const long outs = smaller(block, w.out_channels - o);
    const float* rows = from.from + o * from.out_step;
    const auto place = [&](long c, long t) { return packed + (c / block * taps + t) * square + c % block * block; };
    if (w.channels % block)
      __builtin_memset(place((in_blocks - 1) * block, 0), 0, static_cast<std::size_t>(taps * square) * sizeof(float));
    if (from.tap_step > 0) {
      pack_rows(rows, from.out_step, outs, w.channels * taps, [&](long i) { return place(i / taps, i % taps); });
    } else {
      for (long c = 0; c < w.channels; ++c, rows += from.in_step) {
        // Rows of one tap are neighbors.
        if (taps == 1) store<float>(place(c, 0), load(rows, first<float>(static_cast<int>(outs))));
        else pack_rows(rows - (taps - 1), from.out_step, outs, taps, [&](long i) { return place(c, taps - 1 - i); });
      }
    }
  }
}

/// weight [O, C, kh, kw] -> [O / block][C / block][kh][kw][block in][block out]; planar: [O / block][C][kh][kw][block];
/// depthwise [C, 1, kh, kw] -> [C / block][kh][kw][block].  Zeros beyond O and C.
template <class Form>
LAMINA_INLINE void pack_weights(const window& w, bool planar, const filters& from, float* packed) {
  using number = packed_number<Form>;
  if constexpr (std::is_same_v<number, float> && Form::numbers == 1)
    if (w.groups == 1 && !planar) return pack_blocks(w, from, packed);
  auto* to = reinterpret_cast<number*>(packed);
  constexpr long together = Form::numbers;  // input channels per lane
  const long taps = w.kernel_h * w.kernel_w, out_blocks = divide_up(w.out_channels, block);
  const bool grouped = w.groups > 1;
  const long channels = grouped ? 1 : w.channels;
  const long in_blocks = grouped || planar ? channels : divide_up(channels, block),
             inner = grouped || planar ? 1 : block;
  for (long o = 0; o < out_blocks; ++o)
    for (long c = 0; c < in_blocks; ++c)
      for (long t = 0; t < taps; ++t)
        for (long i = 0; i < inner; i += together)
          for (long j = 0; j < block; ++j)
            for (long k = i; k < i + together; ++k) {
              const long out_channel = o * block + j, in_channel = c * inner + k;
              const bool inside = out_channel < w.out_channels && in_channel < channels;
              *to++ = convert<number>(inside ? from(out_channel, in_channel, t) : 0.0f);
            }
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
