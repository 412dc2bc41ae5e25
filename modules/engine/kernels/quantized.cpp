// Kernels of quantised tensors for one instruction set.
//
// A product multiplies rows of one operand with panels of the other.  A panel is 16 columns wide and holds four of K
// side by side, [K / 4][16][4], which is what dot products of bytes read.  A linear layer has its features as rows and
// its weights as panels; a convolution has its weights as rows and 16 pixels of the result as a panel, so that results
// lie as images do.  What is left over of K is 0 in the operand that the weights are.
#include "quantized.h"

#include <cstring>

#include "simd.h"
#include "storage.h"
#if defined(__AVX512BW__)
#include <cpuid.h>
#endif

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace {

inline constexpr long panel_columns = 16, quad = 4;
constexpr long quads_of(long depth) { return (depth + quad - 1) / quad; }
constexpr long panels_of(long columns) { return (columns + panel_columns - 1) / panel_columns; }
constexpr std::size_t whole_lines(long bytes) { return static_cast<std::size_t>((bytes + 63) / 64 * 64); }

using bytes16 = std::int8_t __attribute__((ext_vector_type(16)));
using ints16 = std::int32_t __attribute__((ext_vector_type(16)));
using floats16 = float __attribute__((ext_vector_type(16)));

template <class V, class T> LAMINA_INLINE V read(const T* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

/// Ties to even for |x| < 2^22, without a rounding instruction, which SSE2 lacks.
template <class V> LAMINA_INLINE V rounded(V x) { return (x + 12582912.f) - 12582912.f; }

// ---- float <-> int8 ---------------------------------------------------------------------------------------------------

LAMINA_INLINE std::int8_t quantized(float x, float scale, float low, float high, std::int32_t offset) {
  float v = x / scale;
  v = v == v ? v : 0.f;
  v = v < low ? low : v;
  v = v > high ? high : v;
  return static_cast<std::int8_t>(static_cast<std::int32_t>(rounded(v)) + offset);
}

// ---- dot products of bytes --------------------------------------------------------------------------------------------

// A form of the tile: how many rows and panels it takes at most, and what it adds to each byte of x.
#if defined(__AVX512BW__)

/// Four of a row; beyond `left` they are 0.
LAMINA_INLINE std::int32_t quad_at(const std::int8_t* p, long left) {
  std::int32_t word = 0;
  if (left >= quad) std::memcpy(&word, p, 4);
  else std::memcpy(&word, p, static_cast<std::size_t>(left));
  return word;
}

/// Dot products of four bytes, one of them unsigned.  Compiled for what a machine of this set may have.
struct by_fours {
  static constexpr int rows = 4, panels = 4, shift = 128;
  using row_type = std::int8_t;              // rows as they are
  template <int MR, int NV, bool x_in_rows>
  __attribute__((target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni"))) static void tile(long depth, const std::int8_t* row, long row_step, const std::int8_t* panel, long panel_step, std::int32_t* sums) {
    __m512i acc[MR][NV];
    LAMINA_UNROLL for (int i = 0; i < MR; ++i)
      LAMINA_UNROLL for (int j = 0; j < NV; ++j) acc[i][j] = _mm512_setzero_si512();
    const __m512i flip = _mm512_set1_epi8(static_cast<char>(-128));
    const long whole = depth / quad;
    LAMINA_NO_UNROLL for (long q = 0; q < whole; ++q) {
      __m512i b[NV];
      LAMINA_UNROLL for (int j = 0; j < NV; ++j) b[j] = _mm512_loadu_si512(panel + j * panel_step + q * 64);
      LAMINA_UNROLL for (int i = 0; i < MR; ++i) {
        std::int32_t word;
        std::memcpy(&word, row + i * row_step + q * quad, 4);
        __m512i a = _mm512_set1_epi32(word);
        if (x_in_rows) a = _mm512_xor_si512(a, flip);
        LAMINA_UNROLL for (int j = 0; j < NV; ++j)
          acc[i][j] = x_in_rows ? _mm512_dpbusd_epi32(acc[i][j], a, b[j]) : _mm512_dpbusd_epi32(acc[i][j], b[j], a);
      }
    }
    if (const long left = depth - whole * quad) {
      LAMINA_UNROLL for (int i = 0; i < MR; ++i) {
        __m512i a = _mm512_set1_epi32(quad_at(row + i * row_step + whole * quad, left));
        if (x_in_rows) a = _mm512_xor_si512(a, flip);
        LAMINA_UNROLL for (int j = 0; j < NV; ++j) {
          const __m512i b = _mm512_loadu_si512(panel + j * panel_step + whole * 64);
          acc[i][j] = x_in_rows ? _mm512_dpbusd_epi32(acc[i][j], a, b) : _mm512_dpbusd_epi32(acc[i][j], b, a);
        }
      }
    }
    LAMINA_UNROLL for (int i = 0; i < MR; ++i)
      LAMINA_UNROLL for (int j = 0; j < NV; ++j) _mm512_storeu_si512(sums + (i * NV + j) * panel_columns, acc[i][j]);
  }
  static int there() noexcept {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c >> 11 & 1);
  }
};

#endif

#if defined(__AVX512BW__)
using words = __m512i;
LAMINA_INLINE words no_words() { return _mm512_setzero_si512(); }
LAMINA_INLINE words widened(const std::int8_t* p) { return _mm512_cvtepi8_epi16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))); }
LAMINA_INLINE words everywhere(std::int64_t four) { return _mm512_set1_epi64(four); }
LAMINA_INLINE words add_products(words acc, words a, words b) { return _mm512_add_epi32(acc, _mm512_madd_epi16(a, b)); }
inline constexpr int tile_rows = 4, tile_panels = 2;
#elif defined(__AVX2__)
using words = __m256i;
LAMINA_INLINE words no_words() { return _mm256_setzero_si256(); }
LAMINA_INLINE words widened(const std::int8_t* p) { return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))); }
LAMINA_INLINE words everywhere(std::int64_t four) { return _mm256_set1_epi64x(four); }
LAMINA_INLINE words add_products(words acc, words a, words b) { return _mm256_add_epi32(acc, _mm256_madd_epi16(a, b)); }
inline constexpr int tile_rows = 2, tile_panels = 1;      // three rows would spill a register
#elif defined(__SSE2__)
using words = __m128i;
LAMINA_INLINE words no_words() { return _mm_setzero_si128(); }
LAMINA_INLINE words widened(const std::int8_t* p) {
  const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
  return _mm_srai_epi16(_mm_unpacklo_epi8(x, x), 8);
}
LAMINA_INLINE words everywhere(std::int64_t four) { return _mm_set1_epi64x(four); }
LAMINA_INLINE words add_products(words acc, words a, words b) { return _mm_add_epi32(acc, _mm_madd_epi16(a, b)); }
inline constexpr int tile_rows = 1, tile_panels = 1;
#endif

