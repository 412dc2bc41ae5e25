// expect: attention: queries, keys and values of one rank [..., T, D] are expected: [2x3x4] [5x4] [5x6]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = attention(tensor<float, extents<2, 3, 4>>(), matrix<float, 5, 4>(), matrix<float, 5, 6>());
#else
  auto y = attention(tensor<float, extents<2, 3, 4>>(), tensor<float, extents<2, 5, 4>>(),
                     tensor<float, extents<2, 5, 6>>());
#endif
}
