// bfloat16 products of one instruction set, in the forms that it supports.
#include "bfloat.h"

#include "bfloat_amx.h"
#include "casts.h"
#include "conv_border.h"
#include "conv_plain.h"
#include "conv_prepare.h"
#include "conv_reorder.h"
#include "gemm_driver.h"
#include "gemm_pack.h"
#include "gemm_tile.h"
#include "rounded_chain.h"
#include "simd.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace bfloat_product {

/// Panels that a single row processes in parallel.
inline constexpr int row_panels = LAMINA_REGISTERS == 32 ? 2 : 4;

/// The tiles of a form: `last` [rows - 2][registers - 1], and `whole` of full width; a single row has separate kernels.
struct tiles {
  gemm_tile last[7][3], whole[7], row, row_last;
  gemm_pack packer;
};

LAMINA_INLINE void prepare(gemm_args& g, const tiles& all) {
  round_while_packing(g, all.packer);
  cut_rows_evenly(g);
  g.tile_columns = (g.m == 1 ? row_panels : 1) * panel_columns<float>;
  const auto tile = [&](long rows, long columns) {
    const long vectors = parts(columns, width<float>);
    return columns == panel_columns<float> ? all.whole[rows - 2] : all.last[rows - 2][vectors - 1];
  };
  const long last = g.n % g.tile_columns == 0 ? g.tile_columns : g.n % g.tile_columns;
  const long whole = g.n < g.tile_columns ? last : g.tile_columns;
  const long rows[2] = {g.tall_rows, g.short_rows};
  for (int i = 0; i < 2; ++i) {
    g.tile[i][0] = g.tile[i][1] = nullptr;
    if (g.m == 1) g.tile[i][0] = all.row, g.tile[i][1] = all.row_last;
    else if (g.m > 0 && g.n > 0) g.tile[i][0] = tile(rows[i], whole), g.tile[i][1] = tile(rows[i], last);
  }
}

template <class Form, int Rows, int Vectors, masking Masking>
LAMINA_INLINE void run_tile(long k, const void* a, long a_step, const void* b, long b_step, void* c, long c_row,
                            const gemm_args* args, long column, long row, int flags, int columns) {
  tile<Form, Rows, Vectors, Masking, a_order::rows>(k, static_cast<const typename Form::x*>(a), a_step,
                                                    static_cast<const float*>(b), b_step, columns,
                                                    {static_cast<float*>(c), c_row, args, column, row, flags});
}

int takes_window(const window* w, int planar_in) noexcept { return !planar_in && blocked::takes_window(*w); }
long pieces(const window* w, int planar_in) noexcept { return blocked::pieces<bfloat_floats>(*w, planar_in != 0); }
int by_winograd(const window* w, int planar_in) noexcept { return blocked::by_winograd(*w, planar_in != 0); }

/// Requires stride 1: neighboring results of a row then read neighboring inputs for a tap.
int takes_weight_grad(const window* w) noexcept { return w->stride_w == 1; }
LAMINA_INLINE void prepare_weight_grad(conv_plain_args& a, const outer_tiles& tiles,
                                       void (*repair)(const void*) noexcept) {
  const plain::outer_sizes s(a.w);
  for (auto& d : a.decision) d = 0;
  for (auto& t : a.tile) t = nullptr;
  a.decision[plain::method] = plain::by_outer_products;
  a.tile[0] = tiles.at[s.taps / 2][s.tile_blocks - 1];
  a.repair = plain::sums_padding(a, plain::weight_grad) ? repair : nullptr;
  a.product_run = nullptr;
}

}  // namespace bfloat_product
}  // namespace LAMINA_KERNEL_SET

#define LAMINA_TILE_PARAMETERS                                                                                \
  long k, const void *a, long a_step, const void *b, long b_step, void *c, long c_row, const gemm_args *args, \
      long column, long row, int flags, int columns
#define LAMINA_TILE_ARGUMENTS k, a, a_step, b, b_step, c, c_row, args, column, row, flags, columns

