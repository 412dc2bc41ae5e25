// Recurrent layers: steps, a layer that runs any step along sequences, and RNN, GRU and LSTM over whole sequences.
// Parameters have PyTorch's names and layouts.
export module lamina:layer.recurrent;
import :core;
import :dtype;
import :layer;
import :op;
import :op.control;
import :op.elementwise;
import :op.linear;
import :op.random;
import :op.recurrent;
import :op.reduce;
import :op.shape;
import :parameter;
import :policy;
import :policy.kinds;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

namespace detail {
/// Checks an input [N, in] and states [N, hidden] of a step.
constexpr void check_step(std::string_view name, std::int64_t in, std::int64_t hidden, view<const tensor_type> x,
                          text& why) {
  if (in < 1 || hidden < 1)
    why << name << " needs positive `input_size` and `hidden_size` but has " << in << " and " << hidden;
  else if (x[0].dims.rank != 2 || !may_equal(x[0].dims[1], in))
    why << name << " expects rows of " << in << " features, shape [N, " << in << "], but is given " << x[0].dims;
  for (std::size_t i = 1; i < x.size() && why.empty(); ++i)
    if (x[i].dims.rank != 2 || !may_equal(x[i].dims[1], hidden) || !may_equal(x[i].dims[0], x[0].dims[0]))
      why << name << " expects a state of shape [N, " << hidden << "] for its input [N, " << in << "], but is given "
          << x[i].dims << " for " << x[0].dims;
}
/// Value carried to the next iteration; with the policy `bptt(false)` no gradient flows back through it.
template <class V> constexpr V passed_on(const auto& s, const V& v) {
  return policy_of<bptt>(s).value ? v : V(lamina::stop_gradient(v));
}
constexpr auto columns(const auto& v, std::int64_t part, std::int64_t width) {
  return lamina::slice(v, {.start = part * width, .stop = (part + 1) * width, .axis = 1});
}
}  // namespace detail

// ---- steps ----------------------------------------------------------------------------------------------------------
// A step's input `previous_x` is its output `x` from the previous iteration.

/// One step of an Elman network: output = tanh(input W + previous_output U + b), or relu instead of tanh.
/// Shapes:  input [N, input_size], outputs [N, hidden_size]; weight_ih [hidden_size, input_size],
///          weight_hh [hidden_size, hidden_size], bias_ih and bias_hh [hidden_size].
/// Source:  Elman, "Finding structure in time" (1990); torch.nn.RNNCell.
export struct rnn_cell {
  std::int64_t input_size = 0, hidden_size = 0;
  bool bias = true, relu = false;

  static constexpr view<const label> inputs() { return port_names<"input", "previous_output">; }
  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::check_step("rnn_cell", input_size, hidden_size, x, why);
  }
  constexpr auto forward(auto& s, const auto& x, const auto& h) const {
    const auto start = initializer::kaiming_uniform(hidden_size);
    auto y = lamina::matmul(x, s.parameter("weight_ih", shape{hidden_size, input_size}, start), {.transpose_b = true}) +
             lamina::matmul(h, s.parameter("weight_hh", shape{hidden_size, hidden_size}, start), {.transpose_b = true});
    if (biased(*this, s))
      y = y + (s.parameter("bias_ih", shape{hidden_size}, start) + s.parameter("bias_hh", shape{hidden_size}, start));
    if (relu) return decltype(y)(lamina::relu(y));
    return decltype(y)(lamina::tanh(y));
  }
};

/// One step of a long short-term memory (LSTM). With `peephole` the gates also depend on the cell state through
/// weight_p [3 hidden_size], in the order i f o.
/// Shapes:  input [N, input_size], output and cell [N, hidden_size]; weight_ih [4 hidden_size, input_size],
///          weight_hh [4 hidden_size, hidden_size], bias_ih and bias_hh [4 hidden_size], in the order i f g o.
/// Source:  Gers, Schraudolph, Schmidhuber, "Learning precise timing with LSTM recurrent networks" (2002);
///          torch.nn.LSTMCell.
export struct lstm_cell {
  std::int64_t input_size = 0, hidden_size = 0;
  bool bias = true, peephole = false;

