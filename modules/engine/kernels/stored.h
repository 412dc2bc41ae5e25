// Conversions from and to the storage-only element types. They are rarely hot: functions exist only from and to a type
// that represents all values of the other, double or 64-bit integers; two of them make the others (`cast_between`).
#pragma once
#include "elementwise.h"
#include "map.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// A floating-point number of at most 8 bits: `largest` are the bits of the largest number, `beyond` those of infinity
/// or NaN after it, `sign` is the sign bit. With `one_zero` the bits of -0 are the only NaN.
template <int Mantissa, int Bias, int Largest, int Beyond, int Sign, bool One_zero, bool Nan, bool Infinity>
struct small_float {
  static constexpr int mantissa = Mantissa, bias = Bias;
  static constexpr std::uint32_t largest = Largest, beyond = Beyond, sign = Sign;
  static constexpr bool one_zero = One_zero, nan = Nan, infinity = Infinity;
  std::uint8_t bits;
};
using e4m3fn = small_float<3, 7, 0x7e, 0x7f, 0x80, false, true, false>;
using e4m3fnuz = small_float<3, 8, 0x7f, 0x7f, 0x80, true, true, false>;
using e5m2 = small_float<2, 15, 0x7b, 0x7c, 0x80, false, true, true>;
using e5m2fnuz = small_float<2, 16, 0x7f, 0x7f, 0x80, true, true, false>;
using e2m1 = small_float<1, 1, 7, 7, 8, false, false, false>;
/// A power of two, 2^(bits - 127); 255 is NaN.
struct power {
  std::uint8_t bits;
};
/// An integer of a few bits.
template <int Bits, class Byte> struct few_bits {
  static constexpr int count = Bits;
  Byte v;
};

#define LAMINA_STORED(name, stored)              \
  template <> struct storage_of<element::name> { \
    using type = stored;                         \
  };
LAMINA_STORED(u16, std::uint16_t)
LAMINA_STORED(u32, std::uint32_t)
LAMINA_STORED(u64, std::uint64_t)
LAMINA_STORED(e4m3fn, e4m3fn)
LAMINA_STORED(e4m3fnuz, e4m3fnuz)
LAMINA_STORED(e5m2, e5m2)
LAMINA_STORED(e5m2fnuz, e5m2fnuz)
LAMINA_STORED(e8m0, power)
LAMINA_STORED(e2m1, e2m1)
using int4 = few_bits<4, std::int8_t>;
using uint4 = few_bits<4, std::uint8_t>;
using int2 = few_bits<2, std::int8_t>;
using uint2 = few_bits<2, std::uint8_t>;
LAMINA_STORED(i4, int4)
LAMINA_STORED(u4, uint4)
LAMINA_STORED(i2, int2)
LAMINA_STORED(u2, uint2)
#undef LAMINA_STORED

/// Rules of a cast besides its two types.
template <bool Saturate = true, power_rounding Rounding = power_rounding::up> struct cast_rule {
  static constexpr bool saturate = Saturate;
  static constexpr power_rounding rounding = Rounding;
};

