// Register tiles of the matrix product: A is broadcast, B is read in vectors along N, C is row-major.
#pragma once
#include "gemm.h"
#include "product_form.h"
#include "simd.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// Layout of A in a tile: rows (contiguous along K, a_step between rows), columns (contiguous along M, a_step between
/// columns; also the packed form), any (the arguments decide).
enum class a_order { rows, columns, any };
/// Which vectors of a tile row are masked.
enum class masking { whole, last, every };

/// SSE2 and NEON have no masked load: they pack B (with zero padding) if a tile is not whole.
inline constexpr bool masks_b = this_isa == isa::avx2 || this_isa == isa::avx512;

/// Valid lanes of the vectors of a tile row.
template <class T, int Vectors, masking Masking> struct tile_mask {
  lane_mask<T> mask[Vectors];
  int columns;

  LAMINA_INLINE explicit tile_mask(int valid) : columns(valid) {
    LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) {
      const int left = columns - j * width<T>;
      if (masked(j)) mask[j] = first<T>(left < 0 ? 0 : left);
    }
  }
  static constexpr bool masked(int j) {
    return Masking == masking::every || (Masking == masking::last && j == Vectors - 1);
  }
  LAMINA_INLINE vec<T> load(const T* p, int j) const {
    return masked(j) ? kernels::load(p + j * width<T>, mask[j]) : kernels::load(p + j * width<T>);
  }
  LAMINA_INLINE vec<T> load_b(const T* p, int j) const {
    return masks_b ? load(p, j) : kernels::load(p + j * width<T>);
  }
  LAMINA_INLINE void store(T* p, int j, vec<T> x) const {
    if (masked(j)) kernels::store(p + j * width<T>, x, mask[j]);
    else kernels::store(p + j * width<T>, x);
  }
  /// Store of data that is read again soon.
  LAMINA_INLINE void store_row(T* p, int j, vec<T> x) const {
    if (masked(j)) store_lanes(p + j * width<T>, x, columns - j * width<T>);
    else kernels::store(p + j * width<T>, x);
  }
};

/// Destination of a tile: C, the position of the tile in it, and the flags of the epilogue.
template <class T> struct tile_end {
  T* c;
  long c_row;
  const gemm_args* args;
  long column, row;
  int flags;
};

/// Adds C, applies the epilogue to sums [rows][vectors] and stores them. Out of line: it runs only once per tile.
template <class T> LAMINA_APART void finish_apart(const T* sums, int rows, int vectors, int columns, tile_end<T> end) {
  const gemm_args& args = *end.args;
  const bool adds = (end.flags & gemm_add) != 0, last = (end.flags & gemm_finish) != 0;
  const T* bias_column = last && args.bias_column ? static_cast<const T*>(args.bias_column) + end.column : nullptr;
  const T* bias_row = last && args.bias_row ? static_cast<const T*>(args.bias_row) + end.row : nullptr;
  const T* residual =
      last && args.residual ? static_cast<const T*>(args.residual) + end.row * args.residual_row + end.column : nullptr;
  const bool clamps = last && args.clamp;
  const vec<T> low(static_cast<T>(args.low)), high(static_cast<T>(args.high));
  // Of one vector of each row; masked stores of AVX2 take ten times as long as whole ones.
  const auto column = [&](int at, const auto&... lanes) {
    const vec<T> bias = bias_column ? load(bias_column + at, lanes...) : zero<T>();
    LAMINA_NO_UNROLL for (int i = 0; i < rows; ++i) {
      T* c = end.c + i * end.c_row + at;
      vec<T> x = load(sums + i * vectors * width<T> + at);
      if (adds) x = x + load(c, lanes...);
      if (bias_column) x = x + bias;
      if (bias_row) x = x + broadcast(bias_row + i);
      if (residual) x = x + load(residual + i * args.residual_row + at, lanes...);
      if (clamps) x = clamp(x, low, high);
      store(c, x, lanes...);
    }
  };
  LAMINA_NO_UNROLL for (int at = 0; at < vectors * width<T>; at += width<T>) {
    const int left = columns - at;
    if (left <= 0) break;
    if (left >= width<T>) column(at);
    else column(at, first<T>(left));
  }
}