  static constexpr view<const label> inputs() { return port_names<"input", "previous_output", "previous_cell">; }
  static constexpr view<const label> outputs() { return port_names<"output", "cell">; }
  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::check_step("lstm_cell", input_size, hidden_size, x, why);
  }
  constexpr auto forward(auto& s, const auto& x, const auto& h, const auto& c) const {
    const auto start = initializer::kaiming_uniform(hidden_size);
    auto gates =
        lamina::matmul(x, s.parameter("weight_ih", shape{4 * hidden_size, input_size}, start), {.transpose_b = true}) +
        lamina::matmul(h, s.parameter("weight_hh", shape{4 * hidden_size, hidden_size}, start), {.transpose_b = true});
    if (biased(*this, s))
      gates = gates + (s.parameter("bias_ih", shape{4 * hidden_size}, start) +
                       s.parameter("bias_hh", shape{4 * hidden_size}, start));
    return after_products(s, gates, c, hidden_size, peephole);
  }
  /// The step after its matrix products: output and next cell state.
  static constexpr auto after_products(auto& s, const auto& gates, const auto& c, std::int64_t width, bool peephole,
                                       std::string_view weight = "weight_p") {
    if (!peephole) return lamina::lstm_gates(gates, c);
    auto p = s.parameter(weight, shape{3 * width}, initializer::kaiming_uniform(width));
    auto through = [&](std::int64_t part) {
      return lamina::slice(p, {.start = part * width, .stop = (part + 1) * width});
    };
    auto i = lamina::sigmoid(detail::columns(gates, 0, width) + through(0) * c);
    auto f = lamina::sigmoid(detail::columns(gates, 1, width) + through(1) * c);
    auto next = f * c + i * lamina::tanh(detail::columns(gates, 2, width));
    auto o = lamina::sigmoid(detail::columns(gates, 3, width) + through(2) * next);
    return std::array<std::remove_cvref_t<decltype(gates)>, 2>{o * lamina::tanh(next), next};
  }
};

/// Variants of a GRU: where the reset gate is applied, and the direction of the update gate.
export enum class gru_form : std::uint8_t {
  reset_after,   ///< n = tanh(x + r (h U + b)), h' = n + z (h - n): PyTorch's, and ONNX's with linear_before_reset
  reset_before,  ///< n = tanh(x + (r h) U + b), h' = n + z (h - n): ONNX's default
  reversed,      ///< n as in reset_before, h' = h + z (n - h): as in MetaNN and in the original paper
};
/// One step of a gated recurrent unit (GRU).
/// Shapes:  input [N, input_size], output [N, hidden_size]; weight_ih [3 hidden_size, input_size],
///          weight_hh [3 hidden_size, hidden_size], bias_ih and bias_hh [3 hidden_size], in the order r z n.
/// Source:  Cho et al., "Learning phrase representations using RNN encoder-decoder" (2014); torch.nn.GRUCell.
export struct gru_cell {
  std::int64_t input_size = 0, hidden_size = 0;
  bool bias = true;
  gru_form form = gru_form::reset_after;

