// expect: softmax_over_last: the operand has no 3 last axes: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = softmax_over_last<3>(matrix<float, 3, 4>());
#else
  auto y = softmax_over_last<2>(matrix<float, 3, 4>());
#endif
}
