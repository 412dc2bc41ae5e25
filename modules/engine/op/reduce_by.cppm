// More reductions, selected by a kind, and reductions over computed axes.
export module lamina:op.reduce_by;
import :core;
import :dtype;
import :op;
import :op.reduce;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Function that a reduction computes.
export enum class reduction_kind : std::int32_t {
  sum,
  mean,
  product,
  maximum,
  minimum,
  l1,
  l2,
  log_sum,
  log_sum_exp,
  sum_square
};

/// Whether reduced axes are kept with size 1, and whether an empty list of axes means none of them or all.
struct reduce_by_attributes {
  reduction_kind kind = reduction_kind::sum;
  bool keepdim = false, none_if_empty = false;
  static constexpr void members(auto& a, auto&& f) {
    f("kind", a.kind), f("keepdim", a.keepdim), f("none_if_empty", a.none_if_empty);
  }
  bool operator==(const reduce_by_attributes&) const = default;
};

/// Products instead of sums; exclusive of the element itself; starting at the end.
struct running_attributes {
  bool product = false, exclusive = false, reverse = false;
  static constexpr void members(auto& a, auto&& f) {
    f("product", a.product), f("exclusive", a.exclusive), f("reverse", a.reverse);
  }
  bool operator==(const running_attributes&) const = default;
};

namespace op {
/// Operands: elements; the axes to reduce.
struct reduce_by {
  static constexpr std::string_view name = "reduce_by";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 1;
  using attributes = reduce_by_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
/// Operands: elements; the axis along which running sums or products are taken.
struct running_along {
  static constexpr std::string_view name = "running_along";
  static constexpr int operands = 2;
  static constexpr unsigned shape_operands = 1u << 1;
  using attributes = running_attributes;
  static void infer(const attributes& a, view<const tensor_type> in, inference& out);
  static value bind(const attributes& a, view<const value> in);
  [[gnu::weak]] static void gradient(gradient_call&);
};
}  // namespace op

using reduce_by_operations = operation_list<op::reduce_by, op::running_along>;
template <Operation Op> requires reduce_by_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

// ---- functions ------------------------------------------------------------------------------------------------------
//
// For values of programs and nets. Over no elements sums are 0, products 1, maxima the lowest number of the type and
// minima the largest.

/// A reduction selected by its kind.   Types: sums, products, extremes and `l1`, `sum_square` of float and integer,
/// extremes of bool too; the others of float.
export value reduce(reduction_kind kind, const value& x, reduce_attributes a = {}, const origin& = {});
/// The same over computed axes; without `keepdim` their number must be known.
/// Shapes:  x [2, 3, 4], over = {0, -1} -> [3].   Types: as `reduce`, `over` int64.   Errors: shape_error unless the
///          axes are valid and distinct.   Gradient: that of the reduction; of a product by division, so not at 0.
export value reduce_by(const value& x, const value& over, reduce_by_attributes a = {}, const origin& = {});

/// `cumsum` and `cumprod` along a computed axis, int64 [] or [1].   Gradient: of products by division, so not at 0.
export value running_along(const value& x, const value& axis, running_attributes a = {}, const origin& = {});

/// Sum of absolute values, square root of the sum of squares, log(sum), log(sum(exp)) without overflow, sum of squares.
export value reduce_l1(const value& x, reduce_attributes a = {}, const origin& = {});
export value reduce_l2(const value& x, reduce_attributes a = {}, const origin& = {});
export value reduce_log_sum(const value& x, reduce_attributes a = {}, const origin& = {});
export value reduce_log_sum_exp(const value& x, reduce_attributes a = {}, const origin& = {});
export value reduce_sum_square(const value& x, reduce_attributes a = {}, const origin& = {});

}  // namespace lamina