/// A flag only for `finish_rows`: the sums already include `bias_column`.
inline constexpr int gemm_biased = 4;

/// The same in registers: a product of one row is too short for a detour through memory, and whole tiles are frequent.
template <class T, int Rows, int Vectors, masking Masking>
LAMINA_INLINE void finish_rows(vec<T> (&sum)[Rows][Vectors], const tile_mask<T, Vectors, Masking>& lanes,
                               tile_end<T> end) {
  const gemm_args& args = *end.args;
  const auto each = [&](auto f) __attribute__((always_inline)) {
    LAMINA_UNROLL for (int i = 0; i < Rows; ++i) LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) f(sum[i][j], i, j);
  };
  if (end.flags & gemm_add)
    each([&](vec<T>& x, int i, int j) __attribute__((always_inline)) { x = x + lanes.load(end.c + i * end.c_row, j); });
  if (end.flags & gemm_finish) {
    if (args.bias_column && !(end.flags & gemm_biased)) {
      const T* bias = static_cast<const T*>(args.bias_column) + end.column;
      each([&](vec<T>& x, int, int j) __attribute__((always_inline)) { x = x + lanes.load(bias, j); });
    }
    if (args.bias_row) {
      const T* bias = static_cast<const T*>(args.bias_row) + end.row;
      each([&](vec<T>& x, int i, int) __attribute__((always_inline)) { x = x + broadcast(bias + i); });
    }
    if (args.residual) {
      const T* add = static_cast<const T*>(args.residual) + end.row * args.residual_row + end.column;
      each([&](vec<T>& x, int i, int j)
               __attribute__((always_inline)) { x = x + lanes.load(add + i * args.residual_row, j); });
    }
    if (args.clamp) {
      const vec<T> low(static_cast<T>(args.low)), high(static_cast<T>(args.high));
      each([&](vec<T>& x, int, int) __attribute__((always_inline)) { x = clamp(x, low, high); });
    }
  }
  each([&](const vec<T>& x, int i, int j)
           __attribute__((always_inline)) { lanes.store_row(end.c + i * end.c_row, j, x); });
}

/// Whether a tile is finished in registers: single rows, and the whole tiles that most products consist of: the largest
/// ones, with AVX2 also those that rows are divided into. Others would only make programs larger.
template <class T, int Rows, int Vectors, masking Masking> inline constexpr bool finishes_in_registers =
    Rows == 1 || (std::is_same_v<T, float> && Masking == masking::whole &&
                  ((this_isa == isa::avx2 && Rows >= 4) || (this_isa == isa::avx512 && Rows == 8)));

/// Finishes a tile in registers, or stores its sums directly if it has no epilogue and, on sets without fast masked
/// stores, is not partial; else by way of `finish_apart`.
template <class T, int Rows, int Vectors, masking Masking>
LAMINA_INLINE void finish(vec<T> (&sum)[Rows][Vectors], const tile_mask<T, Vectors, Masking>& lanes, int columns,
                          tile_end<T> end) {
  if constexpr (finishes_in_registers<T, Rows, Vectors, Masking>)
    return finish_rows<T, Rows, Vectors, Masking>(sum, lanes, end);
  if constexpr (Rows <= 4 && Vectors == 1 && this_isa != isa::avx512)  // a tiny product would notice the detour
    if (end.flags == 0) {
      LAMINA_UNROLL for (int i = 0; i < Rows; ++i) lanes.store(end.c + i * end.c_row, 0, sum[i][0]);
      return;
    }
  const bool partial = Masking != masking::whole && this_isa != isa::avx512 && columns < Vectors * width<T>;
  const bool done = end.flags == 0 && !partial;
  alignas(64) T held[Rows * Vectors][static_cast<std::size_t>(width<T>)];
  T* to = done ? end.c : held[0];
  const long row = done ? end.c_row : Vectors * width<T>;
  LAMINA_UNROLL for (int i = 0; i < Rows; ++i, to += row) LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) {
    if constexpr (this_isa == isa::avx512) lanes.store(to, j, sum[i][j]);
    else store(to + j * width<T>, sum[i][j]);
  }
  if (!done) finish_apart(held[0], Rows, Vectors, Masking == masking::whole ? Vectors * width<T> : columns, end);
}

