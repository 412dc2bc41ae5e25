// Operations with subprograms. `call` runs a program on its operands; its gradient is a call of the gradient program.
export module lamina:op.control;
import :core;
import :dtype;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace op {
/// Results are the outputs of the subprogram; the planner puts its nodes in place of the call.
export struct call {
  static constexpr std::string_view name = "call";
  static constexpr int operands = -1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference&) {}
  static void gradient(gradient_call&);
};
}  // namespace op

/// Calls a pure program: one value for each of its outputs.   Errors: shape_error where an operand does not fit an input.
export std::vector<value> call(std::shared_ptr<const program> subprogram, view<const value> operands);

}  // namespace lamina
