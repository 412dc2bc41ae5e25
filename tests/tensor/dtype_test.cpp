// Element types: every half-precision number, and narrowing against exact arithmetic.
module;
#include <boost/test/unit_test.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <string_view>
#include <vector>

module lamina;

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

// ---- formats of 8 bits and fewer, by the rules of their definitions ----

/// Rules of a format: the number of a magnitude (bits without the sign) is (1 + fraction) 2^(exponent - bias), or
/// fraction 2^(1 - bias) where the exponent is 0.
struct small_format {
  int exponents, mantissa, bias;
  int numbers;    // magnitudes 0 to numbers - 1 are finite
  bool infinity;  // the next magnitude is infinity and later ones are NaN; otherwise all of these are NaN
  bool no_minus;  // the code of -0 is the NaN
  unsigned sign() const { return 1u << (exponents + mantissa); }
  double number(unsigned magnitude) const {
    const double fraction = std::ldexp(static_cast<double>(magnitude % (1u << mantissa)), -mantissa);
    const int exponent = static_cast<int>(magnitude >> mantissa);
    return exponent ? std::ldexp(1 + fraction, exponent - bias) : std::ldexp(fraction, 1 - bias);
  }
  double value(unsigned code) const {
    const unsigned magnitude = code & (sign() - 1);
    const bool minus = (code & sign()) != 0;
    const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
    if (no_minus && minus && magnitude == 0) return nan;
    const double v = magnitude < static_cast<unsigned>(numbers)                ? number(magnitude)
                     : infinity && magnitude == static_cast<unsigned>(numbers) ? inf
                                                                               : nan;
    return minus ? -v : v;
  }
  /// Conversion of a number other than NaN, by its distances to all numbers of the format.
  double nearest(float v, bool saturate) const {
    const double size = std::abs(static_cast<double>(v)), largest = number(static_cast<unsigned>(numbers) - 1),
                 step = largest - number(static_cast<unsigned>(numbers) - 2);
    // Overflow: past the midpoint to the number that would follow the largest one, or at it if that number is even.
    const bool beyond = size > largest + step / 2 || (size == largest + step / 2 && numbers % 2 == 0);
    double found = largest;
    if (beyond && !saturate) {
      if (!infinity) return std::numeric_limits<double>::quiet_NaN();
      found = std::numeric_limits<double>::infinity();
    } else if (!beyond) {
      double least = std::numeric_limits<double>::infinity();
      for (unsigned m = 0; m < static_cast<unsigned>(numbers); ++m) {
        const double distance = std::abs(number(m) - size);
        if (distance < least || (distance == least && m % 2 == 0)) found = number(m), least = distance;
      }
    }
    if (found == 0 && no_minus) return 0;
    return std::signbit(v) ? -found : found;
  }
};
bool same_number(double a, double b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

template <class T> void check_small(const small_format& f) {
  const unsigned codes = 2 * f.sign();
  std::vector<float> points{
      0.f, -0.f, 1e-45f, 0x1p-126f, 1e30f, std::numeric_limits<float>::infinity(), std::numeric_limits<float>::max()};
  for (unsigned code = 0; code < codes; ++code) {
    T x;
    x.bits = static_cast<std::uint8_t>(code);
    const double want = f.value(code);
    if (!same_number(static_cast<double>(static_cast<float>(x)), want))
      BOOST_ERROR("code " << code << " is read as " << static_cast<float>(x) << ", not " << want);
    if (!std::isnan(want) && T::narrow(static_cast<float>(want), false).bits != code)
      BOOST_ERROR("code " << code << " does not come back");
    if (std::isfinite(want)) points.push_back(static_cast<float>(want));
  }
  for (unsigned m = 0; m < static_cast<unsigned>(f.numbers); ++m)
    points.push_back(static_cast<float>((f.number(m) + f.number(m + 1)) / 2));
  std::mt19937 random(3);
  for (int i = 0; i < 20'000; ++i) points.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const float point : points)
    for (const float near : {point, std::nextafter(point, 0.f), std::nextafter(point, 1e38f)})
      for (const float v : {near, -near})
        for (const bool saturate : {true, false}) {
          const T got = T::narrow(v, saturate);
          // A format without NaN gives zero.
          const bool nan = std::isnan(v), has = f.numbers < static_cast<int>(f.sign()) || f.no_minus;
          const double want = nan ? (has ? static_cast<double>(v) : -0.0) : f.nearest(v, saturate || !has);
          if (!same_number(static_cast<double>(static_cast<float>(got)), want))
            BOOST_ERROR("narrowing " << v << (saturate ? "" : " without saturation") << " gives "
                                     << static_cast<float>(got) << ", not " << want);
          if (saturate && T(v).bits != got.bits) BOOST_ERROR(v << " is made otherwise");
        }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  if (f.numbers < static_cast<int>(f.sign()))
    BOOST_TEST((T(-nan).bits & f.sign()) != (T(nan).bits & f.sign()));  // NaN keeps its sign
}

// The power of two for a number, by its logarithm.
double power_for(float v, bool saturate, power_rounding mode) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), least = std::ldexp(1.0, -127),
               max = std::ldexp(1.0, 127), x = static_cast<double>(v);
  if (std::isnan(v) || x < 0) return nan;
  if (x < least) return saturate ? least : nan;
  const double below = std::ldexp(1.0, std::isinf(x) ? 200 : std::ilogb(x));
  const double middle = 1.5 * below;
  const bool up = mode == power_rounding::up ? x > below : mode == power_rounding::nearest && x >= middle;
  const double found = up ? 2 * below : below;
  return found > max ? (saturate ? max : nan) : found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(element_types)

BOOST_AUTO_TEST_CASE(float8_e4m3fn_by_its_definition) {
  check_small<float8_e4m3fn>({4, 3, 7, 0x7f, false, false});
  BOOST_TEST(static_cast<float>(float8_e4m3fn(1e6f)) == 448);
}
BOOST_AUTO_TEST_CASE(float8_e4m3fnuz_by_its_definition) {
  check_small<float8_e4m3fnuz>({4, 3, 8, 0x80, false, true});
  BOOST_TEST(static_cast<float>(float8_e4m3fnuz(1e6f)) == 240);
  BOOST_TEST(float8_e4m3fnuz(-0.f).bits == 0);
  BOOST_TEST(float8_e4m3fnuz::narrow(-1e6f, false).bits == 0x80);
}
BOOST_AUTO_TEST_CASE(float8_e5m2_by_its_definition) {
  check_small<float8_e5m2>({5, 2, 15, 0x7c, true, false});
  BOOST_TEST(static_cast<float>(float8_e5m2(1e6f)) == 57344);
  BOOST_TEST(float8_e5m2::narrow(-1e6f, false).bits == 0xfc);
}
BOOST_AUTO_TEST_CASE(float8_e5m2fnuz_by_its_definition) {
  check_small<float8_e5m2fnuz>({5, 2, 16, 0x80, false, true});
  BOOST_TEST(static_cast<float>(float8_e5m2fnuz(1e6f)) == 57344);
}
BOOST_AUTO_TEST_CASE(float4_e2m1_by_its_definition) {
  check_small<float4_e2m1>({2, 1, 1, 8, false, false});
  const double numbers[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (unsigned code = 0; code < 8; ++code) {
    float4_e2m1 x;
    x.bits = static_cast<std::uint8_t>(code);
    BOOST_TEST(static_cast<double>(static_cast<float>(x)) == numbers[code]);
  }
}
BOOST_AUTO_TEST_CASE(powers_of_two) {
  for (int code = 0; code < 255; ++code) {
    float8_e8m0fnu x;
    x.bits = static_cast<std::uint8_t>(code);
    BOOST_TEST(static_cast<double>(static_cast<float>(x)) == std::ldexp(1.0, code - 127));
    BOOST_TEST(float8_e8m0fnu(static_cast<float>(x)).bits == code);
  }
  float8_e8m0fnu nan;
  nan.bits = 255;
  BOOST_TEST(std::isnan(static_cast<float>(nan)));
  std::mt19937 random(4);
  std::vector<float> points{0.f, -0.f, 1e-45f, -1.f, std::numeric_limits<float>::infinity(), 0x1p-127f, 0x1p-128f};
  for (int e = -149; e < 128; ++e)
    for (const double m : {1.0, 1.25, 1.5, 1.75}) points.push_back(static_cast<float>(std::ldexp(m, e)));
  for (int i = 0; i < 20'000; ++i) points.push_back(std::bit_cast<float>(static_cast<std::uint32_t>(random())));
  for (const float point : points)
    for (const float v : {point, std::nextafter(point, 0.f), std::nextafter(point, 1e38f)})
      for (const auto mode : {power_rounding::up, power_rounding::down, power_rounding::nearest})
        for (const bool saturate : {true, false})
          if (!same_number(static_cast<double>(static_cast<float>(float8_e8m0fnu::narrow(v, saturate, mode))),
                           power_for(v, saturate, mode)))
            BOOST_ERROR(v << " becomes " << static_cast<float>(float8_e8m0fnu::narrow(v, saturate, mode)));
}
template <class T> void check_few_bits(int bits, bool is_signed) {
  const int count = 1 << bits;
  BOOST_TEST(T::lowest == (is_signed ? -count / 2 : 0));
  BOOST_TEST(T::highest == (is_signed ? count / 2 : count) - 1);
  for (int x = -300; x < 300; ++x) {
    int want = ((x % count) + count) % count;
    if (is_signed && want >= count / 2) want -= count;
    BOOST_TEST(static_cast<int>(T(x)) == want);
    BOOST_TEST(static_cast<int>(T(static_cast<float>(x) + (x < 0 ? -0.75f : 0.75f))) == want);
  }
  T out;
  BOOST_TEST(detail::to_element(T::highest, out));
  BOOST_TEST(static_cast<int>(out) == T::highest);
  BOOST_TEST(!detail::to_element(T::highest + 1, out));
  BOOST_TEST(!detail::to_element(T::lowest - 1, out));
  BOOST_TEST(!detail::to_element(0.5, out));
}
BOOST_AUTO_TEST_CASE(integers_of_few_bits_wrap) {
  check_few_bits<int4>(4, true), check_few_bits<uint4>(4, false), check_few_bits<int2>(2, true);
  check_few_bits<uint2>(2, false);
}

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
  for (int i = 0; i < number_type_count; ++i)
    with_type(static_cast<dtype>(i), [&]<class T>() {
      BOOST_CHECK(dtype_of<T> == static_cast<dtype>(i));
      BOOST_CHECK_EQUAL(size_of(dtype_of<T>), sizeof(T));
      ++seen;
    });
  BOOST_CHECK_EQUAL(seen, 23);
  BOOST_CHECK_EQUAL(size_of(dtype::string), sizeof(std::string_view));
  BOOST_CHECK(name_of(dtype::uint16) == "uint16" && name_of(dtype::string) == "string" &&
              name_of(dtype::float8_e5m2fnuz) == "float8_e5m2fnuz" && name_of(dtype::uint2) == "uint2");
  BOOST_CHECK_THROW(with_type(dtype::string, []<class T>() {}), unsupported_error);
  for (int i = static_cast<int>(dtype::uint16); i < dtype_count; ++i)
    BOOST_CHECK(!is_integer(static_cast<dtype>(i)) && !is_real(static_cast<dtype>(i)) &&
                !is_floating(static_cast<dtype>(i)));
  BOOST_CHECK(name_of(dtype::bfloat16) == "bfloat16" && name_of(dtype::boolean) == "bool" &&
              name_of(dtype::int64) == "int64");
  BOOST_CHECK(is_floating(dtype::float16) && !is_real(dtype::float16) && !is_floating(dtype::int8));
  BOOST_CHECK(is_integer(dtype::uint8) && !is_integer(dtype::boolean));
}

BOOST_AUTO_TEST_SUITE_END()
