// Matrix products of one instruction set: the tile instances under their link names, the packers, and the selection of
// both.  Only `prepare` references all instances; the driver calls them through its arguments, so that a program for
// known sizes links only the few that it names.
#include "gemm.h"

#include "gemm_driver.h"
#include "gemm_pack.h"
#include "gemm_row.h"
#include "gemm_tile.h"
#include "simd.h"

#define LAMINA_TILE_PARAMETERS                                                                                \
  long k, const void *a, long a_step, const void *b, long b_step, void *c, long c_row, const gemm_args *args, \
      long column, long row, int flags, int columns
#define LAMINA_PACK_PARAMETERS long k, long count, const void *from, long row, long column, void *to

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// Panels that a single row processes in parallel.
inline constexpr int row_panels = LAMINA_REGISTERS == 32 ? 2 : 4;
/// Elements of B above which a product of a single row uses `walk_rows`.
inline constexpr long walk_elements = 16 * 1024;

template <class T, int Rows, int Vectors, masking Masking, a_order Order>
LAMINA_INLINE void run_tile(LAMINA_TILE_PARAMETERS) {
  tile<unconverted<T>, Rows, Vectors, Masking, Order>(k, static_cast<const T*>(a), a_step, static_cast<const T*>(b),
                                                      b_step, columns,
                                                      {static_cast<T*>(c), c_row, args, column, row, flags});
}

}  // namespace LAMINA_KERNEL_SET

// ---- f32 tiles: every height and width up to the full tile, so that no lane computes unused results ----------------

#define LAMINA_TILE_NAME(height, wide, mask, order) LAMINA_KERNEL(gemm_f32_tile_##height##x##wide##_##mask##_##order)
#define LAMINA_TILE(height, wide, mask, order)                                                                         \
  extern "C" void LAMINA_TILE_NAME(height, wide, mask, order)(LAMINA_TILE_PARAMETERS) noexcept {                       \
    run_tile<float, height, wide, masking::mask, a_order::order>(k, a, a_step, b, b_step, c, c_row, args, column, row, \
                                                                 flags, columns);                                      \
  }
#define LAMINA_TILE_ADDRESS(height, wide, mask, order) &LAMINA_TILE_NAME(height, wide, mask, order),
#define LAMINA_VARIANTS(each, height, wide)                                                         \
  each(height, wide, whole, rows) each(height, wide, last, rows) each(height, wide, whole, columns) \
      each(height, wide, last, columns)
// Narrower tiles occur once in a row of tiles: one variant for each size.
#if LAMINA_REGISTERS == 32
#define LAMINA_WIDTHS(each, height) \
  each(height, 1, last, any) each(height, 2, last, any) LAMINA_VARIANTS(each, height, 3)
#else
#define LAMINA_WIDTHS(each, height) each(height, 1, last, any) LAMINA_VARIANTS(each, height, 2)
#endif
#define LAMINA_HEIGHTS_4(each) \
  LAMINA_WIDTHS(each, 1) LAMINA_WIDTHS(each, 2) LAMINA_WIDTHS(each, 3) LAMINA_WIDTHS(each, 4)
#define LAMINA_HEIGHTS_6(each) LAMINA_HEIGHTS_4(each) LAMINA_WIDTHS(each, 5) LAMINA_WIDTHS(each, 6)
#define LAMINA_HEIGHTS_8(each) LAMINA_HEIGHTS_6(each) LAMINA_WIDTHS(each, 7) LAMINA_WIDTHS(each, 8)
#if LAMINA_REGISTERS == 32
#define LAMINA_EACH_TILE(each) LAMINA_HEIGHTS_8(each)
#elif defined(__AVX2__)
#define LAMINA_EACH_TILE(each) LAMINA_HEIGHTS_6(each)
#else
#define LAMINA_EACH_TILE(each) LAMINA_HEIGHTS_4(each)
#endif

LAMINA_EACH_TILE(LAMINA_TILE)

