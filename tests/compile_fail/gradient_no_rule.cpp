// expect: opaque: this operation has no gradient, and the variable `w` stands behind it; its definition lacks `static void gradient(gradient_call&)`
#include <string_view>
import lamina;
using namespace lamina;

struct opaque {
  static constexpr std::string_view name = "opaque";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};

auto use(const matrix<float>& x) {
#ifdef BAD
  return gradient<"w">(sum(apply<opaque>({}, var<"w">(x)) * x));
#else
  return gradient<"w">(sum(stop_gradient(apply<opaque>({}, var<"w">(x))) * var<"w">(x)));
#endif
}