/// Computes Rows x Vectors registers of C over k steps.
template <class Form, int Rows, int Vectors, masking Masking, a_order Order, class T = typename Form::number>
LAMINA_INLINE void tile(long k, const typename Form::x* __restrict a, long a_step, const T* __restrict b, long b_step,
                        int columns, tile_end<T> end) {
  const tile_mask<T, Vectors, Masking> lanes(columns);
  const bool in_columns = Order == a_order::any ? end.args->a_in_columns != 0 : Order == a_order::columns;
  const long across = in_columns ? 1 : a_step;
  const long along = in_columns ? a_step : Order == a_order::rows ? Form::numbers : end.args->a_column;
  vec<T> sum[Rows][Vectors];
  LAMINA_UNROLL for (int i = 0; i < Rows; ++i) LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = zero<T>();
  if constexpr (Order == a_order::columns) {
    LAMINA_UNROLL for (int i = 0; i < Rows; ++i) __builtin_prefetch(end.c + i * end.c_row, 1);
  }
  // if both strides are variables, one pointer for every three rows, as far as addressing modes reach
  constexpr int reach = Order == a_order::any ? 3 : Rows, pointers = (Rows + reach - 1) / reach;
  const typename Form::x* at[pointers];
  LAMINA_UNROLL for (int g = 0; g < pointers; ++g) at[g] = a + g * reach * across;
  // Panels of B come from beyond L2 where few rows read them, and where B is large: prefetches the next panel during
  // this one, one cache line of each of its rows per panel of A.
  constexpr int lines = Vectors * width<T> * static_cast<int>(sizeof(T)) >= 64
                            ? Vectors * width<T> * static_cast<int>(sizeof(T)) / 64
                            : 1;
  const long panel = end.args->prepacked ? steps_of<Form>(end.args->k) : end.args->pack_b ? k : 0;
  const T* next = b + panel * b_step + end.row / Rows % lines * (64 / static_cast<long>(sizeof(T)));
  LAMINA_NO_UNROLL for (long p = 0; p < k; ++p, next += b_step) {
    __builtin_prefetch(next, 0, 2);
    LAMINA_UNROLL for (int part = Form::parts - 1; part >= 0; --part) {
      if constexpr (Form::parts > 1)
        asm("" : : : "memory");  // otherwise the loads of both parts come first, and registers are spilled
      vec<T> row[Vectors];
      LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) row[j] = Form::weights(lanes.load_b(b, j), part);
      LAMINA_UNROLL for (int i = 0; i < Rows; ++i) {
        const vec<T> x = Form::everywhere(at[i / reach] + i % reach * across, part);
        LAMINA_UNROLL for (int j = 0; j < Vectors; ++j) sum[i][j] = Form::plus(sum[i][j], x, row[j]);
      }
    }
    LAMINA_UNROLL for (int g = 0; g < pointers; ++g) {
      at[g] += along;
      if constexpr (Order == a_order::any) asm("" : "+r"(at[g]));  // otherwise a pointer for each row
    }
    b += b_step;
  }
  finish<T, Rows, Vectors, Masking>(sum, lanes, columns, end);
}

