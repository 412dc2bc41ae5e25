// Errors against double precision; far from the interesting range the right result needs no library call.
#include "error.h"

#include <bit>
#include <cmath>
#include <limits>

namespace bench::math {
namespace {

double exact_exp(double x) {
  if (x > 130) return std::numeric_limits<double>::infinity();
  if (x < -130) return 0;
  if (std::fabs(x) < 1e-9) return 1 + x;
  return std::exp(x);
}
double exact_tanh(double x) {
  if (std::fabs(x) > 20) return std::copysign(1.0, x);
  if (std::fabs(x) < 1e-4) return x - x * x * x / 3;
  return std::tanh(x);
}

/// The distance of two floats around `right`, as a double.
double unit_of(double right) {
  const float rounded = std::fabs(static_cast<float>(right));
  constexpr float largest = std::numeric_limits<float>::max(), least = std::numeric_limits<float>::min();
  const float bounded = rounded > largest ? largest : rounded < least ? least : rounded;
  const auto exponent = static_cast<int>(std::bit_cast<std::uint32_t>(bounded) >> 23);  // a normal number
  return std::bit_cast<double>(static_cast<std::uint64_t>(exponent - 127 - 23 + 1023) << 52);
}
double finite(float x) { return std::isinf(x) ? std::copysign(0x1p128, x) : static_cast<double>(x); }

}  // namespace

std::vector<double> largest_errors(const std::string& name, const std::vector<function>& functions,
                                   std::uint64_t step) {
  constexpr long block = 4096;
  const auto exact = name == "exp" ? exact_exp : exact_tanh;
  std::vector<double> largest(functions.size()), right(block), unit(block);
  std::vector<float> in(block), out(block);
  constexpr std::uint64_t patterns = std::uint64_t{1} << 32;
  for (std::uint64_t next = 0; next < patterns;) {
    for (float& x : in) {
      x = std::bit_cast<float>(static_cast<std::uint32_t>(next < patterns ? next : 0));
      next += step;
    }
    for (std::size_t i = 0; i < block; ++i) {
      const double y = exact(static_cast<double>(in[i]));
      right[i] = std::fabs(y) > 0x1p128 ? std::copysign(0x1p128, y) : y;
      unit[i] = 1 / unit_of(y);
    }
    for (std::size_t f = 0; f < functions.size(); ++f) {
      if (!functions[f]) continue;
      functions[f](in.data(), out.data(), block);
      double worst = largest[f];
      for (std::size_t i = 0; i < block; ++i) {
        const double error = std::fabs(finite(out[i]) - right[i]) * unit[i];
        const bool one_is_nan = (out[i] != out[i]) != (right[i] != right[i]);
        worst = one_is_nan ? 0x1p32 : error > worst ? error : worst;
      }
      largest[f] = worst;
    }
  }
  return largest;
}

}  // namespace bench::math
