// Formulas called with operands that do not fit.
import lamina;
using namespace lamina;

// case: formula_arguments
// expect: formula: the arguments are operands, numbers, and a tensor for the result
namespace formula_arguments {
matrix<float> x;

void use() {
  auto f = formula([](const auto& a, const auto& b) { return a + b; });
#ifdef BAD
  f(x, nullptr);
#else
  f(x, 1);
#endif
}
}  // namespace formula_arguments

// case: formula_operands
// expect: formula: its function cannot be called with these operands, nor with all but the last of them
namespace formula_operands {
matrix<float> x, w;

void use() {
  auto f = formula([](const auto& a, const auto& b) { return matmul(a, b); });
#ifdef BAD
  f(x);
#else
  f(x, w);
#endif
}
}  // namespace formula_operands

// case: formula_result
// expect: formula: the last argument takes the result, so it must be a tensor lvalue that is not const
namespace formula_result {
matrix<float> x, w, out;

void use() {
  auto f = formula([](const auto& a, const auto& b) { return matmul(a, b); });
#ifdef BAD
  f(x, w, matrix<float>(2, 2));
#else
  f(x, w, out);
#endif
}
}  // namespace formula_result

// case: formula_result_number
// expect: formula: the last argument takes the result, so it must be a tensor"
namespace formula_result_number {
matrix<float> x, y;

void use() {
  auto f = formula([](const auto& a) { return a + a; });
#ifdef BAD
  f(x, 1);
#else
  f(x, y);
#endif
}
}  // namespace formula_result_number
