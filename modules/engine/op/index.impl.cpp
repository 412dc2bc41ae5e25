module;
#include "../kernels/families.h"
module lamina:op.index.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.attention;
import :op.box;
import :op.channel_blocks;
import :op.elementwise;
import :op.index;
import :op.reduce;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

namespace {

struct line {
  int axis;
  std::int64_t outer, length, inner;
};
line along(const shape& s, std::int64_t at) {
  int axis = detail::normal_axis(at, s.rank);
  return {axis, s.size(0, axis), s.at(axis), s.size(axis + 1, s.rank)};
}
std::int64_t bytes_of(const tensor_type& t) { return static_cast<std::int64_t>(size_of(t.element)); }

// A status counter for a step; one per step, because steps of one stage may run at the same time. `operand` contains
// the positions; those of the step begin at index `begin`.
buffer_ref range_check(emission& e, std::int64_t length, std::size_t operand = 1, std::int64_t begin = 0) {
  text t = detail::named(e);
  if (length) t << ": a position is outside " << -length << ".." << length - 1;
  else t << ": a position on an axis without elements";
  return e.status_with_first(t.view(), {.of = e.in_type(operand).dims, .begin = begin});
}

// The arguments of a kernel over rows of `length` entries of `inner` elements, with `count` positions each.
template <class Arguments>
Arguments rows_of(std::int64_t outer, std::int64_t count, std::int64_t length, std::int64_t inner) {
  Arguments a{};
  a.outer = outer;
  a.count = count;
  a.length = length;
  a.inner = inner;
  return a;
}

// Each output element is written by a single step, which visits the positions in order.
void emit_scatter_rows(emission& e) {
  auto [axis, outer, length, inner] = along(e.out_type(0).dims, e.attributes<axis_attributes>().axis);
  auto size = bytes_of(e.out_type(0));
  std::int64_t count = e.in_type(1).dims.size();
  if (e.out_type(0).dims.size() == 0 && count == 0) return;
  auto run = kernels::scatter_rows_of(e.isa()).of[static_cast<int>(e.out_type(0).element)];
  auto part = [&](std::int64_t o, std::int64_t outers, std::int64_t low, std::int64_t positions) {
    auto a = rows_of<kernels::scatter_rows_args>(outers, count, length, inner);
    a.low = low;
    a.high = low + positions;
    e.step(run, a,
           {{&a.in, e.in(0).at(o * count * inner * size)},
            {&a.index, e.in(1)},
            {&a.out, e.out(0).at(o * length * inner * size)},
            {&a.invalid, range_check(e, length)}});
  };
  if (outer >= 16) {
    emission::cut(outer, 4.0 * static_cast<double>((count + length) * inner),
                  [&](std::int64_t first, std::int64_t n) { part(first, n, 0, length); });
  } else if (inner < 16 || length == 0) {  // every step visits all positions: not worth it for short rows
    part(0, outer, 0, length);
  } else {
    double cost = 4.0 * static_cast<double>(outer * (count + length) * inner) / static_cast<double>(length);
    emission::cut(length, cost, [&](std::int64_t first, std::int64_t n) { part(0, outer, first, n); });
  }
}
void emit_scatter_elements(emission& e) {
  auto [axis, outer, length, inner] = along(e.out_type(0).dims, e.attributes<axis_attributes>().axis);
  auto size = bytes_of(e.out_type(0));
  std::int64_t count = e.in_type(1).dims.at(axis);
  detail::emit_fill(e, e.out(0), e.out_type(0).dims.size(), e.out_type(0).element);
  e.stage();
  auto run = kernels::scatter_elements_of(e.isa()).of[static_cast<int>(e.out_type(0).element)];
  auto part = [&](std::int64_t o, std::int64_t outers, std::int64_t column, std::int64_t columns) {
    auto a = rows_of<kernels::scatter_elements_args>(outers, count, length, inner);
    a.columns = columns;
    e.step(run, a,
           {{&a.in, e.in(0).at((o * count * inner + column) * size)},
            {&a.index, e.in(1).at((o * count * inner + column) * 8)},
            {&a.out, e.out(0).at((o * length * inner + column) * size)},
            {&a.invalid, range_check(e, length, 1, o * count * inner + column)}});
  };
  if (outer >= 16 || inner == 1)
    emission::cut(outer, 4.0 * static_cast<double>(count * inner),
                  [&](std::int64_t first, std::int64_t n) { part(first, n, 0, inner); });
  else
    emission::cut(
        inner, 4.0 * static_cast<double>(outer * count),
        [&](std::int64_t first, std::int64_t n) { part(0, outer, first, n); }, emission::usual_grain, 64 / size);
}

}  // namespace

