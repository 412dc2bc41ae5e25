// Matrix products over the last two axes of tensors whose leading axes broadcast: addresses of each matrix.
module;
#include "../kernels/families.h"
module lamina:op.products;
import :core;
import :dtype;
import :emission;
import :op.box;
import :op.half;
import :op.linear;
import :product_type;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

/// Offsets, in elements, of the matrices of a call.
struct matrices {
  std::int64_t a = 0, b = 0, c = 0;
};

/// The products of matrices in the last two axes, one for each position of the leading axes.
struct products {
  kernels::gemm_args one{};  // sizes and strides of each product
  shape a, b, c;             // leading axes
  std::int64_t count = 1;
  matrices step;        // elements from one matrix to the next
  bool one_b = false;   // all products have the same B
  bool column = false;  // B is a column, and the rows of A are contiguous along K

  double flops() const {  // of each product
    return 2.0 * static_cast<double>(one.m) * static_cast<double>(one.n) * static_cast<double>(one.k);
  }
  matrices at(std::int64_t product) const {
    const auto position = [&](const shape& leading) {  // in an operand, which broadcasts along axes of extent 1
      std::int64_t at = 0, distance = 1, rest = product;
      for (int d = 1; d <= leading.rank; ++d) {
        const std::int64_t extent = leading.at(leading.rank - d), all = c.at(c.rank - d);
        if (extent != 1) at += rest % all * distance;
        rest /= all;
        distance *= extent;
      }
      return at;
    };
    return {position(a) * step.a, position(b) * step.b, product * step.c};
  }
};

products products_of(const matmul_attributes& at, const shape& a, const shape& b, const shape& c) {
  products all;
  all.a = a;
  all.b = b;
  all.c = c;
  for (shape* leading : {&all.a, &all.b, &all.c}) leading->rank -= 2;
  all.one_b = all.b.size() == 1;
  all.count = all.c.size();
  auto& p = all.one;
  p.m = c.at(c.rank - 2);
  p.n = c.at(c.rank - 1);
  p.k = at.transpose_a ? a.at(a.rank - 2) : a.at(a.rank - 1);
  p.a_row = at.transpose_a ? 1 : a.at(a.rank - 1);
  p.a_column = at.transpose_a ? a.at(a.rank - 1) : 1;
  p.b_row = at.transpose_b ? 1 : b.at(b.rank - 1);
  p.b_column = at.transpose_b ? b.at(b.rank - 1) : 1;
  p.c_row = p.residual_row = p.n;
  p.batch = 1;
  all.step = {a.size(a.rank - 2, a.rank), b.size(b.rank - 2, b.rank), p.m * p.n};
  // Leading axes that only A has become rows of one product if its rows are contiguous.
  if (all.one_b && !at.transpose_a && all.a.size() == all.count) {
    p.m *= all.count;
    all.count = 1;
  }
  all.column = p.n == 1 && p.a_column == 1;
  return all;
}

/// A float32 operand rounded to float16 or bfloat16 and stored as float32: products of such operands have rounded
/// factors and float32 sums. The steps that read it run after the next stage.
buffer_ref rounded_operand(emission& e, std::size_t i, product_type to) {
  const shape& dims = e.in_type(i).dims;
  const std::int64_t count = dims.size();
  const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
  buffer_ref from = e.in(i);
  if (from.pitch != 0 && count > 0) {  // rows of all heads
    box rows;
    const std::int64_t row = dims.at(dims.rank - 3) * dims.back().code;
    rows.extent = {dim(count / row), dim(row)};
    rows.in_stride[0] = from.pitch, rows.out_stride[0] = row;
    rows.in_stride[1] = rows.out_stride[1] = 1;
    const buffer_ref copy = e.temporary(bytes);
    emit_box(e, rows, from, copy, dtype::float32);
    e.stage();
    from = copy;
  }
  const buffer_ref rounded = e.temporary(bytes);
  const auto run = rounding_of(to, e.isa());
  e.cut_for_threads(count, 2, [&](std::int64_t first, std::int64_t part) {
    kernels::rounded_floats_args a{};
    a.count = part;
    e.step(run, a, {{&a.in, from.at(first * 4)}, {&a.out, rounded.at(first * 4)}});
  });
  e.note(name_of(to));
  return rounded;
}

}  // namespace lamina::detail
