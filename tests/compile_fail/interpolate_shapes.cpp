// expect: interpolate: the shapes do not broadcast: [3x4] [3x5] []
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = interpolate(matrix<float, 3, 4>(), matrix<float, 3, 5>(), 0.5);
#else
  auto y = interpolate(matrix<float, 3, 4>(), vector<float, 4>(), 0.5);
#endif
}
