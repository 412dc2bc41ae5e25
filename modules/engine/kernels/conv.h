// Two-dimensional convolution and pooling, forward and backward; layouts: plain [N, C, H, W] and channel-blocked
// [N, ceil(C / lanes), H, W, lanes] with zeros in the channels beyond C.
#pragma once
#include "gemm.h"
#include "kernels.h"

namespace lamina::kernels {

/// Sizes of one convolution or pooling.  Padding at the end follows from the sizes; averages that count padding read
/// `more_h` and `more_w`: how much larger it is at the end than at the start.
struct window {
  long channels, height, width, out_channels, out_height, out_width;
  long kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, more_h = 0, more_w = 0;
  long large_tiles = 0;  // 1: allows Winograd tiles of 4x4, with fewer multiplications and less accuracy

  /// Input rows and columns, padding included, that `count` neighboring output rows or columns read.
  [[gnu::always_inline]] constexpr long rows_under(long count) const {
    return (count - 1) * stride_h + (kernel_h - 1) * dilation_h + 1;
  }
  [[gnu::always_inline]] constexpr long columns_under(long count) const {
    return (count - 1) * stride_w + (kernel_w - 1) * dilation_w + 1;
  }
  /// 2x2 windows of stride 2 without padding, all inside the map.
  [[gnu::always_inline]] constexpr bool is_pairs() const {
    return kernel_h == 2 && kernel_w == 2 && stride_h == 2 && stride_w == 2 && pad_h == 0 && pad_w == 0 &&
           2 * out_height <= height && 2 * out_width <= width;
  }
  /// The window of a group of the channels, as a convolution of its own.
  [[gnu::always_inline]] constexpr window of_one_group() const {
    window w = *this;
    w.channels /= groups, w.out_channels /= groups, w.groups = 1;
    return w;
  }
};

/// Results [first, last) of `count` whose tap lies inside an axis of `size`; `shift` is the tap position of result 0.
struct reached_results {
  long first, last;
  [[gnu::always_inline]] constexpr reached_results(long shift, long stride, long size, long count)
      : first(shift < 0 ? (stride - 1 - shift) / stride : 0),
        last(size <= shift ? 0 : (size - shift + stride - 1) / stride) {
    if (last > count) last = count;
  }
};

/// Plain layout, direct or by im2col and a matrix product, images [first, first + count) of N, for three kernels:
///   forward:      out[n, o, y, x] = sum of weight[o, c, i, j] in[n, c, ...] (+ bias[o]), clamp
///   input_grad:   out = gradient of the input; `in` is the gradient of the result, `weight` the weights
///   weight_grad:  out[o, c, i, j] = sum over the images of this call (out is overwritten), in an order that depends on
///                 the window and `count` alone; `in` is the forward input, `weight` the gradient of the result, from
///                 the first of this call's output channels on
struct conv_plain_args {
  window w;
  long first, count;
  long first_row, row_count;  // output rows of a forward call; row_count 0: all
  // Without groups, `w` may have a part of the channels; this is then their whole number. 0: all.
  long whole_channels;      // of the input: input_grad with a stride
  long whole_out_channels;  // weight_grad
  const void* in;
  const void* weight;
  const void* bias;
  void* out;
  double low, high;
  std::int32_t clamp, pad;
  kernel product_run;
  gemm_args product, product_tail;        // set by `prepare`: a full group of rows, and the last, shorter one
  void (*tile[4])(const void*) noexcept;  // set by `prepare`
  void (*repair)(const void*) noexcept;   // set by `prepare`: corrects results where padding met non-finite weights
  long decision[16];                      // set by `prepare`
  /// Output channels of an image.
  [[gnu::always_inline]] constexpr long image_outs() const {
    return whole_out_channels ? whole_out_channels : w.out_channels;
  }
  template <class F> void each_code(F f) const {
    f(product_run);
    product.each_code(f), product_tail.each_code(f);
    for (const auto& t : tile) f(t);
    f(repair, weight);
  }
};
struct conv_plain_functions {
  kernel forward, input_grad, weight_grad;
  /// Sets the decisions for a role (0 forward, 1 input_grad, 2 weight_grad) from `w`.
  void (*prepare)(conv_plain_args* args, int role) noexcept;
  /// Scratch size after `prepare`, sufficient for this `count` and smaller ones.
  std::size_t (*scratch_bytes)(const conv_plain_args* args, int role) noexcept;
  kernel forward_tiles;  // `forward` if `prepare` decided against a matrix product; null: none
  /// Whether a call, after `prepare`, builds an im2col matrix.
  int (*by_columns)(const conv_plain_args* args) noexcept;
  /// The kernel of a forward call after `prepare`.
  kernel forward_of(const conv_plain_args& a) const {
    return a.product_run || !forward_tiles ? forward : forward_tiles;
  }
};

/// Direct convolution over blocked buffers (inference).  `planar_in`: the input is plain (few channels); depthwise
/// if groups == channels == out_channels.  Images [first, first + count).  With `clamp`, low <= 0 <= high unless
/// out_channels is a multiple of the lanes: results beyond out_channels are zeros.
///
/// Rounded images hold bfloat16 numbers in pairs of blocks: [images, ceil(blocks / 2), pixels, 2 lanes].
struct conv_blocked_args {
  window w;
  long first, count;
  const float* in;
  const float* weight;    // packed
  const float* bias;      // padded to the block with zeros; null: none
  const float* residual;  // null: none
  float* out;
  float low, high;
  std::int32_t clamp, planar_in;
  std::int32_t rounded_in, rounded_residual, rounded_out;  // for functions with AMX: which images are rounded
  std::int32_t joined_in;                                  // `in` is what `join` wrote
  long first_piece, piece_count;                           // of an image (see `pieces`); piece_count 0: all
  long whole_out_channels;  // of the whole convolution if this is a part by channels: keeps its tiles and sums; else 0
  void (*tile[12])(const void*) noexcept;  // set by `prepare`
  void (*repair)(const void*) noexcept;    // set by `prepare`: corrects results where padding met non-finite weights
  long decision[16];                       // set by `prepare`
  /// Output channels of an image.
  [[gnu::always_inline]] constexpr long image_outs() const {
    return whole_out_channels ? whole_out_channels : w.out_channels;
  }
  template <class F> void each_code(F f) const {
    for (const auto& t : tile) f(t);
    f(repair, weight);
  }
};
struct conv_blocked_functions {
  /// Pieces of an image, of which its parts consist: output rows, parts of a sequence, or Winograd tiles in row-major
  /// order; 0: parts are channel blocks.
  long (*pieces)(const window* w, int planar_in) noexcept;
  /// Columns of results of a Winograd tile, for which weights are packed as transformed filters. 0: direct; they are
  /// copies.
  int (*by_winograd)(const window* w, int planar_in) noexcept;
  /// 1 if the window is supported: depthwise or ungrouped.
  int (*supports)(const window* w, int planar_in) noexcept;
  /// Sets the decisions from `w` and returns the kernel.
  kernel (*prepare)(conv_blocked_args* args) noexcept;
  std::size_t (*scratch_bytes)(const conv_blocked_args* args) noexcept;
  std::size_t (*packed_bytes)(const window* w, int planar_in) noexcept;
  /// Bytes between the packed filters of a block of output channels and those of the next one; by Winograd, of each point.
  std::size_t (*filter_bytes)(const window* w, int planar_in) noexcept;
  kernel pack;            // args: conv_pack_args
  kernel join = nullptr;  // args: conv_join_args; null: images are read as they are
  /// 1 if images are read as they are.
  int (*reads_in_place)(const conv_blocked_args* args) noexcept = nullptr;
  /// Maps of an image for `join`, and bytes from an image that it writes to the next one.
  long (*joined_maps)(const window* w, int planar_in) noexcept = nullptr;
  std::size_t (*joined_bytes)(const window* w, int planar_in) noexcept = nullptr;
  bool by_amx = false;  // a layout of packed weights of its own, and rounded images
};
/// Writes the images of a convolution as its kernel reads them, so that parts by channels share them: for AMX rounded,
/// with zeros around each map; for Winograd the transforms of all tiles. Maps [first, first + count) of all images.
struct conv_join_args {
  window w;
  const void* in;
  void* out;
  long first, count;
  std::int32_t planar_in, rounded_in;
};
/// Bytes after the last pixel of rounded images that kernels may read.
inline constexpr long rounded_slack = 4096;
struct conv_pack_args {
  window w;
  const float* weight;
  float* packed;
  std::int32_t planar_in;
  std::int32_t turned;  // this convolution is the input gradient of one with weights [channels, out_channels, kh, kw]
  long sets = 1;        // of filters, one after the other: those of a depthwise convolution are one
};

/// plain [images, channels, pixels] <-> blocked [images, ceil(channels / lanes), pixels, lanes]
struct reorder_args {
  const void* in;
  void* out;
  long images, channels, pixels;
};

/// Gathers one channel block of `images` images from lanes of other blocks: lane i of a pixel is lane `lane[i]` of the
/// same pixel in input block `block[i]` (of `blocks`); zero if block[i] is negative.
struct channel_block_args {
  static constexpr int max_lanes = 16;
  const void* in[max_lanes];  // each input block of the first image
  void* out;
  long in_image[max_lanes], out_image;  // elements between images
  long images, pixels;
  std::int32_t blocks, lane[max_lanes], block[max_lanes], pad;
};

/// Pooling over `images` maps of w.channels channels (plain) or channel blocks (blocked: w.channels counts channels).
/// `index` (null: none): for each result the position y * width + x of its maximum in the input map, int32:
/// the first of equal maxima, the last NaN, -1 for a window entirely in the padding.
struct pool_args {
  window w;
  long images;
  const void* in;
  void* out;
  std::int32_t* index;
  std::int32_t count_padding, pad;
};
/// out (gradient of the input, fully overwritten) from in (gradient of the result) and, for max, the index of the
/// forward run.  A negative index receives no gradient. An index past the map receives none and increments invalid[0];
/// invalid[1] and invalid[2] record the first such index and its position in `index`.
struct pool_grad_args {
  window w;
  long images;
  const void* in;
  const std::int32_t* index;
  void* out;
  std::int64_t* invalid;  // of max
  std::int32_t count_padding, pad;
};

/// A convolution in channel blocks fused with a pool or depthwise convolution over its results: each band of rows is
/// computed and consumed before the next, so that intermediate results stay in cache. Images [first, first + count),
/// bands [first_band, first_band + bands) of each.
struct conv_bands {
  enum { whole, rest, above, kinds };
  // Prepared for `rows` rows, a shorter last band, and the rows above the first band that its windows also read.
  conv_blocked_args conv[kinds];
  kernel run[kinds];
  window maps;  // the windows over all results of the convolution
  long first, count, first_band, bands;
  long rows;          // result rows of the convolution per band: a multiple of the stride of the windows
  long in_image;      // elements of an image
  std::size_t bytes;  // of the rows held at once

