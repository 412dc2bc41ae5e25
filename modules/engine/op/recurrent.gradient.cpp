// Gradients of the operations of recurrent.cppm.
module lamina:op.recurrent.gradient;
import :core;
import :dtype;
import :op.control;
import :op.elementwise;
import :op.recurrent;
import :op.shape;
import :op;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace gradient_files {
void recurrent() {}
}  // namespace gradient_files

}  // namespace lamina

namespace lamina::op {

namespace {
value zero_like(const value& v) { return lamina::broadcast_like(v.owner().number(0.0, v.type().element), v); }
// Slice `i` along the columns, of the width of `like`.
value columns(const value& v, std::int64_t i, const value& like) {
  auto width = like.shape().at(1);
  return lamina::slice(v, {.start = i * width, .stop = (i + 1) * width, .axis = 1});
}
value joined(std::initializer_list<value> parts) {
  return apply_all<op::concat>(axis_attributes{1}, view<const value>(parts.begin(), parts.size()));
}
bool known_width(const value& v) { return v.shape()[1].is_number(); }
value or_zero(const value& gradient, const value& of) { return gradient.empty() ? zero_like(of) : gradient; }
// The backward formulas in differentiable operations, for second gradients.
std::vector<value> lstm_backward(const std::vector<value>& v) {
  const value &gates = v[0], &cell = v[1], &next = v[2], &dh = v[3], &dn = v[4];
  value i = lamina::sigmoid(columns(gates, 0, cell)), f = lamina::sigmoid(columns(gates, 1, cell)),
        g = lamina::tanh(columns(gates, 2, cell)), o = lamina::sigmoid(columns(gates, 3, cell)), t = lamina::tanh(next);
  value dc = dn + dh * o * (1 - t * t);
  return {joined({dc * g * (i * (1 - i)), dc * cell * (f * (1 - f)), dc * i * (1 - g * g), dh * t * (o * (1 - o))}),
          dc * f};
}
std::vector<value> gru_backward(const std::vector<value>& v) {
  const value &x = v[0], &h = v[1], &state = v[2], &d = v[3];
  value r = lamina::sigmoid(columns(x, 0, state) + columns(h, 0, state)),
        z = lamina::sigmoid(columns(x, 1, state) + columns(h, 1, state)), hn = columns(h, 2, state),
        n = lamina::tanh(columns(x, 2, state) + r * hn);
  value dn = d * (1 - z) * (1 - n * n), dz = d * (state - n) * (z * (1 - z)), dr = dn * hn * (r * (1 - r));
  return {joined({dr, dz, dn}), joined({dr, dz, dn * r}), d * z};
}
void second_order(gradient_call& c, std::string_view name, std::vector<value> (*backward)(const std::vector<value>&)) {
  if (!known_width(c(0))) {
    text t;
    detail::raise(error_kind::shape, t << name << ": a second gradient needs the number of columns");
  }
  program p;
  std::vector<value> in;
  for (const auto& v : c.inputs) in.push_back(p.input("x", v.type()));
  for (const auto& v : backward(in)) p.output("y", v);
  gradient_of_call(c, p);
}
}  // namespace

void lstm_gates::gradient(gradient_call& c) {
  auto d =
      apply<lstm_gates_grad>({}, c(0), c(1), c.result(1), or_zero(c.gradients[0], c(1)), or_zero(c.gradients[1], c(1)));
  c(0, [&] { return d[0]; });
  c(1, [&] { return d[1]; });
}
void lstm_gates_grad::gradient(gradient_call& c) { second_order(c, name, &lstm_backward); }
void gru_gates::gradient(gradient_call& c) {
  auto d = apply<gru_gates_grad>({}, c(0), c(1), c(2), c.gradient());
  for (std::size_t i = 0; i < 3; ++i) c(i, [&] { return d[i]; });
}
void gru_gates_grad::gradient(gradient_call& c) { second_order(c, name, &gru_backward); }

}  // namespace lamina::op
