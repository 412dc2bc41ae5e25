// expect: nll: takes int64 labels, not int32; cast first, as in cast<std::int64_t>(x): float32[2x3] int32[2]
#include <cstdint>

import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = nll(matrix<float, 2, 3>(), vector<int, 2>());
#else
  auto y = nll(matrix<float, 2, 3>(), vector<std::int64_t, 2>());
#endif
}
