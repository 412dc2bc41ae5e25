module;
#include "../kernels/families.h"
module lamina:op.reduce.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.elementwise;
import :op.reduce;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

// A part of [outer, length, inner]: its first element, the same of [outer, inner], its extents, and the elements from
// one position along length to the next.
struct axis_part {
  std::int64_t first, result, outer, inner, row;
};
// Parts of [outer, length, inner], of `cost` units per element: along outer, or along inner if outer is 1.
detail::part_list<axis_part> parts_around(const emission& e, std::int64_t outer, std::int64_t length,
                                          std::int64_t inner, double cost) {
  detail::part_list<axis_part> parts;
  const bool by_columns = outer == 1 && inner > 1;
  e.cut_for_threads(
      by_columns ? inner : outer, static_cast<double>(by_columns ? length : length * inner) * cost,
      [&](std::int64_t first, std::int64_t count) {
        if (by_columns) parts.push_back({first, first, 1, count, inner});
        else parts.push_back({first * length * inner, first * inner, count, inner, inner});
      },
      emission::usual_grain, by_columns ? 64 : 1);  // columns: whole cache lines
  return parts;
}

// One reduction of [outer, length, inner].
void emit_axis(emission& e, const kernels::reduction_functions& functions, buffer_ref in, buffer_ref out, dtype element,
               std::int64_t outer, std::int64_t length, std::int64_t inner) {
  auto run = functions.of[static_cast<int>(element)];
  auto size = static_cast<std::int64_t>(size_of(element));
  auto result_size = functions.positions ? 8 : size;
  for (const axis_part& part : parts_around(e, outer, length, inner, 1)) {
    kernels::reduce_args a{};
    a.outer = part.outer, a.length = length, a.inner = part.inner, a.row = part.row;
    e.step(run, a, {{&a.in, in.at(part.first * size)}, {&a.out, out.at(part.result * result_size)}});
  }
}

}  // namespace

std::vector<detail::axis_group> detail::groups_of(const shape& s, unsigned bits) {
  std::vector<axis_group> g;
  for (int i = 0; i < s.rank; ++i) {
    bool reduced = bits >> i & 1u;
    if (s.at(i) == 1) continue;
    if (!g.empty() && g.back().reduced == reduced) g.back().size *= s.at(i);
    else g.push_back({s.at(i), reduced});
  }
  return g;
}

unsigned detail::repeated_axes(const shape& x, const shape& to) {
  unsigned bits = 0;
  for (int i = 0; i < x.rank; ++i) {
    int k = i - (x.rank - to.rank);
    if (k < 0 || (to.at(k) == 1 && x.at(i) != 1)) bits |= 1u << i;
  }
  return bits;
}

void detail::emit_reduction(emission& e, const kernels::reduction_functions& functions) {
  const shape& x = e.in_type(0).dims;
  if (e.in(0).form == layout::blocked) {  // maps of blocks: the padding channels are reduced, too
    const std::int64_t lanes = kernels::lanes(static_cast<kernels::isa>(e.isa()));
    return emit_axis(e, functions, e.in(0), e.out(0), dtype::float32, e.stored(e.out(0), e.out_type(0)) / lanes,
                     x.size(2, 4), lanes);
  }
  unsigned bits = 0;
  reduced_axes(e.attributes<reduce_attributes>(), x.rank, bits);
  emit_groups(e, functions, e.in(0), e.in_type(0).element, groups_of(x, bits));
}
void detail::emit_sum_like(emission& e) {
  emit_groups(e, kernels::reduce_sum_of(e.isa()), e.in(0), e.in_type(0).element,
              groups_of(e.in_type(0).dims, repeated_axes(e.in_type(0).dims, e.out_type(0).dims)));
}
// Reduces the innermost group first; further passes reduce what remains.
void detail::emit_groups(emission& e, const kernels::reduction_functions& functions, buffer_ref from, dtype element,
                         std::vector<axis_group> groups) {
  bool any = false;
  for (const auto& g : groups) any = any || g.reduced;
  if (!any) groups.push_back({1, true});  // nothing to reduce: a copy
  for (bool last = false; !last;) {
    std::size_t at = groups.size();
    while (!groups[at - 1].reduced) --at;
    --at;
    std::int64_t outer = 1, inner = 1, left = 0;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (i < at) outer *= groups[i].size;
      if (i > at) inner *= groups[i].size;
      left += groups[i].reduced;
    }
    last = left == 1;
    std::int64_t length = groups[at].size;
    buffer_ref to =
        last ? e.out(0)
             : e.temporary(static_cast<std::size_t>(std::max<std::int64_t>(outer * inner, 1)) * size_of(element));
    // A mean in several passes is a mean of means: every pass divides by its length.
    emit_axis(e, functions, from, to, element, outer, length, inner);
    if (!last) e.stage();
    from = to;
    std::vector<axis_group> next;
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (i == at) continue;
      if (!next.empty() && next.back().reduced == groups[i].reduced) next.back().size *= groups[i].size;
      else next.push_back(groups[i]);
    }
    groups = std::move(next);
  }
}

