// Attention by blocks of queries: scores of a block against all keys it sees, exponentials in place, product with the
// values, division of each row by its sum of exponentials.
// Memory is linear in the number of keys, and the result does not depend on how queries are split.
#pragma once
#include "double_math.h"
#include "softmax.h"
#include "transformer.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace attend {

constexpr std::size_t aligned(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

/// Row stride of the scores in elements: not a power of two, to avoid conflicts in the caches.
LAMINA_INLINE long score_row(const attention_args& a) { return (a.keys + 15) / 16 * 16 + 16; }

/// Whole registers of columns: rows of scores and packed keys have room beyond the last key.
template <class T> LAMINA_INLINE gemm_args scores(const attention_args& a, long rows, long keys) {
  gemm_args p{};
  p.m = rows, p.n = (keys + width<T> - 1) / width<T> * width<T>, p.k = a.depth;
  p.a_row = a.depth, p.a_column = 1;
  p.b_row = 1, p.b_column = a.k_row;
  p.c_row = score_row(a);
  p.prepacked = 1;
  p.batch = 1;
  a.product->prepare(&p);
  return p;
}
template <class T> LAMINA_INLINE gemm_args mixture(const attention_args& a, long rows, long keys) {
  gemm_args p{};
  p.m = rows, p.n = a.width, p.k = keys;
  p.a_row = score_row(a), p.a_column = 1;
  p.b_row = a.v_row, p.b_column = 1;
  p.c_row = a.out_row;
  p.prepacked = a.packs_values != 0 || a.values_packed != 0;
  p.batch = 1;
  a.product->prepare(&p);
  return p;
}
/// Size in bytes of the keys, and of the values, that a call packs.
LAMINA_INLINE std::size_t key_bytes(const attention_args& a) {
  return a.keys_packed == 0 ? aligned(a.product->packed_bytes(a.depth, a.keys)) : 0;
}
LAMINA_INLINE bool packs_values(const attention_args& a) { return a.packs_values != 0 && a.values_packed == 0; }
LAMINA_INLINE std::size_t value_bytes(const attention_args& a) {
  return packs_values(a) ? aligned(a.product->packed_bytes(a.keys, a.width)) : 0;
}
/// Number of keys that queries up to `last_query` see.
LAMINA_INLINE long seen(const attention_args& a, long last_query) {
  const long n = last_query + 1 + a.keys - a.queries;
  return a.causal == 0 || n > a.keys ? a.keys : n < 0 ? 0 : n;
}

template <class T> std::size_t scratch_bytes(const attention_args& a) {
  std::size_t product = 0;
  for (long i = 0; i < a.count; i += attention_rows) {
    const long rows = a.count - i < attention_rows ? a.count - i : attention_rows;
    const long keys = seen(a, a.first + i + rows - 1);
    if (keys == 0) continue;
    const gemm_args s = scores<T>(a, rows, keys), m = mixture<T>(a, rows, keys);
    const std::size_t needed[] = {a.product->scratch_bytes(&s), a.product->scratch_bytes(&m)};
    for (const std::size_t bytes : needed) product = bytes > product ? bytes : product;
  }
  return key_bytes(a) + value_bytes(a) + aligned(static_cast<std::size_t>(attention_rows * score_row(a)) * sizeof(T)) +
         aligned(static_cast<std::size_t>(attention_rows * a.depth) * sizeof(T)) + aligned(product);
}

/// Adds the mask to a row of scores, or sets the scores that a bool mask hides to -infinity.
template <class T> LAMINA_APART void mask_row(const attention_args& a, T* score, long query, long n) {
  const long at = query * a.mask_row, step = a.mask_column;
  if (a.mask_is_bool != 0) {
    const auto* mask = static_cast<const std::uint8_t*>(a.mask) + at;
    LAMINA_SMALL for (long j = 0; j < n; ++j) score[j] =
        mask[j * step] != 0 ? score[j] : -std::numeric_limits<T>::infinity();
  } else if (step == 1) {
    const T* mask = static_cast<const T*>(a.mask) + at;
    LAMINA_VECTORS for (long j = 0; j < n; ++j) score[j] += mask[j];
  } else {
    const T value = static_cast<const T*>(a.mask)[at];
    LAMINA_VECTORS for (long j = 0; j < n; ++j) score[j] += value;
  }
}
/// Replaces the scores of queries from `first` on by exponentials, 0 for hidden keys; `weight` scales row sums to 1.
template <class T> LAMINA_INLINE void weigh(const attention_args& a, T* score, long first, long rows, long keys,
                                            T (&weight)[folds::row_group]) {
  constexpr T hidden = -std::numeric_limits<T>::infinity();
  long n[folds::row_group];
  const soft::row_block<T> b{score, score, score_row(a), rows, keys, n, nullptr};
  for (long i = 0; i < rows; ++i) {
    n[i] = seen(a, first + i);
    if (a.mask != nullptr && n[i] > 0) mask_row(a, score + i * b.stride, first + i, n[i]);
  }
  T top[folds::row_group];
  soft::tops_of_rows(b, top);
  for (long i = 0; i < rows; ++i)  // a row with a NaN is not hidden
    if (a.mask != nullptr && top[i] == hidden && folds::row<folds::maximum, T>(score + i * b.stride, n[i]) == hidden)
      n[i] = 0;
  soft::weigh_rows(b, top, weight);
  for (long i = 0; i < rows; ++i) {
    if (n[i] == 0) weight[i] = 0;
    LAMINA_SMALL for (long j = n[i]; j < keys; ++j) score[i * b.stride + j] = 0;
  }
}

template <class T> LAMINA_APART void run(const attention_args& a, char* scratch) {
  char* const packed = scratch;
  char* const values = packed + key_bytes(a);
  const std::size_t packed_bytes = key_bytes(a) + value_bytes(a);
  long packed_values = 0;
  T* const score = reinterpret_cast<T*>(packed + packed_bytes);
  const std::size_t score_bytes = aligned(static_cast<std::size_t>(attention_rows * score_row(a)) * sizeof(T));
  T* const query = reinterpret_cast<T*>(packed + packed_bytes + score_bytes);
  char* const rest =
      packed + packed_bytes + score_bytes + aligned(static_cast<std::size_t>(attention_rows * a.depth) * sizeof(T));
  if (a.keys > 0 && a.keys_packed == 0) {
    gemm_prepack_args pack{};
    pack.k = a.depth, pack.n = a.keys;
    pack.b = a.k, pack.b_row = 1, pack.b_column = a.k_row;
    pack.packed = packed;
    a.product->prepack(&pack, rest);
  }
  const T scale = static_cast<T>(a.scale);
  for (long i = 0; i < a.count; i += attention_rows) {
    const long first = a.first + i, rows = a.count - i < attention_rows ? a.count - i : attention_rows;
    const long keys = seen(a, first + rows - 1);
    T* const out = static_cast<T*>(a.out) + first * a.out_row;
    if (keys == 0) {
      for (long r = 0; r < rows; ++r)
        __builtin_memset(out + r * a.out_row, 0, static_cast<std::size_t>(a.width) * sizeof(T));
      continue;
    }
    const T* from = static_cast<const T*>(a.q) + first * a.q_row;
    LAMINA_NO_UNROLL for (long r = 0; r < rows; ++r) LAMINA_VECTORS for (long j = 0; j < a.depth; ++j)
        query[r * a.depth + j] = from[r * a.q_row + j] * scale;
    gemm_args s = scores<T>(a, rows, keys);
    s.a = query, s.b = a.keys_packed != 0 ? a.k : packed, s.c = score;
    a.product->run(&s, rest);
    constexpr long group = folds::row_group;
    T weight[attention_rows / group][group];
    for (long r = 0; r < rows; r += group)
      weigh(a, score + r * score_row(a), first + r, rows - r < group ? rows - r : group, keys, weight[r / group]);
    if (packs_values(a) && packed_values != keys) {
      gemm_prepack_args pack{keys, a.width, a.v, a.v_row, 1, values};
      a.product->prepack(&pack, rest);
      packed_values = keys;
    }
    gemm_args m = mixture<T>(a, rows, keys);
    m.a = score, m.b = packs_values(a) ? values : a.v, m.c = out;
    a.product->run(&m, rest);
    LAMINA_NO_UNROLL for (long r = 0; r < rows; ++r)
        soft::scale_row(out + r * a.out_row, a.width, weight[r / group][r % group]);
  }
}

// --- rotary positions -----------------------------------------------------------------------------------------------

/// Sines and cosines of the angles at each position: [length][2][depth / 2].
template <class T>
LAMINA_INLINE void angles(const rotate_args& a, const std::int64_t* positions, T* table, double* frequency) {
  const long half = a.depth / 2;
  for (long i = 0; i < half; ++i)
    frequency[i] = __builtin_pow(a.base, -2. * static_cast<double>(i) / static_cast<double>(a.depth));
  for (long t = 0; t < a.length; ++t, table += a.depth) {
    const auto position = static_cast<double>(positions[t]);
    if (__builtin_fabs(position) <= static_cast<double>(wide::sine_limit) && sizeof(T) == 4) {
      LAMINA_VECTORS for (long i = 0; i < half; ++i) {
        table[i] = static_cast<T>(wide::sine(position * frequency[i]));
        table[half + i] = static_cast<T>(wide::cosine(position * frequency[i]));
      }
    } else {
      LAMINA_SMALL for (long i = 0; i < half; ++i) {
        table[i] = static_cast<T>(__builtin_sin(position * frequency[i]));
        table[half + i] = static_cast<T>(__builtin_cos(position * frequency[i]));
      }
    }
    if (a.inverse != 0) LAMINA_SMALL for (long i = 0; i < half; ++i) table[i] = -table[i];
  }
}
template <class T> LAMINA_APART void rotate(const rotate_args& a, char* scratch) {
  const long half = a.depth / 2;
  double* const frequency = reinterpret_cast<double*>(scratch);
  T* const table = reinterpret_cast<T*>(scratch + aligned(static_cast<std::size_t>(half) * sizeof(double)));
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  for (long o = 0; o < a.outer; ++o) {
    if (o == 0 || a.positions_outer != 0) angles(a, a.positions + o * a.positions_outer, table, frequency);
    const T* rotation = table;
    for (long t = 0; t < a.length; ++t, in += a.depth, out += a.depth, rotation += a.depth) {
      const T *sine = rotation, *cosine = rotation + half;
      if (a.interleaved != 0) {
        LAMINA_SMALL for (long i = 0; i < half; ++i) {
          const T x = in[2 * i], y = in[2 * i + 1];
          out[2 * i] = x * cosine[i] - y * sine[i];
          out[2 * i + 1] = x * sine[i] + y * cosine[i];
        }
      } else {
        LAMINA_VECTORS for (long i = 0; i < half; ++i) {
          const T x = in[i], y = in[half + i];
          out[i] = x * cosine[i] - y * sine[i];
          out[half + i] = x * sine[i] + y * cosine[i];
        }
      }
    }
  }
}

template <class T> LAMINA_APART void rotate_by(const rotate_by_args& a) {
  const long half = a.depth / 2, table = a.rows * a.depth;
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  for (long plane = 0; plane < a.outer * a.outer_repeat; ++plane) {
    const T* cosine = static_cast<const T*>(a.cosine) + plane / a.outer_repeat * table;
    const T* sine = static_cast<const T*>(a.sine) + plane / a.outer_repeat * table;
    for (long row = 0; row < a.rows; ++row, cosine += a.depth, sine += a.depth)
      for (long again = 0; again < a.row_repeat; ++again, in += a.depth, out += a.depth) {
        if (a.interleaved != 0) {
          LAMINA_SMALL for (long i = 0; i < a.depth; i += 2) {
            const T x = in[i], y = in[i + 1];
            out[i] = x * cosine[i] - y * sine[i];
            out[i + 1] = y * cosine[i + 1] + x * sine[i + 1];
          }
        } else {
          LAMINA_VECTORS for (long i = 0; i < half; ++i) {
            const T x = in[i], y = in[half + i];
            out[i] = x * cosine[i] - y * sine[i];
            out[half + i] = y * cosine[half + i] + x * sine[half + i];
          }
        }
      }
  }
}

}  // namespace attend
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
