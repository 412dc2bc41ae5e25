// Interface of a library for rows: softmax and layer normalization over the rows of a matrix.
#pragma once
#include <functional>
#include <string>

#include "measure.h"

namespace bench::rows {

enum class kind { softmax, layer_norm };
inline constexpr double epsilon = 1e-5;

/// Shapes: `in` and `out` [count, length]; `gain` and `bias`, used by layer normalization, [length].
struct operands {
  const float *in, *gain, *bias;
  float* out;
  long count, length;
};

/// A library; absent if `bind` is empty.
struct library {
  std::string name, version, isa;
  std::function<call(kind, const operands&)> bind;
};

library lamina();
library onednn();
library eigen();

}  // namespace bench::rows
