// expect: dropout: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[3x4] int64[2]
#include <cstdint>

import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = dropout(matrix<int, 3, 4>(), vector<std::int64_t, 2>(), {.probability = 0.5});
#else
  auto y = dropout(matrix<float, 3, 4>(), vector<std::int64_t, 2>(), {.probability = 0.5});
#endif
}
