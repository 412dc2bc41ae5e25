module;
#include "../kernels/families.h"
module lamina:op.sample.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.index;
import :op.sample;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

value resample(const value& x, const value& positions, const value& weights, resample_attributes a, const origin&) {
  return apply<op::resample>(a, x, positions, weights);
}

}  // namespace lamina

namespace lamina::op {

namespace {

const kernels::sample_functions& functions(const emission& e) { return kernels::sample_of(e.isa()); }
std::int64_t bytes_of(const tensor_type& t) { return static_cast<std::int64_t>(size_of(t.element)); }

// The axis of x that a table [..., points, taps] resamples, with leading axes shared; -1, with a reason, if it does not
// fit.
int tabled_axis(const resample_attributes& a, const shape& x, const shape& table, inference& out) {
  const int axis = detail::normal_axis(a.axis, x.rank);
  if (axis < 0) {
    out.why << "axis " << a.axis << " is outside the rank";
    return -1;
  }
  if (a.batch_axes < 0 || a.batch_axes > axis || table.rank != a.batch_axes + 2) {
    out.why << "positions must have " << a.batch_axes << " shared axes, then points and taps";
    return -1;
  }
  for (int i = 0; i < table.rank - 2; ++i)
    if (!may_equal(x[i], table[i])) {
      out.why << "the positions must have the extents of the leading axes";
      return -1;
    }
  return axis;
}
// The shape of x with an axis replaced by the points of a table.
shape sampled_shape(const shape& x, const shape& table, int axis) {
  shape s = x;
  for (int i = 0; i < table.rank - 2; ++i) s[i] = better(x[i], table[i]);
  s[axis] = table[table.rank - 2];
  return s;
}

// Extents of the elements [outer, length, inner] and of the tables [outer / rows, points, taps].
struct sampled {
  long outer, rows, length, points, taps, inner;
};
sampled sampled_of(const shape& x, const shape& table, const resample_attributes& a) {
  const int axis = detail::normal_axis(a.axis, x.rank);
  sampled s{};
  s.outer = x.size(0, axis);
  const std::int64_t tables = table.size(0, table.rank - 2);
  s.rows = tables ? s.outer / tables : 1;
  s.length = x.at(axis);
  s.points = table.at(table.rank - 2);
  s.taps = table.at(table.rank - 1);
  s.inner = x.size(axis + 1, x.rank);
  return s;
}
template <class Arguments> Arguments arguments_of(const sampled& s, std::int64_t first, std::int64_t count) {
  Arguments a{};
  a.first = first;
  a.count = count;
  a.length = s.length;
  a.points = s.points;
  a.taps = s.taps;
  a.inner = s.inner;
  if constexpr (requires { a.rows; }) a.rows = s.rows;
  return a;
}

}  // namespace

void resample::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type numbers[] = {in[0], in[2]};
  if (!detail::takes(domain::real, in[0].element, out) || !detail::same_elements(numbers, out) ||
      !detail::takes_positions(in[1], out))
    return;
  const int axis = tabled_axis(a, in[0].dims, in[1].dims, out);
  if (axis < 0) return;
  if (!fits(in[1].dims, in[2].dims)) out.why << "positions and weights must have the same shape";
  else out.result(in[0].element, sampled_shape(in[0].dims, in[1].dims, axis));
}
void resample::emit(emission& e) {
  const sampled s = sampled_of(e.in_type(0).dims, e.in_type(1).dims, e.attributes<attributes>());
  if (e.out_type(0).dims.size() == 0) return;
  const std::int64_t size = bytes_of(e.out_type(0));
  emission::cut(
      s.outer * s.points, 2.0 * static_cast<double>(s.taps * s.inner) + 4, [&](std::int64_t first, std::int64_t count) {
        auto a = arguments_of<kernels::resample_args>(s, first, count);
        e.step(
            functions(e).resample[static_cast<int>(e.out_type(0).element)], a,
            {{&a.in, e.in(0)}, {&a.at, e.in(1)}, {&a.weight, e.in(2)}, {&a.out, e.out(0).at(first * s.inner * size)}});
      });
}
void resample::map_axis(const attributes& a, axis_map& m) {
  m.share(1);
  m.share(2);
  m.independent = a.batch_axes == 0 && m.beside(a.axis);
}

