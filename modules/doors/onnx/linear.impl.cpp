// Matrix products.
module lamina.onnx:linear.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

value numpy_product(const value& a, const value& b) {
  const int ra = a.shape().rank, rb = b.shape().rank;
  if (ra == 1 && rb == 1)
    return lamina::reshape(lamina::matmul(lamina::unsqueeze(a, axes(0)), lamina::unsqueeze(b, axes(1))), shape{});
  if (ra == 1) return lamina::squeeze(lamina::matmul(lamina::unsqueeze(a, axes(0)), b), axes(rb - 2));
  if (rb == 1) return lamina::squeeze(lamina::matmul(a, lamina::unsqueeze(b, axes(1))), axes(ra - 1));
  return lamina::matmul(a, b);
}

namespace {

void matmul(node_call& c) { c.give_like(0, numpy_product(c.number(0), c.number(1))); }

void gemm(node_call& c) {
  value a = c.number(0), b = c.number(1);
  if (a.shape().rank != 2 || b.shape().rank != 2) c.fail("expected two matrices; got ", a.shape(), " and ", b.shape());
  const dtype e = a.type().element;
  const double alpha = c.real("alpha", 1), beta = c.real("beta", 1);
  if (is_integer(e) && (alpha != 1 || beta != 1)) a = c.cast_to(a, dtype::float64), b = c.cast_to(b, dtype::float64);
  value y = lamina::matmul(a, b, {.transpose_a = c.flag("transA"), .transpose_b = c.flag("transB")});
  if (alpha != 1) y = y * alpha;
  if (c.has(2) && beta != 0) {
    value bias = c.cast_to(c.number(2), y.type().element);
    y = y + (beta == 1 ? bias : value(bias * beta));
  }
  c.give_like(0, y);
}

constexpr converter_entry entries[] = {
    {"Gemm", 6, gemm},
    {"MatMul", 1, matmul},
};

}  // namespace

converter_list linear_converters() { return entries; }

}  // namespace lamina::onnx