namespace stored_casts {

template <class T> inline constexpr bool is_small_float = false;
template <int M, int B, int L, int I, int S, bool Z, bool N, bool F>
inline constexpr bool is_small_float<small_float<M, B, L, I, S, Z, N, F>> = true;
template <class T> inline constexpr bool is_few_bits = false;
template <int B, class Byte> inline constexpr bool is_few_bits<few_bits<B, Byte>> = true;
/// Types with a fraction, which convert through double.
template <class T> inline constexpr bool has_fraction =
    is_float<T> || same<T, half> || same<T, bfloat> || same<T, power> || is_small_float<T>;
/// Intermediate type for the numbers of a type.
template <class T> using carrier =
    std::conditional_t<has_fraction<T>, double,
                       std::conditional_t<same<T, std::uint64_t>, std::uint64_t, std::int64_t>>;
/// Signed type of the same size: conversions to it and to the unsigned type give the same bits.
template <class T> using with_sign =
    std::conditional_t<same<T, std::uint16_t>, std::int16_t,
                       std::conditional_t<same<T, std::uint32_t>, std::int32_t,
                                          std::conditional_t<same<T, std::uint64_t>, std::int64_t, T>>>;

template <class T> LAMINA_INLINE float wide(T x) requires is_small_float<T> {
  const std::uint32_t magnitude = x.bits & (T::sign - 1), sign = (x.bits & T::sign) != 0 ? 0x80000000u : 0u;
  const auto with_sign = [&](std::uint32_t bits) { return __builtin_bit_cast(float, bits | sign); };
  if (T::one_zero && sign != 0 && magnitude == 0) return __builtin_bit_cast(float, 0x7fc00000u);
  if (!T::one_zero && T::infinity && magnitude == T::beyond) return with_sign(0x7f800000u);
  if (!T::one_zero && T::nan && magnitude >= T::beyond) return with_sign(0x7fc00000u);
  constexpr auto smallest = __builtin_bit_cast(float, static_cast<std::uint32_t>(128 - T::bias - T::mantissa) << 23);
  if (magnitude >> T::mantissa == 0)
    return with_sign(__builtin_bit_cast(std::uint32_t, static_cast<float>(magnitude) * smallest));
  return with_sign((magnitude << (23 - T::mantissa)) + (static_cast<std::uint32_t>(127 - T::bias) << 23));
}
LAMINA_INLINE float wide(power x) {
  const std::uint32_t normal = static_cast<std::uint32_t>(x.bits) << 23;
  return __builtin_bit_cast(float, x.bits == 255 ? 0x7fc00000u : x.bits == 0 ? 0x00400000u : normal);
}

/// Rounds to nearest, ties to even; overflow gives the largest number if `Saturate`, else infinity or NaN.
template <class T, bool Saturate> LAMINA_INLINE T narrow(float v) {
  const auto bits = __builtin_bit_cast(std::uint32_t, v);
  const std::uint32_t sign = (bits >> 31) * T::sign, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) {
    constexpr std::uint32_t quiet = T::infinity ? T::beyond | 1u << (T::mantissa - 1) : T::beyond;
    return {static_cast<std::uint8_t>(T::one_zero || !T::nan ? T::sign : sign | quiet)};
  }
  const int below = 1 - T::bias - (static_cast<int>(magnitude >> 23) - 127);
  std::uint32_t code = 0;
  if (below <= 0) {
    constexpr std::uint32_t shift = 23 - T::mantissa;
    code = ((magnitude + (1u << (shift - 1)) - 1 + (magnitude >> shift & 1u)) >> shift) -
           (static_cast<std::uint32_t>(127 - T::bias) << T::mantissa);
  } else if (below <= T::mantissa + 1) {
    const std::uint32_t shift = static_cast<std::uint32_t>(23 - T::mantissa + below);
    const std::uint32_t number = (magnitude & 0x7fffffu) | 0x800000u;
    code = (number + (1u << (shift - 1)) - 1 + (number >> shift & 1u)) >> shift;
  }
  if (code > T::largest) {
    if (!Saturate && T::one_zero) return {static_cast<std::uint8_t>(T::sign)};
    code = Saturate ? T::largest : T::beyond;
  }
  return {static_cast<std::uint8_t>(code | (T::one_zero && code == 0 ? 0 : sign))};
}
/// Rounds to a power of two; negative numbers give NaN.
template <bool Saturate, power_rounding Rounding> LAMINA_INLINE power narrow_power(float v) {
  const auto bits = __builtin_bit_cast(std::uint32_t, v);
  const std::uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u || (bits >> 31 != 0 && magnitude != 0)) return {255};
  if (magnitude < 0x00400000u) return {static_cast<std::uint8_t>(Saturate ? 0 : 255)};
  const bool small = magnitude < 0x00800000u;
  const std::uint32_t rest = small ? (magnitude - 0x00400000u) * 2 : magnitude & 0x7fffffu;
  const bool up = Rounding == power_rounding::up ? rest != 0 : Rounding == power_rounding::nearest && rest >= 0x400000u;
  const std::uint32_t code = (small ? 0u : magnitude >> 23) + (up ? 1u : 0u);
  return {static_cast<std::uint8_t>(code < 255 ? code : Saturate ? 254u : 255u)};
}

