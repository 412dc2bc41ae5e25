// Products of float32 rows with packed weights of 4 or 8 bits, with a scale and a zero point for each block.
//
// Rows of x are rounded to 16 bits, with a scale for each block, so that sums of products are exact integers.  That
// takes half the instructions of converting the weights to float32, and errs by at most 2^-15.9 of the largest |x| of
// a block in each product.
#pragma once
#include "quantized_words.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace quantized {

/// The numbers of a row whose products go to one register of sums.
template <class Form, int Bits> struct block_step;

/// Pairs of 16-bit numbers. Weights of 4 bits: the low halves of bytes, then the high halves; of 8 bits minus 128.
template <int Bits> struct block_step<by_pairs, Bits> {
  static constexpr int lanes = by_pairs::lanes, registers = 8 / Bits, center = Bits == 8 ? 128 : 0;
  static constexpr long bytes = 2 * lanes, numbers = bytes * registers;
  using vector = by_pairs::vector;
  using shorts = std::int16_t __attribute__((ext_vector_type(bytes)));

  struct weights {
    vector w[registers];
    LAMINA_INLINE explicit weights(const std::uint8_t* p) {
      if constexpr (Bits == 8) {
        using signed_bytes = quantized::bytes<bytes>;
        w[0] = __builtin_bit_cast(vector, __builtin_convertvector(read<signed_bytes>(p) ^ signed_bytes(-128), shorts));
      } else {
        using packed = std::uint8_t __attribute__((ext_vector_type(bytes)));
        using words = std::uint16_t __attribute__((ext_vector_type(bytes)));
        const auto both = __builtin_convertvector(read<packed>(p), words);
        w[0] = __builtin_bit_cast(vector, both & words(15)), w[1] = __builtin_bit_cast(vector, both >> words(4));
      }
    }
  };
  LAMINA_INLINE static vec<float> products(const std::int16_t* x, const weights& of) {
    auto sums = by_pairs::none();
    LAMINA_UNROLL
    for (int i = 0; i < registers; ++i) sums = by_pairs::plus(sums, read<vector>(x + i * bytes), of.w[i]);
    return from_raw<float>(__builtin_convertvector(by_pairs::values(sums), raw<float, lanes>));
  }
  /// Puts numbers into the order of the weights.
  LAMINA_INLINE static void order(std::int16_t* x) {
    if constexpr (registers == 2) {
      using both = std::int16_t __attribute__((ext_vector_type(numbers)));
      const auto all = read<both>(x);
      write(x, shorts(all.even)), write(x + bytes, shorts(all.odd));
    }
  }
};

#if defined(__AVX2__)

/// Four bytes, for weights of 8 bits: the high bytes of 16-bit numbers, then their low bytes, which are signed.
template <> struct block_step<by_fours, 8> {
  static constexpr int lanes = by_fours::lanes, center = 0;
  static constexpr long numbers = 4 * lanes, bytes = numbers;
  using vector = by_fours::vector;
  using words = raw<std::int32_t, lanes>;

  struct weights {
    vector w;
    LAMINA_INLINE explicit weights(const std::uint8_t* p) : w(read<vector>(p)) {}
  };
  LAMINA_INLINE static vec<float> products(const std::int16_t* x, const weights& of) {
    const auto high = __builtin_bit_cast(words, by_fours::plus(by_fours::none(), of.w, read<vector>(x)));
    const auto all = by_fours::plus(__builtin_bit_cast(vector, high << 8), of.w, read<vector>(x + numbers / 2));
    return from_raw<float>(__builtin_convertvector(__builtin_bit_cast(words, all), raw<float, lanes>));
  }
  LAMINA_INLINE static void order(std::int16_t* x) {
    using shorts = std::int16_t __attribute__((ext_vector_type(numbers)));
    const auto all = read<shorts>(x);
    const shorts low = (all << shorts(8)) >> shorts(8);
    write(x, __builtin_convertvector((all - low) >> shorts(8), quantized::bytes<numbers>));
    write(x + numbers / 2, __builtin_convertvector(low, quantized::bytes<numbers>));
  }
};

#endif

constexpr int rows_at_once = 4;
constexpr long max_step = 64;  // numbers
constexpr long padded(long n, long step) { return parts_of(n, step) * step; }

