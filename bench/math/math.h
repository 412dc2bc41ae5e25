// Interface of a library for exp and tanh: one function over contiguous floats.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "measure.h"

namespace bench::math {

/// `n` is a multiple of 16.
using function = std::function<void(const float* in, float* out, long n)>;

/// A library's functions by name ("exp", "tanh"); empty if it has none or is absent.
struct library {
  std::string name, version, isa;
  std::function<function(const std::string& name)> find;
};

library lamina();
library xsimd();
library sleef_1();   // at most 1 ULP
library sleef_35();  // at most 3.5 ULP
library onednn();
library eigen();

}  // namespace bench::math