// Tiles of every height from two rows on, and of every width.
#define LAMINA_TILE_NAME(form, height, wide, mask) LAMINA_KERNEL(gemm_bf16_tile_##height##x##wide##_##mask##form)
#define LAMINA_TILE(form, type, height, wide, mask)                                     \
  void LAMINA_TILE_NAME(form, height, wide, mask)(LAMINA_TILE_PARAMETERS) noexcept {    \
    bfloat_product::run_tile<type, height, wide, masking::mask>(LAMINA_TILE_ARGUMENTS); \
  }
#if LAMINA_REGISTERS == 32
#define LAMINA_WIDTHS(each, form, type, height)                                                         \
  each(form, type, height, 1, last) each(form, type, height, 2, last) each(form, type, height, 3, last) \
      each(form, type, height, 3, whole)
#define LAMINA_ADDRESSES(form, height)                                               \
  {LAMINA_TILE_NAME(form, height, 1, last), LAMINA_TILE_NAME(form, height, 2, last), \
   LAMINA_TILE_NAME(form, height, 3, last)},
#define LAMINA_WHOLE(form, height) LAMINA_TILE_NAME(form, height, 3, whole),
#else
#define LAMINA_WIDTHS(each, form, type, height) \
  each(form, type, height, 1, last) each(form, type, height, 2, last) each(form, type, height, 2, whole)
#define LAMINA_ADDRESSES(form, height) \
  {LAMINA_TILE_NAME(form, height, 1, last), LAMINA_TILE_NAME(form, height, 2, last), nullptr},
#define LAMINA_WHOLE(form, height) LAMINA_TILE_NAME(form, height, 2, whole),
#endif
#define LAMINA_HEIGHTS_4(f, ...) f(__VA_ARGS__, 2) f(__VA_ARGS__, 3) f(__VA_ARGS__, 4)
#if LAMINA_REGISTERS == 32
#define LAMINA_HEIGHTS(f, ...) \
  LAMINA_HEIGHTS_4(f, __VA_ARGS__) f(__VA_ARGS__, 5) f(__VA_ARGS__, 6) f(__VA_ARGS__, 7) f(__VA_ARGS__, 8)
#elif defined(__AVX2__)
#define LAMINA_HEIGHTS(f, ...) LAMINA_HEIGHTS_4(f, __VA_ARGS__) f(__VA_ARGS__, 5) f(__VA_ARGS__, 6)
#else
#define LAMINA_HEIGHTS(f, ...) LAMINA_HEIGHTS_4(f, __VA_ARGS__)
#endif

extern "C" {

void LAMINA_KERNEL(gemm_bf16_prepack)(const void* args, void*) noexcept {
  const auto& g = *static_cast<const gemm_prepack_args*>(args);
  pack_b_pairs<tile_vectors>(g.k, g.n, static_cast<const float*>(g.b), g.b_row, g.b_column,
                             static_cast<float*>(g.packed));
}

void LAMINA_KERNEL(round_to_half)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const rounded_floats_args*>(args);
  for (long i = 0; i < a.count; ++i) a.out[i] = to_float(to_half(a.in[i]));
}

void LAMINA_KERNEL(round_to_bfloat)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const rounded_floats_args*>(args);
  long i = 0;
  LAMINA_NO_UNROLL for (; i + width<float> <= a.count; i += width<float>) bfloat_floats::put(a.out + i, load(a.in + i));
  const auto left = first<float>(static_cast<int>(a.count - i));
  store(a.out + i, from_bits(bfloat_bits(load(a.in + i, left))), left);
}

void LAMINA_KERNEL(conv_bf16_pack)(const void* args, void*) noexcept {
  blocked::pack_sets<bfloat_floats>(*static_cast<const conv_pack_args*>(args));
}

#define LAMINA_CONV_TILE_NAME(form, c, r) LAMINA_KERNEL(conv_bf16_tile_##c##_##r##form)
#define LAMINA_CONV_TILE(form, type, c, r)                                 \
  void LAMINA_CONV_TILE_NAME(form, c, r)(const void* q) noexcept {         \
    blocked::tile<type, c, r>(*static_cast<const blocked::tile_args*>(q)); \
  }
