module;
#include "../kernels/families.h"
module lamina:op.recurrent.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.control;
import :op.elementwise;
import :op.recurrent;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

namespace {

value zero_like(const value& v) { return lamina::broadcast_like(v.owner().number(0.0, v.type().element), v); }
value or_zero(const value& gradient, const value& of) { return gradient.empty() ? zero_like(of) : gradient; }
// Part `i` of `count` along the columns.
value columns(const value& v, std::int64_t i, const value& like) {
  auto width = like.shape().at(1);
  return lamina::slice(v, {.start = i * width, .stop = (i + 1) * width, .axis = 1});
}
value joined(std::initializer_list<value> parts) {
  return apply_all<op::concat>(axis_attributes{1}, view<const value>(parts.begin(), parts.size()));
}
bool known_width(const value& v) { return v.shape()[1].is_number(); }

// The backward formulas in operations that have gradients themselves: how second gradients are found.
std::vector<value> lstm_backward(const std::vector<value>& v) {
  const value &gates = v[0], &cell = v[1], &next = v[2], &dh = v[3], &dn = v[4];
  value i = lamina::sigmoid(columns(gates, 0, cell)), f = lamina::sigmoid(columns(gates, 1, cell)),
        g = lamina::tanh(columns(gates, 2, cell)), o = lamina::sigmoid(columns(gates, 3, cell)), t = lamina::tanh(next);
  value dc = dn + dh * o * (1 - t * t);
  return {joined({dc * g * (i * (1 - i)), dc * cell * (f * (1 - f)), dc * i * (1 - g * g), dh * t * (o * (1 - o))}),
          dc * f};
}
std::vector<value> gru_backward(const std::vector<value>& v) {
  const value &x = v[0], &h = v[1], &state = v[2], &d = v[3];
  value r = lamina::sigmoid(columns(x, 0, state) + columns(h, 0, state)),
        z = lamina::sigmoid(columns(x, 1, state) + columns(h, 1, state)), hn = columns(h, 2, state),
        n = lamina::tanh(columns(x, 2, state) + r * hn);
  value dn = d * (1 - z) * (1 - n * n), dz = d * (state - n) * (z * (1 - z)), dr = dn * hn * (r * (1 - r));
  return {joined({dr, dz, dn}), joined({dr, dz, dn * r}), d * z};
}
void second_order(gradient_call& c, std::string_view name, std::vector<value> (*backward)(const std::vector<value>&)) {
  if (!known_width(c(0))) {
    text t;
    detail::raise(error_kind::shape, t << name << ": a second gradient needs the number of columns");
  }
  program p;
  std::vector<value> in;
  for (const auto& v : c.inputs) in.push_back(p.input("x", v.type()));
  for (const auto& v : backward(in)) p.output("y", v);
  gradient_of_call(c, p);
}

const kernels::cell_functions& cells(const emission& e) { return kernels::cell_of(e.isa()); }

// Steps over the rows of a state, by `kernel(type, rows, hidden)`; `where` says where the operands of each lie, `at` bytes into
// the state.
template <class Arguments, class K, class F> void emit_rows(emission& e, std::size_t state, K kernel, F where) {
  const shape& s = e.in_type(state).dims;
  if (s.size() == 0) return;
  const dtype element = e.out_type(0).element;
  e.cut_for_threads(s.at(0), 40.0 * static_cast<double>(s.at(1)), [&](std::int64_t first, std::int64_t count) {
    Arguments a{};
    a.rows = count;
    a.hidden = s.at(1);
    const auto addresses = where(a, first * s.at(1) * static_cast<std::int64_t>(size_of(element)));
    e.step(kernel(static_cast<int>(element), a.rows, a.hidden), a, addresses);
  });
}

auto forward_kernel(const kernels::cell_kernels& k) {
  return [&k](int type, long rows, long hidden) { return k.of(type, rows, hidden); };
}
auto gradient_kernel(const kernels::kernel (&k)[2]) {
  return [&k](int type, long, long) { return k[type]; };
}

}  // namespace

