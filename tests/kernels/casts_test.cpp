// Conversions between all element types against references that round once.
#include "kernel_test.h"

#include <string>

using namespace lamina::kernels;
using kernel_test::buffer;

namespace {

const cast_table& casts() { return *map_cast_of(kernel_test::tested()).casts; }
struct f16 {
  std::uint16_t bits;
};
struct bf16 {
  std::uint16_t bits;
};
struct boolean {
  std::uint8_t bits;
};

/// A format of at most 8 bits: magnitudes 0..Numbers-1 are finite, the next is infinity if there is one, the rest NaN.
template <int Exponent, int Mantissa, int Bias, int Numbers, bool Infinity, bool No_minus> struct small {
  std::uint8_t bits;
  static constexpr int sign = 1 << (Exponent + Mantissa);
  static long double magnitude(int m) {
    const int e = m >> Mantissa, fraction = m & ((1 << Mantissa) - 1);
    return e == 0 ? std::ldexp(static_cast<long double>(fraction), 1 - Bias - Mantissa)
                  : std::ldexp(static_cast<long double>(fraction + (1 << Mantissa)), e - Bias - Mantissa);
  }
  long double number() const {
    const int m = bits & (sign - 1);
    const bool minus = (bits & sign) != 0;
    if ((No_minus && minus && m == 0) || (m >= Numbers && !(Infinity && m == Numbers)))
      return std::numeric_limits<long double>::quiet_NaN();
    const long double v = m == Numbers ? std::numeric_limits<long double>::infinity() : magnitude(m);
    return minus ? -v : v;
  }
  /// Whether this is the correct conversion of x.
  bool right(long double x, bool saturate) const {
    const long double y = number();
    if (std::isnan(x)) return std::isnan(y) || (Numbers == sign && !No_minus && y == 0);
    const long double a = std::fabs(x), last = magnitude(Numbers - 1), step = last - magnitude(Numbers - 2);
    long double want = last;
    if (a > last + step / 2 || (a == last + step / 2 && Numbers % 2 == 0)) {
      if (!saturate && !Infinity) return std::isnan(y);
      if (!saturate) want = std::numeric_limits<long double>::infinity();
    } else {
      int m = 0;  // the largest magnitude that is at most a
      while (m + 1 < Numbers && magnitude(m + 1) <= a) ++m;
      const long double below = a - magnitude(m), above = m + 1 < Numbers ? magnitude(m + 1) - a : 1e30L;
      want = magnitude(above < below || (above == below && m % 2 == 1) ? m + 1 : m);
    }
    return y == (std::signbit(x) ? -want : want) && (No_minus || y != 0 || std::signbit(y) == std::signbit(x));
  }
};
using e4m3fn = small<4, 3, 7, 0x7f, false, false>;
using e4m3fnuz = small<4, 3, 8, 0x80, false, true>;
using e5m2 = small<5, 2, 15, 0x7c, true, false>;
using e5m2fnuz = small<5, 2, 16, 0x80, false, true>;
using e2m1 = small<2, 1, 1, 8, false, false>;
struct power {
  std::uint8_t bits;
  long double number() const {
    return bits == 255 ? std::numeric_limits<long double>::quiet_NaN() : std::ldexp(1.0L, bits - 127);
  }
  bool right(long double x, bool saturate, power_rounding rounding) const {
    if (std::isnan(x) || x < 0) return bits == 255;
    if (x < std::ldexp(1.0L, -127)) return bits == (saturate ? 0 : 255);
    int e = 0;
    if (std::isinf(x)) e = 500;
    else {
      const long double fraction = std::frexp(x, &e);  // in [0.5, 1)
      --e;
      if (rounding == power_rounding::up ? fraction > 0.5L : rounding == power_rounding::nearest && fraction >= 0.75L)
        ++e;
    }
    return bits == (e <= 127 ? e + 127 : saturate ? 254 : 255);
  }
};
template <int Bits, class Byte> struct few {
  Byte v;
  static Byte of(std::uint64_t x) {
    const auto low = static_cast<int>(x % (1u << Bits));
    return static_cast<Byte>(std::is_signed_v<Byte> && low >= 1 << (Bits - 1) ? low - (1 << Bits) : low);
  }
};
using i4 = few<4, std::int8_t>;
using u4 = few<4, std::uint8_t>;
using i2 = few<2, std::int8_t>;
using u2 = few<2, std::uint8_t>;
template <class T> constexpr bool is_few = requires(T x) { x.v; };
template <class T> constexpr bool is_small = requires(T x) { T::sign; };

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
  const int scale = std::max(e - 1, 1 - bias) - mantissa;  // exponent of the least significant bit
  const auto m = static_cast<unsigned>(std::nearbyint(std::ldexp(a, -scale)));
  const unsigned bits = m + (static_cast<unsigned>(scale + mantissa + bias - 1) << mantissa);
  return sign | (bits < top ? bits : top);
}

