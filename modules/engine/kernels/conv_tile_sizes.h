// The tiles of blocked convolutions: X(blocks of output channels, pixels).
#pragma once
#include "simd.h"

#define LAMINA_ROWS_3(X, c) X(c, 1) X(c, 2) X(c, 3)
#define LAMINA_ROWS_4(X, c) LAMINA_ROWS_3(X, c) X(c, 4)
#define LAMINA_ROWS_6(X, c) LAMINA_ROWS_4(X, c) X(c, 5) X(c, 6)
#define LAMINA_ROWS_8(X, c) LAMINA_ROWS_6(X, c) X(c, 7) X(c, 8)
#define LAMINA_ROWS_9(X, c) LAMINA_ROWS_8(X, c) X(c, 9)
#define LAMINA_ROWS_14(X, c) LAMINA_ROWS_9(X, c) X(c, 10) X(c, 11) X(c, 12) X(c, 13) X(c, 14)
#if LAMINA_REGISTERS == 32
#define LAMINA_ROWS_SINGLE LAMINA_ROWS_14
#define LAMINA_ROWS_WIDE LAMINA_ROWS_14
#define LAMINA_ROWS_NARROW LAMINA_ROWS_9
#elif defined(__AVX2__)
#define LAMINA_ROWS_SINGLE LAMINA_ROWS_8
#define LAMINA_ROWS_WIDE LAMINA_ROWS_6
#define LAMINA_ROWS_NARROW LAMINA_ROWS_4
#else
#define LAMINA_ROWS_SINGLE LAMINA_ROWS_8
#define LAMINA_ROWS_WIDE LAMINA_ROWS_6
#define LAMINA_ROWS_NARROW LAMINA_ROWS_3
#endif
#define LAMINA_ALL_TILES(X) LAMINA_ROWS_SINGLE(X, 1) LAMINA_ROWS_WIDE(X, 2) LAMINA_ROWS_NARROW(X, 3)
