// expect: group_norm: 4 channels do not divide into 3 groups: [2x4x5]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = group_norm<3>(tensor<float, extents<2, 4, 5>>());
#else
  auto y = group_norm<2>(tensor<float, extents<2, 4, 5>>());
#endif
}