template <class T> long double number(T x) {
  if constexpr (std::is_same_v<T, f16>) return decode(x.bits, 5, 10);
  else if constexpr (std::is_same_v<T, bf16>) return decode(x.bits, 8, 7);
  else if constexpr (std::is_same_v<T, boolean>) return x.bits;
  else if constexpr (is_few<T>) return x.v;
  else if constexpr (is_small<T> || std::is_same_v<T, power>) return x.number();
  else return static_cast<long double>(x);
}
template <class To, class From>
bool right(From from, To to, bool saturate = true, power_rounding rounding = power_rounding::up) {
  const long double x = number(from);
  if constexpr (std::is_same_v<From, To>) return std::memcmp(&from, &to, sizeof to) == 0;
  else if constexpr (is_small<To>) return to.right(x, saturate);
  else if constexpr (std::is_same_v<To, power>) return to.right(x, saturate, rounding);
  else if constexpr (is_few<To>) {  // toward zero, saturated as int64, then the low bits
    if constexpr (std::is_same_v<From, std::uint64_t>) return to.v == To::of(from);
    if (std::isnan(x)) return to.v == 0;
    const long double low = -0x1p63L, high = 0x1p63L;
    const std::int64_t whole = x >= high ? std::numeric_limits<std::int64_t>::max()
                               : x < low ? std::numeric_limits<std::int64_t>::min()
                                         : static_cast<std::int64_t>(x);
    return to.v == To::of(static_cast<std::uint64_t>(whole));
  } else if constexpr (std::is_same_v<To, boolean>) return to.bits == (x != 0 ? 1 : 0);
  else if constexpr (std::is_same_v<To, f16>)
    return std::isnan(x) ? std::isnan(number(to)) : to.bits == encode(x, 5, 10);
  else if constexpr (std::is_same_v<To, bf16>)
    return std::isnan(x) ? std::isnan(number(to)) : to.bits == encode(x, 8, 7);
  else if constexpr (std::is_floating_point_v<To>) return std::isnan(x) ? std::isnan(to) : to == static_cast<To>(x);
  else if constexpr (std::is_integral_v<From>) return to == static_cast<To>(from);
  else if constexpr (std::is_same_v<From, boolean>) return to == static_cast<To>(from.bits);
  else if constexpr (is_few<From>) return to == static_cast<To>(from.v);
  else {
    if (std::isnan(x)) return to == 0;
    const long double t = std::trunc(x), low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
    return static_cast<long double>(to) == (t < low ? low : t > high ? high : t);
  }
}
template <class T> T pattern(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, boolean>) return {static_cast<std::uint8_t>(bits & 1)};
  else if constexpr (is_few<T>) return {T::of(bits)};
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

