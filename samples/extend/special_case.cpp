// Two new special cases of a library operation: one applied when a plan is made, one selected by type at compile time.
#include <iostream>
import lamina;
using namespace lamina;

// ---- the extension
/// sqrt(x * x) is |x|, also if x * x overflows.
ir::value root_of_square(const special_call& c) {
  ir::value x = c.through(0, "square");
  return x.empty() ? ir::value() : ir::value(abs(x));
}
// The same rule for typed expressions, applied at compile time.
template <class A, class B, class X> struct lamina::typed_case<expression<op::sqrt, A, expression<op::square, B, X>>> {
  static auto rewrite(const auto& e) { return abs(e.operands.template get<0>().operands.template get<0>()); }
};
// ---- its use

int main() {
  vector<float> x{-3e30f, 4};
  auto y = sqrt(square(x));  // typed expressions: already rewritten to abs(x)
  std::cout << evaluate(y) << "\n";

  dynamic<float, 1> behind = square(x);  // the type hides the expression, so the case applies to the plan
  context where(1, target_isa());
  std::cout << evaluate(sqrt(behind), where);
  add_case(where, {"sqrt", &root_of_square});
  std::cout << " " << evaluate(sqrt(behind), where) << "\n";

  ir::program p;  // values of a program; the case is an option of its plan
  p.output("y", ir::value(sqrt(square(p.input("x", {dtype::float32, {2}})))));
  const shape extents[] = {{2}};
  std::cout << make_plan(p, extents, target_isa())->lines()[0].what << ", "
            << make_plan(p, extents, target_isa(), {.cases = {{"sqrt", &root_of_square}}})->lines()[0].what << "\n";
}
