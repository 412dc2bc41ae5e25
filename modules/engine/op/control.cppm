// Operations with subprograms. `call` runs a program on its operands, `scan` once for each position of a sequence; their
// gradients are calls and scans of the gradient program.
export module lamina:op.control;
import :core;
import :dtype;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// What the operands of a scan are: first the carries, then the sequences; the rest are the same in every turn.
export struct scan_attributes {
  std::int64_t carries = 0, sequences = 1;
  bool reverse = false;
  static constexpr void members(auto& a, auto&& f) { f("carries", a.carries), f("sequences", a.sequences), f("reverse", a.reverse); }
  bool operator==(const scan_attributes&) const = default;
};

namespace op {
/// Results are the outputs of the subprogram; the planner puts its nodes in place of the call.
export struct call {
  static constexpr std::string_view name = "call";
  static constexpr int operands = -1, subprograms = 1;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference&) {}
  static void gradient(gradient_call&);
};
/// Results are the carries after the last turn, then what each turn gives, stacked along a new first axis. The planner
/// makes one plan of the subprogram, which runs in a part of the plan's memory once a turn, whatever the length.
export struct scan {
  static constexpr std::string_view name = "scan";
  static constexpr int operands = -1, subprograms = 1;
  using attributes = scan_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference&) {}
  static void inside(const void* attributes, std::vector<tensor_type>& in, text& why);
  static void outside(const void* attributes, view<const tensor_type> in, std::vector<tensor_type>& results, text& why);
  static void gradient(gradient_call&);
};
}  // namespace op

/// Calls a pure program: one value for each of its outputs.   Errors: shape_error where an operand does not fit an input.
export std::vector<value> call(std::shared_ptr<const program> subprogram, view<const value> operands);

/// The gradient of an operation that computes what `forward` says: for rules that state no formula of their own.
export void gradient_of_call(gradient_call& c, const program& forward);

/// Runs a program once for each position of sequences, in order or from the last position to the first.
/// Shapes:  sequences [T, ...] of one length T; the program's inputs are the carries, the sequences without their first
///          axis, and the invariants; its outputs are the next carries, of the same types, and what each turn gives, [...].
///          Results: the carries after the last turn, then [T, ...] for each of the others, at the positions of their turns.
/// Errors:  shape_error where lengths differ or a carry would change its type; state_error for a program with states.
export std::vector<value> scan(std::shared_ptr<const program> turn, view<const value> carries, view<const value> sequences,
                               view<const value> invariants, bool reverse = false);

}  // namespace lamina
