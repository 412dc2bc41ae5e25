// Gradients of the operations of view.cppm.
module lamina:op.view.gradient;
import :core;
import :dtype;
import :op.shape;
import :op.view;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void view() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void unsqueeze::gradient(gradient_call& c) { c(lamina::reshape_like(c.gradient(), c(0))); }
void squeeze::gradient(gradient_call& c) { c(lamina::reshape_like(c.gradient(), c(0))); }
void as_matrix::gradient(gradient_call& c) { c(lamina::reshape_like(c.gradient(), c(0))); }
void computed_after::gradient(gradient_call& c) {
  c(0, [&] { return c.gradient(); });
}
void select::gradient(gradient_call& c) {
  const auto& a = c.attributes<select_attributes>();
  auto axis = detail::normal_axis(a.axis, c(0).shape().rank);
  slice_attributes at{
      .start = a.index, .stop = a.index == -1 ? std::numeric_limits<std::int64_t>::max() : a.index + 1, .axis = axis};
  c(apply<op::slice_grad>(at, lamina::unsqueeze(c.gradient(), axes(axis)), c(0)));
}
void section::gradient(gradient_call& c) {
  const auto& a = c.attributes<section_attributes>();
  c(apply<op::slice_grad>(slice_attributes{.start = a.start, .stop = a.start + a.count, .axis = a.axis}, c.gradient(),
                          c(0)));
}
void equal_part::gradient(gradient_call& c) {
  c(apply<op::split_grad>(c.attributes<part_attributes>(), c.gradient(), c(0)));
}
void split_grad::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::equal_part>(c.attributes<part_attributes>(), c.gradient()); });
}

}  // namespace lamina::op
