// Gradients of the operations of computed_shape.cppm.
module lamina:op.computed_shape.gradient;
import :core;
import :dtype;
import :op.computed_shape;
import :op.index;
import :op.shape;
import :op.tile;
import :op.view;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void computed_shape() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void reshape_to::gradient(gradient_call& c) {
  c(0, [&] { return lamina::reshape_like(c.gradient(), c(0)); });
}
void expand_to::gradient(gradient_call& c) {
  c(0, [&] { return value(lamina::sum_like(c.gradient(), c(0))); });
}
void slice_at::gradient(gradient_call& c) {
  std::vector<value> all{c.gradient()};
  all.insert(all.end(), c.inputs.begin(), c.inputs.end());
  c(0, [&] { return value(apply_all<op::slice_at_grad>(c.attributes<attributes>(), all)); });
}
void slice_at_grad::gradient(gradient_call& c) {
  std::vector<value> all{c.gradient()};
  all.insert(all.end(), c.inputs.begin() + 2, c.inputs.end());
  c(0, [&] { return value(apply_all<op::slice_at>(c.attributes<attributes>(), all)); });
}
void tile_by::gradient(gradient_call& c) {
  c(0, [&] { return value(apply<op::tile_grad>({}, c.gradient(), c(0))); });
}
void pad_by::gradient(gradient_call& c) {
  c(0, [&] {
    return value(apply<op::pad_by_grad>(axes_attributes{c.attributes<attributes>().axes}, c.gradient(), c(0), c(1)));
  });
}
void pad_by_grad::gradient(gradient_call& c) {
  c(0,
    [&] { return value(apply<op::pad_by>(pad_by_attributes{c.attributes<attributes>().axes}, c.gradient(), c(2))); });
}
void full::gradient(gradient_call& c) {
  c(1, [&] { return lamina::reshape_like(lamina::sum_like(c.gradient(), lamina::reshape(c(1), shape{})), c(1)); });
}

}  // namespace lamina::op
