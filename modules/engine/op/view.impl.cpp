module lamina:op.view.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.channel_blocks;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

void emit_axis_view(emission& e, const axis_view& v) {
  if (e.out(0).form == layout::blocked)
    return detail::emit_channels(e, [&](std::int64_t i) { return detail::channel_source{0, v.first + i}; });
  const shape& from = e.in_type(0).dims;
  detail::box b;
  std::int64_t stride[max_rank]{}, step = 1;
  row_major_strides(from, stride);
  b.extent = from;
  b.extent[v.axis] = dim(v.count);
  for (int i = from.rank; i-- > 0;) {
    b.in_stride[i] = stride[i];
    b.out_stride[i] = step;
    step *= b.extent.at(i);
  }
  b.in_first = v.first * stride[v.axis];
  detail::emit_box(e, b, e.in(0), e.out(0), e.out_type(0).element);
}

}  // namespace

std::vector<value> split(const value& x, std::int64_t parts, std::int64_t axis, const origin&) {
  std::vector<value> all;
  // Zero parts are rejected like one part, with an error message.
  for (std::int64_t i = 0; i < std::max<std::int64_t>(parts, 1); ++i)
    all.push_back(apply<op::equal_part>({axis, i, parts}, x));
  return all;
}
std::vector<value> split(const value& x, view<const std::int64_t> sizes, std::int64_t axis, const origin&) {
  std::vector<value> all;
  std::int64_t whole = 0, at = 0;
  for (auto n : sizes)
    if (__builtin_add_overflow(whole, n, &whole))
      detail::raise(error_kind::shape, "split: the sum of the sizes overflows 64 bits");
  // Rejects a negative size as such, not as a sum of sizes that is too large.
  for (auto n : sizes)
    if (n < 0) apply<op::section>({axis, 0, n, whole}, x);
  for (auto n : sizes) {
    all.push_back(apply<op::section>({axis, at, n, whole}, x));
    at += n;
  }
  return all;
}
std::vector<value> split(const value& x, std::initializer_list<std::int64_t> sizes, std::int64_t axis, const origin&) {
  return split(x, view<const std::int64_t>(sizes), axis);
}

value concat(view<const value> x, std::int64_t axis, const origin&) {
  if (x.empty()) detail::raise(error_kind::value, origin::prefix() + "concat: no tensors");
  return apply_all<op::concat>({axis}, x);
}
value stack(view<const value> x, std::int64_t axis, const origin&) {
  if (x.empty()) detail::raise(error_kind::value, origin::prefix() + "stack: no tensors");
  std::vector<value> all;
  for (const auto& v : x) all.push_back(unsqueeze(v, axes(axis)));
  return concat(all, axis);
}

// Members of a class that does not import the operations.
value value::operator[](const placed_position& i) const {
  const origin here(i.at());
  return lamina::select(*this, 0, i());
}

namespace op {

void unsqueeze::emit(emission& e) { detail::emit_copy(e); }
void squeeze::emit(emission& e) { detail::emit_copy(e); }
void as_matrix::emit(emission& e) { detail::emit_copy(e); }
void computed_after::emit(emission& e) { detail::emit_copy(e); }

void select::emit(emission& e) { emit_axis_view(e, part_of(e.attributes<select_attributes>(), e.in_type(0).dims)); }
image_layouts section::images(const image_call& c) {
  return detail::moved_along(static_cast<const attributes*>(c.attributes)->axis, c);
}
void section::emit(emission& e) { emit_axis_view(e, part_of(e.attributes<section_attributes>(), e.in_type(0).dims)); }
image_layouts equal_part::images(const image_call& c) {
  return detail::moved_along(static_cast<const attributes*>(c.attributes)->axis, c);
}
void equal_part::emit(emission& e) { emit_axis_view(e, part_of(e.attributes<part_attributes>(), e.in_type(0).dims)); }

void split_grad::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const tensor_type whole[] = {{in[0].element, in[1].dims}};
  if (detail::is_result_of<equal_part>(a, whole, in[0], out)) out.result(in[0].element, in[1].dims);
}
void split_grad::emit(emission& e) {
  const shape& whole = e.out_type(0).dims;
  const auto at = equal_part::part_of(e.attributes<part_attributes>(), whole);
  detail::emit_fill(e, e.out(0), whole.size(), e.out_type(0).element);
  e.stage();
  detail::box b = detail::box::whole(e.in_type(0).dims);
  row_major_strides(whole, b.out_stride);
  b.out_first = at.first * b.out_stride[at.axis];
  detail::emit_box(e, b, e.in(0), e.out(0), e.out_type(0).element);
}

}  // namespace op

}  // namespace lamina
