// expect: embedding: a table [rows, features] is expected: float32[3] int64[2]
#include <cstdint>

import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = embedding(vector<float, 3>(), vector<std::int64_t, 2>());
#else
  auto y = embedding(matrix<float, 3, 4>(), vector<std::int64_t, 2>());
#endif
}
