// Reductions, softmax and picks along one axis of [outer, length, inner]; strided copies; random fills.
#pragma once
#include "kernels.h"

namespace lamina::kernels {

/// Elements that a sum adds in a fixed order before it adds the sums of such blocks pairwise.
inline constexpr long sum_block = 4096;

/// out[o, i] = op over l of in[o, l, i]; contiguous operands.  argmax and argmin write int64, the first of equals.
/// Sums: the bits depend on length and inner alone.
struct reduce_args {
  const void* in;
  void* out;
  long outer, length, inner;
  long row = 0;  // elements of `in` from l to l + 1, of which the call takes the first `inner`; 0: inner
  [[gnu::always_inline]] constexpr long step() const { return row ? row : inner; }
};

/// Softmax or log-softmax along `length` of [outer, length, inner].
struct softmax_args {
  const void* in;
  void* out;
  long outer, length, inner;
  long row = 0;  // elements of `in` and `out` from one position to the next, as above
  [[gnu::always_inline]] constexpr long step() const { return row ? row : inner; }
};
/// out[r] = in[r, index[r]] (pick), or out[r, :] = 0 except out[r, index[r]] = in[r] (spread). An index outside
/// 0..length-1 writes 0 and increments invalid[0]; invalid[1] and invalid[2] record the first such index and its row.
struct pick_args {
  const void* in;
  const std::int64_t* index;
  void* out;
  std::int64_t* invalid;
  long rows, length;
};

/// Adds the number of NaN and infinite elements among `n` to invalid[0].
struct finite_args {
  const void* in;
  std::int64_t* invalid;
  long n;
};

/// Strided copy of up to 8 axes: strides in elements, 0 broadcasts. `size` is bytes per element (1, 2, 4, 8).
struct copy_args {
  const void* in;
  void* out;
  long extent[8], in_stride[8], out_stride[8];
  std::int32_t axes, size;
};
/// Contiguous copy.
struct copy_bytes_args {
  const void* in;
  void* out;
  long bytes;
};
/// Fills `n` elements of `size` bytes with the first `size` bytes of `value`.
struct fill_args {
  void* out;
  long n;
  std::int32_t size, pad;
  unsigned char value[8];
};

/// Philox 4x32-10.  The counter's four words are the block number, the site, and the step's low and high words; the key
/// is the seed's low and high words.  Block number and site count modulo 2^32.
/// f32: element e uses word e % 4 of block e / 4; u = (word >> 8) 2^-24.
/// f64: element e uses words 2 (e % 2) and 2 (e % 2) + 1 of block e / 2; u = (first << 21 | second >> 11) 2^-53.
/// uniform: low + (high - low) u, u in [0, 1), clamped below `high`.  The same bits on every instruction set.
/// normal: mean + deviation z, Box-Muller on pairs of elements (2k, 2k + 1): radius sqrt(-2 log(1 - v)) from the first,
/// angle 2 pi w from the second; the pair gets cosine and sine.  v and w are u of their elements, for f32 from all 32
/// bits of the word.
struct random_args {
  const std::int64_t* state;  // {seed, step}
  void* out;
  long first, n;  // elements [first, first + n) of the whole fill; first % 4 == 0
  std::int64_t site;
  double low, high;  // uniform: bounds; normal: mean, deviation
};

/// One reduction; a program links only those that it names.
struct reduction_functions {
  kernel of[element_count];  // null for unsupported types; no scratch
  bool positions;            // results are positions along the axis, int64
};
LAMINA_FAMILY(reduction_functions, reduce_sum);
LAMINA_FAMILY(reduction_functions, reduce_mean);
LAMINA_FAMILY(reduction_functions, reduce_maximum);
LAMINA_FAMILY(reduction_functions, reduce_minimum);
LAMINA_FAMILY(reduction_functions, reduce_product);
LAMINA_FAMILY(reduction_functions, reduce_argmax);
LAMINA_FAMILY(reduction_functions, reduce_argmin);

struct reduce_functions {
  kernel pick[2];              // [f32, f64]
  kernel spread[4];            // elements of 1, 2, 4 and 8 bytes
  kernel count_not_finite[2];  // args: finite_args
};
LAMINA_FAMILY(reduce_functions, reduce);

struct softmax_functions {
  kernel softmax[2], log_softmax[2];  // [f32, f64]
};
LAMINA_FAMILY(softmax_functions, softmax);

struct copy_functions {
  kernel copy, fill, copy_bytes;
};
LAMINA_FAMILY(copy_functions, copies);

struct random_functions {
  kernel uniform[2], normal[2];  // [f32, f64]
};
LAMINA_FAMILY(random_functions, random);

}  // namespace lamina::kernels