extern "C" void LAMINA_KERNEL(gemm_f32_row_panels)(LAMINA_TILE_PARAMETERS) noexcept {
  panels_side_by_side<unconverted<float>, row_panels, tile_vectors, masking::whole>(
      k, static_cast<const float*>(a), a_step, static_cast<const float*>(b), columns,
      {static_cast<float*>(c), c_row, args, column, row, flags});
  static_cast<void>(b_step);
}
extern "C" void LAMINA_KERNEL(gemm_f32_row_panels_last)(LAMINA_TILE_PARAMETERS) noexcept {
  panels_one_by_one<unconverted<float>, tile_vectors>(k, static_cast<const float*>(a), a_step,
                                                      static_cast<const float*>(b), columns,
                                                      {static_cast<float*>(c), c_row, args, column, row, flags});
  static_cast<void>(b_step);
}
extern "C" void LAMINA_KERNEL(gemm_f32_row_walk)(LAMINA_TILE_PARAMETERS) noexcept {
  walk_rows<float>(k, static_cast<const float*>(a), a_step, static_cast<const float*>(b), b_step, columns,
                   {static_cast<float*>(c), c_row, args, column, row, flags});
}

// ---- f64 tiles: only three, because double precision is for checks and small fits ----------------------------------

extern "C" void LAMINA_KERNEL(gemm_f64_tile)(LAMINA_TILE_PARAMETERS) noexcept {
  run_tile<double, tile_rows, tile_vectors, masking::whole, a_order::any>(k, a, a_step, b, b_step, c, c_row, args,
                                                                          column, row, flags, columns);
}
extern "C" void LAMINA_KERNEL(gemm_f64_tile_last)(LAMINA_TILE_PARAMETERS) noexcept {
  run_tile<double, tile_rows, tile_vectors, masking::every, a_order::any>(k, a, a_step, b, b_step, c, c_row, args,
                                                                          column, row, flags, columns);
}
extern "C" void LAMINA_KERNEL(gemm_f64_tile_row)(LAMINA_TILE_PARAMETERS) noexcept {
  run_tile<double, 1, tile_vectors, masking::every, a_order::any>(k, a, a_step, b, b_step, c, c_row, args, column, row,
                                                                  flags, columns);
}

// ---- packers -------------------------------------------------------------------------------------------------------

#define LAMINA_B_PACKER(type, name, order)                                                               \
  extern "C" void LAMINA_KERNEL(gemm_##name##_pack_b_##order)(LAMINA_PACK_PARAMETERS) noexcept {         \
    static_cast<void>(row), static_cast<void>(column);                                                   \
    pack_b_##order<type, tile_vectors>(k, count, static_cast<const type*>(from), LAMINA_STRIDES_##order, \
                                       static_cast<type*>(to));                                          \
  }
#define LAMINA_STRIDES_rows row
#define LAMINA_STRIDES_columns column
#define LAMINA_STRIDES_any row, column
#define LAMINA_B_PACKERS(type, name) \
  LAMINA_B_PACKER(type, name, rows) LAMINA_B_PACKER(type, name, columns) LAMINA_B_PACKER(type, name, any)

LAMINA_B_PACKERS(float, f32)
LAMINA_B_PACKERS(double, f64)

extern "C" void LAMINA_KERNEL(gemm_f32_pack_a_rows)(LAMINA_PACK_PARAMETERS) noexcept {
  static_cast<void>(column);
  pack_a_rows<float, tile_rows>(k, count, static_cast<const float*>(from), row, static_cast<float*>(to));
}
extern "C" void LAMINA_KERNEL(gemm_f32_pack_a_columns)(LAMINA_PACK_PARAMETERS) noexcept {
  static_cast<void>(row);
  pack_a_columns<float, tile_rows>(k, count, static_cast<const float*>(from), column, static_cast<float*>(to));
}
extern "C" void LAMINA_KERNEL(gemm_f32_pack_a_any)(LAMINA_PACK_PARAMETERS) noexcept {
  pack_a_any<float>(k, count, static_cast<const float*>(from), row, column, static_cast<float*>(to));
}

// ---- whole products -------------------------------------------------------------------------------------------------

