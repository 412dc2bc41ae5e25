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

// All rows share weight and bias.
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
  emission::cut(rows, 20 * static_cast<double>(length) + 100, [&](std::int64_t first, std::int64_t count) {
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

}  // namespace

void layer_norm::emit(emission& e) { emit_rows(e, true); }
void rms_norm::emit(emission& e) { emit_rows(e, false); }

}  // namespace lamina::op
