// Gradients of the operations of nn.cppm.
module lamina:op.nn.gradient;
import :core;
import :dtype;
import :op.elementwise;
import :op.nn;
import :op.reduce;
import :op.shape;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void nn() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void conv2d::gradient(gradient_call& c) {
  const auto& a = c.attributes<conv2d_attributes>();
  c(0, [&] { return apply<op::conv2d_input_grad>(a, c.gradient(), c(1), c(0)); });
  c(1, [&] { return apply<op::conv2d_weight_grad>(a, c.gradient(), c(0), c(1)); });
}
void conv2d_input_grad::gradient(gradient_call& c) {
  const auto& a = c.attributes<conv2d_attributes>();
  c(0, [&] { return lamina::conv2d(c.gradient(), c(1), a); });
  c(1, [&] { return apply<op::conv2d_weight_grad>(a, c(0), c.gradient(), c(1)); });
}
void conv_transpose2d::gradient(gradient_call& c) {
  const conv2d_attributes a = c.attributes<conv_transpose2d_attributes>().forward();
  c(0, [&] { return lamina::conv2d(c.gradient(), c(1), a); });
  c(1, [&] { return apply<op::conv2d_weight_grad>(a, c(0), c.gradient(), c(1)); });
}
void conv2d_weight_grad::gradient(gradient_call& c) {
  const auto& a = c.attributes<conv2d_attributes>();
  c(0, [&] { return lamina::conv2d(c(1), c.gradient(), a); });
  c(1, [&] { return apply<op::conv2d_input_grad>(a, c(0), c.gradient(), c(1)); });
}
void max_pool2d::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::max_pool2d_grad>(c.attributes<pool2d_attributes>(), c.gradient(), c.result(1), c(0)); });
}
void avg_pool2d::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::avg_pool2d_grad>(c.attributes<pool2d_attributes>(), c.gradient(), c(0)); });
}
void avg_pool2d_grad::gradient(gradient_call& c) {
  c(0, [&] { return lamina::avg_pool2d(c.gradient(), c.attributes<pool2d_attributes>()); });
}

}  // namespace lamina::op
