// Transformer operations besides matrix products: row normalization, attention, rotary positions.
#pragma once
#include "gemm.h"
#include "kernels.h"

namespace lamina::kernels {

/// Normalizes each row: out = (in - mean) / sqrt(variance + epsilon) * weight + bias, contiguous [rows, length]; without
/// `centered` the mean is 0 (root mean square).  weight, bias, mean and scale (1 / sqrt) may be null.
/// Order of addition: as for sums along rows; the variance adds blocks of 4096 in double.
struct normalize_args {
  const void* in;
  const void* weight;
  const void* bias;
  void* out;
  void* mean;
  void* scale;
  long rows, length;
  double epsilon;
  std::int32_t centered, pad;
};

/// softmax(scale Q K^T + mask) V of one head: queries first .. first + count - 1 of Q [queries, depth], K [keys, depth],
/// V [keys, width] -> out [queries, width]; q_row, k_row, v_row and out_row are strides of rows in elements.
/// mask[i * mask_row + j * mask_column] is added; a bool mask is true for visible keys.
/// causal: query i sees keys j <= i + keys - queries.  A query that sees no key gives zeros.
/// Memory: packed K, packed V if the product requires it (`packs_values`), and `attention_rows` rows of scores.
/// With `keys_packed`, k is what product->prepack wrote of [depth, keys]; with `values_packed`, v that of [keys, width].
struct attention_args {
  const void* q;
  const void* k;
  const void* v;
  const void* mask;
  void* out;
  long queries, keys, depth, width, first, count, mask_row, mask_column, q_row, k_row, v_row, out_row;
  double scale;
  std::int32_t causal, mask_is_bool, packs_values, keys_packed, values_packed, pad;
  const gemm_functions* product;
  template <class F> void each_code(F f) const { f(product); }
};
inline constexpr long attention_rows = 64;

/// Attention of new queries to a key-value cache and to their own keys, for the `groups` query heads of one key head:
/// q [groups * queries, depth], k [queries, depth], v [queries, width], the first *seen rows of the cache, keys
/// [capacity, depth] and values [capacity, width] -> out [groups * queries, width].  Query i sees the cached keys and
/// the new keys j <= i.  *seen outside 0..capacity increments invalid[0], is recorded in
/// invalid[1], and nothing is written.
struct cached_attention_args {
  const void* q;
  const void* k;
  const void* v;
  const void* keys;
  const void* values;
  const std::int64_t* seen;
  void* out;
  std::int64_t* invalid;
  long groups, queries, capacity, depth, width;
  double scale;
  const gemm_functions* product;
  template <class F> void each_code(F f) const { f(product); }
};
/// Maximum number of query rows whose scores are dot products with the unpacked keys.
inline constexpr long few_queries = 4;

/// Rotates pairs of the last axis by position * base^(-2 i / depth): x [outer, length, depth], depth even; the pair i is
/// (i, i + depth / 2), or (2 i, 2 i + 1) where interleaved.  positions int64 [length], or [outer, length] by stride.
struct rotate_args {
  const void* in;
  const std::int64_t* positions;
  void* out;
  long outer, length, depth, positions_outer;
  double base;
  std::int32_t interleaved, inverse;
};
/// out = in cosine + turned(in) sine, where turned maps a pair (x, y) to (-y, x): in [outer, outer_repeat, rows,
/// row_repeat, depth], depth even, cosine and sine [outer, rows, depth].  Pairs as in `rotate_args`.
struct rotate_by_args {
  const void *in, *cosine, *sine;
  void* out;
  long outer, outer_repeat, rows, row_repeat, depth;
  std::int32_t interleaved;
};
/// out[i, j] = j <= i + columns - rows, as bool.
struct causal_args {
  void* out;
  long rows, columns;
};
/// out[i] = i.
struct positions_args {
  std::int64_t* out;
  long count;
};

struct normalize_functions {
  kernel normalize[2];  // [f32, f64]
};
LAMINA_FAMILY(normalize_functions, normalize);

struct attention_functions {
  kernel attention[2], cached_attention[2];  // [f32, f64]
  std::size_t (*attention_scratch_bytes)(const attention_args*, element) noexcept;
  std::size_t (*cached_attention_scratch_bytes)(const cached_attention_args*, element) noexcept;
};
LAMINA_FAMILY(attention_functions, attention);

struct position_functions {
  kernel rotate[2], rotate_by[2];  // [f32, f64]
  kernel causal, positions;
  std::size_t (*rotate_scratch_bytes)(const rotate_args*) noexcept;
};
LAMINA_FAMILY(position_functions, position);

}  // namespace lamina::kernels
