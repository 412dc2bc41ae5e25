// Values that are not operands, where an operand is expected.
// within: 13 lines
import lamina;
using namespace lamina;

void use(const matrix<float>& a, eval_plan& plan) {
#ifdef BAD
  // expect below: `int` is not an operand; expected a tensor, expression or value of a program, or a number beside one
  plan.add(3);
#else
  plan.add(a + 3);
#endif
#ifdef BAD
  // expect below: `int` is not an operand
  auto equal = same(a, 3);
#else
  auto equal = same(a, a);
#endif
#ifdef BAD
  // expect below: `double` is not an operand; expected a tensor, expression or value of a program, or a number beside one; a number alone is `filled(number)`
  auto any = make_dynamic(3.0);
#else
  auto any = make_dynamic(filled(3.0));
#endif
#ifdef BAD
  // expect below: `char[2]` is not an operand
  auto power = pow(a, "2");
#else
  auto power = pow(a, 2);
#endif
#ifdef BAD
  // expect below: `int` is not an operand
  auto number = evaluate(3);
#else
  auto number = evaluate(filled(3));
#endif
}
