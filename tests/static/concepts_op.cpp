// Truth tables of the concepts of engine/op.
import lamina;
import lamina.std;
using namespace lamina;

namespace concepts_of_op {

struct whole {
  static constexpr std::string_view name = "whole";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void emit(emission&) {}
};
struct no_name {
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void emit(emission&) {}
};
struct no_infer {
  static constexpr std::string_view name = "no_infer";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static void emit(emission&) {}
};
struct no_operands {
  static constexpr std::string_view name = "no_operands";
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void emit(emission&) {}
};

// Operation: a complete definition. tests/compile_fail/op/definition.cpp has the messages.
static_assert(Operation<whole>);
static_assert(Operation<op::add>);
static_assert(Operation<op::conv2d>);
static_assert(Operation<op::reduce_sum>);
static_assert(!Operation<no_name>);
static_assert(!Operation<no_infer>);
static_assert(!Operation<no_operands>);
static_assert(!Operation<int>);

using row = vector<float, 3>;
using rows = matrix<float, 2, 3>;
using sum_of_rows = decltype(rows() + rows());

// Symbolic: a tensor, an expression, or a value of a program.
static_assert(Symbolic<row>);
static_assert(Symbolic<const row&>);
static_assert(Symbolic<sum_of_rows>);
static_assert(Symbolic<ir::value>);
static_assert(Symbolic<dynamic<float, 2>>);
static_assert(!Symbolic<float>);
static_assert(!Symbolic<int>);
static_assert(!Symbolic<std::vector<float>>);
static_assert(!Symbolic<row*>);
static_assert(!Symbolic<nn::relu>);

// Operand: the same, or a number.
static_assert(Operand<row>);
static_assert(Operand<sum_of_rows&>);
static_assert(Operand<ir::value>);
static_assert(Operand<float>);
static_assert(Operand<const int&>);
static_assert(!Operand<std::string>);
static_assert(!Operand<std::vector<float>>);
static_assert(!Operand<row*>);
static_assert(!Operand<void>);

// Applicable: an operation and operands that it accepts, at least one of which is not a number.
static_assert(Applicable<op::add, rows, rows>);
static_assert(Applicable<op::add, rows, row>);
static_assert(Applicable<op::add, rows, matrix<float>>);
static_assert(Applicable<op::tanh, row>);
static_assert(Applicable<op::greater, rows, rows>);
static_assert(!Applicable<op::add, rows, matrix<float, 2, 2>>);
static_assert(!Applicable<op::add, rows, matrix<double, 2, 3>>);
static_assert(!Applicable<op::add, rows>);
static_assert(!Applicable<op::add, float, float>);
static_assert(!Applicable<op::tanh, vector<int, 3>>);
static_assert(!Applicable<op::greater, rows, vector<float, 2>>);

}  // namespace concepts_of_op