#if defined(__SSE2__)

/// Bytes widened to 16 bits, whose products are added in pairs: two sums a column.
struct by_pairs {
  static constexpr int rows = tile_rows, panels = tile_panels, shift = 0;
  static constexpr int bytes = sizeof(words) / 2, parts = 64 / bytes;     // of a panel's quad
  using row_type = std::int16_t;             // rows are widened beforehand, in whole quads

  template <int MR, int NV, bool x_in_rows>
  static void tile(long depth, const std::int16_t* row, long row_step, const std::int8_t* panel, long panel_step, std::int32_t* sums) {
    words acc[MR][NV * parts];
    LAMINA_UNROLL for (int i = 0; i < MR; ++i)
      LAMINA_UNROLL for (int j = 0; j < NV * parts; ++j) acc[i][j] = no_words();
    LAMINA_NO_UNROLL for (long q = 0; q < quads_of(depth); ++q) {
      words a[MR];
      LAMINA_UNROLL for (int i = 0; i < MR; ++i) {
        std::int64_t four;
        std::memcpy(&four, row + i * row_step + q * quad, 8);
        a[i] = everywhere(four);
      }
      LAMINA_UNROLL for (int j = 0; j < NV; ++j)
        LAMINA_UNROLL for (int k = 0; k < parts; ++k) {
          const words b = widened(panel + j * panel_step + q * 64 + k * bytes);
          LAMINA_UNROLL for (int i = 0; i < MR; ++i) acc[i][j * parts + k] = add_products(acc[i][j * parts + k], a[i], b);
        }
    }
    alignas(64) std::int32_t halves[2 * panel_columns];
    LAMINA_UNROLL for (int i = 0; i < MR; ++i)
      LAMINA_UNROLL for (int j = 0; j < NV; ++j) {
        std::memcpy(halves, &acc[i][j * parts], sizeof halves);
        for (long c = 0; c < panel_columns; ++c) sums[(i * NV + j) * panel_columns + c] = halves[2 * c] + halves[2 * c + 1];
      }
  }
};

