// expect: split_evenly: axis 0 does not divide into 2 equal parts: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = split<2>(matrix<float, 3, 4>());
#else
  auto y = split<2, 1>(matrix<float, 3, 4>());
#endif
}
