// expect: flatten: axis 3 is outside the rank: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = flatten<3>(matrix<float, 3, 4>());
#else
  auto y = flatten<0>(matrix<float, 3, 4>());
#endif
}
