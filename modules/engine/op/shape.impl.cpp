module lamina:op.shape.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
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

box slice_box(const slice_attributes& at, const shape& whole, const shape& part) {
  box b;
  int axis = detail::normal_axis(at.axis, whole.rank);
  b.extent = part;
  row_major_strides(whole, b.in_stride);
  row_major_strides(part, b.out_stride);
  b.in_first = detail::resolve(at, whole.at(axis)).first * b.in_stride[axis];
  if (part.at(axis) > 1) b.in_stride[axis] *= at.step;      // a step beyond the axis is never taken
  return b;
}
box reversed(box b) {
  std::swap(b.in_first, b.out_first);
  std::swap(b.in_stride, b.out_stride);
  return b;
}

}  // namespace

void reshape::gradient(gradient_call& c) { c(0, [&] { return lamina::reshape_like(c.gradient(), c(0)); }); }
void reshape::emit(emission& e) { emit_copy(e); }
void reshape_like::gradient(gradient_call& c) { c(0, [&] { return lamina::reshape_like(c.gradient(), c(0)); }); }
void reshape_like::emit(emission& e) { emit_copy(e); }
void flatten::gradient(gradient_call& c) { c(0, [&] { return lamina::reshape_like(c.gradient(), c(0)); }); }
void flatten::emit(emission& e) { emit_copy(e); }

void permute::gradient(gradient_call& c) {
  c(0, [&] {
    const auto& order = c.attributes<permute_attributes>().order;
    axes inverse = order;
    for (int i = 0; i < order.count; ++i) inverse.values[detail::normal_axis(order[i], order.count)] = i;
    return lamina::permute(c.gradient(), inverse);
  });
}
void permute::emit(emission& e) {
  const auto& order = e.attributes<permute_attributes>().order;
  box b = box::whole(e.out_type(0).dims);
  std::int64_t in[max_rank];
  row_major_strides(e.in_type(0).dims, in);
  for (int i = 0; i < order.count; ++i) b.in_stride[i] = in[detail::normal_axis(order[i], order.count)];
  emit_box(e, b, e.in(0), e.out(0), e.out_type(0).element);
}

void slice::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::unslice>(c.attributes<slice_attributes>(), c.gradient(), c(0)); });
}
void slice::emit(emission& e) {
  emit_box(e, slice_box(e.attributes<slice_attributes>(), e.in_type(0).dims, e.out_type(0).dims), e.in(0), e.out(0), e.out_type(0).element);
}
void unslice::gradient(gradient_call& c) { c(0, [&] { return lamina::slice(c.gradient(), c.attributes<slice_attributes>()); }); }
void unslice::emit(emission& e) {
  emit_fill(e, e.out(0), e.out_type(0).dims.size(), e.out_type(0).element);
  e.stage();
  emit_box(e, reversed(slice_box(e.attributes<slice_attributes>(), e.out_type(0).dims, e.in_type(0).dims)), e.in(0), e.out(0), e.out_type(0).element);
}

void concat::gradient(gradient_call& c) {
  for (std::size_t i = 0; i < c.inputs.size(); ++i)
    c(i, [&] {
      std::vector<value> operands{c.gradient()};
      for (const auto& v : c.inputs) operands.push_back(v);
      return apply_all<op::concat_part>({c.attributes<axis_attributes>().axis, static_cast<std::int64_t>(i)}, operands);
    });
}
void concat::emit(emission& e) {
  const shape& whole = e.out_type(0).dims;
  int axis = detail::normal_axis(e.attributes<axis_attributes>().axis, whole.rank);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < e.of().inputs.size(); ++i) {
    box b = box::whole(e.in_type(i).dims);
    row_major_strides(whole, b.out_stride);
    b.out_first = at * b.out_stride[axis];
    at += e.in_type(i).dims.at(axis);
    emit_box(e, b, e.in(i), e.out(0), e.out_type(0).element);
  }
}
void concat_part::gradient(gradient_call& c) {
  c(0, [&] {
    const auto& at = c.attributes<concat_part_attributes>();
    std::vector<value> parts;
    for (std::size_t i = 1; i < c.inputs.size(); ++i)
      parts.push_back(static_cast<std::int64_t>(i) == at.part + 1 ? c.gradient() : value(lamina::broadcast_like(c.owner.number(0.0, c.gradient().type().element), c(i))));
    return apply_all<op::concat>({at.axis}, parts);
  });
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

void broadcast_like::gradient(gradient_call& c) { c(0, [&] { return lamina::sum_like(c.gradient(), c(0)); }); }
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

void sum_like::gradient(gradient_call& c) { c(0, [&] { return lamina::broadcast_like(c.gradient(), c(0)); }); }
void sum_like::emit(emission& e) { detail::emit_reduction(e, -1); }

void shape_of::emit(emission&) { detail::raise(error_kind::state, "shape_of: its operand's shape is not known when planning"); }

}  // namespace lamina::op
