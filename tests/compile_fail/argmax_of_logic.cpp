// expect: argmax: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = argmax(matrix<bool, 3, 4>());
#else
  auto y = argmax(matrix<int, 3, 4>());
#endif
}
