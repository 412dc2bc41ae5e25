// Convolution in the plain layout and its two gradients, by im2col (im2row) and a matrix product, or directly.
// All start from a zero-padded copy of the planes of an image, so that later code needs no border cases, except
// `border::repair_...` for numbers that are not finite.
#pragma once
#include "conv_border.h"
#include "conv_outer.h"
#include "conv_sweep.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace plain {

/// Bytes of the im2col matrix built at a time: it should stay in L2.
inline constexpr long column_bytes = 512 * 1024;

/// Sizes of the products of all three roles.
struct sizes {
  long channels, outs, taps, pixels, in_plane;
  constexpr explicit sizes(const window& w)
      : channels(w.channels / w.groups),
        outs(w.out_channels / w.groups),
        taps(channels * w.kernel_h * w.kernel_w),
        pixels(w.out_height * w.out_width),
        in_plane(w.height * w.width) {}
};

template <class T> constexpr long matrix_bytes(const conv_plain_args& a) {
  if (a.decision[method] == by_product) return 0;
  return padded_bytes<T>(padded_input(a)) +
         aligned<T>(sizes(a.w).taps * a.decision[row_group] * a.w.out_width + 2 * width<T>);
}

/// Input channels per group of the whole convolution.
constexpr long whole_channels(const conv_plain_args& a) {
  return a.whole_channels ? a.whole_channels : a.w.channels / a.w.groups;
}

template <class T> void run_products(const conv_plain_args& a, role r, void* scratch) {
  const window& w = a.w;
  const sizes s(w);
  const padded p = padded_input(a);
  const long first = a.first_row, end = first + rows_of(a);
  const bool columns = a.decision[method] == by_columns;
  scratch_parts parts(scratch);
  T* planes = columns ? parts.take<T>(padded_bytes<T>(p)) : nullptr;
  T* matrix =
      columns ? parts.take<T>(aligned<T>(s.taps * a.decision[row_group] * w.out_width + 2 * width<T>)) : nullptr;
  void* rest = parts.take<char>(0);
  const T* in = static_cast<const T*>(a.in);
  const T* weight = static_cast<const T*>(a.weight);
  T* out = static_cast<T*>(a.out);
  if (r == weight_grad) __builtin_memset(out, 0, static_cast<std::size_t>(w.groups * s.outs * s.taps) * sizeof(T));
  gemm_args product[2] = {a.product, a.product_tail};
  for (long g = 0; g < w.groups; ++g) {
    const T* group_weight = weight + g * s.outs * s.taps;
    for (long n = a.first; n < a.first + a.count; ++n) {
      const long image = (n * w.groups + g) * whole_channels(a) * s.in_plane;     // of the forward input
      const long result = n * a.image_outs() * s.pixels + g * s.outs * s.pixels;  // of the forward result
      if (columns && r != input_grad) pad_planes(in + image, w.height, w.width, p, planes);
      if (columns && r == input_grad)
        __builtin_memset(out + image, 0, static_cast<std::size_t>(s.channels * s.in_plane) * sizeof(T));
      for (long group = 0; group < a.decision[group_count]; ++group) {
        const long row = first + group * a.decision[row_group], rows = smaller(a.decision[row_group], end - row);
        gemm_args& q = product[rows == a.decision[row_group] ? 0 : 1];
        const long offset = row * w.out_width;
        if (r == forward) {
          if (columns) im2col(w, p, planes, row - first, rows, matrix);
          q.a = group_weight;
          q.b = columns ? matrix : in + image + offset;
          q.c = out + result + offset;
          q.bias_row = a.bias ? static_cast<const T*>(a.bias) + g * s.outs : nullptr;
        } else if (r == input_grad) {
          q.a = group_weight;
          q.b = in + result + offset;
          q.c = columns ? matrix : out + image + offset;
        } else {
          if (columns) im2row(w, p, planes, row, rows, matrix);
          q.a = weight + result + offset;
          q.b = columns ? matrix : in + image + offset;
          q.c = out + g * s.outs * s.taps;
        }
        a.product_run(&q, rest);
        if (columns && r == input_grad) col2im(w, matrix, row, rows, out + image);
      }
    }
  }
}

