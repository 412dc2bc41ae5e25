// expect: split: the parts of axis 1 are 5 positions together: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = split<axes(2, 3), 1>(matrix<float, 3, 4>());
#else
  auto y = split<axes(1, 3), 1>(matrix<float, 3, 4>());
#endif
}