  static constexpr view<const label> inputs() { return port_names<"input", "previous_output">; }
  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::check_step("gru_cell", input_size, hidden_size, x, why);
  }
  constexpr auto forward(auto& s, const auto& x, const auto& h) const {
    const auto start = initializer::kaiming_uniform(hidden_size);
    auto gates =
        lamina::matmul(x, s.parameter("weight_ih", shape{3 * hidden_size, input_size}, start), {.transpose_b = true});
    auto u = s.parameter("weight_hh", shape{3 * hidden_size, hidden_size}, start);
    using V = decltype(gates);
    if (!biased(*this, s)) return after_products<V>(gates, h, u, nullptr, hidden_size, form);
    gates = gates + s.parameter("bias_ih", shape{3 * hidden_size}, start);
    V b = s.parameter("bias_hh", shape{3 * hidden_size}, start);
    return after_products<V>(gates, h, u, &b, hidden_size, form);
  }
  /// The step after the matrix product of the input; `b` is null without a bias.
  template <class V>
  static constexpr V after_products(const V& x, const V& h, const V& u, const V* b, std::int64_t width, gru_form form) {
    if (form == gru_form::reset_after) {
      V gates = lamina::matmul(h, u, {.transpose_b = true});
      if (b) gates = gates + *b;
      return lamina::gru_gates(x, gates, h);
    }
    auto rows = [&](std::int64_t from, std::int64_t to) {
      return lamina::slice(u, {.start = from * width, .stop = to * width});
    };
    auto part = [&](std::int64_t from, std::int64_t to) {
      return lamina::slice(*b, {.start = from * width, .stop = to * width});
    };
    V both = lamina::matmul(h, rows(0, 2), {.transpose_b = true});
    if (b) both = both + part(0, 2);
    V r = lamina::sigmoid(detail::columns(x, 0, width) + detail::columns(both, 0, width));
    V z = lamina::sigmoid(detail::columns(x, 1, width) + detail::columns(both, 1, width));
    V inside = lamina::matmul(r * h, rows(2, 3), {.transpose_b = true});
    if (b) inside = inside + part(2, 3);
    V n = lamina::tanh(detail::columns(x, 2, width) + inside);
    if (form == gru_form::reversed) return h + z * (n - h);
    return n + z * (h - n);
  }
};

/// MetaNN's GRU step, without biases: z = s(x Wz + h Uz), r = s(x Wr + h Ur), n = tanh((h r) U + x W),
/// output = n z + h (1 - z).
/// Shapes:  input [N, input_size], output [N, hidden_size]; Wz, Wr, W [input_size, hidden_size], Uz, Ur, U
///          [hidden_size, hidden_size].
export struct gru_step {
  std::int64_t input_size = 0, hidden_size = 0;

  static constexpr view<const label> inputs() { return port_names<"input", "previous_output">; }
  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::check_step("gru_step", input_size, hidden_size, x, why);
  }
  constexpr auto forward(auto& s, const auto& x, const auto& h) const {
    auto by = [&](const auto& v, std::string_view name, std::int64_t rows) {
      return lamina::matmul(
          v, s.parameter(name, shape{rows, hidden_size}, initializer::xavier_uniform(rows, hidden_size)));
    };
    auto z = lamina::sigmoid(by(x, "Wz", input_size) + by(h, "Uz", hidden_size));
    auto r = lamina::sigmoid(by(x, "Wr", input_size) + by(h, "Ur", hidden_size));
    auto n = lamina::tanh(by(h * r, "U", hidden_size) + by(x, "W", input_size));
    return n * z + h * (1 - z);
  }
};

// ---- any step along sequences ---------------------------------------------------------------------------------------

/// Input port of a step that receives one position of a sequence per iteration, and the sequence's axis; unused if
/// unnamed.
export struct sequence_port {
  label port = "";
  std::int64_t axis = 0;
};

