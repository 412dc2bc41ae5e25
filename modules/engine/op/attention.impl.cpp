module;
#include "../kernels/families.h"
module lamina:op.attention.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op.attention;
import :op.box;
import :op.elementwise;
import :op.half;
import :op.linear;
import :op.products;
import :op.reduce;
import :op.shape;
import :op.view;
import :op;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

namespace {

const kernels::attention_functions& functions(const emission& e) { return kernels::attention_of(e.isa()); }
const kernels::position_functions& of_positions(const emission& e) { return kernels::position_of(e.isa()); }

// Bytes between the mask's entries for neighboring positions of an axis: 0 where the mask is broadcast.
struct mask_strides {
  std::int64_t axis[max_rank]{};
  mask_strides(const shape& mask, int rank) {
    std::int64_t step = 1;
    for (int i = mask.rank - 1; i >= 0; --i) {
      axis[i + rank - mask.rank] = mask.at(i) == 1 ? 0 : step;
      step *= mask.at(i);
    }
  }
};

// Strides, in elements, of [..., heads, rows, columns] to a head and from row to row.
struct head_strides {
  std::int64_t heads = 1, outer, head, row;
  head_strides(const shape& s, const buffer_ref& at) : row(s.back().code) {
    if (s.rank > 2) heads = s.at(s.rank - 3);
    head = s.at(s.rank - 2) * row;
    if (at.form == layout::rows_first) head = row, row = at.pitch != 0 ? at.pitch : row * heads;
    outer = at.form == layout::rows_first ? s.at(s.rank - 2) * row : heads * head;
  }
  std::int64_t of(std::int64_t h) const { return heads == 0 ? 0 : h / heads * outer + h % heads * head; }
};

// Keys or values of all heads, as the product of an attention reads them.
struct head_operand {
  buffer_ref at;
  head_strides strides;
  std::int64_t size;              // of an element, in bytes
  std::int64_t packed_bytes = 0;  // of a packed head; 0: not packed
  buffer_ref of(std::int64_t head) const {
    return at.at(packed_bytes != 0 ? head * packed_bytes : strides.of(head) * size);
  }
};
// Packs all heads [k, n] as `shape` tells for a product, in a stage of its own with others before it.
void pack_heads(emission& e, const kernels::gemm_functions& product, std::int64_t heads,
                const kernels::gemm_prepack_args& shape, head_operand& x) {
  constexpr std::int64_t line = 64;
  const auto bytes = static_cast<std::int64_t>(product.packed_bytes(shape.k, shape.n));
  const head_operand from = x;
  x.packed_bytes = (bytes + line - 1) / line * line;
  x.at = e.temporary(static_cast<std::size_t>(heads * x.packed_bytes));
  for (std::int64_t h = 0; h < heads; ++h) {
    auto a = shape;
    e.step(product.prepack, a, {{&a.b, from.of(h)}, {&a.packed, x.of(h)}});
  }
}

// Each of `calls` packs the keys of its head, unless a stage that does so once saves more than its time. Sums of a causal
// attention end before all values.
void share_heads(emission& e, kernels::attention_args& a, std::int64_t key_heads, std::int64_t calls,
                 head_operand& keys, head_operand& values) {
  constexpr std::int64_t min_saved = 24'000;  // numbers
  const bool packs_values = a.packs_values != 0 && a.causal == 0;
  if ((calls - key_heads) * a.keys * (a.depth + (packs_values ? a.width : 0)) <= min_saved) return;
  a.keys_packed = 1, a.values_packed = packs_values;
  pack_heads(e, *a.product, key_heads, {a.depth, a.keys, nullptr, 1, a.k_row, nullptr}, keys);
  if (packs_values) pack_heads(e, *a.product, key_heads, {a.keys, a.width, nullptr, a.v_row, 1, nullptr}, values);
  e.stage();
}

}  // namespace

