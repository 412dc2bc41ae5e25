// expect: deep: its `infer` gives result 0 the rank 9 and the element type 0; ranks are 0..8, element types 0..9: [4]
#include <string_view>
import lamina;
using namespace lamina;

struct deep_op {
  static constexpr std::string_view name = "deep";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
#ifdef BAD
    s.rank = 9;
#endif
    out.result(in[0].element, s);
  }
};
void use(const tensor<float, extents<4>>& x) { auto y = apply<deep_op>({}, x); }