/// Runs a step along sequences. The ports are those of the step: a port in `sequences` takes a whole sequence,
/// `previous_x` the initial value of `x`, any other port a value that all iterations share. The outputs of all
/// iterations are stacked along axis `output_axis`; negative axes count from the end.
/// Policies: `bptt(false)` stops gradients between iterations; `sequence<"port", axis>` overrides `sequences`.
/// Errors:  a diagnostic if the sequences differ in length, or name an unknown port or a `previous_` port.
export template <Layer Step> struct recurrent {
  static constexpr bool has_forward_ports = true;
  static constexpr std::size_t max_ports = 16;

  Step step{};
  std::array<sequence_port, 4> sequences{sequence_port{"input"}};
  std::int64_t output_axis = 0;
  bool reverse = false;

  static constexpr std::string_view kind() { return "recurrent"; }
  constexpr view<const label> inputs() const { return lamina::detail::layer_inputs(step); }
  constexpr view<const label> outputs() const { return lamina::detail::layer_outputs(step); }

  template <class S, class V> constexpr void forward_ports(S& s, view<const V> in, view<V> out) const {
    const auto names = inputs(), results = outputs();
    std::array<place, max_ports> places{};
    std::size_t carries = 0, walked = 0;
    if (!arrange(s, places, carries, walked)) return;
    work_array<V> first(carries), whole(walked), given(carries + results.size());
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (places[i].kind == role::carry) first[places[i].at] = in[i];
      if (places[i].kind == role::sequence) {
        const int axis = counted(s, in[i], places[i].axis, names[i]);
        if (axis < 0) return;
        whole[places[i].at] = to_front(in[i], axis);
      }
    }
    auto body = [&](auto& inner, view<const V> carried, view<const V> slices, view<V> made) {
      work_array<V> arguments(names.size()), stepped(results.size());
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (places[i].kind == role::sequence) arguments[i] = slices[places[i].at];
        else if (places[i].kind == role::same) arguments[i] = inner.outside(in[i]);
        else arguments[i] = carried[places[i].at];
      }
      lamina::detail::run_layer(inner, step, view<const V>(arguments.data, arguments.size),
                                view<V>(stepped.data, stepped.size));
      for (std::size_t i = 0; i < names.size(); ++i)
        if (places[i].kind == role::carry) made[places[i].at] = detail::passed_on(s, stepped[places[i].from]);
      for (std::size_t r = 0; r < results.size(); ++r) made[carries + r] = stepped[r];
    };
    s.scan(s, view<const V>(first.data, first.size), view<const V>(whole.data, whole.size),
           view<V>(given.data, given.size), body, reverse);
    if (s.failed()) return;
    for (std::size_t r = 0; r < out.size(); ++r) {
      const int axis = counted(s, given[carries + r], output_axis, results[r]);
      if (axis < 0) return;
      out[r] = from_front(given[carries + r], axis);
    }
  }

 private:
  enum class role : char { same, sequence, carry };
  struct place {
    role kind = role::same;
    std::size_t at = 0, from = 0;
    int axis = 0;
  };
  template <class S, std::size_t N>
  constexpr bool arrange(S& s, std::array<place, N>& places, std::size_t& carries, std::size_t& walked) const {
    constexpr std::string_view before = "previous_";
    const auto names = inputs(), results = outputs();
    text why;
    for (std::size_t i = 0; i < names.size(); ++i) {
      text name;
      name << names[i];
      if (!name.view().starts_with(before)) continue;
      std::size_t r = 0;
      while (r < results.size() && !(results[r] == label(name.view().substr(before.size())))) ++r;
      if (r == results.size())
        why << "input `" << names[i] << "` of the step needs an output `" << name.view().substr(before.size()) << "`";
      places[i] = {role::carry, carries++, r, 0};
    }
    auto walk = [&](const sequence_port& q) {
      if (!why.empty()) return;
      std::size_t i = 0;
      while (i < names.size() && !(names[i] == q.port)) ++i;
      if (i == names.size()) {
        why << "there is no port `" << q.port << "` to iterate over; the inputs of the step are";
        list_names(why, names);
      } else if (places[i].kind == role::carry)
        why << "`" << q.port << "` is carried between iterations, not a sequence";
      else if (places[i].kind == role::same) places[i] = {role::sequence, walked++, 0, static_cast<int>(q.axis)};
    };
    bool named = false;
    if constexpr (requires { typename S::policy_type; })
      s.each_policy([&](const auto& p) {
        if constexpr (requires {
                        p.port;
                        p.axis;
                      }) {
          named = true;
          walk({label(p.port.view()), p.axis});
        }
      });
    if (!named)
      for (const auto& q : sequences)
        if (!(q.port == label("")) || q.axis != 0) walk(q);
    if (why.empty() && walked == 0) why << "recurrent needs at least one sequence";
    if (!why.empty()) s.refuse(why.view());
    return why.empty();
  }
  // Axis of a port, counted from the front; -1 and a diagnostic if it is out of range.
  template <class S, class V> static constexpr int counted(S& s, const V& v, std::int64_t axis, label port) {
    const int rank = v.shape().rank;
    if (axis >= -rank && axis < rank) return static_cast<int>(axis < 0 ? axis + rank : axis);
    text why;
    why << "port `" << port << "` of shape " << v.shape() << " has no axis " << axis << " to iterate over";
    s.refuse(why.view());
    return -1;
  }
  static constexpr axes front_order(int rank, int axis) {
    axes order;
    order.count = rank;
    order.values[0] = axis;
    for (int i = 1; i < rank; ++i) order.values[i] = i <= axis ? i - 1 : i;
    return order;
  }
  template <class V> static constexpr V to_front(const V& v, int axis) {
    return axis == 0 ? v : V(lamina::permute(v, front_order(v.shape().rank, axis)));
  }
  template <class V> static constexpr V from_front(const V& v, std::int64_t axis) {
    if (axis == 0) return v;
    axes order;
    order.count = v.shape().rank;
    for (int i = 0; i < order.count; ++i) order.values[i] = i < axis ? i + 1 : i == axis ? 0 : i;
    return lamina::permute(v, order);
  }
};

