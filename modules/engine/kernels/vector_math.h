// Single-precision functions on registers.  Range reduction and tables follow one recipe: round to a multiple of a
// power of two by adding a large constant, subtract ln 2 times that in two parts, polynomial in the remainder.
//
// Each lane depends only on itself.  All functions propagate NaN: min and max return their second operand if one is
// NaN, so x comes second.
#pragma once
#include <limits>

#include "simd.h"
#include "vector_math_tables.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

using vf = vec<float>;
using vi = vec<std::int32_t>;

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float log2_e = 0x1.715476p0f, ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f;

LAMINA_INLINE vi bits_of(vf x) { return bits_as<std::int32_t>(x); }
LAMINA_INLINE vf float_of(vi x) { return bits_as<float>(x); }

/// coefficients[0] + coefficients[1] x + ...
template <int Count> LAMINA_INLINE vf horner(const float (&coefficients)[Count], vf x) {
  vf sum(coefficients[Count - 1]);
  LAMINA_UNROLL for (int i = Count - 2; i >= 0; --i) sum = fma(sum, x, vf(coefficients[i]));
  return sum;
}
/// x - n ln 2, n an integer or a multiple of a small power of two; the first product is exact.
LAMINA_INLINE vf less_ln2(vf x, vf n) { return fma(n, vf(-ln2_low), fma(n, vf(-ln2_high), x)); }

/// low: shorter dependency chains at a few ulp more error, for callers that wait for each result.
enum class latency { normal, low };

#if defined(__AVX512F__)
LAMINA_INLINE vf lookup(const float (&table)[16], vi i) {
  return vf(_mm512_permutexvar_ps(i.data, _mm512_load_ps(table)));
}
LAMINA_INLINE vf lookup(const float (&table)[32], vi i) {
  return vf(_mm512_permutex2var_ps(_mm512_load_ps(table), i.data, _mm512_load_ps(table + 16)));
}
/// One of 32 polynomials of degree five, selected by a in [0, 15).
LAMINA_INLINE vf piecewise(const float (&pieces)[7][32], vf a) {
  const vi i = bits_of(a + vf(1.f)) >> 20;
  const vf y = a - lookup(pieces[0], i);
  vf sum = lookup(pieces[6], i);
  LAMINA_UNROLL for (int d = 5; d >= 1; --d) sum = fma(sum, y, lookup(pieces[d], i));
  return sum;
}
/// tanh with a short dependency chain: a polynomial around the nearest multiple of 1/4, which needs no lookup itself.
LAMINA_INLINE vf quick_tanh(vf x) {
  const vf quarters(0x1.8p21f);  // ulp of 1/4
  const vf bounded = xsimd::min(vf(7.8749995f), xsimd::abs(x)), nearest = bounded + quarters;
  const vi i = bits_of(nearest);
  const vf y = bounded - (nearest - quarters), square = y * y;
  const auto pair = [&](int d) __attribute__((always_inline)) {
    return fma(lookup(quick_tanh_pieces[d + 1], i), y, lookup(quick_tanh_pieces[d], i));
  };
  return fma(fma(pair(4), square, pair(2)), square, pair(0)) | xsimd::bitofsign(x);
}
#elif defined(__AVX2__)
LAMINA_INLINE vf lookup(const float (&table)[8], vi i) {
  return vf(_mm256_permutevar8x32_ps(_mm256_load_ps(table), i.data));
}
/// One of 8 polynomials of degree seven, selected by a in [0, 15 / scale). Plus a in the first interval, whose center is
/// 0: then there, too, only the last rounding matters. `border` is between that interval and the value of the next one.
LAMINA_INLINE vf piecewise(const float (&pieces)[9][8], vf a, float scale, float border) {
  const vi i = bits_of(fma(a, vf(scale), vf(1.f))) >> 22;
  const vf y = a - lookup(pieces[0], i);
  vf sum = lookup(pieces[8], i);
  LAMINA_UNROLL for (int d = 7; d >= 2; --d) sum = fma(sum, y, lookup(pieces[d], i));
  return fma(sum, y, xsimd::max(lookup(pieces[1], i), xsimd::min(vf(border), a)));
}
#endif

/// 2^n for n within -126..127.
LAMINA_INLINE vf power_of_two(vi n) { return float_of((n << 23) + vi(0x3f800000)); }

#if defined(__AVX2__) && !defined(__AVX512F__)
/// b if the sign bit of x is set, else a.
LAMINA_INLINE vf by_sign(vf x, vf a, vf b) { return vf(_mm256_blendv_ps(a.data, b.data, x.data)); }
#endif

