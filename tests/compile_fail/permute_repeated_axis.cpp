// expect: permute: the order {0, 0} does not name every axis once: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = permute<0, 0>(matrix<float, 3, 4>());
#else
  auto y = permute<1, 0>(matrix<float, 3, 4>());
#endif
}
