// Interface of a library for int8 products: rows of x times weights that are packed once, requantized to int8.
#pragma once
#include <cstdint>
#include <string>

#include "measure.h"

namespace bench::int8 {

/// y[i, j] = saturated(round(scale[j] * (sum over p of (x[i, p] + 128) w[p, j] + bias[j]))): the zero point of x is
/// -128, as after a ReLU.
struct product {
  long m, n, k;
  const std::int8_t *x, *w;  // row-major
  const std::int32_t* bias;
  const float* scale;
  std::int8_t* y;
};

contender lamina(const product& p);
contender onednn(const product& p);

}  // namespace bench::int8
