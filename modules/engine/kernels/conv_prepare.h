// Decisions and loops of blocked convolutions that are not depthwise, for any product form.
#pragma once
#include "conv_blocked.h"
#include "conv_reorder.h"
#include "conv_tile_sizes.h"
#include "conv_winograd.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

using conv_tile = void (*)(const void*) noexcept;

/// The tiles of a form: [blocks of output channels - 1][pixels - 1]
struct blocked_tiles {
  conv_tile at[3][blocked::single_rows]{};
};

namespace blocked {

/// The kernels that `prepare` chooses from.
struct blocked_kernels {
  const blocked_tiles* tiles;
  void (*repair)(const void*) noexcept;
  kernel pointwise, rows, copied_rows, winograd;
};

LAMINA_INLINE bool is_dense(const window& w) noexcept { return w.dilation_w == 1 || w.kernel_w == 1; }

/// Estimated efficiency of tiles of `rows` pixels x `columns` blocks, for `pixels` in a row and `blocks` in all.
LAMINA_APART double tile_fill(long rows, long columns, long pixels, long blocks) noexcept {
  const double per_tile = static_cast<double>(pixels) / static_cast<double>(divide_up(pixels, rows));
  const double count = per_tile * static_cast<double>(columns), chains = count < 8 ? 8 : count;
  const double loads = 1 + 0.16 * (static_cast<double>(columns) + per_tile) / count;
  const double used = static_cast<double>(blocks) / static_cast<double>(divide_up(blocks, columns) * columns);
  return count / chains / loads * used;
}

/// Whether these kernels support a window: ungrouped.
LAMINA_INLINE bool takes_window(const window& w) { return w.groups == 1; }
/// Clears the decisions of `prepare`.
LAMINA_INLINE void reset(conv_blocked_args* a) {
  for (int i = 0; i < place_count; ++i) a->decision[i] = 0;
  for (auto& t : a->tile) t = nullptr;
  a->repair = nullptr;
}

/// Decides for a convolution that is not depthwise. `pieces`: tiles per piece of the long row of a flat convolution.
template <class Form> LAMINA_INLINE void decide(conv_blocked_args* a, const blocked_kernels& kernels, long pieces) {
  const window& w = a->w;
  long* d = a->decision;
  constexpr long size = sizeof(typename Form::x);
  reset(a);
  const bool planar = a->planar_in != 0;
  const long step = planar ? 1 : block, pixels = w.out_height * w.out_width;
  const long in_count = planar ? w.channels : divide_up(w.channels, block),
             out_count = divide_up(w.out_channels, block);
  const bool flat = w.kernel_h == 1 && w.kernel_w == 1 && w.stride_h == 1 && w.stride_w == 1 && w.pad_h == 0 &&
                    w.pad_w == 0 && w.out_height == w.height && w.out_width == w.width;
  const long line = w.columns_under(w.out_width);
  const long reach = line - w.pad_w - w.width;  // columns beyond the right side
  const bool edge = w.kernel_w == 3 && w.dilation_w == 1 && w.pad_w == 1 && reach <= 1;
  d[is_flat] = flat;
  d[has_edge] = edge;
  d[has_copy] = !edge && (w.pad_w > 0 || reach > 0);
  if (d[has_copy]) a->repair = kernels.repair;
  d[copy_width] = line;
  d[is_spread] = !is_dense(w);
  const long whole_count = divide_up(a->image_outs(), block);
  const bool narrow = tile_fill(narrow_rows, 3, flat ? pixels : w.out_width, whole_count) >
                      tile_fill(wide_rows, 2, flat ? pixels : w.out_width, whole_count);
  const bool single = whole_count == 1;
  d[tile_rows] = single ? single_rows : narrow ? narrow_rows : wide_rows;
  d[tile_columns] = single ? 1 : narrow ? 3 : 2;
  const long part_pixels = pixels_of_part(*a);
  const bool sequence = is_sequence(w);
  d[row_pixels] = flat ? smaller(part_pixels, d[tile_rows] * pieces) : piece_pixels(w);
  d[row_count] = divide_up(part_pixels, d[row_pixels]);
  const long bytes_of_block = w.kernel_h * w.kernel_w * step * block * d[tile_columns] * 4 / Form::numbers;
  const long max_blocks = larger(1, weight_bytes / bytes_of_block);
  d[in_blocks] = divide_up(in_count, divide_up(in_count, max_blocks));
  const long bytes_of_row = (flat ? d[row_pixels] : w.stride_h * w.width) * step * d[in_blocks] * size;
  const long max_rows = smaller(larger(input_bytes / bytes_of_row, 1), d[row_count]);
  d[row_group] = sequence && !flat ? 1 : divide_up(d[row_count], divide_up(d[row_count], max_rows));

  const auto enter = [&](int at, long rows) {
    const long columns[2] = {smaller(d[tile_columns], out_count), out_count % d[tile_columns]};
    for (int last = 0; last < 2; ++last)
      if (rows > 0 && columns[last] > 0) a->tile[at + last] = kernels.tiles->at[columns[last] - 1][rows - 1];
  };
  const auto enter_row = [&](int at, long count) {
    if (count == 0) return;
    const long tiles = divide_up(count, d[tile_rows]);
    enter(at, count / tiles);
    if (count % tiles) enter(at + 2, count / tiles + 1);
  };
  enter_row(0, d[row_pixels]);
  enter_row(4, (flat ? part_pixels : w.out_width) % d[row_pixels]);
}

/// Processes as many tiles at a time, in whole pieces, as stay in cache.
template <class Form> LAMINA_INLINE void prepare_winograd(conv_blocked_args* a, const blocked_kernels& kernels) {
  const window& w = a->w;
  const long bytes_of_tile =
                 winograd_points(w) * (w.channels * static_cast<long>(sizeof(typename Form::x)) + w.out_channels * 4),
             near = 1024 * 1024;
  conv_blocked_args product{};
  // The choice of the product's tiles, and so its sums, are those of the whole image.
  product.w = winograd_product(w, winograd_tiles_of(w));
  product.whole_out_channels = a->whole_out_channels;
  product.piece_count = tiles_of_part(*a);
  decide<Form>(&product, kernels, smaller(larger(near / bytes_of_tile / wide_rows, 2), 8));
  for (int i = 0; i < place_count; ++i) a->decision[i] = product.decision[i];
  for (std::size_t i = 0; i < sizeof a->tile / sizeof *a->tile; ++i) a->tile[i] = product.tile[i];
  a->repair = nullptr;
  const long piece = a->decision[row_pixels];
  a->decision[winograd_together] =
      a->joined_in ? winograd_tiles_of(w) : larger(near / bytes_of_tile / piece, 1) * piece;
}

/// Sets the decisions and returns the kernel.
template <class Form> LAMINA_INLINE kernel prepare(conv_blocked_args* a, const blocked_kernels& kernels) {
  if (takes_winograd(whole_window(*a), a->planar_in != 0)) {
    prepare_winograd<Form>(a, kernels);
    return kernels.winograd;
  }
  decide<Form>(a, kernels, 8);
  return a->decision[is_flat] ? kernels.pointwise : a->decision[has_copy] ? kernels.copied_rows : kernels.rows;
}

/// Scratch size in bytes of a convolution that is not depthwise.
template <class Form> LAMINA_INLINE std::size_t scratch_bytes(const conv_blocked_args* a) {
  const window& w = a->w;
  const long* d = a->decision;
  constexpr long size = sizeof(typename Form::x);
  if (d[winograd_together])
    return static_cast<std::size_t>(
        winograd_points(w) * d[winograd_together] * block *
        ((a->joined_in ? 0 : divide_up(w.channels, block) * size) + divide_up(w.out_channels, block) * 4));
  const bool rounds = Form::numbers > 1;
  if (!d[has_copy] && !rounds) return 0;
  const long step = a->planar_in ? 1 : block;
  if (d[is_flat]) return static_cast<std::size_t>(d[in_blocks] * d[row_group] * d[row_pixels] * step * size);
  const long rows = d[is_spread] ? w.kernel_h * d[row_group] : smaller(w.height, w.rows_under(d[row_group]));
  const long columns = is_sequence(w) ? w.columns_under(d[row_pixels]) : d[has_copy] ? d[copy_width] : w.width;
  return static_cast<std::size_t>(d[in_blocks] * rows * columns * step * size);
}

template <class Form, sweep Way> LAMINA_INLINE void run_images(const conv_blocked_args& a, void* scratch) {
  const window& w = a.w;
  const long in_channels = a.planar_in ? w.channels : divide_up(w.channels, block) * block;
  const long in_image = in_channels * w.height * w.width,
             out_image = divide_up(w.out_channels, block) * block * w.out_height * w.out_width;
  for (long n = a.first; n < a.first + a.count; ++n)
    run_image<Form, Way>(a, a.in + n * in_image, a.residual ? a.residual + n * out_image : nullptr,
                         a.out + n * out_image, static_cast<typename Form::x*>(scratch));
  if (a.repair) a.repair(&a);
}

/// Bytes of packed weights.
template <class Form> LAMINA_INLINE std::size_t packed_bytes(const window* w, int planar_in) {
  if (takes_winograd(*w, planar_in != 0))
    return static_cast<std::size_t>(winograd_points(*w) * winograd_filter<Form>(*w)) * sizeof(float);
  const long inner = w->groups > 1 ? 1 : planar_in ? w->channels : divide_up(w->channels, block) * block;
  const long outs = divide_up(w->out_channels, block) * block;
  return static_cast<std::size_t>(outs * steps_of<Form>(inner) * w->kernel_h * w->kernel_w) * sizeof(float);
}

/// Bytes between the packed filters of a block of output channels and those of the next one; by Winograd, of each point.
template <class Form> LAMINA_INLINE std::size_t filter_bytes(const window* w, int planar_in) {
  const long points = takes_winograd(*w, planar_in != 0) ? winograd_points(*w) : 1;
  return packed_bytes<Form>(w, planar_in) / static_cast<std::size_t>(points * divide_up(w->out_channels, block));
}

/// Calls pack(set) for sets of filters, such as those of the groups of a convolution, one after the other, with `bytes` of
/// packed filters each.
template <class Pack> LAMINA_INLINE void each_set(const conv_pack_args& a, std::size_t bytes, Pack pack) {
  const window& w = a.w;
  conv_pack_args set = a;
  for (long i = 0; i < a.sets; ++i) {
    pack(set);
    set.weight += w.out_channels * w.channels * w.kernel_h * w.kernel_w;
    set.packed += bytes / sizeof(float);
  }
}
/// Packs sets of filters.
template <class Form> LAMINA_INLINE void pack_sets(const conv_pack_args& a) {
  const window& w = a.w;
  const bool planar = a.planar_in != 0;
  each_set(a, packed_bytes<Form>(&w, a.planar_in), [&](const conv_pack_args& set) __attribute__((always_inline)) {
    if (takes_winograd(w, planar)) pack_winograd<Form>(w, filters(set), set.packed);
    else pack_weights<Form>(w, planar, filters(set), set.packed);
  });
}

/// Output rows or parts of a sequence, or 0 to split an image by channels: every part by rows reads all weights, every
/// part by channels reads the whole image. `packed`: bytes of the packed weights.
LAMINA_INLINE long pieces_or_channels(const window& w, std::size_t packed) {
  const auto image = static_cast<std::size_t>(w.channels * w.height * w.width) * sizeof(float);
  const long all = count_pieces(w);
  return w.out_channels <= block || (all >= (is_sequence(w) ? 2 : 8) && packed <= image) ? all : 0;
}
/// The same, or Winograd tiles of an image, or 0 if its parts share their transforms; a depthwise convolution is split by
/// rows.
template <class Form> LAMINA_INLINE long pieces(const window& w, bool planar) {
  if (w.groups > 1) return w.out_height;
  if (takes_winograd(w, planar)) return Form::numbers == 1 && shares_winograd_inputs(w) ? 0 : winograd_tiles_of(w);
  return pieces_or_channels(w, packed_bytes<Form>(&w, planar));
}

}  // namespace blocked
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
