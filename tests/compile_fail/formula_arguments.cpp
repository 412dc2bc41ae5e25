// expect: formula: the arguments are operands, numbers, and a tensor for the result
import lamina;
using namespace lamina;

matrix<float> x;

void use() {
  auto f = formula([](const auto& a, const auto& b) { return a + b; });
#ifdef BAD
  f(x, nullptr);
#else
  f(x, 1);
#endif
}
