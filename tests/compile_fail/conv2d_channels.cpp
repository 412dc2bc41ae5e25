// expect: conv2d: the weights expect 3 input channels: [2x4x8x8] [6x3x3x3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = conv2d(tensor<float, extents<2, 4, 8, 8>>(), tensor<float, extents<6, 3, 3, 3>>());
#else
  auto y = conv2d(tensor<float, extents<2, 3, 8, 8>>(), tensor<float, extents<6, 3, 3, 3>>());
#endif
}