#else

/// One row and one panel, as the compiler of a machine without such instructions has it.
struct by_pairs {
  static constexpr int rows = 1, panels = 1, shift = 0;
  using row_type = std::int16_t;
  template <int MR, int NV, bool x_in_rows>
  static void tile(long depth, const std::int16_t* row, long, const std::int8_t* panel, long, std::int32_t* sums) {
    std::int32_t acc[panel_columns] = {};
    for (long q = 0; q < quads_of(depth); ++q)
      for (long c = 0; c < panel_columns; ++c)
        for (long k = 0; k < quad; ++k) acc[c] += static_cast<std::int32_t>(row[q * quad + k]) * panel[q * 64 + c * quad + k];
    std::memcpy(sums, acc, sizeof acc);
  }
};

#endif

/// The rows of an operand as a form reads them: as they are, or widened into memory that is lent.
template <class Form> struct row_operand {
  const typename Form::row_type* first;
  long step;
  row_operand(const std::int8_t* from, long from_step, long rows, long depth, void* memory) {
    if constexpr (sizeof(*first) == 1) first = from, step = from_step;
    else {
      auto* to = static_cast<std::int16_t*>(memory);
      first = to, step = quads_of(depth) * quad;
      for (long r = 0; r < rows; ++r, to += step) {
        for (long k = 0; k < depth; ++k) to[k] = from[r * from_step + k];
        for (long k = depth; k < step; ++k) to[k] = 0;
      }
    }
  }
};
constexpr std::size_t row_bytes(long rows, long depth) { return whole_lines(rows * quads_of(depth) * quad * 2); }

// ---- from sums to results ---------------------------------------------------------------------------------------------

/// Bias, with what the offset of x adds to each sum taken away, and factors; for each output channel.
struct finish {
  std::int32_t* bias;
  float* factor;
  float low, high;
  std::int32_t offset;
};

LAMINA_INLINE finish finish_of(const requantization& to, long channels, std::int32_t* bias, float* factor) {
  const float x = *to.x_scale, y = *to.y_scale;
  for (long o = 0; o < channels; ++o) factor[o] = x * to.w_scale[o * to.w_scale_step] / y;
  const std::int32_t offset = *to.y_offset;
  return {bias, factor, static_cast<float>(to.low - offset), static_cast<float>(to.high - offset), offset};
}
/// Sums wrap, as unsigned numbers do.
LAMINA_INLINE std::int32_t less_offset(std::int32_t bias, std::int32_t offset, std::int32_t weights) {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(bias) - static_cast<std::uint32_t>(offset) * static_cast<std::uint32_t>(weights));
}

LAMINA_INLINE bytes16 finished(const std::int32_t* sums, ints16 bias, floats16 factor, const finish& f) {
  using words16 = std::uint32_t __attribute__((ext_vector_type(16)));
  const ints16 sum = __builtin_bit_cast(ints16, read<words16>(sums) + __builtin_bit_cast(words16, bias));
  floats16 v = __builtin_convertvector(sum, floats16) * factor;
  v = v > f.low ? v : floats16(f.low);
  v = v < f.high ? v : floats16(f.high);
  return __builtin_convertvector(__builtin_convertvector(rounded(v), ints16) + f.offset, bytes16);
}

LAMINA_INLINE void put(std::int8_t* to, bytes16 v, long count) {
  if (count >= panel_columns) std::memcpy(to, &v, 16);
  else std::memcpy(to, &v, static_cast<std::size_t>(count));
}

// ---- tiles of a product -----------------------------------------------------------------------------------------------