image_layouts gather::images(const image_call& c) {
  return c.in[1].dims.rank == 1 ? detail::moved_in_maps(static_cast<const axis_attributes*>(c.attributes)->axis, c)
                                : image_layouts{};
}
void gather::emit(emission& e) {
  const int of = detail::normal_axis(e.attributes<axis_attributes>().axis, e.in_type(0).dims.rank);
  auto [axis, outer, length, inner] = along(detail::stored(e, e.in_type(0).dims), of);
  std::int64_t count = e.in_type(1).dims.size(), row = inner * bytes_of(e.in_type(0));
  if (row == 0) return;
  emission::cut(outer * count, 20 + static_cast<double>(row) / 2, [&](std::int64_t first, std::int64_t rows) {
    kernels::gather_args a{};
    a.first = first;
    a.rows = rows;
    a.count = count;
    a.length = length;
    a.row = row;
    e.step(kernels::rows_of(e.isa()).gather, a,
           {{&a.in, e.in(0)},
            {&a.index, e.in(1)},
            {&a.out, e.out(0).at(first * row)},
            {&a.invalid, range_check(e, length)}});
  });
}
void scatter_rows::emit(emission& e) { emit_scatter_rows(e); }

void put_rows::emit(emission& e) {
  const shape& table = e.in_type(0).dims;
  const std::int64_t length = table.at(0), row = table.size(1, table.rank) * bytes_of(e.in_type(0)),
                     count = e.in_type(1).dims.size();
  const buffer_ref from = e.in(0), to = e.out(0);
  if (row == 0 || length == 0) return;
  if (!same_place(from, to)) {
    emission::cut(length, static_cast<double>(row) / 2, [&](std::int64_t first, std::int64_t rows) {
      kernels::copy_args a{};
      a.axes = 1;
      a.size = 1;
      a.extent[0] = rows * row;
      a.in_stride[0] = a.out_stride[0] = 1;
      e.step(kernels::copies_of(e.isa()).copy, a, {{&a.in, from.at(first * row)}, {&a.out, to.at(first * row)}});
    });
    e.stage();
  }
  kernels::put_rows_args a{};
  a.count = count;
  a.length = length;
  a.row = row;
  if (count) e.step(kernels::rows_of(e.isa()).put_rows, a, {{&a.in, e.in(2)}, {&a.index, e.in(1)}, {&a.out, to}});
}
void sum_rows_alike::emit(emission& e) {
  const shape& rows = e.in_type(0).dims;
  const std::int64_t inner = rows.size(1, rows.rank), length = e.in_type(2).dims.at(0);
  kernels::sum_alike_args a{};
  a.count = rows.at(0);
  a.length = length;
  a.inner = inner;
  if (a.count)
    e.step(kernels::sum_alike_of(e.isa()).of[static_cast<int>(e.out_type(0).element)], a,
           {{&a.in, e.in(0)}, {&a.index, e.in(1)}, {&a.out, e.out(0)}, {&a.invalid, range_check(e, length)}},
           static_cast<std::size_t>(kernels::order_scratch(a.count)));
}

