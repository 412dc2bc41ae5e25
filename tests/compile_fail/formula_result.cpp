// expect: formula: the last argument takes the result, so it must be a tensor that stays and can be written
import lamina;
using namespace lamina;

matrix<float> x, w, out;

void use() {
  auto f = formula([](const auto& a, const auto& b) { return matmul(a, b); });
#ifdef BAD
  f(x, w, matrix<float>(2, 2));
#else
  f(x, w, out);
#endif
}
