// expect: the operation again_op lacks `static void gradient(gradient_call&)`: its `gradient` is declared otherwise
#include <string_view>
import lamina;
using namespace lamina;

struct again_op {
  static constexpr std::string_view name = "same_again";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) { out.result(in[0].element, in[0].dims); }
#ifdef BAD
  static value gradient(gradient_call& c) { return c.gradient(); }
#else
  static void gradient(gradient_call& c) { c(0, [&] { return c.gradient(); }); }
#endif
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