/// Rounded rows of x, padded with zeros.
struct rounded_rows {
  std::int16_t* numbers;  // [rows, depth], in the order of the weights
  float *scales, *sums;   // [rows, blocks]: x = number * scale; sums of x
  long depth, blocks;
  std::size_t bytes;
};
LAMINA_INLINE rounded_rows rows_in(void* memory, long rows, long block, long blocks) {
  rounded_rows x{};
  x.depth = padded(blocks * block, max_step), x.blocks = padded(blocks, 16);
  auto* at = static_cast<std::byte*>(memory);
  const auto take = [&](long n) { return std::exchange(x.bytes, x.bytes + whole_lines(n)); };
  x.numbers = reinterpret_cast<std::int16_t*>(at + take(rows * x.depth * 2));
  for (float** p : {&x.scales, &x.sums}) *p = reinterpret_cast<float*>(at + take(rows * x.blocks * 4));
  return x;
}
/// Numbers that have one factor: blocks of any other size than 32 and multiples of 64 are split into units of 16.
LAMINA_INLINE long unit_of(long block) { return block % 64 == 0 ? 64 : block == 32 ? 32 : 16; }
LAMINA_INLINE long units_of(const block_linear_args& a) {
  return padded(unit_of(a.block) == 16 ? a.blocks * a.block / 16 + 4 : a.blocks, 16);
}

/// Rounds a block; its scale is NaN where a number is not finite.
LAMINA_INLINE void round_block(const float* x, long count, std::int16_t* to, float& scale, float& sum) {
  constexpr int lanes = width<float>;
  using integer = vec<std::int32_t>;
  const auto at = [&](long k) __attribute__((always_inline)) {
    return load(x + k, first<float>(count - k < lanes ? static_cast<int>(count - k) : lanes));
  };
  integer largest(0);  // of the bits of |x|, which are ordered as the numbers are, with NaN above infinity
  for (long k = 0; k < count; k += lanes)
    largest = xsimd::max(largest, bits_as<std::int32_t>(at(k)) & integer(0x7fffffff));
  constexpr float range = 127 * 256, smallest = 0x1p-100f;  // below it, `range / max` may be infinite
  const auto max = __builtin_bit_cast(float, reduce_max(largest));
  const bool finite = max < __builtin_inff(), any = finite && max >= smallest;
  const vec<float> factor(any ? range / max : 0);
  constexpr float magic = 0x1.8p23f;  // a number added to it is the integer in the low bits of the sum
  using shorts = std::int16_t __attribute__((ext_vector_type(lanes)));
  auto total = zero<float>();
  for (long k = 0; k < count; k += lanes) {
    const auto shifted = (any ? at(k) * factor : zero<float>()) + vec<float>(magic);
    const auto number = bits_as<std::int32_t>(shifted) - bits_as<std::int32_t>(vec<float>(magic));
    total = total + (shifted - vec<float>(magic));
    write(to + k, __builtin_convertvector(to_raw<std::int32_t>(number), shorts));
  }
  scale = any ? max / range : finite ? 0 : __builtin_nanf("");
  sum = reduce_add(total) * scale;
}
/// Rounds rows of x from `a.first` on.
template <class Form, int Bits> LAMINA_INLINE void round_rows(const block_rows_args& a) {
  using step = block_step<Form, Bits>;
  const rounded_rows x = rows_in(a.rounded, a.rows, a.block, a.blocks);
  for (long r = a.first; r < a.first + a.count; ++r) {
    const float* from = a.x + (r - a.first) * a.depth;
    std::int16_t* to = x.numbers + r * x.depth;
    float *scales = x.scales + r * x.blocks, *sums = x.sums + r * x.blocks;
    std::memset(to + a.depth, 0, static_cast<std::size_t>(x.depth - a.depth) * 2);
    for (long b = 0; b < x.blocks; ++b) {
      const long k = b * a.block, left = a.depth - k;
      if (left > 0) round_block(from + k, left < a.block ? left : a.block, to + k, scales[b], sums[b]);
      else scales[b] = sums[b] = 0;
    }
    for (long k = 0; k < x.depth; k += step::numbers) step::order(to + k);
  }
}

