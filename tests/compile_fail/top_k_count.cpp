// expect: top_k: axis -1 has no 5 elements: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = top_k<5>(matrix<float, 3, 4>());
#else
  auto y = top_k<4>(matrix<float, 3, 4>());
#endif
}