image_layouts detail::reduced_images(const image_call& c) {
  unsigned bits = 0;
  const auto& a = *static_cast<const reduce_attributes*>(c.attributes);
  const bool maps = c.blocked && c.in[0].element == dtype::float32 && c.first_only && a.keepdim &&
                    reduced_axes(a, 4, bits) && bits == 0b1100u;
  return {maps, maps};
}
void detail::map_reduced_axis(const reduce_attributes& a, axis_map& m) {
  m.independent = a.axes.count > 0;
  for (int i = 0; i < a.axes.count; ++i) m.independent = m.independent && m.before(a.axes[i]);
}

namespace op {

namespace {
void emit_spread(emission& e, bool mean) {
  const auto& at = e.attributes<reduce_attributes>();
  const shape& to = e.out_type(0).dims;
  unsigned bits = 0;
  detail::reduced_axes(at, to.rank, bits);
  dtype element = e.out_type(0).element;
  kernels::copy_args a{};
  a.axes = std::max(to.rank, 1);
  a.size = static_cast<std::int32_t>(size_of(element));
  a.extent[0] = 1;
  std::int64_t out[max_rank]{}, step = 1, reduced = 1;
  row_major_strides(to, out);
  for (int i = to.rank - 1; i >= 0; --i) {
    a.extent[i] = to.at(i);
    a.out_stride[i] = out[i];
    if (bits >> i & 1u) reduced *= to.at(i);
    else {
      a.in_stride[i] = step;
      step *= to.at(i);
    }
  }
  buffer_ref from = e.in(0);
  if (mean) {
    // Gradients are divided before they are repeated: there are fewer of them.
    std::int64_t n = e.in_type(0).dims.size();
    buffer_ref divisor = e.temporary(8),
               scaled = e.temporary(static_cast<std::size_t>(std::max<std::int64_t>(n, 1)) * size_of(element));
    kernels::fill_args fill{};
    fill.n = 1;
    fill.size = a.size;
    if (element == dtype::float64) {
      auto d = static_cast<double>(reduced);
      std::memcpy(fill.value, &d, 8);
    } else {
      auto d = static_cast<float>(reduced);
      std::memcpy(fill.value, &d, 4);
    }
    e.step(kernels::copies_of(e.isa()).fill, fill, {{&fill.out, divisor}});
    e.stage();
    kernels::map_args divide{};
    divide.run = kernels::map_divide_of(e.isa()).of[static_cast<int>(element)];
    divide.n = n;
    divide.steps = 1;
    e.step(kernels::elementwise_of(e.isa()).map, divide,
           {{&divide.in[0], from}, {&divide.in[1], divisor}, {&divide.out, scaled}});
    e.stage();
    from = scaled;
  }
  e.step(kernels::copies_of(e.isa()).copy, a, {{&a.in, from}, {&a.out, e.out(0)}});
}
}  // namespace

void reduce_sum::emit(emission& e) { detail::emit_reduction(e, kernels::reduce_sum_of(e.isa())); }
void reduce_mean::emit(emission& e) { detail::emit_reduction(e, kernels::reduce_mean_of(e.isa())); }
void reduce_max::emit(emission& e) { detail::emit_reduction(e, kernels::reduce_maximum_of(e.isa())); }
void reduce_min::emit(emission& e) { detail::emit_reduction(e, kernels::reduce_minimum_of(e.isa())); }

void reduce_prod::emit(emission& e) { detail::emit_reduction(e, kernels::reduce_product_of(e.isa())); }
void reduce_any::emit(emission& e) { detail::emit_reduction(e, kernels::reduce_maximum_of(e.isa())); }
void reduce_all::emit(emission& e) {
  // A minimum of no bytes is no valid bool.
  if (e.in_type(0).dims.size() == 0) detail::emit_fill(e, e.out(0), e.out_type(0).dims.size(), dtype::boolean, 1);
  else detail::emit_reduction(e, kernels::reduce_minimum_of(e.isa()));
}

namespace {
void emit_product_of_others(emission& e, bool slope) {
  const shape& s = e.in_type(0).dims;
  if (s.size() == 0) return;  // with any number of empty rows
  dtype element = e.in_type(0).element;
  auto size = static_cast<std::int64_t>(size_of(element));
  auto run = kernels::product_of_others_of(e.isa()).of[static_cast<int>(element)];
  std::int64_t length = s.back().code;
  emission::cut(s.size(0, s.rank - 1), 8.0 * static_cast<double>(length), [&](std::int64_t first, std::int64_t count) {
    kernels::product_of_others_args a{};
    a.rows = count;
    a.length = length;
    auto skip = first * length * size;
    std::vector<address> where{{&a.in, e.in(0).at(skip)}, {&a.out, e.out(0).at(skip)}};
    if (slope) where.push_back({&a.tangent, e.in(1).at(skip)});
    e.step(run, a, where, static_cast<std::size_t>(kernels::product_of_others_scratch(length)));
  });
}
}  // namespace
void product_of_others::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (!detail::takes(domain::real, in[0].element, out)) return;
  if (in[0].dims.rank < 1) out.why << "rows [..., n] are expected";
  else out.result(in[0].element, in[0].dims);
}
void product_of_others_slope::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!detail::same_elements(in, out)) return;
  if (!fits(in[0].dims, in[1].dims)) out.why << "the direction must have the shape of the rows";
  else product_of_others::infer(a, in, out);
}
void product_of_others::emit(emission& e) { emit_product_of_others(e, false); }
void product_of_others_slope::emit(emission& e) { emit_product_of_others(e, true); }

