// expect: gather: takes int64 positions, not float32; cast first, as in cast<std::int64_t>(x): float32[3x4] float32[2]
#include <cstdint>

import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = gather<0>(matrix<float, 3, 4>(), vector<float, 2>());
#else
  auto y = gather<0>(matrix<float, 3, 4>(), vector<std::int64_t, 2>());
#endif
}