/// Fills the arguments of the product for `rows` output rows.
template <class T> void describe_product(const conv_plain_args& a, role r, long rows, gemm_args& q) {
  const sizes s(a.w);
  const bool columns = a.decision[method] == by_columns;
  const long pixels = rows * a.w.out_width;
  q = gemm_args{};
  q.batch = 1;
  q.low = a.low;
  q.high = a.high;
  if (r == forward) {
    q.m = s.outs, q.n = pixels, q.k = s.taps;
    q.a_row = s.taps, q.a_column = 1;
    q.b_row = columns ? pixels : s.pixels, q.b_column = 1;
    q.c_row = s.pixels;
    q.clamp = a.clamp;
    q.bias_row = a.bias;
  } else if (r == input_grad) {
    q.m = s.taps, q.n = pixels, q.k = s.outs;
    q.a_row = 1, q.a_column = whole_channels(a) * a.w.kernel_h * a.w.kernel_w;
    q.b_row = s.pixels, q.b_column = 1;
    q.c_row = columns ? pixels : s.in_plane;
  } else {
    q.m = s.outs, q.n = s.taps, q.k = pixels;
    q.a_row = s.pixels, q.a_column = 1;
    q.b_row = columns ? s.taps : 1, q.b_column = columns ? 1 : s.in_plane;
    q.c_row = s.taps;
    q.accumulate = 1;
  }
}

/// Compares estimated cycles of a direct sweep and of im2col with a product: two multiply-adds or loads per cycle.
template <class T> bool prefers_tiles(const sweep& s, role r, long tile_channels, long vectors) {
  const double tap_cycles =
      static_cast<double>(larger(2 * tile_channels * vectors, 3 * vectors + 2 * tile_channels)) / 4;
  const double tiles = static_cast<double>(divide_up(s.channels, tile_channels)) *
                       static_cast<double>(divide_up(s.positions<T>(), vectors)) * static_cast<double>(s.taps());
  const double product = static_cast<double>(s.channels * divide_up(s.height * s.width, width<T>) * s.taps()) / 2;
  const double moved = static_cast<double>(s.positions<T>() * s.taps()) * 2;
  // The product for the input gradient uses transposed weights and packs them for every group of rows.
  const double weights = static_cast<double>(s.channels * s.taps());
  const double matrix =
      static_cast<double>(s.channels * s.kernel_h * s.kernel_w * s.source_height * s.source_width) * sizeof(T);
  const double packing = r == forward ? 0 : weights * 0.5 * (1 + matrix / static_cast<double>(column_bytes));
  return tap_cycles * tiles < product * 1.1 + (r == forward ? moved : 2 * moved) + packing;
}

/// Estimated cycles of the three methods for the weight gradient, per image.
template <class T> double correlation_cycles(const window& w) {
  const sizes s(w);
  return static_cast<double>(s.outs * s.taps) * static_cast<double>(w.out_height * divide_up(w.out_width, width<T>)) *
         0.9;
}
template <class T> double row_product_cycles(const window& w) {
  const sizes s(w);
  const double pixels = static_cast<double>(s.pixels);
  return static_cast<double>(s.outs * divide_up(s.taps, width<T>)) * pixels * 0.6 +
         pixels * static_cast<double>(s.taps) / static_cast<double>(w.kernel_w) * 3;
}
template <class T> double outer_cycles(const window& w) {
  const outer_sizes s(w);
  const double tile = static_cast<double>(s.tile_blocks * s.tile_rows * s.taps) * 0.55 + 1;
  return static_cast<double>(w.out_height * w.out_width) *
         (static_cast<double>(s.row_tiles() * s.block_tiles()) * tile + static_cast<double>(s.blocks) * 3);
}

/// Double precision, meant for checks and small fits, always uses the product.
template <class T> inline constexpr bool has_tiles = sizeof(T) == 4;

using tile_function = void (*const)(const void*) noexcept;

