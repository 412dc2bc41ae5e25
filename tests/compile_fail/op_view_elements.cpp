// expect: seen: a view of operand 0 cannot be float32[5]: [4]
#include <string_view>
import lamina;
using namespace lamina;

struct seen_op {
  static constexpr std::string_view name = "seen";
  static constexpr int operands = 1, alias = 0;
  using attributes = no_attributes;
#ifdef BAD
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, {5});
  }
#else
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, {2, 2});
  }
#endif
};
void use(const tensor<float, extents<4>>& x) { auto y = apply<seen_op>({}, x); }
