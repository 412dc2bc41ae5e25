// The micro-operations: one list of names, which generates the enum, the function tables and the steps of register
// chains, and, for kernels, the computation on an element or a register. `map.h` applies them to arrays,
// `register_chain.h` to registers.
#pragma once
#include "kernels.h"

/// Each name is an operation and a struct below. Comparisons and logic write bool; `clamp` takes (x, low, high).
// clang-format off
#define LAMINA_MICRO_OPERATIONS(X)                                                                                     \
  X(negate) X(abs) X(sign) X(square) X(sqrt) X(reciprocal) X(exp) X(log) X(sin) X(cos) X(tan) X(asin) X(acos) X(atan)  \
  X(tanh) X(asinh) X(acosh) X(sigmoid) X(relu) X(erf) X(expm1) X(log1p) X(sinh) X(cosh) X(atanh) X(softplus) X(gelu)   \
  X(gelu_tanh) X(silu) X(mish) X(softsign) X(hard_swish) X(floor) X(ceil) X(round) X(logical_not)                      \
  X(add) X(subtract) X(multiply) X(divide) X(minimum) X(maximum) X(pow) X(mod) X(fmod) X(prelu)                        \
  X(bit_and) X(bit_or) X(bit_xor) X(shift_left) X(shift_right)                                                         \
  X(equal) X(not_equal) X(less) X(less_equal) X(greater) X(greater_equal) X(logical_and) X(logical_or) X(logical_xor)  \
  X(clamp)
// clang-format on

#if defined(LAMINA_KERNEL_SET)
#include "double_math.h"
#include "storage.h"
#include "vector_math.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {

/// Whether `Op::run` has exactly these types.
template <class Op, class Result, class... T>
concept Runs = requires { static_cast<Result (*)(T...)>(&Op::run); };

