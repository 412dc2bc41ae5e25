// Channel blocks gathered from lanes of other blocks, for shuffles, slices and concatenations of channels.
#pragma once
#include "conv.h"
#include "simd.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace blocked {

template <class T> LAMINA_INLINE void gather_lanes(const channel_block_args& a) {
  constexpr int lanes = width<float>;
  const T* from[lanes];
  long step[lanes];
  for (int i = 0; i < lanes; ++i) {
    const bool any = a.block[i] >= 0;
    from[i] = any ? static_cast<const T*>(a.in[a.block[i]]) + a.lane[i] : nullptr;
    step[i] = any ? a.in_image[a.block[i]] : 0;
  }
  T* out = static_cast<T*>(a.out);
  LAMINA_NO_UNROLL for (long n = 0; n < a.images; ++n) {
    LAMINA_NO_UNROLL for (int i = 0; i < lanes; ++i) {
      const T* in = from[i] ? from[i] + n * step[i] : nullptr;
      T* to = out + n * a.out_image + i;
      LAMINA_NO_UNROLL for (long p = 0; p < a.pixels; ++p) to[p * lanes] = in ? in[p * lanes] : T(0);
    }
  }
}

#if defined(__AVX2__)
/// Lane i is x[lane[i]], or other[i] if lane[i] is negative.
LAMINA_INLINE vec<float> permuted(vec<float> x, vec<std::int32_t> lane, vec<float> other) {
#if defined(__AVX512F__)
  return _mm512_mask_permutexvar_ps(other, _mm512_cmpge_epi32_mask(lane, _mm512_setzero_si512()), lane, x);
#else
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(x, lane), other, _mm256_castsi256_ps(lane));
#endif
}

/// `gather_lanes` by register permutes, `Count` for each pixel; 0: any number.
template <int Count> LAMINA_INLINE void permute_lanes(const channel_block_args& a) {
  constexpr int lanes = width<float>, max = Count ? Count : lanes;
  const int count = Count ? Count : a.blocks;
  std::int32_t lane[max][lanes];
  for (int k = 0; k < count; ++k)
    for (int i = 0; i < lanes; ++i) lane[k][i] = a.block[i] == k ? a.lane[i] : -1;
  for (long n = 0; n < a.images; ++n) {
    const float* in[max];
    for (int k = 0; k < count; ++k) in[k] = static_cast<const float*>(a.in[k]) + n * a.in_image[k];
    float* out = static_cast<float*>(a.out) + n * a.out_image;
    LAMINA_NO_UNROLL for (long p = 0; p < a.pixels; ++p) {
      vec<float> all = zero<float>();
      const auto take = [&](int k) __attribute__((always_inline)) {
        all = permuted(load(in[k] + p * lanes), load(lane[k]), all);
      };
      if constexpr (Count != 0) {
        LAMINA_UNROLL for (int k = 0; k < Count; ++k) take(k);
      } else {
        LAMINA_NO_UNROLL for (int k = 0; k < count; ++k) take(k);
      }
      store<float>(out + p * lanes, all);
    }
  }
}
#endif

LAMINA_INLINE void channel_block(const channel_block_args& a) {
#if defined(__AVX2__)
  if (a.blocks == 1) permute_lanes<1>(a);
  else if (a.blocks == 2) permute_lanes<2>(a);
  else if (a.blocks == 3) permute_lanes<3>(a);
  else if (a.blocks == 4) permute_lanes<4>(a);
  else permute_lanes<0>(a);
#else
  gather_lanes<float>(a);
#endif
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
