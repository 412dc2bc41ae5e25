// expect: add: the shapes do not broadcast: [2x3] [2x2]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = matrix<float, 2, 3>() + matrix<float, 2, 2>();
#else
  auto y = matrix<float, 2, 3>() + matrix<float, 2, 1>();
#endif
}