void take_along_axis::emit(emission& e) {
  auto [axis, outer, length, inner] = along(e.in_type(0).dims, e.attributes<axis_attributes>().axis);
  std::int64_t count = e.in_type(1).dims.at(axis);
  auto size = bytes_of(e.in_type(0));
  emission::cut(outer, 20.0 * static_cast<double>(count * inner), [&](std::int64_t first, std::int64_t n) {
    auto a = rows_of<kernels::take_args>(n, count, length, inner);
    a.size = static_cast<std::int32_t>(size);
    e.step(kernels::rows_of(e.isa()).take, a,
           {{&a.in, e.in(0).at(first * length * inner * size)},
            {&a.index, e.in(1).at(first * count * inner * 8)},
            {&a.out, e.out(0).at(first * count * inner * size)},
            {&a.invalid, range_check(e, length, 1, first * count * inner)}});
  });
}
void scatter_elements::emit(emission& e) { emit_scatter_elements(e); }

namespace {
// Emits running sums or products with a kernel.
void emit_running(emission& e, kernels::kernel run) {
  const auto& at = e.attributes<cumsum_attributes>();
  auto [axis, outer, length, inner] = along(e.in_type(0).dims, at.axis);
  auto size = bytes_of(e.in_type(0));
  emission::cut(outer, 4.0 * static_cast<double>(length * inner), [&](std::int64_t first, std::int64_t n) {
    kernels::running_sum_args a{};
    a.outer = n;
    a.length = length;
    a.inner = inner;
    a.exclusive = at.exclusive;
    a.reverse = at.reverse;
    auto skip = first * length * inner * size;
    e.step(run, a, {{&a.in, e.in(0).at(skip)}, {&a.out, e.out(0).at(skip)}});
  });
}
}  // namespace
void cumsum::emit(emission& e) {
  emit_running(e, kernels::running_sum_of(e.isa()).of[static_cast<int>(e.in_type(0).element)]);
}
void cumprod::emit(emission& e) {
  emit_running(e, kernels::running_product_of(e.isa()).of[static_cast<int>(e.in_type(0).element)]);
}

void order::emit(emission& e) {
  const auto& at = e.attributes<order_attributes>();
  auto [axis, outer, length, inner] = along(e.in_type(0).dims, at.axis);
  std::int64_t count = e.out_type(0).dims.at(axis);
  auto size = bytes_of(e.in_type(0));
  if (count == 0) return;
  emission::cut(outer, 40.0 * static_cast<double>(length * inner), [&](std::int64_t first, std::int64_t n) {
    kernels::order_args a{};
    a.outer = n;
    a.length = length;
    a.inner = inner;
    a.count = count;
    a.largest = at.descending;
    e.step(kernels::order_of(e.isa()).of[static_cast<int>(e.in_type(0).element)], a,
           {{&a.in, e.in(0).at(first * length * inner * size)}, {&a.out, e.out(0).at(first * count * inner * 8)}},
           static_cast<std::size_t>(kernels::order_scratch(length)));
  });
}

void to_one_hot::emit(emission& e) {
  const auto& at = e.attributes<one_hot_attributes>();
  auto size = bytes_of(e.out_type(0));
  emission::cut(e.in_type(0).dims.size(), static_cast<double>(at.depth * size) / 2 + 4,
                [&](std::int64_t first, std::int64_t rows) {
                  kernels::one_hot_args a{};
                  a.rows = rows;
                  a.depth = at.depth;
                  a.size = static_cast<std::int32_t>(size);
                  with_type(at.element, [&]<class T>() {
                    T one{};
                    detail::to_element(1.0, one);
                    std::memcpy(a.value, &one, sizeof one);
                  });
                  e.step(kernels::rows_of(e.isa()).one_hot, a,
                         {{&a.index, e.in(0).at(first * 8)},
                          {&a.out, e.out(0).at(first * at.depth * size)},
                          {&a.invalid, range_check(e, at.depth, 0, first)}});
                });
}

}  // namespace lamina::op
