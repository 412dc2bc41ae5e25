// Element types: names, sizes, C++ types, and formats that are only stored and cast.
export module lamina:dtype;
import :core;
import lamina.std;

namespace lamina {

/// Element types of tensors, in the order of the kernels' tables. Types from `uint16` on are only moved and cast;
/// strings are only stored.
export enum class dtype : std::int32_t {
  float32,
  float64,
  float16,
  bfloat16,
  int8,
  int16,
  int32,
  int64,
  uint8,
  boolean,
  uint16,
  uint32,
  uint64,
  float8_e4m3fn,
  float8_e4m3fnuz,
  float8_e5m2,
  float8_e5m2fnuz,
  float8_e8m0fnu,
  float4_e2m1,
  int4,
  uint4,
  int2,
  uint2,
  string
};
export inline constexpr int dtype_count = 24;
/// Numbers and bool come first.
inline constexpr int number_type_count = dtype_count - 1;

/// IEEE half precision as a storage type; arithmetic goes through float.
export struct float16 {
  std::uint16_t bits = 0;
  constexpr float16() = default;
  constexpr float16(float v) : bits(narrow(v)) {}
  constexpr operator float() const {
    std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000u) << 16, exponent = bits >> 10 & 31u,
                  mantissa = bits & 0x3ffu;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
    if (exponent == 0) {
      float v = static_cast<float>(mantissa) * 0x1p-24f;
      return sign ? -v : v;
    }
    return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  }

 private:
  static constexpr std::uint16_t narrow(float v) {
    auto u = std::bit_cast<std::uint32_t>(v);
    std::uint32_t sign = u >> 16 & 0x8000u, magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return static_cast<std::uint16_t>(sign | 0x7e00u);   // NaN
    if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | 0x7c00u);  // rounds to infinity
    if (magnitude < 0x38800000u) {                                                    // subnormal: a multiple of 2^-24
      float scaled = std::bit_cast<float>(magnitude) + 0.5f;                          // one ulp at 0.5 is 2^-24
      return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(scaled) - 0x3f000000u));
    }
    magnitude += 0xfffu + (magnitude >> 13 & 1u);
    return static_cast<std::uint16_t>(sign | (magnitude - 0x38000000u) >> 13);
  }
};

