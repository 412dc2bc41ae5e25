// Pooling kernels of one instruction set: maximum and average, forward and gradient, plain and channel-blocked.
//
// A NaN in the window is the maximum.  The first of equal maxima wins, the last of several NaNs; a window entirely in
// the padding gives -inf and index -1, and receives no gradient.
#include "conv.h"
#include "conv_channels.h"
#include "counted.h"
#include "shuffle.h"
#include "simd.h"
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace {

/// Extent of the window of one result along one axis: [begin, end) inside the map, and `padded` including padding.
struct span {
  long begin, end, padded;
};
LAMINA_INLINE span window_span(long at, long stride, long pad, long kernel, long size, long more) {
  const long begin = at * stride - pad, end = begin + kernel;
  const long last = end < size + pad + more ? end : size + pad + more;
  return {begin < 0 ? 0 : begin, end < size ? end : size, last - begin};
}

using floats = vec<float>;
using ints = vec<std::int32_t>;
inline constexpr int lane_count = width<float>;

using all_lanes = fold::first_indices<lane_count>;

template <int... I> LAMINA_INLINE ints twice_counting(fold::indices<I...>) {
  return from_raw<std::int32_t>(raw<std::int32_t, lane_count>{(2 * I)...});
}

/// The 2 x 2 input pixels of `count` neighboring results: [row][column parity].
struct quads {
  floats at[2][2];
};
LAMINA_INLINE quads load_quads(const float* top, long row, long count) {
  quads q;
  LAMINA_UNROLL for (int i = 0; i < 2; ++i) {
    const float* p = top + i * row;
    floats low, high;
    if (count >= lane_count) {
      low = load(p);
      high = load(p + lane_count);
    } else {
      const int pixels = static_cast<int>(2 * count);
      low = load(p, first<float>(pixels));
      high = pixels > lane_count ? load(p + lane_count, first<float>(pixels - lane_count)) : zero<float>();
    }
    q.at[i][0] = regrouped<true, 0, float>(low, high);
    q.at[i][1] = regrouped<true, 1, float>(low, high);
  }
  return q;
}
LAMINA_INLINE void store_quads(float* top, long row, long count, const quads& q) {
  LAMINA_UNROLL for (int i = 0; i < 2; ++i) {
    float* p = top + i * row;
    const auto low = regrouped<false, 0, float>(q.at[i][0], q.at[i][1]),
               high = regrouped<false, 1, float>(q.at[i][0], q.at[i][1]);
    if (count >= lane_count) {
      store<float>(p, low);
      store<float>(p + lane_count, high);
    } else {
      const int pixels = static_cast<int>(2 * count);
      store<float>(p, low, first<float>(pixels));
      if (pixels > lane_count) store<float>(p + lane_count, high, first<float>(pixels - lane_count));
    }
  }
}
LAMINA_INLINE void store_floats(float* p, floats x, long count) {
  if (count >= lane_count) store<float>(p, x);
  else store<float>(p, x, first<float>(static_cast<int>(count)));
}

template <bool Index> void max_pairs(const pool_args& a) {
  const window& w = a.w;
  const float* in = static_cast<const float*>(a.in);
  float* out = static_cast<float*>(a.out);
  std::int32_t* index = a.index;
  const auto step = twice_counting(all_lanes{});
  for (long n = 0; n < a.images * w.channels; ++n, in += w.height * w.width) {
    for (long y = 0; y < w.out_height; ++y, out += w.out_width) {
      const float* row = in + 2 * y * w.width;
      for (long x = 0; x < w.out_width; x += lane_count) {
        const long count = w.out_width - x;
        const quads q = load_quads(row + 2 * x, w.width, count);
        floats best = q.at[0][0];
        const auto corner = step + ints(static_cast<std::int32_t>(2 * y * w.width + 2 * x));
        auto place = bits_as<float>(corner);
        LAMINA_UNROLL for (int i = 1; i < 4; ++i) {
          const floats v = q.at[i / 2][i % 2];
          const auto better = (v > best) | xsimd::isnan(v);  // != is an ordered comparison on some sets
          best = xsimd::select(better, v, best);
          if constexpr (Index) {
            const auto here = corner + ints(static_cast<std::int32_t>(i / 2 * w.width + i % 2));
            place = xsimd::select(better, bits_as<float>(here), place);
          }
        }
        store_floats(out + x, best, count);
        if constexpr (Index) store_floats(reinterpret_cast<float*>(index + x), place, count);
      }
      if constexpr (Index) index += w.out_width;
    }
  }
}

/// Clears the last row and column of a map with odd extents, which no 2x2 window covers.
LAMINA_INLINE void clear_rest(const window& w, float* map) {
  for (long y = 0; y < 2 * w.out_height; ++y)
    for (long x = 2 * w.out_width; x < w.width; ++x) map[y * w.width + x] = 0;
  for (long i = 2 * w.out_height * w.width; i < w.height * w.width; ++i) map[i] = 0;
}

void max_pairs_grad(const pool_grad_args& a) {
  const window& w = a.w;
  const float* in = static_cast<const float*>(a.in);
  const std::int32_t* index = a.index;
  float* out = static_cast<float*>(a.out);
  const auto step = twice_counting(all_lanes{});
  // A position past its map matches no pixel here; `beyond` records such positions lane by lane.
  const long plane = w.height * w.width;
  const ints last(static_cast<std::int32_t>(plane - 1 < 0x7fffffff ? plane - 1 : 0x7fffffff));
  auto beyond = ints(0);
  for (long n = 0; n < a.images * w.channels; ++n, out += w.height * w.width) {
    for (long y = 0; y < w.out_height; ++y, in += w.out_width, index += w.out_width) {
      for (long x = 0; x < w.out_width; x += lane_count) {
        const long count = w.out_width - x;
        const auto m = first<float>(static_cast<int>(count < lane_count ? count : lane_count));
        const auto gradient = load(in + x, m);
        const auto place = bits_as<std::int32_t>(load(reinterpret_cast<const float*>(index + x), m));
        beyond = beyond | xsimd::select(place > last, ints(-1), ints(0));
        const auto offset = place - step - ints(static_cast<std::int32_t>(2 * y * w.width + 2 * x));
        quads q;
        LAMINA_UNROLL for (int i = 0; i < 4; ++i) {
          // The difference is zero if this pixel was the maximum; compared as integers, used as a bit mask.
          const auto other = offset ^ ints(static_cast<std::int32_t>(i / 2 * w.width + i % 2));
          const auto hit = xsimd::select(other == ints(0), ints(-1), ints(0));
          q.at[i / 2][i % 2] = bits_as<float>(bits_as<std::int32_t>(gradient) & hit);
        }
        store_quads(out + 2 * y * w.width + 2 * x, w.width, count, q);
      }
    }
    clear_rest(w, out);
  }
  std::int32_t found[static_cast<std::size_t>(lane_count)];
  store_floats(reinterpret_cast<float*>(found), bits_as<float>(beyond), lane_count);
  bool any = false;
  for (int i = 0; i < lane_count; ++i) any = any || found[i] != 0;
  if (!any) return;
  const long positions = a.images * w.channels * w.out_height * w.out_width;
  for (long i = 0; i < positions; ++i)
    if (a.index[i] >= plane) count_wrong(a.invalid, a.index[i], i);
}

void average_pairs(const pool_args& a) {
  const window& w = a.w;
  const float* in = static_cast<const float*>(a.in);
  float* out = static_cast<float*>(a.out);
  for (long n = 0; n < a.images * w.channels; ++n, in += w.height * w.width)
    for (long y = 0; y < w.out_height; ++y, out += w.out_width)
      for (long x = 0; x < w.out_width; x += lane_count) {
        const quads q = load_quads(in + 2 * y * w.width + 2 * x, w.width, w.out_width - x);
        const auto sum = q.at[0][0] + q.at[0][1] + q.at[1][0] + q.at[1][1];
        store_floats(out + x, sum * floats(0.25f), w.out_width - x);
      }
}

void average_pairs_grad(const pool_grad_args& a) {
  const window& w = a.w;
  const float* in = static_cast<const float*>(a.in);
  float* out = static_cast<float*>(a.out);
  for (long n = 0; n < a.images * w.channels; ++n, out += w.height * w.width) {
    for (long y = 0; y < w.out_height; ++y, in += w.out_width)
      for (long x = 0; x < w.out_width; x += lane_count) {
        const long count = w.out_width - x;
        const auto m = first<float>(static_cast<int>(count < lane_count ? count : lane_count));
        const auto share = load(in + x, m) * floats(0.25f);
        store_quads(out + 2 * y * w.width + 2 * x, w.width, count, {{{share, share}, {share, share}}});
      }
    clear_rest(w, out);
  }
}

/// Memory of `combine_windows`: padded rows of a map, and what the columns of the windows give in each of them.
template <class T> struct window_lines {
  static constexpr long size = 8192 / static_cast<long>(sizeof(T)), longest = size / 4, max_taps = longest / 2;
  alignas(64) T row[size + 4 * width<T>];
  alignas(64) T combined[size + width<T>];
};

/// Columns [begin, begin + size) of a row, which at(column, left) loads; `nothing` takes the place of padding.
template <class T, class At>
LAMINA_INLINE void write_padded(long columns, long begin, long size, T* line, T nothing, At at) {
  const long left = begin < 0 ? (-begin < size ? -begin : size) : 0, past = columns - begin;
  const long right = past < left ? left : past < size ? past : size;
  LAMINA_NO_UNROLL for (long c = 0; c < left; ++c) line[c] = nothing;
  long c = left;
  LAMINA_NO_UNROLL for (; c + width<T> <= right; c += width<T>) store<T>(line + c, at(begin + c, width<T>));
  if (c < right) store<T>(line + c, at(begin + c, right - c));
  LAMINA_NO_UNROLL for (c = right; c < size; ++c) line[c] = nothing;
}
template <class T> LAMINA_INLINE vec<T> every_second(const T* p) {
  return regrouped<true, 0, T>(load(p), load(p + width<T>));
}
/// Combines `taps` columns of `count` neighboring windows in one row; adds to `out` if they are not the first columns.
template <class T, class Step>
LAMINA_INLINE void combine_columns(const T* line, long stride, long taps, long count, bool begins, T* out, Step step) {
  const auto sweep = [&](auto tap) __attribute__((always_inline)) {
    if (begins && taps == 3) {
      LAMINA_NO_UNROLL for (long x = 0; x < count; x += width<T>) {
        const T* from = line + x * stride;
        store<T>(out + x, step(step(tap(from), tap(from + 1)), tap(from + 2)));
      }
      return;
    }
    LAMINA_NO_UNROLL for (long x = 0; x < count; x += width<T>) {
      const T* from = line + x * stride;
      vec<T> all = tap(from);
      if (!begins) all = step(load(out + x), all);
      LAMINA_NO_UNROLL for (long j = 1; j < taps; ++j) all = step(all, tap(from + j));
      store<T>(out + x, all);
    }
  };
  if (stride == 1) return sweep([](const T* p) __attribute__((always_inline)) { return load(p); });
  if (stride == 2) return sweep([](const T* p) __attribute__((always_inline)) { return every_second(p); });
  if (stride == 3)
    return sweep([](const T* p) __attribute__((always_inline)) {
      return regrouped<true, 0, T>(load(p), load(p + width<T>), load(p + 2 * width<T>));
    });
  if (stride == 4)
    return sweep([](const T* p) __attribute__((always_inline)) {
      return regrouped<true, 0, T>(every_second(p), every_second(p + 2 * width<T>));
    });
  LAMINA_NO_UNROLL for (long x = 0; x < count; ++x, line += stride) {
    T all = begins ? line[0] : step(out[x], line[0]);
    LAMINA_NO_UNROLL for (long j = 1; j < taps; ++j) all = step(all, line[j]);
    out[x] = all;
  }
}
/// Combines `rows` lines; adds to `out` if they are not the first rows of the windows.
template <class T, class Step>
LAMINA_INLINE void combine_rows(const T* line, long pitch, long rows, long count, bool begins, T* out, Step step) {
  LAMINA_NO_UNROLL for (long x = 0; x < count; x += width<T>) {
    const long left = count - x;
    vec<T> all = load(line + x);
    if (!begins) all = step(load_lanes(out + x, left), all);
    if (rows == 3) all = step(step(all, load(line + pitch + x)), load(line + 2 * pitch + x));
    else LAMINA_NO_UNROLL for (long i = 1; i < rows; ++i) all = step(all, load(line + i * pitch + x));
    if (left >= width<T>) store<T>(out + x, all);
    else store<T>(out + x, all, first<T>(static_cast<int>(left)));
  }
}

/// Combines the elements of each window of a plain map row by row, on every set in the same order.  Each row of the map
/// is combined along the columns of the windows once, however many windows share it.  `step` sees every element.
template <class T, class Step>
LAMINA_INLINE void combine_windows(const window& w, const T* in, T* out, T nothing, Step& step) {
  window_lines<T> lines;
  using limits = window_lines<T>;
  const long widest = w.kernel_w < limits::max_taps ? w.kernel_w : limits::max_taps;
  const long max_count = (limits::longest - widest) / w.stride_w + 1;
  const auto rows_of = [&](long y) __attribute__((always_inline)) {
    return window_span(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
  };
  for (long x = 0; x < w.out_width; x += max_count) {
    const long count = w.out_width - x < max_count ? w.out_width - x : max_count;
    const long pitch = ((count - 1) * w.stride_w + widest + width<T> - 1) / width<T> * width<T>;
    long unfinished = 0;
    for (long top = 0; top < w.height; top += limits::size / pitch) {
      const long bottom = top + limits::size / pitch < w.height ? top + limits::size / pitch : w.height;
      for (long j = 0; j < w.kernel_w; j += widest) {
        const long taps = w.kernel_w - j < widest ? w.kernel_w - j : widest;
        for (long i = top; i < bottom; ++i)
          write_padded(w.width, x * w.stride_w - w.pad_w + j, (count - 1) * w.stride_w + taps,
                       lines.row + (i - top) * pitch, nothing,
                       [&, row = in + i * w.width](long c, long left)
                           __attribute__((always_inline)) { return step.seen(load_lanes(row + c, left)); });
        for (long i = top; i < bottom; ++i)
          combine_columns(lines.row + (i - top) * pitch, w.stride_w, taps, count, j == 0,
                          lines.combined + (i - top) * pitch, step);
      }
      for (long y = unfinished; y < w.out_height; ++y) {
        const span rows = rows_of(y);
        if (rows.begin >= bottom) break;
        if (rows.end <= bottom) unfinished = y + 1;
        const long begin = rows.begin > top ? rows.begin : top, end = rows.end < bottom ? rows.end : bottom;
        if (begin < end)
          combine_rows(lines.combined + (begin - top) * pitch, pitch, end - begin, count, begin == rows.begin,
                       out + y * w.out_width + x, step);
      }
    }
    for (long y = 0; y < w.out_height; ++y)  // windows entirely in the padding
      if (const span rows = rows_of(y); rows.begin >= rows.end)
        for (long i = x; i < x + count; ++i) out[y * w.out_width + i] = nothing;
  }
}

/// Whether windows are combined first down their columns: they share few rows, and their columns are not neighbors.
LAMINA_INLINE bool takes_rows_first(const window& w) {
  return w.stride_w > 1 && w.kernel_h <= (w.stride_w == 2 ? 2 : 4) * w.stride_h;
}
/// The same, first down the columns of the windows, in vectors.
template <class T, class Step>
LAMINA_INLINE void combine_rows_first(const window& w, const T* in, T* out, T nothing, Step& step) {
  window_lines<T> lines;
  using limits = window_lines<T>;
  const long widest = w.kernel_w < limits::max_taps ? w.kernel_w : limits::max_taps;
  const long max_count = (limits::longest - widest) / w.stride_w + 1;
  for (long y = 0; y < w.out_height; ++y, out += w.out_width) {
    const span rows = window_span(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
    for (long x = 0; x < w.out_width; x += max_count) {
      const long count = w.out_width - x < max_count ? w.out_width - x : max_count;
      for (long j = 0; j < w.kernel_w; j += widest) {
        const long taps = w.kernel_w - j < widest ? w.kernel_w - j : widest;
        write_padded(rows.begin < rows.end ? w.width : 0, x * w.stride_w - w.pad_w + j, (count - 1) * w.stride_w + taps,
                     lines.row, nothing, [&](long c, long left) __attribute__((always_inline)) {
                       const T* from = in + rows.begin * w.width + c;
                       vec<T> all = step.seen(load_lanes(from, left));
                       LAMINA_NO_UNROLL for (long i = rows.begin + 1; i < rows.end; ++i) all =
                           step(all, step.seen(load_lanes(from += w.width, left)));
                       return all;
                     });
        combine_columns(lines.row, w.stride_w, taps, count, j == 0, lines.combined, step);
      }
      std::memcpy(out + x, lines.combined, static_cast<std::size_t>(count) * sizeof(T));
    }
  }
}

/// Windows of stride 1 over maps that are narrow enough: rows of results, as many as fit into the memory of this.
template <class T> struct near_windows {
  static constexpr long size = 8192 / static_cast<long>(sizeof(T)), widest = size / 8, lanes = width<T>;
  const window& w;
  long columns, pitch;                          // columns of the map that windows read; elements of a line
  long most, rows;                              // rows at a time; those of now
  long begin[size / lanes], end[size / lanes];  // rows of the map that each window reads
  alignas(64) T beyond[lanes];                  // bits of `nothing` in the lanes beyond the last column, 0 in others
  alignas(64) T line[size + lanes];             // with margins for padding
  alignas(64) T combined[size + lanes];

  LAMINA_INLINE static bool take(const window& w) {
    return w.stride_h == 1 && w.stride_w == 1 && w.pad_h >= 0 && w.pad_w >= 0 && w.out_height > 0 && w.out_width > 0 &&
           w.out_width <= 4 * lanes && w.kernel_w <= widest && w.pad_w < w.kernel_w;
  }
  LAMINA_INLINE near_windows(const window& of, T nothing) : w(of) {
    const auto whole = [](long n) { return (n + lanes - 1) / lanes * lanes; };
    const long last = w.out_width + w.kernel_w - 1 - w.pad_w;
    columns = w.width < last ? w.width : last;
    const long written = w.pad_w + whole(columns), read = whole(w.out_width) + w.kernel_w - 1;
    pitch = whole(written > read ? written : read);
    most = size / pitch < w.out_height ? size / pitch : w.out_height;
    LAMINA_NO_UNROLL for (long i = 0; i < most * pitch; i += lanes) store<T>(line + i, vec<T>(nothing));
    for (long i = 0; i < lanes; ++i) beyond[i] = columns > 0 && i < (columns - 1) % lanes + 1 ? T(0) : nothing;
  }
  LAMINA_INLINE void begin_at(long top) {
    rows = w.out_height - top < most ? w.out_height - top : most;
    for (long y = 0; y < rows; ++y) {
      const span of = window_span(top + y, 1, w.pad_h, w.kernel_h, w.height, w.more_h);
      begin[y] = of.begin, end[y] = of.end;
    }
  }
  /// Combines the windows of these rows of a map: first along rows of the map, with `nothing` beyond it.
  template <class Step> LAMINA_INLINE void combine(const T* in, T nothing, Step& step) {
    const long row = w.width;
    const auto combine_rows = [&](long x, auto at, const auto&... outside) __attribute__((always_inline)) {
      LAMINA_NO_UNROLL for (long y = 0, seen = 0; y < rows; ++y) {
        const T* from = in + begin[y] * row + x;
        for (long i = seen > begin[y] ? seen : begin[y]; i < end[y]; ++i) step.seen(at(in + i * row + x));
        seen = end[y];
        vec<T> all(nothing);
        if (end[y] - begin[y] == 3) all = step(step(at(from), at(from + row)), at(from + 2 * row));
        else if (begin[y] < end[y]) {
          all = at(from);
          LAMINA_NO_UNROLL for (long i = begin[y] + 1; i < end[y]; ++i) all = step(all, at(from += row));
        }
        store<T>(line + y * pitch + w.pad_w + x, (all | ... | outside));
      }
    };
    const long whole = columns / lanes * lanes;
    LAMINA_NO_UNROLL for (long x = 0; x < whole; x += lanes)
        combine_rows(x, [](const T* p) __attribute__((always_inline)) { return load(p); });
    if (const int left = static_cast<int>(columns - whole); left > 0)
      combine_rows(
          whole, [inside = first<T>(left)](const T* p) __attribute__((always_inline)) { return load(p, inside); },
          load(beyond));
    LAMINA_NO_UNROLL for (long y = 0; y < rows; ++y) LAMINA_NO_UNROLL for (long x = 0; x < w.out_width; x += lanes) {
      const T* from = line + y * pitch + x;
      vec<T> all = load(from);
      if (w.kernel_w == 3) all = step(step(all, load(from + 1)), load(from + 2));
      else LAMINA_NO_UNROLL for (long j = 1; j < w.kernel_w; ++j) all = step(all, load(from + j));
      store<T>(combined + y * w.out_width + x, all);  // what is beyond the row is overwritten
    }
  }
};

/// Keeps the first of equal maxima and the last of several NaNs.
struct keep_larger {
  LAMINA_INLINE floats operator()(floats best, floats v) const {
    return xsimd::select((v > best) | xsimd::isnan(v), v, best);
  }
  LAMINA_INLINE float operator()(float best, float v) const { return v > best || v != v ? v : best; }
};
/// The same without NaNs; in any order, unless there is a -0 where the maximum is zero.
struct keep_larger_number {
  using mask = decltype(xsimd::isnan(zero<float>()));
  mask nan = mask(false);
  ints least = zero<std::int32_t>();  // the lowest number where a -0 was
  LAMINA_INLINE floats seen(floats v) {
    nan = nan | xsimd::isnan(v);
    least = xsimd::min(least, bits_as<std::int32_t>(v));
    return v;
  }
  /// Whether the results of combining in any order are those of the order of `keep_larger`.
  LAMINA_INLINE bool is_sure(const float* results, long count) const {
    std::int32_t found[static_cast<std::size_t>(lane_count)];
    store_floats(reinterpret_cast<float*>(found), bits_as<float>(least), lane_count);
    bool minus = false, zeros = false;
    for (int i = 0; i < lane_count; ++i) minus = minus || found[i] == std::numeric_limits<std::int32_t>::min();
    if (minus) LAMINA_NO_UNROLL for (long x = 0; x < count; ++x) zeros = zeros || results[x] == 0.f;
    return !xsimd::any(nan) && !zeros;
  }
  LAMINA_INLINE floats operator()(floats best, floats v) const { return xsimd::select(v > best, v, best); }
  LAMINA_INLINE float operator()(float best, float v) const { return v > best ? v : best; }
};
/// A map with NaNs: combines every window row by row.
LAMINA_COMPACT void max_map(const window& w, const float* in, float* out) {
  for (long y = 0; y < w.out_height; ++y, out += w.out_width) {
    const span rows = window_span(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
    for (long x = 0; x < w.out_width; ++x) {
      const span columns = window_span(x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
      float best = -__builtin_inff();
      for (long i = rows.begin; i < rows.end; ++i)
        for (long j = columns.begin; j < columns.end; ++j) best = keep_larger{}(best, in[i * w.width + j]);
      out[x] = best;
    }
  }
}
/// A map in the order of `keep_larger`.
LAMINA_COMPACT void max_by_rows(const window& w, const float* in, float* out) {
  keep_larger_number step;
  combine_windows(w, in, out, -__builtin_inff(), step);
  if (xsimd::any(step.nan)) max_map(w, in, out);
}
LAMINA_COMPACT void max_any(const pool_args& a) {
  const window& w = a.w;
  const float* in = static_cast<const float*>(a.in);
  float* out = static_cast<float*>(a.out);
  constexpr float nothing = -__builtin_inff();
  const long results = w.out_height * w.out_width;
  for (long n = 0; n < a.images * w.channels; ++n, in += w.height * w.width, out += results) {
    keep_larger_number step;
    if (takes_rows_first(w)) {
      combine_rows_first(w, in, out, nothing, step);
      if (step.is_sure(out, results)) continue;
    }
    max_by_rows(w, in, out);
  }
}
LAMINA_APART void max_near(const pool_args& a) {
  const window& w = a.w;
  const long maps = a.images * w.channels, results = w.out_height * w.out_width;
  constexpr float nothing = -__builtin_inff();
  near_windows<float> near(w, nothing);
  for (long top = 0; top < w.out_height; top += near.rows) {
    near.begin_at(top);
    const float* in = static_cast<const float*>(a.in);
    float* out = static_cast<float*>(a.out);
    const long first = top * w.out_width, count = near.rows * w.out_width;
    for (long n = 0; n < maps; ++n, in += w.height * w.width, out += results) {
      keep_larger_number step;
      near.combine(in, nothing, step);
      std::memcpy(out + first, near.combined, static_cast<std::size_t>(count) * sizeof(float));
      if (!step.is_sure(out + first, count)) max_by_rows(w, in, out);
    }
  }
}
void max_pool(const pool_args& a) {
  if (near_windows<float>::take(a.w)) max_near(a);
  else max_any(a);
}

/// With positions if `a.index` is not null.
template <class T> void max_any_with_index(const pool_args& a) {
  const window& w = a.w;
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  std::int32_t* index = a.index;
  for (long n = 0; n < a.images * w.channels; ++n, in += w.height * w.width) {
    for (long y = 0; y < w.out_height; ++y) {
      const auto rows = window_span(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
      for (long x = 0; x < w.out_width; ++x) {
        const auto columns = window_span(x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
        T best = -static_cast<T>(__builtin_inf());
        long place = -1;
        if (rows.begin < rows.end && columns.begin < columns.end) {
          place = rows.begin * w.width + columns.begin;
          best = in[place];
        }
        for (long i = rows.begin; i < rows.end; ++i)
          for (long j = columns.begin; j < columns.end; ++j) {
            const T v = in[i * w.width + j];
            const bool better = v > best || v != v;
            best = better ? v : best;
            place = better ? i * w.width + j : place;
          }
        *out++ = best;
        if (index) *index++ = static_cast<std::int32_t>(place);
      }
    }
  }
}

template <class T> void max_any_grad(const pool_grad_args& a) {
  const window& w = a.w;
  const T* in = static_cast<const T*>(a.in);
  const std::int32_t* index = a.index;
  T* out = static_cast<T*>(a.out);
  const long maps = a.images * w.channels, plane = w.height * w.width, results = w.out_height * w.out_width;
  __builtin_memset(out, 0, static_cast<std::size_t>(maps * plane) * sizeof(T));
  for (long n = 0; n < maps; ++n, in += results, index += results, out += plane)
    for (long i = 0; i < results; ++i) {
      if (index[i] >= 0 && index[i] < plane) out[index[i]] += in[i];
      else if (index[i] >= 0) count_wrong(a.invalid, index[i], n * results + i);
    }
}

LAMINA_INLINE long divisor(const span& rows, const span& columns, bool count_padding) {
  const long count =
      count_padding ? rows.padded * columns.padded : (rows.end - rows.begin) * (columns.end - columns.begin);
  return count > 0 ? count : 1;
}

/// Divides sums of the windows of a plain map by the numbers of their elements.
template <class T> LAMINA_INLINE void divide_by_counts(const window& w, bool count_padding, T* out) {
  constexpr long chunk = 512;
  alignas(64) T columns[chunk + width<T>];
  const auto count = [&](const span& s) { return static_cast<T>(count_padding ? s.padded : s.end - s.begin); };
  for (long first_column = 0; first_column < w.out_width; first_column += chunk) {
    const long size = w.out_width - first_column < chunk ? w.out_width - first_column : chunk;
    for (long x = 0; x < size; ++x)
      columns[x] = count(window_span(first_column + x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w));
    for (long y = 0; y < w.out_height; ++y) {
      const vec<T> rows(count(window_span(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h)));
      T* row = out + y * w.out_width + first_column;
      for (long x = 0; x < size; x += width<T>) {
        const vec<T> all = xsimd::max(rows, zero<T>()) * load(columns + x);
        const vec<T> mean = quotient<T>(load_lanes(row + x, size - x), xsimd::max(all, vec<T>(T(1))));
        if (size - x >= width<T>) store<T>(row + x, mean);
        else store<T>(row + x, mean, kernels::first<T>(static_cast<int>(size - x)));
      }
    }
  }
}
struct sum_of_both {
  template <class V> LAMINA_INLINE V operator()(V sum, V v) const { return sum + v; }
  template <class V> LAMINA_INLINE static V seen(V v) { return v; }
};
template <class T> LAMINA_COMPACT void average_any(const pool_args& a) {
  const window& w = a.w;
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  for (long n = 0; n < a.images * w.channels; ++n, in += w.height * w.width, out += w.out_height * w.out_width) {
    sum_of_both step;
    if (takes_rows_first(w)) combine_rows_first(w, in, out, T(0), step);
    else combine_windows(w, in, out, T(0), step);
    divide_by_counts(w, a.count_padding != 0, out);
  }
}

template <class T> LAMINA_APART void average_near(const pool_args& a) {
  const window& w = a.w;
  const long maps = a.images * w.channels, results = w.out_height * w.out_width;
  near_windows<T> near(w, T(0));
  alignas(64) T counts[near_windows<T>::size + width<T>];  // of elements of the windows of these rows
  for (long top = 0; top < w.out_height; top += near.rows) {
    near.begin_at(top);
    T* number = counts;
    for (long y = 0; y < near.rows; ++y)
      for (long x = 0; x < w.out_width; ++x)
        *number++ =
            static_cast<T>(divisor(window_span(top + y, 1, w.pad_h, w.kernel_h, w.height, w.more_h),
                                   window_span(x, 1, w.pad_w, w.kernel_w, w.width, w.more_w), a.count_padding != 0));
    const long count = number - counts;
    const T* in = static_cast<const T*>(a.in);
    T* out = static_cast<T*>(a.out) + top * w.out_width;
    for (long n = 0; n < maps; ++n, in += w.height * w.width, out += results) {
      sum_of_both step;
      near.combine(in, T(0), step);
      LAMINA_NO_UNROLL for (long i = 0; i < count; i += width<T>) {
        const vec<T> mean = quotient<T>(load(near.combined + i), load(counts + i));
        if (count - i >= width<T>) store<T>(out + i, mean);
        else store<T>(out + i, mean, kernels::first<T>(static_cast<int>(count - i)));
      }
    }
  }
}
template <class T> void average_pool(const pool_args& a) {
  if (near_windows<T>::take(a.w)) average_near<T>(a);
  else average_any<T>(a);
}

template <class T> void average_any_grad(const pool_grad_args& a) {
  const window& w = a.w;
  const T* in = static_cast<const T*>(a.in);
  T* out = static_cast<T*>(a.out);
  const long maps = a.images * w.channels, plane = w.height * w.width;
  __builtin_memset(out, 0, static_cast<std::size_t>(maps * plane) * sizeof(T));
  for (long n = 0; n < maps; ++n, out += plane) {
    for (long y = 0; y < w.out_height; ++y) {
      const auto rows = window_span(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
      for (long x = 0; x < w.out_width; ++x) {
        const auto columns = window_span(x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
        const T share = *in++ / static_cast<T>(divisor(rows, columns, a.count_padding != 0));
        for (long i = rows.begin; i < rows.end; ++i)
          for (long j = columns.begin; j < columns.end; ++j) out[i * w.width + j] += share;
      }
    }
  }
}

/// One result of a blocked map, for any window. Four accumulators hide the latency of wide windows.
template <class Begin, class Step> LAMINA_INLINE floats window_blocked(const float* in, long line, const span& rows,
                                                                       const span& columns, Begin begin, Step step) {
  floats part[4] = {begin(), begin(), begin(), begin()};
  for (long i = rows.begin; i < rows.end; ++i) {
    const float* row = in + i * line;
    long j = columns.begin;
    for (; j + 4 <= columns.end; j += 4)
      LAMINA_UNROLL for (int k = 0; k < 4; ++k) part[k] = step(part[k], load(row + (j + k) * lane_count));
    LAMINA_UNROLL for (int k = 0; k < 3; ++k) if (j + k < columns.end) part[k] =
        step(part[k], load(row + (j + k) * lane_count));
  }
  return step(step(part[0], part[1]), step(part[2], part[3]));
}

/// Results [first, last) of one row of a blocked map, with windows `Columns` wide that are inside the map horizontally.
template <int Columns, class Begin, class Step, class End>
LAMINA_INLINE void row_blocked(const window& w, const float* in, float* out, const span& rows, long first, long last,
                               Begin begin, Step step, End end) {
  const long line = w.width * lane_count, pixel = w.stride_w * lane_count;
  const span columns{0, Columns, Columns};
  const float* at = in + rows.begin * line + (first * w.stride_w - w.pad_w) * lane_count;
  for (long x = first; x < last; ++x, at += pixel) {
    floats part[Columns];
    LAMINA_UNROLL for (int k = 0; k < Columns; ++k) part[k] = begin();
    const float* row = at;
    for (long i = rows.begin; i < rows.end; ++i, row += line)
      LAMINA_UNROLL for (int k = 0; k < Columns; ++k) part[k] = step(part[k], load(row + k * lane_count));
    floats all = step(part[0], part[1]);
    if constexpr (Columns == 3) all = step(all, part[2]);
    store<float>(out + x * lane_count, end(all, rows, columns));
  }
}

/// Columns [begin, end) of a row of results whose windows are inside the map horizontally.
struct inner_results {
  long begin, end;
  LAMINA_INLINE explicit inner_results(const window& w) {
    const reached_results left(-w.pad_w, w.stride_w, w.width, w.out_width),
        right(w.kernel_w - 1 - w.pad_w, w.stride_w, w.width, w.out_width);
    begin = left.first < w.out_width ? left.first : w.out_width;
    end = right.last > begin ? right.last : begin;
  }
};

/// Blocked maps: a register holds one pixel of a block of channels.
template <class Begin, class Step, class End>
LAMINA_INLINE void sweep_blocked(const pool_args& a, Begin begin, Step step, End end) {
  const window& w = a.w;
  const float* in = static_cast<const float*>(a.in);
  float* out = static_cast<float*>(a.out);
  const long maps = a.images * ((w.channels + lane_count - 1) / lane_count), line = w.width * lane_count;
  const inner_results inner(w);
  const bool narrow = w.kernel_w == 2 || w.kernel_w == 3;
  const long first = narrow ? inner.begin : 0, last = narrow ? inner.end : 0;
  for (long n = 0; n < maps; ++n, in += w.height * line) {
    for (long y = 0; y < w.out_height; ++y, out += w.out_width * lane_count) {
      const auto rows = window_span(y, w.stride_h, w.pad_h, w.kernel_h, w.height, w.more_h);
      const auto edges = [&](long x, long until) __attribute__((always_inline)) {
        for (; x < until; ++x) {
          const auto columns = window_span(x, w.stride_w, w.pad_w, w.kernel_w, w.width, w.more_w);
          store<float>(out + x * lane_count, end(window_blocked(in, line, rows, columns, begin, step), rows, columns));
        }
      };
      edges(0, first);
      if (w.kernel_w == 2) row_blocked<2>(w, in, out, rows, first, last, begin, step, end);
      else if (w.kernel_w == 3) row_blocked<3>(w, in, out, rows, first, last, begin, step, end);
      edges(last, w.out_width);
    }
  }
}

}  // namespace
}  // namespace LAMINA_KERNEL_SET

extern "C" {

#define LAMINA_POOL(name, function) \
  void LAMINA_KERNEL(name)(const void* args, void*) noexcept { function(*static_cast<const pool_args*>(args)); }
LAMINA_POOL(max_pool_f32, max_pool)
LAMINA_POOL(max_pool_f64, max_any_with_index<double>)  // without vectors: float64 serves to check gradients
LAMINA_POOL(max_pool_with_index_f32, max_any_with_index<float>)
LAMINA_POOL(max_pool_with_index_f64, max_any_with_index<double>)
LAMINA_POOL(max_pool_pairs_f32, max_pairs<false>)
LAMINA_POOL(max_pool_pairs_with_index_f32, max_pairs<true>)
LAMINA_POOL(average_pool_f32, average_pool<float>)
LAMINA_POOL(average_pool_f64, average_pool<double>)
LAMINA_POOL(average_pool_pairs_f32, average_pairs)
#undef LAMINA_POOL
void LAMINA_KERNEL(max_pool_grad_f32)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const pool_grad_args*>(args);
  if (a.w.is_pairs()) max_pairs_grad(a);
  else max_any_grad<float>(a);
}
void LAMINA_KERNEL(max_pool_grad_f64)(const void* args, void*) noexcept {
  max_any_grad<double>(*static_cast<const pool_grad_args*>(args));
}
void LAMINA_KERNEL(average_pool_grad_f32)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const pool_grad_args*>(args);
  if (a.w.is_pairs()) average_pairs_grad(a);
  else average_any_grad<float>(a);
}
void LAMINA_KERNEL(average_pool_grad_f64)(const void* args, void*) noexcept {
  average_any_grad<double>(*static_cast<const pool_grad_args*>(args));
}

void LAMINA_KERNEL(channel_block_f32)(const void* args, void*) noexcept {
  blocked::channel_block(*static_cast<const channel_block_args*>(args));
}
void LAMINA_KERNEL(channel_block_s8)(const void* args, void*) noexcept {
  blocked::gather_lanes<std::int8_t>(*static_cast<const channel_block_args*>(args));
}

void LAMINA_KERNEL(max_pool_blocked_f32)(const void* args, void*) noexcept {
  sweep_blocked(
      *static_cast<const pool_args*>(args), []() __attribute__((always_inline)) { return floats(-__builtin_inff()); },
      keep_larger{}, [](floats best, const span&, const span&) __attribute__((always_inline)) { return best; });
}
void LAMINA_KERNEL(average_pool_blocked_f32)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const pool_args*>(args);
  const bool padding = a.count_padding != 0;
  sweep_blocked(
      a, []() __attribute__((always_inline)) { return zero<float>(); },
      [](floats sum, floats v) __attribute__((always_inline)) { return sum + v; },
      [padding](floats sum, const span& rows, const span& columns) __attribute__((always_inline)) {
        return quotient<float>(sum, floats(static_cast<float>(divisor(rows, columns, padding))));
      });
}

}  // extern "C"

}  // namespace lamina::kernels
