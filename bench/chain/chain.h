// Interface of a library for chains: four elementwise formulas of 3, 4, 5 and 6 operations.
#pragma once
#include <string>

#include "measure.h"

namespace bench::chain {

/// The formulas; `a`, `b`, `c` are operands of `n` elements, `out` the result.
///   3: relu(a b + c)                  4: (a + b) (a - b) + c
///   5: sqrt(a a + b b) c              6: (a - b) exp(-(c c)) + a
inline constexpr int shortest = 3, longest = 6;
inline constexpr const char* formula_text[] = {"relu(a b + c)", "(a + b) (a - b) + c", "sqrt(a^2 + b^2) c",
                                               "(a - b) exp(-c^2) + a"};

struct operands {
  const float *a, *b, *c;
  float* out;
  long n;
};

/// A library; absent if `bind` is empty.
struct library {
  std::string name, version, isa;
  std::function<call(int operations, const operands&)> bind;
};

library fused();    // lamina: one pass
library unfused();  // the same operations, each a pass over memory
library eigen();

}  // namespace bench::chain
