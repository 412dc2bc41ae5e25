module lamina:op.shape.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.channel_blocks;
import :op.elementwise;
import :op.reduce;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

namespace {

using detail::box, detail::emit_box, detail::emit_copy, detail::emit_fill;

// A tensor type with the shape of `like`.
tensor_type shaped(dtype element, const tensor_type& like) { return {element, like.dims}; }

box slice_box(const slice_attributes& at, const shape& whole, const shape& part) {
  box b;
  int axis = detail::normal_axis(at.axis, whole.rank);
  b.extent = part;
  row_major_strides(whole, b.in_stride);
  row_major_strides(part, b.out_stride);
  b.in_first = detail::resolve(at, whole.at(axis)).first * b.in_stride[axis];
  if (part.at(axis) > 1) b.in_stride[axis] *= at.step;  // a step beyond the axis is never used
  return b;
}
box reversed(box b) {
  std::swap(b.in_first, b.out_first);
  std::swap(b.in_stride, b.out_stride);
  return b;
}

}  // namespace

void reshape::emit(emission& e) { emit_copy(e); }
void reshape_like::emit(emission& e) { emit_copy(e); }
void gradient_like::infer(const attributes&, view<const tensor_type> in, inference& out) {
  if (in[0].element != in[1].element) out.of_elements = true;
  if (out.of_elements || !fits(in[1].dims, in[0].dims)) {
    out.why << "a gradient must have the element type and shape of its operand";
    return;
  }
  shape s = in[0].dims;
  for (int i = 0; i < s.rank; ++i) s[i] = better(s[i], in[1].dims[i]);
  out.result(in[0].element, s);
}
void gradient_like::emit(emission& e) { emit_copy(e); }
void flatten::emit(emission& e) { emit_copy(e); }

void permute::emit(emission& e) {
  const auto& order = e.attributes<permute_attributes>().order;
  box b = box::whole(e.out_type(0).dims);
  std::int64_t in[max_rank];
  row_major_strides(e.in_type(0).dims, in);
  for (int i = 0; i < order.count; ++i) b.in_stride[i] = in[detail::normal_axis(order[i], order.count)];
  emit_box(e, b, e.in(0), e.out(0), e.out_type(0).element);
}

image_layouts slice::images(const image_call& c) {
  const std::int64_t axis = static_cast<const attributes*>(c.attributes)->axis;
  const image_layouts channels = detail::moved_along(axis, c);
  return channels.result ? channels : detail::moved_in_maps(axis, c);
}
void slice::emit(emission& e) {
  if (e.out(0).form == layout::blocked) {
    const auto& a = e.attributes<slice_attributes>();
    if (const int axis = detail::normal_axis(a.axis, 4); axis >= 2) {
      const slice_attributes part{.start = a.start, .stop = a.stop, .axis = axis, .step = a.step};
      return emit_box(e, slice_box(part, detail::stored(e, e.in_type(0).dims), detail::stored(e, e.out_type(0).dims)),
                      e.in(0), e.out(0), e.out_type(0).element);
    }
    const std::int64_t first = detail::resolve(a, e.in_type(0).dims.at(1)).first;
    return detail::emit_channels(e, [&](std::int64_t i) { return detail::channel_source{0, first + i * a.step}; });
  }
  emit_box(e, slice_box(e.attributes<slice_attributes>(), e.in_type(0).dims, e.out_type(0).dims), e.in(0), e.out(0),
           e.out_type(0).element);
}
void slice_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type whole[] = {shaped(in[0].element, in[1])};
  if (detail::is_result_of<slice>(a, whole, in[0], out)) out.result(in[0].element, in[1].dims);
}
void slice_grad::emit(emission& e) {
  emit_fill(e, e.out(0), e.out_type(0).dims.size(), e.out_type(0).element);
  e.stage();
  emit_box(e, reversed(slice_box(e.attributes<slice_attributes>(), e.out_type(0).dims, e.in_type(0).dims)), e.in(0),
           e.out(0), e.out_type(0).element);
}

