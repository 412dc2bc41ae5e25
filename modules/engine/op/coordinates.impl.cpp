module;
#include "../kernels/families.h"
module lamina:op.coordinates.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.computed_shape;
import :op.coordinates;
import :op.elementwise;
import :op.extents;
import :op.index;
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

static_assert(static_cast<int>(kernels::scatter_reduction::minimum) == static_cast<int>(scatter_reduction::minimum));

std::int64_t bytes_of(const tensor_type& t) { return static_cast<std::int64_t>(size_of(t.element)); }
buffer_ref coordinate_check(emission& e, std::int64_t begin = 0) {
  text t = detail::named(e);
  t << ": a position is outside of its axis";
  return e.status_with_first(t.view(), {.of = e.in_type(1).dims, .begin = begin});
}
// The kernel for an element type; types that are only moved are chosen by size.
kernels::kernel kernel_of(const kernels::kernel (&table)[kernels::element_count], dtype element) {
  if (is_real(element) || is_integer(element)) return table[static_cast<int>(element)];
  const std::size_t size = size_of(element);
  return table[static_cast<int>(size == 1   ? dtype::boolean
                                : size == 2 ? dtype::float16
                                : size == 4 ? dtype::int32
                                            : dtype::int64)];
}
void copy_operand(emission& e) {
  const buffer_ref from = e.in(0), to = e.out(0);
  if (same_place(from, to)) return;
  detail::emit_box(e, detail::box::whole(e.in_type(0).dims), from, to, e.in_type(0).element);
  e.stage();
}
// Arguments with `row` as the number of elements of a row.
kernels::coordinate_args arguments_of(const shape& x, const shape& index, std::int64_t batch) {
  kernels::coordinate_args a{};
  const auto from = static_cast<int>(batch);
  a.parts = static_cast<std::int32_t>(index.back().code);
  a.count = index.size(from, index.rank - 1);
  a.rows = index.size(0, index.rank - 1);
  a.whole = x.size(from, from + a.parts);
  a.row = x.size(from + a.parts, x.rank);
  for (int i = 0; i < a.parts; ++i) a.extent[i] = x.at(from + i);
  return a;
}

}  // namespace

void gather_nd::emit(emission& e) {
  auto a = arguments_of(e.in_type(0).dims, e.in_type(1).dims, e.attributes<attributes>().batch_dims);
  a.row *= bytes_of(e.in_type(0));
  if (a.row == 0 || a.rows == 0) return;
  emission::cut(a.rows, 20 + static_cast<double>(a.row) / 2, [&](std::int64_t first, std::int64_t rows) {
    auto part = a;
    part.first = first;
    part.rows = rows;
    e.step(kernels::rows_of(e.isa()).gather_nd, part,
           {{&part.in, e.in(0)},
            {&part.index, e.in(1)},
            {&part.out, e.out(0).at(first * a.row)},
            {&part.invalid, coordinate_check(e)}});
  });
}

void scatter_nd::emit(emission& e) {
  if (e.out_type(0).dims.size() == 0 && e.in_type(1).dims.size() == 0) return;
  const auto& at = e.attributes<attributes>();
  auto a = arguments_of(e.in_type(0).dims, e.in_type(1).dims, at.batch_dims);
  a.reduction = static_cast<std::int32_t>(at.reduction);
  copy_operand(e);
  if (a.rows == 0) return;
  e.step(kernel_of(kernels::scatter_nd_of(e.isa()).of, e.out_type(0).element), a,
         {{&a.in, e.in(2)}, {&a.index, e.in(1)}, {&a.out, e.out(0)}, {&a.invalid, coordinate_check(e)}});
}

