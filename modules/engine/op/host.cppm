// Operations that run on the host, between plans: control flow whose branches and iterations may give other extents, and
// values that are no tensors, sequences and optionals. Their subprograms run in sessions of their own, which keep plans.
export module lamina:op.host;
import :any_value;
import :core;
import :dtype;
import :host;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Which operands stand before the carries, and how many of these there are.
struct host_loop_attributes {
  bool trips = false, condition = false;
  std::int64_t carries = 0;
  static constexpr void members(auto& a, auto&& f) {
    f("trips", a.trips), f("condition", a.condition), f("carries", a.carries);
  }
  bool operator==(const host_loop_attributes&) const = default;
};
/// What stands for the tensors that are not there.
struct empty_attributes {
  dtype element = dtype::float32;
  shape dims;
  bool sequence = false;  // of an optional
  static constexpr void members(auto& a, auto&& f) {
    f("element", a.element), f("dims", a.dims), f("sequence", a.sequence);
  }
  bool operator==(const empty_attributes&) const = default;
};
/// How a sequence is joined.
struct concat_sequence_attributes {
  std::int64_t axis = 0;
  bool new_axis = false;  ///< tensors are stacked along a new axis
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("new_axis", a.new_axis); }
  bool operator==(const concat_sequence_attributes&) const = default;
};
/// How a tensor is split.
struct split_to_sequence_attributes {
  std::int64_t axis = 0;
  bool keepdims = true;  ///< of parts of one position, where no sizes are given
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("keepdims", a.keepdims); }
  bool operator==(const split_to_sequence_attributes&) const = default;
};

namespace detail {
constexpr bool is_sequence(const tensor_type& t, inference& out) {
  if (t.kind == value_kind::sequence) return true;
  out.of_elements = true;
  out.why << "a sequence is expected";
  return false;
}
constexpr bool is_tensor(const tensor_type& t, inference& out) {
  if (t.is_tensor()) return true;
  out.of_elements = true;
  out.why << "a tensor is expected";
  return false;
}
constexpr bool is_one_integer(const tensor_type& t, inference& out) {
  if (!is_tensor(t, out)) return false;
  if (t.element != dtype::int64 && t.element != dtype::int32) {
    out.refuse(t.element, "a position of int32 or int64", "std::int64_t");
    return false;
  }
  if (t.dims.rank == 0 || (t.dims.rank == 1 && may_equal(t.dims[0], 1))) return true;
  out.why << "the position is not one number";
  return false;
}
// That a tensor may stand in a sequence.
constexpr bool is_element(const tensor_type& sequence, const tensor_type& t, inference& out) {
  if (!is_tensor(t, out)) return false;
  if (t.element != sequence.element) {
    out.of_elements = true;
    out.why << "the element types differ; cast one of them";
    return false;
  }
  if (t.dims.rank == sequence.dims.rank) return true;
  out.why << "the ranks differ, and tensors of a sequence have one rank";
  return false;
}
constexpr bool is_optional(const tensor_type& t) {
  return t.kind == value_kind::optional || t.kind == value_kind::optional_sequence;
}
}  // namespace detail

