// Attention with a key-value cache: scores against cached keys and the new keys, softmax over both, products with the
// values of both.  The cost depends on the number of cached positions, not on the capacity.
#pragma once
#include "attention.h"
#include "counted.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace attend {

/// Row stride of the scores in elements.
LAMINA_INLINE long score_row(const cached_attention_args& a) { return (a.capacity + a.queries + 15) / 16 * 16 + 16; }
LAMINA_INLINE long piece_of(const cached_attention_args& a) {
  const long rows = a.groups * a.queries;
  return rows < attention_rows ? rows : attention_rows;
}

/// Product for rows of scores against `keys` unpacked keys; for few rows, a matrix-vector product for one row.
LAMINA_INLINE gemm_args cached_scores(const cached_attention_args& a, long rows, long keys) {
  gemm_args p{};
  const bool few = rows <= few_queries;
  p.m = few ? keys : rows, p.n = few ? 1 : keys, p.k = a.depth;
  p.a_row = a.depth, p.a_column = 1;
  p.b_row = 1, p.b_column = a.depth;
  p.c_row = few ? 1 : score_row(a);
  p.batch = 1;
  return p;
}
LAMINA_INLINE gemm_args cached_mixture(const cached_attention_args& a, long rows, long keys) {
  gemm_args p{};
  p.m = rows, p.n = a.width, p.k = keys;
  p.a_row = score_row(a), p.a_column = 1;
  p.b_row = a.width, p.b_column = 1;
  p.c_row = a.width;
  p.batch = 1;
  return p;
}

template <class T> std::size_t cached_scratch_bytes(const cached_attention_args& a) {
  const long whole = a.groups * a.queries, piece = piece_of(a), last = piece > 0 ? whole % piece : 0;
  std::size_t product = 0;
  const auto at_least = [&](gemm_args p) {
    a.product->prepare(&p);
    const std::size_t bytes = a.product->scratch_bytes(&p);
    product = bytes > product ? bytes : product;
  };
  const long counts[] = {piece, last};
  for (const long rows : counts) {
    if (rows == 0) continue;
    const long max = a.capacity > a.queries ? a.capacity : a.queries;
    for (long keys = 1; keys <= max; ++keys) {
      at_least(cached_scores(a, rows, keys));
      at_least(cached_mixture(a, rows, keys));
    }
  }
  return aligned(static_cast<std::size_t>(piece * score_row(a)) * sizeof(T)) +
         aligned(static_cast<std::size_t>(piece * a.depth) * sizeof(T)) + aligned(product);
}

/// Writes the scores of `rows` queries against `count` keys to the rows at `to`.
template <class T> LAMINA_INLINE void score(const cached_attention_args& a, const T* query, long rows, const T* keys,
                                            long count, T* to, char* rest) {
  if (count == 0) return;
  gemm_args p = cached_scores(a, rows, count);
  const kernel run = a.product->prepare(&p);
  if (rows > few_queries) {
    p.a = query, p.b = keys, p.c = to;
    run(&p, rest);
    return;
  }
  for (long r = 0; r < rows; ++r) {
    p.a = keys, p.b = query + r * a.depth, p.c = to + r * score_row(a);
    run(&p, rest);
  }
}
/// out (+)= weights `chance` times `count` values.
template <class T> LAMINA_INLINE void mix(const cached_attention_args& a, const T* chance, long rows, const T* values,
                                          long count, T* out, bool add, char* rest) {
  if (count == 0) return;
  gemm_args p = cached_mixture(a, rows, count);
  p.accumulate = add ? 1 : 0;
  const kernel run = a.product->prepare(&p);
  p.a = chance, p.b = values, p.c = out;
  run(&p, rest);
}

template <class T> LAMINA_APART void cached(const cached_attention_args& a, char* scratch) {
  const long seen = *a.seen, row = score_row(a), whole = a.groups * a.queries, piece = piece_of(a);
  if (seen < 0 || seen > a.capacity) {
    count_wrong(a.invalid, seen, 0);
    return;
  }
  T* const scores = reinterpret_cast<T*>(scratch);
  char* const after_scores = scratch + aligned(static_cast<std::size_t>(piece * row) * sizeof(T));
  T* const query = reinterpret_cast<T*>(after_scores);
  char* const rest = after_scores + aligned(static_cast<std::size_t>(piece * a.depth) * sizeof(T));
  const T scale = static_cast<T>(a.scale);
  for (long first = 0; first < whole; first += piece) {
    const long rows = whole - first < piece ? whole - first : piece;
    const T* from = static_cast<const T*>(a.q) + first * a.depth;
    LAMINA_VECTORS for (long j = 0; j < rows * a.depth; ++j) query[j] = from[j] * scale;
    score(a, query, rows, static_cast<const T*>(a.keys), seen, scores, rest);
    score(a, query, rows, static_cast<const T*>(a.k), a.queries, scores + seen, rest);
    constexpr long group = folds::row_group;
    T weight[attention_rows / group][group];
    for (long r = 0; r < rows; r += group) {
      long n[group];
      const soft::row_block<T> b{
          scores + r * row, scores + r * row, row, rows - r < group ? rows - r : group, seen + a.queries, n, nullptr};
      for (long i = 0; i < b.rows; ++i) n[i] = seen + (first + r + i) % a.queries + 1;
      T top[group];
      soft::tops_of_rows(b, top);
      soft::weigh_rows(b, top, weight[r / group]);
      for (long i = 0; i < b.rows; ++i)
        LAMINA_SMALL for (long j = n[i]; j < seen + a.queries; ++j) b.out[i * row + j] = 0;
    }
    T* const out = static_cast<T*>(a.out) + first * a.width;
    mix(a, scores, rows, static_cast<const T*>(a.values), seen, out, false, rest);
    mix(a, scores + seen, rows, static_cast<const T*>(a.v), a.queries, out, seen > 0, rest);
    LAMINA_NO_UNROLL for (long r = 0; r < rows; ++r)
        soft::scale_row(out + r * a.width, a.width, weight[r / group][r % group]);
  }
}

}  // namespace attend
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