// ---- whole sequences ------------------------------------------------------------------------------------------------

// Common part of RNN, GRU and LSTM over sequences. Their members begin in PyTorch's order. `states` adds ports for the
// initial and final states (h0, and c0 for an LSTM, [l.num_layers directions, N, l.hidden_size]), `lengths` a port
// int64 [N] with the number of valid positions of each sample: later positions give 0 and do not change the state.
// `reverse` iterates from the last position to the first.
namespace detail {
constexpr std::int64_t directions(const auto& l) { return l.bidirectional ? 2 : 1; }
/// Number of features of state i; state 0 is the output.
constexpr std::int64_t state_size(const auto& l, std::size_t i) {
  if constexpr (requires { l.proj_size; })
    if (i == 0 && l.proj_size > 0) return l.proj_size;
  return l.hidden_size;
}
constexpr void check_sequence(const auto& l, std::string_view name, view<const tensor_type> x, text& why) {
  const shape& s = x[0].dims;
  if (l.input_size < 1 || l.hidden_size < 1 || l.num_layers < 1)
    why << name << " needs positive `input_size`, `hidden_size` and `num_layers` but has " << l.input_size << ", "
        << l.hidden_size << " and " << l.num_layers;
  else if (l.reverse && l.bidirectional) why << name << " has both `reverse` and `bidirectional`; expected one";
  else if (!(l.dropout >= 0 && l.dropout < 1))
    why << name << " needs a dropout of at least 0 and below 1 but has " << l.dropout;
  else if (s.rank != 3)
    why << name << " expects sequences " << (l.batch_first ? "[N, T, " : "[T, N, ") << l.input_size << "] but is given "
        << s;
  else if (!may_equal(s[2], l.input_size))
    why << name << " expects " << l.input_size << " input features but is given " << s[2] << ", shape " << s;
  std::size_t next = 1;
  const dim samples = s.rank == 3 ? s[l.batch_first ? 0 : 1] : dim(dyn);
  for (; next < x.size() - (l.lengths ? 1 : 0) && why.empty(); ++next) {
    const shape& h = x[next].dims;
    if (h.rank != 3 || !may_equal(h[0], l.num_layers * directions(l)) || !may_equal(h[1], samples) ||
        !may_equal(h[2], state_size(l, next - 1)))
      why << name << " expects initial states [" << l.num_layers * directions(l) << ", N, " << state_size(l, next - 1)
          << "] but is given " << h << " for input " << s;
  }
  if (l.lengths && why.empty()) {
    const tensor_type& counts = x[x.size() - 1];
    if (counts.element != dtype::int64 || counts.dims.rank != 1 || !may_equal(counts.dims[0], samples))
      why << name << " expects lengths int64 [N] but is given " << counts << " for input " << s;
  }
}

/// Matrix product of the inputs of all iterations at once, plus bias_ih, and bias_hh if `state_bias`.
template <class L, class S, class V> constexpr V input_gates(const L& l, S& s, const V& x, std::int64_t features,
                                                             std::int64_t gates, bool state_bias,
                                                             std::string_view suffix) {
  const auto start = initializer::kaiming_uniform(l.hidden_size);
  const auto named = [&](std::string_view name) { return text(name) << suffix; };
  V all = lamina::matmul(x, s.parameter(named("weight_ih").view(), shape{gates * l.hidden_size, features}, start),
                         {.transpose_b = true});
  if (!biased(l, s)) return all;
  V b = s.parameter(named("bias_ih").view(), shape{gates * l.hidden_size}, start);
  if (state_bias) b = b + s.parameter(named("bias_hh").view(), shape{gates * l.hidden_size}, start);
  return all + b;
}
/// Initial carries of a layer's direction, number `at` over all layers: states, and with lengths the first position.
template <class L, class S, class V> constexpr void first_carries(const L& l, S& s, view<const V> in, const V& all,
                                                                  std::int64_t at, bool backwards, view<V> first) {
  const std::size_t states = first.size() - (l.lengths ? 1 : 0);
  for (std::size_t i = 0; i < states; ++i) {
    if (l.states)
      first[i] = lamina::reshape(lamina::slice(in[1 + i], {.start = at, .stop = at + 1}), shape{dyn, state_size(l, i)});
    else
      first[i] = lamina::broadcast_like(s.constant(shape{}, 0),
                                        columns(lamina::reduce_sum(all, {.axes = axes(0)}), 0, state_size(l, i)));
  }
  if (!l.lengths) return;
  V iterations = lamina::slice(lamina::shape_of(all), {.start = 0, .stop = 1});
  first[states] = backwards ? V(iterations - 1) : V(iterations * 0);
}
/// Runs all layers and directions. `step(inner, x, states, made, suffix)` computes the next states `made` from the
/// input gates x of an iteration; state 0 is the output. Weights have `gates` blocks of hidden_size rows.
template <std::size_t States, class L, class S, class V, class F>
constexpr void walk(const L& l, S& s, view<const V> in, view<V> out, std::int64_t gates, bool state_bias, F step) {
  V x = l.batch_first ? V(lamina::permute(in[0], axes(1, 0, 2))) : in[0];
  V last[States];
  for (std::int64_t layer = 0; layer < l.num_layers; ++layer) {
    if (layer > 0 && l.dropout > 0 && s.training())
      x = lamina::dropout(x, s.random_state(), {.probability = l.dropout, .site = s.next_site()});
    V both[2];
    for (std::int64_t d = 0; d < directions(l); ++d) {
      const std::int64_t features = layer == 0 ? l.input_size : directions(l) * state_size(l, 0),
                         at = layer * directions(l) + d;
      text suffix;
      suffix << "_l" << layer << (d ? "_reverse" : "");
      const V all = input_gates(l, s, x, features, gates, state_bias, suffix.view());
      const bool backwards = d == 1 || l.reverse;
      const std::size_t carries = States + (l.lengths ? 1 : 0);
      V first[States + 1], given[States + 2];
      first_carries(l, s, in, all, at, backwards, view<V>(first, carries));
      auto body = [&](auto& inner, view<const V> carried, view<const V> slices, view<V> made) {
        step(inner, slices[0], carried, made, suffix.view());
        made[carries] = made[0];
        if (!l.lengths) {
          for (std::size_t i = 0; i < States; ++i) made[i] = passed_on(s, made[i]);
          return;
        }
        V counts = carried[States] < lamina::reshape(inner.outside(in[in.size() - 1]), shape{dyn, 1});
        for (std::size_t i = 0; i < States; ++i) made[i] = passed_on(s, V(lamina::where(counts, made[i], carried[i])));
        made[States + 1] = lamina::where(counts, made[States + 1], 0);
        made[States] = backwards ? V(carried[States] - 1) : V(carried[States] + 1);
      };
      s.scan(s, view<const V>(first, carries), view<const V>(&all, 1), view<V>(given, carries + 1), body, backwards);
      if (s.failed()) return;
      both[d] = given[carries];
      if (l.states)
        for (std::size_t i = 0; i < States; ++i) {
          V one = lamina::reshape(given[i], shape{1, dyn, state_size(l, i)});
          last[i] = at == 0 ? one : V(lamina::concat<0>(last[i], one));
        }
    }
    x = l.bidirectional ? V(lamina::concat<2>(both[0], both[1])) : both[0];
  }
  out[0] = l.batch_first ? V(lamina::permute(x, axes(1, 0, 2))) : x;
  if (l.states)
    for (std::size_t i = 0; i < States && 1 + i < out.size(); ++i) out[1 + i] = last[i];
}
// Matrix product of the state of an iteration, without a bias.
template <class L, class S, class V>
constexpr V with_state(const L& l, S& s, const V& h, std::int64_t gates, std::string_view suffix) {
  return lamina::matmul(
      h,
      s.parameter((text("weight_hh") << suffix).view(), shape{gates * l.hidden_size, state_size(l, 0)},
                  initializer::kaiming_uniform(l.hidden_size)),
      {.transpose_b = true});
}
}  // namespace detail

