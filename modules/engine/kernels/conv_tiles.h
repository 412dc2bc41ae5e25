// The tile instances of the convolutions under C names, and the tables of their addresses for `prepare`.
// Only `prepare` may name the tables, so that a separately linked layer contains only the few tiles that it uses.
#pragma once
#include "conv_depthwise.h"
#include "conv_direct.h"
#include "conv_prepare.h"

#define LAMINA_TILE_NAME(c, r) LAMINA_KERNEL(conv_tile_##c##_##r)
#define LAMINA_DEFINE(c, r)                                                    \
  extern "C" void LAMINA_TILE_NAME(c, r)(const void* q) noexcept {             \
    lamina::kernels::blocked::tile<lamina::kernels::unconverted<float>, c, r>( \
        *static_cast<const lamina::kernels::blocked::tile_args*>(q));          \
  }
LAMINA_ALL_TILES(LAMINA_DEFINE)
#undef LAMINA_DEFINE

#define LAMINA_DEPTHWISE(s)                                                                                   \
  extern "C" void LAMINA_KERNEL(conv_depthwise_##s)(const void* q) noexcept {                                 \
    lamina::kernels::blocked::depthwise<s>(*static_cast<const lamina::kernels::blocked::depthwise_args*>(q)); \
  }
LAMINA_DEPTHWISE(1)
LAMINA_DEPTHWISE(2)
#undef LAMINA_DEPTHWISE
extern "C" void LAMINA_KERNEL(conv_depthwise_any)(const void* q) noexcept {
  lamina::kernels::blocked::depthwise_any(*static_cast<const lamina::kernels::blocked::depthwise_args*>(q));
}

// Direct plain tiles of float: X(out channels, vectors).
#define LAMINA_DIRECT_2(X, v) X(1, v) X(2, v)
#define LAMINA_DIRECT_6(X, v) LAMINA_DIRECT_2(X, v) X(3, v) X(4, v) X(5, v) X(6, v)
#if LAMINA_REGISTERS == 32
#define LAMINA_DIRECT_TILES(X) LAMINA_DIRECT_6(X, 1) LAMINA_DIRECT_6(X, 2) LAMINA_DIRECT_6(X, 4) LAMINA_DIRECT_2(X, 8)
#else
#define LAMINA_DIRECT_TILES(X) LAMINA_DIRECT_6(X, 1) LAMINA_DIRECT_6(X, 2) LAMINA_DIRECT_2(X, 4)
#endif
#define LAMINA_DIRECT_NAME(c, v) LAMINA_KERNEL(conv_direct_f32_##c##_##v)
#define LAMINA_DEFINE(c, v)                                                                                        \
  extern "C" void LAMINA_DIRECT_NAME(c, v)(const void* q) noexcept {                                               \
    lamina::kernels::direct::tile<float, c, v>(*static_cast<const lamina::kernels::direct::tile_args<float>*>(q)); \
  }
LAMINA_DIRECT_TILES(LAMINA_DEFINE)
#undef LAMINA_DEFINE

// Tiles of the gradient of the weights: X(output channels, taps).
#define LAMINA_TAPS_4(X, o) X(o, 1) X(o, 2) X(o, 3) X(o, 4)
#if LAMINA_REGISTERS == 32
#define LAMINA_TAPS(X, o) LAMINA_TAPS_4(X, o) X(o, 5) X(o, 6)
#define LAMINA_CORRELATIONS(X) LAMINA_TAPS(X, 1) LAMINA_TAPS(X, 2) LAMINA_TAPS(X, 3) LAMINA_TAPS(X, 4)
#else
#define LAMINA_CORRELATIONS(X) LAMINA_TAPS_4(X, 1) LAMINA_TAPS_4(X, 2) LAMINA_TAPS_4(X, 3)
#endif
#define LAMINA_CORRELATION_NAME(o, k) LAMINA_KERNEL(conv_correlation_f32_##o##_##k)
#define LAMINA_DEFINE(o, k)                                                          \
  extern "C" void LAMINA_CORRELATION_NAME(o, k)(const void* q) noexcept {            \
    using args = lamina::kernels::direct::correlation_args<float>;                   \
    lamina::kernels::direct::correlation<float, o, k>(*static_cast<const args*>(q)); \
  }
LAMINA_CORRELATIONS(LAMINA_DEFINE)
#undef LAMINA_DEFINE

// Tiles of outer products.
#define LAMINA_OUTER_NAME(b, r, j) LAMINA_KERNEL(conv_outer_f32_##b##_##r##_##j)
#define LAMINA_DEFINE(b, r, j)                                                                                    \
  static_assert(lamina::kernels::outer::rows_of_tile(b, j) == r);                                                 \
  extern "C" void LAMINA_OUTER_NAME(b, r, j)(const void* q) noexcept {                                            \
    using form = lamina::kernels::unconverted<float>;                                                             \
    lamina::kernels::outer::tile<form, b, r, j>(*static_cast<const lamina::kernels::outer::tile_args<form>*>(q)); \
  }
LAMINA_OUTERS(LAMINA_DEFINE)
#undef LAMINA_DEFINE

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// [out channels - 1][log2 of vectors]
struct direct_tiles {
  conv_tile at[6][4]{};
  constexpr direct_tiles() {
#define LAMINA_ENTER(c, v) at[c - 1][v == 8 ? 3 : v / 2] = &LAMINA_DIRECT_NAME(c, v);
    LAMINA_DIRECT_TILES(LAMINA_ENTER)
#undef LAMINA_ENTER
  }
};

/// [output channels - 1][taps - 1]
struct correlation_tiles {
  conv_tile at[4][6]{};
  constexpr correlation_tiles() {
#define LAMINA_ENTER(o, k) at[o - 1][k - 1] = &LAMINA_CORRELATION_NAME(o, k);
    LAMINA_CORRELATIONS(LAMINA_ENTER)
#undef LAMINA_ENTER
  }
};

constexpr blocked_tiles tiles_of_blocked = [] {
  blocked_tiles all;
#define LAMINA_ENTER(c, r) all.at[c - 1][r - 1] = &LAMINA_TILE_NAME(c, r);
  LAMINA_ALL_TILES(LAMINA_ENTER)
#undef LAMINA_ENTER
  return all;
}();
constexpr correlation_tiles tiles_of_correlation{};
constexpr direct_tiles tiles_of_direct{};
constexpr outer_tiles tiles_of_outer = [] {
  outer_tiles all;
#define LAMINA_ENTER(b, r, j) all.at[j / 2][b - 1] = &LAMINA_OUTER_NAME(b, r, j);
  LAMINA_OUTERS(LAMINA_ENTER)
#undef LAMINA_ENTER
  return all;
}();

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
