// expect: cumsum: takes float32, float64 or an integer type, not bool; cast first, as in cast<float>(x): bool[3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = cumsum(vector<bool, 3>());
#else
  auto y = cumsum(vector<float, 3>());
#endif
}
