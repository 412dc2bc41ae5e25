module;
#include "../kernels/families.h"
module lamina:op.tile.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.channel_blocks;
import :op.reduce;
import :op.shape;
import :op.tile;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

namespace {

using detail::axis_group;

// Memory structure of a repetition: groups of the operand's elements and of repetitions, outermost first; `reduced`
// marks repetitions, over which the adjoint sums.
std::vector<axis_group> tiles_of(const shape& one, const shape& all) {
  std::vector<axis_group> g;
  for (int i = 0; i < all.rank; ++i) {
    int from = i - (all.rank - one.rank);
    std::int64_t size = from < 0 ? 1 : one.at(from);
    g.push_back({size ? all.at(i) / size : 1, true});
    g.push_back({size, false});
  }
  return g;
}
std::vector<axis_group> repeats_of(const shape& one, const shape& all, std::int64_t at) {
  int axis = detail::normal_axis(at, one.rank);
  std::int64_t size = one.at(axis);
  return {
      {one.size(0, axis + 1), false}, {size ? all.at(axis) / size : 1, true}, {one.size(axis + 1, one.rank), false}};
}

// Drops groups of size 1 and merges neighbors of one kind.
std::vector<axis_group> joined(const std::vector<axis_group>& all) {
  std::vector<axis_group> g;
  for (const auto& a : all) {
    if (a.size == 1) continue;
    if (!g.empty() && g.back().reduced == a.reduced) g.back().size *= a.size;
    else g.push_back(a);
  }
  return g;
}

void emit_repeated(emission& e, const std::vector<axis_group>& all) {
  if (e.out_type(0).dims.size() == 0) return;
  auto g = joined(all);
  const auto count = g.size();
  std::vector<std::int64_t> in(count), out(count);
  std::int64_t in_step = 1, out_step = 1;
  for (auto i = count; i-- > 0;) {
    out[i] = out_step;
    out_step *= g[i].size;
    in[i] = g[i].reduced ? 0 : in_step;
    if (!g[i].reduced) in_step *= g[i].size;
  }
  // A box has at most max_rank axes; outer ones become a loop of steps.
  const auto outside = count > max_rank ? count - max_rank : 0;
  detail::box b;
  for (auto i = outside; i < count; ++i) {
    b.in_stride[b.extent.rank] = in[i];
    b.out_stride[b.extent.rank] = out[i];
    b.extent.push_back(dim(g[i].size));
  }
  std::vector<std::int64_t> index(outside);
  for (bool more = true; more;) {
    b.in_first = b.out_first = 0;
    for (std::size_t i = 0; i < outside; ++i) {
      b.in_first += index[i] * in[i];
      b.out_first += index[i] * out[i];
    }
    detail::emit_box(e, b, e.in(0), e.out(0), e.out_type(0).element);
    more = false;
    for (auto i = outside; i-- > 0 && !more;) {
      more = ++index[i] < g[i].size;
      if (!more) index[i] = 0;
    }
  }
}
void emit_sum(emission& e, const std::vector<axis_group>& all) {
  detail::emit_groups(e, kernels::reduce_sum_of(e.isa()), e.in(0), e.in_type(0).element, joined(all));
}

}  // namespace

void tile_like::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (detail::tiles_fit(in[0].dims, in[1].dims, out)) out.result(in[0].element, in[1].dims);
}
void tile_grad::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (detail::adds(in[0].element, out) && detail::tiles_fit(in[1].dims, in[0].dims, out))
    out.result(in[0].element, in[1].dims);
}
void repeat_like::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (detail::repeats_fit(in[0].dims, in[1].dims, a.axis, out)) out.result(in[0].element, in[1].dims);
}
void repeat_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (detail::adds(in[0].element, out) && detail::repeats_fit(in[1].dims, in[0].dims, a.axis, out))
    out.result(in[0].element, in[1].dims);
}

void tile::emit(emission& e) { emit_repeated(e, tiles_of(e.in_type(0).dims, e.out_type(0).dims)); }
void tile_to::emit(emission& e) { emit_repeated(e, tiles_of(e.in_type(0).dims, e.out_type(0).dims)); }
void tile_like::emit(emission& e) { emit_repeated(e, tiles_of(e.in_type(0).dims, e.out_type(0).dims)); }
void tile_grad::emit(emission& e) { emit_sum(e, tiles_of(e.out_type(0).dims, e.in_type(0).dims)); }

image_layouts repeat::images(const image_call& c) {
  return detail::moved_in_maps(static_cast<const repeat_attributes*>(c.attributes)->axis, c);
}
void repeat::emit(emission& e) {
  const int axis = detail::normal_axis(e.attributes<repeat_attributes>().axis, e.in_type(0).dims.rank);
  emit_repeated(e, repeats_of(detail::stored(e, e.in_type(0).dims), detail::stored(e, e.out_type(0).dims), axis));
}
void repeat_like::emit(emission& e) {
  emit_repeated(e, repeats_of(e.in_type(0).dims, e.out_type(0).dims, e.attributes<axis_attributes>().axis));
}
void repeat_grad::emit(emission& e) {
  emit_sum(e, repeats_of(e.out_type(0).dims, e.in_type(0).dims, e.attributes<axis_attributes>().axis));
}

// Beyond the channels of blocks are zeros.
image_layouts pad::images(const image_call& c) {
  const auto& a = *static_cast<const pad_attributes*>(c.attributes);
  return a.value == 0 ? detail::moved_in_maps(a.axis, c) : image_layouts{};
}
void pad::emit(emission& e) {
  const auto& a = e.attributes<pad_attributes>();
  const int axis = detail::normal_axis(a.axis, e.in_type(0).dims.rank);
  const shape from = detail::stored(e, e.in_type(0).dims), to = detail::stored(e, e.out_type(0).dims);
  dtype element = e.out_type(0).element;
  if (to.size() == 0) return;
  std::int64_t outer = from.size(0, axis), row = to.size(axis, to.rank), inner = from.size(axis + 1, from.rank);
  auto size = static_cast<std::int64_t>(size_of(element));
  detail::box b = detail::box::whole(from);
  row_major_strides(to, b.out_stride);
  b.out_first = a.before * inner;
  if (outer <= 16) {  // fills only the borders
    for (std::int64_t o = 0; o < outer; ++o) {
      if (a.before) detail::emit_fill(e, e.out(0).at(o * row * size), a.before * inner, element, a.value);
      if (a.after)
        detail::emit_fill(e, e.out(0).at((o * row + row - a.after * inner) * size), a.after * inner, element, a.value);
    }
  } else {
    detail::emit_fill(e, e.out(0), to.size(), element, a.value);
    e.stage();
  }
  detail::emit_box(e, b, e.in(0), e.out(0), element);
}

}  // namespace lamina::op
