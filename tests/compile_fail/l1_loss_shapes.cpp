// expect: l1_loss: results and targets must have one shape; a loss does not broadcast: [3x2] [1x2]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = l1_loss(matrix<float, 3, 2>() * 2, matrix<float, 1, 2>());
#else
  auto y = l1_loss(matrix<float, 3, 2>() * 2, matrix<float, 3, 2>());
#endif
}
