// expect: select: position 3 is outside of axis 0: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = select<0, 3>(matrix<float, 3, 4>());
#else
  auto y = select<0, 2>(matrix<float, 3, 4>());
#endif
}
