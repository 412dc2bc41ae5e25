// expect: dot: both operands must have 2 axes or more: [4] [4x2]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = dot<2>(vector<float, 4>(), matrix<float, 4, 2>());
#else
  auto y = dot<1>(vector<float, 4>(), matrix<float, 4, 2>());
#endif
}