/// Elman recurrent network over sequences.
/// Shapes:  input [T, N, input_size] (or [N, T, ..] with batch_first) -> output [T, N, directions hidden_size];
///          weight_ih_l0 [hidden_size, input_size], weight_hh_l0 [hidden_size, hidden_size], bias_ih_l0 and bias_hh_l0
///          [hidden_size]; the same with `_l1`, ... for further layers and `_reverse` for the second direction.
/// Source:  torch.nn.RNN.
export struct rnn {
  static constexpr bool has_forward_ports = true;
  std::int64_t input_size = 0, hidden_size = 0, num_layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;
  bool bidirectional = false, states = false, lengths = false;
  bool relu = false, reverse = false;

  static constexpr std::string_view kind() { return "rnn"; }
  constexpr view<const label> inputs() const {
    if (states)
      return lengths ? view<const label>(port_names<"input", "h0", "lengths">)
                     : view<const label>(port_names<"input", "h0">);
    return lengths ? view<const label>(port_names<"input", "lengths">) : view<const label>(port_names<"input">);
  }
  constexpr view<const label> outputs() const {
    return states ? view<const label>(port_names<"output", "hn">) : view<const label>(port_names<"output">);
  }
  constexpr void check(view<const tensor_type> x, text& why) const { detail::check_sequence(*this, "rnn", x, why); }
  template <class S, class V> constexpr void forward_ports(S& s, view<const V> in, view<V> out) const {
    detail::walk<1>(*this, s, in, out, 1, true,
                    [&](auto& inner, const V& x, view<const V> h, view<V> made, std::string_view suffix) {
                      V y = x + detail::with_state(*this, inner, h[0], 1, suffix);
                      made[0] = relu ? V(lamina::relu(y)) : V(lamina::tanh(y));
                    });
  }
};

