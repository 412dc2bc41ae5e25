// Gradients of the operations of tile.cppm.
module lamina:op.tile.gradient;
import :core;
import :dtype;
import :op.reduce;
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
void tile() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void tile::gradient(gradient_call& c) { c(apply<op::tile_grad>({}, c.gradient(), c(0))); }
void tile_to::gradient(gradient_call& c) { c(apply<op::tile_grad>({}, c.gradient(), c(0))); }
void tile_like::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::tile_grad>({}, c.gradient(), c(0)); });
}
void tile_grad::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::tile_like>({}, c.gradient(), c(0)); });
}
void repeat::gradient(gradient_call& c) {
  c(apply<op::repeat_grad>({c.attributes<repeat_attributes>().axis}, c.gradient(), c(0)));
}
void repeat_like::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::repeat_grad>(c.attributes<axis_attributes>(), c.gradient(), c(0)); });
}
void repeat_grad::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::repeat_like>(c.attributes<axis_attributes>(), c.gradient(), c(0)); });
}
void pad::gradient(gradient_call& c) {
  const auto& a = c.attributes<pad_attributes>();
  c(lamina::slice(
      c.gradient(),
      {.start = a.before, .stop = a.after ? -a.after : std::numeric_limits<std::int64_t>::max(), .axis = a.axis}));
}

}  // namespace lamina::op