#define LAMINA_CONV_SWEEP(form, type, name)                                                                 \
  void LAMINA_KERNEL(conv_bf16_##name##form)(const void* args, void* scratch) noexcept {                    \
    blocked::run_images<type, blocked::sweep::name>(*static_cast<const conv_blocked_args*>(args), scratch); \
  }
#define LAMINA_CONV_FORM(form, type)                                                                          \
  void LAMINA_KERNEL(conv_bf16_repair##form)(const void* args) noexcept {                                     \
    const auto& a = *static_cast<const conv_blocked_args*>(args);                                             \
    border::repair_blocked<type>(a, static_cast<long>(blocked::packed_bytes<type>(&a.w, 0) / sizeof(float))); \
  }                                                                                                           \
  LAMINA_CONV_SWEEP(form, type, flat)                                                                         \
  LAMINA_CONV_SWEEP(form, type, rows)                                                                         \
  LAMINA_CONV_SWEEP(form, type, copied_rows)                                                                  \
  void LAMINA_KERNEL(conv_bf16_winograd##form)(const void* args, void* scratch) noexcept {                    \
    blocked::run_winograd<type>(*static_cast<const conv_blocked_args*>(args), scratch);                       \
  }                                                                                                           \
  kernel LAMINA_KERNEL(conv_bf16_prepare##form)(conv_blocked_args * args) noexcept {                          \
    static constexpr blocked_tiles tiles = [] {                                                               \
      blocked_tiles all;                                                                                      \
      LAMINA_CONV_ENTER##form return all;                                                                     \
    }();                                                                                                      \
    static constexpr blocked::blocked_kernels kernels{&tiles,                                                 \
                                                      LAMINA_KERNEL(conv_bf16_repair##form),                  \
                                                      LAMINA_KERNEL(conv_bf16_flat##form),                    \
                                                      LAMINA_KERNEL(conv_bf16_rows##form),                    \
                                                      LAMINA_KERNEL(conv_bf16_copied_rows##form),             \
                                                      LAMINA_KERNEL(conv_bf16_winograd##form)};               \
    return blocked::prepare<type>(args, kernels);                                                             \
  }                                                                                                           \
  std::size_t LAMINA_KERNEL(conv_bf16_scratch##form)(const conv_blocked_args* args) noexcept {                \
    return blocked::scratch_bytes<type>(args);                                                                \
  }                                                                                                           \
  std::size_t LAMINA_KERNEL(conv_bf16_packed##form)(const window* w, int planar_in) noexcept {                \
    return blocked::packed_bytes<type>(w, planar_in);                                                         \
  }                                                                                                           \
  std::size_t LAMINA_KERNEL(conv_bf16_filter##form)(const window* w, int planar_in) noexcept {                \
    return blocked::filter_bytes<type>(w, planar_in);                                                         \
  }
// A list macro expands only once, so that the macro applied to its entries cannot be a parameter.
#define LAMINA_CONV_ENTER_(c, r) all.at[c - 1][r - 1] = &LAMINA_CONV_TILE_NAME(, c, r);
#define LAMINA_CONV_ENTER_dots_(c, r) all.at[c - 1][r - 1] = &LAMINA_CONV_TILE_NAME(_dots, c, r);
#define LAMINA_CONV_ENTER LAMINA_ALL_TILES(LAMINA_CONV_ENTER_)
#define LAMINA_CONV_ENTER_dots LAMINA_ALL_TILES(LAMINA_CONV_ENTER_dots_)
#define LAMINA_CONV_TILE_floats(c, r) LAMINA_CONV_TILE(, bfloat_floats, c, r)
#define LAMINA_CONV_TILE_dots(c, r) LAMINA_CONV_TILE(_dots, bfloat_dots, c, r)

LAMINA_ALL_TILES(LAMINA_CONV_TILE_floats)
LAMINA_CONV_FORM(, bfloat_floats)
#if defined(__AVX512BW__)
LAMINA_ALL_TILES(LAMINA_CONV_TILE_dots)
LAMINA_CONV_FORM(_dots, bfloat_dots)

long LAMINA_KERNEL(conv_bf16_pieces_amx)(const window* w, int planar_in) noexcept {
  return blocked::pieces_or_channels(*w, blocked::amx_packed_bytes(*w, planar_in != 0));
}
int LAMINA_KERNEL(conv_bf16_by_winograd_amx)(const window*, int) noexcept { return 0; }
int LAMINA_KERNEL(conv_bf16_takes_window_amx)(const window* w, int planar_in) noexcept {
  return blocked::amx_takes_window(*w, planar_in != 0);
}
void LAMINA_KERNEL(conv_bf16_amx)(const void* args, void* scratch) noexcept {
  blocked::run_amx(*static_cast<const conv_blocked_args*>(args), scratch);
}
void LAMINA_KERNEL(conv_bf16_repair_amx)(const void* args) noexcept {
  blocked::repair_amx(*static_cast<const conv_blocked_args*>(args));
}
kernel LAMINA_KERNEL(conv_bf16_prepare_amx)(conv_blocked_args* args) noexcept {
  blocked::prepare_amx(args, LAMINA_KERNEL(conv_bf16_repair_amx));
  return LAMINA_KERNEL(conv_bf16_amx);
}
std::size_t LAMINA_KERNEL(conv_bf16_scratch_amx)(const conv_blocked_args* args) noexcept {
  return blocked::amx_scratch_bytes(*args);
}
std::size_t LAMINA_KERNEL(conv_bf16_packed_amx)(const window* w, int planar_in) noexcept {
  return blocked::amx_packed_bytes(*w, planar_in != 0);
}
std::size_t LAMINA_KERNEL(conv_bf16_filter_amx)(const window* w, int planar_in) noexcept {
  return static_cast<std::size_t>(blocked::amx_layout(*w, planar_in != 0).filter_bytes);
}
void LAMINA_KERNEL(conv_bf16_pack_amx)(const void* args, void*) noexcept {
  blocked::pack_amx_sets(*static_cast<const conv_pack_args*>(args));
}
void LAMINA_KERNEL(conv_bf16_join_amx)(const void* args, void*) noexcept {
  blocked::join_images(*static_cast<const conv_join_args*>(args));
}
int LAMINA_KERNEL(conv_bf16_in_place_amx)(const conv_blocked_args* args) noexcept {
  return blocked::amx_reads_in_place(*args);
}
void LAMINA_KERNEL(chain_rounded_amx)(const void* args, void* scratch) noexcept {
  rounded_chains::run(*static_cast<const chain_rounded_args*>(args), static_cast<char*>(scratch));
}
long LAMINA_KERNEL(conv_bf16_maps_amx)(const window* w, int planar_in) noexcept {
  return blocked::amx_layout(*w, planar_in != 0).maps;
}
std::size_t LAMINA_KERNEL(conv_bf16_joined_amx)(const window* w, int planar_in) noexcept {
  return static_cast<std::size_t>(blocked::amx_joined_bytes(*w, planar_in != 0));
}
#endif

void LAMINA_KERNEL(conv_repair_weight_grad_f32)(const void* args) noexcept;
#define LAMINA_OUTER_TILE_NAME(form, b, r, j) LAMINA_KERNEL(conv_bf16_outer_##b##_##r##_##j##form)
#define LAMINA_OUTER_TILE(form, type, b, r, j)                                  \
  void LAMINA_OUTER_TILE_NAME(form, b, r, j)(const void* q) noexcept {          \
    outer::tile<type, b, r, j>(*static_cast<const outer::tile_args<type>*>(q)); \
  }
#define LAMINA_WEIGHT_GRAD(form, type)                                                                   \
  void LAMINA_KERNEL(conv_bf16_weight_grad##form)(const void* args, void* scratch) noexcept {            \
    const auto& a = *static_cast<const conv_plain_args*>(args);                                          \
    plain::run_outer<type>(a, scratch);                                                                  \
    if (a.repair) a.repair(&a);                                                                          \
  }                                                                                                      \
  kernel LAMINA_KERNEL(conv_bf16_weight_grad_prepare##form)(conv_plain_args * args) noexcept {           \
    static constexpr outer_tiles tiles = [] {                                                            \
      outer_tiles all;                                                                                   \
      LAMINA_OUTER_ENTER##form return all;                                                               \
    }();                                                                                                 \
    bfloat_product::prepare_weight_grad(*args, tiles, LAMINA_KERNEL(conv_repair_weight_grad_f32));       \
    return LAMINA_KERNEL(conv_bf16_weight_grad##form);                                                   \
  }                                                                                                      \
  std::size_t LAMINA_KERNEL(conv_bf16_weight_grad_scratch##form)(const conv_plain_args* args) noexcept { \
    return static_cast<std::size_t>(plain::outer_scratch_bytes<type>(*args));                            \
  }
#define LAMINA_OUTER_ENTER_(b, r, j) all.at[j / 2][b - 1] = &LAMINA_OUTER_TILE_NAME(, b, r, j);
#define LAMINA_OUTER_ENTER_dots_(b, r, j) all.at[j / 2][b - 1] = &LAMINA_OUTER_TILE_NAME(_dots, b, r, j);
#define LAMINA_OUTER_ENTER LAMINA_OUTERS(LAMINA_OUTER_ENTER_)
#define LAMINA_OUTER_ENTER_dots LAMINA_OUTERS(LAMINA_OUTER_ENTER_dots_)
#define LAMINA_OUTER_TILE_floats(b, r, j) LAMINA_OUTER_TILE(, bfloat_floats, b, r, j)
#define LAMINA_OUTER_TILE_dots(b, r, j) LAMINA_OUTER_TILE(_dots, bfloat_dots, b, r, j)

LAMINA_OUTERS(LAMINA_OUTER_TILE_floats)
LAMINA_WEIGHT_GRAD(, bfloat_floats)
#if defined(__AVX512BW__)
LAMINA_OUTERS(LAMINA_OUTER_TILE_dots)
LAMINA_WEIGHT_GRAD(_dots, bfloat_dots)
#endif

// Products of a form. `prepare`: sets the decisions of the arguments but blocks; `full_rows`: of a full tile; `session`: what is
// declared while they run.
#define LAMINA_PRODUCTS(form, type, round, session, prepare, full_rows)                                          \
  void LAMINA_KERNEL(gemm_bf16_round_a##form)(long k, long count, const void* from, long row, long column,       \
                                              void* to) noexcept {                                               \
    round(k, count, static_cast<const float*>(from), row, column, static_cast<type::x*>(to));                    \
  }                                                                                                              \
  void LAMINA_KERNEL(bf16_round##form)(const void* args, void*) noexcept {                                       \
    const auto& a = *static_cast<const bfloat_round_args*>(args);                                                \
    round(a.k, a.rows, a.in, a.row, a.column, static_cast<type::x*>(a.out));                                     \
  }                                                                                                              \
  void LAMINA_KERNEL(gemm_bf16##form)(const void* args, void* scratch) noexcept {                                \
    session;                                                                                                     \
    run_product<type>(*static_cast<const gemm_args*>(args), static_cast<float*>(scratch));                       \
  }                                                                                                              \
  kernel LAMINA_KERNEL(gemm_bf16_prepare##form)(gemm_args * args) noexcept {                                     \
    prepare(form);                                                                                               \
    cut_blocks<type>(*args);                                                                                     \
    return LAMINA_KERNEL(gemm_bf16##form);                                                                       \
  }                                                                                                              \
  kernel LAMINA_KERNEL(gemm_bf16_prepare_kernel##form)(gemm_args * args, bool) noexcept {                        \
    return LAMINA_KERNEL(gemm_bf16_prepare##form)(args);                                                         \
  }                                                                                                              \
  std::size_t LAMINA_KERNEL(gemm_bf16_scratch##form)(const gemm_args* args) noexcept {                           \
    return scratch_of<type>(*args);                                                                              \
  }                                                                                                              \
  std::size_t LAMINA_KERNEL(gemm_bf16_packed##form)(long k, long n) noexcept { return packed_size<type>(k, n); } \
  extern const gemm_functions LAMINA_KERNEL(gemm_bf16_functions##form);                                          \
  constinit const gemm_functions LAMINA_KERNEL(gemm_bf16_functions##form) = {                                    \
      LAMINA_KERNEL(gemm_bf16_prepare##form),                                                                    \
      LAMINA_KERNEL(gemm_bf16_prepare_kernel##form),                                                             \
      LAMINA_KERNEL(gemm_bf16_scratch##form),                                                                    \
      LAMINA_KERNEL(gemm_bf16##form),                                                                            \
      LAMINA_KERNEL(gemm_bf16_packed##form),                                                                     \
      LAMINA_KERNEL(gemm_bf16_prepack),                                                                          \
      full_rows,                                                                                                 \
      panel_columns<float>};

#define LAMINA_PREPARE_TILES(form)                                                     \
  static constexpr bfloat_product::tiles all{{LAMINA_HEIGHTS(LAMINA_ADDRESSES, form)}, \
                                             {LAMINA_HEIGHTS(LAMINA_WHOLE, form)},     \
                                             LAMINA_KERNEL(gemm_bf16_row##form),       \
                                             LAMINA_KERNEL(gemm_bf16_row_last##form),  \
                                             LAMINA_KERNEL(gemm_bf16_round_a##form)};  \
  bfloat_product::prepare(*args, all)
#define LAMINA_BFLOAT_FORM(form, type)                                                                             \
  LAMINA_HEIGHTS(LAMINA_WIDTHS, LAMINA_TILE, form, type)                                                           \
  void LAMINA_KERNEL(gemm_bf16_row##form)(LAMINA_TILE_PARAMETERS) noexcept {                                       \
    panels_side_by_side<type, bfloat_product::row_panels, tile_vectors, masking::whole>(                           \
        k, static_cast<const type::x*>(a), a_step, static_cast<const float*>(b), columns,                          \
        {static_cast<float*>(c), c_row, args, column, row, flags});                                                \
    static_cast<void>(b_step);                                                                                     \
  }                                                                                                                \
  void LAMINA_KERNEL(gemm_bf16_row_last##form)(LAMINA_TILE_PARAMETERS) noexcept {                                  \
    panels_one_by_one<type, tile_vectors>(k, static_cast<const type::x*>(a), a_step, static_cast<const float*>(b), \
                                          columns, {static_cast<float*>(c), c_row, args, column, row, flags});     \
    static_cast<void>(b_step);                                                                                     \
  }                                                                                                                \
  LAMINA_PRODUCTS(form, type, round_a<type>, , LAMINA_PREPARE_TILES, tile_rows)

LAMINA_BFLOAT_FORM(, bfloat_floats)
#if defined(__AVX512BW__)
LAMINA_BFLOAT_FORM(_dots, bfloat_dots)

void LAMINA_KERNEL(gemm_bf16_tall_amx)(LAMINA_TILE_PARAMETERS) noexcept {
  bfloat_product::run_amx_tile<true>(k, a, a_step, b, c, c_row, args, column, row, flags, columns);
  static_cast<void>(b_step);
}
void LAMINA_KERNEL(gemm_bf16_low_amx)(LAMINA_TILE_PARAMETERS) noexcept {
  bfloat_product::run_amx_tile<false>(k, a, a_step, b, c, c_row, args, column, row, flags, columns);
  static_cast<void>(b_step);
}
#define LAMINA_PREPARE_AMX(form)                                                          \
  static constexpr bfloat_product::amx_tiles all{LAMINA_KERNEL(gemm_bf16_tall##form),     \
                                                 LAMINA_KERNEL(gemm_bf16_low##form),      \
                                                 LAMINA_KERNEL(gemm_bf16_round_a##form)}; \
  bfloat_product::prepare_amx(*args, all)
LAMINA_PRODUCTS(_amx, bfloat_amx, round_groups, const amx::session tiles, LAMINA_PREPARE_AMX, bfloat_product::amx_rows)

int LAMINA_KERNEL(bfloat_forms)() noexcept { return 1 + bfloat_dots::there() + bfloat_amx::there(); }
int LAMINA_KERNEL(bfloat_form_without_amx)() noexcept { return bfloat_dots::there() && bfloat_dots::pays(); }
int LAMINA_KERNEL(bfloat_form)() noexcept {
  return bfloat_amx::there() ? bfloat_form_of_amx : LAMINA_KERNEL(bfloat_form_without_amx)();
}
#else
int LAMINA_KERNEL(bfloat_forms)() noexcept { return 1; }
int LAMINA_KERNEL(bfloat_form)() noexcept { return 0; }
#endif

#define LAMINA_BFLOAT_CONVOLUTIONS(form)   \
  {bfloat_product::pieces,                 \
   bfloat_product::by_winograd,            \
   bfloat_product::takes_window,           \
   LAMINA_KERNEL(conv_bf16_prepare##form), \
   LAMINA_KERNEL(conv_bf16_scratch##form), \
   LAMINA_KERNEL(conv_bf16_packed##form),  \
   LAMINA_KERNEL(conv_bf16_filter##form),  \
   LAMINA_KERNEL(conv_bf16_pack)}
#define LAMINA_BFLOAT_GRADIENT(form)                                                      \
  {bfloat_product::takes_weight_grad, LAMINA_KERNEL(conv_bf16_weight_grad_prepare##form), \
   LAMINA_KERNEL(conv_bf16_weight_grad_scratch##form)}
#define LAMINA_BFLOAT_PRODUCTS(form, type)    \
  {&LAMINA_KERNEL(gemm_bf16_functions##form), \
   LAMINA_BFLOAT_CONVOLUTIONS(form),          \
   LAMINA_BFLOAT_GRADIENT(form),              \
   LAMINA_KERNEL(bf16_round##form),           \
   sizeof(type::x),                           \
   1,                                         \
   2}

extern constinit const bfloat_functions LAMINA_KERNEL(bfloat) = {
#if defined(__AVX512BW__)
    {LAMINA_BFLOAT_PRODUCTS(, bfloat_floats),
     LAMINA_BFLOAT_PRODUCTS(_dots, bfloat_dots),
     {&LAMINA_KERNEL(gemm_bf16_functions_amx),
      {LAMINA_KERNEL(conv_bf16_pieces_amx), LAMINA_KERNEL(conv_bf16_by_winograd_amx),
       LAMINA_KERNEL(conv_bf16_takes_window_amx), LAMINA_KERNEL(conv_bf16_prepare_amx),
       LAMINA_KERNEL(conv_bf16_scratch_amx), LAMINA_KERNEL(conv_bf16_packed_amx), LAMINA_KERNEL(conv_bf16_filter_amx),
       LAMINA_KERNEL(conv_bf16_pack_amx), LAMINA_KERNEL(conv_bf16_join_amx), LAMINA_KERNEL(conv_bf16_in_place_amx),
       LAMINA_KERNEL(conv_bf16_maps_amx), LAMINA_KERNEL(conv_bf16_joined_amx), true},
      LAMINA_BFLOAT_GRADIENT(),
      LAMINA_KERNEL(bf16_round_amx),
      sizeof(bfloat_amx::x),
      amx::tile_rows,
      bfloat_amx::tile_numbers,
      LAMINA_KERNEL(chain_rounded_amx)}},
    LAMINA_KERNEL(bfloat_forms),
    LAMINA_KERNEL(bfloat_form),
    LAMINA_KERNEL(bfloat_form_without_amx),
#else
    {LAMINA_BFLOAT_PRODUCTS(, bfloat_floats), {}, {}},
    LAMINA_KERNEL(bfloat_forms),
    LAMINA_KERNEL(bfloat_form),
    LAMINA_KERNEL(bfloat_form),
#endif
    LAMINA_KERNEL(round_to_half),
    LAMINA_KERNEL(round_to_bfloat),
};

}  // extern "C"

}  // namespace lamina::kernels
