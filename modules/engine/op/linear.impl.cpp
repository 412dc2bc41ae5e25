module;
#include "../kernels/families.h"
module lamina:op.linear.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op.box;
import :op.half;
import :op.linear;
import :op.products;
import :op.shape;
import :op;
import :product_type;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::op {

void dot_result::emit(emission& e) { detail::emit_copy(e); }

namespace {

using detail::matrices;
using detail::products;

const kernels::gemm_functions& functions(const emission& e) {
  return kernels::gemm_of(e.isa(), static_cast<kernels::element>(e.out_type(0).element));
}

// The packed form of a B that all products share; empty if B is read unpacked.
buffer_ref packed_b(emission& e, const kernels::gemm_functions& gemm, const products& all, bool transposed) {
  const auto& p = all.one;
  const bool rounds = &gemm != &functions(e);
  if (!all.one_b || all.column || (p.m * all.count >= 4096 && !rounds)) return {};
  return e.packed(
      e.of().inputs[1],
      (rounds ? 0x6d620000u : 0x6d6d0000u) | (transposed ? 1u : 0u) |
          static_cast<unsigned>(e.out_type(0).element) << 4 | static_cast<unsigned>(e.isa()) << 8,
      gemm.packed_bytes(p.k, p.n),
      [&](buffer_ref from, buffer_ref to) {
        kernels::gemm_prepack_args q{};
        q.k = p.k;
        q.n = p.n;
        q.b_row = p.b_row;
        q.b_column = p.b_column;
        e.step(gemm.prepack, q, {{&q.b, from}, {&q.packed, to}});
      },
      !rounds);
}

// Matrices of an operand converted to another form, contiguous.
struct formed {
  buffer_ref at;          // empty: the operand is used unconverted
  std::int64_t from = 0;  // elements between matrices of the operand; 0: a single matrix
  std::int64_t each = 0;  // distance between converted matrices: bytes for B, numbers for A
  std::int64_t of(std::int64_t element) const { return each == 0 ? element : from == 0 ? 0 : element / from * each; }
};
// How products are computed: kernels, and the forms of their operands.
struct way {
  const kernels::gemm_functions& gemm;
  formed a{}, b{};
  bool packed = false;       // B is packed for the kernels
  std::int64_t a_bytes = 0;  // size of a number of A
};

// Emits a call for rows and columns of a product from these on, or for the products in the batch of `part`.
void emit_part(emission& e, kernels::gemm_args part, const way& by, const matrices& first, std::int64_t row = 0,
               std::int64_t column = 0) {
  const auto& gemm = by.gemm;
  const auto& tail = e.epilogue();
  const auto size = static_cast<std::int64_t>(size_of(e.out_type(0).element)),
             c_at = (first.c + row * part.c_row + column) * size;
  const auto run = gemm.prepare_kernel(&part, e.compact());
  std::vector<address> where{
      {&part.a, (by.a.at ? by.a.at : e.in(0)).at((by.a.of(first.a) + row * part.a_row) * by.a_bytes)},
      {&part.b, by.packed ? by.b.at.at(by.b.of(first.b) + static_cast<std::int64_t>(gemm.packed_bytes(part.k, column)))
                          : (by.b.at ? by.b.at : e.in(1)).at((first.b + column * part.b_column) * size)},
      {&part.c, e.out(0).at(c_at)}};
  if (tail.bias) where.push_back({&part.bias_column, e.operand(tail.bias).at(column * size)});
  if (tail.residual) where.push_back({&part.residual, e.operand(tail.residual).at(c_at)});
  e.step(run, part, where, gemm.scratch_bytes(&part));
}

// Emits one product, cut into rows or columns at tile boundaries; depends on the size alone.
void emit_product(emission& e, const kernels::gemm_args& p, double flops, const way& by, const matrices& first) {
  const auto& gemm = by.gemm;
  const double grain = flops < 4e5 ? 1e5 : flops < 2e6 ? 2e5 : 1e6;
  // Every part reads all of B or of A again, and may pack it: parts of few rows pay off only if B stays in L2.
  constexpr std::size_t near = 256 * 1024;
  const std::size_t b_bytes =
      by.packed ? gemm.packed_bytes(p.k, p.n) : static_cast<std::size_t>(p.k * p.n) * size_of(e.out_type(0).element);
  const bool large = b_bytes > near, short_parts = large && p.m < 64 * gemm.tile_rows,
             by_rows = large && !by.packed ? p.m >= 2 * p.n : p.m >= p.n || (p.m >= 4 * gemm.tile_rows && !short_parts);
  if (by_rows)
    e.cut_for_threads(
        p.m, flops / static_cast<double>(p.m),
        [&](std::int64_t row, std::int64_t count) {
          kernels::gemm_args part = p;
          part.m = count;
          emit_part(e, part, by, first, row, 0);
        },
        grain, gemm.tile_rows);
  else {
    // A single column would be summed in another order: the last part takes it.
    const std::int64_t cut_columns = p.n % gemm.panel_columns == 1 ? p.n - 1 : p.n;
    e.cut_for_threads(
        cut_columns, flops / static_cast<double>(p.n),
        [&](std::int64_t column, std::int64_t count) {
          kernels::gemm_args part = p;
          part.n = column + count == cut_columns ? p.n - column : count;
          emit_part(e, part, by, first, 0, column);
        },
        grain, gemm.panel_columns);
  }
}

// Integer products, cut by rows; they have no epilogue.
void emit_integers(emission& e, const products& all) {
  const auto run = kernels::integers_of(e.isa()).product[static_cast<int>(e.out_type(0).element)];
  const auto size = static_cast<std::int64_t>(size_of(e.out_type(0).element));
  const auto& p = all.one;
  for (std::int64_t i = 0; i < all.count; ++i) {
    const matrices first = all.at(i);
    emission::cut(p.m, static_cast<double>(p.n) * static_cast<double>(p.k), [&](std::int64_t row, std::int64_t rows) {
      kernels::integer_product_args a{};
      a.m = rows;
      a.n = p.n;
      a.k = p.k;
      a.a_row = p.a_row;
      a.a_column = p.a_column;
      a.b_row = p.b_row;
      a.b_column = p.b_column;
      e.step(run, a,
             {{&a.a, e.in(0).at((first.a + row * p.a_row) * size)},
              {&a.b, e.in(1).at(first.b * size)},
              {&a.c, e.out(0).at((first.c + row * p.c_row) * size)}});
    });
  }
}

// Rounds A once, where otherwise each part would round it. The products run after the next stage.
void round_rows(emission& e, products& all, const kernels::bfloat_products& f, way& by) {
  auto& p = all.one;
  const std::int64_t row = detail::divide_up(p.k, f.numbers_group) * f.numbers_group,
                     count = all.count == 1 ? 1 : all.a.size(),
                     each = detail::divide_up(p.m, f.row_group) * f.row_group * row;
  by.a_bytes = static_cast<std::int64_t>(f.number_bytes);
  by.a = {e.temporary(static_cast<std::size_t>(each * count * by.a_bytes)), count == 1 ? 0 : all.step.a, each};
  for (std::int64_t i = 0; i < count; ++i)
    e.cut_for_threads(
        p.m, 8 * static_cast<double>(p.k),
        [&](std::int64_t first, std::int64_t rows) {
          kernels::bfloat_round_args a{};
          a.rows = rows;
          a.k = p.k;
          a.row = p.a_row;
          a.column = p.a_column;
          e.step(f.round, a,
                 {{&a.in, e.in(0).at((i * all.step.a + first * p.a_row) * 4)},
                  {&a.out, by.a.at.at((i * each + first * row) * by.a_bytes)}});
        },
        400e3, 16);
  p.a_row = row;
  p.a_column = 1;
  p.rounded = 1;
}

// Packs each B. The products run after the next stage.
void pack_now(emission& e, const products& all, way& by) {
  const auto& p = all.one;
  const auto each = static_cast<std::int64_t>((by.gemm.packed_bytes(p.k, p.n) + 63) / 64 * 64);
  const std::int64_t count = all.one_b ? 1 : all.b.size();
  by.b = {e.temporary(static_cast<std::size_t>(each * count)), count == 1 ? 0 : all.step.b, each};
  by.packed = true;
  for (std::int64_t i = 0; i < count; ++i)
    e.cut_for_threads(
        p.n, 8 * static_cast<double>(p.k),
        [&](std::int64_t column, std::int64_t columns) {
          kernels::gemm_prepack_args q{};
          q.k = p.k;
          q.n = columns;
          q.b_row = p.b_row;
          q.b_column = p.b_column;
          e.step(by.gemm.prepack, q,
                 {{&q.b, e.in(1).at((i * all.step.b + column * p.b_column) * 4)},
                  {&q.packed, by.b.at.at(i * each + static_cast<std::int64_t>(by.gemm.packed_bytes(p.k, column)))}});
        },
        400e3, by.gemm.panel_columns);
}

// The way for products with operands rounded to bfloat16; none if they stay float32.
std::optional<way> bfloat_way(emission& e, products& all, const matmul_attributes& at, product_type compute) {
  const auto& f = detail::bfloat_products(compute, e.isa());
  const auto& gemm = *f.gemm;
  way by{gemm, {}, {packed_b(e, gemm, all, at.transpose_b)}, true, 4};
  const bool known = static_cast<bool>(by.b.at);
  if (!known) {
    if (at.compute == dtype::float32 || all.column) return {};
    pack_now(e, all, by);
  } else by.b.each = 1;
  e.note("bfloat16");
  const auto& p = all.one;
  const bool many_parts = all.count == 1 && p.m >= 2 * gemm.tile_rows && p.n > 2 * gemm.panel_columns,
             rounds = many_parts || p.a_column != 1;
  if (rounds) round_rows(e, all, f, by);
  if (rounds || !known) e.stage();
  return by;
}

way way_of(emission& e, products& all, const matmul_attributes& at) {
  const dtype element = e.out_type(0).element;
  const product_type compute = at.compute == dtype::float32 ? e.compute() : at.compute;
  const auto size = static_cast<std::int64_t>(size_of(element));
  if (compute == dtype::bfloat16 && element == dtype::float32)
    if (auto by = bfloat_way(e, all, at, compute)) return *by;
  const auto& gemm = functions(e);
  if (at.compute == dtype::float16) {
    way by{gemm, {detail::rounded_operand(e, 0, at.compute)}, {detail::rounded_operand(e, 1, at.compute)}, false, size};
    e.stage();
    return by;
  }
  const buffer_ref packed = packed_b(e, gemm, all, at.transpose_b);
  return {gemm, {}, {packed, 0, packed ? 1 : 0}, static_cast<bool>(packed), size};
}

}  // namespace

void matmul::emit(emission& e) {
  if (e.out_type(0).dims.size() == 0) return;
  const auto& at = e.attributes<matmul_attributes>();
  products all = detail::products_of(at, e.in_type(0).dims, e.in_type(1).dims, e.out_type(0).dims);
  if (is_integer(e.out_type(0).element)) return emit_integers(e, all);
  auto& p = all.one;
  const auto& tail = e.epilogue();
  p.clamp = tail.clamp;
  p.low = tail.low;
  p.high = tail.high;
  p.relaxed_summation = e.relaxed_summation();
  const way by = way_of(e, all, at);
  p.prepacked = by.packed;
  e.kernel(by.packed ? "packed" : "unpacked");

  const double flops = all.flops();
  // Products of fewer flops are not cut. A single row takes the time in which its weights are read.
  const double least = p.m == 1 && all.count == 1 ? 2e5 : 4e5;
  const bool small = flops < least;
  // Small products at equal strides become few calls. A single column stays a separate call, which sums in another
  // order.
  const std::int64_t a_count = all.a.size();
  const bool even = (a_count == 1 || a_count == all.count) && (all.one_b || all.b.size() == all.count);
  if (all.count > 1 && small && even && !by.packed && p.n > 1) {
    p.a_batch = a_count == 1 ? 0 : all.step.a;
    p.b_batch = all.one_b ? 0 : all.step.b;
    p.c_batch = p.residual_batch = all.step.c;
    emission::cut(
        all.count, flops,
        [&](std::int64_t first, std::int64_t count) {
          kernels::gemm_args part = p;
          part.batch = count;
          emit_part(e, part, by, {first * p.a_batch, first * p.b_batch, first * p.c_batch});
        },
        1e6);
    return;
  }
  for (std::int64_t i = 0; i < all.count; ++i) {
    if (small) emit_part(e, p, by, all.at(i));
    else emit_product(e, p, flops, by, all.at(i));
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
    if (c.at(1) == 1) return;  // a contiguous single column is summed in another order
    m.operands[0] = 1;
  }
  m.independent = true;
}

}  // namespace lamina::op