extern "C" void LAMINA_KERNEL(gemm_f32)(const void* args, void* scratch) noexcept {
  run_product<unconverted<float>>(*static_cast<const gemm_args*>(args), static_cast<float*>(scratch));
}
extern "C" void LAMINA_KERNEL(gemm_f64)(const void* args, void* scratch) noexcept {
  run_product<unconverted<double>>(*static_cast<const gemm_args*>(args), static_cast<double*>(scratch));
}
extern "C" void LAMINA_KERNEL(gemm_f32_prepacked)(const void* args, void*) noexcept {
  run_prepacked<unconverted<float>>(*static_cast<const gemm_args*>(args));
}
extern "C" void LAMINA_KERNEL(gemm_f32_one_tile)(const void* args, void*) noexcept {
  run_tile_alone<float>(*static_cast<const gemm_args*>(args));
}
extern "C" void LAMINA_KERNEL(gemm_f32_rows)(const void* args, void*) noexcept {
  run_rows(*static_cast<const gemm_args*>(args));
}
extern "C" void LAMINA_KERNEL(gemm_f32_row)(const void* args, void*) noexcept {
  run_row(*static_cast<const gemm_args*>(args));
}
// Rows of more than `row_vectors` registers or more than one K block, by the registers of the last block.
#if LAMINA_REGISTERS == 32
#define LAMINA_EACH_REST(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8) f(9)
#else
#define LAMINA_EACH_REST(f) f(0) f(1) f(2) f(3) f(4) f(5) f(6) f(7) f(8)
#endif
#define LAMINA_LONG_ROW(rest)                                                                 \
  extern "C" void LAMINA_KERNEL(gemm_f32_long_row_##rest)(const void* args, void*) noexcept { \
    run_long_row<rest>(*static_cast<const gemm_args*>(args));                                 \
  }
LAMINA_EACH_REST(LAMINA_LONG_ROW)
extern "C" void LAMINA_KERNEL(gemm_f32_column)(const void* args, void*) noexcept {
  run_column(*static_cast<const gemm_args*>(args));
}
extern "C" void LAMINA_KERNEL(gemm_f32_dot)(const void* args, void*) noexcept {
  run_dot(*static_cast<const gemm_args*>(args));
}

// Rows of up to `row_vectors` registers, specialized by number of registers, chains and mask.
#define LAMINA_ROW_NAME(wide, mask, chains) LAMINA_KERNEL(gemm_f32_row_##wide##_##mask##_##chains)
#define LAMINA_ROW(wide, mask, chains)                                                    \
  extern "C" void LAMINA_ROW_NAME(wide, mask, chains)(const void* args, void*) noexcept { \
    run_short_row<wide, masking::mask, chains>(*static_cast<const gemm_args*>(args));     \
  }
#define LAMINA_ROWS(wide, mask, chains) LAMINA_ROW(wide, mask, 1) LAMINA_ROW(wide, mask, chains)
#define LAMINA_EACH_ROW(free, fixed, mask)                                                                \
  free(1, mask, 4) free(2, mask, 4) free(3, mask, 2) free(4, mask, 2) fixed(5, mask, 1) fixed(6, mask, 1) \
      fixed(7, mask, 1) fixed(8, mask, 1) fixed(9, mask, 1) LAMINA_WIDE_ROWS(fixed, mask)
#if LAMINA_REGISTERS == 32
#define LAMINA_WIDE_ROWS(fixed, mask)
#else
#define LAMINA_WIDE_ROWS(fixed, mask) fixed(10, mask, 1) fixed(11, mask, 1) fixed(12, mask, 1)
#endif

LAMINA_EACH_ROW(LAMINA_ROWS, LAMINA_ROW, whole)
LAMINA_EACH_ROW(LAMINA_ROWS, LAMINA_ROW, last)

// ---- kernel selection ----------------------------------------------------------------------------------------------