namespace op {
/// Results are those of the first subprogram where operand 0 is true, else those of the second.
struct host_cond {
  static constexpr std::string_view name = "host_cond";
  static constexpr int operands = -1, subprograms = 2;
  static constexpr bool takes_kinds = true, results_vary = true, may_fail = true;
  static std::string_view subprogram_name(int s) { return s == 0 ? "if true" : "if false"; }
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference&) {}
  static void inside(const void* attributes, std::vector<tensor_type>& in, text& why);
  static void run(host_call&);
};
/// Results are the carries after the last iteration, then what each iteration gives, stacked along a new first axis.
struct host_loop {
  static constexpr std::string_view name = "host_loop";
  static constexpr int operands = -1, subprograms = 1;
  static constexpr bool takes_kinds = true, may_fail = true;
  static std::string_view subprogram_name(int) { return "each iteration"; }
  using attributes = host_loop_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference&) {}
  static void inside(const void* attributes, std::vector<tensor_type>& in, text& why);
  static void outside(const void* attributes, view<const tensor_type> in, std::vector<tensor_type>& results, text& why);
  static void run(host_call&);
};
/// Results are sequences of what the subprogram gives for each position of the operands that are sequences.
struct sequence_map {
  static constexpr std::string_view name = "sequence_map";
  static constexpr int operands = -1, subprograms = 1;
  static constexpr bool takes_kinds = true, may_fail = true;
  static std::string_view subprogram_name(int) { return "each tensor"; }
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference&) {}
  static void inside(const void* attributes, std::vector<tensor_type>& in, text& why);
  static void outside(const void* attributes, view<const tensor_type> in, std::vector<tensor_type>& results, text& why);
  static void run(host_call&);
};
struct sequence_of {
  static constexpr std::string_view name = "sequence_of";
  static constexpr int operands = -1;
  static constexpr bool takes_kinds = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
    for (const auto& t : in) {
      if (!detail::is_element(in[0], t, out)) return;
      s = common_extents(s, t.dims);
    }
    out.result(in[0].element, s, value_kind::sequence);
  }
  static void run(host_call&);
};
struct sequence_empty {
  static constexpr std::string_view name = "sequence_empty";
  static constexpr int operands = 0;
  static constexpr bool takes_kinds = true;
  using attributes = empty_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type>, inference& out) {
    out.result(a.element, a.dims, value_kind::sequence);
  }
  static void run(host_call&);
};
/// Operands: a sequence, a tensor, and where three are given the position of the tensor.
struct sequence_insert {
  static constexpr std::string_view name = "sequence_insert";
  static constexpr int operands = -1;
  static constexpr bool takes_kinds = true, may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (in.size() != 2 && in.size() != 3) {
      out.why << "a sequence, a tensor and at most a position are expected";
      return;
    }
    if (!detail::is_sequence(in[0], out) || !detail::is_element(in[0], in[1], out)) return;
    if (in.size() == 3 && !detail::is_one_integer(in[2], out)) return;
    out.result(in[0].element, common_extents(in[0].dims, in[1].dims), value_kind::sequence);
  }
  static void run(host_call&);
};
/// Operands: a sequence, and where two are given the position that is left out.
struct sequence_erase {
  static constexpr std::string_view name = "sequence_erase";
  static constexpr int operands = -1;
  static constexpr bool takes_kinds = true, may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (in.size() > 2) {
      out.why << "a sequence and at most a position are expected";
      return;
    }
    if (!detail::is_sequence(in[0], out) || (in.size() == 2 && !detail::is_one_integer(in[1], out))) return;
    out.result(in[0].element, in[0].dims, value_kind::sequence);
  }
  static void run(host_call&);
};
struct sequence_at {
  static constexpr std::string_view name = "sequence_at";
  static constexpr int operands = 2;
  static constexpr bool takes_kinds = true, may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::is_sequence(in[0], out) || !detail::is_one_integer(in[1], out)) return;
    out.result(in[0].element, in[0].dims);
  }
  static void run(host_call&);
};
struct sequence_length {
  static constexpr std::string_view name = "sequence_length";
  static constexpr int operands = 1;
  static constexpr bool takes_kinds = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (detail::is_sequence(in[0], out)) out.result(dtype::int64, {});
  }
  static void run(host_call&);
};
struct concat_sequence {
  static constexpr std::string_view name = "concat_sequence";
  static constexpr int operands = 1;
  static constexpr bool takes_kinds = true, may_fail = true;
  using attributes = concat_sequence_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (!detail::is_sequence(in[0], out)) return;
    const int rank = in[0].dims.rank + (a.new_axis ? 1 : 0), axis = detail::normal_axis(a.axis, rank);
    if (axis < 0 || rank > max_rank) {
      out.why << "axis " << a.axis << " of " << rank << " axes";
      return;
    }
    shape s;
    for (int i = 0, k = 0; i < rank; ++i) {
      s.push_back(i == axis ? dyn : in[0].dims[k]);
      if (i != axis || !a.new_axis) ++k;
    }
    out.result(in[0].element, s);
  }
  static void run(host_call&);
};
/// Operands: a tensor, and where two are given the size of each part, or that of all but the last.
struct split_to_sequence {
  static constexpr std::string_view name = "split_to_sequence";
  static constexpr int operands = -1;
  static constexpr bool takes_kinds = true, may_fail = true;
  using attributes = split_to_sequence_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (in.size() > 2) {
      out.why << "a tensor and at most the sizes of its parts are expected";
      return;
    }
    if (!detail::is_tensor(in[0], out)) return;
    const int axis = detail::normal_axis(a.axis, in[0].dims.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " of " << in[0].dims.rank << " axes";
      return;
    }
    if (in.size() == 2) {
      if (!detail::is_tensor(in[1], out)) return;
      if (in[1].element != dtype::int64 && in[1].element != dtype::int32) {
        out.refuse(in[1].element, "sizes of int32 or int64", "std::int64_t");
        return;
      }
      if (in[1].dims.rank > 1) {
        out.why << "the sizes are one number or a vector of them";
        return;
      }
    }
    shape s;
    for (int i = 0; i < in[0].dims.rank; ++i) {
      if (i != axis) s.push_back(in[0].dims[i]);
      else if (in.size() == 2) s.push_back(dyn);
      else if (a.keepdims) s.push_back(1);
    }
    out.result(in[0].element, s, value_kind::sequence);
  }
  static void run(host_call&);
};
struct optional_of {
  static constexpr std::string_view name = "optional_of";
  static constexpr int operands = 1;
  static constexpr bool takes_kinds = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (detail::is_optional(in[0])) {
      out.of_elements = true;
      out.why << "an optional holds a tensor or a sequence";
      return;
    }
    out.result(in[0].element, in[0].dims, in[0].is_tensor() ? value_kind::optional : value_kind::optional_sequence);
  }
  static void run(host_call&);
};
struct optional_none {
  static constexpr std::string_view name = "optional_none";
  static constexpr int operands = 0;
  static constexpr bool takes_kinds = true;
  using attributes = empty_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type>, inference& out) {
    out.result(a.element, a.dims, a.sequence ? value_kind::optional_sequence : value_kind::optional);
  }
  static void run(host_call&);
};
struct optional_has_value {
  static constexpr std::string_view name = "optional_has_value";
  static constexpr int operands = 1;
  static constexpr bool takes_kinds = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type>, inference& out) {
    out.result(dtype::boolean, {});
  }
  static void run(host_call&);
};
struct optional_value {
  static constexpr std::string_view name = "optional_value";
  static constexpr int operands = 1;
  static constexpr bool takes_kinds = true, may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    const bool list = in[0].kind == value_kind::sequence || in[0].kind == value_kind::optional_sequence;
    out.result(in[0].element, in[0].dims, list ? value_kind::sequence : value_kind::tensor);
  }
  static void run(host_call&);
};
}  // namespace op

