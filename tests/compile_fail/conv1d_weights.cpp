// expect: conv1d: weights [O, C / groups, K] are expected: [2x3x5] [4x3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = conv1d(tensor<float, extents<2, 3, 5>>(), matrix<float, 4, 3>());
#else
  auto y = conv1d(tensor<float, extents<2, 3, 5>>(), tensor<float, extents<4, 3, 3>>());
#endif
}
