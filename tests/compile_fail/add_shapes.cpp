// expect: add: the shapes do not broadcast: [3x4] [3x5]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = matrix<float, 3, 4>() + matrix<float, 3, 5>();
#else
  auto y = matrix<float, 3, 4>() + matrix<float, 1, 4>();
#endif
}
