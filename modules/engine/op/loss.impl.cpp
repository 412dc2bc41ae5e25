module;
#include "../kernels/table.h"
module lamina:op.loss.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.loss;
import :op.random;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

namespace {
const kernels::reduce_functions& functions(const emission& e) { return *kernels::kernels_of(static_cast<kernels::isa>(e.isa())).reduce; }

void emit_pick(emission& e, kernels::kernel run, const shape& table) {
  kernels::pick_args a{};
  a.length = table.at(table.rank - 1);
  a.rows = table.size(0, table.rank - 1);
  text t = detail::named(e);
  t << ": an index is outside 0.." << a.length - 1;
  e.step(run, a, {{&a.in, e.in(0)}, {&a.index, e.in(1)}, {&a.out, e.out(0)}, {&a.invalid, e.status(t.view())}});
}

void emit_random(emission& e, const kernels::kernel (&run)[2]) {
  const auto& at = e.attributes<random_attributes>();
  dtype element = e.out_type(0).element;
  emission::cut(e.out_type(0).dims.size(), 20, [&](std::int64_t first, std::int64_t count) {
    kernels::random_args a{};
    a.first = first;
    a.n = count;
    a.site = at.site;
    a.low = at.a;
    a.high = at.b;
    e.step(run[static_cast<int>(element)], a,
           {{&a.state, e.in(0)}, {&a.out, e.out(0).at(first * static_cast<std::int64_t>(size_of(element)))}});
  }, 400e3, 64);
}
// Spreading moves bits, so the size of an element is all it needs.
kernels::kernel spread_of(const emission& e) { return functions(e).spread[std::bit_width(size_of(e.out_type(0).element)) - 1]; }
}  // namespace

void pick::gradient(gradient_call& c) { c(0, [&] { return apply<op::unpick>({}, c.gradient(), c(1), c(0)); }); }
void pick::emit(emission& e) { emit_pick(e, functions(e).pick[static_cast<int>(e.in_type(0).element)], e.in_type(0).dims); }
void unpick::gradient(gradient_call& c) { c(0, [&] { return lamina::pick(c.gradient(), c(1)); }); }
void unpick::emit(emission& e) { emit_pick(e, spread_of(e), e.out_type(0).dims); }

void one_hot_like::emit(emission& e) {
  kernels::pick_args a{};
  a.rows = 1;
  a.length = e.out_type(0).dims.size();
  e.step(spread_of(e), a,
         {{&a.in, e.in(1)}, {&a.index, e.in(0)}, {&a.out, e.out(0)}, {&a.invalid, e.status((detail::named(e) << ": the position is outside the vector").view())}});
}

void random_uniform::emit(emission& e) { emit_random(e, functions(e).uniform); }
void random_normal::emit(emission& e) { emit_random(e, functions(e).normal); }

}  // namespace lamina::op
