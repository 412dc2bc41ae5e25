// expect: transpose: takes a matrix; `permute` exchanges axes of other ranks: [2x3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = transpose(tensor<float, extents<2, 3, 4>>());
#else
  auto y = transpose(matrix<float, 2, 3>());
#endif
}
