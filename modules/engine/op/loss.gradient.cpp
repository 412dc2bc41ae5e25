// Gradients of the operations of loss.cppm.
module lamina:op.loss.gradient;
import :core;
import :dtype;
import :op.loss;
import :op.random;
import :op.shape;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void loss() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void pick::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::pick_grad>({}, c.gradient(), c(1), c(0)); });
}
void pick_grad::gradient(gradient_call& c) {
  c(0, [&] { return lamina::pick(c.gradient(), c(1)); });
}
void pick_label::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::pick_label_grad>(c.attributes<label_attributes>(), c.gradient(), c(1), c(0)); });
}
void pick_label_grad::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::pick_label>(c.attributes<label_attributes>(), c.gradient(), c(1)); });
}
void same_shape::gradient(gradient_call& c) {
  c(0, [&] { return detail::in_shape_of(c.gradient(), c(0)); });
}

}  // namespace lamina::op
