// The micro-operations, on one element or, those of floats, on a register; `map.h` runs them over arrays and `register_chain.h`
// over registers.
#pragma once
#include "double_math.h"
#include "storage.h"
#include "vector_math.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace micro {

/// Numbers that round: float, double and registers of them.
template <class T> inline constexpr bool rounds = is_float<T> || same<T, many<float>> || same<T, many<double>>;

// --- any number ---------------------------------------------------------------------------------------------------
struct negate {
  template <class T> LAMINA_INLINE static T run(T x) {
    if constexpr (rounds<T>) return -x;
    else return static_cast<T>(wrapping<T>(0) - static_cast<wrapping<T>>(x));
  }
};
struct absolute {
  template <class T> LAMINA_INLINE static T run(T x) {
    if constexpr (rounds<T>) return __builtin_elementwise_abs(x);
    else return x < T(0) ? negate::run(x) : x;
  }
};
/// -1, 0 or 1; zeros and NaN stay.
struct sign {
  template <class T> LAMINA_INLINE static T run(T x) { return x > T(0) ? T(1) : (x < T(0) ? T(-1) : x); }
};
struct add {
  template <class T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (rounds<T>) return x + y;
    else return static_cast<T>(static_cast<wrapping<T>>(x) + static_cast<wrapping<T>>(y));
  }
};
struct subtract {
  template <class T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (rounds<T>) return x - y;
    else return static_cast<T>(static_cast<wrapping<T>>(x) - static_cast<wrapping<T>>(y));
  }
};
struct multiply {
  template <class T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (rounds<T>) return x * y;
    else return static_cast<T>(static_cast<wrapping<T>>(x) * static_cast<wrapping<T>>(y));
  }
};
struct square {
  template <class T> LAMINA_INLINE static T run(T x) { return multiply::run(x, x); }
};
/// Integers: toward zero; 0 if y is 0; the smallest integer divided by -1 wraps.
struct divide {
  template <class T> LAMINA_INLINE static T run(T x, T y) {
    if constexpr (rounds<T>) {
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
  template <class T> LAMINA_INLINE static T run(T x, T y) { return x < y ? x : (x != x ? x : y); }
};
struct maximum {
  template <class T> LAMINA_INLINE static T run(T x, T y) { return x > y ? x : (x != x ? x : y); }
};
struct raise {
  template <class T> LAMINA_INLINE static T run(T x, T low) { return x < low ? low : x; }
};
struct lower {
  template <class T> LAMINA_INLINE static T run(T x, T high) { return x > high ? high : x; }
};
struct clamp {
  template <class T> LAMINA_INLINE static T run(T x, T low, T high) { return lower::run(raise::run(x, low), high); }
};
struct equal {
  template <class T> LAMINA_INLINE static bool run(T x, T y) { return x == y; }
};
struct not_equal {
  template <class T> LAMINA_INLINE static bool run(T x, T y) { return x != y; }
};
struct less {
  template <class T> LAMINA_INLINE static bool run(T x, T y) { return x < y; }
};
struct less_equal {
  template <class T> LAMINA_INLINE static bool run(T x, T y) { return x <= y; }
};
struct greater {
  template <class T> LAMINA_INLINE static bool run(T x, T y) { return x > y; }
};
struct greater_equal {
  template <class T> LAMINA_INLINE static bool run(T x, T y) { return x >= y; }
};

// --- truth values as bytes ----------------------------------------------------------------------------------------
struct logical_not {
  LAMINA_INLINE static bool run(std::uint8_t x) { return x == 0; }
};
struct logical_and {
  LAMINA_INLINE static bool run(std::uint8_t x, std::uint8_t y) { return (x & y) != 0; }
};
struct logical_or {
  LAMINA_INLINE static bool run(std::uint8_t x, std::uint8_t y) { return (x | y) != 0; }
};
struct logical_xor {
  LAMINA_INLINE static bool run(std::uint8_t x, std::uint8_t y) { return (x ^ y) != 0; }
};

// --- floats that the compiler vectorizes --------------------------------------------------------------------------
struct reciprocal {
  template <class T> LAMINA_INLINE static T run(T x) { return T(1) / x; }
};
struct relu {
  template <class T> LAMINA_INLINE static T run(T x) { return x <= T(0) ? T(0) : x; }
};
struct square_root {
  template <class T> LAMINA_INLINE static T run(T x) { return __builtin_elementwise_sqrt(x); }
};
/// The first power of two from which all numbers are integers.
template <class T> inline constexpr T whole_from = T(0x1p23f);
template <> inline constexpr double whole_from<double> = 0x1p52;
template <> inline constexpr many<double> whole_from<many<double>> = many<double>(0x1p52);
/// To the nearest integer, ties to even.
struct round {
  template <class T> LAMINA_INLINE static T run(T x) {
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
  template <class T> LAMINA_INLINE static T run(T x) {
    const T nearest = round::run(x);
    return with_sign_of(nearest > x ? nearest - T(1) : nearest, x);
  }
};
struct ceil {
  template <class T> LAMINA_INLINE static T run(T x) {
    const T nearest = round::run(x);
    return with_sign_of(nearest < x ? nearest + T(1) : nearest, x);
  }
};
struct arcsine_f32 {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::asin(static_cast<double>(x))); }
};
struct arccosine_f32 {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::acos(static_cast<double>(x))); }
};
struct arctangent_f32 {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::atan(static_cast<double>(x))); }
};
struct arsinh_f32 {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::asinh(static_cast<double>(x))); }
};
struct arcosh_f32 {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::acosh(static_cast<double>(x))); }
};
struct sinh_f32 {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::sinh(static_cast<double>(x))); }
};
struct cosh_f32 {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::cosh(static_cast<double>(x))); }
};
struct artanh_f32 {
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::atanh(static_cast<double>(x))); }
};

