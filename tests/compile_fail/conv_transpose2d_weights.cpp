// expect: conv_transpose2d: weights [C, O / groups, H, W] are expected: [2x3x5x5] [3x4x3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = conv_transpose2d(tensor<float, extents<2, 3, 5, 5>>(), tensor<float, extents<3, 4, 3>>());
#else
  auto y = conv_transpose2d(tensor<float, extents<2, 3, 5, 5>>(), tensor<float, extents<3, 4, 3, 3>>());
#endif
}