void attention::emit(emission& e) {
  const shape &q = e.in_type(0).dims, &k = e.in_type(1).dims, &v = e.in_type(2).dims;
  const dtype element = e.in_type(0).element;
  const auto size = static_cast<std::int64_t>(size_of(element));
  const auto& at = e.attributes<attention_attributes>();
  const int rank = q.rank;
  if (e.out_type(0).dims.size() == 0) return;

  kernels::attention_args a{};
  a.queries = q.at(rank - 2);
  a.keys = k.at(rank - 2);
  a.depth = q.back().code;
  a.width = v.back().code;
  a.scale = detail::attention_scale(at.scale, a.depth);
  a.causal = at.causal;
  a.product = &kernels::gemm_of(e.isa(), static_cast<kernels::element>(element));
  const product_type compute = at.compute == dtype::float32 ? e.compute() : at.compute;
  buffer_ref given[3];
  for (std::size_t i = 0; i < 3; ++i) {
    given[i] = e.in(i);
    if (compute != dtype::float16) continue;
    given[i] = detail::rounded_operand(e, i, compute);
    given[i].form = e.in(i).form;
  }
  if (compute == dtype::bfloat16 && element == dtype::float32) {
    a.product = detail::bfloat_products(compute, e.isa()).gemm;
    a.packs_values = 1;
    e.note("bfloat16");
  }

  const bool masked = e.of().inputs.size() > 3;
  const mask_strides mask = masked ? mask_strides(e.in_type(3).dims, rank) : mask_strides({}, rank);
  const auto mask_size = masked ? static_cast<std::int64_t>(size_of(e.in_type(3).element)) : 0;
  a.mask_row = mask.axis[rank - 2];
  a.mask_column = mask.axis[rank - 1];
  a.mask_is_bool = masked && e.in_type(3).element == dtype::boolean;

  if (compute == dtype::float16) e.stage();
  const std::int64_t heads = q.size(0, rank - 2), key_heads = k.size(0, rank - 2), shared = heads / key_heads;
  const head_strides q_at(q, given[0]), out_at(e.out_type(0).dims, e.out(0));
  head_operand keys{given[1], {k, given[1]}, size}, values{given[2], {v, given[2]}, size};
  a.q_row = q_at.row, a.k_row = keys.strides.row, a.v_row = values.strides.row, a.out_row = out_at.row;
  const double cost = 2 * static_cast<double>(a.keys) * static_cast<double>(a.depth + a.width + 20);
  // A head is cut only into as many parts as there are threads.
  const double grain = std::max(2e6, cost * static_cast<double>(a.queries * heads) / 64);
  // Query-major order: all heads of some queries, then those of the next, so that a thread keeps its rows of inputs and
  // outputs.
  detail::part_list<std::pair<std::int64_t, std::int64_t>> parts;
  e.cut_for_threads(
      a.queries, cost, [&](std::int64_t first, std::int64_t count) { parts.push_back({first, count}); }, grain,
      kernels::attention_rows);
  share_heads(e, a, key_heads, heads * static_cast<std::int64_t>(parts.size()), keys, values);
  for (const auto& [first, count] : parts) {
    std::int64_t index[max_rank]{};
    for (std::int64_t h = 0; h < heads; ++h) {
      kernels::attention_args part = a;
      part.first = first;
      part.count = count;
      std::vector<address> where{{&part.q, given[0].at(q_at.of(h) * size)},
                                 {&part.k, keys.of(h / shared)},
                                 {&part.v, values.of(h / shared)},
                                 {&part.out, e.out(0).at(out_at.of(h) * size)}};
      if (masked) {
        std::int64_t mask_at = 0;
        for (int i = 0; i < rank - 2; ++i) mask_at += index[i] * mask.axis[i];
        where.push_back({&part.mask, e.in(3).at(mask_at * mask_size)});
      }
      e.step(functions(e).attention[static_cast<int>(element)], part, where,
             functions(e).attention_scratch_bytes(&part, static_cast<kernels::element>(element)));
      for (int i = rank - 3; i >= 0 && ++index[i] == q.at(i); --i) index[i] = 0;
    }
  }
}

void group_heads::emit(emission& e) { detail::emit_copy(e); }

void cached_attention::emit(emission& e) {
  const shape &q = e.in_type(0).dims, &keys = e.in_type(3).dims, &v = e.in_type(2).dims;
  const dtype element = e.in_type(0).element;
  const auto size = static_cast<std::int64_t>(size_of(element));
  const int rank = q.rank;
  if (e.out_type(0).dims.size() == 0) return;

  const std::int64_t heads = keys.size(0, rank - 2);
  kernels::cached_attention_args a{};
  a.groups = q.size(0, rank - 2) / heads;
  a.queries = q.at(rank - 2);
  a.capacity = keys.at(rank - 2);
  a.depth = q.back().code;
  a.width = v.back().code;
  a.scale = detail::attention_scale(e.attributes<cached_attention_attributes>().scale, a.depth);
  a.product = &kernels::gemm_of(e.isa(), static_cast<kernels::element>(element));
  const std::size_t scratch = functions(e).cached_attention_scratch_bytes(&a, static_cast<kernels::element>(element));
  text wrong = detail::named(e);
  wrong << ": a count of earlier positions is outside 0.." << a.capacity;
  for (std::int64_t h = 0; h < heads; ++h)
    e.step(functions(e).cached_attention[static_cast<int>(element)], a,
           {{&a.q, e.in(0).at(h * a.groups * a.queries * a.depth * size)},
            {&a.k, e.in(1).at(h * a.queries * a.depth * size)},
            {&a.v, e.in(2).at(h * a.queries * a.width * size)},
            {&a.keys, e.in(3).at(h * a.capacity * a.depth * size)},
            {&a.values, e.in(4).at(h * a.capacity * a.width * size)},
            {&a.seen, e.in(5)},
            {&a.out, e.out(0).at(h * a.groups * a.queries * a.width * size)},
            {&a.invalid, e.status_with_first(wrong.view(), {.of = e.in_type(5).dims})}},
           scratch);
}

