// expect: scale: attributes that are known at run time are those of values of a program; on typed operands they stand in the type, as in apply_fixed<op, attributes>(x), or the operation says in `static constexpr shape static_shape(view<const tensor_type>)` what extents are then known
#include <string_view>
import lamina;
using namespace lamina;

struct scale_attributes {
  double by = 1;
  static constexpr void members(auto& a, auto&& f) { f("by", a.by); }
  bool operator==(const scale_attributes&) const = default;
};
struct scale_op {
  static constexpr std::string_view name = "scale";
  static constexpr int operands = 1;
  using attributes = scale_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};

auto use(const matrix<float>& x) {
#ifdef BAD
  return apply<scale_op>({2}, x);
#else
  return apply_fixed<scale_op, scale_attributes{2}>(x);
#endif
}