  [[gnu::always_inline]] constexpr long reach() const { return maps.rows_under(1); }
  [[gnu::always_inline]] constexpr long rows_held() const { return rows + reach() - 1; }
  /// Rows of windows that need only the first `made` rows of the map; all of them if `made` covers the map.
  [[gnu::always_inline]] constexpr long results_of(long made) const {
    const long left = made + maps.pad_h - reach();
    return made >= maps.height ? maps.out_height : left < 0 ? 0 : left / maps.stride_h + 1;
  }
  /// Rows above row `made` that the windows after `results_of(made)` read.
  [[gnu::always_inline]] constexpr long rows_before(long made) const {
    const long top = results_of(made) * maps.stride_h - maps.pad_h;
    return made == 0 || top >= made ? 0 : made - (top > 0 ? top : 0);
  }
  template <class F> void each_code(F f) const {
    for (int i = 0; i < kinds; ++i) f(run[i]), conv[i].each_code(f);
  }
};
struct conv_pooled_args : conv_bands {
  pool_args pool;  // `out` is that of the first image
  kernel pool_run;
  template <class F> void each_code(F f) const { f(pool_run), conv_bands::each_code(f); }
};
struct conv_depthwise_args : conv_bands {
  conv_blocked_args depthwise;  // prepared for one channel block of whole maps; `out` is that of the first image
  kernel depthwise_run;
  template <class F> void each_code(F f) const { f(depthwise_run), depthwise.each_code(f), conv_bands::each_code(f); }
};

/// A convolution whose groups are whole channel blocks: the channels of each group are an image of their own to `conv`,
/// the convolution of one group. Images [first, first + count), those of the same group with the same filters.
struct conv_grouped_args {
  conv_blocked_args conv;  // prepared for one image; with the filters and bias of the first group
  kernel conv_run;
  long first, count;
  long groups, filters;  // filters: packed elements of a group
  template <class F> void each_code(F f) const {
    f(conv_run);
    conv.each_code(f);
  }
};
/// A convolution of plain images by the blocked kernel: converts each image to blocks and its results back to plain
/// while they are in cache. `conv` may be a part by channels, and `out` begins with it.
struct conv_through_args : conv_grouped_args {
  const float* in;
  float* out;
  std::size_t in_bytes, out_bytes;  // of a blocked image
};
struct conv_functions {
  conv_plain_functions plain[2];              // [f32, f64]
  conv_blocked_functions blocked;             // f32
  kernel to_blocked, from_blocked;            // args: reorder_args, f32
  kernel pooled, depthwise_after;             // args: conv_pooled_args, conv_depthwise_args
  kernel grouped, through_blocks;             // args: conv_grouped_args, conv_through_args
  kernel channel_block, channel_block_bytes;  // args: channel_block_args, of float and of int8
};

LAMINA_FAMILY(conv_functions, conv);

/// Pools of one kind. Plain maps of [f32, f64]; `with_index` also writes positions of maxima, null for averages.
struct pool_functions {
  kernel plain[2], with_index[2];
  kernel pairs, pairs_with_index;  // f32, for windows that `is_pairs`
  kernel blocked;                  // f32, index must be null
  /// The kernel of plain maps: `type` 0 for f32, 1 for f64.
  kernel of(const window& w, int type, bool index) const {
    if (type == 0 && w.is_pairs()) return index ? pairs_with_index : pairs;
    return (index ? with_index : plain)[type];
  }
};
LAMINA_FAMILY(pool_functions, max_pool);
LAMINA_FAMILY(pool_functions, average_pool);
struct pool_grad_functions {
  kernel of[2];  // plain; [f32, f64]
};
LAMINA_FAMILY(pool_grad_functions, max_pool_grad);
LAMINA_FAMILY(pool_grad_functions, average_pool_grad);

}  // namespace lamina::kernels