void spread::emit(emission& e) { emit_spread(e, false); }
void spread_mean::emit(emission& e) { emit_spread(e, true); }

namespace {
struct line {
  std::int64_t outer, length, inner;
};
line along(const shape& s, std::int64_t axis) {
  int a = detail::normal_axis(axis, s.rank);
  return {s.size(0, a), s.at(a), s.size(a + 1, s.rank)};
}
void emit_softmax(emission& e, const kernels::kernel (&run)[2]) {
  const line s = along(e.in_type(0).dims, e.attributes<softmax_attributes>().axis);
  auto size = static_cast<std::int64_t>(size_of(e.in_type(0).element));
  for (const axis_part& part : parts_around(e, s.outer, s.length, s.inner, 20)) {
    kernels::softmax_args a{};
    a.outer = part.outer, a.length = s.length, a.inner = part.inner, a.row = part.row;
    e.step(run[static_cast<int>(e.in_type(0).element)], a,
           {{&a.in, e.in(0).at(part.first * size)}, {&a.out, e.out(0).at(part.first * size)}});
  }
}
}  // namespace

namespace {
void emit_position(emission& e, const kernels::reduction_functions& functions) {
  auto [outer, length, inner] = along(e.in_type(0).dims, e.attributes<argmax_attributes>().axis);
  emit_axis(e, functions, e.in(0), e.out(0), e.in_type(0).element, outer, length, inner);
}
}  // namespace
void argmax::emit(emission& e) { emit_position(e, kernels::reduce_argmax_of(e.isa())); }
void argmin::emit(emission& e) { emit_position(e, kernels::reduce_argmin_of(e.isa())); }

value softmax::logarithm(const attributes& a, const value& x) { return lamina::log_softmax(x, a); }
void softmax::emit(emission& e) { emit_softmax(e, kernels::softmax_of(e.isa()).softmax); }
void log_softmax::emit(emission& e) { emit_softmax(e, kernels::softmax_of(e.isa()).log_softmax); }

}  // namespace op

}  // namespace lamina
