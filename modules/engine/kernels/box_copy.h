// Strided copies: merges axes if strides allow it, then copies rows contiguously, broadcast or strided, or, if input
// and output are contiguous along different axes, transposes through registers.
#pragma once
#include "reduce.h"
#include "shuffle.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace boxes {

struct axis {
  long extent, in, out;
};
struct box {
  axis axes[8];
  int count;
};

/// Drops axes of extent 1 and merges neighboring axes that are contiguous on both sides.  False if the box is empty.
LAMINA_INLINE bool simplify(const copy_args& a, box& b) {
  b.count = 0;
  for (int k = 0; k < a.axes; ++k) {
    if (a.extent[k] <= 0) return false;
    if (a.extent[k] == 1) continue;
    const axis next = {a.extent[k], a.in_stride[k], a.out_stride[k]};
    if (b.count > 0) {
      axis& last = b.axes[b.count - 1];
      if (last.in == next.in * next.extent && last.out == next.out * next.extent) {
        last = {last.extent * next.extent, next.in, next.out};
        continue;
      }
    }
    b.axes[b.count++] = next;
  }
  return true;
}

/// Calls run(in, out) at every position of the first `count` axes.
template <class Word, class Run>
LAMINA_INLINE void walk(const axis* axes, int count, const Word* in, Word* out, Run run) {
  long at[8] = {};
  for (;;) {
    run(in, out);
    int k = count - 1;
    for (; k >= 0; --k) {
      in += axes[k].in;
      out += axes[k].out;
      if (++at[k] < axes[k].extent) break;
      at[k] = 0;
      in -= axes[k].in * axes[k].extent;
      out -= axes[k].out * axes[k].extent;
    }
    if (k < 0) return;
  }
}

template <class Word> LAMINA_INLINE void copy_row(const Word* in, Word* out, axis a) {
  if (a.in == 1 && a.out == 1) {
    __builtin_memcpy(out, in, static_cast<std::size_t>(a.extent) * sizeof(Word));
  } else if (a.in == 0 && a.out == 1) {
    const Word value = *in;
    LAMINA_NO_UNROLL for (long i = 0; i < a.extent; ++i) out[i] = value;
  } else {
    LAMINA_SMALL for (long i = 0; i < a.extent; ++i) out[i * a.out] = in[i * a.in];
  }
}

/// Side of a transposed square in elements: a cache line, so that reads and writes are whole lines, or 16 bytes for
/// small elements.
template <class Word> inline constexpr long square_side =
    (sizeof(Word) >= 4 ? 64 : 16) / static_cast<long>(sizeof(Word));
/// `ByOutput`: finishes a few rows of the output before the next ones, else of the input.
template <bool ByOutput, class Word>
LAMINA_INLINE void transpose_square(const Word* in, long in_stride, Word* out, long out_stride) {
  constexpr int side = static_cast<int>(square_side<Word>);
  if constexpr (sizeof(Word) >= 4) {
    using number = std::conditional_t<sizeof(Word) == 4, float, double>;
    constexpr int lanes = width<number>;
    for (int a = 0; a < side; a += lanes)
      for (int b = 0; b < side; b += lanes) {
        const int i = ByOutput ? b : a, j = ByOutput ? a : b;
        vec<number> r[static_cast<std::size_t>(lanes)];
        LAMINA_UNROLL for (int k = 0; k < lanes; ++k) r[k] =
            load(reinterpret_cast<const number*>(in + (i + k) * in_stride + j));
        transpose<number>(r);
        LAMINA_UNROLL for (int k = 0; k < lanes; ++k)
            store(reinterpret_cast<number*>(out + (j + k) * out_stride + i), r[k]);
      }
  } else {
    using line = Word __attribute__((ext_vector_type(side)));
    line r[side];
    LAMINA_UNROLL for (int i = 0; i < side; ++i) __builtin_memcpy(&r[i], in + i * in_stride, sizeof r[i]);
    turn_square(r);
    LAMINA_UNROLL for (int j = 0; j < side; ++j) __builtin_memcpy(out + j * out_stride, &r[j], sizeof r[j]);
  }
}
/// Transposes a block of squares through L1 with non-temporal stores, for outputs too large for the caches.
template <class Word, long Block>
LAMINA_INLINE void transpose_block_streamed(const Word* in, long in_stride, Word* out, long out_stride) {
  constexpr long side = square_side<Word>, pitch = Block + side;
  using line = raw<Word, static_cast<int>(16 / sizeof(Word))>;
  constexpr long step = 16 / static_cast<long>(sizeof(Word));
  alignas(64) Word staged[static_cast<std::size_t>(Block * pitch)];
  for (long i = 0; i < Block; i += side)
    for (long j = 0; j < Block; j += side)
      transpose_square<false>(in + i * in_stride + j, in_stride, staged + j * pitch + i, pitch);
  for (long j = 0; j < Block; ++j)
    LAMINA_UNROLL for (long i = 0; i < Block; i += step) __builtin_nontemporal_store(
        *reinterpret_cast<const line*>(staged + j * pitch + i), reinterpret_cast<line*>(out + j * out_stride + i));
}

