// expect: scatter_add: positions and elements to add must have one shape: float32[3x4] int64[2x4] float32[5x4]
#include <cstdint>

import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = scatter_add<0>(matrix<float, 3, 4>(), matrix<std::int64_t, 2, 4>(), matrix<float, 5, 4>());
#else
  auto y = scatter_add<0>(matrix<float, 3, 4>(), matrix<std::int64_t, 2, 4>(), matrix<float, 2, 4>());
#endif
}