using host_operations =
    operation_list<op::concat_sequence, op::host_cond, op::host_loop, op::optional_has_value, op::optional_none,
                   op::optional_of, op::optional_value, op::sequence_at, op::sequence_empty, op::sequence_erase,
                   op::sequence_insert, op::sequence_length, op::sequence_map, op::sequence_of, op::split_to_sequence>;
template <Operation Op> requires host_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

// ---- control flow ---------------------------------------------------------------------------------------------------
//
// These operations run between plans: a program that has some is run by a session, in segments. They have no gradient.
// Their subprograms may count extents when they run, and have such operations themselves.

/// Runs one of two programs on the operands, as a predicate decides. Results of the two may differ in extents (ONNX If);
/// `cond` is the faster one where they do not.
/// Shapes:  the predicate is bool of one element; both programs take the operands and give results of the same kinds, element types
///          and ranks. Extents of the results: those that both give, else known only in a run.
/// Errors:  shape_error, type_error where the predicate, the operands or the results do not fit; state_error for a program with
///          states; value_error for a wrong number of operands or results.
export std::vector<value> host_cond(const value& predicate, std::shared_ptr<const program> then,
                                    std::shared_ptr<const program> otherwise, view<const value> operands,
                                    const origin& = {});

/// How often a `host_loop` runs: as often as `trips` says, an int64 of one element, and while the condition holds, which begins as
/// `condition`, a bool of one element. An empty one says nothing; one of them is given.
export struct host_loop_bounds {
  value trips{}, condition{};
};
/// Runs a program again and again (ONNX Loop). Carries may be sequences and optionals, and may change extents from iteration to
/// iteration where the program's inputs leave them open.
/// Shapes:  the program's inputs are the number of the iteration, int64 [], the condition, bool [], the carries, the invariants;
///          its outputs the condition for the next iteration, bool of one element, the next carries, and what each iteration gives,
///          [...]. Results: the carries after the last iteration, then [n, ...] for each of the others; after no iteration
///          [0, ...], with 0 for extents that are not known.
/// Errors:  those of `host_cond`; value_error without bounds, and where a run finds that iterations give different extents.
export std::vector<value> host_loop(const host_loop_bounds& bounds, std::shared_ptr<const program> body,
                                    view<const value> carries, view<const value> invariants = {}, const origin& = {});