// A struct has a `run` for each supported operand type: T is an element or, if operators suffice, `many<T>`, a compiler
// vector; `vf` is a register of floats. With `vf` or `many<T>` it can be a step of a register chain. A struct with
// `plain`, `fast` and `slow` processes tiles of floats: `fast` for all, then `slow` for elements that are not `plain`.
namespace micro {

/// Floating-point: float, double and registers of them.
template <class T>
concept Real = is_float<T> || same<T, many<float>> || same<T, many<double>>;
template <class T>
concept Number = Real<T> || is_integer<T>;
template <class T>
concept Word = is_integer<T>;

// --- any number ---------------------------------------------------------------------------------------------------
struct negate {
  template <Number T> LAMINA_INLINE static T run(T x) {
    if constexpr (Real<T>) return -x;
    else return static_cast<T>(wrapping<T>(0) - static_cast<wrapping<T>>(x));
  }
};
struct abs {
  template <Number T> LAMINA_INLINE static T run(T x) {
    if constexpr (Real<T>) return __builtin_elementwise_abs(x);
    else return x < T(0) ? negate::run(x) : x;
  }
};
/// -1, 0 or 1; signed zeros and NaN are kept.
struct sign {
  template <Number T> LAMINA_INLINE static T run(T x) { return x > T(0) ? T(1) : (x < T(0) ? T(-1) : x); }
};
struct add {
  template <Number T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (Real<T>) return x + y;
    else return static_cast<T>(static_cast<wrapping<T>>(x) + static_cast<wrapping<T>>(y));
  }
};
struct subtract {
  template <Number T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (Real<T>) return x - y;
    else return static_cast<T>(static_cast<wrapping<T>>(x) - static_cast<wrapping<T>>(y));
  }
};
struct multiply {
  template <Number T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (Real<T>) return x * y;
    else return static_cast<T>(static_cast<wrapping<T>>(x) * static_cast<wrapping<T>>(y));
  }
};
struct square {
  template <Number T> LAMINA_INLINE static T run(T x) { return multiply::run(x, x); }
};
/// Integers: truncates toward zero; 0 if y is 0; the smallest integer divided by -1 wraps.
struct divide {
  template <Number T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (Real<T>) {
      return x / y;
    } else if constexpr (sizeof(T) <= 2) {  // the float quotient truncates to the exact one
      const float q = static_cast<float>(x) / static_cast<float>(y == 0 ? T(1) : y);
      return y == 0 ? T(0) : static_cast<T>(static_cast<std::int32_t>(q));
    } else if constexpr (sizeof(T) == 4) {  // likewise in double; 2^31 wraps through unsigned
      const bool opposite = y == T(-1);
      const double q = static_cast<double>(x) / static_cast<double>(y == 0 || opposite ? T(1) : y);
      const T whole = static_cast<T>(q);
      return y == 0 ? T(0) : opposite ? negate::run(x) : whole;
    } else {
      return y == 0 ? T(0) : y == T(-1) ? negate::run(x) : static_cast<T>(x / y);
    }
  }
};
struct minimum {
  template <Number T> LAMINA_INLINE static T run(T x, T y) { return x < y ? x : (x != x ? x : y); }
};
struct maximum {
  template <Number T> LAMINA_INLINE static T run(T x, T y) { return x > y ? x : (x != x ? x : y); }
};
/// slope x below 0, x above.
struct prelu {
  template <Real T> LAMINA_INLINE static T run(T x, T slope) { return x < T(0) ? x * slope : x; }
};
struct raise {
  template <Number T> LAMINA_INLINE static T run(T x, T low) { return x < low ? low : x; }
};
struct lower {
  template <Number T> LAMINA_INLINE static T run(T x, T high) { return x > high ? high : x; }
};
struct clamp {
  template <Number T> LAMINA_INLINE static T run(T x, T low, T high) { return lower::run(raise::run(x, low), high); }
};
/// Remainder of the quotient truncated toward zero, with the sign of x; integers: 0 if y is 0.
struct fmod {
  static float run(float x, float y) { return __builtin_fmodf(x, y); }
  static double run(double x, double y) { return __builtin_fmod(x, y); }
  template <Word T> LAMINA_INLINE static T run(T x, T y) {
    return y == T(0) || (T(-1) < T(0) && y == T(-1)) ? T(0) : static_cast<T>(x % y);
  }
};
/// Remainder of the quotient rounded toward minus infinity, with the sign of y.
struct mod {
  template <class T> requires is_float<T> static T run(T x, T y) {
    const T rest = fmod::run(x, y);
    if (rest == 0) return y < 0 ? T(-0.) : y > 0 ? T(0) : rest;
    return (rest < 0) != (y < 0) ? rest + y : rest;
  }
  template <Word T> LAMINA_INLINE static T run(T x, T y) {
    const T rest = fmod::run(x, y);
    return rest != T(0) && (rest < T(0)) != (y < T(0)) ? static_cast<T>(rest + y) : rest;
  }
};
struct bit_and {
  template <Word T> LAMINA_INLINE static T run(T x, T y) { return static_cast<T>(x & y); }
};
struct bit_or {
  template <Word T> LAMINA_INLINE static T run(T x, T y) { return static_cast<T>(x | y); }
};
struct bit_xor {
  template <Word T> LAMINA_INLINE static T run(T x, T y) { return static_cast<T>(x ^ y); }
};
/// Shift counts below 0 or not below the number of bits give 0.
struct shift_left {
  template <Word T> LAMINA_INLINE static T run(T x, T y) {
    constexpr auto bits = static_cast<T>(8 * sizeof(T));
    return y < T(0) || y >= bits ? T(0) : static_cast<T>(static_cast<wrapping<T>>(x) << static_cast<int>(y));
  }
};
/// Arithmetic for signed integers: such counts give 0 or, for negative x, -1.
struct shift_right {
  template <Word T> LAMINA_INLINE static T run(T x, T y) {
    constexpr auto bits = static_cast<T>(8 * sizeof(T));
    const T out = x < T(0) ? T(-1) : T(0);
    return y < T(0) || y >= bits ? out : static_cast<T>(x >> static_cast<int>(y));
  }
};
struct equal {
  LAMINA_INLINE static bool run(boolean x, boolean y) { return x.bits == y.bits; }
  template <Number T> LAMINA_INLINE static bool run(T x, T y) { return x == y; }
};
struct not_equal {
  LAMINA_INLINE static bool run(boolean x, boolean y) { return x.bits != y.bits; }
  template <Number T> LAMINA_INLINE static bool run(T x, T y) { return x != y; }
};
struct less {
  template <Number T> LAMINA_INLINE static bool run(T x, T y) { return x < y; }
};
struct less_equal {
  template <Number T> LAMINA_INLINE static bool run(T x, T y) { return x <= y; }
};
struct greater {
  template <Number T> LAMINA_INLINE static bool run(T x, T y) { return x > y; }
};
struct greater_equal {
  template <Number T> LAMINA_INLINE static bool run(T x, T y) { return x >= y; }
};