void put_along_axis::emit(emission& e) {
  const auto& at = e.attributes<attributes>();
  const shape &x = e.in_type(0).dims, &index = e.in_type(1).dims;
  const int axis = detail::normal_axis(at.axis, x.rank);
  copy_operand(e);
  if (index.size() == 0) return;
  kernels::put_along_axis_args a{};
  a.rank = x.rank;
  a.reduction = static_cast<std::int32_t>(at.reduction);
  a.length = x.at(axis);
  std::int64_t strides[max_rank]{};
  row_major_strides(x, strides);
  for (int i = 0; i < x.rank; ++i) {
    a.extent[i] = index.at(i);
    a.stride[i] = i == axis ? 0 : strides[i];
  }
  a.axis_stride = strides[axis];
  e.step(kernel_of(kernels::put_along_axis_of(e.isa()).of, e.out_type(0).element), a,
         {{&a.in, e.in(2)}, {&a.index, e.in(1)}, {&a.out, e.out(0)}, {&a.invalid, coordinate_check(e)}});
}

}  // namespace lamina::op

namespace lamina {

using namespace detail;

namespace {
// A one-element value as rank 0.
value one_number(const value& v) { return v.shape().rank ? value(lamina::reshape(v, lamina::shape{})) : v; }
[[noreturn]] void refuse(std::string_view function, std::string_view why) {
  text t;
  raise(error_kind::shape, t << function << ": " << why);
}
}  // namespace

value gather_nd(const value& x, const value& index, gather_nd_attributes a, const origin&) {
  return apply<op::gather_nd>(a, x, index);
}
value scatter_nd(const value& x, const value& index, const value& updates, scatter_nd_attributes a, const origin&) {
  return apply<op::scatter_nd>(a, x, index, updates);
}
value scatter_elements(const value& x, const value& index, const value& updates, put_along_axis_attributes a,
                       const origin&) {
  return apply<op::put_along_axis>(a, x, index, updates);
}
value gather_elements(const value& x, const value& index, axis_attributes a, const origin&) {
  const auto &s = x.shape(), &at = index.shape();
  const int axis = normal_axis(a.axis, s.rank);
  axes cut;
  std::vector<value> starts, stops;
  for (int i = 0; axis >= 0 && s.rank == at.rank && i < s.rank; ++i) {
    if (i == axis || (s[i] == at[i] && s[i].is_number()) ||
        (s[i].is_number() && at[i].is_number() && s.at(i) < at.at(i)))
      continue;
    cut.values[cut.count++] = i;
    starts.push_back(constant_list(x.owner(), {0}));
    stops.push_back(extent_of(index, i).in(x.owner()));
  }
  if (!cut.count) return take_along_axis(x, index, a);
  return take_along_axis(
      slice_at(x, value(apply_all<op::concat>({0}, starts)), value(apply_all<op::concat>({0}, stops)), cut), index, a);
}

value trilu(const value& x, const value& k, trilu_attributes a, const origin&) {
  const int rank = x.shape().rank;
  if (rank < 2) refuse("trilu", "expected an operand with at least two axes");
  const value distance = positions_along(x, rank - 1) - positions_along(x, rank - 2), at = one_number(k);
  const value stays = a.upper ? distance >= at : distance <= at;
  if (x.type().element == dtype::boolean) return x && stays;
  return lamina::where(stays, x, 0);
}
value trilu(const value& x, std::int64_t k, trilu_attributes a, const origin& o) {
  return trilu(x, x.owner().number(k, dtype::int64), a, o);
}
value eye_like(const value& x, dtype element, std::int64_t k, const origin&) {
  if (x.shape().rank != 2) refuse("eye_like", "a matrix is expected");
  return converted(positions_along(x, 1) - positions_along(x, 0) == k, element);
}

value one_hot_of(const value& index, const value& depth, const value& values, axis_attributes a, const origin&) {
  program& p = index.owner();
  const int rank = index.shape().rank + 1, axis = normal_axis(a.axis, rank);
  if (axis < 0) refuse("one_hot_of", "the axis is outside the rank of the result");
  const value n = one_number(converted(depth, dtype::int64)), at = converted(index, dtype::int64);
  const value all = arange(p.number(std::int64_t(0), dtype::int64), n, p.number(std::int64_t(1), dtype::int64));
  const value place = lamina::unsqueeze(where(at < 0, at + n, at), axes(axis));
  axes others;
  for (int i = 1; i < rank - axis; ++i) others.values[others.count++] = i;
  const value here = place == (others.count ? value(lamina::unsqueeze(all, others)) : all);
  const value off = lamina::reshape(lamina::slice(values, slice_attributes{0, 1, 0, 1}), lamina::shape{}),
              on = lamina::reshape(lamina::slice(values, slice_attributes{1, 2, 0, 1}), lamina::shape{});
  if (values.type().element == dtype::boolean) return (here && on) || (!here && off);
  return lamina::where(here, on, off);
}
value hardmax(const value& x, axis_attributes a, const origin&) {
  const int axis = axis_of("hardmax", a.axis, x.shape());
  return converted(positions_along(x, axis) == argmax(x, {axis, true}), x.type().element);
}
value reversed(const value& x, axis_attributes a, const origin&) {
  const int axis = axis_of("reversed", a.axis, x.shape());
  return gather(x, -1 - positions(x, axis), axis);
}
namespace {
value last_position(const value& x, argmax_attributes a, bool largest) {
  const int axis = axis_of(largest ? "last_argmax" : "last_argmin", a.axis, x.shape());
  const value turned = reversed(x, {axis}),
              at = largest ? value(argmax(turned, {axis, a.keepdim})) : value(argmin(turned, {axis, a.keepdim}));
  const value n = lamina::reshape(extent_of(x, axis).in(x.owner()), lamina::shape{});
  return n - 1 - at;
}
}  // namespace
value last_argmax(const value& x, argmax_attributes a, const origin&) { return last_position(x, a, true); }
value last_argmin(const value& x, argmax_attributes a, const origin&) { return last_position(x, a, false); }

value reverse_sequence(const value& x, const value& lengths, reverse_sequence_attributes a, const origin&) {
  const int time = axis_of("reverse_sequence", a.time_axis, x.shape()),
            batch = axis_of("reverse_sequence", a.batch_axis, x.shape()), rank = x.shape().rank;
  if (time == batch) refuse("reverse_sequence", "time_axis and batch_axis must differ");
  axes order(batch, time);
  for (int i = 0; i < rank; ++i)
    if (i != time && i != batch) order.values[order.count++] = i;
  const value rows = lamina::permute(x, order);
  const value t = positions(rows, 1), n = lamina::unsqueeze(lengths, axes(1));
  const value at = where(t < n, n - 1 - t, t + n * 0);
  return permute_inverse(gather_nd(rows, lamina::unsqueeze(at, axes(2)), {.batch_dims = 1}), order);
}

value tensor_scatter(const value& cache, const value& updates, const value& starts, tensor_scatter_attributes a,
                     const origin&) {
  const int axis = axis_of("tensor_scatter", a.axis, cache.shape());
  if (axis == 0) refuse("tensor_scatter", "axis must not be 0, the batch axis");
  const value rows = with_axis_moved(cache, axis, 1), from = with_axis_moved(updates, axis, 1);
  value at = lamina::unsqueeze(starts, axes(1)) + positions(from, 1);
  if (a.circular) at = mod(at, lamina::reshape(extent_of(rows, 1).in(cache.owner()), lamina::shape{}));
  const value put = scatter_nd(rows, lamina::unsqueeze(at, axes(2)), from, {.batch_dims = 1});
  return axis == 1 ? put : value(permute_inverse(put, moved_axis(cache.shape().rank, axis, 1)));
}
value tensor_scatter(const value& cache, const value& updates, tensor_scatter_attributes a, const origin& o) {
  return tensor_scatter(cache, updates, positions(cache, 0) * 0, a, o);
}

value size_of_value(const value& x, const origin&) { return reduce_prod(shape_of(x), reduce_attributes{}); }

}  // namespace lamina