/// The sums of up to Form::rows rows and Form::panels panels, [row][panel][16].
template <class Form, bool x_in_rows, int NV = Form::panels>
LAMINA_INLINE void tile(int rows, long depth, const typename Form::row_type* row, long row_step, const std::int8_t* panel, long panel_step, std::int32_t* sums) {
  switch (rows) {
    case 1: return Form::template tile<1, NV, x_in_rows>(depth, row, row_step, panel, panel_step, sums);
    case 2: if constexpr (Form::rows >= 2) return Form::template tile<2, NV, x_in_rows>(depth, row, row_step, panel, panel_step, sums); break;
    case 3: if constexpr (Form::rows >= 3) return Form::template tile<3, NV, x_in_rows>(depth, row, row_step, panel, panel_step, sums); break;
    default: if constexpr (Form::rows >= 4) return Form::template tile<4, NV, x_in_rows>(depth, row, row_step, panel, panel_step, sums); break;
  }
}

/// Calls each(row, rows, panel, panels, sums) for the tiles of rows x panels.
template <class Form, bool x_in_rows, class Each>
LAMINA_INLINE void tiles(long rows, long panels, long depth, row_operand<Form> row, const std::int8_t* panel, long panel_step, Each each) {
  alignas(64) std::int32_t sums[Form::rows * Form::panels * panel_columns];
  for (long p = 0; p < panels;) {
    const int wide = panels - p >= Form::panels ? Form::panels : 1;
    long left = (rows + Form::rows - 1) / Form::rows;       // tiles, which share the rows evenly
    for (long r = 0; r < rows; --left) {
      const int tall = static_cast<int>((rows - r + left - 1) / left);
      if (wide == 1) tile<Form, x_in_rows, 1>(tall, depth, row.first + r * row.step, row.step, panel + p * panel_step, panel_step, sums);
      else tile<Form, x_in_rows>(tall, depth, row.first + r * row.step, row.step, panel + p * panel_step, panel_step, sums);
      each(r, tall, p, wide, sums);
      r += tall;
    }
    p += wide;
  }
}

// ---- linear -----------------------------------------------------------------------------------------------------------

/// Bytes from a packed panel of weights to the next: its quads, and the sum of the weights of each column.
constexpr long linear_panel(long depth) { return quads_of(depth) * 64 + 64; }
/// Rows that are widened together.
inline constexpr long rows_at_once = 48;

template <class Form> LAMINA_INLINE void linear(const quantized_linear_args& a, void* scratch) {
  const long panels = panels_of(a.columns), step = linear_panel(a.depth);
  auto* bias = static_cast<std::int32_t*>(scratch);
  auto* factor = reinterpret_cast<float*>(bias + panels * panel_columns);
  const finish f = finish_of(a.to, a.columns, bias, factor);
  const std::int32_t offset = *a.to.x_offset + Form::shift;
  for (long p = 0; p < panels; ++p) {
    const ints16 weights = read<ints16>(a.packed + p * step + quads_of(a.depth) * 64);
    for (long c = 0; c < panel_columns; ++c) {
      const long o = p * panel_columns + c;
      bias[o] = o < a.columns ? less_offset(a.to.bias[o], offset, weights[c]) : 0;
      if (o >= a.columns) factor[o] = 0;
    }
  }
  for (long first = 0; first < a.rows; first += rows_at_once) {
    const long rows = a.rows - first < rows_at_once ? a.rows - first : rows_at_once;
    const row_operand<Form> x(a.x + first * a.x_row, a.x_row, rows, a.depth, factor + panels * panel_columns);
    tiles<Form, true>(rows, panels, a.depth, x, a.packed, step, [&](long r, int tall, long p, int wide, const std::int32_t* sums) __attribute__((always_inline)) {
      for (int j = 0; j < wide; ++j) {
        const long column = (p + j) * panel_columns;
        const ints16 b = read<ints16>(bias + column);
        const floats16 m = read<floats16>(factor + column);
        for (int i = 0; i < tall; ++i)
          put(a.y + (first + r + i) * a.y_row + column, finished(sums + (i * wide + j) * panel_columns, b, m, f), a.columns - column);
      }
    });
  }
}

// ---- convolution ------------------------------------------------------------------------------------------------------

