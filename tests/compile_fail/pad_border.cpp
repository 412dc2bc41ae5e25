// expect: pad: a border cannot have -1 positions before and 0 after: [3x4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = pad<pad_attributes{.axis = 0, .before = -1}>(matrix<float, 3, 4>());
#else
  auto y = pad<pad_attributes{.axis = 0, .before = 1}>(matrix<float, 3, 4>());
#endif
}