inline namespace LAMINA_KERNEL_SET {

constexpr gemm_tile f32_tiles[] = {LAMINA_EACH_TILE(LAMINA_TILE_ADDRESS)};

#define LAMINA_ROW_ADDRESSES(wide, mask, chains) \
  {&LAMINA_ROW_NAME(wide, mask, 1), &LAMINA_ROW_NAME(wide, mask, chains)},
constexpr kernel short_rows[][row_vectors][2] = {  // [whole, last][registers][fixed, relaxed summation]
    {LAMINA_EACH_ROW(LAMINA_ROW_ADDRESSES, LAMINA_ROW_ADDRESSES, whole)},
    {LAMINA_EACH_ROW(LAMINA_ROW_ADDRESSES, LAMINA_ROW_ADDRESSES, last)}};

#define LAMINA_LONG_ROW_ADDRESS(rest) &LAMINA_KERNEL(gemm_f32_long_row_##rest),
constexpr kernel long_rows[row_block + 1] = {LAMINA_EACH_REST(LAMINA_LONG_ROW_ADDRESS)};

/// The kernel of a product that `is_row`.
LAMINA_INLINE kernel row_kernel(const gemm_args& g) {
  const long vectors = parts(g.n, width<float>);
  if (g.k > longest_k_block || (vectors > row_vectors && !g.relaxed_summation))
    return long_rows[parts(g.n % (row_block * width<float>), width<float>)];
  if (vectors == 0 || vectors > row_vectors) return &LAMINA_KERNEL(gemm_f32_row);
  return short_rows[g.n % width<float> != 0][vectors - 1][g.relaxed_summation != 0];
}

/// Tile of `rows` x `columns` for A contiguous along rows or columns.
LAMINA_INLINE gemm_tile f32_tile(long rows, long columns, bool a_in_columns) {
  const long vectors = parts(columns, width<float>), masked = columns % width<float> != 0 ? 1 : 0;
  const long first = (rows - 1) * (tile_vectors + 3) + vectors - 1;
  return f32_tiles[vectors < tile_vectors ? first : first + (a_in_columns ? 2 : 0) + masked];
}

LAMINA_INLINE void choose_f32_tiles(gemm_args& g) {
  const bool a_in_columns = g.a_in_columns != 0;
  const long last = g.n % g.tile_columns == 0 ? g.tile_columns : g.n % g.tile_columns;
  const long whole = g.n < g.tile_columns ? last : g.tile_columns;
  g.tile[0][0] = f32_tile(g.tall_rows, whole, a_in_columns);
  g.tile[0][1] = f32_tile(g.tall_rows, last, a_in_columns);
  g.tile[1][0] = f32_tile(g.short_rows, whole, a_in_columns);
  g.tile[1][1] = f32_tile(g.short_rows, last, a_in_columns);
}

kernel prepare_f32(gemm_args* args) noexcept {
  gemm_args& g = *args;
  const bool a_in_rows = g.m != 1 && (g.a_column == 1 || g.k == 1), a_in_columns = g.m == 1 || g.a_row == 1;
  const bool whole_lanes = g.n % width<float> == 0;
  g.a_in_columns = 0;
  g.row = nullptr;
  g.a_step = a_in_rows ? g.a_row : g.a_column;
  g.pack_b = packs_b<float>(g);
  const bool walks = g.m == 1 && !g.prepacked && !g.pack_b && (g.k * g.n > walk_elements || (!masks_b && !whole_lanes));
  if (!masks_b && !whole_lanes && !g.prepacked && !walks) g.pack_b = 1;
  g.pack_a = g.m > 1 && ((!a_in_rows && !a_in_columns) || packing_a_pays<float>(g));
  g.packer_a = !g.pack_a      ? nullptr
               : a_in_rows    ? &LAMINA_KERNEL(gemm_f32_pack_a_rows)
               : a_in_columns ? &LAMINA_KERNEL(gemm_f32_pack_a_columns)
                              : &LAMINA_KERNEL(gemm_f32_pack_a_any);
  g.packer_b = !g.pack_b      ? nullptr
               : direct_b(g)  ? &LAMINA_KERNEL(gemm_f32_pack_b_rows)
               : g.b_row == 1 ? &LAMINA_KERNEL(gemm_f32_pack_b_columns)
                              : &LAMINA_KERNEL(gemm_f32_pack_b_any);
  cut_rows_evenly(g);
  g.tile_columns = panel_columns<float>;
  if (walks) {
    g.tile_columns = walk_columns<float>;
    for (auto& tiles : g.tile) tiles[0] = tiles[1] = &LAMINA_KERNEL(gemm_f32_row_walk);
  } else if (g.m == 1 && (g.prepacked || g.pack_b)) {
    g.tile_columns = row_panels * panel_columns<float>;
    for (auto& tiles : g.tile) {
      tiles[0] = &LAMINA_KERNEL(gemm_f32_row_panels);
      tiles[1] = &LAMINA_KERNEL(gemm_f32_row_panels_last);
    }
  } else if (g.n > 0) {
    g.a_in_columns = g.pack_a || !a_in_rows;
    choose_f32_tiles(g);
  }
  cut_blocks<unconverted<float>>(g);
  return is_row(g)                     ? row_kernel(g)
         : is_tile(g) && !is_column(g) ? &LAMINA_KERNEL(gemm_f32_one_tile)
         : is_prepacked(g)             ? &LAMINA_KERNEL(gemm_f32_prepacked)
         : !is_column(g)               ? &LAMINA_KERNEL(gemm_f32)
         : g.m == 1                    ? &LAMINA_KERNEL(gemm_f32_dot)
                                       : &LAMINA_KERNEL(gemm_f32_column);
}

kernel prepare_f32_kernel(gemm_args* args, bool compact) noexcept {
  gemm_args& g = *args;
  kernel best = prepare_f32(args);
  const bool by_rows = compact && g.m > 1 && is_rows(g);
  if (by_rows) {
    g.relaxed_summation = 0;
    g.row = row_kernel(g);
    g.packer_a = nullptr;
    best = &LAMINA_KERNEL(gemm_f32_rows);
  }
  if (by_rows || is_row(g) || is_column(g))
    for (auto& tiles : g.tile) tiles[0] = tiles[1] = nullptr;
  return best;
}

kernel prepare_f64(gemm_args* args) noexcept {
  gemm_args& g = *args;
  g.a_in_columns = 0;
  g.row = nullptr;
  g.a_step = g.a_row;
  g.pack_a = 0;
  g.pack_b = packs_b<double>(g) || (!masks_b && !g.prepacked && g.n % panel_columns<double> != 0);
  g.packer_a = nullptr;
  g.packer_b = !g.pack_b      ? nullptr
               : direct_b(g)  ? &LAMINA_KERNEL(gemm_f64_pack_b_rows)
               : g.b_row == 1 ? &LAMINA_KERNEL(gemm_f64_pack_b_columns)
                              : &LAMINA_KERNEL(gemm_f64_pack_b_any);
  g.tall_rows = tile_rows;
  g.tall_count = g.m / tile_rows;
  g.short_rows = 1;
  g.tile_columns = panel_columns<double>;
  g.tile[0][0] = &LAMINA_KERNEL(gemm_f64_tile);
  g.tile[0][1] = &LAMINA_KERNEL(gemm_f64_tile_last);
  g.tile[1][0] = g.tile[1][1] = &LAMINA_KERNEL(gemm_f64_tile_row);
  cut_blocks<unconverted<double>>(g);
  return &LAMINA_KERNEL(gemm_f64);
}

kernel prepare_f64_kernel(gemm_args* args, bool) noexcept { return prepare_f64(args); }

template <class T> std::size_t scratch_bytes(const gemm_args* args) noexcept {
  return scratch_of<unconverted<T>>(*args);
}
template <class T> std::size_t packed_bytes(long k, long n) noexcept { return packed_size<unconverted<T>>(k, n); }

}  // namespace LAMINA_KERNEL_SET

