// expect: add: the element types differ; cast one of them: float32[3x4] float64[3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = matrix<float, 3, 4>() + matrix<double, 3, 4>();
#else
  auto y = matrix<float, 3, 4>() + cast<float>(matrix<double, 3, 4>());
#endif
}
