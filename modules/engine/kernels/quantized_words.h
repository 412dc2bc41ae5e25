// Integer products of int8: packing of operands into words, and tiles of sums.
//
// A word has 32 bits and holds neighbors in K: two numbers of 16 bits, or four bytes.  A tile multiplies words of a few
// rows, broadcast to all lanes, by registers of words, so that a sum over K needs no reduction across lanes.  The lanes
// are filters, 16 in a panel, [K words][16], or pixels of an output row.
#pragma once
#include <cstring>

#include "quantized.h"
#include "simd.h"
#include "storage.h"
#if defined(__AVX2__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#include <sys/auxv.h>
#endif

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

/// Filters per panel of packed weights.
inline constexpr long panel_columns = 16;
constexpr long parts_of(long all, long each) { return (all + each - 1) / each; }
constexpr long panels_of(long columns) { return parts_of(columns, panel_columns); }
constexpr std::size_t whole_lines(long bytes) { return static_cast<std::size_t>((bytes + 63) / 64 * 64); }

template <int Count> using bytes = std::int8_t __attribute__((ext_vector_type(Count)));
using bytes16 = bytes<16>;

template <class V> LAMINA_INLINE V read(const void* p) {
  V v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class V> LAMINA_INLINE void write(void* p, V v) { std::memcpy(p, &v, sizeof v); }
/// The number in all lanes of V.
template <class V, class T> LAMINA_INLINE V everywhere(T x) {
  using many = T __attribute__((ext_vector_type(sizeof(V) / sizeof(T))));
  return __builtin_bit_cast(V, many(x));
}
/// sum + a b, fused if the set supports it.
template <class V> LAMINA_INLINE V plus_product(V sum, V a, V b) {
#if defined(__FMA__) || defined(__aarch64__)
  return __builtin_elementwise_fma(a, b, sum);
#else
  return sum + a * b;
#endif
}

/// Bytes 0, 2, 4, ... of 32.
LAMINA_INLINE bytes16 even_bytes(const std::int8_t* p) {
  const auto all = read<bytes<32>>(p);
  return __builtin_shufflevector(all, all, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
}

/// Copies a few bytes; the ranges must not overlap.
LAMINA_INLINE void copy_bytes(std::int8_t* to, const std::int8_t* from, long n) {
  const auto ends = [&]<class V>(V) __attribute__((always_inline)) {
    const V first = read<V>(from), last = read<V>(from + n - static_cast<long>(sizeof(V)));
    write(to, first), write(to + n - static_cast<long>(sizeof(V)), last);
  };
  if (n > 32) {
    for (long i = 0; i + 16 < n; i += 16) write(to + i, read<bytes16>(from + i));
    write(to + n - 16, read<bytes16>(from + n - 16));
  } else if (n >= 16) ends(bytes16());
  else if (n >= 8) ends(std::int64_t());
  else if (n >= 4) ends(std::int32_t());
  else if (n >= 2) ends(std::int16_t());
  else if (n) *to = *from;
}
LAMINA_INLINE void copy(std::int8_t* to, const std::int8_t* from, long n) { copy_bytes(to, from, n); }
LAMINA_INLINE void copy(std::int32_t* to, const std::int32_t* from, long n) {
  for (long i = 0; i < n; ++i) to[i] = from[i];
}
/// 16 bytes from p on, every `Stride`-th one; arbitrary values past `end`.
template <int Stride> LAMINA_INLINE bytes16 bytes_inside(const std::int8_t* p, const std::int8_t* end) {
  std::int8_t last[16 * Stride];
  if (end - p < 16 * Stride) {
    if (p < end) copy_bytes(last, p, end - p);
    p = last;
  }
  if constexpr (Stride == 1) return read<bytes16>(p);
  else return even_bytes(p);
}
LAMINA_APART void put_part(std::int8_t* to, bytes16 v, long count) {
  std::int8_t all[16];
  write(all, v);
  copy_bytes(to, all, count);
}
/// Stores the first `count` of 16 bytes.
LAMINA_INLINE void put(std::int8_t* to, bytes16 v, long count) {
  if (count >= 16) write(to, v);
  else put_part(to, v, count);
}
using sums16 = std::int32_t __attribute__((ext_vector_type(16)));
/// Stores the first `count` of 16 sums.
LAMINA_INLINE void put(std::int32_t* to, sums16 v, long count) {
  if (count >= 16) return write(to, v);
  std::int32_t all[16];
  write(all, v);
  for (long i = 0; i < count; ++i) to[i] = all[i];
}

// ---- forms ----------------------------------------------------------------------------------------------------------

// Product forms.  `x` is the operand with a zero point; filters have none. `shift` is the constant that a form adds to
// each number of x. `saturates`: sums are exact only for small weights. `ordered`: panels have an order of their words.

#if defined(__AVX512BW__) || defined(__aarch64__)
inline constexpr int registers = 32;
#else
inline constexpr int registers = 16;
#endif

/// Words of two 16-bit numbers, whose products are added.
struct by_pairs {
  static constexpr int words_at_once = 1;
  static constexpr int numbers = 2, shift = 0, registers_of_sums = this_isa == isa::neon64 ? 2 : 1;
  static constexpr std::int8_t flip = 0;
  static constexpr bool saturates = false, ordered = false;
#if defined(__AVX512BW__)
  static constexpr int lanes = 16;
  using vector = __m512i;
  using sums = __m512i;
  LAMINA_INLINE static sums none() { return _mm512_setzero_si512(); }
  LAMINA_INLINE static vector everywhere(const void* p) { return _mm512_set1_epi32(read<std::int32_t>(p)); }
  LAMINA_INLINE static vector filters(const std::int8_t* p) { return _mm512_cvtepi8_epi16(read<__m256i>(p)); }
  LAMINA_INLINE static sums plus(sums s, vector x, vector w) { return _mm512_add_epi32(s, _mm512_madd_epi16(x, w)); }
#elif defined(__AVX2__)
  static constexpr int lanes = 8;
  using vector = __m256i;
  using sums = __m256i;
  LAMINA_INLINE static sums none() { return _mm256_setzero_si256(); }
  LAMINA_INLINE static vector everywhere(const void* p) { return _mm256_set1_epi32(read<std::int32_t>(p)); }
  LAMINA_INLINE static vector filters(const std::int8_t* p) { return _mm256_cvtepi8_epi16(read<__m128i>(p)); }
  LAMINA_INLINE static sums plus(sums s, vector x, vector w) { return _mm256_add_epi32(s, _mm256_madd_epi16(x, w)); }
#elif defined(__SSE2__)
  static constexpr int lanes = 4;
  using vector = __m128i;
  using sums = __m128i;
  LAMINA_INLINE static sums none() { return _mm_setzero_si128(); }
  LAMINA_INLINE static vector everywhere(const void* p) { return _mm_set1_epi32(read<std::int32_t>(p)); }
  LAMINA_INLINE static vector filters(const std::int8_t* p) {
    const __m128i x = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    return _mm_srai_epi16(_mm_unpacklo_epi8(x, x), 8);
  }
  LAMINA_INLINE static sums plus(sums s, vector x, vector w) { return _mm_add_epi32(s, _mm_madd_epi16(x, w)); }
#else
  static constexpr int lanes = 4;
  using vector = int16x8_t;
  struct sums {
    int32x4_t first, last;
  };  // pairwise added at the end
  LAMINA_INLINE static sums none() { return {vdupq_n_s32(0), vdupq_n_s32(0)}; }
  LAMINA_INLINE static vector everywhere(const void* p) {
    return vreinterpretq_s16_s32(vdupq_n_s32(read<std::int32_t>(p)));
  }
  LAMINA_INLINE static vector filters(const std::int8_t* p) { return vmovl_s8(vld1_s8(p)); }
  LAMINA_INLINE static sums plus(sums s, vector x, vector w) {
    return {vmlal_s16(s.first, vget_low_s16(x), vget_low_s16(w)), vmlal_high_s16(s.last, x, w)};
  }
  LAMINA_INLINE static void put(std::int32_t* p, sums s) { vst1q_s32(p, vpaddq_s32(s.first, s.last)); }
#endif
  LAMINA_INLINE static vector words(const void* p) { return read<vector>(p); }
  LAMINA_INLINE static raw<std::int32_t, lanes> values(sums s) {
#if defined(__SSE2__)
    return __builtin_bit_cast(raw<std::int32_t, lanes>, s);
#else
    return __builtin_bit_cast(raw<std::int32_t, lanes>, vpaddq_s32(s.first, s.last));
#endif
  }
#if defined(__SSE2__)
  LAMINA_INLINE static void put(std::int32_t* p, sums s) { write(p, s); }
#endif
  /// 16 words of x.
  LAMINA_INLINE static void put_x(std::int8_t* p, bytes<32> v) {
    using words16 = std::int16_t __attribute__((ext_vector_type(32)));
    write(p, __builtin_convertvector(v, words16));
  }
  /// Writes number `part` of a word.
  LAMINA_INLINE static void put_number(std::int8_t* word, long part, std::int8_t v) {
    write(word + 2 * part, static_cast<std::int16_t>(v));
  }
};

#if defined(__AVX2__)

/// Words of four bytes, unsigned in x.
struct words_of_four {
  static constexpr int numbers = 4, shift = 128, registers_of_sums = 1, words_at_once = 1;
  static constexpr std::int8_t flip = -128;
  static constexpr bool saturates = false, ordered = false;
#if defined(__AVX512BW__)
  static constexpr int lanes = 16;
  using vector = __m512i;
  LAMINA_INLINE static vector everywhere(const void* p) { return _mm512_set1_epi32(read<std::int32_t>(p)); }
#else
  static constexpr int lanes = 8;
  using vector = __m256i;
  LAMINA_INLINE static vector everywhere(const void* p) { return _mm256_set1_epi32(read<std::int32_t>(p)); }
#endif
  using sums = vector;
  LAMINA_INLINE static sums none() { return vector{}; }
  LAMINA_INLINE static vector filters(const std::int8_t* p) { return read<vector>(p); }
  LAMINA_INLINE static vector words(const void* p) { return read<vector>(p); }
  LAMINA_INLINE static void put(std::int32_t* p, sums s) { write(p, s); }
  LAMINA_INLINE static void put_x(std::int8_t* p, bytes<64> v) { write(p, v ^ bytes<64>(flip)); }
  LAMINA_INLINE static void put_number(std::int8_t* word, long part, std::int8_t v) { word[part] = v; }
};

/// For processors with VNNI in registers of this set. VNNI through inline asm: enabling it for the compiler would leak
/// it into the other forms.
struct by_fours : words_of_four {
#if defined(__AVX512BW__)
  LAMINA_INLINE static vector plus(vector s, vector x, vector w) {
    asm("vpdpbusd %2, %1, %0" : "+v"(s) : "v"(x), "v"(w));
    return s;
  }
  static constexpr unsigned leaf = 0, bit = 11;  // in ecx
#else
  LAMINA_INLINE static vector plus(vector s, vector x, vector w) {
    asm("%{vex%} vpdpbusd %2, %1, %0" : "+x"(s) : "x"(x), "x"(w));
    return s;
  }
  static constexpr unsigned leaf = 1, bit = 4;  // in eax
#endif
  static int there() noexcept {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid_count(7, leaf, &a, &b, &c, &d)) return 0;
    return (leaf ? a : c) >> bit & 1;
  }
};

/// Adds the products of two bytes in 16 bits, which saturates unless weights have 7 bits.
struct by_split_bytes;
struct by_two_words;
struct by_bytes : words_of_four {
  static constexpr bool saturates = true, ordered = true;
  // Forms with the same words for weights of which 16 bits hold one product, and four.
  using for_one = by_split_bytes;
  using for_four = by_two_words;
#if defined(__AVX512BW__)
  LAMINA_INLINE static vector products(vector x, vector w) { return _mm512_maddubs_epi16(x, w); }
  LAMINA_INLINE static vector add_shorts(vector a, vector b) { return _mm512_add_epi16(a, b); }
  LAMINA_INLINE static vector neighbors(vector v, short factor) {
    return _mm512_madd_epi16(v, _mm512_set1_epi16(factor));
  }
  LAMINA_INLINE static vector add(vector a, vector b) { return _mm512_add_epi32(a, b); }
#else
  LAMINA_INLINE static vector products(vector x, vector w) { return _mm256_maddubs_epi16(x, w); }
  LAMINA_INLINE static vector add_shorts(vector a, vector b) { return _mm256_add_epi16(a, b); }
  LAMINA_INLINE static vector neighbors(vector v, short factor) {
    return _mm256_madd_epi16(v, _mm256_set1_epi16(factor));
  }
  LAMINA_INLINE static vector add(vector a, vector b) { return _mm256_add_epi32(a, b); }
#endif
  LAMINA_INLINE static vector pairs(vector x, vector w, short factor) { return neighbors(products(x, w), factor); }
  LAMINA_INLINE static vector plus(vector s, vector x, vector w) { return add(s, pairs(x, w, 1)); }
};
/// Adds the products of two words in 16 bits: three multiplications in place of four.
struct by_two_words : by_bytes {
  static constexpr int words_at_once = 2;
  LAMINA_INLINE static vector plus(vector s, vector x, vector w, vector next_x, vector next_w) {
    return add(s, neighbors(add_shorts(products(x, w), products(next_x, next_w)), 1));
  }
  using by_bytes::plus;
};
/// A weight is split in two parts, of which none lets a sum saturate: half of it, rounded down, and its last bit.
struct by_split_bytes : by_bytes {
  static constexpr bool saturates = false;
  LAMINA_INLINE static vector plus(vector s, vector x, vector w) {
    using all = bytes<sizeof(vector)>;
    const all weights = __builtin_bit_cast(all, w);
    const auto half = __builtin_bit_cast(vector, weights >> 1), last = __builtin_bit_cast(vector, weights & 1);
    return add(add(s, pairs(x, half, 2)), pairs(x, last, 1));
  }
};

#elif defined(__aarch64__)

/// Words of four signed bytes, for processors with the dot products of ARMv8.2. These through inline asm: enabling them for
/// the compiler would leak them into the other form.
struct by_fours {
  static constexpr int numbers = 4, shift = 0, registers_of_sums = 1, words_at_once = 1, lanes = 4;
  static constexpr std::int8_t flip = 0;
  static constexpr bool saturates = false, ordered = false;
  using vector = int8x16_t;
  using sums = int32x4_t;
  LAMINA_INLINE static sums none() { return vdupq_n_s32(0); }
  LAMINA_INLINE static vector everywhere(const void* p) {
    return vreinterpretq_s8_s32(vdupq_n_s32(read<std::int32_t>(p)));
  }
  LAMINA_INLINE static vector filters(const std::int8_t* p) { return read<vector>(p); }
  LAMINA_INLINE static vector words(const void* p) { return read<vector>(p); }
  LAMINA_INLINE static sums plus(sums s, vector x, vector w) {
    asm(".arch_extension dotprod\n\tsdot %0.4s, %1.16b, %2.16b" : "+w"(s) : "w"(x), "w"(w));
    return s;
  }
  LAMINA_INLINE static void put(std::int32_t* p, sums s) { write(p, s); }
  LAMINA_INLINE static void put_x(std::int8_t* p, bytes<64> v) { write(p, v); }
  LAMINA_INLINE static void put_number(std::int8_t* word, long part, std::int8_t v) { word[part] = v; }
  static int there() noexcept {
    constexpr unsigned long dot_products = 1 << 20;  // HWCAP_ASIMDDP
    return (::getauxval(AT_HWCAP) & dot_products) != 0;
  }
};

#endif

/// How many products with the weights of a filter 16 bits hold, whatever x is: of neighbors in two words, in one word,
/// or a single one.
enum class fits : std::int32_t { one = 1, two = 2, four = 4 };
/// For the words at `a` and `b` of each of `filters` filters.
LAMINA_INLINE fits fits_of_words(const std::int8_t* a, const std::int8_t* b, long filters) {
  std::int16_t of_two = 0, of_four = 0;  // the largest sum of weights of the same sign
  for (long i = 0; i < filters * 4; i += 2) {
    const auto sums = [i](const std::int8_t* w, std::int16_t& above, std::int16_t& below) {
      const std::int16_t v = w[i], next = w[i + 1], zero = 0;
      above = static_cast<std::int16_t>((v > zero ? v : zero) + (next > zero ? next : zero));
      below = static_cast<std::int16_t>(above - v - next);
    };
    const auto larger = [](std::int16_t v, std::int16_t w) { return v > w ? v : w; };
    std::int16_t above, below, more_above, more_below;
    sums(a, above, below), sums(b, more_above, more_below);
    of_two = larger(of_two, larger(larger(above, below), larger(more_above, more_below)));
    of_four = larger(
        of_four, larger(static_cast<std::int16_t>(above + more_above), static_cast<std::int16_t>(below + more_below)));
  }
  return of_two > 128 ? fits::one : of_four > 128 ? fits::two : fits::four;
}
/// The same of all words, [word][filter][4]: four if those of each two neighbors fit.
LAMINA_INLINE fits fits_of_all(const std::int8_t* words, long count, long filters) {
  fits all = fits::four;
  for (long k = 0; k < count; k += 2) {
    const std::int8_t *first = words + k * filters * 4, *next = first + (k + 1 < count) * filters * 4;
    const fits of_pair = fits_of_words(first, next, filters);
    if (of_pair < all && (next != first || of_pair == fits::one)) all = of_pair;
  }
  return all;
}
/// Bytes for `fits` behind words, and for the sums of the weights of 16 filters with it.
template <class Form> inline constexpr long fits_bytes = Form::saturates ? 64 : 0;
template <class Form> inline constexpr long panel_end = panel_columns * 4 + fits_bytes<Form>;
/// Writes `fits` of `words` words of `filters` filters in the last line of `all` bytes.
template <class Form> LAMINA_INLINE void put_fits(std::int8_t* packed, long all, long words, long filters) {
  if constexpr (Form::saturates) {
    const fits line[16] = {fits_of_all(packed, words, filters)};
    std::memcpy(packed + all - 64, line, sizeof line);
  }
}
template <class Form> LAMINA_INLINE fits fits_in(const std::int8_t* packed, long all) {
  if constexpr (Form::saturates) return read<fits>(packed + all - 64);
  else return fits::two;
}
/// Calls run(form) with a form that is exact for such weights: the fastest one, or if not `Pairs`, one of single words.
template <class Form, bool Pairs = true, class Run> LAMINA_INLINE void with_exact_form(fits weights, Run run) {
  if constexpr (Form::saturates) {
    if (weights == fits::one) return run(typename Form::for_one());
    if constexpr (Pairs)
      if (weights == fits::four) return run(typename Form::for_four());
  }
  run(Form());
}

/// Vectors per panel of 16 lanes.
template <class Form> inline constexpr int whole = static_cast<int>(panel_columns) / Form::lanes;
/// Panels of 16 filters: words, and behind them the sums of the weights of each filter. A form that is `ordered` adds an
/// order of the words in which most are pairs, of which 16 bits hold four products. The words stay in place: whoever
/// knows their layout finds all weights in the packed form.
template <class Form> struct panel_layout {
  static constexpr long bytes_of_word = panel_columns * Form::numbers;
  struct ordering {
    fits words;           // of each word: one or two
    std::int32_t paired;  // words in pairs, the first ones of the order
  };
  long words, step;  // bytes from a panel to the next one
  constexpr explicit panel_layout(long count)
      : words(count), step(sums() + 64 + (Form::ordered ? 64 + static_cast<long>(whole_lines(4 * count)) : 0)) {}
  constexpr long sums() const { return words * bytes_of_word; }
  /// Where the words of the filters of a vector begin.
  constexpr long of_vector(long vector) const {
    return vector / whole<Form> * step + vector % whole<Form> * Form::lanes * Form::numbers;
  }
  constexpr long sums_of(long filter) const {
    return filter / panel_columns * step + sums() + filter % panel_columns * 4;
  }
  /// The place of each word, in the order; null for forms that have none.
  const std::uint32_t* order(const std::int8_t* panel) const {
    return Form::ordered ? reinterpret_cast<const std::uint32_t*>(panel + sums() + 128) : nullptr;
  }
  ordering ordered(const std::int8_t* panel) const {
    if constexpr (Form::ordered) return read<ordering>(panel + sums() + 64);
    else return {fits::two, 0};
  }
  /// Finds the order of the words of a panel: to each word the first one of the next few that fits.
  LAMINA_APART void put_order(std::int8_t* panel) const {
    if constexpr (Form::ordered) {
      // Bounds the time for weights that hardly fit: words compared with one, and with all.
      constexpr long tried = 32, tried_by_word = 8;
      auto* at = reinterpret_cast<std::uint32_t*>(panel + sums() + 128);
      const auto fits_at = [panel](long a, long b) {
        return fits_of_words(panel + a * bytes_of_word, panel + b * bytes_of_word, panel_columns);
      };
      ordering found[64 / sizeof(ordering)] = {{fits::two, 0}};
      for (long k = 0; k < words; ++k) {
        at[k] = static_cast<std::uint32_t>(k);
        if (fits_at(k, k) == fits::one) found->words = fits::one;
      }
      std::memset(at + words, 0, whole_lines(4 * words) - static_cast<std::size_t>(4 * words));
      const auto exchange = [at](long a, long b) {
        const std::uint32_t word = at[a];
        at[a] = at[b], at[b] = word;
      };
      long paired = 0, left = tried_by_word * words;
      for (long end = found->words == fits::one ? 0 : words; paired + 1 < end && left > 0;) {
        const long stop = end - paired - 1 < tried ? end : paired + 1 + tried;
        long other = paired + 1;
        while (other < stop && fits_at(at[paired], at[other]) != fits::four) ++other;
        left -= other - paired;
        if (other == stop) exchange(paired, --end);  // the word stays alone
        else exchange(paired + 1, other), paired += 2;
      }
      found->paired = static_cast<std::int32_t>(paired);
      std::memcpy(panel + sums() + 64, found, sizeof found);
    }
  }
};
/// Calls run(form) with the fastest form that is exact for the words of a panel.
template <class Form, class Run>
LAMINA_INLINE void with_panel_form(const typename panel_layout<Form>::ordering& words, Run run) {
  with_exact_form<Form>(words.words == fits::one ? fits::one : fits::four, run);
}

/// Maximum rows of a tile, so that sums, the vectors of a step, its words and products stay in registers.
template <class Form> constexpr int max_rows(int vectors) {
  constexpr int words = Form::saturates ? 2 : 1;  // of a step
  const int rows = (registers - words * vectors - 2 * words) / (vectors * Form::registers_of_sums);
  const int max = registers == 32 ? 8 : 6;  // limited by the addresses of rows
  return rows < max ? rows : max;
}

// ---- tiles ----------------------------------------------------------------------------------------------------------

/// Stride of the rows of sums.
template <class Form, int NV> inline constexpr int row_of_sums =
    NV < whole<Form> ? static_cast<int>(panel_columns) : NV * Form::lanes;
template <class Form> inline constexpr int max_sums = 8 * 2 * static_cast<int>(panel_columns);

/// Calls each(k, words), 1 or, if `Two`, 2 words, for all k; with few sums, two steps per iteration.
template <int Sums, bool Two, class Each> LAMINA_INLINE void steps(long words, Each each) {
  constexpr std::integral_constant<int, 1> one;
  long k = 0;
  if constexpr (Two) {
    LAMINA_NO_UNROLL
    for (; k + 1 < words; k += 2) each(k, std::integral_constant<int, 2>());
  } else if constexpr (Sums <= (this_isa == isa::avx2 ? 12 : 4)) {
    LAMINA_NO_UNROLL
    for (; k + 1 < words; k += 2) each(k, one), each(k + 1, one);
  }
  LAMINA_NO_UNROLL
  for (; k < words; ++k) each(k, one);
}
/// Adds the products of the words x[0, Words) and w[0, Words).
template <class Form, int Words> LAMINA_INLINE typename Form::sums plus(typename Form::sums s,
                                                                        const typename Form::vector (&x)[Words],
                                                                        const typename Form::vector (&w)[Words]) {
  if constexpr (Words == 2) return Form::plus(s, x[0], w[0], x[1], w[1]);
  else return Form::plus(s, x[0], w[0]);
}

/// Adds the products of the words [begin, end) of the order, of which the first `paired` ones are pairs; `order`: null for
/// forms that have none. `at`: byte offsets of the words of a row if `Scattered`; else the words are contiguous.
template <class Form, bool Scattered, int MR, int NV>
LAMINA_INLINE void add_words(typename Form::sums (&s)[MR][NV], const panel_layout<Form>& of, const long* at,
                             const std::uint32_t* order, long paired, const std::int8_t* const (&row)[MR],
                             const std::int8_t* weights, long begin, long end) {
  const auto step = [&]<int Words>(long k, std::integral_constant<int, Words>) __attribute__((always_inline)) {
    long place[Words];
    typename Form::vector w[NV][Words];
    LAMINA_UNROLL
    for (int n = 0; n < Words; ++n) {
      const long word = Form::ordered ? order[k + n] : k + n;
      place[n] = Scattered ? at[word] : word * 4;
      LAMINA_UNROLL
      for (int j = 0; j < NV; ++j) w[j][n] = Form::filters(weights + word * of.bytes_of_word + of.of_vector(j));
    }
    LAMINA_UNROLL
    for (int i = 0; i < MR; ++i) {
      typename Form::vector all[Words];
      LAMINA_UNROLL
      for (int n = 0; n < Words; ++n) all[n] = Form::everywhere(row[i] + place[n]);
      LAMINA_UNROLL
      for (int j = 0; j < NV; ++j) s[i][j] = plus<Form, Words>(s[i][j], all, w[j]);
    }
  };
  long first = begin;
  if constexpr (Form::words_at_once == 2) {
    const long last = paired < end ? paired : end;
    LAMINA_NO_UNROLL
    for (; first < last; first += 2) step(first, std::integral_constant<int, 2>());
  }
  steps<MR * NV, false>(end - first, [&](long n, auto one) __attribute__((always_inline)) { step(first + n, one); });
}

/// Sums of MR rows of x for the filters of NV vectors, which have one order of their words.
template <class Form, int MR, int NV, bool Scattered>
LAMINA_APART void filter_tile(const panel_layout<Form>& of, const long* at, const std::int8_t* const* x,
                              const std::int8_t* panel, std::int32_t* sums) {
  typename Form::sums s[MR][NV];
  const std::int8_t* row[MR];
  LAMINA_UNROLL
  for (int i = 0; i < MR; ++i) {
    row[i] = x[i];
    LAMINA_UNROLL
    for (int j = 0; j < NV; ++j) s[i][j] = Form::none();
  }
  static_assert(!Form::ordered || NV <= whole<Form>, "vectors of one panel");
  add_words<Form, Scattered>(s, of, at, of.order(panel), of.ordered(panel).paired, row, panel, 0, of.words);
  LAMINA_UNROLL
  for (int i = 0; i < MR; ++i) {
    LAMINA_UNROLL
    for (int j = 0; j < NV; ++j) Form::put(sums + i * row_of_sums<Form, NV> + j * Form::lanes, s[i][j]);
  }
}

/// Sums of MR filters, [K words] with stride `filter_step` in bytes, for the words of NV vectors of x.
template <class Form, int MR, int NV> LAMINA_APART void pixel_tile(long words, const long* at, const std::int8_t* x,
                                                                   const std::int8_t* filter, long filter_step,
                                                                   std::int32_t* sums) {
  typename Form::sums s[MR][NV];
  LAMINA_UNROLL
  for (int i = 0; i < MR; ++i) {
    LAMINA_UNROLL
    for (int j = 0; j < NV; ++j) s[i][j] = Form::none();
  }
  steps<MR * NV, Form::words_at_once == 2>(
      words, [&]<int Words>(long k, std::integral_constant<int, Words>) __attribute__((always_inline)) {
        typename Form::vector pixels[NV][Words];
        LAMINA_UNROLL
        for (int n = 0; n < Words; ++n) {
          LAMINA_UNROLL
          for (int j = 0; j < NV; ++j) pixels[j][n] = Form::words(x + at[k + n] + j * Form::lanes * 4);
        }
        LAMINA_UNROLL
        for (int i = 0; i < MR; ++i) {
          typename Form::vector all[Words];
          LAMINA_UNROLL
          for (int n = 0; n < Words; ++n) all[n] = Form::everywhere(filter + (k + n) * filter_step + i * 4);
          LAMINA_UNROLL
          for (int j = 0; j < NV; ++j) s[i][j] = plus<Form, Words>(s[i][j], pixels[j], all);
        }
      });
  LAMINA_UNROLL
  for (int i = 0; i < MR; ++i) {
    LAMINA_UNROLL
    for (int j = 0; j < NV; ++j) Form::put(sums + i * row_of_sums<Form, NV> + j * Form::lanes, s[i][j]);
  }
}

/// Calls run<rows>(), `rows` from 1 to `Most`.
template <int Most, class Run> LAMINA_INLINE void with_rows(int rows, Run run) {
  [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
    (void)((rows == I + 1 && (run.template operator()<I + 1>(), true)) || ...);
  }(std::make_integer_sequence<int, Most>());
}

/// Calls each(first, size, count) for runs of parts of one size, nearly equal parts of `all` of at most `max`.
template <class Each> LAMINA_INLINE void even_runs(long all, long max, Each each) {
  const long parts = all <= max ? 1 : parts_of(all, max), least = all / parts, larger = all % parts;
  long first = 0;
  for (long size = least + 1; size >= least && size > 0; --size) {
    const long count = size == least ? parts - larger : larger;
    if (count) each(first, size, count);
    first += size * count;
  }
}
/// Calls each(first, size) for each of these parts.
template <class Each> LAMINA_INLINE void even_parts(long all, long max, Each each) {
  even_runs(all, max, [&](long first, long size, long count) __attribute__((always_inline)) {
    for (; count > 0; --count, first += size) each(first, static_cast<int>(size));
  });
}

/// Calls each(row, rows, panel, panels, sums) for tiles of the rows x[] and `columns` filters in packed panels; a row
/// of sums has panels * 16 numbers.
template <class Form, bool Scattered, class Each>
LAMINA_INLINE void filter_tiles(long rows, long columns, const panel_layout<Form>& of, const long* at,
                                const std::int8_t* const* x, const std::int8_t* packed, Each each) {
  alignas(64) std::int32_t sums[max_sums<Form>];
  constexpr int one = max_rows<Form>(whole<Form>), two = Form::ordered ? 0 : max_rows<Form>(2 * whole<Form>);
  const auto run = [&]<int NV>(long p, long max, std::integral_constant<int, NV>) __attribute__((always_inline)) {
    constexpr int wide = (NV + whole<Form> - 1) / whole<Form>;
    const std::int8_t* panel = packed + p * of.step;
    even_parts(rows, max, [&](long r, int tall) __attribute__((always_inline)) {
      with_rows<max_rows<Form>(NV)>(tall, [&]<int MR>() __attribute__((always_inline)) {
        with_panel_form<Form>(of.ordered(panel), [&]<class Exact>(Exact) __attribute__((always_inline)) {
          filter_tile<Exact, MR, NV, Scattered>(panel_layout<Exact>(of.words), at, x + r, panel, sums);
        });
      });
      each(r, tall, p, wide, static_cast<const std::int32_t*>(sums));
    });
  };
  const long panels = panels_of(columns);
  for (long p = 0; p < panels;) {
    if constexpr (two > 0)
      if (panels - p >= 2 && (rows <= two || two >= one)) {
        run(p, two, std::integral_constant<int, 2 * whole<Form>>()), p += 2;
        continue;
      }
    if constexpr (whole < Form >> 1)
      if (columns - p * panel_columns <= panel_columns / 2) {
        run(p, max_rows<Form>(whole<Form> / 2), std::integral_constant<int, whole<Form> / 2>()), ++p;
        continue;
      }
    run(p, one, std::integral_constant<int, whole<Form>>()), ++p;
  }
}

// ---- words of x -----------------------------------------------------------------------------------------------------

/// 16 words; word c consists of byte c of each line(i).
template <class Form, class Line> LAMINA_INLINE bytes<16 * Form::numbers> interleaved(Line line) {
  const auto both = [](bytes16 a, bytes16 b) __attribute__((always_inline)) {
    return bytes<32>(__builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23, 8, 24, 9, 25,
                                             10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31));
  };
  if constexpr (Form::numbers == 2) return both(line(0), line(1));
  else {
    const bytes<32> ab = both(line(0), line(1)), cd = both(line(2), line(3));
    return __builtin_shufflevector(ab, cd, 0, 1, 32, 33, 2, 3, 34, 35, 4, 5, 36, 37, 6, 7, 38, 39, 8, 9, 40, 41, 10, 11,
                                   42, 43, 12, 13, 44, 45, 14, 15, 46, 47, 16, 17, 48, 49, 18, 19, 50, 51, 20, 21, 52,
                                   53, 22, 23, 54, 55, 24, 25, 56, 57, 26, 27, 58, 59, 28, 29, 60, 61, 30, 31, 62, 63);
  }
}
/// Writes 16 words; word c consists of from[i][first + c * Stride].  Reads 16 strides of each line.
template <class Form, int Stride>
LAMINA_INLINE void put_words(std::int8_t* to, const std::int8_t* const* from, long first) {
  Form::put_x(to, interleaved<Form>([&](int i) __attribute__((always_inline)) {
                if constexpr (Stride == 1) return read<bytes16>(from[i] + first);
                else return even_bytes(from[i] + first);
              }));
}
/// Writes 16 words of contiguous bytes.
template <class Form> LAMINA_INLINE void put_words(std::int8_t* to, const std::int8_t* from) {
  Form::put_x(to, read<bytes<16 * Form::numbers>>(from));
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
