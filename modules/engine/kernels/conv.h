// Two-dimensional convolution and pooling, forward and backward; layouts: plain [N, C, H, W] and channel-blocked
// [N, ceil(C / lanes), H, W, lanes] with zeros in the channels beyond C.
#pragma once
#include "gemm.h"
#include "kernels.h"

namespace lamina::kernels {

/// Sizes of one convolution or pooling window sweep.  Padding at the end follows from the sizes; averages that count it
/// read how much `more` it is than at the start.
struct window {
  long channels, height, width, out_channels, out_height, out_width;
  long kernel_h, kernel_w, stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups, more_h = 0, more_w = 0;
  long large_tiles =
      0;  // 1: results may be made in tiles of 4x4, which takes fewer multiplications and is less accurate

  /// Rows and columns, with those of padding, that `count` neighboring rows or columns of results read.
  [[gnu::always_inline]] constexpr long rows_under(long count) const {
    return (count - 1) * stride_h + (kernel_h - 1) * dilation_h + 1;
  }
  [[gnu::always_inline]] constexpr long columns_under(long count) const {
    return (count - 1) * stride_w + (kernel_w - 1) * dilation_w + 1;
  }
  /// 2x2 windows side by side, none of them cut off.
  [[gnu::always_inline]] constexpr bool is_pairs() const {
    return kernel_h == 2 && kernel_w == 2 && stride_h == 2 && stride_w == 2 && pad_h == 0 && pad_w == 0 &&
           2 * out_height <= height && 2 * out_width <= width;
  }
};

/// Of `count` results along an axis of `size`, those [first, last) whose tap lies inside of it: that of result 0 is at `shift`.
struct reached_results {
  long first, last;
  [[gnu::always_inline]] constexpr reached_results(long shift, long stride, long size, long count)
      : first(shift < 0 ? (stride - 1 - shift) / stride : 0),
        last(size <= shift ? 0 : (size - shift + stride - 1) / stride) {
    if (last > count) last = count;
  }
};

/// Plain layout, directly or through im2col and a matrix product, images [first, first + count) of N.  One struct for
/// three kernels:
///   forward:      out[n, o, y, x] = sum of weight[o, c, i, j] in[n, c, ...] (+ bias[o]), clamp
///   input_grad:   out = gradient with respect to `in`; `in` holds the gradient of the result (weights are read)
///   weight_grad:  out[o, c, i, j] = sum over the images of this call, in an order that depends on the window and
///                 `count` alone (out is overwritten); `in` holds the forward input, `weight` the result's gradient
struct conv_plain_args {
  window w;
  long first, count;
  long first_row, row_count;  // of a part of the results of forward; 0: all of them
  const void* in;
  const void* weight;
  const void* bias;
  void* out;
  double low, high;
  std::int32_t clamp, pad;
  kernel product_run;
  gemm_args product, product_tail;        // decided by `prepare`: a full group of rows, and the last, shorter one
  void (*tile[4])(const void*) noexcept;  // decided by `prepare`
  void (*mend)(const void*) noexcept;     // decided by `prepare`: follows where padding may have met what is not finite
  long decision[16];                      // decided by `prepare`
  template <class F> void each_code(F f) const {
    f(product_run);
    product.each_code(f), product_tail.each_code(f);
    for (const auto& t : tile) f(t);
    f(mend, weight);
  }
};
struct conv_plain_functions {
  kernel forward, input_grad, weight_grad;
  /// Fills what is decided for the given role (0 forward, 1 input_grad, 2 weight_grad) from `w`.
  void (*prepare)(conv_plain_args* args, int role) noexcept;
  /// Enough for this `count` and smaller ones, after `prepare`.
  std::size_t (*scratch_bytes)(const conv_plain_args* args, int role) noexcept;
  kernel forward_tiles;  // `forward` of what `prepare` has decided to compute without a product; null: none
  /// Whether a call after `prepare` takes a matrix of the input's elements under each result.
  int (*by_columns)(const conv_plain_args* args) noexcept;
  /// The kernel of a forward call after `prepare`.
  kernel forward_of(const conv_plain_args& a) const {
    return a.product_run || !forward_tiles ? forward : forward_tiles;
  }
};

/// Direct convolution over blocked buffers (inference).  `planar_in`: the input is plain (few channels); depthwise
/// where groups == channels == out_channels.  Images [first, first + count).  Where `clamp`, low <= 0 <= high unless
/// out_channels is a multiple of the lanes: results beyond out_channels are zeros.
struct conv_blocked_args {
  window w;
  long first, count;
  const float* in;
  const float* weight;    // packed
  const float* bias;      // padded to the block with zeros; null: none
  const float* residual;  // laid out as `out`; null: none
  float* out;
  float low, high;
  std::int32_t clamp, planar_in;
  long first_row, row_count;  // of a part by rows: from a multiple of `row_unit` to one or the last; 0: all of them
  long whole_out_channels;    // of the image that this is a part of, where it is: sums go as in the whole
  void (*tile[12])(const void*) noexcept;  // decided by `prepare`
  void (*mend)(const void*) noexcept;  // decided by `prepare`: follows where padding may have met what is not finite
  long decision[16];                   // decided by `prepare`
  template <class F> void each_code(F f) const {
    for (const auto& t : tile) f(t);
    f(mend, weight);
  }
};
struct conv_blocked_functions {
  /// Of how many rows of its results parts of an image are multiples, which `prepare` is told; 0: parts are blocks of its channels.
  int (*row_unit)(const window* w, int planar_in) noexcept;
  /// Whether it is computed by Winograd's way, from weights that are no copies of the filters' elements.
  int (*by_winograd)(const window* w, int planar_in) noexcept;
  /// 1 if this window can be run here: depthwise, or without groups, and with dilation along columns, or along the
  /// one row of a map.
  int (*supports)(const window* w, int planar_in) noexcept;
  /// Fills what is decided from `w`, and gives the kernel.
  kernel (*prepare)(conv_blocked_args* args) noexcept;
  std::size_t (*scratch_bytes)(const conv_blocked_args* args) noexcept;
  std::size_t (*packed_bytes)(const window* w, int planar_in) noexcept;
  kernel pack;  // args: conv_pack_args
};
struct conv_pack_args {
  window w;
  const float* weight;
  float* packed;
  std::int32_t planar_in;
  std::int32_t
      turned;  // the weights [channels, out_channels, kh, kw] of the convolution whose input's gradient this one is
};

/// plain [images, channels, pixels] <-> blocked [images, ceil(channels / lanes), pixels, lanes]
struct reorder_args {
  const void* in;
  void* out;
  long images, channels, pixels;
};

/// One block of channels of `images` images whose lanes are channels of blocks elsewhere: lane i of a pixel is lane `lane[i]` of that
/// pixel in block `block[i]` of `blocks` ones; where that is negative, zero.
struct channel_block_args {
  static constexpr int max_lanes = 16;
  const void* in[max_lanes];  // block by block: that of the first image
  void* out;
  long in_image[max_lanes], out_image;  // elements between images
  long images, pixels;
  std::int32_t blocks, lane[max_lanes], block[max_lanes], pad;
};

/// Pooling over `images` maps of w.channels channels (plain) or channel blocks (blocked: w.channels counts channels).
/// `index` (null: none): for each result the position y * width + x of its maximum in the input map, int32:
/// the first of equal maxima, the last NaN, -1 for a window that lies in the padding altogether.
struct pool_args {
  window w;
  long images;
  const void* in;
  void* out;
  std::int32_t* index;
  std::int32_t count_padding, pad;
};
/// out (gradient of the input, fully overwritten) from in (gradient of the result) and, for max, the index of the
/// forward run.  A negative index takes no gradient; one behind the map takes none and counts into invalid[0]; the first
/// one is noted behind it, and where it is in `index`.
struct pool_grad_args {
  window w;
  long images;
  const void* in;
  const std::int32_t* index;
  void* out;
  std::int64_t* invalid;  // of max
  std::int32_t count_padding, pad;
};

/// A convolution in channel blocks and the windows over its results, those of a pool or of a depthwise convolution: bands of rows are
/// made and taken one after the other, so that the results between them stay near. Images [first, first + count), bands
/// [first_band, first_band + bands) of each.
struct conv_bands {
  enum { whole, rest, above, kinds };
  // Prepared for `rows` rows, for those of a shorter last band, and for those above a part's first band that its windows read, too.
  conv_blocked_args conv[kinds];
  kernel run[kinds];
  window maps;  // the windows over the whole results of the convolution
  long first, count, first_band, bands;
  long rows;          // of results of the convolution in a band: a multiple of the stride of the windows
  long in_image;      // numbers of an image
  std::size_t bytes;  // of the rows held at once

