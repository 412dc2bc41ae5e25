// expect: formula: the last argument takes the result, so it must be a tensor"
import lamina;
using namespace lamina;

matrix<float> x, y;

void use() {
  auto f = formula([](const auto& a) { return a + a; });
#ifdef BAD
  f(x, 1);
#else
  f(x, y);
#endif
}
