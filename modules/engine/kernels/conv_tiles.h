// The tile instances of the convolutions under C names, and the tables from which `prepare` takes their addresses.
// Only `prepare` may name the tables: a layer linked by itself then keeps the few tiles it uses.
#pragma once
#include "conv_blocked.h"
#include "conv_direct.h"

#define LAMINA_ROWS_3(X, m, e, c) X(m, e, c, 1) X(m, e, c, 2) X(m, e, c, 3)
#define LAMINA_ROWS_4(X, m, e, c) LAMINA_ROWS_3(X, m, e, c) X(m, e, c, 4)
#define LAMINA_ROWS_6(X, m, e, c) LAMINA_ROWS_4(X, m, e, c) X(m, e, c, 5) X(m, e, c, 6)
#define LAMINA_ROWS_9(X, m, e, c) LAMINA_ROWS_6(X, m, e, c) X(m, e, c, 7) X(m, e, c, 8) X(m, e, c, 9)
#define LAMINA_ROWS_14(X, m, e, c) \
  LAMINA_ROWS_9(X, m, e, c) X(m, e, c, 10) X(m, e, c, 11) X(m, e, c, 12) X(m, e, c, 13) X(m, e, c, 14)
#if defined(__AVX512F__)
#define LAMINA_ROWS_WIDE LAMINA_ROWS_14
#define LAMINA_ROWS_NARROW LAMINA_ROWS_9
#elif defined(__AVX2__)
#define LAMINA_ROWS_WIDE LAMINA_ROWS_6
#define LAMINA_ROWS_NARROW LAMINA_ROWS_4
#else
#define LAMINA_ROWS_WIDE LAMINA_ROWS_6
#define LAMINA_ROWS_NARROW LAMINA_ROWS_3
#endif
#define LAMINA_TILES(X, m, e) LAMINA_ROWS_WIDE(X, m, e, 1) LAMINA_ROWS_WIDE(X, m, e, 2) LAMINA_ROWS_NARROW(X, m, e, 3)
#define LAMINA_ALL_TILES(X) \
  LAMINA_TILES(X, 0, 0) LAMINA_TILES(X, 0, 1) LAMINA_TILES(X, 1, 0) LAMINA_TILES(X, 1, 1) \
  LAMINA_TILES(X, 2, 0) LAMINA_TILES(X, 3, 0)

#define LAMINA_TILE_NAME(m, e, c, r) LAMINA_KERNEL(conv_tile_##m##_##e##_##c##_##r)
#define LAMINA_DEFINE(m, e, c, r)                                                              \
  extern "C" void LAMINA_TILE_NAME(m, e, c, r)(const void* q) noexcept {                       \
    lamina::kernels::blocked::tile<m, e != 0, c, r>(*static_cast<const lamina::kernels::blocked::tile_args*>(q)); \
  }
LAMINA_ALL_TILES(LAMINA_DEFINE)
#undef LAMINA_DEFINE

#define LAMINA_DEPTHWISE(s)                                                                    \
  extern "C" void LAMINA_KERNEL(conv_depthwise_##s)(const void* q) noexcept {                  \
    lamina::kernels::blocked::depthwise<s>(*static_cast<const lamina::kernels::blocked::depthwise_args*>(q)); \
  }
LAMINA_DEPTHWISE(1)
LAMINA_DEPTHWISE(2)
#undef LAMINA_DEPTHWISE

// Direct plain tiles: X(type, out channels, vectors).
#define LAMINA_DIRECT_2(X, t, v) X(t, 1, v) X(t, 2, v)
#define LAMINA_DIRECT_6(X, t, v) LAMINA_DIRECT_2(X, t, v) X(t, 3, v) X(t, 4, v) X(t, 5, v) X(t, 6, v)
#if defined(__AVX512F__)
#define LAMINA_DIRECT_TILES(X, t) \
  LAMINA_DIRECT_6(X, t, 1) LAMINA_DIRECT_6(X, t, 2) LAMINA_DIRECT_6(X, t, 4) LAMINA_DIRECT_2(X, t, 8)