/// Panels of pixels that are made before they are multiplied.
inline constexpr long panels_at_once = 8;

struct conv_layout {
  long depth, quads, pixels, row, plane;     // row and plane: of the padded image, in bytes
  std::size_t padded, panels, sums, factors, weights, bytes;
  explicit conv_layout(const window& w)
      : depth(w.channels / w.groups * w.kernel_h * w.kernel_w), quads(quads_of(depth)), pixels(w.out_height * w.out_width),
        row(w.width + 2 * w.pad_w), plane(row * (w.height + 2 * w.pad_h)) {
    padded = 0;
    panels = padded + whole_lines(w.channels * plane + 64);
    sums = panels + whole_lines(panels_at_once * quads * 64);
    factors = sums + whole_lines(w.out_channels * 4);
    weights = factors + whole_lines(w.out_channels * 4);
    bytes = weights + row_bytes(w.out_channels, depth);
  }
};

/// Writes the image with its padding, each byte flipped where the form wants unsigned numbers.
LAMINA_INLINE void pad_image(const window& w, const conv_layout& at, const std::int8_t* in, std::int8_t zero, std::int8_t flip, std::int8_t* out) {
  const auto fill = static_cast<std::int8_t>(zero ^ flip);
  for (long c = 0; c < w.channels; ++c) {
    std::int8_t* to = out + c * at.plane;
    if (w.pad_h || w.pad_w) std::memset(to, fill, static_cast<std::size_t>(at.plane));
    for (long y = 0; y < w.height; ++y) {
      const std::int8_t* from = in + (c * w.height + y) * w.width;
      std::int8_t* line = to + (y + w.pad_h) * at.row + w.pad_w;
      if (!flip) std::memcpy(line, from, static_cast<std::size_t>(w.width));
      else
        for (long x = 0; x < w.width; ++x) line[x] = static_cast<std::int8_t>(from[x] ^ flip);
    }
  }
}

/// Where 16 pixels of the result read the padded image: runs of neighbours where the stride is 1, else one by one.
inline constexpr bytes16 lane_numbers = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
struct pixel_panel {
  long place[panel_columns];
  long run[panel_columns];
  bytes16 mask[panel_columns];
  int runs;
  pixel_panel(const window& w, const conv_layout& at, long first) : runs(0) {
    long y = first / w.out_width, x = first % w.out_width;
    long t = 0;
    while (t < panel_columns && first + t < at.pixels) {
      const long left = w.out_width - x, count = left < panel_columns - t ? left : panel_columns - t;
      const long start = y * w.stride_h * at.row + x * w.stride_w;
      for (long k = 0; k < count; ++k) place[t + k] = start + k * w.stride_w;
      if (w.stride_w == 1) {
        run[runs] = start - t;
        mask[runs++] = __builtin_bit_cast(bytes16, (lane_numbers >= static_cast<std::int8_t>(t)) & (lane_numbers < static_cast<std::int8_t>(t + count)));
      }
      t += count, x = 0, ++y;
    }
    for (; t < panel_columns; ++t) place[t] = 0;
  }
};

