// Convolution in the plain layout and its two gradients, through im2col (im2row) and a matrix product, or directly.
//
// All of them start from a copy of an image's planes with its padding written out, so that nothing after it has to look
// at borders; the copy, the im2col matrix and the rows are followed by a register of slack, since rows are moved in
// whole registers whose excess the next row overwrites.
#pragma once
#include "conv_direct.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace plain {

using blocked::divide_up;
using blocked::larger;
using blocked::smaller;

enum role { forward, input_grad, weight_grad };

/// What `prepare` decides, at fixed places of conv_plain_args::decision.
enum place {
  method,                      // one of `methods`
  row_group, group_count,      // output rows of one product; number of such groups (the last may be shorter)
  tile_channels, tile_vectors  // direct: larger of the two tile heights; registers of pixels
};
enum methods { by_tiles, by_product, by_columns };   // direct; input as it is (1x1); through im2col

/// Elements of an im2col matrix made at a time, in bytes: it should stay in the second level cache.
inline constexpr long column_bytes = 512 * 1024;

template <class T> constexpr long aligned(long count) {
  return divide_up(count * static_cast<long>(sizeof(T)), 64) * 64;
}

/// Planes with their padding written out.
struct padded { long planes, height, width, top, left; };
template <class T> constexpr long padded_bytes(const padded& p) {
  return aligned<T>(p.planes * p.height * p.width + 2 * width<T>);
}
constexpr padded padded_input(const window& w) {
  return {w.channels / w.groups, (w.out_height - 1) * w.stride_h + w.dilation_h * (w.kernel_h - 1) + 1,
          (w.out_width - 1) * w.stride_w + w.dilation_w * (w.kernel_w - 1) + 1, w.pad_h, w.pad_w};
}
/// The gradient of the result, so padded that the input's gradient is a stride 1 convolution of it.
constexpr padded padded_result(const window& w) {
  return {w.out_channels / w.groups, w.height + w.dilation_h * (w.kernel_h - 1),
          w.width + w.dilation_w * (w.kernel_w - 1), w.dilation_h * (w.kernel_h - 1) - w.pad_h,
          w.dilation_w * (w.kernel_w - 1) - w.pad_w};
}

/// `count` zeros and up to a register more.
template <class T> LAMINA_INLINE void clear(T* to, long count) {
  for (long i = 0; i < count; i += width<T>) store<T>(to + i, zero<T>());
}
/// `count` elements; writes, and where `Exact` is false also reads, up to a register more.
template <class T, bool Exact> LAMINA_INLINE void copy(const T* from, T* to, long count) {
  long i = 0;
  for (; i + width<T> <= count; i += width<T>) store<T>(to + i, load(from + i));
  if (i < count) store<T>(to + i, Exact ? load(from + i, first<T>(static_cast<int>(count - i))) : load(from + i));
}

