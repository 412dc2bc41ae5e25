// expect: concat: the sizes differ on axis 1, not only on 0: [3x4] [3x5]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = concat<0>(matrix<float, 3, 4>(), matrix<float, 3, 5>());
#else
  auto y = concat<1>(matrix<float, 3, 4>(), matrix<float, 3, 5>());
#endif
}