  [[gnu::always_inline]] constexpr long reach() const { return maps.rows_under(1); }
  [[gnu::always_inline]] constexpr long rows_held() const { return rows + reach() - 1; }
  /// How many rows of windows lie within the first `made` rows of the map, or reach over its end where those are all.
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
  pool_args pool;  // `out` is the first image
  kernel pool_run;
  template <class F> void each_code(F f) const { f(pool_run), conv_bands::each_code(f); }
};
struct conv_depthwise_args : conv_bands {
  conv_blocked_args depthwise;  // prepared for a block of channels of the whole maps; `out` is the first image
  kernel depthwise_run;
  template <class F> void each_code(F f) const { f(depthwise_run), depthwise.each_code(f), conv_bands::each_code(f); }
};

/// A convolution of plain images through blocks of channels: each image is laid out in blocks, and its results plainly again, while
/// they are near. Images [first, first + count).
struct conv_through_args {
  conv_blocked_args conv;  // prepared for one image
  kernel conv_run;
  const float* in;
  float* out;
  long first, count;
  std::size_t in_bytes, out_bytes;  // of an image in blocks
  template <class F> void each_code(F f) const {
    f(conv_run);
    conv.each_code(f);
  }
};
struct conv_functions {
  conv_plain_functions plain[2];              // [f32, f64]
  conv_blocked_functions blocked;             // f32
  kernel to_blocked, from_blocked;            // args: reorder_args, f32
  kernel pooled, depthwise_after;             // args: conv_pooled_args, conv_depthwise_args
  kernel through_blocks;                      // args: conv_through_args
  kernel channel_block, channel_block_bytes;  // args: channel_block_args, of float and of int8
};

LAMINA_FAMILY(conv_functions, conv);

/// Pools of one kind. Plain maps of [f32, f64]; positions of maxima where there are any.
struct pool_functions {
  kernel plain[2], with_index[2];
  kernel pairs, pairs_with_index;  // of f32 where the window `is_pairs`
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