template <class T> void pad_planes(const T* from, long height, long row, const padded& p, T* to) {
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

/// Rows of output pixels of rows [first, first + count): to[y][x][(c, i, j)].
template <class T> void im2row(const window& w, const padded& p, const T* from, long first, long count, T* to) {
  for (long y = first; y < first + count; ++y) {
    for (long x = 0; x < w.out_width; ++x) {
      for (long c = 0; c < p.planes; ++c) {
        const T* source = from + (c * p.height + y * w.stride_h) * p.width + x * w.stride_w;
        for (long i = 0; i < w.kernel_h; ++i, to += w.kernel_w, source += w.dilation_h * p.width) {
          if (w.dilation_w == 1) {
            copy<T, false>(source, to, w.kernel_w);
          } else {
            for (long j = 0; j < w.kernel_w; ++j) to[j] = source[j * w.dilation_w];
          }
        }
      }
    }
  }
}

/// Adds the columns of output rows [first, first + count) to the input pixels they came from.
template <class T> void col2im(const window& w, const T* from, long first, long count, T* to) {
  for (long c = 0; c < w.channels / w.groups; ++c, to += w.height * w.width) {
    for (long i = 0; i < w.kernel_h; ++i) {
      for (long j = 0; j < w.kernel_w; ++j) {
        const long left = j * w.dilation_w - w.pad_w;      // input column of output column 0
        const long begin = left >= 0 ? 0 : divide_up(-left, w.stride_w);
        const long end = left >= w.width ? 0 : smaller(w.out_width, (w.width - 1 - left) / w.stride_w + 1);
        for (long y = first; y < first + count; ++y, from += w.out_width) {
          const long row = y * w.stride_h - w.pad_h + i * w.dilation_h;
          if (row < 0 || row >= w.height) continue;
          T* target = to + row * w.width + left;
          long x = begin;
          if (w.stride_w == 1) {
            for (; x + width<T> <= end; x += width<T>) store<T>(target + x, load(target + x) + load(from + x));
            if (x < end) {
              const auto m = lamina::kernels::first<T>(static_cast<int>(end - x));
              store<T>(target + x, load(target + x, m) + load(from + x, m), m);
            }
          } else {
            for (; x < end; ++x) target[x * w.stride_w] += from[x];
          }
        }
      }
    }
  }
}

/// Hands out parts of the scratch, each on its own cache lines.
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

/// Sizes of a direct sweep in one of its two roles.
struct sweep {
  padded source;
  long source_height, source_width;      // planes before padding
  long channels, height, width;          // results of one group
  long kernel_h, kernel_w, dilation_h, dilation_w;

  constexpr sweep(const window& w, role r)
      : source(r == forward ? padded_input(w) : padded_result(w)),
        source_height(r == forward ? w.height : w.out_height), source_width(r == forward ? w.width : w.out_width),
        channels((r == forward ? w.out_channels : w.channels) / w.groups),
        height(r == forward ? w.out_height : w.height), width(r == forward ? w.out_width : w.width),
        kernel_h(w.kernel_h), kernel_w(w.kernel_w), dilation_h(w.dilation_h), dilation_w(w.dilation_w) {}
  constexpr long taps() const { return source.planes * kernel_h * kernel_w; }
  template <class T> constexpr long positions() const { return height * divide_up(width, lamina::kernels::width<T>); }
};

template <class T> constexpr long tiles_bytes(const sweep& s) {
  return padded_bytes<T>(s.source) + aligned<long>(s.taps()) + aligned<direct::position>(s.positions<T>()) +
         aligned<T>(s.taps() * s.channels);
}

/// Weights of one group as [tile][taps in the order (i, source plane, j)][channels of the tile].
template <class T> void pack_direct(const sweep& s, role r, const T* weight, long tile_channels, T* to) {
  const long area = s.kernel_h * s.kernel_w;
  const long tiles = divide_up(s.channels, tile_channels), base = s.channels / tiles, longer = s.channels % tiles;
  for (long t = 0, first = 0; t < tiles; ++t) {
    const long size = base + (t < longer);
    for (long i = 0; i < s.kernel_h; ++i)
      for (long c = 0; c < s.source.planes; ++c)
        for (long j = 0; j < s.kernel_w; ++j)
          for (long m = first; m < first + size; ++m)
            *to++ = r == forward ? weight[(m * s.source.planes + c) * area + i * s.kernel_w + j]
                                 : weight[(c * s.channels + m) * area + area - 1 - (i * s.kernel_w + j)];
    first += size;
  }
}

template <class T> void run_tiles(const conv_plain_args& a, role r, void* scratch) {
  const window& w = a.w;
  const sweep s(w, r);
  const padded& p = s.source;
  scratch_parts parts(scratch);
  T* planes = parts.take<T>(padded_bytes<T>(p));
  long* tap = parts.take<long>(aligned<long>(s.taps()));
  const long positions = s.positions<T>();
  auto* at = parts.take<direct::position>(aligned<direct::position>(positions));
  T* weights = parts.take<T>(aligned<T>(s.taps() * s.channels));
  for (long i = 0, k = 0; i < s.kernel_h; ++i)
    for (long c = 0; c < p.planes; ++c)
      for (long j = 0; j < s.kernel_w; ++j, ++k)
        tap[k] = (c * p.height + i * s.dilation_h) * p.width + j * s.dilation_w;
  for (long y = 0, k = 0; y < s.height; ++y)
    for (long x = 0; x < s.width; x += width<T>, ++k)
      at[k] = {y * p.width + x, y * s.width + x, y, smaller(width<T>, s.width - x)};

  const long vectors = a.decision[tile_vectors], row_taps = p.planes * s.kernel_w;
  const long tiles = divide_up(s.channels, a.decision[tile_channels]);
  const long base = s.channels / tiles, longer = s.channels % tiles;
  const long source_image = w.groups * p.planes * s.source_height * s.source_width;
  const long out_image = w.groups * s.channels * s.height * s.width;
  direct::tile_args<T> q;
  q.out_plane = s.height * s.width;
  q.low = static_cast<T>(a.low);
  q.high = static_cast<T>(a.high);
  q.clamp = a.clamp != 0 && r == forward;
  for (long g = 0; g < w.groups; ++g) {
    pack_direct(s, r, static_cast<const T*>(a.weight) + g * s.taps() * s.channels, a.decision[tile_channels], weights);
    for (long n = a.first; n < a.first + a.count; ++n) {
      const T* in = static_cast<const T*>(a.in) + n * source_image + g * p.planes * s.source_height * s.source_width;
      T* out = static_cast<T*>(a.out) + n * out_image + g * s.channels * q.out_plane;
      pad_planes(in, s.source_height, s.source_width, p, planes);
      q.source = planes;
      for (long v = 0; v < positions; v += vectors) {
        q.at = at + smaller(v, positions - vectors);        // the last tile may repeat results of the one before
        // Kernel rows that meet a row of the map for at least one pixel of the tile.
        const long low = q.at[0].row, high = q.at[vectors - 1].row;
        const long begin = larger(0, divide_up(larger(0, p.top - high), s.dilation_h));
        const long end = larger(begin, smaller(s.kernel_h, divide_up(larger(0, s.source_height + p.top - low), s.dilation_h)));
        q.tap = tap + begin * row_taps;
        q.taps = (end - begin) * row_taps;
        const T* weight = weights;
        for (long t = 0, m = 0; t < tiles; ++t) {
          const long size = base + (t < longer);
          q.weight = weight + begin * row_taps * size;
          q.out = out + m * q.out_plane;
          q.bias = a.bias && r == forward ? static_cast<const T*>(a.bias) + g * s.channels + m : nullptr;
          a.tile[size > base ? 1 : 0](&q);
          weight += s.taps() * size;
          m += size;
        }
      }
    }
  }
}

/// Sizes of the products of all three roles.
struct sizes {
  long channels, outs, taps, pixels, in_plane;
  constexpr explicit sizes(const window& w)
      : channels(w.channels / w.groups), outs(w.out_channels / w.groups), taps(channels * w.kernel_h * w.kernel_w),
        pixels(w.out_height * w.out_width), in_plane(w.height * w.width) {}
};

template <class T> constexpr long matrix_bytes(const conv_plain_args& a) {
  if (a.decision[method] == by_product) return 0;
  return padded_bytes<T>(padded_input(a.w)) +
         aligned<T>(sizes(a.w).taps * a.decision[row_group] * a.w.out_width + 2 * width<T>);
}

template <class T> void run_products(const conv_plain_args& a, role r, void* scratch) {
  const window& w = a.w;
  const sizes s(w);
  const padded p = padded_input(w);
  const bool columns = a.decision[method] == by_columns;
  scratch_parts parts(scratch);
  T* planes = columns ? parts.take<T>(padded_bytes<T>(p)) : nullptr;
  T* matrix = columns ? parts.take<T>(aligned<T>(s.taps * a.decision[row_group] * w.out_width + 2 * width<T>)) : nullptr;
  void* rest = parts.take<char>(0);
  const T* in = static_cast<const T*>(a.in);
  const T* weight = static_cast<const T*>(a.weight);
  T* out = static_cast<T*>(a.out);
  if (r == weight_grad) __builtin_memset(out, 0, static_cast<std::size_t>(w.groups * s.outs * s.taps) * sizeof(T));
  gemm_args product[2] = {a.product, a.product_tail};
  for (long g = 0; g < w.groups; ++g) {
    const T* group_weight = weight + g * s.outs * s.taps;
    for (long n = a.first; n < a.first + a.count; ++n) {
      const long image = (n * w.groups + g) * s.channels * s.in_plane;       // of the forward input
      const long result = (n * w.groups + g) * s.outs * s.pixels;            // of the forward result
      if (columns && r != input_grad) pad_planes(in + image, w.height, w.width, p, planes);
      if (columns && r == input_grad)
        __builtin_memset(out + image, 0, static_cast<std::size_t>(s.channels * s.in_plane) * sizeof(T));
      for (long group = 0; group < a.decision[group_count]; ++group) {
        const long row = group * a.decision[row_group], rows = smaller(a.decision[row_group], w.out_height - row);
        gemm_args& q = product[rows == a.decision[row_group] ? 0 : 1];
        const long offset = row * w.out_width;
        if (r == forward) {
          if (columns) im2col(w, p, planes, row, rows, matrix);
          q.a = group_weight;
          q.b = columns ? matrix : in + image + offset;
          q.c = out + result + offset;
          q.bias_row = a.bias ? static_cast<const T*>(a.bias) + g * s.outs : nullptr;
        } else if (r == input_grad) {
          q.a = group_weight;
          q.b = in + result + offset;
          q.c = columns ? matrix : out + image + offset;
        } else {
          if (columns) im2row(w, p, planes, row, rows, matrix);
          q.a = weight + result + offset;
          q.b = columns ? matrix : in + image + offset;
          q.c = out + g * s.outs * s.taps;
        }
        a.product_run(&q, rest);
        if (columns && r == input_grad) col2im(w, matrix, row, rows, out + image);
      }
    }
  }
}

/// Fills the product of `rows` output rows.
template <class T> void describe_product(const conv_plain_args& a, role r, long rows, gemm_args& q) {
  const sizes s(a.w);
  const bool columns = a.decision[method] == by_columns;
  const long pixels = rows * a.w.out_width;
  q = gemm_args{};
  q.batch = 1;
  q.low = a.low;
  q.high = a.high;
  if (r == forward) {
    q.m = s.outs, q.n = pixels, q.k = s.taps;
    q.a_row = s.taps, q.a_column = 1;
    q.b_row = columns ? pixels : s.pixels, q.b_column = 1;
    q.c_row = s.pixels;
    q.clamp = a.clamp;
    q.bias_row = a.bias;
  } else if (r == input_grad) {
    q.m = s.taps, q.n = pixels, q.k = s.outs;
    q.a_row = 1, q.a_column = s.taps;
    q.b_row = s.pixels, q.b_column = 1;
    q.c_row = columns ? pixels : s.in_plane;
  } else {
    q.m = s.outs, q.n = s.taps, q.k = pixels;
    q.a_row = s.pixels, q.a_column = 1;
    q.b_row = columns ? s.taps : 1, q.b_column = columns ? 1 : s.in_plane;
    q.c_row = s.taps;
    q.accumulate = 1;
  }
}

/// Cycles of a direct sweep and of im2col with a product, roughly: two multiply-adds or loads a cycle.
template <class T> bool prefers_tiles(const sweep& s, role r, long tile_channels, long vectors) {
  const double tap_cycles = static_cast<double>(larger(2 * tile_channels * vectors, 3 * vectors + 2 * tile_channels)) / 4;
  const double tiles = static_cast<double>(divide_up(s.channels, tile_channels)) *
                       static_cast<double>(divide_up(s.positions<T>(), vectors)) * static_cast<double>(s.taps());
  const double product = static_cast<double>(s.channels * divide_up(s.height * s.width, width<T>) * s.taps()) / 2;
  const double moved = static_cast<double>(s.positions<T>() * s.taps()) * 2;
  return tap_cycles * tiles < product * 1.1 + (r == forward ? moved : 2 * moved);
}

template <class T> void decide(conv_plain_args& a, role r, void (*const (&tiles)[6][4])(const void*) noexcept) {
  const window& w = a.w;
  const bool unit_stride = w.stride_h == 1 && w.stride_w == 1;
  const bool pointwise = unit_stride && w.kernel_h == 1 && w.kernel_w == 1 && w.pad_h == 0 && w.pad_w == 0;
  for (auto& d : a.decision) d = 0;
  for (auto& t : a.tile) t = nullptr;
  a.decision[method] = pointwise ? by_product : by_columns;
  if (!pointwise && unit_stride && r != weight_grad) {
    const sweep s(w, r);
    const long positions = s.positions<T>(), largest = divide_up(s.channels, divide_up(s.channels, 6));
    const long limit = (largest <= 2 ? 2 : 1) * (width<float> == 16 ? 4 : 2);
    long vectors = 1;
    while (2 * vectors <= smaller(limit, positions)) vectors *= 2;
    if (s.source.top >= 0 && s.source.left >= 0 && positions > 0 && prefers_tiles<T>(s, r, largest, vectors)) {
      const long parts = divide_up(s.channels, 6), base = s.channels / parts;
      const int step = vectors == 8 ? 3 : static_cast<int>(vectors / 2);
      a.decision[method] = by_tiles;
      a.decision[tile_channels] = largest;
      a.decision[tile_vectors] = vectors;
      a.tile[0] = tiles[base - 1][step];
      a.tile[1] = s.channels % parts ? tiles[base][step] : nullptr;
      return;
    }
  }
  const long row_bytes = sizes(w).taps * w.out_width * static_cast<long>(sizeof(T));
  const long most = pointwise ? w.out_height : larger(1, smaller(w.out_height, column_bytes / larger(1, row_bytes)));
  const long groups = larger(1, divide_up(w.out_height, larger(1, most)));
  a.decision[row_group] = divide_up(w.out_height, groups);
  a.decision[group_count] = a.decision[row_group] ? divide_up(w.out_height, a.decision[row_group]) : 0;
  describe_product<T>(a, r, a.decision[row_group], a.product);
  const long tail = w.out_height - a.decision[row_group] * (a.decision[group_count] - 1);
  describe_product<T>(a, r, tail, a.product_tail);
}

template <class T> LAMINA_INLINE void run(const void* args, void* scratch, role r) {
  const auto& a = *static_cast<const conv_plain_args*>(args);
  if (a.decision[method] == by_tiles && r != weight_grad)
    run_tiles<T>(a, r, scratch);
  else
    run_products<T>(a, r, scratch);
}

}  // namespace plain
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