/// Rounds to odd as float, so that rounding again to a shorter format rounds once.
template <class Carrier> LAMINA_INLINE float odd(Carrier x) {
  if constexpr (same<Carrier, double>) return to_odd(x);
  else if constexpr (same<Carrier, std::int64_t>) return to_odd(to_odd(x));
  else if (x >> 63 == 0) return to_odd(to_odd(static_cast<std::int64_t>(x)));
  else return to_odd(to_odd(static_cast<std::int64_t>(x >> 1 | (x & 1u))) * 2);
}

template <class To, class Rule, class Carrier> LAMINA_INLINE To from_carrier(Carrier x) {
  if constexpr (same<To, half>) return to_half(odd(x));
  else if constexpr (same<To, bfloat>) return to_bfloat(odd(x));
  else if constexpr (is_small_float<To>) return narrow<To, Rule::saturate>(odd(x));
  else if constexpr (same<To, power>) {
    // Values above all floats become infinity: there is no power of two to round down to.
    const bool beyond = same<Carrier, double> && x >= Carrier(0x1p63) && static_cast<double>(x) >= 0x1p128;
    return narrow_power<Rule::saturate, Rule::rounding>(beyond ? __builtin_inff() : odd(x));
  } else if constexpr (same<To, boolean>) return {static_cast<std::uint8_t>(x != Carrier(0))};
  else if constexpr (is_few_bits<To>) {
    std::int64_t whole = 0;
    if constexpr (same<Carrier, double>) whole = to_integer<std::int64_t>(x);
    else whole = static_cast<std::int64_t>(x);
    constexpr int rest = 64 - To::count;
    const auto high = static_cast<std::uint64_t>(whole) << rest;
    if constexpr (same<To, few_bits<To::count, std::int8_t>>)
      return {static_cast<std::int8_t>(static_cast<std::int64_t>(high) >> rest)};
    else return {static_cast<std::uint8_t>(high >> rest)};
  } else if constexpr (same<Carrier, double> && !is_float<To>) return to_integer<To>(x);
  else return static_cast<To>(x);
}
template <class From> LAMINA_INLINE carrier<From> to_carrier(From x) {
  if constexpr (same<From, half> || same<From, bfloat>) return static_cast<double>(to_float(x));
  else if constexpr (same<From, power> || is_small_float<From>) return static_cast<double>(wide(x));
  else if constexpr (same<From, boolean>) return x.bits;
  else if constexpr (is_few_bits<From>) return x.v;
  else return x;
}

template <class From, class To, class Rule>
void map(const void* a, const void*, const void*, void* out, long n, unsigned steps) noexcept {
  if (n <= 0) return;
  const stepped<From> x(a, steps & 1);
  To* y = static_cast<To*>(out);
  LAMINA_SMALL for (long i = 0; i < n; ++i) y[i] = from_carrier<To, Rule>(to_carrier(x[i]));
}

/// The function of a conversion, or null if it needs two, through float64 or int64.
template <class From, class To, class Rule> constexpr map_function function_of() {
  constexpr bool computed = is_float<To> || same<To, boolean> || is_integer<To>;
  if constexpr (same<From, To>) return map_copy<word<sizeof(To)>>;
  else if constexpr (same<From, std::uint64_t> && !has_fraction<To>) return function_of<std::int64_t, To, Rule>();
  else if constexpr (same<From, std::int64_t> && !same<To, with_sign<To>>)
    return function_of<std::int64_t, with_sign<To>, Rule>();
  else if constexpr (same<From, std::int64_t> && computed) return map_cast<To, From>;
  else if constexpr (is_small_float<To> && !has_fraction<From>) return nullptr;
  else if constexpr (same<From, double> || same<From, std::int64_t> || same<From, std::uint64_t> || same<To, double> ||
                     same<To, carrier<From>>)
    return map<From, To, Rule>;
  else if constexpr (is_few_bits<From> && is_few_bits<To>)
    return From::count == To::count && !same<From, To> ? map<From, To, Rule> : nullptr;
  else return nullptr;
}

}  // namespace stored_casts
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
