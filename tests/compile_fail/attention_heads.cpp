// expect: attention: the heads of keys and values do not divide those of the queries: [4x3x8] [3x5x8] [3x5x8]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = attention(tensor<float, extents<4, 3, 8>>(), tensor<float, extents<3, 5, 8>>(),
                     tensor<float, extents<3, 5, 8>>());
#else
  auto y = attention(tensor<float, extents<4, 3, 8>>(), tensor<float, extents<2, 5, 8>>(),
                     tensor<float, extents<2, 5, 8>>());
#endif
}