void resample_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type forward[] = {{in[0].element, in[3].dims}, in[1], in[2]};
  if (detail::is_result_of<resample>(a, forward, in[0], out)) out.result(in[0].element, in[3].dims);
}
void resample_grad::emit(emission& e) {
  const sampled s = sampled_of(e.out_type(0).dims, e.in_type(1).dims, e.attributes<attributes>());
  if (e.out_type(0).dims.size() == 0) return;
  const std::int64_t size = bytes_of(e.out_type(0));
  emission::cut(s.outer, static_cast<double>((2 * s.points * s.taps + s.length) * s.inner),
                [&](std::int64_t first, std::int64_t count) {
                  auto a = arguments_of<kernels::resample_grad_args>(s, first, count);
                  e.step(functions(e).resample_grad[static_cast<int>(e.out_type(0).element)], a,
                         {{&a.in, e.in(0)},
                          {&a.at, e.in(1)},
                          {&a.weight, e.in(2)},
                          {&a.out, e.out(0).at(first * s.length * s.inner * size)}});
                });
}

void resample_weight_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type forward[] = {in[1], in[2], {in[0].element, in[2].dims}};
  if (detail::is_result_of<resample>(a, forward, in[0], out)) out.result(in[0].element, in[2].dims);
}
void resample_weight_grad::emit(emission& e) {
  const shape& table = e.in_type(2).dims;
  const sampled s = sampled_of(e.in_type(1).dims, table, e.attributes<attributes>());
  if (table.size() == 0) return;
  const std::int64_t size = bytes_of(e.out_type(0));
  emission::cut(
      table.size(0, table.rank - 1), 2.0 * static_cast<double>(s.taps * (s.rows * s.inner + 2)),
      [&](std::int64_t first, std::int64_t count) {
        auto a = arguments_of<kernels::resample_weight_grad_args>(s, first, count);
        e.step(functions(e).resample_weight_grad[static_cast<int>(e.out_type(0).element)], a,
               {{&a.grad, e.in(0)}, {&a.in, e.in(1)}, {&a.at, e.in(2)}, {&a.out, e.out(0).at(first * s.taps * size)}});
      });
}

void max_windows::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!detail::takes(domain::numbers, in[0].element, out) || !detail::takes_positions(in[1], out)) return;
  const int axis = tabled_axis({a.axis, 0}, in[0].dims, in[1].dims, out);
  if (axis < 0) return;
  const shape s = sampled_shape(in[0].dims, in[1].dims, axis);
  out.result(in[0].element, s);
  out.result(dtype::int64, s);
}
void max_windows::emit(emission& e) {
  const sampled s = sampled_of(e.in_type(0).dims, e.in_type(1).dims, {e.attributes<attributes>().axis, 0});
  if (e.out_type(0).dims.size() == 0) return;
  const std::int64_t size = bytes_of(e.out_type(0));
  emission::cut(
      s.outer * s.points, 2.0 * static_cast<double>(s.taps * s.inner) + 4, [&](std::int64_t first, std::int64_t count) {
        auto a = arguments_of<kernels::max_windows_args>(s, first, count);
        std::vector<address> where{{&a.in, e.in(0)}, {&a.at, e.in(1)}, {&a.out, e.out(0).at(first * s.inner * size)}};
        if (e.used(1)) where.push_back({&a.index, e.out(1).at(first * s.inner * 8)});
        e.step(functions(e).max_windows[static_cast<int>(e.out_type(0).element)], a, where);
      });
}
void max_windows::map_axis(const attributes& a, axis_map& m) {
  m.share(1);
  m.independent = m.beside(a.axis);
}

}  // namespace lamina::op
