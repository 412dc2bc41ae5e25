// Conversions between all element types against references that round once.
#include "kernel_test.h"

#include <string>

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

const cast_table& casts() { return *KERNELS_OF(kernel_test::tested(), lamina_elementwise).casts; }
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};
struct boolean {
  std::uint8_t bits;
};

/// The value of a short float with `exponent` and `mantissa` bits.
long double decode(unsigned bits, int exponent, int mantissa) {
  const unsigned e = bits >> mantissa & ((1u << exponent) - 1), m = bits & ((1u << mantissa) - 1);
  const int bias = (1 << (exponent - 1)) - 1;
  const bool negative = (bits >> (exponent + mantissa) & 1) != 0;
  long double v;
  if (e == (1u << exponent) - 1)
    v = m != 0 ? std::numeric_limits<long double>::quiet_NaN() : std::numeric_limits<long double>::infinity();
  else if (e == 0) v = std::ldexp(static_cast<long double>(m), 1 - bias - mantissa);
  else v = std::ldexp(static_cast<long double>(m | 1u << mantissa), static_cast<int>(e) - bias - mantissa);
  return negative ? -v : v;
}
/// The nearest short float, ties to even.
unsigned encode(long double x, int exponent, int mantissa) {
  const unsigned sign = std::signbit(x) ? 1u << (exponent + mantissa) : 0u, top = ((1u << exponent) - 1) << mantissa;
  const long double a = std::fabs(x);
  if (a == 0) return sign;
  if (std::isinf(a)) return sign | top;
  const int bias = (1 << (exponent - 1)) - 1;
  int e = 0;
  std::frexp(a, &e);
  const int scale = std::max(e - 1, 1 - bias) - mantissa;  // exponent of the last place
  const auto m = static_cast<unsigned>(std::nearbyint(std::ldexp(a, -scale)));
  const unsigned bits = m + (static_cast<unsigned>(scale + mantissa + bias - 1) << mantissa);
  return sign | (bits < top ? bits : top);
}

template <class T> long double number(T x) {
  if constexpr (std::is_same_v<T, f16>) return decode(x.bits, 5, 10);
  else if constexpr (std::is_same_v<T, bf16>) return decode(x.bits, 8, 7);
  else if constexpr (std::is_same_v<T, boolean>) return x.bits;
  else return static_cast<long double>(x);
}
template <class To, class From> bool right(From from, To to) {
  const long double x = number(from);
  if constexpr (std::is_same_v<To, boolean>) return to.bits == (x != 0 ? 1 : 0);
  else if constexpr (std::is_same_v<To, f16>)
    return std::isnan(x) ? std::isnan(number(to)) : to.bits == encode(x, 5, 10);
  else if constexpr (std::is_same_v<To, bf16>)
    return std::isnan(x) ? std::isnan(number(to)) : to.bits == encode(x, 8, 7);
  else if constexpr (std::is_floating_point_v<To>) return std::isnan(x) ? std::isnan(to) : to == static_cast<To>(x);
  else if constexpr (std::is_integral_v<From>) return to == static_cast<To>(from);
  else if constexpr (std::is_same_v<From, boolean>) return to == static_cast<To>(from.bits);
  else {
    if (std::isnan(x)) return to == 0;
    const long double t = std::trunc(x), low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    return static_cast<long double>(to) == (t < low ? low : t > high ? high : t);
  }
}
template <class T> T pattern(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, boolean>) return {static_cast<std::uint8_t>(bits & 1)};
  T x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}
template <class From> From sample(std::mt19937_64& g) {
  if constexpr (std::is_floating_point_v<From>) {
    switch (g() % 4) {
      case 0: return pattern<From>(g());
      case 1: return static_cast<From>(static_cast<double>(static_cast<std::int64_t>(g() % 131072) - 65536) / 16);
      case 2: {  // near ties of the short formats
        const double d = static_cast<double>(
            decode(static_cast<unsigned>(g() & 0x7fff), g() & 1 ? 5 : 8, 10 - 3 * (g() & 1 ? 0 : 1)));
        return static_cast<From>(d * (1 + std::ldexp(static_cast<double>(g() % 9), -12)));
      }
      default:
        return static_cast<From>(
            std::ldexp(static_cast<double>(static_cast<std::int64_t>(g())), static_cast<int>(g() % 70) - 66));
    }
  }
  const std::uint64_t bits = g();
  return pattern<From>(g() % 3 == 0 ? static_cast<std::uint64_t>(static_cast<std::int64_t>(bits) >> (bits & 63))
                                    : bits);
}

template <class From, class To> void pair(element from, element to) {
  std::mt19937_64 g(11);
  const map_function f = casts()[static_cast<int>(from)][static_cast<int>(to)];
  BOOST_REQUIRE(f != nullptr);
  for (long n = 0; n < 70; ++n)
    for (unsigned steps = 0; steps < 2; ++steps) {
      buffer<From> in(static_cast<std::size_t>(n + 1), g() % 4);
      buffer<To> out(static_cast<std::size_t>(n), g() % 4);
      for (From& x : in) x = sample<From>(g);
      f(in.data(), nullptr, nullptr, out.data(), n, steps);
      bool good = out.guards_intact();
      for (std::size_t i = 0; i < out.size(); ++i) good = good && right(in[steps ? i : 0], out[i]);
      if (!good) BOOST_ERROR("cast " << static_cast<int>(from) << " to " << static_cast<int>(to) << " n " << n);
      if (!good) return;
    }
}
template <class From> void to_all(element from) {
  pair<From, float>(from, element::f32), pair<From, double>(from, element::f64), pair<From, f16>(from, element::f16);
  pair<From, bf16>(from, element::bf16), pair<From, std::int8_t>(from, element::i8),
      pair<From, std::int16_t>(from, element::i16);
  pair<From, std::int32_t>(from, element::i32), pair<From, std::int64_t>(from, element::i64);
  pair<From, std::uint8_t>(from, element::u8), pair<From, boolean>(from, element::boolean);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conversions)

BOOST_AUTO_TEST_CASE(every_pair) {
  to_all<float>(element::f32), to_all<double>(element::f64), to_all<f16>(element::f16), to_all<bf16>(element::bf16);
  to_all<std::int8_t>(element::i8), to_all<std::int16_t>(element::i16), to_all<std::int32_t>(element::i32);
  to_all<std::int64_t>(element::i64), to_all<std::uint8_t>(element::u8), to_all<boolean>(element::boolean);
}

BOOST_AUTO_TEST_CASE(all_short_floats) {
  std::vector<std::uint16_t> in(65536), back(65536);
  std::vector<float> wide(65536);
  for (std::size_t i = 0; i < in.size(); ++i) in[i] = static_cast<std::uint16_t>(i);
  for (const element e : {element::f16, element::bf16}) {
    casts()[static_cast<int>(e)][static_cast<int>(element::f32)](in.data(), nullptr, nullptr, wide.data(), 65536, 1);
    casts()[static_cast<int>(element::f32)][static_cast<int>(e)](wide.data(), nullptr, nullptr, back.data(), 65536, 1);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const long double v = e == element::f16 ? decode(in[i], 5, 10) : decode(in[i], 8, 7);
      if (std::isnan(v))
        BOOST_REQUIRE(std::isnan(wide[i]) &&
                      std::isnan(e == element::f16 ? decode(back[i], 5, 10) : decode(back[i], 8, 7)));
      else BOOST_REQUIRE(wide[i] == static_cast<float>(v) && back[i] == in[i]);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