template <class T> void decide(conv_plain_args& a, role r, tile_function (&tiles)[6][4],
                               tile_function (&correlations)[4][6], tile_function (&outers)[3][2]) {
  const window& w = a.w;
  const bool unit_stride = w.stride_h == 1 && w.stride_w == 1;
  const bool pointwise = unit_stride && w.kernel_h == 1 && w.kernel_w == 1 && w.pad_h == 0 && w.pad_w == 0 &&
                         w.out_height == w.height && w.out_width == w.width;
  for (auto& d : a.decision) d = 0;
  for (auto& t : a.tile) t = nullptr;
  a.decision[method] = pointwise ? by_product : by_columns;
  if (has_tiles<T> && !pointwise && (unit_stride || r == forward) && r != weight_grad) {
    const sweep s(a, r);
    const long positions = s.positions<T>(), largest = divide_up(s.channels, divide_up(s.channels, 6));
    const long limit = (largest <= 2 ? 2 : 1) * (width<float> == 16 ? 4 : 2);
    long vectors = 1;
    while (2 * vectors <= smaller(limit, positions)) vectors *= 2;
    if ((r == forward || (s.source.top >= 0 && s.source.left >= 0)) && positions > 0 &&
        prefers_tiles<T>(s, r, largest, vectors)) {
      const long parts = divide_up(s.channels, 6), base = s.channels / parts;
      const int step = vectors == 8 ? 3 : static_cast<int>(vectors / 2);
      a.decision[method] = by_tiles;
      a.decision[tile_channels] = largest;
      a.decision[tile_vectors] = vectors;
      a.tile[0] = tiles[base - 1][step];
      a.tile[1] = s.channels % parts ? tiles[base][step] : nullptr;
      return;
    }
  }
  const double product_cycles = row_product_cycles<T>(w), sum_cycles = correlation_cycles<T>(w);
  if (has_tiles<T> && !pointwise && r == weight_grad && outer_cycles<T>(w) < product_cycles &&
      (w.stride_w != 1 || outer_cycles<T>(w) < sum_cycles)) {
    const outer_sizes s(w);
    a.decision[method] = by_outer_products;
    a.tile[0] = outers[s.taps / 2][s.tile_blocks - 1];
    return;
  }
  if (has_tiles<T> && !pointwise && w.stride_w == 1 && r == weight_grad && sum_cycles < product_cycles) {
    const sizes s(w);
    const long out_parts = divide_up(s.outs, direct::max_outs), tap_parts = divide_up(s.taps, direct::max_taps);
    const long outs = s.outs / out_parts, taps = s.taps / tap_parts;
    const bool uneven_outs = s.outs % out_parts != 0, uneven_taps = s.taps % tap_parts != 0;
    a.decision[method] = by_tiles;
    for (int i = 0; i < 4; ++i)
      if ((i / 2 == 0 || uneven_outs) && (i % 2 == 0 || uneven_taps))
        a.tile[i] = correlations[outs + i / 2 - 1][taps + i % 2 - 1];
    return;
  }
  const long taps = whole_channels(a) * w.kernel_h * w.kernel_w;
  const long row_bytes = taps * w.out_width * static_cast<long>(sizeof(T));
  const long all = rows_of(a), max = pointwise ? all : larger(1, smaller(all, column_bytes / larger(1, row_bytes)));
  const long groups = larger(1, divide_up(all, larger(1, max)));
  a.decision[row_group] = divide_up(all, groups);
  a.decision[group_count] = a.decision[row_group] ? divide_up(all, a.decision[row_group]) : 0;
  describe_product<T>(a, r, a.decision[row_group], a.product);
  const long tail = all - a.decision[row_group] * (a.decision[group_count] - 1);
  describe_product<T>(a, r, tail, a.product_tail);
}

/// Whether the sums of a call include zeros of padding.
inline bool sums_padding(const conv_plain_args& a, role r) {
  if (a.decision[method] == by_product || (r == input_grad && a.decision[method] == by_columns)) return false;
  const window& w = a.w;
  const padded p = padded_input(w);
  return r == input_grad || w.pad_h != 0 || w.pad_w != 0 || p.height > w.height || p.width > w.width;
}

/// For a call that `sums_padding`: recomputes results where padding zeros met a number that is not finite.
template <class T> LAMINA_COMPACT void repair(const conv_plain_args& a, role r) {
  const window& w = a.w;
  const sizes s(w);
  const long taps = w.out_channels * s.taps, image_results = a.image_outs() * s.pixels,
             image_inputs = w.channels * s.in_plane;
  const T *weight = static_cast<const T*>(a.weight), *out = static_cast<const T*>(a.out);
  const bool gradient = r == weight_grad;
  const long image = r == forward ? image_results : image_inputs;
  const T* filter = gradient ? weight + a.first * image_results : weight;
  const long other_results = (a.image_outs() - w.out_channels) * s.pixels;  // after those of the last image's part
  if (border::all_finite<unconverted<T>>(filter, gradient ? a.count * image_results - other_results : taps,
                                         gradient ? out : out + a.first * image, gradient ? taps : a.count * image,
                                         a.row_count == 0))
    return;
  if (r == forward) border::repair_forward<T>(a);
  if (r == input_grad) border::repair_input_grad<T>(a);
  if (r == weight_grad) border::repair_weight_grad<T>(a);
}

template <class T> LAMINA_INLINE void run_forward_tiles(const void* args, void* scratch) {
  const auto& a = *static_cast<const conv_plain_args*>(args);
  run_tiles<T, forward>(a, scratch);
  if (a.repair) a.repair(&a);
}
template <class T, role Role> LAMINA_INLINE void run(const void* args, void* scratch) {
  const auto& a = *static_cast<const conv_plain_args*>(args);
  bool done = false;
  if constexpr (has_tiles<T>) {
    if (Role == weight_grad && a.decision[method] == by_outer_products) {
      run_outer<unconverted<T>>(a, scratch);
      done = true;
    }
    if (a.decision[method] == by_tiles) {
      if constexpr (Role == weight_grad) run_correlation<T>(a, scratch);
      else run_tiles<T, Role>(a, scratch);
      done = true;
    }
  }
  if (!done) run_products<T>(a, Role, scratch);
  if (a.repair) a.repair(&a);
}

}  // namespace plain
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
