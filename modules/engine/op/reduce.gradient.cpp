// Gradients of the operations of reduce.cppm.
module lamina:op.reduce.gradient;
import :core;
import :dtype;
import :op.elementwise;
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
void reduce() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

namespace {
// Broadcasts g, in the shape that it would have with keepdim, against the operand.
value spread_back(gradient_call& c, bool mean) {
  const auto& a = c.attributes<reduce_attributes>();
  return mean ? value(apply<op::spread_mean>(a, c.gradient(), c(0))) : value(apply<op::spread>(a, c.gradient(), c(0)));
}
// Elements that share the extreme get equal shares of the gradient.
value share_of_extreme(gradient_call& c) {
  const auto& a = c.attributes<reduce_attributes>();
  const value hit = c(0) == apply<op::spread>(a, c.result(), c(0));
  const value one = apply<op::cast>(cast_attributes{c(0).type().element}, hit);
  auto count = apply<op::spread>(a, lamina::reduce_sum(one, a), c(0));
  // selects instead of multiplying: an infinite gradient must not affect other elements
  return lamina::where(hit, apply<op::spread>(a, c.gradient(), c(0)) / count, 0);
}
// Whether the reduced axes are known not to be empty.
bool surely_has_elements(const reduce_attributes& a, const shape& s) {
  unsigned bits = 0;
  detail::reduced_axes(a, s.rank, bits);
  for (int i = 0; i < s.rank; ++i)
    if (bits >> i & 1u && (!s[i].is_number() || s[i] == dim(0))) return false;
  return true;
}
}  // namespace

void reduce_sum::gradient(gradient_call& c) {
  c(0, [&] { return spread_back(c, false); });
}
void reduce_mean::gradient(gradient_call& c) {
  c(0, [&] { return spread_back(c, true); });
}
void reduce_max::gradient(gradient_call& c) {
  c(0, [&] { return share_of_extreme(c); });
}
void reduce_min::gradient(gradient_call& c) {
  c(0, [&] { return share_of_extreme(c); });
}
void reduce_prod::gradient(gradient_call& c) {
  c(0, [&] {
    // Rows of the factors of each result; the derivative of an entry is the product of the others.
    const auto& a = c.attributes<reduce_attributes>();
    int rank = c(0).shape().rank, kept = 0;
    unsigned bits = 0;
    detail::reduced_axes(a, rank, bits);
    axes order;
    for (bool reduced : {false, true})
      for (int i = 0; i < rank; ++i)
        if ((bits >> i & 1u) == reduced) {
          order.values[order.count++] = i;
          kept += !reduced;
        }
    value moved = lamina::permute(c(0), order);
    value others = apply<op::product_of_others>({}, lamina::as_matrix(moved, kept));
    return spread_back(c, false) * lamina::permute_inverse(value(lamina::reshape_like(others, moved)), order);
  });
}
void product_of_others::gradient(gradient_call& c) {
  // The matrix of second derivatives is symmetric.
  c(0, [&] { return apply<op::product_of_others_slope>({}, c(0), c.gradient()); });
}
void spread::gradient(gradient_call& c) {
  c(0, [&] { return lamina::reshape_like(lamina::reduce_sum(c.gradient(), c.attributes<reduce_attributes>()), c(0)); });
}
void spread_mean::gradient(gradient_call& c) {
  c(0, [&] {
    const auto& a = c.attributes<reduce_attributes>();
    const value like = c(1);
    if (surely_has_elements(a, like.shape()))
      return value(lamina::reshape_like(lamina::reduce_mean(c.gradient(), a), c(0)));
    // A mean of no elements is NaN; spread over no elements, a number has no effect.
    const value parts =
        apply<op::spread_mean>(a, lamina::broadcast_like(c.owner.number(1.0, c.gradient().type().element), c(0)), like);
    return value(lamina::reshape_like(lamina::reduce_sum(c.gradient() * parts, a), c(0)));
  });
}
void softmax::gradient(gradient_call& c) {
  c(0, [&] {
    auto axis = static_cast<int>(c.attributes<softmax_attributes>().axis);
    auto weighted = c.gradient() * c.result();
    return weighted - c.result() * lamina::reduce_sum(weighted, {.axes = axes(axis), .keepdim = true});
  });
}
void log_softmax::gradient(gradient_call& c) {
  c(0, [&] {
    auto axis = static_cast<int>(c.attributes<softmax_attributes>().axis);
    return c.gradient() - apply_outside_patterns<exp>(c.result()) *
                              lamina::reduce_sum(c.gradient(), {.axes = axes(axis), .keepdim = true});
  });
}

}  // namespace lamina::op
