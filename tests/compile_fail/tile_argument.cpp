// expect: of a typed operand the rank of the result is to stand in the call: write `tile(x, {2, 1})`
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = tile(matrix<float, 3, 4>(), shape{2, 1});
#else
  auto y = tile(matrix<float, 3, 4>(), {2, 1});
#endif
}
