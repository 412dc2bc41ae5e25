// expect: cross_entropy: the labels must have the shape of the logits without their last axis: float32[2x3] int64[3]
#include <cstdint>

import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = cross_entropy(matrix<float, 2, 3>(), vector<std::int64_t, 3>());
#else
  auto y = cross_entropy(matrix<float, 2, 3>(), vector<std::int64_t, 2>());
#endif
}
