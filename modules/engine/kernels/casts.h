// Conversions between all element types, by integer and float arithmetic that rounds once: the same bits on every set.
#pragma once
#include "storage.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

LAMINA_INLINE float to_float(half x) {
  constexpr std::uint32_t exponent = 0x7c00u << 13;
  const std::uint32_t moved = (x.bits & 0x7fffu) << 13, sign = (x.bits & 0x8000u) << 16;
  const std::uint32_t rebased = moved + ((127 - 15) << 23);
  const std::uint32_t special = rebased + ((128 - 16) << 23);  // inf, NaN
  const float denormal = __builtin_bit_cast(float, rebased + (1u << 23)) - 0x1p-14f;
  const std::uint32_t small = __builtin_bit_cast(std::uint32_t, denormal);
  const std::uint32_t quiet = moved > exponent ? 1u << 22 : 0u;
  const std::uint32_t magnitude = (moved & exponent) == exponent ? special | quiet
                                  : (moved & exponent) == 0      ? small
                                                                 : rebased;
  return __builtin_bit_cast(float, magnitude | sign);
}
LAMINA_INLINE float to_float(bfloat x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }

/// Rounds to nearest, ties to even; NaN stays NaN.
LAMINA_INLINE half to_half(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t sign = bits & 0x80000000u, magnitude = bits ^ sign;
  // denormal results: the float addition rounds at the right bit
  const float aligned = __builtin_bit_cast(float, magnitude) + 0.5f;
  const std::uint32_t small = __builtin_bit_cast(std::uint32_t, aligned) - 0x3f000000u;
  const std::uint32_t normal = (magnitude - ((127 - 15) << 23) + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  const std::uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  const std::uint32_t large = magnitude > 0x7f800000u ? nan : 0x7c00u;
  const std::uint32_t y = magnitude >= 0x47800000u ? large : magnitude < 0x38800000u ? small : normal;
  return {static_cast<std::uint16_t>(y | (sign >> 16))};
}
LAMINA_INLINE bfloat to_bfloat(float x) {
  const auto bits = __builtin_bit_cast(std::uint32_t, x);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16, nan = (bits >> 16) | 0x40u;
  return {static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

/// Round to odd: truncates and sets the lowest bit if inexact, so that rounding again to a shorter format rounds once.
LAMINA_INLINE float to_odd(double x) {
  const float y = static_cast<float>(x);
  const auto bits = __builtin_bit_cast(std::uint32_t, y);
  const std::uint32_t beyond = __builtin_fabs(static_cast<double>(y)) > __builtin_fabs(x) ? 1u : 0u;
  const std::uint32_t inexact = x == x && static_cast<double>(y) != x ? 1u : 0u;
  return __builtin_bit_cast(float, (bits - beyond) | inexact);
}
/// Rounds to odd as double.
LAMINA_INLINE double to_odd(std::int64_t x) {
  const std::int64_t low = x & 0x7ff, short_form = (x & ~std::int64_t{0x7ff}) | (low != 0 ? 0x800 : 0);
  constexpr std::int64_t exact = std::int64_t{1} << 53;
  return static_cast<double>(x >= -exact && x <= exact ? x : short_form);
}

/// The value as float, rounded to odd if inexact.
template <class From> LAMINA_INLINE float odd_float(From x) {
  if constexpr (same<From, half> || same<From, bfloat>) return to_float(x);
  else if constexpr (same<From, std::int64_t>) return to_odd(to_odd(x));
  else if constexpr (same<From, double> || same<From, std::int32_t>) return to_odd(static_cast<double>(x));
  else return static_cast<float>(x);
}

/// Truncates toward zero and saturates; NaN gives 0.
template <class To, class From> LAMINA_INLINE To to_integer(From x) {
  constexpr int bits = 8 * static_cast<int>(sizeof(To)), digits = same<From, float> ? 24 : 53;
  constexpr bool is_signed = To(-1) < To(0);
  constexpr int value_bits = is_signed ? bits - 1 : bits;
  constexpr From limit = static_cast<From>(std::uint64_t{1} << (value_bits - 1)) * 2;  // first value too large
  constexpr From low = is_signed ? -limit : From(0);
  constexpr From high = value_bits <= digits ? limit - 1 : limit - limit / From(std::uint64_t{1} << digits);
  const From inside = x >= low ? (x <= high ? x : high) : low;  // NaN gives low
  using whole_type = std::conditional_t<bits == 64, std::conditional_t<is_signed, std::int64_t, std::uint64_t>,
                                        std::conditional_t<value_bits == 32, std::int64_t, std::int32_t>>;
  const auto whole = static_cast<To>(static_cast<whole_type>(inside));
  const To saturated = x >= limit ? std::numeric_limits<To>::max() : whole;
  return x == x ? saturated : To(0);
}

template <class To, class From> LAMINA_INLINE To convert(From x) {
  if constexpr (same<To, From>) {
    return x;
  } else if constexpr (same<From, boolean>) {
    return convert<To>(x.bits);
  } else if constexpr (same<To, boolean>) {
    if constexpr (same<From, half> || same<From, bfloat>) return {static_cast<std::uint8_t>((x.bits & 0x7fffu) != 0)};
    else return {static_cast<std::uint8_t>(x != From(0))};
  } else if constexpr (same<To, half>) {
    return to_half(odd_float(x));
  } else if constexpr (same<To, bfloat>) {
    if constexpr (same<From, float>) return to_bfloat(x);
    else return to_bfloat(odd_float(x));
  } else if constexpr (same<From, half> || same<From, bfloat>) {
    return convert<To>(to_float(x));
  } else if constexpr (is_float<From> && is_integer<To>) {
    return to_integer<To>(x);
  } else {
    return static_cast<To>(x);
  }
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
