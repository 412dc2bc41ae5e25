// The elementwise part of LSTM and GRU steps, after the matrix products, as one operation each.
export module lamina:op.recurrent;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace detail {
/// Whether `gates` has the rows of `state` and `count` times its columns.
constexpr bool gates_fit(const tensor_type& gates, const tensor_type& state, std::int64_t count, inference& out) {
  const shape &g = gates.dims, &s = state.dims;
  if (g.rank != 2 || s.rank != 2) out.why << "gates and state must be matrices";
  else if (!may_equal(g[0], s[0])) out.why << "gates and state differ in rows";
  else if (g[1].is_number() && s[1].is_number() && g.at(1) != count * s.at(1))
    out.why << "the gates must have " << count << " times the columns of the state";
  return out.why.empty();
}
constexpr bool cell_operands(view<const tensor_type> in, inference& out) {
  return same_elements(in, out) && takes(domain::real, in[0].element, out);
}
}  // namespace detail

namespace op {
/// Results: output and next cell state.
struct lstm_gates {
  static constexpr std::string_view name = "lstm_gates";
  static constexpr int operands = 2, results = 2;
  static constexpr bool by_element = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::cell_operands(in, out) || !detail::gates_fit(in[0], in[1], 4, out)) return;
    out.result(in[1].element, in[1].dims);
    out.result(in[1].element, in[1].dims);
  }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return 30.0 * static_cast<double>(in[1].dims.size());
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// Operands: gates, cell, next cell, gradients of output and next cell. Results: gradients of gates and cell.
struct lstm_gates_grad {
  static constexpr std::string_view name = "lstm_gates_grad";
  static constexpr int operands = 5, results = 2;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
struct gru_gates {
  static constexpr std::string_view name = "gru_gates";
  static constexpr int operands = 3;
  static constexpr bool by_element = true;
  using attributes = no_attributes;
  static constexpr void infer(const attributes&, view<const tensor_type> in, inference& out) {
    if (!detail::cell_operands(in, out) || !detail::gates_fit(in[0], in[2], 3, out) ||
        !detail::gates_fit(in[1], in[2], 3, out))
      return;
    out.result(in[2].element, in[2].dims);
  }
  static double flops(const attributes&, view<const tensor_type> in, view<const tensor_type>) {
    return 25.0 * static_cast<double>(in[2].dims.size());
  }
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
  static void map_axis(const attributes&, axis_map&);
};
/// Operands: both gates, state, gradient of the output. Results: gradients of both gates and the state.
struct gru_gates_grad {
  static constexpr std::string_view name = "gru_gates_grad";
  static constexpr int operands = 4, results = 3;
  using attributes = no_attributes;
  static void infer(const attributes&, view<const tensor_type> in, inference& out);
  [[gnu::weak]] static void gradient(gradient_call&);
  static void emit(emission&);
};
}  // namespace op

using recurrent_operations = operation_list<op::gru_gates, op::gru_gates_grad, op::lstm_gates, op::lstm_gates_grad>;
template <Operation Op> requires recurrent_operations::has<Op>
inline constexpr const operation& record<Op> = record_in_library<Op>();

template <class... X> struct lstm_gates_check {
  static consteval text message() {
    text t;
    if constexpr (std::same_as<evaluation_mode_of<X...>, lazy>)
      t << "lstm_gates: gives two results, which a typed expression cannot hold; use values of a program, or the "
           "layer nn::lstm_cell";
    return t;
  }
};
/// Elementwise part of an LSTM step: next = s(f) cell + s(i) tanh(g) and out = s(o) tanh(next).
/// Shapes:  gates [N, 4 H] in the order i f g o, cell [N, H] -> out and next, each [N, H], as an array.
/// Source:  Hochreiter, Schmidhuber, "Long short-term memory" (1997); Gers, Schmidhuber, Cummins (2000).
export template <Symbolic G, Symbolic C> requires accepted<diagnostic<lstm_gates_check<G, C>>()>
constexpr auto lstm_gates(const G& gates, const C& cell, origin_of<G, C> = {}) {
  return apply<op::lstm_gates>({}, gates, cell);
}
/// Elementwise part of a GRU step: r = s(xr + hr), z = s(xz + hz), n = tanh(xn + r hn), n + z (state - n).
/// Shapes:  x and h [N, 3 H] in the order r z n, state [N, H] -> [N, H].
/// Source:  Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014), in the form of cuDNN.
export template <Symbolic X, Symbolic H, Symbolic S> requires accepted<diagnostic<applying<op::gru_gates, X, H, S>>()>
constexpr auto gru_gates(const X& x, const H& h, const S& state, origin_of<X, H, S> = {}) {
  return apply<op::gru_gates>({}, x, h, state);
}

}  // namespace lamina