/// Identity adjustment of the reduced argument of `exp_bounded`.
struct as_is {
  LAMINA_INLINE vf operator()(vf r) const { return r; }
};
/// Adds the low part of the argument.
struct plus {
  vf low;
  LAMINA_INLINE vf operator()(vf r) const { return r + low; }
};
/// Accuracy of e^x: within 1.14 ulp or, with one more step, within 0.93 ulp.
enum class digits { enough, more };

/// 2^Added e^x = 2^n base (1 + p).
struct exp_terms {
  vf base, p;
#if defined(__AVX512F__)
  vf n;  // floor(n) counts
#else
  vi n;  // in the low bits, to shift into the exponent; on AVX2 in eighths, whose fraction `base` compensates
#endif
};
/// `Added` enters n before its conversion to integer, so that the exponent bias is free; 0 on AVX-512 with scalef.
template <digits Digits, int Added, class Adjust = as_is>
LAMINA_INLINE exp_terms exp_reduced(vf x, Adjust adjust = {}) {
#if defined(__AVX512F__)
  static_assert(Added == 0);
  const vf magic(0x1.8p19f), t = fma(x, vf(log2_e), magic), n = t - magic, r = adjust(less_ln2(x, n));
  vf first = r;
  if constexpr (Digits == digits::more) first = r + lookup(exp2_sixteenths_lost, bits_of(t));
  const vf p = fma(r * r, fma(r, vf(0.166667163372039794921875f), vf(0.500016152858734130859375f)), first);
  return {lookup(exp2_sixteenths, bits_of(t)), p, n};
#elif defined(__AVX2__)
  const vf magic(0x1.8p20f + Added), t = fma(x, vf(log2_e), magic), multiple = t - magic;
  const vf r = adjust(less_ln2(x, multiple));
  const vi i = bits_of(t);
  vf q = fma(r, vf(0.16666860878467559814453125f), vf(0.50006449222564697265625f));
  if constexpr (Digits == digits::more) q = fma(r, fma(r, vf(0.04166927f), vf(0.1666784f)), vf(0.5f));
  return {lookup(exp2_eighths_less, i), fma(r * r, q, r), i};
#else
  const vf magic(0x1.8p23f + Added), t = fma(x, vf(log2_e), magic), n = t - magic, r = adjust(less_ln2(x, n));
  constexpr float q[] = {0.4999999105930328369140625f, 0.16666521131992340087890625f, 4.16689626872539520263671875e-2f,
                         8.368670940399169921875e-3f, 1.378247863613069057464599609375e-3f};
  return {vf(1.f), r + r * r * horner(q, r), bits_of(t)};
#endif
}

/// Precondition of `exp_bounded`: x is NaN or within [-110, 100], [-110, 0], or [-87, 88].
enum class exp_range { whole, nonpositive, normal };
/// e^x for x within `Range`.
template <exp_range Range, digits Digits = digits::enough, class Adjust = as_is>
LAMINA_INLINE vf exp_bounded(vf x, Adjust adjust = {}) {
#if defined(__AVX512F__)
  const exp_terms t = exp_reduced<Digits, 0>(x, adjust);
  return vf(_mm512_scalef_ps(fma(t.base, t.p, t.base).data, t.n.data));
#elif defined(__AVX2__)
  // n is added to the exponent of the table value, not of the result, which may be NaN.  Results that may overflow or
  // be denormal are computed shifted and multiplied by 2^64 or 2^-64 at the end: one rounding.
  constexpr int raise = Range == exp_range::normal ? 0 : Range == exp_range::nonpositive ? 64 : 127;
  const exp_terms t = exp_reduced<Digits, raise>(x, adjust);
  const vi bits = bits_of(t.base) + (t.n << 20);
  if constexpr (Range == exp_range::normal) return fma(float_of(bits), t.p, float_of(bits));
  if constexpr (Range == exp_range::nonpositive) return fma(float_of(bits), t.p, float_of(bits)) * vf(0x1p-64f);
  const vf scale = by_sign(x, vf(0x1p64f), vf(0x1p-64f)), base = float_of(bits - bits_of(scale));
  return fma(base, t.p, base) * scale;
#else
  constexpr int raise = Range == exp_range::normal ? 127 : Range == exp_range::nonpositive ? 127 + 64 : 254;
  const exp_terms t = exp_reduced<Digits, raise>(x, adjust);
  const vf y = t.base + t.p;
  if constexpr (Range == exp_range::normal) return y * float_of(t.n << 23);
  if constexpr (Range == exp_range::nonpositive) return y * float_of(t.n << 23) * vf(0x1p-64f);
  const vi half = t.n >> 1;
  return y * float_of(half << 23) * float_of((t.n - half) << 23);
#endif
}

