// Gradients of the operations of sample.cppm.
module lamina:op.sample.gradient;
import :core;
import :dtype;
import :op.elementwise;
import :op.index;
import :op.sample;
import :op.shape;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void sample() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void resample::gradient(gradient_call& c) {
  const auto& a = c.attributes<attributes>();
  c(0, [&] { return apply<op::resample_grad>(a, c.gradient(), c(1), c(2), c(0)); });
  c(2, [&] { return apply<op::resample_weight_grad>(a, c.gradient(), c(0), c(1)); });
}
void resample_grad::gradient(gradient_call& c) {
  const auto& a = c.attributes<attributes>();
  c(0, [&] { return lamina::resample(c.gradient(), c(1), c(2), a); });
  c(2, [&] { return apply<op::resample_weight_grad>(a, c(0), c.gradient(), c(1)); });
}
void resample_weight_grad::gradient(gradient_call& c) {
  const auto& a = c.attributes<attributes>();
  c(0, [&] { return lamina::resample(c(1), c(2), c.gradient(), a); });
  c(1, [&] { return apply<op::resample_grad>(a, c(0), c(2), c.gradient(), c(1)); });
}
void max_windows::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::scatter_elements>(c.attributes<attributes>(), c.gradient(), c.result(1), c(0)); });
}

}  // namespace lamina::op