/// out[j, i] = in[i, j] for `rows` x `columns`, by blocks, so that both sides touch few memory pages at a time.
template <class Word>
inline void transpose_plane(const Word* in, long in_stride, Word* out, long out_stride, long rows, long columns) {
  constexpr long side = square_side<Word>, block = 4 * side;
  constexpr std::uintptr_t line = 64;
  constexpr long streamed_bytes = 4L << 20, page = 4096;
  const long word = static_cast<long>(sizeof(Word)), whole_rows = rows - rows % side,
             whole_columns = columns - columns % side;
  const bool aligned = reinterpret_cast<std::uintptr_t>(out) % line == 0 && out_stride % side == 0;
  const bool stream = sizeof(Word) >= 4 && aligned && rows * columns * word >= streamed_bytes;
  // Rows a multiple of a page apart share a set of the first cache, which holds fewer lines than a square has rows.
  const bool by_output = sizeof(Word) >= 4 && out_stride * word % page == 0 && in_stride * word % page != 0;
  for (long left = 0; left < whole_columns; left += block)
    for (long top = 0; top < whole_rows; top += block) {
      const long right = left + block < whole_columns ? left + block : whole_columns;
      const long bottom = top + block < whole_rows ? top + block : whole_rows;
      if (stream && right - left == block && bottom - top == block) {
        transpose_block_streamed<Word, block>(in + top * in_stride + left, in_stride, out + left * out_stride + top,
                                              out_stride);
        continue;
      }
      for (long j = left; j < right; j += side)
        for (long i = top; i < bottom; i += side) {
          const Word* from = in + i * in_stride + j;
          Word* to = out + j * out_stride + i;
          if (by_output) transpose_square<true>(from, in_stride, to, out_stride);
          else transpose_square<false>(from, in_stride, to, out_stride);
        }
    }
  if (stream) fence_streamed();
  for (long c = 0; c < whole_columns; ++c)
    LAMINA_SMALL for (long i = whole_rows; i < rows; ++i) out[c * out_stride + i] = in[i * in_stride + c];
  for (long c = whole_columns; c < columns; ++c)
    LAMINA_SMALL for (long i = 0; i < rows; ++i) out[c * out_stride + i] = in[i * in_stride + c];
}

/// Groups of two or three neighbors, such as the channels of pixels, to planes (`Split`) or from planes, as many as fill
/// registers; returns their number. From one plane of two, with `plane` 0: each element twice.
template <int Count, bool Split> LAMINA_APART long move_groups(const float* in, float* out, long plane, long groups) {
  constexpr int lanes = width<float>;
  const long from = Split ? lanes : plane, to = Split ? plane : lanes;
  long i = 0;
  LAMINA_NO_UNROLL for (; i + lanes <= groups; i += lanes) {
    const float* p = in + (Split ? Count * i : i);
    float* q = out + (Split ? i : Count * i);
    const auto a = load(p), b = load(p + from);
    if constexpr (Count == 2) {
      store<float>(q, regrouped<Split, 0, float>(a, b));
      store<float>(q + to, regrouped<Split, 1, float>(a, b));
    } else {
      const auto c = load(p + 2 * from);
      store<float>(q, regrouped<Split, 0, float>(a, b, c));
      store<float>(q + to, regrouped<Split, 1, float>(a, b, c));
      store<float>(q + 2 * to, regrouped<Split, 2, float>(a, b, c));
    }
  }
  return i;
}

