// What a library brings to rows: softmax and layer normalization of the rows of a matrix.
#pragma once
#include <functional>
#include <string>

#include "measure.h"

namespace bench::rows {

enum class kind { softmax, layer_norm };
inline constexpr double epsilon = 1e-5;

/// `in` and `out` are [count, length]; `gain` and `bias`, of layer normalization, [length].
struct operands {
  const float *in, *gain, *bias;
  float* out;
  long count, length;
};

/// A library; absent where `bind` is empty.
struct library {
  std::string name, version, isa;
  std::function<call(kind, const operands&)> bind;
};

library lamina();
library onednn();
library eigen();

}  // namespace bench::rows
