// Gradients of the operations of shape.cppm.
module lamina:op.shape.gradient;
import :core;
import :dtype;
import :op.elementwise;
import :op.reduce;
import :op.shape;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void shape() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void reshape::gradient(gradient_call& c) { c(lamina::reshape_like(c.gradient(), c(0))); }
void reshape_like::gradient(gradient_call& c) {
  c(0, [&] { return lamina::reshape_like(c.gradient(), c(0)); });
}
void gradient_like::gradient(gradient_call& c) {
  c(0, [&] { return c.gradient(); });
}
void flatten::gradient(gradient_call& c) { c(lamina::reshape_like(c.gradient(), c(0))); }
void permute::gradient(gradient_call& c) {
  const auto& order = c.attributes<permute_attributes>().order;
  axes inverse = order;
  for (int i = 0; i < order.count; ++i) inverse.values[detail::normal_axis(order[i], order.count)] = i;
  const value g = c.gradient();
  c(apply_outside_patterns<op::permute>({inverse}, {&g, 1}));
}
void slice::gradient(gradient_call& c) {
  c(apply<op::slice_grad>(c.attributes<slice_attributes>(), c.gradient(), c(0)));
}
void slice_grad::gradient(gradient_call& c) {
  c(0, [&] { return lamina::slice(c.gradient(), c.attributes<slice_attributes>()); });
}
void concat::gradient(gradient_call& c) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    c(i, [&] {
      std::vector<value> operands{c.gradient()};
      for (const auto& v : c.inputs) operands.push_back(v);
      return apply_all<op::concat_part>({c.attributes<axis_attributes>().axis, static_cast<std::int64_t>(i)}, operands);
    });
}
void concat_part::gradient(gradient_call& c) {
  c(0, [&] {
    const auto& at = c.attributes<concat_part_attributes>();
    std::vector<value> parts;
    for (std::size_t i = 1; i < c.inputs.size(); ++i)
      parts.push_back(static_cast<std::int64_t>(i) == at.part + 1
                          ? c.gradient()
                          : value(lamina::broadcast_like(c.owner.number(0.0, c.gradient().type().element), c(i))));
    return apply_outside_patterns<op::concat>({at.axis}, parts);
  });
}
void broadcast_like::gradient(gradient_call& c) {
  c(0, [&] { return lamina::sum_like(c.gradient(), c(0)); });
}
void sum_like::gradient(gradient_call& c) {
  c(0, [&] { return lamina::broadcast_like(c.gradient(), c(0)); });
}

}  // namespace lamina::op
