// expect: seen: it is a view of operand 1, and has 1: [4]
#include <string_view>
import lamina;
using namespace lamina;

struct seen_op {
  static constexpr std::string_view name = "seen";
#ifdef BAD
  static constexpr int operands = 1, alias = 1;
#else
  static constexpr int operands = 1, alias = 0;
#endif
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
void use(const tensor<float, extents<4>>& x) { auto y = apply<seen_op>({}, x); }