void lstm_gates::gradient(gradient_call& c) {
  auto d =
      apply<lstm_gates_grad>({}, c(0), c(1), c.result(1), or_zero(c.gradients[0], c(1)), or_zero(c.gradients[1], c(1)));
  c(0, [&] { return d[0]; });
  c(1, [&] { return d[1]; });
}
void lstm_gates_grad::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (!detail::cell_operands(in, out) || !detail::gates_fit(in[0], in[1], 4, out)) return;
  for (std::size_t i = 2; i < 5; ++i)
    if (!fits(in[1].dims, in[i].dims)) {
      out.why << "operand " << i << " must have the shape of the cell";
      return;
    }
  for (std::size_t i = 0; i < 2; ++i) out.result(in[i].element, in[i].dims);
}
void lstm_gates_grad::gradient(gradient_call& c) { second_order(c, name, &lstm_backward); }
void gru_gates::gradient(gradient_call& c) {
  auto d = apply<gru_gates_grad>({}, c(0), c(1), c(2), c.gradient());
  for (std::size_t i = 0; i < 3; ++i) c(i, [&] { return d[i]; });
}
void gru_gates_grad::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (!detail::cell_operands(in, out) || !detail::gates_fit(in[0], in[2], 3, out) ||
      !detail::gates_fit(in[1], in[2], 3, out))
    return;
  if (!fits(in[2].dims, in[3].dims)) {
    out.why << "the gradient must have the shape of the state";
    return;
  }
  for (std::size_t i = 0; i < 3; ++i) out.result(in[i].element, in[i].dims);
}
void gru_gates_grad::gradient(gradient_call& c) { second_order(c, name, &gru_backward); }

void lstm_gates::emit(emission& e) {
  emit_rows<kernels::lstm_args>(e, 1, forward_kernel(cells(e).lstm), [&](const auto& a, std::int64_t at) {
    return std::array{address{&a.gates, e.in(0).at(4 * at)}, address{&a.cell, e.in(1).at(at)},
                      address{&a.out, e.out(0).at(at)}, address{&a.next_out, e.out(1).at(at)}};
  });
}
void lstm_gates_grad::emit(emission& e) {
  emit_rows<kernels::lstm_args>(e, 1, gradient_kernel(cells(e).lstm_grad), [&](const auto& a, std::int64_t at) {
    return std::array{address{&a.gates, e.in(0).at(4 * at)},     address{&a.cell, e.in(1).at(at)},
                      address{&a.next, e.in(2).at(at)},          address{&a.out_gradient, e.in(3).at(at)},
                      address{&a.next_gradient, e.in(4).at(at)}, address{&a.gates_gradient, e.out(0).at(4 * at)},
                      address{&a.cell_gradient, e.out(1).at(at)}};
  });
}
void gru_gates::emit(emission& e) {
  emit_rows<kernels::gru_args>(e, 2, forward_kernel(cells(e).gru), [&](const auto& a, std::int64_t at) {
    return std::array{address{&a.x, e.in(0).at(3 * at)}, address{&a.h, e.in(1).at(3 * at)},
                      address{&a.state, e.in(2).at(at)}, address{&a.out, e.out(0).at(at)}};
  });
}
void gru_gates_grad::emit(emission& e) {
  emit_rows<kernels::gru_args>(e, 2, gradient_kernel(cells(e).gru_grad), [&](const auto& a, std::int64_t at) {
    return std::array{address{&a.x, e.in(0).at(3 * at)},           address{&a.h, e.in(1).at(3 * at)},
                      address{&a.state, e.in(2).at(at)},           address{&a.out_gradient, e.in(3).at(at)},
                      address{&a.x_gradient, e.out(0).at(3 * at)}, address{&a.h_gradient, e.out(1).at(3 * at)},
                      address{&a.state_gradient, e.out(2).at(at)}};
  });
}

void lstm_gates::map_axis(const attributes&, axis_map& m) { m.independent = m.axis == 0; }
void gru_gates::map_axis(const attributes&, axis_map& m) { m.independent = m.axis == 0; }

}  // namespace lamina::op
