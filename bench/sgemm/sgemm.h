// What a library brings to sgemm: a row-major product C = A B of packed float matrices.
#pragma once
#include <functional>
#include <string>

#include "measure.h"

namespace bench::sgemm {

struct product {
  long m, n, k;
  const float *a, *b;
  float* c;
};

/// A library and how it runs a product; absent where `bind` is empty.
struct library {
  std::string name, version, isa;
  std::function<call(const product&)> bind;
};

library lamina();
library onednn();
library openblas();
library blis();
library eigen();

}  // namespace bench::sgemm
