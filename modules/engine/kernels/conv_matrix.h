// Data movement of a convolution in the plain layout: explicit padding, im2col, im2row, col2im.
//
// The padded planes, the im2col matrix and the rows end with a register of slack: rows are moved in whole registers,
// and the next row overwrites the excess.
#pragma once
#include "conv_blocked.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace plain {

using blocked::divide_up;
using blocked::larger;
using blocked::smaller;

template <class T> constexpr long aligned(long count) {
  return divide_up(count * static_cast<long>(sizeof(T)), 64) * 64;
}

/// Allocates parts of the scratch, each on its own cache lines.
class scratch_parts {
 public:
  explicit scratch_parts(void* scratch) : next_(static_cast<char*>(scratch)) {}
  template <class T> T* take(long bytes) {
    char* part = next_;
    next_ += bytes;
    return reinterpret_cast<T*>(part);
  }

 private:
  char* next_;
};

/// Sizes of planes with explicit padding.
struct padded {
  long planes, height, width, top, left;
};
template <class T> constexpr long padded_bytes(const padded& p) {
  return aligned<T>(p.planes * p.height * p.width + 2 * width<T>);
}
constexpr padded padded_input(const window& w) {
  return {w.channels / w.groups, w.rows_under(w.out_height), w.columns_under(w.out_width), w.pad_h, w.pad_w};
}
/// Output rows of a call.
constexpr long rows_of(const conv_plain_args& a) { return a.row_count ? a.row_count : a.w.out_height; }
/// Padded input that these rows read.
constexpr padded padded_input(const conv_plain_args& a) {
  padded p = padded_input(a.w);
  p.height = a.w.rows_under(rows_of(a));
  p.top -= a.first_row * a.w.stride_h;
  return p;
}
/// Result gradient, padded so that the input gradient is a stride 1 convolution of it.
constexpr padded padded_result(const window& w) {
  return {w.out_channels / w.groups, w.height + w.dilation_h * (w.kernel_h - 1),
          w.width + w.dilation_w * (w.kernel_w - 1), w.dilation_h * (w.kernel_h - 1) - w.pad_h,
          w.dilation_w * (w.kernel_w - 1) - w.pad_w};
}

/// Writes `count` zeros, and up to a register more.
template <class T> LAMINA_INLINE void clear(T* to, long count) {
  for (long i = 0; i < count; i += width<T>) store<T>(to + i, zero<T>());
}
/// Copies `count` elements; writes up to a register more and, unless `Exact`, also reads up to a register more.
template <class T, bool Exact> LAMINA_INLINE void copy(const T* from, T* to, long count) {
  long i = 0;
  for (; i + width<T> <= count; i += width<T>) store<T>(to + i, load(from + i));
  if (i < count) store<T>(to + i, Exact ? load(from + i, first<T>(static_cast<int>(count - i))) : load(from + i));
}

/// Copies `count` elements, for short rows, with the narrowest sufficient moves: wide moves of a few elements cross
/// cache lines most of the time.  Reads and writes up to a register more.
template <class T> LAMINA_INLINE void copy_short(const T* from, T* to, long count) {
  if (count * static_cast<long>(sizeof(T)) <= 16) __builtin_memcpy(to, from, 16);
  else if (count * static_cast<long>(sizeof(T)) <= 32) __builtin_memcpy(to, from, 32);
  else copy<T, false>(from, to, count);
}

template <class T> LAMINA_COMPACT void pad_planes(const T* from, long height, long row, const padded& p, T* to) {
  const long inside = larger(0, smaller(row, p.width - p.left)), right = larger(0, p.width - p.left - inside);
  for (long c = 0; c < p.planes; ++c) {
    for (long y = 0; y < p.height; ++y, to += p.width) {
      const long at = y - p.top;
      if (at < 0 || at >= height || inside == 0) {
        clear(to, p.width);
      } else {
        clear(to, p.left);
        copy<T, true>(from + (c * height + at) * row, to + p.left, inside);
        clear(to + p.left + inside, right);
      }
    }
  }
  clear(to, 2 * width<T>);
}
/// The same with columns grouped by x mod `step`, `pitch` columns per group and row: to[plane][remainder][row][pitch].
template <class T>
void pad_phases(const T* from, long height, long row, const padded& p, long step, long pitch, T* to) {
  clear(to, p.planes * step * p.height * pitch + 2 * width<T>);
  for (long c = 0; c < p.planes; ++c)
    for (long k = 0; k < step; ++k)
      for (long y = 0; y < p.height; ++y, to += pitch) {
        const long at = y - p.top;
        if (at < 0 || at >= height) continue;
        const long first = p.left > k ? divide_up(p.left - k, step) : 0;
        const long end = smaller(pitch, p.left + row > k ? divide_up(p.left + row - k, step) : 0);
        const T* source = from + (c * height + at) * row + k - p.left;
        LAMINA_VECTORS for (long x = first; x < end; ++x) to[x] = source[x * step];
      }
}