/// One row times `Panels` packed panels in parallel: enough chains to hide the latency of the multiply-add.
template <class Form, int Panels, int Vectors, masking Masking, class T = typename Form::number>
LAMINA_INLINE void panels_side_by_side(long k, const typename Form::x* a, long a_step, const T* b, int columns,
                                       tile_end<T> end) {
  constexpr int count = Panels * Vectors, panel_columns = Vectors * width<T>;
  const long panel = (end.args->prepacked ? steps_of<Form>(end.args->k) : k) * panel_columns;
  if constexpr (Form::numbers > 1) a_step = Form::numbers;  // a single row is contiguous
  vec<T> sum[1][count];
  LAMINA_UNROLL for (int j = 0; j < count; ++j) sum[0][j] = zero<T>();
  LAMINA_NO_UNROLL for (long p = 0; p < k; ++p) {
    LAMINA_UNROLL for (int part = Form::parts - 1; part >= 0; --part) {
      const vec<T> x = Form::everywhere(a + p * a_step, part);
      LAMINA_UNROLL for (int j = 0; j < count; ++j) sum[0][j] =
          Form::plus(sum[0][j], x, Form::weights(load(b + j / Vectors * panel + j % Vectors * width<T>), part));
    }
    b += panel_columns;
  }
  finish<T, 1, count, Masking>(sum, tile_mask<T, count, Masking>(columns), columns, end);
}

/// The remaining panels of a row, one at a time.
template <class Form, int Vectors, class T = typename Form::number>
LAMINA_INLINE void panels_one_by_one(long k, const typename Form::x* a, long a_step, const T* b, int columns,
                                     tile_end<T> end) {
  constexpr int panel_columns = Vectors * width<T>;
  const long panel = (end.args->prepacked ? steps_of<Form>(end.args->k) : k) * panel_columns;
  for (int j = 0; j < columns; j += panel_columns) {
    tile_end<T> here = end;
    here.c += j;
    here.column += j;
    panels_side_by_side<Form, 1, Vectors, masking::every>(k, a, a_step, b, columns - j, here);
    b += panel;
  }
}

/// Columns of C that `walk_rows` keeps in L1.
template <class T> inline constexpr int walk_columns = 4096 / static_cast<int>(sizeof(T));

/// One row times unpacked B: eight rows of B per sweep, partial sums in L1.
template <class T>
LAMINA_INLINE void walk_rows(long k, const T* a, long a_step, const T* b, long b_step, int columns, tile_end<T> end) {
  constexpr int sweep = 8, lanes = width<T>;
  alignas(64) T sums[walk_columns<T>];
  if (k == 0)
    for (int j = 0; j < columns; j += lanes) store(sums + j, zero<T>());
  for (long p = 0; p < k; p += sweep) {
    const int rows = static_cast<int>(k - p < sweep ? k - p : sweep);
    vec<T> x[sweep];
    LAMINA_UNROLL for (int u = 0; u < sweep; ++u) x[u] = u < rows ? broadcast(a + (p + u) * a_step) : zero<T>();
    const T* from = b + p * b_step;
    const auto step = [&](int j, auto load_b) __attribute__((always_inline)) {
      vec<T> sum = p == 0 ? zero<T>() : load(sums + j);
      if (rows == sweep) {
        LAMINA_UNROLL for (int u = 0; u < sweep; ++u) sum = fma(x[u], load_b(from + u * b_step + j), sum);
      } else {
        LAMINA_UNROLL for (int u = 0; u < sweep - 1; ++u) if (u < rows) sum =
            fma(x[u], load_b(from + u * b_step + j), sum);
      }
      store(sums + j, sum);
    };
    int j = 0;
    for (; j + lanes <= columns; j += lanes) step(j, [](const T* q) __attribute__((always_inline)) { return load(q); });
    if (j < columns) {
      const auto mask = first<T>(columns - j);
      step(j, [mask](const T* q) __attribute__((always_inline)) { return load(q, mask); });
    }
  }
  for (int j = 0; j < columns; j += lanes) {
    vec<T> sum[1][1] = {{load(sums + j)}};
    tile_end<T> here = end;
    here.c += j;
    here.column += j;
    finish_rows<T, 1, 1, masking::every>(sum, tile_mask<T, 1, masking::every>(columns - j), here);
  }
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