/// 2^32 e^x for x within [lowest, 0] or NaN, for products such as x e^x that are normal although e^x may be denormal.
/// lowest * e^lowest rounds to 0.
inline constexpr float raised = 0x1p32f, lowered = 0x1p-32f, lowest = -109.4f;
template <class Adjust = as_is> LAMINA_INLINE vf exp_raised(vf x, Adjust adjust = {}) {
#if defined(__AVX512F__)
  const exp_terms t = exp_reduced<digits::enough, 0>(x, adjust);
  return vf(_mm512_scalef_ps(fma(t.base, t.p, t.base).data, (t.n + vf(32.f)).data));
#elif defined(__AVX2__)
  const exp_terms t = exp_reduced<digits::enough, 32>(x, adjust);
  const vf base = float_of(bits_of(t.base) + (t.n << 20));
  return fma(base, t.p, base);
#else
  const exp_terms t = exp_reduced<digits::enough, 127 + 32>(x, adjust);
  return (t.base + t.p) * float_of(t.n << 23);
#endif
}

#if defined(__AVX512F__)
inline constexpr digits exp_digits = digits::enough;  // its table is finer
#else
inline constexpr digits exp_digits = digits::more;
#endif
/// e^x; overflows to infinity, underflows gradually to 0.
LAMINA_INLINE vf exp(vf x) { return exp_bounded<exp_range::whole, exp_digits>(clamp(x, vf(-110.f), vf(100.f))); }
/// The same for x <= 0 or NaN.
LAMINA_INLINE vf exp_nonpositive(vf x) {
  return exp_bounded<exp_range::nonpositive, exp_digits>(xsimd::max(vf(-110.f), x));
}

#if !defined(__AVX512F__)
/// tanh with a short dependency chain: x times a rational function of x^2.
LAMINA_INLINE vf quick_tanh(vf x) {
  constexpr float p[] = {1.f, 0x1.12b40ap-3f, 0x1.cf3634p-9f, 0x1.648868p-16f, 0x1.ea4926p-27f};
  constexpr float q[] = {0x1.000002p+0f, 0x1.deaf54p-2f, 0x1.aa5b4cp-6f, 0x1.5f2754p-12f, 0x1.b54992p-21f};
  const vf a = clamp(x, vf(-8.5f), vf(8.5f)), square = a * a;
  return quotient(a * horner(p, square), horner(q, square));
}
#endif

/// Hyperbolic tangent; with low latency the error is below 3.5e-7.
template <latency Latency = latency::normal> LAMINA_INLINE vf tanh(vf x) {
  if constexpr (Latency == latency::low) return quick_tanh(x);
  const vf a = xsimd::min(vf(9.05f), xsimd::abs(x));
#if defined(__AVX512F__)
  const vf y = piecewise(tanh_pieces, a);
#elif defined(__AVX2__)
  const vf y = piecewise(tanh_pieces_of_8, a, 1.65f, .35f);
#else
  // x + x^3 q(x^2) for small x, else 1 - 2 / (e^2x + 1)
  constexpr float q[] = {-0x1.55553cp-2f, 0x1.110be4p-3f, -0x1.b9623ap-5f, 0x1.6009b6p-6f,
                         -0x1.0460dap-7f, 0x1.2da72cp-9f, -0x1.77ed34p-12f};
#ifdef LAMINA_FUSED
  const vf border(1.f);
#else
  const vf border(0.85f);  // above, the polynomial has more rounding error than the quotient
#endif
  const vf s = a * a, low = fma(a, s * horner(q, s), a);
  const vf high = vf(1.f) - quotient(vf(2.f), exp_bounded<exp_range::normal, digits::more>(a + a) + vf(1.f));
  const vf y = xsimd::select(a > border, high, low);
#endif
  return y | xsimd::bitofsign(x);
}

/// 1 / (1 + e^-x), accurate in both tails; with low latency the error is below 2.4e-7.
template <latency Latency = latency::normal> LAMINA_INLINE vf sigmoid(vf x) {
  if constexpr (Latency == latency::low) return fma(tanh<latency::low>(x * vf(.5f)), vf(.5f), vf(.5f));
  // e - e (e / (1 + e)) below 0, 1 - e / (1 + e) above: scales the rounding errors of sum and quotient by e
  const vf one(1.f), e = exp_bounded<exp_range::nonpositive, digits::more>(xsimd::max(vf(-110.f), -xsimd::abs(x)));
  const vf top = xsimd::select(x < vf(0.f), e, one);
  return fma(-quotient(e, one + e), top, top);
}