/// Gated recurrent unit (GRU) over sequences; `form` selects one of the three common definitions.
/// Shapes:  input [T, N, input_size] (or [N, T, ..] with batch_first) -> output [T, N, directions hidden_size];
///          weight_ih_l0 [3 hidden_size, input_size], weight_hh_l0 [3 hidden_size, hidden_size], biases
///          [3 hidden_size], in the order r z n.
/// Source:  torch.nn.GRU.
export struct gru {
  static constexpr bool has_forward_ports = true;
  std::int64_t input_size = 0, hidden_size = 0, num_layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;
  bool bidirectional = false, states = false, lengths = false;
  gru_form form = gru_form::reset_after;
  bool reverse = false;

  static constexpr std::string_view kind() { return "gru"; }
  constexpr view<const label> inputs() const {
    if (states)
      return lengths ? view<const label>(port_names<"input", "h0", "lengths">)
                     : view<const label>(port_names<"input", "h0">);
    return lengths ? view<const label>(port_names<"input", "lengths">) : view<const label>(port_names<"input">);
  }
  constexpr view<const label> outputs() const {
    return states ? view<const label>(port_names<"output", "hn">) : view<const label>(port_names<"output">);
  }
  constexpr void check(view<const tensor_type> x, text& why) const { detail::check_sequence(*this, "gru", x, why); }
  template <class S, class V> constexpr void forward_ports(S& s, view<const V> in, view<V> out) const {
    detail::walk<1>(*this, s, in, out, 3, false,
                    [&](auto& inner, const V& x, view<const V> h, view<V> made, std::string_view suffix) {
                      const auto start = initializer::kaiming_uniform(hidden_size);
                      V u = inner.parameter((text("weight_hh") << suffix).view(), shape{3 * hidden_size, hidden_size},
                                            start);
                      if (!biased(*this, s))
                        made[0] = gru_cell::after_products<V>(x, h[0], u, nullptr, hidden_size, form);
                      else {
                        V b = inner.parameter((text("bias_hh") << suffix).view(), shape{3 * hidden_size}, start);
                        made[0] = gru_cell::after_products<V>(x, h[0], u, &b, hidden_size, form);
                      }
                    });
  }
};

