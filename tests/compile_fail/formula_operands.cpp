// expect: formula: its function cannot be called with these operands, nor with all but the last of them
import lamina;
using namespace lamina;

matrix<float> x, w;

void use() {
  auto f = formula([](const auto& a, const auto& b) { return matmul(a, b); });
#ifdef BAD
  f(x);
#else
  f(x, w);
#endif
}
