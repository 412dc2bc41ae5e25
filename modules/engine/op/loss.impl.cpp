module;
#include "../kernels/families.h"
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
const kernels::reduce_functions& functions(const emission& e) { return kernels::reduce_of(e.isa()); }

// Picks or spreads by the positions of operand 1; positions outside the table's last axis are counted under `message`.
void emit_pick(emission& e, kernels::kernel run, const shape& table, std::string_view message, bool samples = false) {
  kernels::pick_args a{};
  a.length = table.at(table.rank - 1);
  a.rows = table.size(0, table.rank - 1);
  e.step(run, a,
         {{&a.in, e.in(0)},
          {&a.index, e.in(1)},
          {&a.out, e.out(0)},
          {&a.invalid, e.status_with_first(message, {e.in_type(1).dims, samples})}});
}
std::string outside_of(const emission& e, const shape& table) {
  return (detail::named(e) << ": an index is outside 0.." << table.at(table.rank - 1) - 1).string();
}
// Message for an invalid label, in terms of the loss that the user called.
std::string no_class_of(const emission& e, const shape& scores) {
  const std::int64_t classes = scores.at(scores.rank - 1);
  text t;
  if (!e.of().path.empty()) t << e.of().path << ": ";
  t << (e.attributes<label_attributes>().logits ? "cross_entropy" : "nll") << ": a label is outside 0.." << classes - 1
    << " (" << classes << (classes == 1 ? " class)" : " classes)");
  return t.string();
}

void emit_random(emission& e, const kernels::kernel (&run)[2]) {
  const auto& at = e.attributes<random_attributes>();
  dtype element = e.out_type(0).element;
  emission::cut(
      e.out_type(0).dims.size(), 20,
      [&](std::int64_t first, std::int64_t count) {
        kernels::random_args a{};
        a.first = first;
        a.n = count;
        a.site = at.site;
        a.low = at.a;
        a.high = at.b;
        e.step(run[static_cast<int>(element)], a,
               {{&a.state, e.in(0)}, {&a.out, e.out(0).at(first * static_cast<std::int64_t>(size_of(element)))}});
      },
      emission::usual_grain, 64);
}
// Spreading only moves bits, so the element size selects the kernel.
kernels::kernel spread_of(const emission& e) {
  return functions(e).spread[std::bit_width(size_of(e.out_type(0).element)) - 1];
}
}  // namespace

void pick::emit(emission& e) {
  const shape& table = e.in_type(0).dims;
  emit_pick(e, functions(e).pick[static_cast<int>(e.in_type(0).element)], table, outside_of(e, table));
}
void pick_grad::infer(const attributes&, view<const tensor_type> in, inference& out) {
  const tensor_type picked[] = {{dtype::float32, in[2].dims}, in[1]};
  if (detail::is_result_of<pick>({}, picked, {dtype::float32, in[0].dims}, out)) out.result(in[0].element, in[2].dims);
}
void pick_grad::emit(emission& e) { emit_pick(e, spread_of(e), e.out_type(0).dims, outside_of(e, e.out_type(0).dims)); }

void pick_label::emit(emission& e) {
  const shape& scores = e.in_type(0).dims;
  emit_pick(e, functions(e).pick[static_cast<int>(e.in_type(0).element)], scores, no_class_of(e, scores), true);
}
void pick_label_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type picked[] = {{dtype::float32, in[2].dims}, in[1]};
  if (detail::is_result_of<pick_label>(a, picked, {dtype::float32, in[0].dims}, out))
    out.result(in[0].element, in[2].dims);
}
void pick_label_grad::emit(emission& e) {
  emit_pick(e, spread_of(e), e.out_type(0).dims, no_class_of(e, e.out_type(0).dims), true);
}

void same_shape::emit(emission& e) { detail::emit_copy(e); }

void require_finite::infer(const attributes&, view<const tensor_type> in, inference& out) {
  for (const auto& t : in)
    if (!lamina::detail::takes(domain::real, t.element, out)) return;
  if (in[0].dims.rank > 0) {
    out.why << "the first operand must be one number";
    return;
  }
  out.result(in[0].element, in[0].dims);
}
void require_finite::emit(emission& e) {
  const tensor_type& checked = e.in_type(1);
  const auto size = static_cast<std::int64_t>(size_of(checked.element));
  emission::cut(
      checked.dims.size(), 0.5,
      [&](std::int64_t first, std::int64_t count) {
        kernels::finite_args a{};
        a.n = count;
        e.step(functions(e).count_not_finite[static_cast<int>(checked.element)], a,
               {{&a.in, e.in(1).at(first * size)},
                {&a.invalid, e.status((detail::named(e) << ": elements are not finite").view())}});
      },
      emission::usual_grain, 64);
  detail::emit_copy(e);
}

void one_hot_like::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (in[0].element != dtype::int64) return out.refuse(in[0].element, "an int64 position", "std::int64_t");
  for (std::size_t i = 0; i < 2; ++i)
    if (in[i].dims.is_static() && in[i].dims.size() != 1) {
      out.why << (i == 0 ? "the position" : "the number") << " has " << in[i].dims.size() << " elements; expected one";
      return;
    }
  out.result(in[1].element, in[2].dims);
}
void one_hot_like::emit(emission& e) {
  kernels::pick_args a{};
  a.rows = 1;
  a.length = e.out_type(0).dims.size();
  e.step(spread_of(e), a,
         {{&a.in, e.in(1)},
          {&a.index, e.in(0)},
          {&a.out, e.out(0)},
          {&a.invalid, e.status_with_first((detail::named(e) << ": the position is outside the vector").view(), {})}});
}

void random_uniform::emit(emission& e) { emit_random(e, kernels::random_of(e.isa()).uniform); }
void random_normal::emit(emission& e) { emit_random(e, kernels::random_of(e.isa()).normal); }

}  // namespace lamina::op
