// Gradients of the operations of coordinates.cppm.
module lamina:op.coordinates.gradient;
import :core;
import :dtype;
import :op.computed_shape;
import :op.coordinates;
import :op.elementwise;
import :op.extents;
import :op.index;
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
void coordinates() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

namespace {
// Gradients of a scatter: `put` scatters into its first operand, `taken` gathers from the scattered positions.
template <class Put, class Taken>
void scatter_gradient(gradient_call& c, scatter_reduction reduction, const Put& put, const Taken& taken) {
  const value& g = c.gradient();
  const auto of_updates = [&](const auto& f) { c(2, f); };
  switch (reduction) {
    case scatter_reduction::none:
      c(0, [&] { return put(g, detail::constant_like(c(2), 0), scatter_reduction::none); });
      return of_updates([&] { return taken(g); });
    case scatter_reduction::add: c(0, [&] { return g; }); return of_updates([&] { return taken(g); });
    case scatter_reduction::multiply:
      c(0, [&] { return put(g, c(2), scatter_reduction::multiply); });
      return of_updates([&] { return value(taken(g * c.result()) / c(2)); });
    default: break;
  }
  const dtype element = g.type().element;
  const value kept = detail::converted(c(0) == c.result(), element),
              given = detail::converted(c(2) == taken(c.result()), element);
  const value share = g / lamina::max(put(kept, given, scatter_reduction::add), 1);
  c(0, [&] { return value(kept * share); });
  of_updates([&] { return value(given * taken(share)); });
}
}  // namespace

void gather_nd::gradient(gradient_call& c) {
  c(0, [&] {
    const auto& a = c.attributes<attributes>();
    return value(apply<op::scatter_nd>(scatter_nd_attributes{scatter_reduction::add, a.batch_dims, a.coordinates},
                                       detail::constant_like(c(0), 0), c(1), c.gradient()));
  });
}
void scatter_nd::gradient(gradient_call& c) {
  const auto a = c.attributes<attributes>();
  scatter_gradient(
      c, a.reduction,
      [&](const value& x, const value& updates, scatter_reduction r) {
        return value(apply<op::scatter_nd>(scatter_nd_attributes{r, a.batch_dims, a.coordinates}, x, c(1), updates));
      },
      [&](const value& x) {
        return value(apply<op::gather_nd>(gather_nd_attributes{a.batch_dims, a.coordinates}, x, c(1)));
      });
}
void put_along_axis::gradient(gradient_call& c) {
  const auto a = c.attributes<attributes>();
  scatter_gradient(
      c, a.reduction,
      [&](const value& x, const value& updates, scatter_reduction r) {
        return value(apply<op::put_along_axis>(put_along_axis_attributes{a.axis, r}, x, c(1), updates));
      },
      [&](const value& x) { return lamina::gather_elements(x, c(1), {a.axis}); });
}

}  // namespace lamina::op
