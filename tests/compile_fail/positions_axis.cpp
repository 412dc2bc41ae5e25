// expect: positions: axis 2 is outside the rank: [4x3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = positions<2>(tensor<float, extents<4, 3>>());
#else
  auto y = positions<1>(tensor<float, extents<4, 3>>());
#endif
}
