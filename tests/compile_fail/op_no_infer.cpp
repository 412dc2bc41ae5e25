// expect: the operation again_op lacks `static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out)`
#include <string_view>
import lamina;
using namespace lamina;

struct again_op {
  static constexpr std::string_view name = "same_again";
  static constexpr int operands = 1;
  using attributes = no_attributes;
#ifndef BAD
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
#endif
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
