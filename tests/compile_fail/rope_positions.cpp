// expect: rope: takes int64 positions, not float32; cast first, as in cast<std::int64_t>(x): float32[3x4] float32[3]
#include <cstdint>
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = rope(matrix<float, 3, 4>(), vector<float, 3>());
#else
  auto y = rope(matrix<float, 3, 4>(), cast<std::int64_t>(vector<float, 3>()));
#endif
}