/// Runs a program for each position of sequences of one length (ONNX SequenceMap). Operands that are tensors are the same each
/// time; the first operand is a sequence. Results: sequences of the program's results.
/// Errors:  those of `host_cond`; value_error where a run finds that lengths differ.
export std::vector<value> sequence_map(std::shared_ptr<const program> body, view<const value> operands,
                                       const origin& = {});

// ---- sequences ------------------------------------------------------------------------------------------------------
//
// Tensors of a sequence share memory with those that went into it. They have one element type and one rank; extents may
// differ. Positions are int32 or int64 values of one element, negative ones count from the end.

/// A sequence of tensors.   Errors: unsupported_error for tensors of different ranks; type_error.
export value sequence_of(view<const value> tensors, const origin& = {});
/// A sequence without tensors, for tensors of this element type and shape; `dyn` stands for extents that are open.
export value sequence_empty(program& owner, const tensor_type& of, const origin& = {});
/// The sequence with one more tensor, at its end or before a position, which may be its length.
/// Errors: value_error where a run finds the position outside, as of what follows; type_error, shape_error.
export value sequence_insert(const value& sequence, const value& tensor, const origin& = {});
export value sequence_insert(const value& sequence, const value& tensor, const value& position, const origin& = {});
/// The sequence without its last tensor, or that at a position.
export value sequence_erase(const value& sequence, const origin& = {});
export value sequence_erase(const value& sequence, const value& position, const origin& = {});
/// The tensor at a position.
export value sequence_at(const value& sequence, const value& position, const origin& = {});
/// How many tensors there are.   -> int64 [].
export value sequence_length(const value& sequence, const origin& = {});
/// The tensors side by side along an axis, or stacked along a new one (ONNX ConcatFromSequence).
/// Shapes: of [2, 3] and [4, 3] axis 0 -> [6, 3].   Errors: value_error where a run finds no tensor, or other extents that differ.
export value concat_sequence(const value& sequence, concat_sequence_attributes a = {}, const origin& = {});
/// The parts of a tensor along an axis (ONNX SplitToSequence): of one position each; or of so many as an int32 or int64 number
/// says, the last one of what is left; or of as many as each element of a vector says.
/// Errors: value_error where a run finds sizes that are not those of the axis.
export value split_to_sequence(const value& x, split_to_sequence_attributes a = {}, const origin& = {});
export value split_to_sequence(const value& x, const value& sizes, split_to_sequence_attributes a = {},
                               const origin& = {});

// ---- optionals ------------------------------------------------------------------------------------------------------

/// An optional that holds a tensor or a sequence.
export value optional_of(const value& x, const origin& = {});
/// An optional without a value, of a tensor or a sequence of this type.   Errors: type_error for the type of an optional.
export value optional_none(program& owner, const tensor_type& of, const origin& = {});
/// Whether it holds one; true for what is no optional.   -> bool [].
export value optional_has_value(const value& x, const origin& = {});
/// What it holds; itself for what is no optional.   Errors: value_error where a run finds nothing.
export value optional_value(const value& x, const origin& = {});

}  // namespace lamina
