// expect: gelu: takes float32 or float64, not int32; cast first, as in cast<float>(x): int32[3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = gelu(matrix<int, 3, 4>());
#else
  auto y = gelu(matrix<float, 3, 4>());
#endif
}