/// Writes what 16 pixels read as a panel: [K / 4][16][4].
LAMINA_INLINE void pixels_to_panel(const window& w, const conv_layout& at, const std::int8_t* image, const pixel_panel& from, std::int8_t* to) {
  using bytes64 = std::int8_t __attribute__((ext_vector_type(64)));
  using bytes32 = std::int8_t __attribute__((ext_vector_type(32)));
  bytes16 line[quad] = {};
  long k = 0;
  const auto write = [&]() __attribute__((always_inline)) {
    const bytes32 ab = __builtin_shufflevector(line[0], line[1], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const bytes32 cd = __builtin_shufflevector(line[2], line[3], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    const bytes64 all = __builtin_shufflevector(ab, cd, 0, 1, 32, 33, 2, 3, 34, 35, 4, 5, 36, 37, 6, 7, 38, 39, 8, 9, 40, 41, 10, 11, 42, 43, 12, 13, 44, 45, 14, 15, 46, 47,
                                                16, 17, 48, 49, 18, 19, 50, 51, 20, 21, 52, 53, 22, 23, 54, 55, 24, 25, 56, 57, 26, 27, 58, 59, 28, 29, 60, 61, 30, 31, 62, 63);
    std::memcpy(to, &all, 64);
    to += 64;
  };
  for (long c = 0; c < w.channels / w.groups; ++c)
    for (long i = 0; i < w.kernel_h; ++i)
      for (long j = 0; j < w.kernel_w; ++j, ++k) {
        const std::int8_t* base = image + c * at.plane + i * w.dilation_h * at.row + j * w.dilation_w;
        bytes16 found(0);
        if (from.runs)
          for (int r = 0; r < from.runs; ++r) found |= read<bytes16>(base + from.run[r]) & from.mask[r];
        else
          for (long t = 0; t < panel_columns; ++t) found[t] = base[from.place[t]];
        line[k % quad] = found;
        if (k % quad == quad - 1) write();
      }
  if (k % quad) write();
}

template <class Form> LAMINA_INLINE void conv(const quantized_conv_args& a, void* scratch) {
  const window& w = a.w;
  const conv_layout at(w);
  auto* base = static_cast<std::int8_t*>(scratch);
  // Runs read up to 15 bytes before and behind what they need.
  std::int8_t *image = base + at.padded + 16, *panels = base + at.panels;
  auto* bias = reinterpret_cast<std::int32_t*>(base + at.sums);
  const finish f = finish_of(a.to, w.out_channels, bias, reinterpret_cast<float*>(base + at.factors));
  const std::int32_t offset = *a.to.x_offset + Form::shift;
  for (long o = 0; o < w.out_channels; ++o) {
    std::int32_t sum = 0;
    for (long k = 0; k < at.depth; ++k) sum += a.weight[o * at.depth + k];
    bias[o] = less_offset(a.to.bias[o], offset, sum);
  }
  const row_operand<Form> weights(a.weight, at.depth, w.out_channels, at.depth, base + at.weights);
  const auto flip = static_cast<std::int8_t>(Form::shift ? -128 : 0);
  const long rows = w.out_channels / w.groups;
  for (long n = a.first; n < a.first + a.count; ++n) {
    pad_image(w, at, a.in + n * w.channels * w.height * w.width, *a.to.x_offset, flip, image);
    for (long g = 0; g < w.groups; ++g) {
      const std::int8_t* of_group = image + g * (w.channels / w.groups) * at.plane;
      row_operand<Form> of_rows = weights;
      of_rows.first += g * rows * weights.step;
      std::int8_t* out = a.out + (n * w.out_channels + g * rows) * at.pixels;
      for (long first = 0; first < at.pixels; first += panels_at_once * panel_columns) {
        const long left = panels_of(at.pixels - first), count = left < panels_at_once ? left : panels_at_once;
        for (long p = 0; p < count; ++p)
          pixels_to_panel(w, at, of_group, pixel_panel(w, at, first + p * panel_columns), panels + p * at.quads * 64);
        tiles<Form, false>(rows, count, at.depth, of_rows, panels, at.quads * 64, [&](long r, int tall, long p, int wide, const std::int32_t* sums) __attribute__((always_inline)) {
          for (int i = 0; i < tall; ++i)
            for (int j = 0; j < wide; ++j) {
              const long o = g * rows + r + i, pixel = first + (p + j) * panel_columns;
              put(out + (r + i) * at.pixels + pixel, finished(sums + (i * wide + j) * panel_columns, ints16(f.bias[o]), floats16(f.factor[o]), f), at.pixels - pixel);
            }
        });
      }
    }
  }
}

// ---- pooling ----------------------------------------------------------------------------------------------------------

/// One map without indices: row by row, tap by tap.
template <long Stride> LAMINA_INLINE void pool_map(const window& w, const std::int8_t* in, std::int8_t* out) {
  const long stride = Stride ? Stride : w.stride_w;
  for (long y = 0; y < w.out_height; ++y, out += w.out_width) {
    std::memset(out, -128, static_cast<std::size_t>(w.out_width));
    for (long i = 0; i < w.kernel_h; ++i) {
      const long row = y * w.stride_h - w.pad_h + i;
      if (row < 0 || row >= w.height) continue;
      for (long j = 0; j < w.kernel_w; ++j) {
        const long shift = j - w.pad_w;
        const long first = shift < 0 ? (-shift + stride - 1) / stride : 0;
        const long end = w.width - shift <= 0 ? 0 : (w.width - shift + stride - 1) / stride;
        const long last = end < w.out_width ? end : w.out_width;
        const std::int8_t* from = in + row * w.width + shift;
        for (long x = first; x < last; ++x) out[x] = out[x] < from[x * stride] ? from[x * stride] : out[x];
      }
    }
  }
}

/// Windows of 2 x 2 side by side: rows joined, then neighbours, 16 results at a time.
LAMINA_INLINE void pool_pairs(const window& w, const std::int8_t* in, std::int8_t* out) {
  using bytes32 = std::int8_t __attribute__((ext_vector_type(32)));
  for (long y = 0; y < w.out_height; ++y, out += w.out_width, in += 2 * w.width)
    for (long x = 0; x < w.out_width; x += panel_columns) {
      const long count = w.out_width - x;
      bytes32 top = {}, bottom = {};
      if (count >= panel_columns) top = read<bytes32>(in + 2 * x), bottom = read<bytes32>(in + w.width + 2 * x);
      else {
        std::memcpy(&top, in + 2 * x, static_cast<std::size_t>(2 * count));
        std::memcpy(&bottom, in + w.width + 2 * x, static_cast<std::size_t>(2 * count));
      }
      top = __builtin_elementwise_max(top, bottom);
      const bytes16 even = __builtin_shufflevector(top, top, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
      const bytes16 odd = __builtin_shufflevector(top, top, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
      put(out + x, __builtin_elementwise_max(even, odd), count);
    }
}

void pool_with_index(const window& w, const std::int8_t* in, std::int8_t* out, std::int32_t* index) {
  for (long y = 0; y < w.out_height; ++y)
    for (long x = 0; x < w.out_width; ++x) {
      std::int32_t best = -128;
      long place = -1;
      for (long i = 0; i < w.kernel_h; ++i)
        for (long j = 0; j < w.kernel_w; ++j) {
          const long row = y * w.stride_h - w.pad_h + i, column = x * w.stride_w - w.pad_w + j;
          if (row < 0 || row >= w.height || column < 0 || column >= w.width) continue;
          if (const std::int8_t v = in[row * w.width + column]; place < 0 || v > best) best = v, place = row * w.width + column;
        }
      *out++ = static_cast<std::int8_t>(best);
      *index++ = static_cast<std::int32_t>(place);
    }
}

}  // namespace
}  // namespace LAMINA_KERNEL_SET

extern "C" {

void LAMINA_KERNEL(quantize_f32)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const quantize_args*>(args);
  const auto* in = static_cast<const float*>(a.in);
  auto* out = static_cast<std::int8_t*>(a.out);
  for (long i = 0; i < a.outer; ++i)
    for (long c = 0; c < a.channels; ++c, in += a.inner, out += a.inner) {
      const float scale = a.scale[c];
      const std::int32_t offset = a.offset[c];
      const auto low = static_cast<float>(-128 - offset), high = static_cast<float>(127 - offset);
      for (long k = 0; k < a.inner; ++k) out[k] = quantized(in[k], scale, low, high, offset);
    }
}

void LAMINA_KERNEL(dequantize_i8)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const quantize_args*>(args);
  const auto* in = static_cast<const std::int8_t*>(a.in);
  auto* out = static_cast<float*>(a.out);
  for (long i = 0; i < a.outer; ++i)
    for (long c = 0; c < a.channels; ++c, in += a.inner, out += a.inner) {
      const float scale = a.scale[c];
      const std::int32_t offset = a.offset[c];
      for (long k = 0; k < a.inner; ++k) out[k] = static_cast<float>(in[k] - offset) * scale;
    }
}

void LAMINA_KERNEL(quantized_linear)(const void* args, void* scratch) noexcept { linear<by_pairs>(*static_cast<const quantized_linear_args*>(args), scratch); }
void LAMINA_KERNEL(quantized_conv)(const void* args, void* scratch) noexcept { conv<by_pairs>(*static_cast<const quantized_conv_args*>(args), scratch); }
#if defined(__AVX512BW__)
void LAMINA_KERNEL(quantized_linear_vnni)(const void* args, void* scratch) noexcept { linear<by_fours>(*static_cast<const quantized_linear_args*>(args), scratch); }
void LAMINA_KERNEL(quantized_conv_vnni)(const void* args, void* scratch) noexcept { conv<by_fours>(*static_cast<const quantized_conv_args*>(args), scratch); }
int LAMINA_KERNEL(quantized_form)() noexcept { return by_fours::there(); }
#else
int LAMINA_KERNEL(quantized_form)() noexcept { return 0; }
#endif

std::size_t LAMINA_KERNEL(quantized_packed_bytes)(long columns, long depth) noexcept {
  return static_cast<std::size_t>(panels_of(columns) * linear_panel(depth));
}

void LAMINA_KERNEL(quantized_pack)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const quantized_pack_args*>(args);
  const long quads = quads_of(a.depth);
  for (long p = 0; p < panels_of(a.columns); ++p) {
    std::int8_t* to = a.packed + p * linear_panel(a.depth);
    std::int32_t sums[panel_columns] = {};
    for (long q = 0; q < quads; ++q)
      for (long c = 0; c < panel_columns; ++c)
        for (long k = 0; k < quad; ++k) {
          const long o = p * panel_columns + c, at = q * quad + k;
          const std::int8_t v = o < a.columns && at < a.depth ? a.w[o * a.depth + at] : static_cast<std::int8_t>(0);
          to[q * 64 + c * quad + k] = v;
          sums[c] += v;
        }
    std::memcpy(to + quads * 64, sums, sizeof sums);
  }
}