image_layouts concat::images(const image_call& c) {
  return detail::moved_along(static_cast<const attributes*>(c.attributes)->axis, c);
}
void concat::emit(emission& e) {
  const shape& whole = e.out_type(0).dims;
  if (e.out(0).form == layout::blocked) {
    std::vector<detail::channel_source> channels;
    for (std::size_t i = 0; i < e.of().inputs.size(); ++i)
      for (std::int64_t k = 0; k < e.in_type(i).dims.at(1); ++k) channels.push_back({i, k});
    return detail::emit_channels(e, [&](std::int64_t i) { return channels[static_cast<std::size_t>(i)]; });
  }
  int axis = detail::normal_axis(e.attributes<axis_attributes>().axis, whole.rank);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < e.of().inputs.size(); ++i) {
    box b = box::whole(e.in_type(i).dims);
    row_major_strides(whole, b.out_stride);
    b.out_first = at * b.out_stride[axis];
    at += e.in_type(i).dims.at(axis);
    if (!same_place(e.in(i), e.out(0).at(b.out_first * static_cast<std::int64_t>(size_of(e.out_type(0).element)))))
      emit_box(e, b, e.in(i), e.out(0), e.out_type(0).element);
  }
}
void concat_part::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const auto parts = static_cast<std::int64_t>(in.size()) - 1;
  if (a.part < 0 || a.part >= parts) {
    out.why << "part " << a.part << " is outside a concatenation of " << parts;
    return;
  }
  std::vector<tensor_type> joined;
  for (std::size_t i = 1; i < in.size(); ++i) joined.push_back(shaped(in[0].element, in[i]));
  if (detail::is_result_of<concat>({a.axis}, joined, in[0], out))
    out.result(in[0].element, in[static_cast<std::size_t>(1 + a.part)].dims);
}
void concat_part::emit(emission& e) {
  const auto& at = e.attributes<concat_part_attributes>();
  const shape& whole = e.in_type(0).dims;
  int axis = detail::normal_axis(at.axis, whole.rank);
  box b = box::whole(e.out_type(0).dims);
  row_major_strides(whole, b.in_stride);
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < at.part; ++i) before += e.in_type(static_cast<std::size_t>(1 + i)).dims.at(axis);
  b.in_first = before * b.in_stride[axis];
  emit_box(e, b, e.in(0), e.out(0), e.out_type(0).element);
}

void broadcast_like::emit(emission& e) {
  const shape &from = e.in_type(0).dims, &to = e.out_type(0).dims;
  box b = box::whole(to);
  std::int64_t in[max_rank]{};
  row_major_strides(from, in);
  for (int i = 0; i < to.rank; ++i) {
    int k = i - (to.rank - from.rank);
    b.in_stride[i] = k < 0 || from.at(k) == 1 ? 0 : in[k];
  }
  emit_box(e, b, e.in(0), e.out(0), e.out_type(0).element);
}

unsigned sum_like::summed_axes(const attributes&, view<const tensor_type> in) {
  return detail::repeated_axes(in[0].dims, in[1].dims);
}
void sum_like::emit(emission& e) { detail::emit_sum_like(e); }

void shape_of::emit(emission&) {
  detail::raise(error_kind::state, "shape_of: its operand's shape is not known when planning");
}

// The extents of the result except that of the merged axis, which is inferred.
void reshape::map_axis(const attributes&, axis_map& m) {
  const shape &from = m.in[0].dims, &to = m.out[0].dims;
  m.independent = from.rank > m.axis;
  for (int i = 0; i <= m.axis && m.independent; ++i) m.independent = from.at(i) == to.at(i);
  if (!m.independent) return;
  shape any = to;
  any[m.axis] = dyn;
  m.attributes = std::make_shared<const attributes>(attributes{any});
}
void flatten::map_axis(const attributes& a, axis_map& m) { m.independent = m.before(a.from); }
void permute::map_axis(const attributes& a, axis_map& m) {
  m.operands[0] = detail::normal_axis(a.order[m.axis], m.in[0].dims.rank);
  m.independent = true;
}
void slice::map_axis(const attributes& a, axis_map& m) { m.independent = m.beside(a.axis); }
void concat::map_axis(const attributes& a, axis_map& m) { m.independent = m.beside(a.axis); }

}  // namespace lamina::op
