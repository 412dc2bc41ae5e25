// Gradients of the operations of normalize.cppm.
module lamina:op.normalize.gradient;
import :core;
import :dtype;
import :op.elementwise;
import :op.normalize;
import :op.reduce;
import :op.shape;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void normalize() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

namespace {
// With r the factor of a row, y the normalized row, h = g weight: r (h - mean(h) - y mean(h y)); for the root mean
// square without mean(h). The derivative of the factor itself is -r^2 y / length, that of the mean 1 / length.
void pass_on(gradient_call& c, bool centered) {
  std::vector<tensor_type> in;
  for (std::size_t i = 0; i < c.inputs.size(); ++i) in.push_back(c(i).type());
  const auto& at = c.attributes<normalize_attributes>();
  const int axes = detail::normalized_axes(at, view<const tensor_type>(in.data(), in.size())), rank = c(0).shape().rank;
  reduce_attributes row{.axes = {}, .keepdim = true};
  for (int k = rank - axes; k < rank; ++k) row.axes.values[row.axes.count++] = k;

  const value& factor = c.result(1);
  value y = c.inputs.size() == 1 ? c.result(0) : centered ? value((c(0) - c.result(2)) * factor) : value(c(0) * factor);
  value g = c.gradient(0);
  c(0, [&] {
    value d;
    const auto add = [&](const value& v) { d = d.empty() ? v : value(d + v); };
    if (!g.empty()) {
      value h = c.inputs.size() > 1 ? value(g * c(1)) : g;
      value along = y * lamina::reduce_mean(h * y, row);
      add(factor * (centered ? value(h - lamina::reduce_mean(h, row) - along) : value(h - along)));
    }
    if (const value& f = c.gradient(1); !f.empty())
      add(-(y * apply<op::spread_mean>(row, f * lamina::square(factor), c(0))));
    if (centered)
      if (const value& m = c.gradient(2); !m.empty()) add(apply<op::spread_mean>(row, m, c(0)));
    return d;
  });
  if (g.empty()) return;
  if (c.inputs.size() > 1) c(1, [&] { return lamina::sum_like(g * y, c(1)); });
  if (c.inputs.size() > 2) c(2, [&] { return lamina::sum_like(g, c(2)); });
}
}  // namespace

void layer_norm::gradient(gradient_call& c) { pass_on(c, true); }
void rms_norm::gradient(gradient_call& c) { pass_on(c, false); }

}  // namespace lamina::op