/// The error function.
LAMINA_INLINE vf erf(vf x) {
  const vf a = xsimd::min(vf(4.f), xsimd::abs(x));
#if defined(__AVX512F__)
  const vf y = xsimd::min(vf(1.f), piecewise(erf_pieces, a));
#elif defined(__AVX2__)
  const vf y = xsimd::min(vf(1.f), piecewise(erf_pieces_of_8, a, 3.4f, .2f));
#else
  // x + x p(x^2) for small x, else 1 - exp(log erfc)
  constexpr float p[] = {0x1.06eba8p-3f, -0x1.812744p-2f,  0x1.ce2e5cp-4f, -0x1.b815ccp-6f,
                         0x1.55107p-8f,  -0x1.acd92ap-11f, 0x1.65bfcp-14f};
  constexpr float q[] = {-0x1.d97fcp0f,   -0x1.51c9bp1f,   -0x1.afab86p-1f,  -0x1.5494dap-5f, 0x1.4a38d2p-7f,
                         -0x1.0d4af2p-9f, 0x1.5002aep-12f, -0x1.14fc84p-15f, 0x1.b90e7ap-20f};
  const vf low = fma(a, horner(p, a * a), a);
  const vf high = vf(1.f) - exp_bounded<exp_range::normal>(horner(q, a - vf(1.f)));
  const vf y = xsimd::select(a > vf(0.9f), high, low);
#endif
  return y | xsimd::bitofsign(x);
}

/// Natural logarithm; -inf at 0, NaN below.
LAMINA_INLINE vf log(vf x) {
#if defined(__AVX512F__)
  const vf m(_mm512_getmant_ps(x.data, _MM_MANT_NORM_p75_1p5, _MM_MANT_SIGN_nan));
  const auto below = _mm512_cmp_ps_mask(m.data, _mm512_set1_ps(1.f), _CMP_LT_OS);
  const vf whole(_mm512_getexp_ps(x.data));
  const vf e(_mm512_mask_add_ps(whole.data, below, whole.data, _mm512_set1_ps(1.f)));
  const vi i = bits_of(m) >> 19;
  const vf r = fma(m, lookup(log_inverse, i), vf(-1.f));
  const vf low = fma(r * r, horner(log_polynomial, r), e * vf(ln2_low));
  return fma(e, vf(ln2_high), lookup(log_value, i)) + (r + low);
#else
  const auto tiny = x < vf(std::numeric_limits<float>::min());
  const vi b = bits_of(xsimd::select(tiny, x * vf(0x1p25f), x));
  const vi e = (b - vi(0x3f400000)) >> 23;
  const vf f = float_of(b - (e << 23)) - vf(1.f);
  const vf n = xsimd::to_float(e) - xsimd::select(tiny, vf(25.f), vf(0.f));
  constexpr float c[] = {0.333333313465118408203125f,    -0.2500005066394805908203125f, 0.2000042498111724853515625f,
                         -0.16661651432514190673828125f, 0.14259462058544158935546875f, -0.1260866820812225341796875f,
                         0.117389298975467681884765625f, -9.875146299600601196289e-2f,  4.58654947578907012939453e-2f};
  const vf f2 = f * f;
  vf y = fma(f2 * f, horner(c, f), n * vf(ln2_low));
  y = fma(n, vf(ln2_high), f + fma(f2, vf(-.5f), y));
  y = xsimd::select(x < vf(infinity), y, x);  // +inf and NaN stay
  const vf none = xsimd::select(x < vf(0.f), vf(std::numeric_limits<float>::quiet_NaN()), vf(-infinity));
  return xsimd::select(x <= vf(0.f), none, y);
#endif
}

/// e^x - 1, without loss for small x.
LAMINA_INLINE vf expm1(vf x) {
  const vf b = clamp(x, vf(-30.f), vf(89.f)), magic(0x1.8p23f), t = fma(b, vf(log2_e), magic), n = t - magic;
  const vf r = less_ln2(b, n);
  constexpr float q[] = {0.5f, 0x1.555554p-3f, 0x1.5554aap-5f, 0x1.11118ep-7f, 0x1.6d78dp-10f, 0x1.a032d2p-13f};
  const vf p = fma(r * r, horner(q, r), r);
  // computes half of the result, because 2^128 overflows
  const vf half = power_of_two(bits_of(t) - bits_of(magic) - vi(1)), y = fma(half, p, half - vf(.5f)) * vf(2.f);
  return xsimd::select(n == vf(0.f), p | xsimd::bitofsign(x), y);  // keeps -0 and tiny numbers
}

/// log(1 + x); -inf at -1, NaN below.
LAMINA_INLINE vf log1p(vf x) {
  const vf u = vf(1.f) + x, lost = x - (u - vf(1.f));
  const vf y = kernels::log(u) + quotient(vf(xsimd::select(u > vf(0.f), lost, vf(0.f))), u);
  return xsimd::select((u == vf(1.f)) | (x == vf(infinity)), x, xsimd::select(u == vf(0.f), vf(-infinity), y));
}

}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
