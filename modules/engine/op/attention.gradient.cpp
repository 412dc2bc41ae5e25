// Gradients of the operations of attention.cppm.
module lamina:op.attention.gradient;
import :core;
import :dtype;
import :op.attention;
import :op.elementwise;
import :op.linear;
import :op.reduce;
import :op.shape;
import :op.view;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void attention() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void group_heads::gradient(gradient_call& c) {
  c(0, [&] { return lamina::reshape_like(c.gradient(), c(0)); });
}
// With P the probabilities and W the gradient of the result: dV = P^T W, dP = W V^T, dS = P (dP - sum(P dP)),
// dQ = scale dS K, dK = scale dS^T Q, and dS is the gradient of an added mask.
void attention::gradient(gradient_call& c) {
  const auto& at = c.attributes<attention_attributes>();
  value q = c(0), k = c(1), v = c(2), g = c.gradient(), mask = c.inputs.size() > 3 ? c(3) : value();
  const int rank = q.shape().rank;
  const bool masked = !mask.empty(), added = masked && mask.type().element != dtype::boolean;

  // Heads that share keys get a separate axis, along which keys and values broadcast. Heads of unknown number may share
  // keys.
  const dim heads = rank > 2 ? q.shape()[rank - 3] : dim(1), groups = rank > 2 ? k.shape()[rank - 3] : dim(1);
  if (rank < max_rank ? !surely_equal({heads}, {groups}) : !may_equal(heads, groups)) {
    if (masked && mask.shape().rank > 2) mask = apply<op::group_heads>({}, mask, k);
    q = apply<op::group_heads>({}, q, k);
    g = apply<op::group_heads>({}, g, k);
    k = lamina::unsqueeze(k, axes(rank - 2));
    v = lamina::unsqueeze(v, axes(rank - 2));
  }
  // An unknown depth is read from the shape in the run.
  const dim depth = c(0).shape().back();
  auto scale = [&](const value& x) {
    if (at.scale != 0 || depth.is_number()) return value(x * detail::attention_scale(at.scale, depth.code));
    value n = lamina::reshape(lamina::slice(lamina::shape_of(c(0)), {.start = rank - 1, .stop = rank}), shape{});
    return value(x / lamina::sqrt(apply<op::cast>({x.type().element}, n)));
  };
  const auto product = [&](const value& a, const value& b, bool transpose_a, bool transpose_b) {
    return value(lamina::matmul(a, b, {transpose_a, transpose_b, at.compute}));
  };
  const value scaled = scale(q),
              p = detail::attention_weights(scaled, k, at.causal, masked ? &mask : nullptr, at.compute);
  const auto back = [](const value& x, const value& part, const value& whole) {
    return value(lamina::reshape_like(lamina::sum_like(x, part), whole));
  };
  c(2, [&] { return back(product(p, g, true, false), v, c(2)); });
  if (!c.wanted[0] && !c.wanted[1] && !(added && c.wanted[3])) return;
  value dp = product(g, v, false, true), weighted = p * dp;
  value ds = weighted - p * lamina::reduce_sum(weighted, {.axes = {-1}, .keepdim = true});
  c(0, [&] { return back(scale(product(ds, k, false, false)), q, c(0)); });
  c(1, [&] { return back(product(ds, scaled, true, false), k, c(1)); });
  if (added) c(3, [&] { return back(ds, mask, c(3)); });
}
void rope::gradient(gradient_call& c) {
  c(0, [&] {
    rope_attributes a = c.attributes<rope_attributes>();
    a.inverse = !a.inverse;
    return apply<op::rope>(a, c.gradient(), c(1));
  });
}
void rotary_embedding::gradient(gradient_call& c) {
  const auto& a = c.attributes<rotary_attributes>();
  const value &x = c(0), &cosine = c(1), &sine = c(2), &g = c.gradient();
  const auto turned = [&](const value& v) { return apply<op::rotary_embedding>(a, v, cosine * 0, cosine * 0 + 1); };
  c(0, [&] { return g * cosine - turned(g * sine); });
  c(1, [&] { return lamina::sum_like(g * x, cosine); });
  c(2, [&] { return lamina::sum_like(g * turned(x), sine); });
}

}  // namespace lamina::op
