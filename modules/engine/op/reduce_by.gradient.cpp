// Gradients of the operations of reduce_by.cppm.
module lamina:op.reduce_by.gradient;
import :core;
import :dtype;
import :op.elementwise;
import :op.extents;
import :op.index;
import :op.reduce;
import :op.reduce_by;
import :op.shape;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void reduce_by() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void reduce_by::gradient(gradient_call& c) {
  c(0, [&] {
    auto kept = c.attributes<attributes>();
    kept.keepdim = true;
    const value& x = c(0);
    const value y = apply<op::reduce_by>(kept, x, c(1)), g = lamina::reshape_like(c.gradient(), y);
    const auto over = [&](const value& of) {
      return value(apply<op::reduce_by>(reduce_by_attributes{reduction_kind::sum, true, kept.none_if_empty}, of, c(1)));
    };
    switch (kept.kind) {
      case reduction_kind::sum: return value(lamina::broadcast_like(g, x));
      case reduction_kind::mean: return value(lamina::broadcast_like(g / over(detail::constant_like(x, 1)), x));
      case reduction_kind::product: return value(g * y / x);
      case reduction_kind::l1: return value(g * lamina::sign(x));
      case reduction_kind::l2: return value(g * x / lamina::where(y == 0, 1, y));
      case reduction_kind::log_sum: return value(lamina::broadcast_like(g / apply_outside_patterns<exp>(y), x));
      case reduction_kind::log_sum_exp: return value(g * apply_outside_patterns<exp>(x - y));
      case reduction_kind::sum_square: return value(g * (x * 2));
      default: break;
    }
    const value is_extreme = detail::converted(x == y, x.type().element);
    return value(is_extreme * (g / lamina::max(over(is_extreme), 1)));
  });
}
void running_along::gradient(gradient_call& c) {
  c(0, [&] {
    auto back = c.attributes<attributes>();
    const bool product = back.product;
    back.product = false;
    back.reverse = !back.reverse;
    const value g = product ? value(c.gradient() * c.result()) : c.gradient();
    const value sums = apply<op::running_along>(back, g, c(1));
    return product ? value(sums / c(0)) : sums;
  });
}

}  // namespace lamina::op