/// out[j, i] = in[i, j] for 2 or 3 rows or columns, such as the channels of pixels.
template <class Word>
LAMINA_INLINE void transpose_few(const Word* in, Word* out, const axis& rows, const axis& columns) {
  const bool split = columns.extent < rows.extent;
  const axis &few = split ? columns : rows, &many = split ? rows : columns;
  long i = 0;
  if constexpr (sizeof(Word) == 4)
    if (few.extent == (split ? many.in : many.out)) {
      const auto* from = reinterpret_cast<const float*>(in);
      auto* to = reinterpret_cast<float*>(out);
      const long n = many.extent;
      if (few.extent == 3)
        i = split ? move_groups<3, true>(from, to, few.out, n) : move_groups<3, false>(from, to, few.in, n);
      else i = split ? move_groups<2, true>(from, to, few.out, n) : move_groups<2, false>(from, to, few.in, n);
      in += i * many.in, out += i * many.out;
    }
  LAMINA_NO_UNROLL for (; i < many.extent; ++i, in += many.in, out += many.out) {
    out[0] = in[0];
    out[few.out] = in[few.in];
    if (few.extent == 3) out[2 * few.out] = in[2 * few.in];
  }
}

/// Groups of a few neighbors that stay together, one after the other.
template <int Count, class Word> LAMINA_INLINE void copy_groups(const Word* in, Word* out, const axis& groups) {
  LAMINA_NO_UNROLL for (long i = 0; i < groups.extent; ++i, in += groups.in, out += groups.out)
      __builtin_memcpy(out, in, Count * sizeof(Word));
}

template <class Word> inline void copy(box& b, const Word* in, Word* out) {
  if (b.count == 0) {
    *out = *in;
    return;
  }
  int reads = -1, writes = -1;  // the axes along which input and output are contiguous
  for (int k = 0; k < b.count; ++k) {
    if (b.axes[k].in == 1) reads = k;
    if (b.axes[k].out == 1) writes = k;
  }
  const auto drop = [&b](int k) {
    const axis dropped = b.axes[k];
    for (int i = k; i + 1 < b.count; ++i) b.axes[i] = b.axes[i + 1];
    --b.count;
    return dropped;
  };
  if (reads >= 0 && writes >= 0 && reads != writes) {
    const axis columns = b.axes[reads], rows = b.axes[writes];
    drop(reads > writes ? reads : writes);
    drop(reads > writes ? writes : reads);
    return walk(b.axes, b.count, in, out, [&](const Word* from, Word* to) __attribute__((always_inline)) {
      if (rows.extent < 4 || columns.extent < 4) transpose_few(from, to, rows, columns);
      else transpose_plane(from, rows.in, to, columns.out, rows.extent, columns.extent);
    });
  }
  const axis inner = drop(writes >= 0 ? writes : b.count - 1);
  if (inner.in == 1 && inner.out == 1 && inner.extent <= 4 && b.count > 0) {
    const axis groups = drop(b.count - 1);
    return walk(b.axes, b.count, in, out, [&](const Word* from, Word* to) __attribute__((always_inline)) {
      if (inner.extent == 2) copy_groups<2>(from, to, groups);
      else if (inner.extent == 3) copy_groups<3>(from, to, groups);
      else copy_groups<4>(from, to, groups);
    });
  }
  walk(b.axes, b.count, in, out,
       [&](const Word* from, Word* to) __attribute__((always_inline)) { copy_row(from, to, inner); });
}

LAMINA_INLINE void run(const copy_args& a) {
  box b;
  if (!simplify(a, b)) return;
  switch (a.size) {
    case 1: return copy(b, static_cast<const std::uint8_t*>(a.in), static_cast<std::uint8_t*>(a.out));
    case 2: return copy(b, static_cast<const std::uint16_t*>(a.in), static_cast<std::uint16_t*>(a.out));
    case 4: return copy(b, static_cast<const std::uint32_t*>(a.in), static_cast<std::uint32_t*>(a.out));
    default: return copy(b, static_cast<const std::uint64_t*>(a.in), static_cast<std::uint64_t*>(a.out));
  }
}

template <class Word> LAMINA_INLINE void fill(const fill_args& a) {
  Word value;
  __builtin_memcpy(&value, a.value, sizeof value);
  Word* out = static_cast<Word*>(a.out);
  LAMINA_NO_UNROLL for (long i = 0; i < a.n; ++i) out[i] = value;
}

}  // namespace boxes
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
