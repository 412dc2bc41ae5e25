// Matrix products.
export module lamina:op.linear;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

/// Whether the last two axes of an operand are exchanged; never a copy.
export struct matmul_attributes {
  bool transpose_a = false, transpose_b = false;
  static constexpr void members(auto& a, auto&& f) { f("transpose_a", a.transpose_a), f("transpose_b", a.transpose_b); }
  bool operator==(const matmul_attributes&) const = default;
};

namespace op {
export struct matmul {
  static constexpr std::string_view name = "matmul";
  static constexpr int operands = 2;
  using attributes = matmul_attributes;
  static constexpr void infer(const attributes& at, view<const tensor_type> in, inference& out) {
    const shape &a = in[0].dims, &b = in[1].dims;
    if (!detail::same_elements(in, out)) return;
    if (!detail::takes(domain::real, in[0].element, out)) return;
    if (a.rank < 2 || b.rank < 2) { out.why << "both operands must be matrices"; return; }
    dim m = a[a.rank - (at.transpose_a ? 1 : 2)], ka = a[a.rank - (at.transpose_a ? 2 : 1)];
    dim kb = b[b.rank - (at.transpose_b ? 1 : 2)], n = b[b.rank - (at.transpose_b ? 2 : 1)];
    if (!may_equal(ka, kb)) { out.why << "the inner sizes differ"; return; }
    shape batch_a = a, batch_b = b, s;
    batch_a.rank -= 2;
    batch_b.rank -= 2;
    if (!broadcast(batch_a, batch_b, s)) { out.why << "the batch shapes do not broadcast"; return; }
    s.push_back(m);
    s.push_back(n);
    out.result(in[0].element, s);
  }
  static double flops(const attributes& at, view<const tensor_type> in, view<const tensor_type> out) {
    const shape& a = in[0].dims;
    return 2.0 * static_cast<double>(out[0].dims.size()) * static_cast<double>(a.at(a.rank - (at.transpose_a ? 2 : 1)));
  }
  static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

/// Matrix product over the last two axes; leading axes broadcast.
/// Shapes:  a [..., M, K], b [..., K, N] -> [..., M, N]; an operand marked as transposed has its last two axes exchanged.
/// Numerics: one fused multiply-add chain per block of at most 768 of K.   Errors: shape_error where the inner sizes differ.
/// Transposition is in the type (`matmul<false, true>(x, w)`) or an attribute.
export template <bool TransposeA = false, bool TransposeB = false, Symbolic A, Symbolic B>
  requires ApplicableFixed<op::matmul, matmul_attributes{TransposeA, TransposeB}, A, B>
constexpr auto matmul(A&& a, B&& b) {
  return apply_fixed<op::matmul, matmul_attributes{TransposeA, TransposeB}>(std::forward<A>(a), std::forward<B>(b));
}
export template <Symbolic A, Symbolic B>
  requires(!std::same_as<world_of<A, B>, lazy>)
constexpr auto matmul(A&& a, B&& b, matmul_attributes at) {
  return apply<op::matmul>(at, std::forward<A>(a), std::forward<B>(b));
}

}  // namespace lamina