// --- floats that the compiler vectorizes, with a slow form outside of a plain range --------------------------------
struct sine_f32 {
  LAMINA_INLINE static bool plain(float x) { return __builtin_fabsf(x) <= wide::sine_limit; }
  LAMINA_INLINE static float fast(float x) { return static_cast<float>(wide::sine(static_cast<double>(x))); }
  static float slow(float x) { return __builtin_sinf(x); }
};
struct cosine_f32 {
  LAMINA_INLINE static bool plain(float x) { return __builtin_fabsf(x) <= wide::sine_limit; }
  LAMINA_INLINE static float fast(float x) { return static_cast<float>(wide::cosine(static_cast<double>(x))); }
  static float slow(float x) { return __builtin_cosf(x); }
};
struct tangent_f32 {
  LAMINA_INLINE static bool plain(float x) { return __builtin_fabsf(x) <= wide::sine_limit; }
  LAMINA_INLINE static float fast(float x) { return static_cast<float>(wide::tangent(static_cast<double>(x))); }
  static float slow(float x) { return __builtin_tanf(x); }
};
struct power_f32 {
  LAMINA_INLINE static bool plain(float x, float y) { return x > 0 && x < infinity && __builtin_fabsf(y) < infinity; }
  LAMINA_INLINE static float fast(float x, float y) {
    const double e = static_cast<double>(y) * wide::log(static_cast<double>(x));
    return static_cast<float>(wide::exp(e < -200 ? -200. : e > 200 ? 200. : e));
  }
  static float slow(float x, float y) { return __builtin_powf(x, y); }
};

// --- single precision on registers --------------------------------------------------------------------------------
struct exponential_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::exp(x); }
};
struct logarithm_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::log(x); }
};
#if defined(__AVX512F__)
/// Two steps of Newton's from an estimate: correctly rounded for every number from 2^-63 on (all were compared), in a
/// third of the time that the instruction takes.  Registers with other numbers take the instruction: the same bits.
struct square_root_f32 {
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
};
#else
using square_root_f32 = square_root;
#endif
template <latency Latency> struct tanh_of {
  LAMINA_INLINE static vf run(vf x) { return kernels::tanh<Latency>(x); }
};
template <latency Latency> struct sigmoid_of {
  LAMINA_INLINE static vf run(vf x) { return kernels::sigmoid<Latency>(x); }
};
using tanh_f32 = tanh_of<latency::normal>;
using sigmoid_f32 = sigmoid_of<latency::normal>;
struct erf_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::erf(x); }
};
struct expm1_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::expm1(x); }
};
struct log1p_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::log1p(x); }
};
struct softplus_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::softplus(x); }
};
/// In double where a register holds four floats: on SSE2, without a fused multiply-add, the tail would lose its digits;
/// NEON has no permute of eight.
struct gelu_f32 {
#if defined(__AVX2__)
  LAMINA_INLINE static vf run(vf x) { return kernels::gelu(x); }
#else
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::gelu(static_cast<double>(x))); }
#endif
};