// ---- the table -----------------------------------------------------------------------------------------------------

#define LAMINA_PREPACK(name)                                                               \
  extern "C" void LAMINA_KERNEL(gemm_##name##_prepack)(const void* args, void*) noexcept { \
    const auto& g = *static_cast<const gemm_prepack_args*>(args);                          \
    const auto pack = g.b_column == 1 ? &LAMINA_KERNEL(gemm_##name##_pack_b_rows)          \
                      : g.b_row == 1  ? &LAMINA_KERNEL(gemm_##name##_pack_b_columns)       \
                                      : &LAMINA_KERNEL(gemm_##name##_pack_b_any);           \
    pack(g.k, g.n, g.b, g.b_row, g.b_column, g.packed);                                    \
  }

LAMINA_PREPACK(f32)
LAMINA_PREPACK(f64)

extern "C" {
extern const gemm_functions LAMINA_KERNEL(gemm_f32_functions), LAMINA_KERNEL(gemm_f64_functions);

constinit const gemm_functions LAMINA_KERNEL(gemm_f32_functions) = {prepare_f32,
                                                                    prepare_f32_kernel,
                                                                    scratch_bytes<float>,
                                                                    LAMINA_KERNEL(gemm_f32),
                                                                    packed_bytes<float>,
                                                                    LAMINA_KERNEL(gemm_f32_prepack),
                                                                    tile_rows,
                                                                    panel_columns<float>};
constinit const gemm_functions LAMINA_KERNEL(gemm_f64_functions) = {prepare_f64,
                                                                    prepare_f64_kernel,
                                                                    scratch_bytes<double>,
                                                                    LAMINA_KERNEL(gemm_f64),
                                                                    packed_bytes<double>,
                                                                    LAMINA_KERNEL(gemm_f64_prepack),
                                                                    tile_rows,
                                                                    panel_columns<double>};
}

}  // namespace lamina::kernels
