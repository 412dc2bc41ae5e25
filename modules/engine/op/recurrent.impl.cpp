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

const kernels::cell_functions& cells(const emission& e) { return kernels::cell_of(e.isa()); }

// Emits steps over the rows of a state, with `kernel(type, rows, hidden)`; `where` returns the operands' addresses,
// `at` bytes into the state.
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

void lstm_gates_grad::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (!detail::cell_operands(in, out) || !detail::gates_fit(in[0], in[1], 4, out)) return;
  for (std::size_t i = 2; i < 5; ++i)
    if (!fits(in[1].dims, in[i].dims)) {
      out.why << "operand " << i << " must have the shape of the cell";
      return;
    }
  for (std::size_t i = 0; i < 2; ++i) out.result(in[i].element, in[i].dims);
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
