// Convolution kernels of one instruction set and their table; pooling kernels are named here, defined in pool.cpp.
#include "conv.h"

#include "conv_bands.h"
#include "conv_blocked.h"
#include "conv_border.h"
#include "conv_plain.h"
#include "conv_prepare.h"
#include "conv_reorder.h"
#include "conv_tiles.h"
#include "gemm.h"
#include "simd.h"

namespace lamina::kernels {

// The kernels that `prepare` chooses from.
extern "C" {
#define LAMINA_SWEEP(name) void LAMINA_KERNEL(conv_##name##_f32)(const void* args, void* scratch) noexcept;
LAMINA_SWEEP(pointwise)
LAMINA_SWEEP(rows)
LAMINA_SWEEP(copied_rows)
LAMINA_SWEEP(depthwise)
LAMINA_SWEEP(winograd)
LAMINA_SWEEP(join_winograd)
#undef LAMINA_SWEEP
#define LAMINA_REPAIR(name) void LAMINA_KERNEL(conv_repair_##name)(const void* args) noexcept;
LAMINA_REPAIR(blocked_f32)
LAMINA_REPAIR(forward_f32)
LAMINA_REPAIR(input_grad_f32)
LAMINA_REPAIR(weight_grad_f32)
LAMINA_REPAIR(forward_f64)
LAMINA_REPAIR(input_grad_f64)
LAMINA_REPAIR(weight_grad_f64)
#undef LAMINA_REPAIR
}

inline namespace LAMINA_KERNEL_SET {
namespace {

int supports(const window* w, int planar_in) noexcept {
  if (w->groups > 1) return !planar_in && w->groups == w->channels && w->channels == w->out_channels;
  return blocked::takes_window(*w);
}

/// Whether the depthwise kernel with weights in registers supports this window: its last column misses at most one tap.
bool is_three_by_three(const window& w) noexcept {
  return w.kernel_h == 3 && w.kernel_w == 3 && w.pad_h == 1 && w.pad_w == 1 && w.dilation_h == 1 && w.dilation_w == 1 &&
         w.stride_w <= 2 && (w.out_width - 1) * w.stride_w + 1 <= w.width;
}

/// A depthwise convolution with any window processes as many output rows at a time as keep their padded input in cache.
void prepare_any_window(const window& w, long part_rows, long* d) noexcept {
  using namespace blocked;
  d[copies_windows] = 1;
  d[copy_width] = w.columns_under(w.out_width);
  const long reach = (w.kernel_h - 1) * w.dilation_h, bytes_of_row = d[copy_width] * block * 4;
  const long rows = larger(1, (input_bytes / 4 / bytes_of_row - reach) / w.stride_h);
  d[row_group] = divide_up(part_rows, divide_up(part_rows, rows));
}

void prepare_depthwise(conv_blocked_args* a) noexcept {
  const window& w = a->w;
  blocked::reset(a);
  a->decision[blocked::is_depthwise] = 1;
  a->repair = LAMINA_KERNEL(conv_repair_blocked_f32);
  if (is_three_by_three(w))
    a->tile[0] = w.stride_w == 1 ? LAMINA_KERNEL(conv_depthwise_1) : LAMINA_KERNEL(conv_depthwise_2);
  else a->tile[0] = LAMINA_KERNEL(conv_depthwise_any), prepare_any_window(w, blocked::rows_of_part(*a), a->decision);
}

long pieces(const window* w, int planar_in) noexcept { return blocked::pieces<unconverted<float>>(*w, planar_in != 0); }
int by_winograd(const window* w, int planar_in) noexcept { return blocked::by_winograd(*w, planar_in != 0); }

int reads_in_place(const conv_blocked_args* a) noexcept {
  return !blocked::takes_winograd(blocked::whole_window(*a), a->planar_in != 0);
}
long joined_maps(const window* w, int) noexcept { return blocked::divide_up(w->channels, blocked::block); }
std::size_t joined_bytes(const window* w, int) noexcept {
  return static_cast<std::size_t>(blocked::winograd_input_size<unconverted<float>>(*w)) * sizeof(float);
}

constexpr blocked::blocked_kernels blocked_f32{&tiles_of_blocked,
                                               LAMINA_KERNEL(conv_repair_blocked_f32),
                                               LAMINA_KERNEL(conv_pointwise_f32),
                                               LAMINA_KERNEL(conv_rows_f32),
                                               LAMINA_KERNEL(conv_copied_rows_f32),
                                               LAMINA_KERNEL(conv_winograd_f32)};

kernel prepare_blocked(conv_blocked_args* a) noexcept {
  if (a->w.groups == 1) return blocked::prepare<unconverted<float>>(a, blocked_f32);
  prepare_depthwise(a);
  return LAMINA_KERNEL(conv_depthwise_f32);
}

std::size_t scratch_of_blocked(const conv_blocked_args* a) noexcept {
  using namespace blocked;
  const window& w = a->w;
  const long* d = a->decision;
  if (d[copies_windows]) {
    const long rows = smaller(w.height, w.rows_under(d[row_group]));
    return static_cast<std::size_t>(rows * d[copy_width] * block) * sizeof(float);
  }
  if (d[is_depthwise]) return static_cast<std::size_t>(w.width * block) * sizeof(float);
  return scratch_bytes<unconverted<float>>(a);
}

std::size_t packed_bytes(const window* w, int planar_in) noexcept {
  return blocked::packed_bytes<unconverted<float>>(w, planar_in);
}
std::size_t filter_bytes(const window* w, int planar_in) noexcept {
  return blocked::filter_bytes<unconverted<float>>(w, planar_in);
}

LAMINA_INLINE void run_depthwise(const conv_blocked_args& a, float* scratch) {
  using namespace blocked;
  // The rows of the part are those of a window with other padding.
  window w = a.w;
  w.out_height = rows_of_part(a), w.pad_h -= a.first_piece * w.stride_h;
  const long blocks = divide_up(w.channels, block);
  const long in_plane = w.height * w.width * block, out_plane = a.w.out_height * w.out_width * block,
             first = a.first_piece * w.out_width * block;
  const bool reaches_over = w.pad_h > 0 || w.rows_under(w.out_height) - w.pad_h > w.height;
  if (!a.decision[copies_windows] && reaches_over)
    __builtin_memset(scratch, 0, static_cast<std::size_t>(w.width * block) * sizeof(float));
  depthwise_args q;
  q.scratch = scratch;
  q.any_window = &w;
  q.row_group = a.decision[row_group], q.copy_width = a.decision[copy_width];
  q.height = w.height, q.width = w.width, q.out_height = w.out_height, q.out_width = w.out_width;
  q.stride_h = w.stride_h, q.pad_h = w.pad_h;
  q.low = a.low, q.high = a.high, q.clamp = a.clamp != 0;
  for (long n = a.first * blocks; n < (a.first + a.count) * blocks; ++n) {
    q.in = a.in + n * in_plane;
    q.out = a.out + n * out_plane + first;
    q.weight = a.weight + n % blocks * w.kernel_h * w.kernel_w * block;
    q.bias = a.bias ? a.bias + n % blocks * block : nullptr;
    q.residual = a.residual ? a.residual + n * out_plane + first : nullptr;
    a.tile[0](&q);
  }
  if (a.repair) a.repair(&a);
}

template <class T> void prepare_plain(conv_plain_args* a, int role) noexcept {
  const gemm_functions& gemm = sizeof(T) == 4 ? LAMINA_KERNEL(gemm_f32_functions) : LAMINA_KERNEL(gemm_f64_functions);
  constexpr decltype(a->repair) repairs[2][3] = {
      {LAMINA_KERNEL(conv_repair_forward_f32), LAMINA_KERNEL(conv_repair_input_grad_f32),
       LAMINA_KERNEL(conv_repair_weight_grad_f32)},
      {LAMINA_KERNEL(conv_repair_forward_f64), LAMINA_KERNEL(conv_repair_input_grad_f64),
       LAMINA_KERNEL(conv_repair_weight_grad_f64)}};
  plain::decide<T>(*a, static_cast<plain::role>(role), tiles_of_direct.at, tiles_of_correlation.at, tiles_of_outer.at);
  a->repair = plain::sums_padding(*a, static_cast<plain::role>(role)) ? repairs[sizeof(T) / 8][role] : nullptr;
  a->product_run = nullptr;
  if (a->decision[plain::method] == plain::by_tiles || a->decision[plain::method] == plain::by_outer_products) return;
  gemm.prepare(&a->product);
  gemm.prepare(&a->product_tail);
  a->product_run = gemm.run;
}

template <class T> std::size_t scratch_of_plain(const conv_plain_args* a, [[maybe_unused]] int role) noexcept {
  const gemm_functions& gemm = sizeof(T) == 4 ? LAMINA_KERNEL(gemm_f32_functions) : LAMINA_KERNEL(gemm_f64_functions);
  if constexpr (plain::has_tiles<T>) {
    if (a->decision[plain::method] == plain::by_outer_products)
      return static_cast<std::size_t>(plain::outer_scratch_bytes<unconverted<T>>(*a));
    if (a->decision[plain::method] == plain::by_tiles && role == plain::weight_grad)
      return static_cast<std::size_t>(plain::correlation_bytes<T>(*a));
    if (a->decision[plain::method] == plain::by_tiles)
      return static_cast<std::size_t>(plain::tiles_bytes<T>(plain::sweep(*a, static_cast<plain::role>(role))));
  }
  const std::size_t full = gemm.scratch_bytes(&a->product), tail = gemm.scratch_bytes(&a->product_tail);
  return static_cast<std::size_t>(plain::matrix_bytes<T>(*a)) + (full > tail ? full : tail);
}

/// Image `n` of the groups has the filters and the bias of its group.
LAMINA_INLINE void select_group(const conv_grouped_args& a, long n, conv_blocked_args& conv) {
  const long group = n % a.groups;
  conv.weight = a.conv.weight + group * a.filters;
  if (conv.bias) conv.bias = a.conv.bias + group * a.conv.w.out_channels;
}

int by_columns(const conv_plain_args* a) noexcept { return a->decision[plain::method] == plain::by_columns; }

}  // namespace
}  // namespace LAMINA_KERNEL_SET

extern "C" {

#define LAMINA_PLAIN(type, element, role)                                              \
  void LAMINA_KERNEL(conv_##role##_##type)(const void* args, void* scratch) noexcept { \
    plain::run<element, plain::role>(args, scratch);                                   \
  }                                                                                    \
  void LAMINA_KERNEL(conv_repair_##role##_##type)(const void* args) noexcept {         \
    plain::repair<element>(*static_cast<const conv_plain_args*>(args), plain::role);   \
  }
LAMINA_PLAIN(f32, float, forward)
LAMINA_PLAIN(f32, float, input_grad)
LAMINA_PLAIN(f32, float, weight_grad)
LAMINA_PLAIN(f64, double, forward)
LAMINA_PLAIN(f64, double, input_grad)
LAMINA_PLAIN(f64, double, weight_grad)
void LAMINA_KERNEL(conv_forward_tiles_f32)(const void* args, void* scratch) noexcept {
  plain::run_forward_tiles<float>(args, scratch);
}
#undef LAMINA_PLAIN

#define LAMINA_SWEEP(name, way)                                                                                \
  void LAMINA_KERNEL(conv_##name##_f32)(const void* args, void* scratch) noexcept {                            \
    blocked::run_images<unconverted<float>, blocked::sweep::way>(*static_cast<const conv_blocked_args*>(args), \
                                                                 scratch);                                     \
  }
LAMINA_SWEEP(pointwise, flat)
LAMINA_SWEEP(rows, rows)
LAMINA_SWEEP(copied_rows, copied_rows)
#undef LAMINA_SWEEP
void LAMINA_KERNEL(conv_depthwise_f32)(const void* args, void* scratch) noexcept {
  run_depthwise(*static_cast<const conv_blocked_args*>(args), static_cast<float*>(scratch));
}
void LAMINA_KERNEL(conv_repair_blocked_f32)(const void* args) noexcept {
  const auto& a = *static_cast<const conv_blocked_args*>(args);
  border::repair_blocked<unconverted<float>>(a, static_cast<long>(packed_bytes(&a.w, a.planar_in) / sizeof(float)));
}

void LAMINA_KERNEL(conv_winograd_f32)(const void* args, void* scratch) noexcept {
  blocked::run_winograd<unconverted<float>>(*static_cast<const conv_blocked_args*>(args), scratch);
}

void LAMINA_KERNEL(conv_join_winograd_f32)(const void* args, void*) noexcept {
  blocked::join_winograd<unconverted<float>>(*static_cast<const conv_join_args*>(args));
}

void LAMINA_KERNEL(conv_pooled_f32)(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const conv_pooled_args*>(args);
  pool_args pool = a.pool;
  blocked::in_bands(a, scratch, [&](const window& held, const float* in, long, long at) {
    pool.w = held;
    pool.in = in;
    pool.out = static_cast<float*>(a.pool.out) + at;
    a.pool_run(&pool, nullptr);
  });
}

void LAMINA_KERNEL(conv_depthwise_after_f32)(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const conv_depthwise_args*>(args);
  const long filter = a.maps.kernel_h * a.maps.kernel_w * blocked::block;
  conv_blocked_args filters = a.depthwise;
  blocked::in_bands(a, scratch, [&](const window& held, const float* in, long o, long at) {
    filters.w = held;
    filters.in = in;
    filters.weight = a.depthwise.weight + o * filter;
    if (filters.bias) filters.bias = a.depthwise.bias + o * blocked::block;
    filters.out = a.depthwise.out + at;
    a.depthwise_run(&filters, static_cast<char*>(scratch) + a.bytes);
  });
}

void LAMINA_KERNEL(conv_pack_f32)(const void* args, void*) noexcept {
  blocked::pack_sets<unconverted<float>>(*static_cast<const conv_pack_args*>(args));
}

void LAMINA_KERNEL(to_blocked_f32)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const reorder_args*>(args);
  const float* in = static_cast<const float*>(a.in);
  float* out = static_cast<float*>(a.out);
  for (long n = 0; n < a.images; ++n, in += a.channels * a.pixels)
    for (long c = 0; c < a.channels; c += blocked::block, out += a.pixels * blocked::block)
      blocked::gather_block(in + c * a.pixels, a.pixels, a.channels - c, out);
}

void LAMINA_KERNEL(from_blocked_f32)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const reorder_args*>(args);
  const float* in = static_cast<const float*>(a.in);
  float* out = static_cast<float*>(a.out);
  for (long n = 0; n < a.images; ++n, out += a.channels * a.pixels)
    for (long c = 0; c < a.channels; c += blocked::block, in += a.pixels * blocked::block)
      blocked::scatter_block(in, a.pixels, a.channels - c, out + c * a.pixels);
}