/// A direct conversion, or the two that it consists of.
struct conversion {
  map_function first, second = nullptr;
  conversion(element from, int column, element to) : first(casts()[static_cast<int>(from)][column]) {
    BOOST_REQUIRE((first != nullptr) == casts_at_once(from, to));
    if (first != nullptr) return;
    const int between = static_cast<int>(cast_between(from, to));
    first = casts()[static_cast<int>(from)][between];
    second = casts()[between][column];
    BOOST_REQUIRE(first != nullptr && second != nullptr);
  }
  void operator()(const void* in, void* out, long n, unsigned steps) const {
    if (second == nullptr) return first(in, nullptr, nullptr, out, n, steps);
    std::vector<std::uint64_t> numbers(static_cast<std::size_t>(n) + 1);
    first(in, nullptr, nullptr, numbers.data(), n, steps);
    second(numbers.data(), nullptr, nullptr, out, n, 1);
  }
};
template <class From, class To>
void pair(element from, element to, bool saturate = true, power_rounding rounding = power_rounding::up) {
  std::mt19937_64 g(11);
  const conversion f(from, cast_column(to, saturate, rounding), to);
  for (long n = 0; n < 70; ++n)
    for (unsigned steps = 0; steps < 2; ++steps) {
      buffer<From> in(static_cast<std::size_t>(n + 1), g() % 4);
      buffer<To> out(static_cast<std::size_t>(n), g() % 4);
      for (From& x : in) x = sample<From>(g);
      f(in.data(), out.data(), n, steps);
      bool good = out.guards_intact();
      for (std::size_t i = 0; i < out.size(); ++i) good = good && right(in[steps ? i : 0], out[i], saturate, rounding);
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
  pair<From, std::uint16_t>(from, element::u16), pair<From, std::uint32_t>(from, element::u32);
  pair<From, std::uint64_t>(from, element::u64);
  for (const bool saturate : {true, false}) {
    pair<From, e4m3fn>(from, element::e4m3fn, saturate), pair<From, e4m3fnuz>(from, element::e4m3fnuz, saturate);
    pair<From, e5m2>(from, element::e5m2, saturate), pair<From, e5m2fnuz>(from, element::e5m2fnuz, saturate);
    for (const auto rounding : {power_rounding::up, power_rounding::down, power_rounding::nearest})
      pair<From, power>(from, element::e8m0, saturate, rounding);
  }
  pair<From, e2m1>(from, element::e2m1);
  pair<From, i4>(from, element::i4), pair<From, u4>(from, element::u4);
  pair<From, i2>(from, element::i2), pair<From, u2>(from, element::u2);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(conversions)

BOOST_AUTO_TEST_CASE(every_pair) {
  to_all<float>(element::f32), to_all<double>(element::f64), to_all<f16>(element::f16), to_all<bf16>(element::bf16);
  to_all<std::int8_t>(element::i8), to_all<std::int16_t>(element::i16), to_all<std::int32_t>(element::i32);
  to_all<std::int64_t>(element::i64), to_all<std::uint8_t>(element::u8), to_all<boolean>(element::boolean);
}
BOOST_AUTO_TEST_CASE(every_pair_from_a_stored_type) {
  to_all<std::uint16_t>(element::u16), to_all<std::uint32_t>(element::u32), to_all<std::uint64_t>(element::u64);
  to_all<e4m3fn>(element::e4m3fn), to_all<e4m3fnuz>(element::e4m3fnuz), to_all<e5m2>(element::e5m2);
  to_all<e5m2fnuz>(element::e5m2fnuz), to_all<power>(element::e8m0), to_all<e2m1>(element::e2m1);
  to_all<i4>(element::i4), to_all<u4>(element::u4), to_all<i2>(element::i2), to_all<u2>(element::u2);
}
BOOST_AUTO_TEST_CASE(numbers_beside_ties_round_once) {
  // Doubles and 64-bit integers next to the midpoint of two numbers of a short format.
  std::vector<double> near;
  for (int m = 0; m < 0x7f; ++m) {
    const auto middle = static_cast<double>((e4m3fn::magnitude(m) + e4m3fn::magnitude(m + 1)) / 2);
    for (const double x : {middle, std::nextafter(middle, 0.0), std::nextafter(middle, 1e9)}) near.push_back(x);
  }
  std::vector<e4m3fn> out(near.size());
  conversion(element::f64, static_cast<int>(element::e4m3fn), element::e4m3fn)(near.data(), out.data(),
                                                                               static_cast<long>(near.size()), 1);
  for (std::size_t i = 0; i < near.size(); ++i) BOOST_REQUIRE(right(near[i], out[i]));
  std::vector<std::uint64_t> large;
  for (int e = 25; e < 64; ++e)
    for (const std::uint64_t odd : {3u, 5u, 17u, 25u})
      for (const std::int64_t beside : {-1, 0, 1})
        large.push_back((odd << (e - 5)) + static_cast<std::uint64_t>(beside));
  std::vector<float> wide(large.size());
  std::vector<e5m2> narrow(large.size());
  std::vector<f16> halves(large.size());
  const auto n = static_cast<long>(large.size());
  conversion(element::u64, static_cast<int>(element::f32), element::f32)(large.data(), wide.data(), n, 1);
  conversion(element::u64, static_cast<int>(element::e5m2), element::e5m2)(large.data(), narrow.data(), n, 1);
  conversion(element::u64, static_cast<int>(element::f16), element::f16)(large.data(), halves.data(), n, 1);
  for (std::size_t i = 0; i < large.size(); ++i)
    BOOST_REQUIRE(right(large[i], wide[i]) && right(large[i], narrow[i]) && right(large[i], halves[i]));
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