/// Long short-term memory (LSTM) over sequences; with `peephole` the gates also depend on the cell state. With a
/// `proj_size` above 0, below `hidden_size`, outputs and initial states h0 have `proj_size` features: the cell's output
/// is projected by weight_hr_l0 [proj_size, hidden_size].
/// Shapes:  input [T, N, input_size] (or [N, T, ..] with batch_first) -> output [T, N, directions hidden_size];
///          weight_ih_l0 [4 hidden_size, input_size], weight_hh_l0 [4 hidden_size, hidden_size], biases
///          [4 hidden_size], in the order i f g o; weight_p_l0 [3 hidden_size] with peephole; with projections
///          the output has directions proj_size features and weight_hh_l0 is [4 hidden_size, proj_size].
/// Source:  torch.nn.LSTM; Sak, Senior, Beaufays, "Long short-term memory based recurrent neural network architectures" (2014),
///          arXiv:1402.1128, for projections.
export struct lstm {
  static constexpr bool has_forward_ports = true;
  std::int64_t input_size = 0, hidden_size = 0, num_layers = 1;
  bool bias = true, batch_first = false;
  double dropout = 0;
  bool bidirectional = false, states = false, lengths = false;
  bool peephole = false, reverse = false;
  std::int64_t proj_size = 0;

  static constexpr std::string_view kind() { return "lstm"; }
  constexpr view<const label> inputs() const {
    if (states)
      return lengths ? view<const label>(port_names<"input", "h0", "c0", "lengths">)
                     : view<const label>(port_names<"input", "h0", "c0">);
    return lengths ? view<const label>(port_names<"input", "lengths">) : view<const label>(port_names<"input">);
  }
  constexpr view<const label> outputs() const {
    return states ? view<const label>(port_names<"output", "hn", "cn">) : view<const label>(port_names<"output">);
  }
  constexpr void check(view<const tensor_type> x, text& why) const {
    if (proj_size < 0 || (proj_size > 0 && proj_size >= hidden_size))
      why << "lstm needs a `proj_size` from 0 to below `hidden_size`, " << hidden_size << ", but has " << proj_size;
    else detail::check_sequence(*this, "lstm", x, why);
  }
  template <class S, class V> constexpr void forward_ports(S& s, view<const V> in, view<V> out) const {
    detail::walk<2>(*this, s, in, out, 4, true,
                    [&](auto& inner, const V& x, view<const V> state, view<V> made, std::string_view suffix) {
                      V gates = x + detail::with_state(*this, inner, state[0], 4, suffix);
                      auto next = lstm_cell::after_products(inner, gates, state[1], hidden_size, peephole,
                                                            (text("weight_p") << suffix).view());
                      made[0] = proj_size == 0 ? V(next[0]) : projected(inner, V(next[0]), suffix);
                      made[1] = next[1];
                    });
  }

 private:
  template <class V> constexpr V projected(auto& s, const V& h, std::string_view suffix) const {
    return lamina::matmul(h,
                          s.parameter((text("weight_hr") << suffix).view(), shape{proj_size, hidden_size},
                                      initializer::kaiming_uniform(hidden_size)),
                          {.transpose_b = true});
  }
};

}  // namespace lamina::nn
