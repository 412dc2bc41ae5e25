// Gradients that do not exist.
#include <string_view>
import lamina;
using namespace lamina;

// case: gradient_no_rule
// expect: opaque: this operation has no gradient, and the variable `w` feeds it; its definition lacks `static void gradient(gradient_call&)`
namespace gradient_no_rule {
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
}  // namespace gradient_no_rule

// case: gradient_two_types
// expect: two variables are named `w`: float32[3] and float32[4]; give each its own name
void gradient_two_types() {
  tensor<float, extents<3>> a;
  tensor<float, extents<4>> b;
#ifdef BAD
  auto g = gradient<"w">(reduce_sum(var<"w">(a)) * reduce_sum(var<"w">(b)));
#else
  auto g = gradient<"w">(reduce_sum(var<"w">(a)) * reduce_sum(var<"v">(b)));
#endif
}

// case: gradient_unknown_variable
// expect: the expression has no variable named `v`
namespace gradient_unknown_variable {
matrix<float, 3, 4> w;

void use() {
#ifdef BAD
  auto y = gradient<"v">(reduce_sum(var<"w">(w)));
#else
  auto y = gradient<"w">(reduce_sum(var<"w">(w)));
#endif
}
}  // namespace gradient_unknown_variable

// case: gradcheck_operands
// expect: gradcheck: a layer takes one operand for each of its input ports
void gradcheck_operands(const matrix<double>& x) {
#ifdef BAD
  gradcheck(nn::linear{.in_features = 3, .out_features = 2}, x, x);
#else
  gradcheck(nn::linear{.in_features = 3, .out_features = 2}, x);
#endif
}