void positions::emit(emission& e) {
  kernels::positions_args a{};
  a.count = e.out_type(0).dims.at(0);
  if (a.count > 0) e.step(of_positions(e).positions, a, {{&a.out, e.out(0)}});
}

void causal_mask::emit(emission& e) {
  kernels::causal_args a{};
  a.rows = e.out_type(0).dims.at(0);
  a.columns = e.out_type(0).dims.at(1);
  e.step(of_positions(e).causal, a, {{&a.out, e.out(0)}});
}

void rope::emit(emission& e) {
  const shape &x = e.in_type(0).dims, &positions = e.in_type(1).dims;
  const dtype element = e.in_type(0).element;
  const auto size = static_cast<std::int64_t>(size_of(element));
  const auto& at = e.attributes<rope_attributes>();
  const std::int64_t length = x.at(x.rank - 2), depth = x.back().code, plane = length * depth;
  if (x.size() == 0) return;
  emission::cut(x.size(0, x.rank - 2), 4 * static_cast<double>(plane), [&](std::int64_t first, std::int64_t count) {
    kernels::rotate_args a{};
    a.outer = count;
    a.length = length;
    a.depth = depth;
    a.base = at.base;
    a.interleaved = at.interleaved;
    a.inverse = at.inverse;
    a.positions_outer = positions.rank == 1 ? 0 : length;
    e.step(of_positions(e).rotate[static_cast<int>(element)], a,
           {{&a.in, e.in(0).at(first * plane * size)},
            {&a.positions, e.in(1).at(first * a.positions_outer * 8)},
            {&a.out, e.out(0).at(first * plane * size)}},
           of_positions(e).rotate_scratch_bytes(&a));
  });
}

void rotary_embedding::emit(emission& e) {
  const shape &x = e.in_type(0).dims, &table = e.in_type(1).dims;
  if (x.size() == 0) return;
  const auto size = static_cast<std::int64_t>(size_of(e.in_type(0).element));
  const auto [n] = *detail::rows_of_rotary(x, table);
  // Cut along the longest axis that the tables either have or broadcast along entirely.
  const int axis = n[0] > 1 ? 0 : n[1] > 1 ? 1 : 2;
  const std::int64_t depth = x.back().code, each = x.size() / n[axis],
                     table_row = axis == 0   ? n[2] * depth
                                 : axis == 1 ? 0
                                             : depth;
  emission::cut(n[axis], 3.0 * static_cast<double>(each), [&](std::int64_t first, std::int64_t count) {
    kernels::rotate_by_args a{};
    a.outer = n[0], a.outer_repeat = n[1], a.rows = n[2], a.row_repeat = n[3];
    (axis == 0 ? a.outer : axis == 1 ? a.outer_repeat : a.rows) = count;
    a.depth = depth;
    a.interleaved = e.attributes<rotary_attributes>().interleaved;
    e.step(of_positions(e).rotate_by[static_cast<int>(e.in_type(0).element)], a,
           {{&a.in, e.in(0).at(first * each * size)},
            {&a.cosine, e.in(1).at(first * table_row * size)},
            {&a.sine, e.in(2).at(first * table_row * size)},
            {&a.out, e.out(0).at(first * each * size)}});
  });
}

// Axes before the head axis.
void attention::map_axis(const attributes&, axis_map& m) {
  const shape &q = m.in[0].dims, &k = m.in[1].dims;
  m.leading_axes = true;
  if (m.axis >= q.rank - 3 || k.at(m.axis) != q.at(m.axis)) return;
  if (m.in.size() > 3 && !m.broadcast(3)) return;
  m.independent = true;
}

}  // namespace lamina::op
