// Gather and scatter by integer positions, running sums, products of all other elements, and sorting, along one axis of
// [outer, length, inner].
#pragma once
#include "kernels.h"

namespace lamina::kernels {

/// A negative position p of an axis means p + length.  A position outside -length..length-1 increments invalid[0]: it
/// reads as 0, and writes to it are skipped.  invalid[1] and invalid[2] are the first one and its position in `index`.

/// out[o, j, :] = in[o, index[j], :] for `rows` rows o * count + j from `first` on, each of `row` bytes.
struct gather_args {
  const void* in;
  const std::int64_t* index;
  void* out;  // of row `first`
  std::int64_t* invalid;
  long first, rows, count, length, row;
};
/// out[o, k, i] = in[o, index[o, k, i], i] for elements of `size` bytes (1, 2, 4, 8).
struct take_args {
  const void* in;
  const std::int64_t* index;
  void* out;
  std::int64_t* invalid;
  long outer, count, length, inner;
  std::int32_t size, pad;
};
/// Clears the positions low..high-1 of out, then out[o, index[k], :] += in[o, k, :] there, k in ascending order.  Only
/// the call with `low` 0 counts invalid positions.
struct scatter_rows_args {
  const void* in;
  const std::int64_t* index;
  void* out;
  std::int64_t* invalid;
  long outer, count, length, inner, low, high;
};
/// out[o, index[o, k, i], i] += in[o, k, i] for the first `columns` of `inner`, k in ascending order.
struct scatter_elements_args {
  const void* in;
  const std::int64_t* index;
  void* out;
  std::int64_t* invalid;
  long outer, count, length, inner, columns;
};
/// out[index[k], :] = in[k, :], k in ascending order, rows of `row` bytes.  Skips positions out of range.
struct put_rows_args {
  const void* in;
  const std::int64_t* index;
  void* out;
  long count, length, row;
};
/// out[k, :] = sum of in[j, :] over all j whose index[j] is the same position as index[k], j in ascending order.
/// Scratch: order_scratch(count) bytes.
struct sum_alike_args {
  const void* in;
  const std::int64_t* index;
  void* out;
  std::int64_t* invalid;
  long count, length, inner;
};
/// out[r, :] = 0 except out[r, index[r]] = the first `size` bytes of `value`.
struct one_hot_args {
  const std::int64_t* index;
  void* out;
  std::int64_t* invalid;
  long rows, depth;
  std::int32_t size, pad;
  unsigned char value[8];
};
/// out[o, l, i] = sum of in[o, 0..l, i]; float32 adds in double, integers wrap.  `exclusive` omits in[o, l, i],
/// `reverse` sums from the end.
struct running_sum_args {
  const void* in;
  void* out;
  long outer, length, inner;
  std::int32_t exclusive, reverse;
};
/// out[r, k] = product of in[r, j] over j != k or, with `tangent`, its directional derivative:
/// sum over i != k of tangent[r, i] times the product over j != i, k.  In double, without division.
/// Scratch: product_of_others_scratch(length) bytes.
struct product_of_others_args {
  const void* in;
  const void* tangent;  // null: none
  void* out;
  long rows, length;
};
constexpr long product_of_others_scratch(long length) { return 16 * length; }
/// out[o, 0..count-1, i]: positions of the largest (or smallest) elements, sorted; ties by position, NaN above all
/// numbers.  Scratch: order_scratch(length) bytes.
struct order_args {
  const void* in;
  std::int64_t* out;
  long outer, length, inner, count;
  std::int32_t largest, pad;
};
constexpr long order_scratch(long length) { return 32 * length; }

/// How a scattered value combines with the element at its position; none: replaces it.
enum class scatter_reduction : std::int32_t { none, add, multiply, maximum, minimum };
inline constexpr int axes_at_most = 8;
/// Row r has the coordinates index[r * parts + i], i < parts, in axes of `extent`, within batch r / count of `whole`
/// rows. Gather: out[r - first] = the row of `in` there, `row` bytes; zeros if out of range. Scatter: reduces
/// in[r - first] into the row of `out` there, `row` elements, r in ascending order; skips coordinates out of range.
struct coordinate_args {
  const void* in;
  const std::int64_t* index;
  void* out;
  std::int64_t* invalid;
  long first, rows, count, whole, row, extent[axes_at_most];
  std::int32_t parts, reduction;
};
/// Reduces in[i] into the element of `out` with the coordinates of index[i], but position index[i] along an axis of
/// `length`; i in ascending order.  `stride` are those of `out`, 0 for that axis.
struct put_along_axis_args {
  const void* in;
  const std::int64_t* index;
  void* out;
  std::int64_t* invalid;
  long extent[axes_at_most], stride[axes_at_most], length, axis_stride;
  std::int32_t rank, reduction;
};

struct row_functions {
  kernel gather, take, one_hot, put_rows;
  kernel gather_nd;  // args: coordinate_args
};
LAMINA_FAMILY(row_functions, rows);

/// One kernel for each element type; null if unsupported.
struct typed_functions {
  kernel of[element_count];
};
LAMINA_FAMILY(typed_functions, scatter_nd);      // args: coordinate_args; only numeric types reduce
LAMINA_FAMILY(typed_functions, put_along_axis);  // likewise
LAMINA_FAMILY(typed_functions, running_sum);
LAMINA_FAMILY(typed_functions, running_product);  // args: running_sum_args; float32 multiplies in double
LAMINA_FAMILY(typed_functions, scatter_rows);
LAMINA_FAMILY(typed_functions, scatter_elements);
LAMINA_FAMILY(typed_functions, sum_alike);
LAMINA_FAMILY(typed_functions, order);
LAMINA_FAMILY(typed_functions, product_of_others);

}  // namespace lamina::kernels
