// Quantized int8 tensors, value = (q - zero_point) * scale, and their integer products.
//
// Sums are exact in int32, so every product form on every instruction set gives the same bits.
#pragma once
#include "conv.h"
#include "kernels.h"

namespace lamina::kernels {

/// Quantize: out = saturated(round(in / scale) + zero point), ties to even, NaN as 0. Dequantize: out = (in - zero
/// point) * scale.  Shapes: [outer, channels, inner] with a scale and a zero point for each channel.
struct quantize_args {
  long outer, channels, inner;
  const void* in;
  void* out;
  const float* scale;
  const std::int8_t* zero_point;
};

/// How an int32 sum becomes an int8 result: saturated(round(sum * x_scale * w_scale / y_scale) + y_zero_point) within
/// [low, high], a subrange of [-128, 127]; ties to even.  The pointers are operands of the graph, read at run time.
struct requantization {
  const float* x_scale;
  const float* w_scale;
  const float* y_scale;  // w_scale: one, or one for each output channel
  const std::int8_t* x_zero_point;
  const std::int8_t* y_zero_point;
  const std::int32_t* bias;  // for each output channel, in units of x_scale * w_scale; null: none
  long w_scale_step;         // 0: one scale for all
  std::int32_t low, high;
};

/// y[i, o] from the sums over p of (x[i, p] - x_zero_point) (w[o, p] - w_zero_point) + bias[o], for rows i and output channels o.
struct quantized_linear_args {
  long rows, columns, depth;
  const std::int8_t* x;
  long x_row;
  const std::int8_t* packed;  // weights, as written by `linear_pack`
  std::int8_t* y;
  long y_row;
  requantization to;
  const std::int8_t* w_zero_point;  // read only if `has_w_zero_point`; else 0
  bool has_w_zero_point;
};
/// The weight of column c and depth k is w[c * w_column + k * w_depth].
struct quantized_linear_pack_args {
  long columns, depth, w_column, w_depth;
  const std::int8_t* w;
  std::int8_t* packed;
};

/// y[i, o] = the sum over p of (x[i, p] - x_zero_point) (w[o, p] - w_zero_point), as int32, which wraps.
struct integer_linear_args {
  long rows, columns, depth;
  const std::int8_t* x;
  long x_row;
  const std::int8_t* packed;  // weights, as written by `linear_pack`
  std::int32_t* y;
  long y_row;
  const std::int8_t* x_zero_point;
  const std::int8_t* w_zero_point;  // read only if `has_w_zero_point`; else 0
  bool has_w_zero_point;
};

/// Convolution in plain layout, images [first, first + count), output rows [first_row, first_row + rows), and of each
/// group the filters [first_filter, first_filter + filters), where first_filter is a multiple of 16; a depthwise or
/// Winograd convolution computes all filters. Padding is the value 0, that is x_zero_point. `w.channels` counts channels
/// of the filters; images have 1 / `repeats` of them, which filters read `repeats` times. `conv_sums` reads only
/// x_zero_point of `to` and writes int32.
struct quantized_conv_args {
  window w;
  long first, count, first_row, rows, first_filter, filters, repeats;
  const std::int8_t* in;
  const std::int8_t* packed;  // weights, as written by `conv_pack`
  void* out;
  requantization to;
};
/// weight: [O, C / groups, KH, KW]
struct quantized_conv_pack_args {
  window w;
  const std::int8_t* weight;
  std::int8_t* packed;
};

/// Values of `conv_order`: from 2 on of depthwise convolutions; from 3 on filters are converted, not only moved; the last
/// one is of Winograd convolutions, which compute pairs of rows.
inline constexpr int conv_order_of_depthwise = 2, conv_order_of_converted = 3, conv_order_of_winograd = 5;

/// Index of the product form with AMX.
inline constexpr int quantized_form_of_amx = 3;

/// One form of the products; each packs weights in its own layout. Results are the same. `sums` and `conv_sums` are
/// null in the form for weights of 7 bits.
struct quantized_products {
  kernel linear;     // args: quantized_linear_args
  kernel conv;       // args: quantized_conv_args
  kernel sums;       // args: integer_linear_args
  kernel conv_sums;  // args: quantized_conv_args
  std::size_t (*linear_scratch_bytes)(const quantized_linear_args* args) noexcept;
  std::size_t (*conv_scratch_bytes)(const quantized_conv_args* args) noexcept;
  std::size_t (*linear_packed_bytes)(long columns, long depth) noexcept;
  std::size_t (*conv_packed_bytes)(const window* w) noexcept;
  int (*conv_order)(const window* w) noexcept;  // layout of packed weights: must match to share them
  kernel linear_pack;                           // args: quantized_linear_pack_args
  kernel conv_pack;                             // args: quantized_conv_pack_args
  long tile_rows;                               // rows of x are cut at multiples of this
};

/// y = saturated(round((a - a_zero_point) (a_scale / y_scale) + (b - b_zero_point) (b_scale / y_scale)) + y_zero_point) within
/// [low, high], each step in float32; ties to even.
/// Row r of a and y begins at r * count, row r of b at r * b_row; `b_step` 0: the row of b is a single number.
struct quantized_add_args {
  long rows, count, b_row, b_step;
  const std::int8_t *a, *b;
  std::int8_t* y;
  const float *a_scale, *b_scale, *y_scale;
  const std::int8_t *a_zero_point, *b_zero_point, *y_zero_point;
  std::int32_t low, high;
};

/// Rows of x for `block_linear`, rounded to 16 bits with a scale for each block.
struct block_rows_args {
  long rows, depth, block, blocks;  // block: a multiple of 16
  long first, count;                // the rows to round
  const float* x;                   // [count, depth]
  void* rounded;                    // of all rows; `block_rows_bytes`
};
/// y[i, o] = the sum over p of x[i, p] (q[o, p] - zero point) scale, for q of 4 or 8 bits in blocks along p; each block
/// has its own scale and zero point.
struct block_linear_args {
  long rows, columns, block, blocks;
  const void* rounded;              // written by `block_rows` of the same form and number of bits
  const std::uint8_t* weight;       // [columns, blocks, bytes of a block]
  const float *scale, *zero_point;  // [columns, blocks]
  long zero_point_step;             // 0: one zero point for all
  float* y;
  long y_row;
};

/// y[i] = table[in[i] + 128].
struct quantized_table_args {
  long count;
  const std::int8_t *in, *table;
  std::int8_t* out;
};

/// saturated(round((sum of x - x_zero_point) (x_scale / y_scale) / count) + y_zero_point) over the positions of a
/// window inside the map; all steps in float32 but the sum; ties to even.  `count` is the number of positions, with
/// padding if `pool_args::count_padding`.
struct quantized_average_args {
  pool_args pool;  // of int8; without index
  const float *x_scale, *y_scale;
  const std::int8_t *x_zero_point, *y_zero_point;
};

/// c[i, j] = sum over l of a[i, l] b[l, j], wrapping on overflow; c is contiguous.
struct integer_product_args {
  const void *a, *b;
  void* c;
  long m, n, k, a_row, a_column, b_row, b_column;
};
/// Matrix products of integers; overflow wraps.
struct integer_functions {
  kernel product[element_count];  // null but for integers; args: integer_product_args
};
LAMINA_FAMILY(integer_functions, integers);

/// Images in blocks of `lanes` channels, [N, ceil(C / lanes), H, W, lanes], each number plus 128 (unsigned, as products
/// of bytes take one operand). Values in the channels beyond C are arbitrary.
///
/// Convolution: images [first, first + count), blocks [first_block, first_block + blocks) of output channels, output
/// rows [first_row, first_row + rows).
struct quantized_blocked_args {
  window w;
  long first, count, first_block, blocks, first_row, rows;
  long plain_in;   // `in` is in plain layout, without the 128
  long joined_in;  // `in` is what `join` wrote
  const std::int8_t* in;
  const std::int8_t* packed;  // weights, as written by `pack`
  std::int8_t* out;
  requantization to;
  /// Addend in the layout of `out`, added as by `add` with the results as its a; null: none. The addition interprets
  /// the results with a_scale and a_zero_point, whatever `to` has.
  const std::int8_t* b;
  const float *a_scale, *b_scale, *sum_scale;
  const std::int8_t *a_zero_point, *b_zero_point, *sum_zero_point;
  std::int32_t sum_low, sum_high;
};
struct quantized_blocked_pack_args {
  window w;
  const std::int8_t* weight;  // [O, C / groups, KH, KW]
  std::int8_t* packed;
  long plain_in;
};
/// Convolutions of a product form.
struct quantized_blocked_convolutions {
  /// 1 if this window is supported.
  int (*supports)(const window* w, int plain_in) noexcept;
  std::size_t (*scratch_bytes)(const quantized_blocked_args* args) noexcept;
  std::size_t (*packed_bytes)(const window* w, int plain_in) noexcept;
  kernel conv;            // args: quantized_blocked_args
  kernel pack;            // args: quantized_blocked_pack_args
  kernel join = nullptr;  // args: quantized_join_args; null: images are read as they are
  /// Maps of an image for `join`, and bytes from an image that it writes to the next one; 0 if this convolution reads
  /// images as they are.
  long (*joined_maps)(const window* w, int plain_in) noexcept = nullptr;
  std::size_t (*joined_bytes)(const window* w, int plain_in) noexcept = nullptr;
};
/// Copies blocked images of a convolution as its kernel reads them, so that parts by channels share one copy. Maps
/// [first, first + count) of all images.
struct quantized_join_args {
  window w;
  const std::int8_t *in, *zero_point;
  std::int8_t* out;
  long first, count;
};
struct quantized_blocked_functions {
  quantized_blocked_convolutions convolutions[4];  // as `quantized_functions::products`; null for the first form
  kernel average_pool;                             // args: quantized_average_args
  kernel add;                                      // args: quantized_add_args; two tensors of the same shape
  kernel table;                                    // args: quantized_table_args
};

struct quantized_functions {
  kernel quantize, dequantize;  // args: quantize_args
  /// The product forms of this set; `form()` returns the index of the fastest one for any weights that the processor
  /// supports, 0, 1 or `quantized_form_of_amx`, `form_without_amx()` that of the first two. Where it is 0, the third one is
  /// faster for weights of 7 bits; null if the set has none. The one with AMX packs weights of matrix
  /// products as the second one.
  quantized_products products[4];
  int (*form)() noexcept;
  int (*form_without_amx)() noexcept;
  kernel average_pool;  // args: quantized_average_args
  kernel add;           // args: quantized_add_args
  kernel multiply;      // args: quantized_add_args: (a - a_zero_point) (b - b_zero_point) (a_scale b_scale / y_scale)
  /// [`form_without_amx()`][4, 8 bits]; args: block_rows_args, block_linear_args
  kernel block_rows[2][2], block_linear[2][2];
  std::size_t (*block_rows_bytes)(const block_rows_args* args) noexcept;
  std::size_t (*block_linear_scratch_bytes)(const block_linear_args* args) noexcept;
  kernel table;  // args: quantized_table_args
  /// Null if the set has none.
  const quantized_blocked_functions* blocked;
};

LAMINA_FAMILY(quantized_functions, quantized);

/// Kernels on int8 images that need no scale; blocked ones are null if `quantized_functions::blocked` is.
struct byte_image_functions {
  kernel max_pool, max_pool_blocked;  // args: pool_args; a window entirely in the padding gives -128
  kernel to_blocked, from_blocked;    // args: reorder_args
};
LAMINA_FAMILY(byte_image_functions, byte_images);

}  // namespace lamina::kernels
