// expect: unsqueeze: the axes {3} are not distinct axes of a result of rank 3: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = unsqueeze<3>(matrix<float, 3, 4>());
#else
  auto y = unsqueeze<2>(matrix<float, 3, 4>());
#endif
}
