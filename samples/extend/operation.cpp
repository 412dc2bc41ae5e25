// A new operation: a kernel in plain C++, a type rule, and a gradient composed of operations.
#include <cmath>
#include <iostream>
#include <string_view>
import lamina;
using namespace lamina;

// ---- the extension
struct squareplus_arguments {
  const float* in;
  float* out;
  std::int64_t count;
};
void run_squareplus(const void* arguments, void*) noexcept {
  const auto& a = *static_cast<const squareplus_arguments*>(arguments);
  for (std::int64_t i = 0; i < a.count; ++i) a.out[i] = (a.in[i] + std::sqrt(a.in[i] * a.in[i] + 4)) / 2;
}
struct squareplus_op {
  static constexpr std::string_view name = "squareplus";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (in[0].element != dtype::float32) out.refuse(in[0].element, "float32", "float");
    else out.result(in[0].element, in[0].dims);
  }
  static void gradient(gradient_call& c) {
    c(0, [&] { return c.gradient() * c.result() / sqrt(square(c(0)) + 4); });
  }
  static void emit(emission& e) {
    squareplus_arguments a{nullptr, nullptr, e.in_type(0).dims.size()};
    e.step(&run_squareplus, a, {{&a.in, e.in(0)}, {&a.out, e.out(0)}});
  }
};
/// (x + sqrt(x^2 + 4)) / 2, a ReLU without a kink.   Shapes: any.   Types: float32.
template <Symbolic X> requires Applicable<squareplus_op, X> constexpr auto squareplus(const X& x) {
  return apply<squareplus_op>({}, x);
}
// ---- its use

int main() {
  vector<float> x{-1.5, 0, 1.5};  // typed expressions
  auto y = squareplus(var<"x">(x));
  auto [value_of_y, slope] = evaluate(y * 2, gradient<"x">(y));
  std::cout << value_of_y << " " << slope << "\n";

  ir::program p;  // values of a program
  ir::value in = p.input("x", {dtype::float32, {"N"}}), out = squareplus(in);
  p.output("y", out);
  p.output("slope", gradients(out, {&in, 1})[0]);
  std::cout << p.dump();
}
