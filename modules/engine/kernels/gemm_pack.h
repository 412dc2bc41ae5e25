// Packing of operands: B in panels of the tile's columns, A in panels of the tile's rows.
#pragma once
#include "gemm.h"
#include "product_form.h"
#include "simd.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

// B: panels of Vectors registers, [panel][k][columns], the last padded with zeros; from[p * row + j * column].

/// Rows of B are contiguous.  Eight rows at a time across all panels: reads walk along rows, writes stay in few pages.
template <class T, int Vectors> LAMINA_INLINE void pack_b_rows(long k, long count, const T* from, long row, T* to) {
  constexpr int lanes = width<T>, columns = Vectors * lanes;
  constexpr long sweep = 8;
  for (long p0 = 0; p0 < k; p0 += sweep) {
    const long p1 = k < p0 + sweep ? k : p0 + sweep;
    for (long j = 0; j < count; j += columns) {
      T* out = to + j * k;
      const T* in = from + j;
      if (count - j >= columns) {
        for (long p = p0; p < p1; ++p)
          LAMINA_UNROLL for (int v = 0; v < Vectors; ++v)
              store(out + p * columns + v * lanes, load(in + p * row + v * lanes));
      } else {
        LAMINA_UNROLL for (int v = 0; v < Vectors; ++v) {
          const long left = count - j - v * lanes;
          const auto mask = first<T>(left < 0 ? 0 : static_cast<int>(left));
          for (long p = p0; p < p1; ++p) store(out + p * columns + v * lanes, load(in + p * row + v * lanes, mask));
        }
      }
    }
  }
}

/// Columns of B are contiguous (the transposed operand): squares are transposed in registers.
template <class T, int Vectors>
LAMINA_INLINE void pack_b_columns(long k, long count, const T* from, long column, T* to) {
  constexpr int lanes = width<T>, columns = Vectors * lanes;
  for (long j = 0; j < (count + columns - 1) / columns * columns; j += lanes) {
    T* out = to + j / columns * columns * k + j % columns;
    const T* in = from + j * column;
    const long left = count - j;
    for (long p = 0; p < k; p += lanes) {
      const int steps = static_cast<int>(k - p < lanes ? k - p : lanes);
      vec<T> r[lanes];
      if (left >= lanes && steps == lanes) {
        LAMINA_UNROLL for (int i = 0; i < lanes; ++i) r[i] = load(in + i * column + p);
        transpose<T>(r);
        LAMINA_UNROLL for (int i = 0; i < lanes; ++i) store(out + (p + i) * columns, r[i]);
      } else {
        const auto mask = first<T>(steps);
        LAMINA_UNROLL for (int i = 0; i < lanes; ++i) r[i] = i < left ? load(in + i * column + p, mask) : zero<T>();
        transpose<T>(r);
        LAMINA_UNROLL for (int i = 0; i < lanes; ++i) if (i < steps) store(out + (p + i) * columns, r[i]);
      }
    }
  }
}

/// Any strides, one element at a time.
template <class T, int Vectors>
LAMINA_INLINE void pack_b_any(long k, long count, const T* from, long row, long column, T* to) {
  constexpr int columns = Vectors * width<T>;
  for (long j = 0; j < count; j += columns)
    for (long p = 0; p < k; ++p)
      for (long i = j; i < j + columns; ++i) *to++ = i < count ? from[p * row + i * column] : T(0);
}

/// The same for any strides as bfloat16 pairs, with two rows of B in a lane: [panel][pairs of k][columns].
template <int Vectors>
LAMINA_APART void pack_b_pairs(long k, long count, const float* from, long row, long column, float* to) {
  constexpr int lanes = width<float>, columns = Vectors * lanes;
  const long pairs = (k + 1) / 2;
  for (long j = 0; j < (count + columns - 1) / columns * columns; j += lanes) {
    const float* in = from + j * column;
    const int left = static_cast<int>(count - j < 0 ? 0 : count - j < lanes ? count - j : lanes);
    float* out = to + j / columns * columns * pairs + j % columns;
    if (left == 0) {
      LAMINA_NO_UNROLL for (long p = 0; p < pairs; ++p) store(out + p * columns, zero<float>());
      continue;
    }
    const auto inside = first<float>(left);
    for (long p = 0; p < k; p += lanes) {
      const int rows = static_cast<int>(k - p < lanes ? k - p : lanes);
      vec<float> r[lanes];
      if (row == 1) {
        LAMINA_UNROLL for (int i = 0; i < lanes; ++i) r[i] =
            i < left ? load(in + i * column + p, first<float>(rows)) : zero<float>();
        transpose<float>(r);
      } else if (column == 1 && rows == lanes && left == lanes) {
        LAMINA_UNROLL for (int i = 0; i < lanes; ++i) r[i] = load(in + (p + i) * row);
      } else if (column == 1) {
        LAMINA_UNROLL for (int i = 0; i < lanes; ++i) r[i] =
            i < rows ? load(in + (p + i) * row, inside) : zero<float>();
      } else {
        LAMINA_NO_UNROLL for (int i = 0; i < lanes; ++i) {
          alignas(64) float held[lanes]{};
          LAMINA_SMALL for (int l = 0; i < rows && l < left; ++l) held[l] = in[(p + i) * row + l * column];
          r[i] = load(held);
        }
      }
      LAMINA_UNROLL for (int i = 0; i < lanes; i += 2) if (i < rows)
          store(out + (p + i) / 2 * columns, bfloat_pairs(r[i], r[i + 1]));
    }
  }
}

