// Plain <-> channel-blocked activations by transposes of whole registers, and the packing of weights.
#pragma once
#include "conv_blocked.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace blocked {

/// Channels [c, c + count) of one image to one block; lanes beyond `count` become zero.
LAMINA_INLINE void gather_block(const float* in, long pixels, long count, float* out) {
  long p = 0;
  for (; p + block <= pixels; p += block) {
    vec<float> r[static_cast<std::size_t>(block)];
    if (count >= block) {
      LAMINA_UNROLL for (int i = 0; i < block; ++i) r[i] = load(in + i * pixels + p);
    } else {
      LAMINA_UNROLL for (int i = 0; i < block; ++i) r[i] = i < count ? load(in + i * pixels + p) : zero<float>();
    }
    transpose<float>(r);
    LAMINA_UNROLL for (int i = 0; i < block; ++i) store<float>(out + (p + i) * block, r[i]);
  }
  for (; p < pixels; ++p)
    for (long i = 0; i < block; ++i) out[p * block + i] = i < count ? in[i * pixels + p] : 0.0f;
}

LAMINA_INLINE void scatter_block(const float* in, long pixels, long count, float* out) {
  long p = 0;
  for (; p + block <= pixels; p += block) {
    vec<float> r[static_cast<std::size_t>(block)];
    LAMINA_UNROLL for (int i = 0; i < block; ++i) r[i] = load(in + (p + i) * block);
    transpose<float>(r);
    LAMINA_UNROLL for (int i = 0; i < block; ++i) if (i < count) store<float>(out + i * pixels + p, r[i]);
  }
  for (; p < pixels; ++p)
    for (long i = 0; i < smaller(count, block); ++i) out[i * pixels + p] = in[p * block + i];
}

/// weight [O, C, kh, kw] -> [O / block][C / block][kh][kw][block in][block out]; planar: [O / block][C][kh][kw][block];
/// depthwise [C, 1, kh, kw] -> [C / block][kh][kw][block].  Zeros beyond O and C.
LAMINA_INLINE void pack_weights(const window& w, bool planar, const float* from, float* to) {
  const long taps = w.kernel_h * w.kernel_w, out_blocks = divide_up(w.out_channels, block);
  const bool grouped = w.groups > 1;
  const long channels = grouped ? 1 : w.channels;
  const long in_blocks = grouped || planar ? channels : divide_up(channels, block),
             inner = grouped || planar ? 1 : block;
  for (long o = 0; o < out_blocks; ++o)
    for (long c = 0; c < in_blocks; ++c)
      for (long t = 0; t < taps; ++t)
        for (long i = 0; i < inner; ++i)
          for (long j = 0; j < block; ++j) {
            const long out_channel = o * block + j, in_channel = c * inner + i;
            const bool inside = out_channel < w.out_channels && in_channel < channels;
            *to++ = inside ? from[(out_channel * channels + in_channel) * taps + t] : 0.0f;
          }
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
