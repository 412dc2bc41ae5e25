// expect: attention: queries and keys differ in depth: [3x4] [5x6] [5x6]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = attention(matrix<float, 3, 4>(), matrix<float, 5, 6>(), matrix<float, 5, 6>());
#else
  auto y = attention(matrix<float, 3, 4>(), matrix<float, 5, 4>(), matrix<float, 5, 6>());
#endif
}
