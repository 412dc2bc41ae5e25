// Gradients of the operations of linear.cppm.
module lamina:op.linear.gradient;
import :core;
import :dtype;
import :op.linear;
import :op.shape;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void linear() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void matmul::gradient(gradient_call& c) {
  auto [ta, tb, half] = c.attributes<matmul_attributes>();
  const value& g = c.gradient();
  c(0, [&] {
    value d =
        ta ? value(lamina::matmul(c(1), g, {tb, true, half})) : value(lamina::matmul(g, c(1), {false, !tb, half}));
    return lamina::sum_like(d, c(0));
  });
  c(1, [&] {
    value d =
        tb ? value(lamina::matmul(g, c(0), {true, ta, half})) : value(lamina::matmul(c(0), g, {!ta, false, half}));
    return lamina::sum_like(d, c(1));
  });
}
void dot_result::gradient(gradient_call& c) {
  c(0, [&] { return lamina::reshape_like(c.gradient(), c(0)); });
}

}  // namespace lamina::op
