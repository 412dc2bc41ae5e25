// Random fills: Philox 4x32-10 (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", 2011), many
// blocks in parallel.
#include "double_math.h"
#include "reduce.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace {

inline constexpr long block_count = 32;  // blocks generated at a time

struct words {
  std::uint32_t w[4][block_count];
};

/// Generates the blocks [first, first + block_count) of a fill.
LAMINA_INLINE void philox(const random_args& a, long first, words& out) {
  const auto seed = static_cast<std::uint64_t>(a.state[0]), step = static_cast<std::uint64_t>(a.state[1]);
  for (int b = 0; b < block_count; ++b) {
    std::uint32_t c0 = static_cast<std::uint32_t>(first) + static_cast<std::uint32_t>(b);
    std::uint32_t c1 = static_cast<std::uint32_t>(a.site), c2 = static_cast<std::uint32_t>(step);
    std::uint32_t c3 = static_cast<std::uint32_t>(step >> 32);
    std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
    LAMINA_UNROLL for (int round = 0; round < 10; ++round) {
      const std::uint64_t p0 = std::uint64_t{0xd2511f53u} * c0, p1 = std::uint64_t{0xcd9e8d57u} * c2;
      const std::uint32_t n0 = static_cast<std::uint32_t>(p1 >> 32) ^ c1 ^ k0;
      const std::uint32_t n2 = static_cast<std::uint32_t>(p0 >> 32) ^ c3 ^ k1;
      c1 = static_cast<std::uint32_t>(p1);
      c3 = static_cast<std::uint32_t>(p0);
      c0 = n0;
      c2 = n2;
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
    out.w[0][b] = c0;
    out.w[1][b] = c1;
    out.w[2][b] = c2;
    out.w[3][b] = c3;
  }
}

/// A number in [0, 1) from 53 bits of two words.
LAMINA_INLINE double unit(std::uint32_t first, std::uint32_t second) {
  const std::uint64_t bits = (static_cast<std::uint64_t>(first) << 21) | (second >> 11);
  return static_cast<double>(static_cast<std::int64_t>(bits)) * 0x1p-53;
}

/// Calls make(words, out) for tiles of `PerBlock` elements per block; truncates the last tile.
template <class T, int PerBlock, class Make> LAMINA_INLINE void tiles(const random_args& a, Make make) {
  constexpr long tile = block_count * PerBlock;
  T* out = static_cast<T*>(a.out);
  words w;
  for (long i = 0; i < a.n; i += tile) {
    philox(a, (a.first + i) / PerBlock, w);
    const long left = a.n - i;
    if (left >= tile) {
      make(w, out + i);
    } else {
      T rest[static_cast<std::size_t>(tile)];
      make(w, rest);
      for (long j = 0; j < left; ++j) out[i + j] = rest[j];
    }
  }
}

/// The largest value below `high`, to clamp results that round up to `high`.
LAMINA_INLINE float below(float high, float low) { return high > low ? __builtin_nextafterf(high, low) : high; }
LAMINA_INLINE double below(double high, double low) { return high > low ? __builtin_nextafter(high, low) : high; }

/// Box-Muller on v, w in [0, 1): radius from v, angle from w.
struct pair {
  double first, second;
};
LAMINA_INLINE pair box_muller(double v, double w) {
  const double radius = __builtin_sqrt(-2. * wide::log(1. - v));
  // subtracts quarter turns exactly
  constexpr double magic = 0x1.8p52;
  const double quarters = 4. * w, t = quarters + magic, rest = quarters - (t - magic);
  const auto quarter = __builtin_bit_cast(std::uint64_t, t);
  const wide::sine_cosine r = wide::sine_cosine_small(rest * (wide::pi / 2));
  const double s = (quarter & 1) != 0 ? r.cosine : r.sine, c = (quarter & 1) != 0 ? r.sine : r.cosine;
  return {radius * (((quarter + 1) & 2) != 0 ? -c : c), radius * ((quarter & 2) != 0 ? -s : s)};
}

}  // namespace
}  // namespace LAMINA_KERNEL_SET

extern "C" {

void LAMINA_KERNEL(uniform_f32)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const random_args*>(args);
  const float low = static_cast<float>(a.low), high = static_cast<float>(a.high), span = high - low,
              max = below(high, low);
  tiles<float, 4>(a, [=](const words& w, float* out) __attribute__((always_inline)) {
    for (int b = 0; b < block_count; ++b) LAMINA_UNROLL for (int k = 0; k < 4; ++k) {
        const float u = static_cast<float>(static_cast<std::int32_t>(w.w[k][b] >> 8)) * 0x1p-24f, y = low + span * u;
        out[4 * b + k] = y < max ? y : max;
      }
  });
}
void LAMINA_KERNEL(uniform_f64)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const random_args*>(args);
  const double low = a.low, span = a.high - a.low, max = below(a.high, a.low);
  tiles<double, 2>(a, [=](const words& w, double* out) __attribute__((always_inline)) {
    for (int b = 0; b < block_count; ++b) LAMINA_UNROLL for (int k = 0; k < 2; ++k) {
        const double y = low + span * unit(w.w[2 * k][b], w.w[2 * k + 1][b]);
        out[2 * b + k] = y < max ? y : max;
      }
  });
}
void LAMINA_KERNEL(normal_f32)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const random_args*>(args);
  const double mean = a.low, deviation = a.high;
  tiles<float, 4>(a, [=](const words& w, float* out) __attribute__((always_inline)) {
    for (int b = 0; b < block_count; ++b) LAMINA_UNROLL for (int k = 0; k < 4; k += 2) {
        const pair z =
            box_muller(static_cast<double>(w.w[k][b]) * 0x1p-32, static_cast<double>(w.w[k + 1][b]) * 0x1p-32);
        out[4 * b + k] = static_cast<float>(mean + deviation * z.first);
        out[4 * b + k + 1] = static_cast<float>(mean + deviation * z.second);
      }
  });
}
void LAMINA_KERNEL(normal_f64)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const random_args*>(args);
  const double mean = a.low, deviation = a.high;
  tiles<double, 2>(a, [=](const words& w, double* out) __attribute__((always_inline)) {
    for (int b = 0; b < block_count; ++b) {
      const double v = unit(w.w[0][b], w.w[1][b]), angle = unit(w.w[2][b], w.w[3][b]) * (2. * wide::pi);
      const double radius = __builtin_sqrt(-2. * __builtin_log(1. - v));
      out[2 * b] = mean + deviation * (radius * __builtin_cos(angle));
      out[2 * b + 1] = mean + deviation * (radius * __builtin_sin(angle));
    }
  });
}

}  // extern "C"

}  // namespace lamina::kernels
