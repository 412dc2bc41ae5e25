// Operations with subprograms. `call` runs a program on its operands, `cond` one of two programs, `scan` one program
// for each position of a sequence; their gradients are calls, conds and scans of the gradient program. `loop` is a scan
// of conds. `in_training` is a choice that is resolved when a program is derived from another one.
export module lamina:op.control;
import :core;
import :dtype;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Layout of a scan's operands: first the carries, then the sequences; the rest are loop-invariant.
struct scan_attributes {
  std::int64_t carries = 0, sequences = 1;
  bool reverse = false;
  static constexpr void members(auto& a, auto&& f) {
    f("carries", a.carries), f("sequences", a.sequences), f("reverse", a.reverse);
  }
  bool operator==(const scan_attributes&) const = default;
};

namespace op {
/// Results are the outputs of the subprogram; the planner inlines its nodes.
struct call {
  static constexpr std::string_view name = "call";
  static constexpr int operands = -1, subprograms = 1;
  static constexpr bool takes_kinds = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference&) {}
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Results: the carries after the last iteration, then the per-iteration outputs, stacked along a new first axis. The
/// planner makes one plan of the subprogram, which runs in a region of the outer plan's memory, whatever the length.
struct scan {
  static constexpr std::string_view name = "scan";
  static constexpr int operands = -1, subprograms = 1;
  static std::string_view subprogram_name(int) { return "each iteration"; }
  using attributes = scan_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference&) {}
  static void inside(const void* attributes, std::vector<tensor_type>& in, text& why);
  static void outside(const void* attributes, view<const tensor_type> in, std::vector<tensor_type>& results, text& why);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void map_axis(const attributes&, axis_map&);
};
/// Results are those of the first subprogram where operand 0 is true, else those of the second; the other does not run.
/// The planner makes a plan of each, which runs in a region of the outer plan's memory.
struct cond {
  static constexpr std::string_view name = "cond";
  static constexpr int operands = -1, subprograms = 2;
  static std::string_view subprogram_name(int s) { return s == 0 ? "if true" : "if false"; }
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference&) {}
  static void inside(const void* attributes, std::vector<tensor_type>& in, text& why);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// The first operand in training, the second at inference. A program that runs as it is uses the first; an inference
/// program derived from it uses the second.
struct in_training {
  static constexpr std::string_view name = "in_training";
  static constexpr int operands = 2, alias = 0;
  static constexpr auto identity = identity_rule::always;
  static constexpr unsigned shape_only = 2;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using control_operations = operation_list<op::call, op::cond, op::in_training, op::scan>;
template <Operation Op> requires control_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

/// Calls a pure program: one value per output.   Errors: shape_error where an operand does not fit an input.
export std::vector<value> call(std::shared_ptr<const program> subprogram, view<const value> operands,
                               const origin& = {});

/// Gradient of an operation that computes what `forward` computes: for operations without their own gradient formula.
void gradient_of_call(gradient_call& c, const program& forward);

/// Runs a program once for each position of the sequences, in forward or reverse order.
/// Shapes:  sequences [T, ...] of one length T; the program's inputs are the carries, the sequences without their first
///          axis, and the invariants; its outputs are the next carries, of the same types, and others, [...].
///          Results: the carries after the last iteration, then the others stacked, [T, ...], in position order.
/// Errors:  shape_error where lengths differ or a carry would change its type; state_error for a program with states.
export std::vector<value> scan(std::shared_ptr<const program> body, view<const value> carries,
                               view<const value> sequences, view<const value> invariants, bool reverse = false,
                               const origin& = {});

/// Runs one of two programs on the operands, chosen by a predicate computed in the same run; the other costs nothing.
/// Shapes:  the predicate is bool of one element; both programs take the operands and give results of the same types. At least
///          one operand.
/// Gradient: that of the chosen program, zero for operands that it does not read; its forward values are recomputed.
/// Errors:  unsupported_error for a program with a data-dependent shape (`non_zero`, `unique`, ...), as for `loop` and
///          `scan`; shape_error, type_error where the predicate, the operands or the results do not fit; state_error
///          for a program with states; value_error for a wrong number of operands or results.
export std::vector<value> cond(const value& predicate, std::shared_ptr<const program> then,
                               std::shared_ptr<const program> otherwise, view<const value> operands,
                               const origin& = {});

/// Runs a program repeatedly while a predicate holds, at most `max` times.
/// Shapes:  the program's inputs are the carries, then the invariants; its outputs are the predicate for the next
///          iteration, bool [], and the next carries, of the same types. Results: the carries after the last iteration;
///          the initial ones where `first` is false.
/// Gradient: that of a `scan` over `max` iterations, in which iterations after the last one pass gradients through;
///          memory in training grows with `max`.
/// Errors:  value_error for `max` below 1 or a wrong number of operands; those of `scan` and `cond`.
export std::vector<value> loop(std::int64_t max, const value& first, std::shared_ptr<const program> body,
                               view<const value> carries, view<const value> invariants = {}, const origin& = {});

}  // namespace lamina
