// Single-precision functions computed in double, as plain scalar code that the compiler vectorizes: one rounding at the
// end, and the same bits on every instruction set, because no operation is fused.
//
// The polynomials have a relative error of about 1e-10, far below half an ulp of a float.
#pragma once
#include <limits>

#include "simd.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace wide {

inline constexpr double pi = 0x1.921fb54442d18p+1, ln2 = 0x1.62e42fefa39efp-1;

template <int Count> LAMINA_INLINE double horner(const double (&coefficients)[Count], double x) {
  double sum = coefficients[Count - 1];
  LAMINA_UNROLL for (int i = Count - 2; i >= 0; --i) sum = sum * x + coefficients[i];
  return sum;
}

LAMINA_INLINE double absolute(double x) { return __builtin_fabs(x); }
LAMINA_INLINE double with_sign(double magnitude, double sign) { return __builtin_copysign(magnitude, sign); }

/// Natural logarithm; -inf at 0, NaN below.  Not for denormal numbers (no float is one).
LAMINA_INLINE double log(double x) {
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  constexpr std::uint64_t sqrt_half = 0x3fe6a09e667f3bcd, one = 0x3ff0000000000000, shift = 0x4330000000000000;
  const std::uint64_t biased = (bits + (one - sqrt_half)) >> 52;  // exponent + 1023, of m in [sqrt .5, sqrt 2)
  const double e = __builtin_bit_cast(double, biased | shift) - (0x1p52 + 1023);
  const double m = __builtin_bit_cast(double, bits - ((biased << 52) - one));
  const double f = m - 1, s = f / (2 + f), z = s * s;
  constexpr double c[] = {1. / 3, 1. / 5, 1. / 7, 1. / 9, 1. / 11, 1. / 13, 1. / 15};
  const double y = e * ln2 + (s + s + (s + s) * z * horner(c, z));
  const double outside = x == 0 ? -std::numeric_limits<double>::infinity() : x + x;  // +inf, NaN
  const double kept = x > 0 && x < std::numeric_limits<double>::infinity() ? y : outside;
  return x < 0 ? std::numeric_limits<double>::quiet_NaN() : kept;
}

/// e^x for |x| < 700.
LAMINA_INLINE double exp(double x) {
  constexpr double magic = 0x1.8p52, ln2_high = 0x1.62e42fep-1, ln2_low = 0x1.f473de6af278fp-30;
  const double t = x * (1 / ln2) + magic, n = t - magic, r = (x - n * ln2_high) - n * ln2_low;
  constexpr double c[] = {1, 1, 1. / 2, 1. / 6, 1. / 24, 1. / 120, 1. / 720, 1. / 5040, 1. / 40320, 1. / 362880};
  const double p = horner(c, r);
  return __builtin_bit_cast(double,
                            __builtin_bit_cast(std::uint64_t, p) + (__builtin_bit_cast(std::uint64_t, t) << 52));
}

/// Arc tangent.
LAMINA_INLINE double atan(double x) {
  const double a = absolute(x);
  const bool inverse = a > 1;
  const double b = inverse ? 1 / a : a;
  const bool shifted = b > 0x1.a827999fcef32p-2;  // tan(pi/8)
  const double u = shifted ? (b - 1) / (b + 1) : b, z = u * u;
  constexpr double c[] = {0x1.fffffffffe56dp-1, -0x1.5555554ba45bcp-2, 0x1.99999046d1e86p-3, -0x1.24909144ba082p-3,
                          0x1.c6cc2f2f6f999p-4, -0x1.7055c066509b3p-4, 0x1.1da9c35cc3322p-4, -0x1.34787b1b4ac83p-5};
  const double v = u * horner(c, z), w = shifted ? pi / 4 + v : v;
  return with_sign(inverse ? pi / 2 - w : w, x);
}
LAMINA_INLINE double asin(double x) { return atan(x / __builtin_sqrt((1 - x) * (1 + x))); }
LAMINA_INLINE double acos(double x) { return 2 * atan(__builtin_sqrt((1 - x) / (1 + x))); }
LAMINA_INLINE double acosh(double x) {
  const double y = log(x + __builtin_sqrt(x * x - 1));
  return x < 1 ? std::numeric_limits<double>::quiet_NaN() : y;
}
LAMINA_INLINE double asinh(double x) {
  const double a = absolute(x), y = log(a + __builtin_sqrt(a * a + 1));
  return with_sign(a < 0x1p-12 ? a - a * a * a * (1. / 6) : y, x);
}

