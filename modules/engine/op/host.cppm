// Operations that run on the host, between plans: control flow whose branches and iterations may give different
// extents, and values other than tensors: sequences and optionals. Each subprogram has its own session, with plans.
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

/// Which operands precede the carries, and the number of carries.
struct host_loop_attributes {
  bool trips = false, condition = false;
  std::int64_t carries = 0;
  static constexpr void members(auto& a, auto&& f) {
    f("trips", a.trips), f("condition", a.condition), f("carries", a.carries);
  }
  bool operator==(const host_loop_attributes&) const = default;
};
/// Type of the absent tensors of an empty sequence or optional.
struct empty_attributes {
  dtype element = dtype::float32;
  shape dims;
  bool sequence = false;  // an optional sequence
  static constexpr void members(auto& a, auto&& f) {
    f("element", a.element), f("dims", a.dims), f("sequence", a.sequence);
  }
  bool operator==(const empty_attributes&) const = default;
};
/// How a sequence is concatenated.
struct concat_sequence_attributes {
  std::int64_t axis = 0;
  bool new_axis = false;  ///< tensors are stacked along a new axis
  static constexpr void members(auto& a, auto&& f) { f("axis", a.axis), f("new_axis", a.new_axis); }
  bool operator==(const concat_sequence_attributes&) const = default;
};
/// How a tensor is split.
struct split_to_sequence_attributes {
  std::int64_t axis = 0;
  bool keepdims = true;  ///< for parts of one position, where no sizes are given
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
// Whether a tensor may be an element of a sequence.
constexpr bool is_element(const tensor_type& sequence, const tensor_type& t, inference& out) {
  if (!is_tensor(t, out)) return false;
  if (t.element != sequence.element) {
    out.of_elements = true;
    out.why << "the element types differ; cast one of them";
    return false;
  }
  if (t.dims.rank == sequence.dims.rank) return true;
  out.why << "the ranks differ; tensors of a sequence must have the same rank";
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
/// Results are the carries after the last iteration, then the per-iteration outputs, stacked along a new first axis.
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
/// Results are sequences of the subprogram's results, one element per position of the operands that are sequences.
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
/// Operands: a sequence, a tensor, and optionally the position of the tensor.
struct sequence_insert {
  static constexpr std::string_view name = "sequence_insert";
  static constexpr int operands = -1;
  static constexpr bool takes_kinds = true, may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (in.size() != 2 && in.size() != 3) {
      out.why << "expected a sequence, a tensor and an optional position";
      return;
    }
    if (!detail::is_sequence(in[0], out) || !detail::is_element(in[0], in[1], out)) return;
    if (in.size() == 3 && !detail::is_one_integer(in[2], out)) return;
    out.result(in[0].element, common_extents(in[0].dims, in[1].dims), value_kind::sequence);
  }
  static void run(host_call&);
};
/// Operands: a sequence, and optionally the position of the removed tensor.
struct sequence_erase {
  static constexpr std::string_view name = "sequence_erase";
  static constexpr int operands = -1;
  static constexpr bool takes_kinds = true, may_fail = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (in.size() > 2) {
      out.why << "expected a sequence and an optional position";
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
      out.why << "axis " << a.axis << " is outside the " << rank << " axes";
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
/// Operands: a tensor, and optionally the size of each part, or one size for all but the last.
struct split_to_sequence {
  static constexpr std::string_view name = "split_to_sequence";
  static constexpr int operands = -1;
  static constexpr bool takes_kinds = true, may_fail = true;
  using attributes = split_to_sequence_attributes;
  static constexpr void infer(const attributes& a, view<const tensor_type> in, inference& out) {
    if (in.size() > 2) {
      out.why << "expected a tensor and optional part sizes";
      return;
    }
    if (!detail::is_tensor(in[0], out)) return;
    const int axis = detail::normal_axis(a.axis, in[0].dims.rank);
    if (axis < 0) {
      out.why << "axis " << a.axis << " is outside the " << in[0].dims.rank << " axes";
      return;
    }
    if (in.size() == 2) {
      if (!detail::is_tensor(in[1], out)) return;
      if (in[1].element != dtype::int64 && in[1].element != dtype::int32) {
        out.refuse(in[1].element, "sizes of int32 or int64", "std::int64_t");
        return;
      }
      if (in[1].dims.rank > 1) {
        out.why << "the sizes must be one number or a vector";
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
// These operations run between plans: a session runs a program with any of them in segments. They have no gradient.
// Their subprograms may contain operations with data-dependent shapes, and such operations too.

/// Runs one of two programs on the operands, chosen by a predicate. Results of the two may differ in extents (ONNX If);
/// `cond` is faster where they do not.
/// Shapes:  the predicate is bool of one element; both programs take the operands and give results of the same kinds,
///          element types and ranks. Extents of the results: known where both programs agree, else known only in a run.
/// Errors:  shape_error, type_error where the predicate, the operands or the results do not fit; state_error for a program with
///          states; value_error for a wrong number of operands or results.
export std::vector<value> host_cond(const value& predicate, std::shared_ptr<const program> then,
                                    std::shared_ptr<const program> otherwise, view<const value> operands,
                                    const origin& = {});

/// Bounds of a `host_loop`: at most `trips` iterations, an int64 of one element, while a condition holds, whose initial
/// value is `condition`, a bool of one element. An empty bound does not limit; at least one must be given.
export struct host_loop_bounds {
  value trips{}, condition{};
};
/// Runs a program repeatedly (ONNX Loop). Carries may be sequences and optionals, and may change extents between
/// iterations where the program's inputs leave them open.
/// Shapes:  the program's inputs are the iteration number, int64 [], the condition, bool [], the carries, the
///          invariants; its outputs the condition for the next iteration, bool of one element, the next carries, and
///          per-iteration outputs [...]. Results: the carries after the last iteration, then [n, ...] for each of the
///          others; after no iteration [0, ...], with 0 for unknown extents.
/// Errors:  those of `host_cond`; value_error without bounds, and in a run where iterations give different extents.
export std::vector<value> host_loop(const host_loop_bounds& bounds, std::shared_ptr<const program> body,
                                    view<const value> carries, view<const value> invariants = {}, const origin& = {});

/// Runs a program for each position of sequences of one length (ONNX SequenceMap). Operands that are tensors are the
/// same each time; the first operand is a sequence. Results: sequences of the program's results.
/// Errors:  those of `host_cond`; value_error in a run with different lengths.
export std::vector<value> sequence_map(std::shared_ptr<const program> body, view<const value> operands,
                                       const origin& = {});

// ---- sequences ------------------------------------------------------------------------------------------------------
//
// Tensors of a sequence share memory with the inserted ones. They have one element type and one rank; extents may
// differ. Positions are int32 or int64 values of one element; negative ones count from the end.

/// A sequence of tensors.   Errors: unsupported_error for tensors of different ranks; type_error.
export value sequence_of(view<const value> tensors, const origin& = {});
/// A sequence without tensors, for tensors of this element type and shape; `dyn` marks open extents.
export value sequence_empty(program& owner, const tensor_type& of, const origin& = {});
/// Inserts a tensor at the end of a sequence or before a position, which may be its length.
/// Errors: value_error in a run with a position out of range, also for the functions below; type_error, shape_error.
export value sequence_insert(const value& sequence, const value& tensor, const origin& = {});
export value sequence_insert(const value& sequence, const value& tensor, const value& position, const origin& = {});
/// Removes the last tensor of a sequence, or the one at a position.
export value sequence_erase(const value& sequence, const origin& = {});
export value sequence_erase(const value& sequence, const value& position, const origin& = {});
/// The tensor at a position.
export value sequence_at(const value& sequence, const value& position, const origin& = {});
/// Number of tensors.   -> int64 [].
export value sequence_length(const value& sequence, const origin& = {});
/// Concatenates the tensors along an axis, or stacks them along a new one (ONNX ConcatFromSequence).
/// Shapes: of [2, 3] and [4, 3] axis 0 -> [6, 3].   Errors: value_error in a run without a tensor, or where other
/// extents differ.
export value concat_sequence(const value& sequence, concat_sequence_attributes a = {}, const origin& = {});
/// Splits a tensor along an axis (ONNX SplitToSequence): into parts of one position; or of a size given as an int32 or
/// int64 number, the last part with the remainder; or of the sizes given as a vector.
/// Errors: value_error in a run with sizes that do not match the axis.
export value split_to_sequence(const value& x, split_to_sequence_attributes a = {}, const origin& = {});
export value split_to_sequence(const value& x, const value& sizes, split_to_sequence_attributes a = {},
                               const origin& = {});

// ---- optionals ------------------------------------------------------------------------------------------------------

/// An optional that holds a tensor or a sequence.
export value optional_of(const value& x, const origin& = {});
/// An optional without a value, of a tensor or a sequence of this type.   Errors: type_error for the type of an optional.
export value optional_none(program& owner, const tensor_type& of, const origin& = {});
/// Whether an optional has a value; true for other values.   -> bool [].
export value optional_has_value(const value& x, const origin& = {});
/// The value of an optional; other values themselves.   Errors: value_error in a run where it is empty.
export value optional_value(const value& x, const origin& = {});

}  // namespace lamina