#define LAMINA_POOL(name) void LAMINA_KERNEL(name)(const void* args, void* scratch) noexcept;
LAMINA_POOL(max_pool_f32)
LAMINA_POOL(max_pool_f64)
LAMINA_POOL(max_pool_with_index_f32)
LAMINA_POOL(max_pool_with_index_f64)
LAMINA_POOL(max_pool_pairs_f32)
LAMINA_POOL(max_pool_pairs_with_index_f32)
LAMINA_POOL(average_pool_pairs_f32)
LAMINA_POOL(average_pool_f32)
LAMINA_POOL(average_pool_f64)
LAMINA_POOL(max_pool_grad_f32)
LAMINA_POOL(max_pool_grad_f64)
LAMINA_POOL(average_pool_grad_f32)
LAMINA_POOL(average_pool_grad_f64)
LAMINA_POOL(max_pool_blocked_f32)
LAMINA_POOL(average_pool_blocked_f32)
LAMINA_POOL(channel_block_f32)
LAMINA_POOL(channel_block_s8)
#undef LAMINA_POOL

void LAMINA_KERNEL(conv_grouped_f32)(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const conv_grouped_args*>(args);
  const window& w = a.conv.w;
  const long in_image = w.channels * w.height * w.width, out_image = w.out_channels * w.out_height * w.out_width;
  conv_blocked_args conv = a.conv;
  for (long n = a.first; n < a.first + a.count; ++n) {
    select_group(a, n, conv);
    conv.in = a.conv.in + n * in_image;
    conv.out = a.conv.out + n * out_image;
    if (conv.residual) conv.residual = a.conv.residual + n * out_image;
    a.conv_run(&conv, scratch);
  }
}

