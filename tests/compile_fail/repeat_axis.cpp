// expect: repeat: axis 2 is outside the rank: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = repeat<2, 2>(matrix<float, 3, 4>());
#else
  auto y = repeat<2, 1>(matrix<float, 3, 4>());
#endif
}
