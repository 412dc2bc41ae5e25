// expect: mse: the shapes do not broadcast: [2x3] [2x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = mse(matrix<float, 2, 3>(), matrix<float, 2, 4>());
#else
  auto y = mse(matrix<float, 2, 3>(), matrix<float, 2, 3>());
#endif
}