/// R rows of x share the unpacked weights of a column; the order of additions does not depend on R.
template <class Step, int Bits, int R, long Unit> struct block_column {
  static constexpr long lanes = width<float>;

  /// The factors of a step for each lane.
  LAMINA_INLINE static vec<float> factors_of(const float* factors, long k) {
    constexpr int units = static_cast<int>(Step::numbers / Unit);
    if constexpr (units <= 1) return vec<float>(factors[k * Step::numbers / Unit]);
    else {
      const auto some = read<raw<float, units>>(factors + k * units);
      return [&]<int... I>(std::integer_sequence<int, I...>) __attribute__((always_inline)) {
        return from_raw<float>(__builtin_shufflevector(some, some, (I / (lanes / units))...));
      }(std::make_integer_sequence<int, static_cast<int>(lanes)>());
    }
  }
  /// Writes the factors of a column, and sets `sums` to minus what its zero points add.
  LAMINA_INLINE static void scale_column(const block_linear_args& a, const rounded_rows& x, float* factors, long o,
                                         vec<float> (&sums)[R]) {
    const long units = units_of(a);
    const float *scale = a.scale + o * a.blocks, *zero_point = a.zero_point + o * a.blocks * a.zero_point_step;
    const vec<float> center(static_cast<float>(Step::center)), one(zero_point[0] - static_cast<float>(Step::center));
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) sums[r] = zero<float>();
    for (long b = 0; b < a.blocks; b += lanes) {
      const auto m = first<float>(static_cast<int>(a.blocks - b < lanes ? a.blocks - b : lanes));
      const auto s = load(scale + b, m), z = a.zero_point_step ? load(zero_point + b, m) - center : one;
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r) {
        sums[r] = fma(-(s * z), load(x.sums + r * x.blocks + b), sums[r]);
        store(factors + r * units + b, s * load(x.scales + r * x.blocks + b));
      }
    }
    if constexpr (Unit == 16)  // from the last unit to the first, because units replace the factors of blocks
      for (int r = 0; r < R; ++r)
        for (long u = units, each = a.block / Unit; u-- > 0;)
          factors[r * units + u] = u < a.blocks * each ? factors[r * units + u / each] : 0;
  }

  static void run(const block_linear_args& a, const rounded_rows& x, float* factors, long o, float* y) {
    const long row_bytes = a.blocks * a.block * Bits / 8, units = units_of(a);
    const std::uint8_t* w = a.weight + o * row_bytes;
    vec<float> sums[R];
    scale_column(a, x, factors, o, sums);
    const auto add = [&](long k, const std::uint8_t* p, auto factor_of) __attribute__((always_inline)) {
      __builtin_prefetch(w + k * Step::bytes + prefetch_bytes);
      const typename Step::weights weights(p);
      LAMINA_UNROLL
      for (int r = 0; r < R; ++r)
        sums[r] = fma(Step::products(x.numbers + r * x.depth + k * Step::numbers, weights),
                      factor_of(factors + r * units), sums[r]);
    };
    long k = 0;
    if constexpr (Unit == 64) {
      const long steps = a.block / Step::numbers;
      LAMINA_NO_UNROLL
      for (long b = 0; b < a.blocks; ++b) {
        const auto of_block = [&](const float* f) __attribute__((always_inline)) { return vec<float>(f[b]); };
        LAMINA_NO_UNROLL
        for (const long end = k + steps; k < end; ++k) add(k, w + k * Step::bytes, of_block);
      }
    } else {
      const auto of_step = [&](const float* f) __attribute__((always_inline)) { return factors_of(f, k); };
      LAMINA_NO_UNROLL
      for (; (k + 1) * Step::bytes <= row_bytes; ++k) add(k, w + k * Step::bytes, of_step);
      if (const long left = row_bytes - k * Step::bytes) {
        std::uint8_t last[Step::bytes];
        std::memset(last, 0, sizeof last);
        std::memcpy(last, w + k * Step::bytes, static_cast<std::size_t>(left));
        add(k, last, of_step);
      }
    }
    LAMINA_UNROLL
    for (int r = 0; r < R; ++r) y[r * a.y_row + o] = reduce_add(sums[r]);
  }

 private:
  static constexpr long prefetch_bytes = 2048;
};

template <class Form, int Bits, long Unit> LAMINA_INLINE void block_linear(const block_linear_args& a, float* factors) {
  using step = block_step<Form, Bits>;
  rounded_rows x = rows_in(const_cast<void*>(a.rounded), a.rows, a.block, a.blocks);
  float* y = a.y;
  const auto rows = [&]<int R>(std::integral_constant<int, R>) __attribute__((always_inline)) {
    for (long o = 0; o < a.columns; ++o) block_column<step, Bits, R, Unit>::run(a, x, factors, o, y);
    x.numbers += R * x.depth, x.scales += R * x.blocks, x.sums += R * x.blocks, y += R * a.y_row;
  };
  long r = 0;
  for (; r + rows_at_once <= a.rows; r += rows_at_once) rows(std::integral_constant<int, rows_at_once>());
  for (; r < a.rows; ++r) rows(std::integral_constant<int, 1>());
}
template <class Form, int Bits> LAMINA_INLINE void block_linear(const block_linear_args& args, void* scratch) {
  const block_linear_args a = args;
  const long unit = unit_of(a.block);
  auto* factors = static_cast<float*>(scratch);
  if (unit == 64) block_linear<Form, Bits, 64>(a, factors);
  else if (unit == 32) block_linear<Form, Bits, 32>(a, factors);
  else block_linear<Form, Bits, 16>(a, factors);
}
LAMINA_INLINE std::size_t block_scratch(const block_linear_args& a) {
  return whole_lines(rows_at_once * units_of(a) * 4);
}

}  // namespace quantized
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
