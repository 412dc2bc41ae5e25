// Largest error of a function over floats, in units of the last place of the right result.
#pragma once
#include <cstdint>

#include "math.h"

namespace bench::math {

/// Over the floats with the bit patterns 0, step, 2 step, ...; step 1 takes all 2^32.  A result of infinity counts as
/// 2^128, NaN on one side alone as 2^32 units.
std::vector<double> largest_errors(const std::string& name, const std::vector<function>& functions, std::uint64_t step);

}  // namespace bench::math
