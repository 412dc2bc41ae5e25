// Gradients of the operations of index.cppm.
module lamina:op.index.gradient;
import :core;
import :dtype;
import :op.attention;
import :op.elementwise;
import :op.index;
import :op.reduce;
import :op.shape;
import :op.view;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void index() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

void gather::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::scatter_rows>(c.attributes<axis_attributes>(), c.gradient(), c(1), c(0)); });
}
void scatter_rows::gradient(gradient_call& c) {
  c(0, [&] { return lamina::gather(c.gradient(), c(1), c.attributes<axis_attributes>().axis); });
}
void take_along_axis::gradient(gradient_call& c) {
  c(0, [&] { return apply<op::scatter_elements>(c.attributes<axis_attributes>(), c.gradient(), c(1), c(0)); });
}
void scatter_elements::gradient(gradient_call& c) {
  c(0, [&] { return lamina::take_along_axis(c.gradient(), c(1), c.attributes<axis_attributes>().axis); });
}
void to_one_hot::gradient(gradient_call&) {}  // positions have no gradient
void cumsum::gradient(gradient_call& c) {
  auto a = c.attributes<cumsum_attributes>();
  a.reverse = !a.reverse;
  c(lamina::cumsum(c.gradient(), a));
}
// For each element the products without it: those of rows in which it is replaced by 1.
void cumprod::gradient(gradient_call& c) {
  auto a = c.attributes<cumsum_attributes>();
  const int rank = c(0).shape().rank, axis = detail::normal_axis(a.axis, rank), last = rank - 1;
  axes order;
  for (int i = 0; i < rank; ++i)
    if (i != axis) order.values[order.count++] = i;
  order.values[order.count++] = axis;
  const value x = lamina::permute(c(0), order), g = lamina::permute(c.gradient(), order);
  const value at = lamina::positions(x, last), own = lamina::unsqueeze(at, axes(1)),
              other = lamina::unsqueeze(at, axes(0));
  const value rows = lamina::where(own == other, 1, lamina::unsqueeze(x, axes(last)));
  const value without = lamina::cumprod(rows, cumsum_attributes{-1, a.exclusive, a.reverse});
  const value later = a.exclusive ? (a.reverse ? other < own : other > own) : (a.reverse ? other <= own : other >= own);
  const value terms = lamina::where(later, without * lamina::unsqueeze(g, axes(last)), 0);
  c(lamina::permute_inverse(lamina::reduce_sum(terms, reduce_attributes{.axes = axes(-1)}), order));
}

}  // namespace lamina::op
