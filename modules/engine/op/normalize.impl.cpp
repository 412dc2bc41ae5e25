module;
#include "../kernels/families.h"
module lamina:op.normalize.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.normalize;
import :op.reduce;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// Factors and terms are those of all rows.
void detail::map_normalized_axis(const normalize_attributes& a, axis_map& m) {
  for (std::size_t k = 1; k < m.in.size(); ++k) m.share(k);
  m.independent = m.axis < m.in[0].dims.rank - normalized_axes(a, m.in);
}

}  // namespace lamina

namespace lamina::op {

namespace {

void emit_rows(emission& e, bool centered) {
  const shape& x = e.in_type(0).dims;
  const dtype element = e.in_type(0).element;
  const auto size = static_cast<std::int64_t>(size_of(element));
  const std::size_t operands = e.of().inputs.size();
  std::vector<tensor_type> in;
  for (std::size_t i = 0; i < operands; ++i) in.push_back(e.in_type(i));
  const auto& at = e.attributes<normalize_attributes>();
  const int axes = detail::normalized_axes(at, view<const tensor_type>(in.data(), in.size()));
  const std::int64_t rows = x.size(0, x.rank - axes), length = x.size(x.rank - axes, x.rank);
  auto run = kernels::normalize_of(e.isa()).normalize[static_cast<int>(element)];
  emission::cut(rows, 4 * static_cast<double>(length) + 40, [&](std::int64_t first, std::int64_t count) {
    kernels::normalize_args a{};
    a.rows = count;
    a.length = length;
    a.epsilon = at.epsilon;
    a.centered = centered;
    std::vector<address> where{{&a.in, e.in(0).at(first * length * size)},
                               {&a.out, e.out(0).at(first * length * size)}};
    if (operands > 1) where.push_back({&a.weight, e.in(1)});
    if (operands > 2) where.push_back({&a.bias, e.in(2)});
    if (e.used(1)) where.push_back({&a.scale, e.out(1).at(first * size)});
    if (centered && e.used(2)) where.push_back({&a.mean, e.out(2).at(first * size)});
    e.step(run, a, where);
  });
}

// With r the factor of a row, y the normalized row, h = g weight: r (h - mean(h) - y mean(h y)); without means for the
// root mean square's first one. The factor itself changes by -r^2 y / length, the mean by 1 / length.
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
void layer_norm::emit(emission& e) { emit_rows(e, true); }
void rms_norm::gradient(gradient_call& c) { pass_on(c, false); }
void rms_norm::emit(emission& e) { emit_rows(e, false); }

}  // namespace lamina::op
