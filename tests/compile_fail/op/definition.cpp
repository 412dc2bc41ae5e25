// Definitions of operations with missing or wrong members.
#include <string_view>
import lamina;
using namespace lamina;

// case: op_case_no_applies
// expect: the operation again_op lacks in its case narrow `name`, `static bool applies(const emission&)` or `static void emit(emission&)`
namespace op_case_no_applies {
struct narrow {
  static constexpr std::string_view name = "narrow";
#ifndef BAD
  static bool applies(const emission& e) { return e.in_type(0).dims.size() < 8; }
#endif
  static void emit(emission&) {}
};
struct again_op {
  static constexpr std::string_view name = "again";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  using cases = special_cases<narrow>;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
  static void emit(emission&) {}
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
}  // namespace op_case_no_applies

// case: op_static_shape
// expect: scale: run-time attributes need values of a program; with typed operands they belong in the type, as in apply_fixed<op, attributes>(x), or the operation defines `static constexpr shape static_shape(view<const tensor_type>)` for the known extents
namespace op_static_shape {
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
}  // namespace op_static_shape

// case: op_map
// expect: the operation arc_op has `map`, which names kernels that only the library has; it needs `static void emit(emission&)` instead
namespace op_map {
struct arc_op {
  static constexpr std::string_view name = "arc";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
#ifdef BAD
  static int map() { return 13; }
#else
  static void emit(emission&) {}
#endif
};
void use(const vector<float>& x) { auto y = apply<arc_op>({}, x); }
}  // namespace op_map

// case: op_no_attributes
// expect: the operation again_op lacks `using attributes` (lamina::no_attributes if it has none)
namespace op_no_attributes {
struct again_op {
  static constexpr std::string_view name = "same_again";
  static constexpr int operands = 1;
#ifndef BAD
  using attributes = no_attributes;
#endif
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
}  // namespace op_no_attributes

// case: op_no_emit
// expect: the operation again_op lacks `static void emit(emission&)`, the general one after its cases
namespace op_no_emit {
struct narrow {
  static constexpr std::string_view name = "narrow";
  static bool applies(const emission& e) { return e.in_type(0).dims.size() < 8; }
  static void emit(emission&) {}
};
struct again_op {
  static constexpr std::string_view name = "again";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  using cases = special_cases<narrow>;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
#ifndef BAD
  static void emit(emission&) {}
#endif
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
}  // namespace op_no_emit

// case: op_no_infer
// expect: the operation again_op lacks `static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out)`
namespace op_no_infer {
struct again_op {
  static constexpr std::string_view name = "same_again";
  static constexpr int operands = 1;
  using attributes = no_attributes;
#ifndef BAD
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
#endif
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
}  // namespace op_no_infer

// case: op_no_members
// expect: the operation again_op lacks in its attributes `static constexpr void members(auto& a, auto&& f)`, which calls f(\"name\", a.name), or `==`
namespace op_no_members {
struct times {
  std::int64_t count = 1;
#ifndef BAD
  static constexpr void members(auto& a, auto&& f) { f("count", a.count); }
#endif
  bool operator==(const times&) const = default;
};
struct again_op {
  static constexpr std::string_view name = "again";
  static constexpr int operands = 1;
  using attributes = times;
  static constexpr void infer(const times&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
void use(const vector<float>& x) { auto y = apply_fixed<again_op, times{2}>(x); }
}  // namespace op_no_members

// case: op_no_name
// expect: the operation again_op lacks `static constexpr std::string_view name`
namespace op_no_name {
struct again_op {
#ifndef BAD
  static constexpr std::string_view name = "same_again";
#endif
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
}  // namespace op_no_name

// case: op_no_operands
// expect: the operation again_op lacks `static constexpr int operands`, the number of its operands
namespace op_no_operands {
struct again_op {
  static constexpr std::string_view name = "same_again";
#ifndef BAD
  static constexpr int operands = 1;
#endif
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
}  // namespace op_no_operands

// case: op_no_result
// expect: again: its `infer` gives 0 results and no reason; 1 result is expected: [?]
namespace op_no_result {
struct again_op {
  static constexpr std::string_view name = "again";
  static constexpr int operands = 1;
  using attributes = no_attributes;
#ifdef BAD
  static constexpr void infer(const no_attributes&, view<const tensor_type>, inference&) {}
#else
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
#endif
};
void use(const vector<float>& x) { auto y = apply<again_op>({}, x); }
}  // namespace op_no_result

// case: op_operands
// expect: tanh: takes 1 operand; got 2
auto op_operands(const matrix<float>& x) {
#ifdef BAD
  return apply<op::tanh>({}, x, x);
#else
  return apply<op::tanh>({}, x);
#endif
}

// case: op_result_type
// expect: deep: its `infer` gives result 0 the rank 9 and the element type 0; ranks are 0..8, element types 0..23: [4]
namespace op_result_type {
struct deep_op {
  static constexpr std::string_view name = "deep";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    shape s = in[0].dims;
#ifdef BAD
    s.rank = 9;
#endif
    out.result(in[0].element, s);
  }
};
void use(const tensor<float, extents<4>>& x) { auto y = apply<deep_op>({}, x); }
}  // namespace op_result_type

// case: op_results
// expect: twice: its `infer` gives 2 results and no reason; 1 result is expected: [?]
namespace op_results {
struct twice_op {
  static constexpr std::string_view name = "twice";
  static constexpr int operands = 1;
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
#ifdef BAD
    out.result(in[0].element, in[0].dims);
#endif
  }
};
void use(const vector<float>& x) { auto y = apply<twice_op>({}, x); }
}  // namespace op_results

// case: op_view_elements
// expect: seen: a view of operand 0 cannot be float32[5]: [4]
namespace op_view_elements {
struct seen_op {
  static constexpr std::string_view name = "seen";
  static constexpr int operands = 1, alias = 0;
  using attributes = no_attributes;
#ifdef BAD
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, {5});
  }
#else
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, {2, 2});
  }
#endif
};
void use(const tensor<float, extents<4>>& x) { auto y = apply<seen_op>({}, x); }
}  // namespace op_view_elements

// case: op_view_operand
// expect: seen: it is a view of operand 1; the number of operands is 1: [4]
namespace op_view_operand {
struct seen_op {
  static constexpr std::string_view name = "seen";
#ifdef BAD
  static constexpr int operands = 1, alias = 1;
#else
  static constexpr int operands = 1, alias = 0;
#endif
  using attributes = no_attributes;
  static constexpr void infer(const no_attributes&, view<const tensor_type> in, inference& out) {
    out.result(in[0].element, in[0].dims);
  }
};
void use(const tensor<float, extents<4>>& x) { auto y = apply<seen_op>({}, x); }
}  // namespace op_view_operand
