// Variables and results of expressions.
import lamina;
using namespace lamina;

// case: var_expression
// expect: the variable `w` got an expression; expected a tensor: use var<...>(evaluate(x))
// within: 13 lines
auto var_expression(const matrix<float>& x) {
#ifdef BAD
  return var<"w">(x * 2);
#else
  return var<"w">(evaluate(x * 2));
#endif
}

// case: var_number
// expect: the variable `w` got `float`; expected a tensor
// within: 13 lines
auto var_number(float x) {
#ifdef BAD
  return var<"w">(x);
#else
  return var<"w">(tensor<float, extents<>>(x));
#endif
}

// case: expression_as_tensor
// expect: call_evaluate
matrix<float> expression_as_tensor(const matrix<float>& x) {
#ifdef BAD
  matrix<float> y = x + x;
#else
  matrix<float> y = evaluate(x + x);
#endif
  return y;
}

// case: evaluate_count
// within: 14 lines
// expect: evaluate: 13 expressions; at most 12 are computed together
namespace evaluate_count {
vector<float> x;
#ifdef BAD
auto all = evaluate(x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9, x + 10, x + 11, x + 12);
#else
auto all = evaluate(x, x + 1, x + 2, x + 3, x + 4, x + 5, x + 6, x + 7, x + 8, x + 9, x + 10, x + 11);
#endif
}  // namespace evaluate_count
