// expect: of a typed operand they stand in the type: `tile<2, 1>(x)`; here they are an argument
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = tile(matrix<float, 3, 4>(), {2, 1});
#else
  auto y = tile<2, 1>(matrix<float, 3, 4>());
#endif
}
