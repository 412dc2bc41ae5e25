// expect: take_along_axis: the positions must have the shape of the operand but along axis 0: float32[3x4] int64[2x3]
#include <cstdint>

import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = take_along_axis<0>(matrix<float, 3, 4>(), matrix<std::int64_t, 2, 3>());
#else
  auto y = take_along_axis<0>(matrix<float, 3, 4>(), matrix<std::int64_t, 2, 4>());
#endif
}