/// Columns of output rows [first, first + count): to[(c, i, j)][y][x].
template <class T> void im2col(const window& w, const padded& p, const T* from, long first, long count, T* to) {
  for (long c = 0; c < p.planes; ++c) {
    for (long i = 0; i < w.kernel_h; ++i) {
      for (long j = 0; j < w.kernel_w; ++j) {
        const T* source = from + (c * p.height + first * w.stride_h + i * w.dilation_h) * p.width + j * w.dilation_w;
        const long step = w.stride_h * p.width;
        if (w.stride_w == 1) {
          for (long y = 0; y < count; ++y, to += w.out_width, source += step) copy<T, false>(source, to, w.out_width);
        } else {
          for (long y = 0; y < count; ++y, to += w.out_width, source += step)
            for (long x = 0; x < w.out_width; ++x) to[x] = source[x * w.stride_w];
        }
      }
    }
  }
}

/// A row for each pixel of output rows [first, first + count): to[y][x][(c, i, j)].
template <class T> void im2row(const window& w, const padded& p, const T* from, long first, long count, T* to) {
  for (long y = first; y < first + count; ++y) {
    for (long x = 0; x < w.out_width; ++x) {
      for (long c = 0; c < p.planes; ++c) {
        const T* source = from + (c * p.height + y * w.stride_h) * p.width + x * w.stride_w;
        for (long i = 0; i < w.kernel_h; ++i, to += w.kernel_w, source += w.dilation_h * p.width) {
          if (w.dilation_w == 1) {
            copy_short(source, to, w.kernel_w);
          } else {
            for (long j = 0; j < w.kernel_w; ++j) to[j] = source[j * w.dilation_w];
          }
        }
      }
    }
  }
}

/// Output columns [begin, end) of a tap that lie inside the input; that of output column 0 is `left`.
struct tap_columns {
  long left, begin, end;
  LAMINA_INLINE tap_columns(const window& w, long tap)
      : left(tap * w.dilation_w - w.pad_w),
        begin(left >= 0 ? 0 : divide_up(-left, w.stride_w)),
        end(left >= w.width ? 0 : smaller(w.out_width, (w.width - 1 - left) / w.stride_w + 1)) {}
};
/// Adds pixels of two rows in turns to those from `to` on.
template <class T> LAMINA_INLINE void add_in_turns(T* to, vec<T> even, vec<T> odd) {
  vec<T> low, high;
  in_turns(low, high, even, odd);
  store<T>(to, load(to) + low);
  store<T>(to + width<T>, load(to + width<T>) + high);
}
/// Adds a row of a tap to every `stride`-th pixel from `to` on.
template <class T> LAMINA_APART void add_row(T* to, const T* from, long stride, long begin, long end) {
  long x = begin;
  if (stride == 1) {
    for (; x + width<T> <= end; x += width<T>) store<T>(to + x, load(to + x) + load(from + x));
    if (x < end) {
      const auto m = lamina::kernels::first<T>(static_cast<int>(end - x));
      store<T>(to + x, load(to + x, m) + load(from + x, m), m);
    }
  } else {
    // In vectors, pixels between those of the tap get zeros added, which changes no bit of a sum that began with 0.
    if (stride == 2)
      LAMINA_NO_UNROLL for (; x + width<T> < end; x += width<T>) add_in_turns(to + 2 * x, load(from + x), zero<T>());
    for (; x < end; ++x) to[x * stride] += from[x];
  }
}
/// The same of two neighboring taps with stride 2, whose pixels take turns.
template <class T>
LAMINA_INLINE void add_rows_in_turns(T* to, const T* even, const T* odd, const tap_columns& a, const tap_columns& b) {
  const long begin = larger(a.begin, b.begin), end = larger(begin, smaller(a.end, b.end));
  add_row(to, even, 2, a.begin, smaller(begin, a.end));
  add_row(to + 1, odd, 2, b.begin, smaller(begin, b.end));
  long x = begin;
  for (; x + width<T> <= end; x += width<T>) add_in_turns(to + 2 * x, load(even + x), load(odd + x));
  add_row(to, even, 2, x, a.end);
  add_row(to + 1, odd, 2, x, b.end);
}
/// Adds the columns of output rows [first, first + count) to their input pixels.
template <class T> void col2im(const window& w, const T* from, long first, long count, T* to) {
  const long tap = count * w.out_width;
  for (long c = 0; c < w.channels / w.groups; ++c, to += w.height * w.width) {
    for (long i = 0; i < w.kernel_h; ++i) {
      for (long j = 0, taps = 1; j < w.kernel_w; j += taps, from += taps * tap) {
        const tap_columns columns(w, j), next(w, j + 1);
        taps = w.stride_w == 2 && w.dilation_w == 1 && j + 1 < w.kernel_w ? 2 : 1;
        for (long y = 0; y < count; ++y) {
          const long row = (first + y) * w.stride_h - w.pad_h + i * w.dilation_h;
          if (row < 0 || row >= w.height) continue;
          T* target = to + row * w.width + columns.left;
          const T* source = from + y * w.out_width;
          if (taps == 2) add_rows_in_turns(target, source, source + tap, columns, next);
          else add_row(target, source, w.stride_w, columns.begin, columns.end);
        }
      }
    }
  }
}

}  // namespace plain
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
