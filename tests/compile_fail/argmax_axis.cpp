// expect: argmax: axis 5 is outside the rank: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = argmax<5>(matrix<float, 3, 4>());
#else
  auto y = argmax<-1>(matrix<float, 3, 4>());
#endif
}
