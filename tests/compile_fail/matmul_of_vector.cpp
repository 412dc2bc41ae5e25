// expect: matmul: both operands must be matrices: [4] [4x2]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = matmul(vector<float, 4>(), matrix<float, 4, 2>());
#else
  auto y = matmul(matrix<float, 1, 4>(), matrix<float, 4, 2>());
#endif
}