void LAMINA_KERNEL(conv_through_blocks_f32)(const void* args, void* scratch) noexcept {
  const auto& a = *static_cast<const conv_through_args*>(args);
  const window& w = a.conv.w;
  const long in_pixels = w.height * w.width, out_pixels = w.out_height * w.out_width;
  char* const near = static_cast<char*>(scratch);
  conv_blocked_args conv = a.conv;
  conv.in = reinterpret_cast<float*>(near);
  conv.out = reinterpret_cast<float*>(near + a.in_bytes);
  for (long n = a.first; n < a.first + a.count; ++n) {
    const reorder_args before{a.in + n * w.channels * in_pixels, near, 1, w.channels, in_pixels};
    LAMINA_KERNEL(to_blocked_f32)(&before, nullptr);
    select_group(a, n, conv);
    a.conv_run(&conv, near + a.in_bytes + a.out_bytes);
    const reorder_args after{conv.out, a.out + n * a.conv.image_outs() * out_pixels, 1, w.out_channels, out_pixels};
    LAMINA_KERNEL(from_blocked_f32)(&after, nullptr);
  }
}

#define LAMINA_PLAIN(type, element, tiles) \
  {LAMINA_KERNEL(conv_forward_##type),     \
   LAMINA_KERNEL(conv_input_grad_##type),  \
   LAMINA_KERNEL(conv_weight_grad_##type), \
   prepare_plain<element>,                 \
   scratch_of_plain<element>,              \
   tiles,                                  \
   by_columns}

extern const conv_functions LAMINA_KERNEL(conv);
constinit const conv_functions LAMINA_KERNEL(conv) = {
    {LAMINA_PLAIN(f32, float, LAMINA_KERNEL(conv_forward_tiles_f32)), LAMINA_PLAIN(f64, double, nullptr)},
    {pieces, by_winograd, supports, prepare_blocked, scratch_of_blocked, packed_bytes, filter_bytes,
     LAMINA_KERNEL(conv_pack_f32), LAMINA_KERNEL(conv_join_winograd_f32), reads_in_place, joined_maps, joined_bytes},
    LAMINA_KERNEL(to_blocked_f32),
    LAMINA_KERNEL(from_blocked_f32),
    LAMINA_KERNEL(conv_pooled_f32),
    LAMINA_KERNEL(conv_depthwise_after_f32),
    LAMINA_KERNEL(conv_grouped_f32),
    LAMINA_KERNEL(conv_through_blocks_f32),
    LAMINA_KERNEL(channel_block_f32),
    LAMINA_KERNEL(channel_block_s8),
};

extern constinit const pool_functions LAMINA_KERNEL(max_pool) = {
    {LAMINA_KERNEL(max_pool_f32), LAMINA_KERNEL(max_pool_f64)},
    {LAMINA_KERNEL(max_pool_with_index_f32), LAMINA_KERNEL(max_pool_with_index_f64)},
    LAMINA_KERNEL(max_pool_pairs_f32),
    LAMINA_KERNEL(max_pool_pairs_with_index_f32),
    LAMINA_KERNEL(max_pool_blocked_f32)};
extern constinit const pool_functions LAMINA_KERNEL(average_pool) = {
    {LAMINA_KERNEL(average_pool_f32), LAMINA_KERNEL(average_pool_f64)},
    {},
    LAMINA_KERNEL(average_pool_pairs_f32),
    nullptr,
    LAMINA_KERNEL(average_pool_blocked_f32)};
extern constinit const pool_grad_functions LAMINA_KERNEL(max_pool_grad) = {
    {LAMINA_KERNEL(max_pool_grad_f32), LAMINA_KERNEL(max_pool_grad_f64)}};
extern constinit const pool_grad_functions LAMINA_KERNEL(average_pool_grad) = {
    {LAMINA_KERNEL(average_pool_grad_f32), LAMINA_KERNEL(average_pool_grad_f64)}};

}  // extern "C"

}  // namespace lamina::kernels
