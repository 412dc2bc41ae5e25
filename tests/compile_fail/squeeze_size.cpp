// expect: squeeze: axis 0 has 3 positions, not one: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = squeeze<0>(matrix<float, 3, 4>());
#else
  auto y = squeeze<0>(matrix<float, 1, 4>());
#endif
}
