// expect: conv2d: the weights have no input channels: [2x0x9x9] [4x0x3x3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = conv2d(tensor<float, extents<2, 0, 9, 9>>(), tensor<float, extents<4, 0, 3, 3>>());
#else
  auto y = conv2d(tensor<float, extents<2, 1, 9, 9>>(), tensor<float, extents<4, 1, 3, 3>>());
#endif
}
