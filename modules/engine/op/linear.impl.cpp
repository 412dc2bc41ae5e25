module;
#include "../kernels/table.h"
module lamina:op.linear.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.box;
import :op.linear;
import :op.shape;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

void matmul::gradient(gradient_call& c) {
  auto [ta, tb] = c.attributes<matmul_attributes>();
  const value& g = c.gradient();
  c(0, [&] {
    value d = ta ? value(lamina::matmul(c(1), g, {tb, true})) : value(lamina::matmul(g, c(1), {false, !tb}));
    return lamina::sum_like(d, c(0));
  });
  c(1, [&] {
    value d = tb ? value(lamina::matmul(g, c(0), {true, ta})) : value(lamina::matmul(c(0), g, {!ta, false}));
    return lamina::sum_like(d, c(1));
  });
}

void dot_result::gradient(gradient_call& c) {
  c(0, [&] { return lamina::reshape_like(c.gradient(), c(0)); });
}
void dot_result::emit(emission& e) { detail::emit_copy(e); }

void matmul::emit(emission& e) {
  const auto& at = e.attributes<matmul_attributes>();
  const shape &a = e.in_type(0).dims, &b = e.in_type(1).dims, &c = e.out_type(0).dims;
  dtype element = e.out_type(0).element;
  auto size = static_cast<std::int64_t>(size_of(element));
  const auto& gemm = *kernels::kernels_of(static_cast<kernels::isa>(e.isa())).gemm[static_cast<int>(element)];

  kernels::gemm_args p{};
  p.m = c.at(c.rank - 2);
  p.n = c.at(c.rank - 1);
  p.k = at.transpose_a ? a.at(a.rank - 2) : a.at(a.rank - 1);
  p.a_row = at.transpose_a ? 1 : a.at(a.rank - 1);
  p.a_column = at.transpose_a ? a.at(a.rank - 1) : 1;
  p.b_row = at.transpose_b ? 1 : b.at(b.rank - 1);
  p.b_column = at.transpose_b ? b.at(b.rank - 1) : 1;
  p.c_row = p.n;
  p.batch = 1;
  std::int64_t a_step = a.size(a.rank - 2, a.rank), b_step = b.size(b.rank - 2, b.rank), c_step = p.m * p.n;
  if (c.size() == 0) return;

  // Leading axes that only A has are more rows of one product where its rows follow each other.
  shape a_batch = a, b_batch = b, c_batch = c;
  a_batch.rank -= 2;
  b_batch.rank -= 2;
  c_batch.rank -= 2;
  std::int64_t batches = c_batch.size();
  bool one_b = b_batch.size() == 1;
  if (one_b && !at.transpose_a && a_batch.size() == batches) {
    p.m *= batches;
    batches = 1;
  }

  const auto& tail = e.epilogue();
  p.clamp = tail.clamp;
  p.low = tail.low;
  p.high = tail.high;
  p.residual_row = p.n;
  p.relaxed_summation = e.relaxed_summation();

  buffer_ref packed;
  const bool column = p.n == 1 && p.a_column == 1;  // read along K as it lies
  if (one_b && !column && p.m * batches < 4096)
    packed = e.packed(
        e.of().inputs[1],
        0x6d6d0000u | (at.transpose_b ? 1u : 0u) | static_cast<unsigned>(element) << 4 |
            static_cast<unsigned>(e.isa()) << 8,
        gemm.packed_bytes(p.k, p.n),
        [&](buffer_ref from, buffer_ref to) {
          kernels::gemm_prepack_args q{};
          q.k = p.k;
          q.n = p.n;
          q.b_row = p.b_row;
          q.b_column = p.b_column;
          e.step(gemm.prepack, q, {{&q.b, from}, {&q.packed, to}});
        },
        true);
  p.prepacked = static_cast<bool>(packed);

  // A call on rows and columns of the product, or of as many products as `part` has, that begins at these elements.
  auto call = [&](kernels::gemm_args part, std::int64_t a_first, std::int64_t b_first, std::int64_t c_first,
                  std::int64_t row = 0, std::int64_t column = 0) {
    const auto run = gemm.prepare(&part);
    buffer_ref b_at = packed ? packed.at(column * p.k * size) : e.in(1).at((b_first + column * p.b_column) * size);
    std::vector<address> where{{&part.a, e.in(0).at((a_first + row * p.a_row) * size)},
                               {&part.b, b_at},
                               {&part.c, e.out(0).at((c_first + row * p.c_row + column) * size)}};
    if (tail.bias) where.push_back({&part.bias_column, e.operand(tail.bias).at(column * size)});
    if (tail.residual)
      where.push_back({&part.residual, e.operand(tail.residual).at((c_first + row * p.c_row + column) * size)});
    e.step(run, part, where, gemm.scratch_bytes(&part));
  };
  const double flops = 2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  constexpr double least = 4e5;  // flops of a product that is cut
  const double grain = flops < 2e6 ? 2e5 : 1e6;
  const bool small = flops < least;
  auto product = [&](std::int64_t a_first, std::int64_t b_first, std::int64_t c_first) {
    if (small) return call(p, a_first, b_first, c_first);
    // Rows or, for few rows, columns are cut at tile boundaries, by size alone.
    if (p.m >= p.n || p.m >= 4 * gemm.tile_rows)
      emission::cut(
          p.m, flops / static_cast<double>(p.m),
          [&](std::int64_t first, std::int64_t count) {
            kernels::gemm_args part = p;
            part.m = count;
            call(part, a_first, b_first, c_first, first, 0);
          },
          grain, gemm.tile_rows);
    else
      emission::cut(
          p.n, flops / static_cast<double>(p.n),
          [&](std::int64_t first, std::int64_t count) {
            kernels::gemm_args part = p;
            part.n = count;
            call(part, a_first, b_first, c_first, 0, first);
          },
          grain, gemm.panel_columns);
  };

  // Small products at equal distances are few calls. A single column stays a call of its own, which sums it in another order.
  const bool even = (a_batch.size() == 1 || a_batch.size() == batches) && (one_b || b_batch.size() == batches);
  if (batches > 1 && small && even && !packed && p.n > 1) {
    p.a_batch = a_batch.size() == 1 ? 0 : a_step;
    p.b_batch = one_b ? 0 : b_step;
    p.c_batch = p.residual_batch = c_step;
    emission::cut(
        batches, flops,
        [&](std::int64_t first, std::int64_t count) {
          kernels::gemm_args part = p;
          part.batch = count;
          call(part, first * p.a_batch, first * p.b_batch, first * c_step);
        },
        1e6);
    return;
  }
  std::int64_t index[max_rank]{};
  for (std::int64_t i = 0; i < batches; ++i) {
    std::int64_t at_a = 0, at_b = 0;
    for (int d = 0; d < c_batch.rank && batches > 1; ++d) {
      int da = d - (c_batch.rank - a_batch.rank), db = d - (c_batch.rank - b_batch.rank);
      if (da >= 0) at_a = at_a * a_batch.at(da) + (a_batch.at(da) == 1 ? 0 : index[d]);
      if (db >= 0) at_b = at_b * b_batch.at(db) + (b_batch.at(db) == 1 ? 0 : index[d]);
    }
    product(at_a * a_step, at_b * b_step, i * c_step);
    for (int d = c_batch.rank - 1; d >= 0 && ++index[d] == c_batch.at(d); --d) index[d] = 0;
  }
}

void matmul::map_axis(const attributes& at, axis_map& m) {
  const shape &a = m.in[0].dims, &b = m.in[1].dims, &c = m.out[0].dims;
  m.leading_axes = true;
  if (a.rank < c.rank || (c.rank > 2 && a.at(m.axis) != c.at(m.axis))) return;
  if (m.axis > 0 && (at.transpose_a || b.rank > 2 || m.axis > c.rank - 2)) return;
  if (b.rank == 2) {
    m.share(1);
    m.worth_copies = true;
  } else if (!m.broadcast(1)) return;
  if (c.rank == 2 && at.transpose_a) {
    if (c.at(1) == 1) return;  // a single column is summed in another order where it lies in one piece
    m.operands[0] = 1;
  }
  m.independent = true;
}

}  // namespace lamina::op
