// Gradients of the operations of sized.cppm.
module lamina:op.sized.gradient;
import :core;
import :dtype;
import :op.attention;
import :op.control;
import :op.elementwise;
import :op.index;
import :op.reduce;
import :op.shape;
import :op.sized;
import :op.view;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void sized() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void truncate::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::scatter_rows>({0}, c.gradient(), lamina::positions(c.gradient(), 0), c(0)); });
}

}  // namespace lamina::op