/// Sine and cosine of x in [-pi/4, pi/4].
struct sine_cosine {
  double sine, cosine;
};
LAMINA_INLINE sine_cosine sine_cosine_small(double x) {
  const double z = x * x;
  constexpr double s[] = {-1. / 6, 1. / 120, -1. / 5040, 1. / 362880, -1. / 39916800};
  constexpr double c[] = {1, -1. / 2, 1. / 24, -1. / 720, 1. / 40320, -1. / 3628800, 1. / 479001600};
  return {x * (1 + z * horner(s, z)), horner(c, z)};  // keeps -0
}
/// Number of quarter turns (pi / 2) in x, |x| <= sine_limit, and the remainder.
inline constexpr float sine_limit = 0x1p19f;
struct quarter {
  double rest;
  std::uint64_t count;
};
LAMINA_INLINE quarter quarter_turns(double x) {
  constexpr double magic = 0x1.8p52, high = 0x1.921fb544p0, low = 0x1.0b4611a626331p-34;
  const double t = x * (2 / pi) + magic, n = t - magic;
  return {(x - n * high) - n * low, __builtin_bit_cast(std::uint64_t, t)};
}
LAMINA_INLINE double sine(double x) {
  const quarter q = quarter_turns(x);
  const sine_cosine r = sine_cosine_small(q.rest);
  const double y = q.count & 1 ? r.cosine : r.sine;
  return q.count & 2 ? -y : y;
}
LAMINA_INLINE double cosine(double x) {
  const quarter q = quarter_turns(x);
  const sine_cosine r = sine_cosine_small(q.rest);
  const double y = q.count & 1 ? r.sine : r.cosine;
  return (q.count + 1) & 2 ? -y : y;
}
LAMINA_INLINE double tangent(double x) {
  const quarter q = quarter_turns(x);
  const sine_cosine r = sine_cosine_small(q.rest);
  return q.count & 1 ? -r.cosine / r.sine : r.sine / r.cosine;
}

/// e^x with x clamped to +-200, far outside the range of float; NaN stays.
LAMINA_INLINE double exp_held(double x) { return exp(x < -200 ? -200. : x > 200 ? 200. : x); }
LAMINA_INLINE double sinh(double x) {
  const double a = absolute(x), e = exp_held(a);
  return with_sign(a < 0x1p-10 ? a + a * a * a * (1. / 6) : (e - 1 / e) * .5, x);
}
LAMINA_INLINE double cosh(double x) {
  const double e = exp_held(absolute(x));
  return (e + 1 / e) * .5;
}
LAMINA_INLINE double atanh(double x) {
  const double a = absolute(x), y = log((1 + a) / (1 - a)) * .5;
  return with_sign(a < 0x1p-12 ? a + a * a * a * (1. / 3) : a > 1 ? std::numeric_limits<double>::quiet_NaN() : y, x);
}
/// x Phi(x), as max(x, 0) - t Phi(-t) with t = |x|; Phi(-t) e^(t^2 / 2) (t + 4) is a polynomial of (t - 4) / (t + 4).
LAMINA_INLINE double gelu(double x) {
  const double a = absolute(x), t = a > 15 ? 15. : a, w = 1 / (t + 4);
  constexpr double c[] = {0x1.82b4bb8df2749p-1,  -0x1.373e3a8263384p-1,  0x1.8c6dbdbcaba06p-2,   -0x1.7dff303838607p-3,
                          0x1.eec5bdedf24edp-5,  -0x1.ee1f51dacb66fp-8,  -0x1.c88668dc3cfd5p-9,  0x1.aa8da3663a8c8p-10,
                          0x1.2cd88263da855p-13, -0x1.c9482218ccb7fp-13, -0x1.aa5b3093d3468p-17, 0x1.12fbd64d31b57p-16};
  const double tail = t * w * horner(c, (t - 4) * w) * exp(t * t * -.5);
  return with_sign((x <= 0 ? 0. : x) - tail, x);
}
/// x sigmoid(sqrt(8 / pi) (x + 0.044715 x^3)).
LAMINA_INLINE double gelu_tanh(double x) {
  const double held = x < -11 ? -11. : x, t = held > 11 ? 11. : held;
  return held / (1 + exp(-t * (t * t * 0x1.2444f2a4d8b4bp-4 + 0x1.9884533d43651p0)));
}

}  // namespace wide
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