#else
#define LAMINA_DIRECT_TILES(X, t) LAMINA_DIRECT_6(X, t, 1) LAMINA_DIRECT_6(X, t, 2) LAMINA_DIRECT_2(X, t, 4)
#endif
#define LAMINA_DIRECT_NAME(t, c, v) LAMINA_KERNEL(conv_direct_##t##_##c##_##v)
#define LAMINA_DEFINE(t, c, v)                                                                 \
  extern "C" void LAMINA_DIRECT_NAME(t, c, v)(const void* q) noexcept {                        \
    using element = lamina::kernels::direct::element_of::t;                                    \
    lamina::kernels::direct::tile<element, c, v>(*static_cast<const lamina::kernels::direct::tile_args<element>*>(q)); \
  }
LAMINA_DIRECT_TILES(LAMINA_DEFINE, f32)
LAMINA_DIRECT_TILES(LAMINA_DEFINE, f64)
#undef LAMINA_DEFINE

// Tiles of the gradient of the weights: X(type, output channels, taps).
#define LAMINA_TAPS_4(X, t, o) X(t, o, 1) X(t, o, 2) X(t, o, 3) X(t, o, 4)
#if defined(__AVX512F__)
#define LAMINA_TAPS(X, t, o) LAMINA_TAPS_4(X, t, o) X(t, o, 5) X(t, o, 6)
#define LAMINA_CORRELATIONS(X, t) \
  LAMINA_TAPS(X, t, 1) LAMINA_TAPS(X, t, 2) LAMINA_TAPS(X, t, 3) LAMINA_TAPS(X, t, 4)
#else
#define LAMINA_CORRELATIONS(X, t) LAMINA_TAPS_4(X, t, 1) LAMINA_TAPS_4(X, t, 2) LAMINA_TAPS_4(X, t, 3)
#endif
#define LAMINA_CORRELATION_NAME(t, o, k) LAMINA_KERNEL(conv_correlation_##t##_##o##_##k)
#define LAMINA_DEFINE(t, o, k)                                                                 \
  extern "C" void LAMINA_CORRELATION_NAME(t, o, k)(const void* q) noexcept {                   \
    using element = lamina::kernels::direct::element_of::t;                                    \
    using args = lamina::kernels::direct::correlation_args<element>;                           \
    lamina::kernels::direct::correlation<element, o, k>(*static_cast<const args*>(q));         \
  }
LAMINA_CORRELATIONS(LAMINA_DEFINE, f32)
LAMINA_CORRELATIONS(LAMINA_DEFINE, f64)
#undef LAMINA_DEFINE

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

using conv_tile = void (*)(const void*) noexcept;

struct blocked_tiles {
  conv_tile at[4][2][3][blocked::wide_rows]{};
  constexpr blocked_tiles() {
#define LAMINA_ENTER(m, e, c, r) at[m][e][c - 1][r - 1] = &LAMINA_TILE_NAME(m, e, c, r);
    LAMINA_ALL_TILES(LAMINA_ENTER)
#undef LAMINA_ENTER
  }
};

/// [type][out channels - 1][log2 of vectors]
struct direct_tiles {
  conv_tile at[2][6][4]{};
  constexpr direct_tiles() {
#define LAMINA_ENTER(t, c, v) at[direct::element_index::t][c - 1][v == 8 ? 3 : v / 2] = &LAMINA_DIRECT_NAME(t, c, v);
    LAMINA_DIRECT_TILES(LAMINA_ENTER, f32)
    LAMINA_DIRECT_TILES(LAMINA_ENTER, f64)
#undef LAMINA_ENTER
  }
};

/// [type][output channels - 1][taps - 1]
struct correlation_tiles {
  conv_tile at[2][4][6]{};
  constexpr correlation_tiles() {
#define LAMINA_ENTER(t, o, k) at[direct::element_index::t][o - 1][k - 1] = &LAMINA_CORRELATION_NAME(t, o, k);
    LAMINA_CORRELATIONS(LAMINA_ENTER, f32)
    LAMINA_CORRELATIONS(LAMINA_ENTER, f64)
#undef LAMINA_ENTER
  }
};

constexpr blocked_tiles tiles_of_blocked{};
constexpr correlation_tiles tiles_of_correlation{};
constexpr direct_tiles tiles_of_direct{};

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