// A: one panel of `count` rows, [k][count]; from[i * row + p * column].  Stores are whole registers: each overwrites
// the excess of the one before, so the buffer ends with a register of slack.

/// Rows of A are contiguous; at most `Rows` of them.
template <class T, int Rows> LAMINA_INLINE void pack_a_rows(long k, long count, const T* from, long row, T* to) {
  constexpr int lanes = width<T>, squares = (Rows + lanes - 1) / lanes;  // next to each other
  for (long p = 0; p < k; p += lanes) {
    const int steps = static_cast<int>(k - p < lanes ? k - p : lanes);
    vec<T> r[squares][lanes];
    LAMINA_UNROLL for (int i = Rows; i < squares * lanes; ++i) r[i / lanes][i % lanes] = zero<T>();
    if (steps == lanes && count == Rows) {
      LAMINA_UNROLL for (int i = 0; i < Rows; ++i) r[i / lanes][i % lanes] = load(from + i * row + p);
      LAMINA_UNROLL for (int s = 0; s < squares; ++s) transpose<T>(r[s]);
      LAMINA_UNROLL for (int i = 0; i < lanes; ++i) LAMINA_UNROLL for (int s = 0; s < squares; ++s)
          store(to + (p + i) * Rows + s * lanes, r[s][i]);
    } else {
      const auto mask = first<T>(steps);
      LAMINA_UNROLL for (int i = 0; i < Rows; ++i) r[i / lanes][i % lanes] =
          i < count ? load(from + i * row + p, mask) : zero<T>();
      LAMINA_UNROLL for (int s = 0; s < squares; ++s) transpose<T>(r[s]);
      LAMINA_UNROLL for (int i = 0; i < lanes; ++i)
          LAMINA_UNROLL for (int s = 0; s < squares; ++s) if (i < steps && s * lanes < count)
              store(to + (p + i) * count + s * lanes, r[s][i]);
    }
  }
}

/// Columns of A are contiguous; at most `Rows` rows.
template <class T, int Rows> LAMINA_INLINE void pack_a_columns(long k, long count, const T* from, long column, T* to) {
  constexpr int lanes = width<T>, squares = (Rows + lanes - 1) / lanes;
  lane_mask<T> mask[squares];
  LAMINA_UNROLL for (int s = 0; s < squares; ++s) mask[s] =
      first<T>(static_cast<int>(count < s * lanes ? 0 : count - s * lanes));
  for (long p = 0; p < k; ++p)
    LAMINA_UNROLL for (int s = 0; s < squares; ++s) if (s * lanes < count)
        store(to + p * count + s * lanes, load(from + p * column + s * lanes, mask[s]));
}

/// Any strides, one element at a time.
template <class T> LAMINA_INLINE void pack_a_any(long k, long count, const T* from, long row, long column, T* to) {
  for (long p = 0; p < k; ++p)
    for (long i = 0; i < count; ++i) *to++ = from[i * row + p * column];
}

/// Rounds, for a form, as many rows of a transposed A as a register has lanes.
template <class Form> LAMINA_INLINE void round_columns(long k, const float* from, long column, typename Form::x* to) {
  constexpr int lanes = width<float>;
  constexpr long together = 4 * lanes;
  alignas(64) float held[lanes][together];
  for (long p = 0; p < k; p += together) {
    const long left = k - p < together ? k - p : together;
    LAMINA_NO_UNROLL for (long s = 0; s < left; s += lanes) {
      vec<float> r[lanes];
      LAMINA_UNROLL for (int i = 0; i < lanes; ++i) r[i] =
          s + i < left ? load(from + (p + s + i) * column) : zero<float>();
      transpose<float>(r);
      LAMINA_UNROLL for (int i = 0; i < lanes; ++i) store(held[i] + s, r[i]);
    }
    LAMINA_NO_UNROLL for (int i = 0; i < lanes; ++i)
        Form::round(held[i], left, to + i * steps_of<Form>(k) * Form::numbers + p);
  }
}

/// Rounds rows of A for a form; packed rows are contiguous and padded to whole steps.
template <class Form>
LAMINA_INLINE void round_a(long k, long count, const float* from, long row, long column, typename Form::x* to) {
  const long packed_row = steps_of<Form>(k) * Form::numbers;
  constexpr int lanes = width<float>;
  for (; row == 1 && count >= lanes; count -= lanes, from += lanes, to += lanes * packed_row)
    round_columns<Form>(k, from, column, to);
  for (long i = 0; i < count; ++i, from += row, to += packed_row) {
    if (column == 1) {
      Form::round(from, k, to);
      continue;
    }
    constexpr long together = 128;
    float held[together];
    for (long p = 0; p < k; p += together) {
      const long left = k - p < together ? k - p : together;
      LAMINA_SMALL for (long l = 0; l < left; ++l) held[l] = from[(p + l) * column];
      Form::round(held, left, to + p);
    }
  }
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