/// In double without a fused multiply-add, for the same reason.
struct gelu_tanh_f32 {
#if defined(LAMINA_FUSED)
  LAMINA_INLINE static vf run(vf x) { return kernels::gelu_tanh(x); }
#else
  LAMINA_INLINE static float run(float x) { return static_cast<float>(wide::gelu_tanh(static_cast<double>(x))); }
#endif
};
struct silu_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::silu(x); }
};
struct mish_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::mish(x); }
};

// --- double precision: the C library, element by element -----------------------------------------------------------
struct exponential_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_exp(x); }
};
struct logarithm_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_log(x); }
};
struct sine_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_sin(x); }
};
struct cosine_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_cos(x); }
};
struct tangent_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_tan(x); }
};
struct arcsine_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_asin(x); }
};
struct arccosine_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_acos(x); }
};
struct arctangent_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_atan(x); }
};
struct tanh_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_tanh(x); }
};
struct arsinh_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_asinh(x); }
};
struct arcosh_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_acosh(x); }
};
struct erf_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_erf(x); }
};
struct expm1_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_expm1(x); }
};
struct log1p_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_log1p(x); }
};
struct sinh_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_sinh(x); }
};
struct cosh_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_cosh(x); }
};
struct artanh_f64 {
  LAMINA_INLINE static double run(double x) { return __builtin_atanh(x); }
};
struct softplus_f64 {
  LAMINA_INLINE static double run(double x) {
    return (x <= 0 ? 0. : x) + __builtin_log1p(__builtin_exp(-__builtin_fabs(x)));
  }
};
/// The complementary error function counts what is lost of x / sqrt(2) about x^2 times: that is taken off.
struct gelu_f64 {
  static double run(double x) {
    constexpr double root_half = 0x1.6a09e667f3bcdp-1, root_half_low = -0x1.bdd3413b26456p-55;
    const double t = __builtin_fabs(x), y = t * root_half;
    const double lost = __builtin_fma(t, root_half, -y) + t * root_half_low;
    const double tail = .5 * t * __builtin_erfc(y) * (1 - 2 * y * lost);
    return __builtin_copysign((x <= 0 ? 0. : x) - (t < 40 || x != x ? tail : 0.), x);
  }
};
/// x e^u (1 + low) for u so negative that e^u may be denormal; 0 for -infinity.
LAMINA_INLINE double times_tiny_exp(double x, double u, double low) {
  const double half = __builtin_exp((u < -800 ? -800 : u) * .5);
  return (x < -800 ? -800 : x) * half * half * (1 + low);
}
struct silu_f64 {
  LAMINA_INLINE static double run(double x) {
    if (x < -700) return times_tiny_exp(x, x, 0);
    const double e = __builtin_exp(-__builtin_fabs(x));
    return x * ((x < 0 ? e : 1.) / (1. + e));
  }
};
struct mish_f64 {
  LAMINA_INLINE static double run(double x) {
    if (x < -700) return times_tiny_exp(x, x, 0);
    const double e = __builtin_exp(-__builtin_fabs(x)), n = e * (e + 2), near = 1 + 2 * e;
    return x * (x < 0 ? n / (n + 2) : near / (near + 2 * e * e));
  }
};
/// x sigmoid(u) with u = x (b + a x^2).  An error of u counts u times in e^u, so u has a low part.
struct gelu_tanh_f64 {
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
struct power_f64 {
  LAMINA_INLINE static double run(double x, double y) { return __builtin_pow(x, y); }
};
struct sigmoid_f64 {
  LAMINA_INLINE static double run(double x) {
    const double e = __builtin_exp(-__builtin_fabs(x));
    return (x < 0 ? e : 1.) / (1. + e);
  }
};

}  // namespace micro
}  // namespace LAMINA_KERNEL_SET
}  // namespace lamina::kernels