std::size_t LAMINA_KERNEL(quantized_linear_scratch_bytes)(const quantized_linear_args* a) noexcept {
  return static_cast<std::size_t>(panels_of(a->columns)) * panel_columns * 8 + row_bytes(a->rows < rows_at_once ? a->rows : rows_at_once, a->depth);
}
std::size_t LAMINA_KERNEL(quantized_conv_scratch_bytes)(const quantized_conv_args* a) noexcept { return conv_layout(a->w).bytes; }

void LAMINA_KERNEL(quantized_max_pool)(const void* args, void*) noexcept {
  const auto& a = *static_cast<const pool_args*>(args);
  const window& w = a.w;
  const long plane = w.height * w.width, results = w.out_height * w.out_width;
  for (long m = 0; m < a.images * w.channels; ++m) {
    const std::int8_t* in = static_cast<const std::int8_t*>(a.in) + m * plane;
    std::int8_t* out = static_cast<std::int8_t*>(a.out) + m * results;
    if (a.index) pool_with_index(w, in, out, a.index + m * results);
    else if (w.kernel_h == 2 && w.kernel_w == 2 && w.stride_h == 2 && w.stride_w == 2 && !w.pad_h && !w.pad_w) pool_pairs(w, in, out);
    else if (w.stride_w == 1) pool_map<1>(w, in, out);
    else if (w.stride_w == 2) pool_map<2>(w, in, out);
    else pool_map<0>(w, in, out);
  }
}

extern constinit const quantized_functions LAMINA_KERNEL(quantized) = {
    &LAMINA_KERNEL(quantize_f32),
    &LAMINA_KERNEL(dequantize_i8),
#if defined(__AVX512BW__)
    2,
    &LAMINA_KERNEL(quantized_form),
    {&LAMINA_KERNEL(quantized_linear), &LAMINA_KERNEL(quantized_linear_vnni)},
    {&LAMINA_KERNEL(quantized_conv), &LAMINA_KERNEL(quantized_conv_vnni)},
#else
    1,
    &LAMINA_KERNEL(quantized_form),
    {&LAMINA_KERNEL(quantized_linear), nullptr},
    {&LAMINA_KERNEL(quantized_conv), nullptr},
#endif
    &LAMINA_KERNEL(quantized_linear_scratch_bytes),
    &LAMINA_KERNEL(quantized_conv_scratch_bytes),
    &LAMINA_KERNEL(quantized_packed_bytes),
    &LAMINA_KERNEL(quantized_pack),
    &LAMINA_KERNEL(quantized_max_pool),
};

}  // extern "C"

}  // namespace lamina::kernels