// --- booleans as bytes --------------------------------------------------------------------------------------------
struct logical_not {
  LAMINA_INLINE static bool run(boolean x) { return x.bits == 0; }
};
struct logical_and {
  LAMINA_INLINE static bool run(boolean x, boolean y) { return (x.bits & y.bits) != 0; }
};
struct logical_or {
  LAMINA_INLINE static bool run(boolean x, boolean y) { return (x.bits | y.bits) != 0; }
};
struct logical_xor {
  LAMINA_INLINE static bool run(boolean x, boolean y) { return (x.bits ^ y.bits) != 0; }
};

// --- floats that the compiler vectorizes --------------------------------------------------------------------------
struct reciprocal {
  template <Real T> LAMINA_INLINE static T run(T x) { return T(1) / x; }
};
struct relu {
  template <Real T> LAMINA_INLINE static T run(T x) { return x <= T(0) ? T(0) : x; }
};
struct sqrt {
  template <Real T> LAMINA_INLINE static T run(T x) { return __builtin_elementwise_sqrt(x); }
#if defined(__AVX512F__)
  /// Two Newton steps from an estimate: correctly rounded for every number from 2^-63 on (exhaustively tested), in a
  /// third of the time of the instruction.
  LAMINA_INLINE static vf run(vf x) {
    const __mmask16 others = _mm512_cmp_ps_mask(x.data, _mm512_set1_ps(0x1p-63f), _CMP_NGE_UQ) |
                             _mm512_cmp_ps_mask(x.data, _mm512_set1_ps(std::numeric_limits<float>::max()), _CMP_NLE_UQ);
    if (__builtin_expect(others != 0, 0)) return vf(_mm512_sqrt_ps(x.data));
    const vf y(_mm512_rsqrt14_ps(x.data)), half(.5f);
    vf root = x * y, slope = half * y;
    const vf error = fma(-root, slope, half);
    root = fma(root, error, root), slope = fma(slope, error, slope);
    return fma(slope, fma(-root, root, x), root);
  }
#endif
};
/// The power of two from which on all numbers of T are integers.
template <class T> inline constexpr T whole_from = T(0x1p23f);
template <> inline constexpr double whole_from<double> = 0x1p52;
template <> inline constexpr many<double> whole_from<many<double>> = many<double>(0x1p52);
/// To the nearest integer, ties to even.
struct round {
  template <Real T> LAMINA_INLINE static T run(T x) {
#if defined(__SSE4_1__) || defined(LAMINA_NEON64)
    return __builtin_elementwise_roundeven(x);
#else
    const T a = __builtin_elementwise_abs(x), whole = whole_from<T>;
    return a < whole ? __builtin_elementwise_copysign((a + whole) - whole, x) : x;
#endif
  }
};
template <class T> LAMINA_INLINE T with_sign_of(T magnitude, T sign) {
  return __builtin_elementwise_copysign(magnitude, sign);
}
struct floor {
  template <Real T> LAMINA_INLINE static T run(T x) {
    const T nearest = round::run(x);
    return with_sign_of(nearest > x ? nearest - T(1) : nearest, x);
  }
};
struct ceil {
  template <Real T> LAMINA_INLINE static T run(T x) {
    const T nearest = round::run(x);
    return with_sign_of(nearest < x ? nearest + T(1) : nearest, x);
  }
};

