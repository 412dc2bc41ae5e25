// expect: dot: the last axes of the first are not the first ones of the second: [2x3x4] [4x3x2]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = dot<2>(tensor<float, extents<2, 3, 4>>(), tensor<float, extents<4, 3, 2>>());
#else
  auto y = dot<2>(tensor<float, extents<2, 3, 4>>(), tensor<float, extents<3, 4, 2>>());
#endif
}
