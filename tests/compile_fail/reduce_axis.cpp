// expect: reduce_sum: the axes {2} are not distinct axes of the operand: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = reduce_sum<axes(2)>(matrix<float, 3, 4>());
#else
  auto y = reduce_sum<axes(1)>(matrix<float, 3, 4>());
#endif
}
