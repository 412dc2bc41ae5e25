// expect: attention: keys and values differ in number: [3x4] [5x4] [6x7]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = attention(matrix<float, 3, 4>(), matrix<float, 5, 4>(), matrix<float, 6, 7>());
#else
  auto y = attention(matrix<float, 3, 4>(), matrix<float, 5, 4>(), matrix<float, 5, 7>());
#endif
}
