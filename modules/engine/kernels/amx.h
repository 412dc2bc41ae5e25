// Products of tiles with Intel's Advanced Matrix Extensions (AMX), of bfloat16 pairs or of words of four bytes. A tile
// is a register of 16 rows of 64 bytes. Inline assembly, because enabling the instructions for the compiler would let
// it use them in other forms.
#pragma once
#if defined(__AVX512BW__)
#include <cpuid.h>

#include "simd.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace amx {

/// Rows of a tile, bytes of a row, and the 32-bit numbers of a row: lanes of a sum.
inline constexpr long tile_rows = 16, row_bytes = 64, row_lanes = 16;

/// Whether the processor has AMX and the system lets this process use it, for which it asks. Kernels with AMX need that.
inline int there() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned saves_state = 1u << 27, bfloat = 1u << 22, tiles = 1u << 24, bytes = 1u << 25;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & saves_state)) return 0;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (d & (bfloat | tiles | bytes)) != (bfloat | tiles | bytes)) return 0;
  unsigned low, high;
  asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr unsigned tile_state = 3u << 17;
  if ((low & tile_state) != tile_state) return 0;
#if defined(__linux__)
  constexpr long arch_prctl = 158, request_permission = 0x1023, tile_data = 18;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "0"(arch_prctl), "D"(request_permission), "S"(tile_data)
               : "rcx", "r11", "memory");
  return result == 0;
#else
  return 0;
#endif
}

/// Sets the shapes of the tiles for its lifetime, which is that of a kernel: it takes as long as some twelve products.
class session {
 public:
  /// `words`: of four bytes, in a row of A, and rows of B, of a product.
  LAMINA_INLINE explicit session(long words = tile_rows) {
    struct alignas(64) {
      std::uint8_t palette = 1, start = 0, unused[14]{};
      std::uint16_t bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
      std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
    } shapes;
    shapes.bytes[6] = static_cast<std::uint16_t>(words * 4);
    shapes.rows[7] = static_cast<std::uint8_t>(words);
    asm volatile("ldtilecfg %0" : : "m"(shapes));
  }
  session(const session&) = delete;
  session& operator=(const session&) = delete;
  LAMINA_INLINE ~session() { asm volatile("tilerelease"); }
};

template <int Tile> LAMINA_INLINE void clear() { asm volatile("tilezero %%tmm%c0" : : "i"(Tile)); }
template <int Tile> LAMINA_INLINE void load(const void* from, long row) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" : : "r"(from), "r"(row), "i"(Tile) : "memory");
}
template <int Tile> LAMINA_INLINE void store(void* to, long row) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" : : "r"(to), "r"(row), "i"(Tile) : "memory");
}

/// Adds products of pairs of bfloat16 numbers to float32 sums. Denormals count as zero.
struct bfloat_pairs {
  template <int Sum, int A, int B> LAMINA_INLINE static void multiply() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
  }
};
/// Adds products of words of four bytes, those of A without and those of B with a sign, to int32 sums.
struct byte_words {
  template <int Sum, int A, int B> LAMINA_INLINE static void multiply() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" : : "i"(Sum), "i"(A), "i"(B));
  }
};

/// A matrix in memory, in bytes: rows of numbers of A, or of B rows of words for 16 columns; `next`: the stride of
/// bands of 16 rows of A, or of 16 columns of B.
struct operand {
  const char* at;
  long row, next;
};

/// Sums of `Bands` x 16 rows and `Columns` x 16 columns of C, in the tiles from 0 on; 6 and 7 hold operands.
template <class Product, int Bands, int Columns> struct sums {
  static_assert(Bands <= 2 && Columns <= 3);

  /// Begins at zero, or in each row at the numbers of `row`, [Columns * 16], if it is not null.
  LAMINA_INLINE explicit sums(const void* row = nullptr) {
    if (row)
      each([row](auto tile) __attribute__((always_inline)) {
        amx::load<tile>(static_cast<const char*>(row) + tile % 3 * row_bytes, 0);
      });
    else each([](auto tile) __attribute__((always_inline)) { amx::clear<tile>(); });
  }
  /// Adds a row of 64 bytes of A times 16 rows of B.
  LAMINA_INLINE void add(const operand& a, const operand& b) {
    amx::load<6>(a.at, a.row);
    columns<0>(b);
    if constexpr (Bands == 2) {
      amx::load<6>(a.at + a.next, a.row);
      columns_back<Columns - 1>(b);
    }
  }
  /// Adds fewer than 16 words of a row of A times as many rows of B.
  LAMINA_APART void add_rest(const operand& a, const operand& b, long words) {
    alignas(64) char rows[Bands * tile_rows][row_bytes], held[Columns][tile_rows][row_bytes];
    const auto inside = static_cast<__mmask16>((1u << words) - 1);
    LAMINA_NO_UNROLL for (long i = 0; i < Bands * tile_rows; ++i) _mm512_store_si512(
        rows[i], _mm512_maskz_loadu_epi32(inside, a.at + i / tile_rows * a.next + i % tile_rows * a.row));
    LAMINA_NO_UNROLL for (long j = 0; j < Columns; ++j) LAMINA_NO_UNROLL for (long i = 0; i < tile_rows; ++i)
        _mm512_store_si512(held[j][i],
                           i < words ? _mm512_loadu_si512(b.at + j * b.next + i * b.row) : _mm512_setzero_si512());
    add({rows[0], row_bytes, tile_rows * row_bytes}, {held[0][0], row_bytes, tile_rows * row_bytes});
  }
  /// Stores rows of Columns * 16 numbers with a stride in bytes.
  LAMINA_INLINE void store(void* to, long row = Columns * row_bytes) const {
    each([to, row](auto tile) __attribute__((always_inline)) {
      amx::store<tile>(static_cast<char*>(to) + tile / 3 * tile_rows * row + tile % 3 * row_bytes, row);
    });
  }

 private:
  /// Calls f with the index of each tile of sums.
  template <class F> LAMINA_INLINE static void each(F f) {
    [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
      (f(std::integral_constant<int, I / Columns * 3 + I % Columns>()), ...);
    }(std::make_integer_sequence<int, Bands * Columns>());
  }
  template <int J> LAMINA_INLINE void columns(const operand& b) {
    amx::load<7>(b.at + J * b.next, b.row);
    Product::template multiply<J, 6, 7>();
    if constexpr (J + 1 < Columns) columns<J + 1>(b);
  }
  /// The columns of the second band, from the last one on, which tile 7 still holds.
  template <int J> LAMINA_INLINE void columns_back(const operand& b) {
    if constexpr (J + 1 < Columns) amx::load<7>(b.at + J * b.next, b.row);
    Product::template multiply<3 + J, 6, 7>();
    if constexpr (J > 0) columns_back<J - 1>(b);
  }
};

/// Calls f with the number of bands of `rows`, as a constant.
template <class F> LAMINA_INLINE void with_bands(long rows, F f) {
  if (rows > tile_rows) f(std::integral_constant<int, 2>());
  else f(std::integral_constant<int, 1>());
}
/// Calls f with the number of bands of `rows` and of blocks of 16 columns, as constants.
template <class F> LAMINA_INLINE void with_tiles(long rows, long columns, F f) {
  with_bands(rows, [&](auto bands) __attribute__((always_inline)) {
    if (columns == 1) f(bands, std::integral_constant<int, 1>());
    else if (columns == 2) f(bands, std::integral_constant<int, 2>());
    else f(bands, std::integral_constant<int, 3>());
  });
}

}  // namespace amx
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
#endif