// --- functions: float by double, float on registers; double by the C library, element by element ---------------------
struct asin {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::asin(static_cast<double>(x))); }
  LAMINA_INLINE static double run(double x) { return __builtin_asin(x); }
};
struct acos {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::acos(static_cast<double>(x))); }
  LAMINA_INLINE static double run(double x) { return __builtin_acos(x); }
};
struct atan {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::atan(static_cast<double>(x))); }
  LAMINA_INLINE static double run(double x) { return __builtin_atan(x); }
};
struct asinh {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::asinh(static_cast<double>(x))); }
  LAMINA_INLINE static double run(double x) { return __builtin_asinh(x); }
};
struct acosh {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::acosh(static_cast<double>(x))); }
  LAMINA_INLINE static double run(double x) { return __builtin_acosh(x); }
};
struct sinh {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::sinh(static_cast<double>(x))); }
  LAMINA_INLINE static double run(double x) { return __builtin_sinh(x); }
};
struct cosh {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::cosh(static_cast<double>(x))); }
  LAMINA_INLINE static double run(double x) { return __builtin_cosh(x); }
};
struct atanh {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::atanh(static_cast<double>(x))); }
  LAMINA_INLINE static double run(double x) { return __builtin_atanh(x); }
};
struct sin {
  LAMINA_INLINE static bool plain(float x) { return __builtin_fabsf(x) <= wide::sine_limit; }
  LAMINA_INLINE static float fast(float x) { return static_cast<float>(wide::sine(static_cast<double>(x))); }
  static float slow(float x) { return __builtin_sinf(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_sin(x); }
};
struct cos {
  LAMINA_INLINE static bool plain(float x) { return __builtin_fabsf(x) <= wide::sine_limit; }
  LAMINA_INLINE static float fast(float x) { return static_cast<float>(wide::cosine(static_cast<double>(x))); }
  static float slow(float x) { return __builtin_cosf(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_cos(x); }
};
struct tan {
  LAMINA_INLINE static bool plain(float x) { return __builtin_fabsf(x) <= wide::sine_limit; }
  LAMINA_INLINE static float fast(float x) { return static_cast<float>(wide::tangent(static_cast<double>(x))); }
  static float slow(float x) { return __builtin_tanf(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_tan(x); }
};
struct pow {
  LAMINA_INLINE static bool plain(float x, float y) { return x > 0 && x < infinity && __builtin_fabsf(y) < infinity; }
  LAMINA_INLINE static float fast(float x, float y) {
    const double e = static_cast<double>(y) * wide::log(static_cast<double>(x));
    return static_cast<float>(wide::exp(e < -200 ? -200. : e > 200 ? 200. : e));
  }
  static float slow(float x, float y) { return __builtin_powf(x, y); }
  LAMINA_INLINE static double run(double x, double y) { return __builtin_pow(x, y); }
  /// Integers wrap; for y < 0, 1 / x^-y truncated toward zero, and 0 if x is 0.
  template <Word T> LAMINA_INLINE static T run(T x, T y) {
    if (y < T(0)) return x == T(1) ? T(1) : x != T(-1) ? T(0) : (y & T(1)) != 0 ? T(-1) : T(1);
    wrapping<T> all = 1, factor = static_cast<wrapping<T>>(x);
    for (auto rest = static_cast<wrapping<T>>(y); rest != 0; rest >>= 1, factor *= factor)
      if ((rest & 1) != 0) all *= factor;
    return static_cast<T>(all);
  }
};
struct exp {
  LAMINA_INLINE static vf run(vf x) { return kernels::exp(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_exp(x); }
};
struct log {
  LAMINA_INLINE static vf run(vf x) { return kernels::log(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_log(x); }
};
template <latency Latency> struct tanh_of {
  LAMINA_INLINE static vf run(vf x) { return kernels::tanh<Latency>(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_tanh(x); }
};
template <latency Latency> struct sigmoid_of {
  LAMINA_INLINE static vf run(vf x) { return kernels::sigmoid<Latency>(x); }
  LAMINA_INLINE static double run(double x) {
    const double e = __builtin_exp(-__builtin_fabs(x));
    return (x < 0 ? e : 1.) / (1. + e);
  }
};
using tanh = tanh_of<latency::normal>;
using sigmoid = sigmoid_of<latency::normal>;
struct erf {
  LAMINA_INLINE static vf run(vf x) { return kernels::erf(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_erf(x); }
};
struct expm1 {
  LAMINA_INLINE static vf run(vf x) { return kernels::expm1(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_expm1(x); }
};
struct log1p {
  LAMINA_INLINE static vf run(vf x) { return kernels::log1p(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_log1p(x); }
};

// --- activations ----------------------------------------------------------------------------------------------------
struct softplus {
  LAMINA_INLINE static vf run(vf x) {
    const vf e = exp_bounded<exp_range::nonpositive>(xsimd::max(vf(-110.f), -xsimd::abs(x)));
    return xsimd::max(vf(0.f), x) + kernels::log1p(e);
  }
  LAMINA_INLINE static double run(double x) {
    return (x <= 0 ? 0. : x) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
  }
};
/// x / (1 + |x|), with x clamped so that infinity gives 1.
struct softsign {
  template <Real T> LAMINA_INLINE static T run(T x) {
    const T held = clamp::run(x, T(-0x1p60), T(0x1p60));
    return held / (T(1) + abs::run(held));
  }
};
/// x clamp(x + 3, 0, 6) / 6: the sum is exact where the result is near 0.
struct hard_swish {
  template <Real T> LAMINA_INLINE static T run(T x) {
    const T held = raise::run(x, T(-3)), gate = lower::run(held + T(3), T(6));
    return held * (gate * T(1. / 6));
  }
};
struct gelu {
#if defined(__AVX2__)
  /// x Phi(x) = max(x, 0) - t Phi(-t) with t = |x|. Phi(-t) is e^(-t^2 / 2) times a factor, here a piecewise
  /// polynomial; the rounding error of the square is added to the exponent.
  LAMINA_INLINE static vf run(vf x) {
    const vf t = xsimd::min(vf(14.8f), xsimd::abs(x)), h = t * t, lost = fma(t, t, -h);
    const vf e = exp_bounded<exp_range::nonpositive, digits::enough>(h * vf(-.5f), plus{lost * vf(-.5f)});
#if defined(__AVX512F__)
    const auto& pieces = gelu_sixteenths;
    const vi i = bits_of(t + vf(1.f)) >> 21;
#else
    const auto& pieces = gelu_eighths;
    const vi i = bits_of(t + vf(1.f)) >> 22;
#endif
    constexpr int rows = static_cast<int>(sizeof(pieces) / sizeof(pieces[0]));
    const vf y = t - lookup(pieces[0], i);
    vf factor = lookup(pieces[rows - 1], i);
    LAMINA_UNROLL for (int d = rows - 2; d >= 1; --d) factor = fma(factor, y, lookup(pieces[d], i));
    // the difference is 0 or has the sign of x
    return (xsimd::max(vf(0.f), x) - factor * e) | xsimd::bitofsign(x);
  }
#else
  /// In double on sets with registers of four floats: SSE2 lacks a fused multiply-add, so the tail would lose accuracy;
  /// NEON lacks a permute of eight floats.
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::gelu(static_cast<double>(x))); }
#endif
  /// erfc amplifies the rounding error of x / sqrt(2) by about x^2; a correction term removes it.
  static double run(double x) {
    constexpr double root_half = 0x1.6a09e667f3bcdp-1, root_half_low = -0x1.bdd3413b26456p-55;
    const double t = __builtin_fabs(x), y = t * root_half;
    const double lost = __builtin_fma(t, root_half, -y) + t * root_half_low;
    const double tail = .5 * t * __builtin_erfc(y) * (1 - 2 * y * lost);
    return __builtin_copysign((x <= 0 ? 0. : x) - (t < 40 || x != x ? tail : 0.), x);
  }
};

/// x y, where y is scaled by 2^32 if x is negative.
LAMINA_INLINE vf times_raised(vf x, vf y) { return x * y * xsimd::select(x < vf(0.f), vf(lowered), vf(1.f)); }
/// x / (1 + e^-u) for u with the sign of x; `low` adds the low part of u.
template <class Adjust = as_is> LAMINA_INLINE vf times_sigmoid(vf x, vf u, Adjust low = {}) {
  const vf one(1.f), e = exp_raised(-xsimd::abs(u), low);
  return times_raised(x, quotient(vf(xsimd::select(x < vf(0.f), e, one)), fma(e, vf(lowered), one)));
}
/// x e^u (1 + low) for u so small that e^u may be denormal; 0 for -infinity.
LAMINA_INLINE double times_tiny_exp(double x, double u, double low) {
  const double half = __builtin_exp((u < -800 ? -800 : u) * .5);
  return (x < -800 ? -800 : x) * half * half * (1 + low);
}
struct silu {
  LAMINA_INLINE static vf run(vf x) {
    const vf held = xsimd::max(vf(lowest), x);
    return times_sigmoid(held, xsimd::min(vf(-lowest), held));
  }
  LAMINA_INLINE static double run(double x) {
    if (x < -700) return times_tiny_exp(x, x, 0);
    const double e = __builtin_exp(-__builtin_fabs(x));
    return x * ((x < 0 ? e : 1.) / (1. + e));
  }
};
/// x tanh(softplus(x)): with e = e^-|x|, x (1 + 2 e) / (1 + 2 e + 2 e^2), or x e (e + 2) / (e (e + 2) + 2) below 0.
struct mish {
  LAMINA_INLINE static vf run(vf x) {
    const vf held = xsimd::max(vf(lowest), x), one(1.f), two(2.f);
    const vf high = exp_raised(xsimd::max(vf(lowest), -xsimd::abs(held))), e = high * vf(lowered);
    const auto negative = held < vf(0.f);
    const vf near = fma(e, two, one), far = e + two;
    const vf top = xsimd::select(negative, high * far, near);
    const vf sum = fma(e, xsimd::select(negative, far, e + e), xsimd::select(negative, two, near));
    return times_raised(held, quotient(top, sum));
  }
  LAMINA_INLINE static double run(double x) {
    if (x < -700) return times_tiny_exp(x, x, 0);
    const double e = __builtin_exp(-__builtin_fabs(x)), n = e * (e + 2), near = 1 + 2 * e;
    return x * (x < 0 ? n / (n + 2) : near / (near + 2 * e * e));
  }
};
/// x sigmoid(u) with u = x (b + a x^2).  e^u amplifies the relative error of u by |u|, so u has a low part.
struct gelu_tanh {
#if defined(LAMINA_FUSED)
  LAMINA_INLINE static vf run(vf x) {
    constexpr float a = 0x1.2444f2p-4f, a_low = 0x1.49b16ap-29f;  // sqrt(8 / pi) 0.044715
    constexpr float b = 0x1.98844p0f, b_low = 0x1.33d436p-20f;    // sqrt(8 / pi), with few bits: b - sum is exact
    const vf held = xsimd::max(vf(-10.88f), x), t = xsimd::min(vf(10.88f), held);
    const vf h = t * t, h_low = fma(t, t, -h);
    const vf sum = fma(h, vf(a), vf(b));
    const vf sum_low = fma(h_low, vf(a), fma(h, vf(a_low), vf(b_low))) + fma(h, vf(a), vf(b) - sum);
    const vf u = t * sum, u_low = fma(t, sum_low, fma(t, sum, -u));
    return times_sigmoid(held, u, plus{xsimd::select(t < vf(0.f), u_low, -u_low)});
  }
#else
  /// In double on sets without a fused multiply-add, as in `gelu`.
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::gelu_tanh(static_cast<double>(x))); }
#endif
  static double run(double x) {
    constexpr double a = 0x1.2444f2a4d8b4bp-4, a_low = -0x1.6c843a29d1c70p-61;  // sqrt(8 / pi) 0.044715
    constexpr double b = 0x1.9884533d43651p0, b_low = -0x1.cbc0d30ebfd15p-54;   // sqrt(8 / pi)
    const double held = x < -25 ? -25. : x, t = held > 25 ? 25. : held;
    const double h = t * t, h_low = __builtin_fma(t, t, -h), p = h * a;
    const double sum = p + b, part = sum - p;
    const double lost = (p - (sum - part)) + (b - part) + __builtin_fma(h, a, -p) + (h * a_low + h_low * a + b_low);
    const double u = t * sum, low = __builtin_fma(t, sum, -u) + t * lost;
    if (u < -700) return times_tiny_exp(held, u, low);
    const double e = __builtin_exp(-__builtin_fabs(u)), shift = u < 0 ? low : -low;
    return held * ((u < 0 ? e + e * shift : 1.) / (1. + (e + e * shift)));
  }
};

}  // namespace micro
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
#endif
