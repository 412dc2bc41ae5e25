// Errors of float functions, in units of the last place of the exact result, over any part of the 2^32 floats.
//
// References are the C library's in double, whose error is below 2^-28 units; where the result is trivial (0, 1, the
// argument) they make no call, so that a sweep over all floats takes a minute or two per function.
#pragma once
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <vector>

namespace float_error {

// --- references -----------------------------------------------------------------------------------------------------
/// e^x where it is neither infinite nor 0 in float.
inline double exp(double x) {
  if (x > 130) return std::numeric_limits<double>::infinity();
  if (x < -130) return 0;
  return std::fabs(x) < 1e-9 ? 1 + x : std::exp(x);
}
inline double log(double x) { return std::log(x); }
inline double tanh(double x) {
  if (std::fabs(x) > 20) return std::copysign(1.0, x);
  return std::fabs(x) < 1e-5 ? x - x * x * x / 3 : std::tanh(x);
}
inline double sigmoid(double x) { return x > 40 ? 1 : 1 / (1 + float_error::exp(-x)); }
inline double erf(double x) {
  if (std::fabs(x) > 6) return std::copysign(1.0, x);
  return std::fabs(x) < 1e-6 ? x * 1.1283791670955126 : std::erf(x);
}
inline double expm1(double x) {
  return std::fabs(x) < 1e-9 ? x : std::fabs(x) > 50 ? float_error::exp(x) - 1 : std::expm1(x);
}
inline double log1p(double x) { return std::fabs(x) < 1e-9 ? x : std::log1p(x); }
inline double softplus(double x) {
  if (std::fabs(x) > 130) return x > 0 ? x : 0;
  return (x > 0 ? x : 0) + std::log1p(float_error::exp(-std::fabs(x)));
}
inline double gelu(double x) {
  if (std::fabs(x) < 1e-10) return x * .5;
  return x > 30 ? x : x < -30 ? -0.0 : x * .5 * std::erfc(-x * 0.70710678118654752440);
}
/// x / (1 + e^-(u + low)).
inline double times_sigmoid(double x, double u, double low = 0) {
  return x > 130 ? x : x < -130 ? -0.0 : x / (1 + float_error::exp(-u) * (1 - low));
}
inline double silu(double x) { return times_sigmoid(x, x); }
inline double gelu_tanh(double x) {
  if (std::fabs(x) > 30) return x > 0 ? x : -0.0;
  const long double wide = x, u = wide * (0.071354816272600248776L * wide * wide + 1.595769121605730711760L);
  const double high = static_cast<double>(u);
  return times_sigmoid(x, high, static_cast<double>(u - static_cast<long double>(high)));
}
inline double mish(double x) {
  if (std::fabs(x) > 130) return times_sigmoid(x, x);
  const double e = float_error::exp(-std::fabs(x)), n = e * (e + 2);
  return x < 0 ? x * (n / (n + 2)) : x * ((1 + 2 * e) / (1 + 2 * e + 2 * e * e));
}

// --- errors ---------------------------------------------------------------------------------------------------------
/// Reciprocal of the spacing of floats around `exact`.
inline double units_of(double exact) {
  const float rounded = std::fabs(static_cast<float>(exact));
  constexpr float largest = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::min();
  const float bounded = rounded > largest ? largest : rounded < least ? least : rounded;
  const auto exponent = static_cast<int>(std::bit_cast<std::uint32_t>(bounded) >> 23);  // a normal number
  return std::bit_cast<double>(static_cast<std::uint64_t>(127 + 23 - exponent + 1023) << 52);
}
/// An infinite result counts as 2^128, NaN on one side only as 2^32 units.
inline double held(double x) { return x > 0x1p128 ? 0x1p128 : x < -0x1p128 ? -0x1p128 : x; }
inline double error_of(float result, double exact, double units) {
  const bool no_result = result != result, no_exact = exact != exact;
  const double error = std::fabs(held(static_cast<double>(result)) - exact) * units;
  return no_result != no_exact ? 0x1p32 : no_result ? 0 : error;
}
inline double error_of(float result, double exact) { return error_of(result, held(exact), units_of(exact)); }

/// The largest error so far, and its argument.
struct worst {
  double error = 0;
  float at = 0;
};

/// n is a multiple of 16.
using function = std::function<void(const float* in, float* out, long n)>;

/// Steps between bit patterns: `near` for magnitudes of 2^-16 to 2^8, where functions bend, `far` elsewhere.
struct steps {
  std::uint64_t near = 1, far = 1;
};
inline std::uint64_t after(std::uint64_t pattern, steps s) {
  const std::uint64_t magnitude = pattern & 0x7fffffff;
  return pattern + (magnitude >= 0x37800000 && magnitude < 0x43800000 ? s.near : s.far);
}

/// Sweeps the floats from bit pattern 0 on, in steps; steps of 1 visit all 2^32.  Functions may be empty.
inline std::vector<worst> sweep(double (*exact)(double), const std::vector<function>& functions, steps each) {
  constexpr long block = 4096;
  constexpr std::uint64_t patterns = std::uint64_t{1} << 32;
  std::vector<worst> largest(functions.size());
  std::vector<double> right(block), units(block);
  std::vector<float> in(block), out(block);
  for (std::uint64_t next = 0; next < patterns;) {
    for (float& x : in) {
      x = std::bit_cast<float>(static_cast<std::uint32_t>(next < patterns ? next : 0));
      if (next < patterns) next = after(next, each);
    }
    for (std::size_t i = 0; i < block; ++i) right[i] = exact(static_cast<double>(in[i]));
    for (std::size_t i = 0; i < block; ++i) units[i] = units_of(right[i]), right[i] = held(right[i]);
    for (std::size_t f = 0; f < functions.size(); ++f) {
      if (!functions[f]) continue;
      functions[f](in.data(), out.data(), block);
      std::int64_t max = 0;  // bits of a nonnegative double: the compiler compares these in registers
      for (std::size_t i = 0; i < block; ++i) {
        const auto bits = std::bit_cast<std::int64_t>(error_of(out[i], right[i], units[i]));
        max = bits > max ? bits : max;
      }
      const auto met = std::bit_cast<double>(max);
      if (met <= largest[f].error) continue;
      for (std::size_t i = 0; i < block; ++i)
        if (error_of(out[i], right[i], units[i]) == met) largest[f] = {met, in[i]};
    }
  }
  return largest;
}

}  // namespace float_error
