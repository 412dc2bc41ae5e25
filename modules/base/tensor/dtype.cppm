// Element types: their names, sizes, C++ types, and the two half-precision formats as storage types.
export module lamina:dtype;
import :core;
import lamina.std;

namespace lamina {

/// The element types of tensors, in the order the kernels know them.
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
  boolean
};
export inline constexpr int dtype_count = 10;

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

/// A C++ type that a tensor can hold.
export template <class T>
concept Element = requires { dtype_traits<T>::value; };
/// The element type of a C++ type.
export template <Element T> inline constexpr dtype dtype_of = dtype_traits<T>::value;

/// Bytes of one element.
export constexpr std::size_t size_of(dtype t) {
  constexpr std::size_t sizes[] = {4, 8, 2, 2, 1, 2, 4, 8, 1, 1};
  return sizes[static_cast<int>(t)];
}
/// The field's name of an element type.
export constexpr std::string_view name_of(dtype t) {
  constexpr std::string_view names[] = {"float32", "float64", "float16", "bfloat16", "int8",
                                        "int16",   "int32",   "int64",   "uint8",    "bool"};
  return names[static_cast<int>(t)];
}
export constexpr bool is_floating(dtype t) { return t <= dtype::bfloat16; }
export constexpr bool is_integer(dtype t) { return t >= dtype::int8 && t <= dtype::uint8; }
/// float32 and float64: the types that arithmetic on real numbers runs in.
export constexpr bool is_real(dtype t) { return t <= dtype::float64; }
export [[gnu::noinline]] constexpr text& operator<<(text& t, dtype d) { return t << name_of(d); }

/// Calls f.template operator()<T>() with the C++ type of `t`.
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
    default: return f.template operator()<float>();
  }
}

// ---- numbers beside tensors -----------------------------------------------------------------------------------------

export namespace detail {
/// Takes a number into an element type: exact for integers and bool, rounded for floating types, infinite beyond them.
/// False, and no change, where an integer type or bool has no such number.
template <Element T, class V> requires std::is_arithmetic_v<V> constexpr bool to_element(V v, T& out) {
  if constexpr (std::is_class_v<T>) out = T(static_cast<float>(v));
  else if constexpr (std::is_floating_point_v<T>) out = static_cast<T>(v);
  else if constexpr (std::is_floating_point_v<V>) {
    // Both bounds are powers of two or zero, which every floating type has; NaN is between none.
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
/// The words for a number that an element type does not have.
template <class V> requires std::is_arithmetic_v<V> constexpr text number_mismatch(V v, dtype element) {
  text t;
  t << "the number ";
  if constexpr (std::is_floating_point_v<V>) t << static_cast<double>(v);
  else t << +v;
  t << " is no " << element << ", which holds ";
  with_type(element, [&]<class T>() {
    if constexpr (std::is_integral_v<T>)
      t << +std::numeric_limits<T>::min() << " to " << +std::numeric_limits<T>::max();
  });
  return t << "; cast the tensor first, as in cast<float>(x)";
}
}  // namespace detail

}  // namespace lamina
