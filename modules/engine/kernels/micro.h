// The micro-operations on one element; `map.h` runs them over arrays.
#pragma once
#include "double_math.h"
#include "storage.h"
#include "vector_math.h"

namespace lamina::kernels {
inline namespace LAMINA_KERNEL_SET {
namespace micro {

// --- any number ---------------------------------------------------------------------------------------------------
struct negate {
  template <class T>
  LAMINA_INLINE static T run(T x) {
    if constexpr (is_float<T>)
      return -x;
    else
      return static_cast<T>(wrapping<T>(0) - static_cast<wrapping<T>>(x));
  }
};
struct absolute {
  template <class T>
  LAMINA_INLINE static T run(T x) {
    if constexpr (same<T, float>)
      return __builtin_fabsf(x);
    else if constexpr (same<T, double>)
      return __builtin_fabs(x);
    else
      return x < T(0) ? negate::run(x) : x;
  }
};
/// -1, 0 or 1; zeros and NaN stay.
struct sign {
  template <class T>
  LAMINA_INLINE static T run(T x) {
    return x > T(0) ? T(1) : x < T(0) ? static_cast<T>(-1) : x;
  }
};
struct add {
  template <class T>
  LAMINA_INLINE static T run(T x, T y) {
    if constexpr (is_float<T>)
      return x + y;
    else
      return static_cast<T>(static_cast<wrapping<T>>(x) + static_cast<wrapping<T>>(y));
  }
};
struct subtract {
  template <class T>
  LAMINA_INLINE static T run(T x, T y) {
    if constexpr (is_float<T>)
      return x - y;
    else
      return static_cast<T>(static_cast<wrapping<T>>(x) - static_cast<wrapping<T>>(y));
  }
};
struct multiply {
  template <class T>
  LAMINA_INLINE static T run(T x, T y) {
    if constexpr (is_float<T>)
      return x * y;
    else
      return static_cast<T>(static_cast<wrapping<T>>(x) * static_cast<wrapping<T>>(y));
  }
};
struct square {
  template <class T>
  LAMINA_INLINE static T run(T x) {
    return multiply::run(x, x);
  }
};
/// Integers: towards zero; 0 if y is 0; the smallest integer divided by -1 wraps.
struct divide {
  template <class T>
  LAMINA_INLINE static T run(T x, T y) {
    if constexpr (is_float<T>) {
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
  template <class T>
  LAMINA_INLINE static T run(T x, T y) {
    return x < y || x != x ? x : y;
  }
};
struct maximum {
  template <class T>
  LAMINA_INLINE static T run(T x, T y) {
    return x > y || x != x ? x : y;
  }
};
struct clamp {
  template <class T>
  LAMINA_INLINE static T run(T x, T low, T high) {
    const T raised = x < low ? low : x;
    return raised > high ? high : raised;
  }
};
struct equal {
  template <class T>
  LAMINA_INLINE static bool run(T x, T y) {
    return x == y;
  }
};
struct not_equal {
  template <class T>
  LAMINA_INLINE static bool run(T x, T y) {
    return x != y;
  }
};
struct less {
  template <class T>
  LAMINA_INLINE static bool run(T x, T y) {
    return x < y;
  }
};
struct less_equal {
  template <class T>
  LAMINA_INLINE static bool run(T x, T y) {
    return x <= y;
  }
};
struct greater {
  template <class T>
  LAMINA_INLINE static bool run(T x, T y) {
    return x > y;
  }
};
struct greater_equal {
  template <class T>
  LAMINA_INLINE static bool run(T x, T y) {
    return x >= y;
  }
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

// --- floats that the compiler vectorises --------------------------------------------------------------------------
struct reciprocal {
  template <class T>
  LAMINA_INLINE static T run(T x) {
    return T(1) / x;
  }
};
struct relu {
  template <class T>
  LAMINA_INLINE static T run(T x) {
    return x <= T(0) ? T(0) : x;
  }
};
struct square_root {
  LAMINA_INLINE static float run(float x) { return __builtin_sqrtf(x); }
  LAMINA_INLINE static double run(double x) { return __builtin_sqrt(x); }
};
/// To the nearest integer, ties to even.
struct round {
  LAMINA_INLINE static float run(float x) {
#ifdef __SSE4_1__
    return __builtin_roundevenf(x);
#else
    const float a = __builtin_fabsf(x);
    return a < 0x1p23f ? __builtin_copysignf((a + 0x1p23f) - 0x1p23f, x) : x;
#endif
  }
  LAMINA_INLINE static double run(double x) {
#ifdef __SSE4_1__
    return __builtin_roundeven(x);
#else
    const double a = __builtin_fabs(x);
    return a < 0x1p52 ? __builtin_copysign((a + 0x1p52) - 0x1p52, x) : x;
#endif
  }
};
template <class T>
LAMINA_INLINE T with_sign_of(T magnitude, T sign) {
  if constexpr (same<T, float>)
    return __builtin_copysignf(magnitude, sign);
  else
    return __builtin_copysign(magnitude, sign);
}
struct floor {
  template <class T>
  LAMINA_INLINE static T run(T x) {
    const T nearest = round::run(x);
    return with_sign_of(nearest > x ? nearest - T(1) : nearest, x);
  }
};
struct ceil {
  template <class T>
  LAMINA_INLINE static T run(T x) {
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

// --- floats that the compiler vectorises, with a slow form outside of a plain range --------------------------------
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
struct tanh_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::tanh(x); }
};
struct sigmoid_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::sigmoid(x); }
};
struct erf_f32 {
  LAMINA_INLINE static vf run(vf x) { return kernels::erf(x); }
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