/// The upper half of a float as a storage type; arithmetic goes through float.
export struct bfloat16 {
  std::uint16_t bits = 0;
  constexpr bfloat16() = default;
  constexpr bfloat16(float v) {
    auto u = std::bit_cast<std::uint32_t>(v);
    bits = (u & 0x7fffffffu) > 0x7f800000u ? static_cast<std::uint16_t>(u >> 16 | 0x40u)
                                           : static_cast<std::uint16_t>((u + 0x7fffu + (u >> 16 & 1u)) >> 16);
  }
  constexpr operator float() const { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
};

/// Layout of a floating-point format of at most 8 bits: sign, exponent, mantissa without its leading bit.
struct small_float_layout {
  int mantissa, bias;
  int largest;    // bits of the largest finite number
  int beyond;     // bits of the next value: infinity or NaN; the largest number if the format has neither
  int sign;       // sign bit
  bool one_zero;  // no -0: its bits are the only NaN
  bool nan;       // whether bits above `beyond`, or `beyond` itself without infinity, are NaN
  bool infinity;
};
/// A floating-point number of at most 8 bits as a storage type; arithmetic goes through float. Larger numbers and
/// infinities saturate to the largest; `narrow(v, false)` gives infinity or NaN if the format has one.
template <small_float_layout L> struct small_float {
  std::uint8_t bits = 0;
  constexpr small_float() = default;
  constexpr small_float(float v) : bits(narrow(v).bits) {}
  constexpr operator float() const {
    const auto magnitude = static_cast<std::uint32_t>(bits) & (static_cast<std::uint32_t>(L.sign) - 1);
    const std::uint32_t sign =
        (static_cast<std::uint32_t>(bits) & static_cast<std::uint32_t>(L.sign)) ? 0x80000000u : 0;
    constexpr auto beyond = static_cast<std::uint32_t>(L.beyond);
    if (L.one_zero && sign && magnitude == 0) return std::bit_cast<float>(0x7fc00000u);
    if (!L.one_zero && L.infinity && magnitude == beyond) return std::bit_cast<float>(sign | 0x7f800000u);
    if (!L.one_zero && L.nan && magnitude >= beyond) return std::bit_cast<float>(sign | 0x7fc00000u);
    const std::uint32_t exponent = magnitude >> L.mantissa, fraction = magnitude & ((1u << L.mantissa) - 1);
    if (exponent == 0) {
      const auto scale = std::bit_cast<float>(static_cast<std::uint32_t>(127 + 1 - L.bias - L.mantissa) << 23);
      const float v = static_cast<float>(fraction) * scale;
      return sign ? -v : v;
    }
    return std::bit_cast<float>(sign | (exponent + static_cast<std::uint32_t>(127 - L.bias)) << 23 |
                                fraction << (23 - L.mantissa));
  }
  /// Rounds to nearest, ties to even. NaN stays NaN if the format has it, else becomes zero.
  static constexpr small_float narrow(float v, bool saturate = true) {
    const auto u = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t sign = u >> 31 ? static_cast<std::uint32_t>(L.sign) : 0, magnitude = u & 0x7fffffffu;
    small_float r;
    if (magnitude > 0x7f800000u) {
      r.bits = static_cast<std::uint8_t>(L.one_zero || !L.nan ? L.sign : static_cast<int>(sign) | quiet_nan());
      return r;
    }
    std::uint32_t code = 0;
    const int exponent = static_cast<int>(magnitude >> 23) - 127, below = 1 - L.bias - exponent;
    if (below <= 0) {
      constexpr std::uint32_t shift = 23 - L.mantissa, half = 1u << (shift - 1);
      code = ((magnitude + half - 1 + (magnitude >> shift & 1u)) >> shift) -
             (static_cast<std::uint32_t>(127 - L.bias) << L.mantissa);
    } else if (below <= L.mantissa + 1) {
      const auto shift = static_cast<std::uint32_t>(23 - L.mantissa + below);
      const std::uint32_t number = (magnitude & 0x7fffffu) | 0x800000u;
      code = (number + (1u << (shift - 1)) - 1 + (number >> shift & 1u)) >> shift;
    }
    if (code > static_cast<std::uint32_t>(L.largest)) {
      if (!saturate && L.one_zero) {
        r.bits = static_cast<std::uint8_t>(L.sign);
        return r;
      }
      code = static_cast<std::uint32_t>(saturate ? L.largest : L.beyond);
    }
    r.bits = static_cast<std::uint8_t>(code | (L.one_zero && code == 0 ? 0 : sign));
    return r;
  }

 private:
  static constexpr int quiet_nan() { return L.infinity ? L.beyond | 1 << (L.mantissa - 1) : L.beyond; }
};
/// 4 bits of exponent and 3 of mantissa: up to 448, no infinity.
export using float8_e4m3fn = small_float<small_float_layout{3, 7, 0x7e, 0x7f, 0x80, false, true, false}>;
/// Same, up to 240, with one zero and one NaN.
export using float8_e4m3fnuz = small_float<small_float_layout{3, 8, 0x7f, 0x7f, 0x80, true, true, false}>;
/// 5 bits of exponent and 2 of mantissa: up to 57344, and infinity.
export using float8_e5m2 = small_float<small_float_layout{2, 15, 0x7b, 0x7c, 0x80, false, true, true}>;
/// Same, without infinity, with one zero and one NaN.
export using float8_e5m2fnuz = small_float<small_float_layout{2, 16, 0x7f, 0x7f, 0x80, true, true, false}>;
/// 2 bits of exponent and one of mantissa in the low 4 bits: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and their negatives.
export using float4_e2m1 = small_float<small_float_layout{1, 1, 7, 7, 8, false, false, false}>;

/// Rounding of a number to a power of two.
export enum class power_rounding : std::int64_t { up, down, nearest };
/// A power of two, 2^-127 to 2^127, or NaN: the type of block scales. Has neither zero nor sign.
export struct float8_e8m0fnu {
  std::uint8_t bits = 0;
  constexpr float8_e8m0fnu() = default;
  constexpr float8_e8m0fnu(float v) : bits(narrow(v).bits) {}
  constexpr operator float() const {
    return std::bit_cast<float>(bits == 255 ? 0x7fc00000u
                                : bits == 0 ? 0x00400000u
                                            : static_cast<std::uint32_t>(bits) << 23);
  }
  /// Rounds `v` to the power of two above, below or nearest to it, ties up. Values below 2^-127, zero, and values above
  /// 2^127 become the nearest power, or NaN without saturation; negative numbers give NaN.
  static constexpr float8_e8m0fnu narrow(float v, bool saturate = true, power_rounding mode = power_rounding::up) {
    float8_e8m0fnu r;
    r.bits = 255;
    const auto u = std::bit_cast<std::uint32_t>(v);
    const std::uint32_t magnitude = u & 0x7fffffffu;
    if (magnitude > 0x7f800000u || (u >> 31 && magnitude)) return r;
    if (magnitude < 0x00400000u) {  // below 2^-127
      if (saturate) r.bits = 0;
      return r;
    }
    const bool small = magnitude < 0x00800000u;
    std::uint32_t code = small ? 0 : magnitude >> 23;
    const std::uint32_t rest = small ? (magnitude - 0x00400000u) * 2 : magnitude & 0x7fffffu;
    if (mode == power_rounding::up ? rest != 0 : mode == power_rounding::nearest && rest >= 0x400000u) ++code;
    if (code < 255) r.bits = static_cast<std::uint8_t>(code);
    else if (saturate) r.bits = 254;
    return r;
  }
};

/// An integer of a few bits, sign-extended to its own byte.
template <int Bits, class Byte> struct small_integer {
  Byte v = 0;
  static constexpr int lowest = std::is_signed_v<Byte> ? -(1 << (Bits - 1)) : 0, highest = lowest + (1 << Bits) - 1;
  constexpr small_integer() = default;
  /// Keeps the low bits.
  constexpr small_integer(int x) : v(static_cast<Byte>(wrap(static_cast<unsigned>(x)))) {}
  /// Truncates toward zero, then keeps the low bits; 0 for NaN and values outside the range of int.
  constexpr small_integer(float x) : small_integer(x >= -0x1p31f && x < 0x1p31f ? static_cast<int>(x) : 0) {}
  constexpr operator int() const { return v; }

 private:
  static constexpr int wrap(unsigned x) {
    const int low = static_cast<int>(x & ((1u << Bits) - 1));
    return low > highest ? low - (1 << Bits) : low;
  }
};
export using int4 = small_integer<4, std::int8_t>;
export using uint4 = small_integer<4, std::uint8_t>;
export using int2 = small_integer<2, std::int8_t>;
export using uint2 = small_integer<2, std::uint8_t>;
/// Whether a C++ type is an integer narrower than a byte.
template <class T> inline constexpr bool is_small_integer = false;
template <int Bits, class Byte> inline constexpr bool is_small_integer<small_integer<Bits, Byte>> = true;

template <class T> struct dtype_traits;
template <> struct dtype_traits<float> {
  static constexpr dtype value = dtype::float32;
};
template <> struct dtype_traits<double> {
  static constexpr dtype value = dtype::float64;
};
template <> struct dtype_traits<float16> {
  static constexpr dtype value = dtype::float16;
};
template <> struct dtype_traits<bfloat16> {
  static constexpr dtype value = dtype::bfloat16;
};
template <> struct dtype_traits<std::int8_t> {
  static constexpr dtype value = dtype::int8;
};
template <> struct dtype_traits<std::int16_t> {
  static constexpr dtype value = dtype::int16;
};
template <> struct dtype_traits<std::int32_t> {
  static constexpr dtype value = dtype::int32;
};
template <> struct dtype_traits<std::int64_t> {
  static constexpr dtype value = dtype::int64;
};
template <> struct dtype_traits<std::uint8_t> {
  static constexpr dtype value = dtype::uint8;
};
template <> struct dtype_traits<bool> {
  static constexpr dtype value = dtype::boolean;
};
template <> struct dtype_traits<std::uint16_t> {
  static constexpr dtype value = dtype::uint16;
};
template <> struct dtype_traits<std::uint32_t> {
  static constexpr dtype value = dtype::uint32;
};
template <> struct dtype_traits<std::uint64_t> {
  static constexpr dtype value = dtype::uint64;
};
template <> struct dtype_traits<float8_e4m3fn> {
  static constexpr dtype value = dtype::float8_e4m3fn;
};
template <> struct dtype_traits<float8_e4m3fnuz> {
  static constexpr dtype value = dtype::float8_e4m3fnuz;
};
template <> struct dtype_traits<float8_e5m2> {
  static constexpr dtype value = dtype::float8_e5m2;
};
template <> struct dtype_traits<float8_e5m2fnuz> {
  static constexpr dtype value = dtype::float8_e5m2fnuz;
};
template <> struct dtype_traits<float8_e8m0fnu> {
  static constexpr dtype value = dtype::float8_e8m0fnu;
};
template <> struct dtype_traits<float4_e2m1> {
  static constexpr dtype value = dtype::float4_e2m1;
};
template <> struct dtype_traits<int4> {
  static constexpr dtype value = dtype::int4;
};
template <> struct dtype_traits<uint4> {
  static constexpr dtype value = dtype::uint4;
};
template <> struct dtype_traits<int2> {
  static constexpr dtype value = dtype::int2;
};
template <> struct dtype_traits<uint2> {
  static constexpr dtype value = dtype::uint2;
};

/// A C++ type of tensor elements. Strings exist only in an `any_tensor`.
export template <class T>
concept Element = requires { dtype_traits<T>::value; };
/// The element type of a C++ type.
export template <Element T> inline constexpr dtype dtype_of = dtype_traits<T>::value;

/// Size of one element in bytes.
export constexpr std::size_t size_of(dtype t) {
  constexpr std::size_t sizes[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 1, 2, 4, 8, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 16};
  return sizes[static_cast<int>(t)];
}
/// Conventional name of an element type.
export constexpr std::string_view name_of(dtype t) {
  constexpr std::string_view names[] = {"float32",
                                        "float64",
                                        "float16",
                                        "bfloat16",
                                        "int8",
                                        "int16",
                                        "int32",
                                        "int64",
                                        "uint8",
                                        "bool",
                                        "uint16",
                                        "uint32",
                                        "uint64",
                                        "float8_e4m3fn",
                                        "float8_e4m3fnuz",
                                        "float8_e5m2",
                                        "float8_e5m2fnuz",
                                        "float8_e8m0fnu",
                                        "float4_e2m1",
                                        "int4",
                                        "uint4",
                                        "int2",
                                        "uint2",
                                        "string"};
  return names[static_cast<int>(t)];
}
/// float32, float64 and the half types, which have gradients.
export constexpr bool is_floating(dtype t) { return t <= dtype::bfloat16; }
/// int8 to int64 and uint8, the integers with arithmetic.
export constexpr bool is_integer(dtype t) { return t >= dtype::int8 && t <= dtype::uint8; }
/// float32 and float64, the types of real arithmetic.
export constexpr bool is_real(dtype t) { return t <= dtype::float64; }
export [[gnu::noinline]] constexpr text& operator<<(text& t, dtype d) { return t << name_of(d); }

namespace detail {
[[noreturn]] inline void no_number_type() {
  raise(error_kind::unsupported, "strings are not numbers: they cannot be computed with or cast");
}
}  // namespace detail
namespace detail {
/// The type whose kernels move elements of type `t`: `t` itself, or one of the same size.
constexpr dtype moved_as(dtype t) {
  if (t <= dtype::boolean) return t;
  const std::size_t size = size_of(t);
  return size == 1 ? dtype::uint8 : size == 2 ? dtype::int16 : size == 4 ? dtype::int32 : dtype::int64;
}
}  // namespace detail
/// Calls f.template operator()<T>() with the C++ type of `t`.   Errors: unsupported_error for strings.
export template <class F> constexpr decltype(auto) with_type(dtype t, F&& f) {
  switch (t) {
    case dtype::float64: return f.template operator()<double>();
    case dtype::float16: return f.template operator()<float16>();
    case dtype::bfloat16: return f.template operator()<bfloat16>();
    case dtype::int8: return f.template operator()<std::int8_t>();
    case dtype::int16: return f.template operator()<std::int16_t>();
    case dtype::int32: return f.template operator()<std::int32_t>();
    case dtype::int64: return f.template operator()<std::int64_t>();
    case dtype::uint8: return f.template operator()<std::uint8_t>();
    case dtype::boolean: return f.template operator()<bool>();
    case dtype::uint16: return f.template operator()<std::uint16_t>();
    case dtype::uint32: return f.template operator()<std::uint32_t>();
    case dtype::uint64: return f.template operator()<std::uint64_t>();
    case dtype::float8_e4m3fn: return f.template operator()<float8_e4m3fn>();
    case dtype::float8_e4m3fnuz: return f.template operator()<float8_e4m3fnuz>();
    case dtype::float8_e5m2: return f.template operator()<float8_e5m2>();
    case dtype::float8_e5m2fnuz: return f.template operator()<float8_e5m2fnuz>();
    case dtype::float8_e8m0fnu: return f.template operator()<float8_e8m0fnu>();
    case dtype::float4_e2m1: return f.template operator()<float4_e2m1>();
    case dtype::int4: return f.template operator()<int4>();
    case dtype::uint4: return f.template operator()<uint4>();
    case dtype::int2: return f.template operator()<int2>();
    case dtype::uint2: return f.template operator()<uint2>();
    case dtype::string: detail::no_number_type();
    default: return f.template operator()<float>();
  }
}

// ---- numbers as operands --------------------------------------------------------------------------------------------

namespace detail {
/// Converts a number to an element type: exactly for integers and bool, rounded for floating types, to infinity beyond
/// their range, or to the largest number for types of at most 8 bits. Returns false and leaves `out` unchanged if an
/// integer type or bool cannot represent the number.
template <Element T, class V> requires std::is_arithmetic_v<V> constexpr bool to_element(V v, T& out) {
  if constexpr (is_small_integer<T>) {
    int whole = 0;
    if (!to_element(v, whole) || whole < T::lowest || whole > T::highest) return false;
    out = T(whole);
  } else if constexpr (std::is_class_v<T>) out = T(static_cast<float>(v));
  else if constexpr (std::is_floating_point_v<T>) out = static_cast<T>(v);
  else if constexpr (std::is_floating_point_v<V>) {
    // Both bounds are powers of two or zero, exact in every floating type; the comparison rejects NaN.
    constexpr V low = static_cast<V>(std::numeric_limits<T>::min());
    // NOLINTNEXTLINE(bugprone-integer-division): the half of a power of two less one, plus one, is a power of two
    constexpr V end = 2 * static_cast<V>(std::numeric_limits<T>::max() / 2 + 1);
    if (!(v >= low && v < end) || static_cast<V>(static_cast<T>(v)) != v) return false;
    out = static_cast<T>(v);
  } else {
    constexpr auto low = std::numeric_limits<T>::min(), high = std::numeric_limits<T>::max();
    if (std::cmp_less(+v, +low) || std::cmp_greater(+v, +high)) return false;
    out = static_cast<T>(v);
  }
  return true;
}
/// Message for a number that an element type cannot represent.
template <class V> requires std::is_arithmetic_v<V> constexpr text number_mismatch(V v, dtype element) {
  text t;
  t << "the number ";
  if constexpr (std::is_floating_point_v<V>) t << static_cast<double>(v);
  else t << +v;
  t << " does not fit " << element << ", which holds ";
  with_type(element, [&]<class T>() {
    if constexpr (is_small_integer<T>) t << T::lowest << " to " << T::highest;
    else if constexpr (std::is_integral_v<T>)
      t << +std::numeric_limits<T>::min() << " to " << +std::numeric_limits<T>::max();
  });
  return t << "; cast the tensor first, as in cast<float>(x)";
}
}  // namespace detail

}  // namespace lamina
