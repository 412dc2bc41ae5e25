// expect: conv1d: sequences [N, C, L] are expected: [3x5] [4x3x3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = conv1d(tensor<float, extents<3, 5>>(), tensor<float, extents<4, 3, 3>>());
#else
  auto y = conv1d(tensor<float, extents<2, 3, 5>>(), tensor<float, extents<4, 3, 3>>(), {.causal = true});
#endif
}
