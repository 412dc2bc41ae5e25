// expect: prelu: the shapes do not broadcast: [3x4] [3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = prelu(matrix<float, 3, 4>(), vector<float, 3>());
#else
  auto y = prelu(matrix<float, 3, 4>(), vector<float, 4>());
#endif
}
