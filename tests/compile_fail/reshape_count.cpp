// expect: reshape: 12 elements do not make [5x2]: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = reshape<extents<5, 2>>(matrix<float, 3, 4>());
#else
  auto y = reshape<extents<6, 2>>(matrix<float, 3, 4>());
#endif
}
