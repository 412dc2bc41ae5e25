// Matrix products and contractions.
export module lamina:op.linear;
import :core;
import :dtype;
import :emission;
import :op.elementwise;
import :op.shape;
import :op.view;
import :op;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Whether the last two axes of an operand are exchanged; never a copy. `compute`: type that float32 operands are
/// rounded to before multiplying: float32, bfloat16 or float16. Sums and result stay float32; gradients round as well.
export struct matmul_attributes {
  bool transpose_a = false, transpose_b = false;
  product_type compute{};
  static constexpr std::string_view later = "compute";
  static constexpr void members(auto& a, auto&& f) {
    f("transpose_a", a.transpose_a), f("transpose_b", a.transpose_b), f("compute", a.compute);
  }
  bool operator==(const matmul_attributes&) const = default;
};

/// Number of axes that a contraction sums over.
struct dot_attributes {
  int count = 1;
  static constexpr void members(auto& a, auto&& f) { f("count", a.count); }
  bool operator==(const dot_attributes&) const = default;
};

namespace op {
export struct matmul : in_patterns<rewriting::product_of_axis_pattern> {
  static constexpr std::string_view name = "matmul";
  static constexpr int operands = 2;
  static constexpr bool rounds_operands = true;
  static channel_axes channels(const matmul_attributes& a, const shape& result, const shape& w) {
    return {result.rank - 1, w.rank - (a.transpose_b ? 2 : 1)};
  }
  using attributes = matmul_attributes;
  static constexpr void infer(const attributes& at, view<const tensor_type> in, inference& out) {
    const shape &a = in[0].dims, &b = in[1].dims;
    if (!detail::same_elements(in, out)) return;
    if (!detail::takes(domain::numbers, in[0].element, out)) return;
    if (!detail::may_compute_in(at.compute, in[0].element, out)) return;
    if (a.rank < 2 || b.rank < 2) {
      out.why << "both operands must be matrices";
      return;
    }
    dim m = a[a.rank - (at.transpose_a ? 1 : 2)], ka = a[a.rank - (at.transpose_a ? 2 : 1)];
    dim kb = b[b.rank - (at.transpose_b ? 1 : 2)], n = b[b.rank - (at.transpose_b ? 2 : 1)];
    if (!may_equal(ka, kb)) {
      out.why << "the inner sizes differ";
      return;
    }
    shape batch_a = a, batch_b = b, s;
    batch_a.rank -= 2;
    batch_b.rank -= 2;
    if (!broadcast(batch_a, batch_b, s)) {
      out.why << "the batch shapes do not broadcast";
      return;
    }
    s.push_back(m);
    s.push_back(n);
    out.result(in[0].element, s);
  }
  static double flops(const attributes& at, view<const tensor_type> in, view<const tensor_type> out) {
    const shape& a = in[0].dims;
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(a.at(a.rank - (at.transpose_a ? 2 : 1)));
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// Reshapes a product of two tensors as matrices to the unflattened axes: those of the second operand but its last
/// `count`, then those of the third but its first `count`. Only the shapes of both are read.
struct dot_result {
  static constexpr std::string_view name = "dot_result";
  static constexpr int operands = 3, alias = 0;
  static constexpr unsigned shape_only = 6;
  using attributes = dot_attributes;
  static constexpr void infer(const attributes& at, view<const tensor_type> in, inference& out) {
    const shape &a = in[1].dims, &b = in[2].dims;
    if (at.count < 0 || a.rank < at.count || b.rank < at.count) {
      out.why << "both shapes must have " << at.count << " axes or more";
      return;
    }
    const int left = a.rank - at.count, right = b.rank - at.count;
    if (left + right > max_rank) {
      out.why << "the result would have rank " << left + right << "; the limit is " << max_rank;
      return;
    }
    const shape product{detail::product_of(a, 0, left), detail::product_of(b, at.count, b.rank)};
    if (!fits(product, in[0].dims)) {
      out.why << "the product must be " << product;
      return;
    }
    shape s;
    for (int i = 0; i < left; ++i) s.push_back(a[i]);
    for (int i = at.count; i < b.rank; ++i) s.push_back(b[i]);
    out.result(in[0].element, s);
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using linear_operations = operation_list<op::dot_result, op::matmul>;
template <Operation Op> requires linear_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

namespace rule {
struct dot {
  static constexpr std::string_view name = "dot";
  static constexpr int operands = 2;
  using attributes = dot_attributes;
  static constexpr void infer(const attributes& at, view<const tensor_type> in, inference& out) {
    const shape &a = in[0].dims, &b = in[1].dims;
    if (!detail::same_elements(in, out) || !detail::takes(domain::real, in[0].element, out)) return;
    if (at.count < 0 || a.rank < at.count || b.rank < at.count) {
      out.why << "both operands must have " << at.count << " axes or more";
      return;
    }
    if (a.rank + b.rank - 2 * at.count > max_rank) {
      out.why << "the result would have rank " << a.rank + b.rank - 2 * at.count << "; the limit is " << max_rank;
      return;
    }
    for (int i = 0; i < at.count; ++i)
      if (!may_equal(a[a.rank - at.count + i], b[i])) {
        out.why << (at.count == 1 ? "the last axis of the first does not match the first of the second"
                                  : "the last axes of the first do not match the first axes of the second");
        return;
      }
  }
};
}  // namespace rule

/// Matrix product over the last two axes; leading axes broadcast.
/// Shapes:  a [..., M, K], b [..., K, N] -> [..., M, N]; a transposed operand has its last two axes exchanged.
/// Numerics: one fused multiply-add chain per block of at most 768 of K.   Errors: shape_error where the inner sizes differ.
/// Transposition is in the type (`matmul<false, true>(x, w)`) or an attribute (`matmul(x, w, {.transpose_b = true})`).
export template <bool TransposeA = false, bool TransposeB = false, Symbolic A, Symbolic B>
requires accepted<diagnostic<applying_fixed<op::matmul, matmul_attributes{TransposeA, TransposeB}, A, B>>()>
constexpr auto matmul(A&& a, B&& b, origin_of<A, B> = {}) {
  return apply_fixed<op::matmul, matmul_attributes{TransposeA, TransposeB}>(std::forward<A>(a), std::forward<B>(b));
}
export template <Symbolic A, Symbolic B>
requires accepted<diagnostic<applying_of_rank<op::matmul, rank_of_rule, A, B>>()>
constexpr auto matmul(A&& a, B&& b, matmul_attributes at, origin_of<A, B> = {}) {
  return apply_of_rank<op::matmul, rank_of_rule>(at, std::forward<A>(a), std::forward<B>(b));
}

/// Affine map of rows: x w^T + b.
/// Shapes:  x [..., in], w [out, in], b [out] -> [..., out].   Errors: shape_error where the inner sizes differ.
export template <Symbolic X, Symbolic W, Symbolic B>
requires accepted<diagnostic<applying_fixed<op::matmul, matmul_attributes{false, true}, X, W>>()>
constexpr auto linear(const X& x, const W& w, const B& b, origin_of<X, W, B> = {}) {
  return matmul<false, true>(x, w) + b;
}

/// Contraction: sums over the last `Count` axes of a and the first of b, as one matrix product.
/// Shapes:  a [..., K1, ..., Kn], b [K1, ..., Kn, ...] -> the other axes of a, then those of b; two vectors give a number.
/// Errors:  shape_error where the axes differ.   Cost: that of matmul; nothing is copied.
export template <int Count = 1, Symbolic A, Symbolic B>
requires accepted<diagnostic<applying_fixed<rule::dot, dot_attributes{Count}, A, B>>()>
constexpr auto dot(const A& a, const B& b, origin_of<A, B> = {}) {
  detail::obey<rule::dot>({Count}, a, b);
  if constexpr (std::same_as<evaluation_mode_of<A, B>, lazy>)
    return apply_fixed<op::dot_result, dot_attributes{Count}>(
        matmul(as_matrix<evaluation_mode_of<A>::template rank_of<A> - Count>(a), as_matrix<Count>(b)), a, b);
  else return apply<op::dot_result>({Count}, matmul(as_matrix(a, a.shape().rank - Count), as_matrix(b, Count)), a, b);
}

}  // namespace lamina
