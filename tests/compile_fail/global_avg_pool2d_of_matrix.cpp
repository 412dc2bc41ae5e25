// expect: global_avg_pool2d: images [N, C, H, W] are expected: [8x8]
import lamina;
using namespace lamina;

using image = tensor<float, extents<2, 3, 8, 8>>;

void use() {
#ifdef BAD
  auto y = global_avg_pool2d(matrix<float, 8, 8>());
#else
  auto y = global_avg_pool2d(image());
#endif
}
