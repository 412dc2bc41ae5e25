// expect: conv_transpose2d: the weights expect 4 input channels: [1x3x5x5] [4x2x3x3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = conv_transpose2d(tensor<float, extents<1, 3, 5, 5>>(), tensor<float, extents<4, 2, 3, 3>>());
#else
  auto y = conv_transpose2d(tensor<float, extents<1, 4, 5, 5>>(), tensor<float, extents<4, 2, 3, 3>>());
#endif
}
