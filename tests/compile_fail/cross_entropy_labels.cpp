// expect: cross_entropy: takes int64 labels, not float32; cast first, as in cast<std::int64_t>(x): float32[2x3] float32[2]
#include <cstdint>

import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = cross_entropy(matrix<float, 2, 3>(), vector<float, 2>());
#else
  auto y = cross_entropy(matrix<float, 2, 3>(), vector<std::int64_t, 2>());
#endif
}
