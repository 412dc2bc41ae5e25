// expect: the operation again_op lacks `static constexpr std::string_view name`
#include <string_view>
import lamina;
using namespace lamina;

struct again_op {
#ifndef BAD
  static constexpr std::string_view name = "same_again";
#endif
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
