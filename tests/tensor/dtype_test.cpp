// Element types: every half-precision number, and narrowing against exact arithmetic.
#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>

import lamina;

using namespace lamina;

namespace {

// The number of a bit pattern with `bits` of mantissa and `exponents` of exponent, by arithmetic.
double value_of(std::uint32_t pattern, int mantissa_bits, int exponent_bits) {
  int bias = (1 << (exponent_bits - 1)) - 1;
  auto mantissa = pattern & ((1u << mantissa_bits) - 1),
       exponent = pattern >> mantissa_bits & ((1u << exponent_bits) - 1);
  double sign = pattern >> (mantissa_bits + exponent_bits) & 1 ? -1 : 1;
  if (exponent == (1u << exponent_bits) - 1)
    return mantissa ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  double fraction = std::ldexp(static_cast<double>(mantissa), -mantissa_bits);
  return sign *
         (exponent ? std::ldexp(1 + fraction, static_cast<int>(exponent) - bias) : std::ldexp(fraction, 1 - bias));
}

// The nearest pattern, ties to the even one, found by the neighbors' exact distances.
std::uint16_t nearest(float v, int mantissa_bits, int exponent_bits) {
  std::uint32_t infinity = ((1u << exponent_bits) - 1) << mantissa_bits;
  double size = std::abs(static_cast<double>(v));
  std::uint32_t low = 0,
                high = infinity;  // value(low) <= size < value(high), infinity standing for the next power of two
  auto value = [&](std::uint32_t p) {
    return p == infinity ? std::ldexp(1.0, 1 << (exponent_bits - 1)) : value_of(p, mantissa_bits, exponent_bits);
  };
  if (size >= value(infinity)) low = infinity;
  else {
    while (high - low > 1) {
      auto middle = (low + high) / 2;
      (value(middle) <= size ? low : high) = middle;
    }
    double below = size - value(low), above = value(high) - size;
    if (above < below || (above == below && high % 2 == 0)) low = high;
  }
  return static_cast<std::uint16_t>(low | (std::signbit(v) ? 0x8000u : 0u));
}

template <class T> void check_narrowing(float v, int mantissa_bits, int exponent_bits) {
  auto got = T(v).bits, wanted = nearest(v, mantissa_bits, exponent_bits);
  if (got != wanted) BOOST_ERROR("narrowing " << v << " gives pattern " << got << ", not " << wanted);
}

template <class T> void check_type(int mantissa_bits, int exponent_bits) {
  for (std::uint32_t p = 0; p < 65536; ++p) {
    T x;
    x.bits = static_cast<std::uint16_t>(p);
    double wanted = value_of(p, mantissa_bits, exponent_bits);
    float wide = x;
    if (std::isnan(wanted)) {
      if (!std::isnan(wide)) BOOST_ERROR("pattern " << p << " is no NaN");
      if (!std::isnan(static_cast<float>(T(wide)))) BOOST_ERROR("NaN " << p << " does not stay one");
      if (std::signbit(wide) != (p >> 15 != 0)) BOOST_ERROR("NaN " << p << " loses its sign");
      continue;
    }
    if (static_cast<double>(wide) != wanted || std::signbit(wide) != std::signbit(wanted))
      BOOST_ERROR("pattern " << p << " is read as " << wide);
    if (T(wide).bits != p) BOOST_ERROR("pattern " << p << " comes back as " << T(wide).bits);
    if (!std::isfinite(wanted)) continue;
    // The point halfway to the next number, and its neighbors.
    float half = static_cast<float>((wanted + value_of(p + 1, mantissa_bits, exponent_bits)) / 2);
    if (!std::isfinite(half)) continue;
    for (float v : {half, std::nextafter(half, 0.f), std::nextafter(half, 2 * half)})
      check_narrowing<T>(v, mantissa_bits, exponent_bits);
  }
  std::mt19937 random(1);
  for (int i = 0; i < 300'000; ++i) {
    auto v = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
    if (!std::isnan(v)) check_narrowing<T>(v, mantissa_bits, exponent_bits);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(element_types)

BOOST_AUTO_TEST_CASE(float16_is_exact_and_rounds_to_nearest_even) { check_type<float16>(10, 5); }
BOOST_AUTO_TEST_CASE(bfloat16_is_exact_and_rounds_to_nearest_even) { check_type<bfloat16>(7, 8); }

BOOST_AUTO_TEST_CASE(the_ends_of_float16) {
  BOOST_CHECK_EQUAL(float16(65504.f).bits, 0x7bff);
  BOOST_CHECK_EQUAL(float16(65519.996f).bits, 0x7bff);
  BOOST_CHECK_EQUAL(float16(65520.f).bits, 0x7c00);
  BOOST_CHECK_EQUAL(float16(-1e30f).bits, 0xfc00);
  BOOST_CHECK_EQUAL(float16(0x1p-24f).bits, 1);
  BOOST_CHECK_EQUAL(float16(0x1p-25f).bits, 0);  // a tie goes to the even zero
  BOOST_CHECK_EQUAL(float16(0x1.000002p-25f).bits, 1);
  BOOST_CHECK_EQUAL(float16(-0.f).bits, 0x8000);
  static_assert(float16(1.5f).bits == 0x3e00 && bfloat16(1.5f).bits == 0x3fc0);
}

BOOST_AUTO_TEST_CASE(types_know_their_name_and_size) {
  int seen = 0;
  for (int i = 0; i < dtype_count; ++i)
    with_type(static_cast<dtype>(i), [&]<class T>() {
      BOOST_CHECK(dtype_of<T> == static_cast<dtype>(i));
      BOOST_CHECK_EQUAL(size_of(dtype_of<T>), sizeof(T));
      ++seen;
    });
  BOOST_CHECK_EQUAL(seen, 10);
  BOOST_CHECK(name_of(dtype::bfloat16) == "bfloat16" && name_of(dtype::boolean) == "bool" &&
              name_of(dtype::int64) == "int64");
  BOOST_CHECK(is_floating(dtype::float16) && !is_real(dtype::float16) && !is_floating(dtype::int8));
  BOOST_CHECK(is_integer(dtype::uint8) && !is_integer(dtype::boolean));
}

BOOST_AUTO_TEST_SUITE_END()
