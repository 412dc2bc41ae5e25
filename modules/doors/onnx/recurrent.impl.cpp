// Single-layer recurrent operators, and Scan; all map to lamina's `scan`.
module lamina.onnx:recurrent.impl;
import :convert;
import :message;
import :quantized;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// ---- activations ----------------------------------------------------------------------------------------------------

struct activation {
  std::string name;
  double alpha = 0, beta = 0;
  value operator()(const value& x) const;
};
struct activation_kind {
  std::string_view name;
  bool has_alpha, has_beta;
  double alpha, beta;
};
constexpr activation_kind activation_kinds[] = {
    {"affine", true, true, 1, 0},           {"elu", true, false, 1, 0},
    {"hardsigmoid", true, true, 0.2, 0.5},  {"leakyrelu", true, false, 0.01, 0},
    {"relu", false, false, 0, 0},           {"scaledtanh", true, true, 1, 1},
    {"sigmoid", false, false, 0, 0},        {"softplus", false, false, 0, 0},
    {"softsign", false, false, 0, 0},       {"tanh", false, false, 0, 0},
    {"thresholdedrelu", true, false, 1, 0},
};
value activation::operator()(const value& x) const {
  if (name == "sigmoid") return lamina::sigmoid(x);
  if (name == "tanh") return lamina::tanh(x);
  if (name == "relu") return lamina::relu(x);
  if (name == "affine") return x * alpha + beta;
  if (name == "elu") return lamina::elu(x, {alpha});
  if (name == "hardsigmoid") return lamina::clamp(x * alpha + beta, 0, 1);
  if (name == "leakyrelu") return lamina::leaky_relu(x, {alpha});
  if (name == "scaledtanh") return lamina::tanh(x * beta) * alpha;
  if (name == "softplus") return lamina::softplus(x);
  if (name == "softsign") return lamina::softsign(x);
  return lamina::where(x >= alpha, x, 0);
}

// Activations of all directions. Each consumes the next alpha and beta if it has them.
std::vector<activation> activations_of(node_call& c, std::vector<std::string> defaults, std::size_t directions) {
  const std::size_t each = defaults.size();
  std::vector<std::string> names = c.strings("activations");
  if (names.empty() || (names.size() == 2 && each == 1 && directions == 1)) {
    // RNN declares two defaults, for any direction.
    if (!names.empty()) names.pop_back();
    while (names.size() < each * directions) names.push_back(defaults[names.size() % each]);
  }
  if (names.size() != each * directions)
    c.fail("`activations` has ", names.size(), " names; expected ", each * directions);
  const auto alphas = c.reals("activation_alpha"), betas = c.reals("activation_beta");
  std::size_t alpha = 0, beta = 0;
  std::vector<activation> made;
  for (const auto& name : names) {
    activation a;
    for (char l : name) a.name.push_back(l >= 'A' && l <= 'Z' ? static_cast<char>(l - 'A' + 'a') : l);
    const auto kind = std::find_if(std::begin(activation_kinds), std::end(activation_kinds),
                                   [&](const auto& k) { return k.name == a.name; });
    if (kind == std::end(activation_kinds)) c.fail("unknown activation `", printable(name), "`");
    a.alpha = kind->has_alpha && alpha < alphas.size() ? alphas[alpha++] : kind->alpha;
    a.beta = kind->has_beta && beta < betas.size() ? betas[beta++] : kind->beta;
    made.push_back(std::move(a));
  }
  return made;
}

// ---- shared by RNN, GRU and LSTM ------------------------------------------------------------------------------------

// int8 weights [in, out], with zero points and scales, [] or [out]; an empty zero point means 0.
struct int8_weights {
  value q{}, zero_point{}, scale{};
};
// One direction of a node.
struct direction {
  value x{};                              // [T, N, I]
  value w{}, r{}, biases{}, peepholes{};  // [G H, I], [G H, H], [2 G H], [3 H]; the last two may be empty
  value h{}, cell{};                      // [N, H]; or empty
  value active{};                         // bool [T, N, 1]; or empty
  int8_weights w8{}, r8{};                // instead of w and r
  bool reverse = false;
  std::vector<activation> act{};
  std::int64_t size = 0;  // H
  double clip = 0;
};
struct direction_result {
  value y, h, cell;
};

value rows(const value& x, std::int64_t at, std::int64_t size) {
  return lamina::slice(x, {.start = at * size, .stop = (at + 1) * size, .axis = 0});
}
value columns(const value& x, std::int64_t at, std::int64_t size) {
  return lamina::slice(x, {.start = at * size, .stop = (at + 1) * size, .axis = 1});
}
// Reorders blocks of rows.
value ordered(const value& x, std::initializer_list<int> order, std::int64_t size) {
  std::vector<value> blocks;
  for (int i : order) blocks.push_back(rows(x, i, size));
  return lamina::concat(view<const value>(blocks), 0);
}
// Half of the biases: the first belongs to x, the second to the state.
value bias_half(const value& biases, int which) {
  const std::int64_t n = biases.shape().at(0) / 2;
  return lamina::slice(biases, {.start = which * n, .stop = (which + 1) * n});
}
value zeros(node_call& c, const direction& d) {
  const dtype e = d.x.type().element;
  if (d.x.shape()[1].is_number()) return c.zeros({e, {d.x.shape()[1], d.size}});
  const value row = c.zeros({e, {1, d.size}});
  const value first = lamina::slice(lamina::select(d.x, 0, 0), {.start = 0, .stop = 1, .axis = 1});
  return row + first * 0;
}

// Step program. Inputs: carries, then slices, then invariants.
class step_program {
 public:
  value carry(std::string_view name, const value& first) {
    firsts_.push_back(first);
    return p_->input(name, first.type());
  }
  value slice(std::string_view name, const value& whole) {
    sequences_.push_back(whole);
    shape s;
    for (int i = 1; i < whole.shape().rank; ++i) s.push_back(whole.shape()[i]);
    return p_->input(name, {whole.type().element, s});
  }
  value same(std::string_view name, const value& v) {
    invariants_.push_back(v);
    return p_->input(name, v.type());
  }
  void output(std::string_view name, const value& v) { p_->output(name, v); }
  std::vector<value> run(bool reverse) const {
    return lamina::scan(p_, view<const value>(firsts_), view<const value>(sequences_), view<const value>(invariants_),
                        reverse);
  }

 private:
  std::shared_ptr<ir::program> p_ = std::make_shared<ir::program>();
  std::vector<value> firsts_, sequences_, invariants_;
};
value clipped(const value& x, double max) { return max > 0 ? value(lamina::clamp(x, -max, max)) : x; }
value product(const value& x, const value& w) { return lamina::matmul(x, w, {.transpose_b = true}); }
// The same with int8 weights: x is dynamically quantized to int8.
value product(const value& x, const int8_weights& w) {
  const auto d = dynamically_quantized(x);
  const value sums = lamina::integer_linear(d.q, d.as.zero_point, w.q, w.zero_point, true);
  return node_call::cast_to(sums, dtype::float32) * (d.as.scale * w.scale);
}

// Positions after the end of a sequence keep the state and give 0.
struct kept {
  value active;  // or empty
  value state(const value& next, const value& before) const {
    return active.empty() ? next : value(lamina::where(active, next, before));
  }
  value result(const value& y) const { return active.empty() ? y : value(lamina::where(active, y, 0)); }
};

direction_result rnn_direction(node_call&, const direction& d) {
  value gates = product(d.x, d.w);
  if (!d.biases.empty()) gates = gates + (bias_half(d.biases, 0) + bias_half(d.biases, 1));
  step_program s;
  const value h = s.carry("h", d.h), x = s.slice("x", gates);
  const kept k{d.active.empty() ? value() : s.slice("active", d.active)};
  const value r = s.same("r", d.r);
  const value next = d.act[0](clipped(x + product(h, r), d.clip));
  s.output("h", k.state(next, h));
  s.output("y", k.result(next));
  const auto made = s.run(d.reverse);
  return {made[1], made[0], {}};
}

direction_result gru_direction(node_call& c, const direction& d) {
  const bool before = c.flag("linear_before_reset");
  const bool fast = before && d.clip <= 0 && d.act[0].name == "sigmoid" && d.act[1].name == "tanh";
  const std::int64_t n = d.size;
  // Gate order: z, r, h in the file; r, z, h in the operation.
  const auto placed = [&](const value& v) { return fast ? ordered(v, {1, 0, 2}, n) : v; };
  value gates = product(d.x, placed(d.w)), state_bias;
  if (!d.biases.empty()) {
    const value of_x = placed(bias_half(d.biases, 0)), of_h = placed(bias_half(d.biases, 1));
    gates = gates + (before ? of_x : value(of_x + of_h));
    if (before) state_bias = of_h;
  }
  step_program s;
  const value h = s.carry("h", d.h), x = s.slice("x", gates);
  const kept k{d.active.empty() ? value() : s.slice("active", d.active)};
  const value r = s.same("r", placed(d.r));
  const auto with_bias = [&](const value& v) { return state_bias.empty() ? v : value(v + s.same("b", state_bias)); };
  value next;
  if (fast) next = lamina::gru_gates(x, with_bias(product(h, r)), h);
  else {
    const auto gate = [&](int i, const value& of_state, const activation& f) {
      return f(clipped(columns(x, i, n) + of_state, d.clip));
    };
    value z, hidden;
    if (before) {
      const value all = with_bias(product(h, r));
      z = gate(0, columns(all, 0, n), d.act[0]);
      hidden = gate(2, gate(1, columns(all, 1, n), d.act[0]) * columns(all, 2, n), d.act[1]);
    } else {
      z = gate(0, product(h, rows(r, 0, n)), d.act[0]);
      const value reset = gate(1, product(h, rows(r, 1, n)), d.act[0]);
      hidden = gate(2, product(reset * h, rows(r, 2, n)), d.act[1]);
    }
    next = hidden + z * (h - hidden);
  }
  s.output("h", k.state(next, h));
  s.output("y", k.result(next));
  const auto made = s.run(d.reverse);
  return {made[1], made[0], {}};
}

direction_result lstm_direction(node_call& c, const direction& d) {
  const bool coupled = c.flag("input_forget");
  const bool fast = !coupled && d.clip <= 0 && d.peepholes.empty() && d.act[0].name == "sigmoid" &&
                    d.act[1].name == "tanh" && d.act[2].name == "tanh";
  const std::int64_t n = d.size;
  // Gate order: i, o, f, c in the file; i, f, c, o in the operation.
  const auto placed = [&](const value& v) { return ordered(v, {0, 2, 3, 1}, n); };
  const bool in_int8 = !d.w8.q.empty();
  const auto placed_columns = [&](const value& v) {
    const int last = v.shape().rank - 1;
    std::vector<value> blocks;
    for (int i : {0, 2, 3, 1}) blocks.push_back(lamina::slice(v, {.start = i * n, .stop = (i + 1) * n, .axis = last}));
    return value(lamina::concat(view<const value>(blocks), last));
  };
  value gates = in_int8 ? placed_columns(product(d.x, d.w8)) : product(d.x, placed(d.w));
  if (!d.biases.empty()) gates = gates + placed(bias_half(d.biases, 0) + bias_half(d.biases, 1));
  step_program s;
  const value h = s.carry("h", d.h), cell = s.carry("c", d.cell), x = s.slice("x", gates);
  const kept k{d.active.empty() ? value() : s.slice("active", d.active)};
  const auto within = [&](const int8_weights& w) {
    return int8_weights{s.same("r", w.q), w.zero_point.empty() ? value() : s.same("r_zero_point", w.zero_point),
                        s.same("r_scale", w.scale)};
  };
  const value all = x + (in_int8 ? placed_columns(product(h, within(d.r8))) : product(h, s.same("r", placed(d.r))));
  value y, next;
  if (fast) {
    const auto made = lamina::lstm_gates(all, cell);
    y = made[0], next = made[1];
  } else {
    const value p = d.peepholes.empty() ? value() : s.same("p", d.peepholes);
    const auto gate = [&](int i, int peephole, const value& seen, const activation& f) {
      value a = columns(all, i, n);
      if (!p.empty() && peephole >= 0) a = a + rows(p, peephole, n) * seen;
      return f(clipped(a, d.clip));
    };
    const value i = gate(0, 0, cell, d.act[0]);
    const value f = coupled ? value(1 - i) : gate(1, 2, cell, d.act[0]);
    next = f * cell + i * gate(2, -1, {}, d.act[1]);
    // Like ONNX Runtime, does not clip the input of h.
    y = gate(3, 1, next, d.act[0]) * d.act[2](next);
  }
  s.output("h", k.state(y, h));
  s.output("c", k.state(next, cell));
  s.output("y", k.result(y));
  const auto made = s.run(d.reverse);
  return {made[2], made[0], made[1]};
}

using direction_function = direction_result (*)(node_call&, const direction&);

value as_layout(const value& x, bool batch_first) {  // swaps the first two axes
  if (!batch_first) return x;
  axes order(1, 0);
  for (int i = 2; i < x.shape().rank; ++i) order.values[order.count++] = i;
  return lamina::permute(x, order);
}

// Number of state features. Errors: weights whose shape does not match the blocks of rows and directions.
std::int64_t state_size(node_call& c, const value& x, std::int64_t gates, std::size_t directions, bool in_int8) {
  shape w = c.dims(1), r = c.dims(2);
  if (in_int8 && w.rank == 3 && r.rank == 3) std::swap(w[1], w[2]), std::swap(r[1], r[2]);
  if (x.shape().rank != 3 || w.rank != 3 || r.rank != 3)
    c.fail("expected sequences and weights of rank 3; got ", x.shape(), ", ", w, " and ", r);
  if (!r[2].is_number() || !r[1].is_number()) c.unsupported("the extents of its weights, ", r, ", are not known");
  const std::int64_t size = r.at(2);
  if (r.at(1) != gates * size || r[0] != dim(static_cast<std::int64_t>(directions)))
    c.fail("its weights ", r, " do not fit ", directions, " directions and ", size, " features");
  if (const std::int64_t declared_size = c.integer("hidden_size", size); declared_size != size)
    c.fail("`hidden_size` is ", declared_size, ", but its weights ", r, " have ", size, " features");
  return size;
}

// Weights of a direction, with scales and zero points from operand `scale` on.
int8_weights int8_weights_of(node_call& c, std::size_t i, std::size_t scale, std::int64_t d) {
  const dtype e = c.type(i).element;
  if (!of_bytes(e)) c.fail("its weights are ", c.type(i), "; expected int8 or uint8");
  const std::int64_t columns = c.dims(i).at(2);
  const auto part = [&](const value& v) {
    value one = lamina::select(v, 0, static_cast<int>(d));
    if (one.shape() == shape{1}) one = lamina::reshape(one, shape{});
    if (one.shape().rank > 1 || (one.shape().rank == 1 && one.shape() != shape{columns}))
      c.fail("scales ", c.dims(scale), " do not match weights ", c.dims(i));
    return one;
  };
  int8_weights w{int8_part(c, i, d), {}, part(c.number(scale))};
  const std::int64_t middle = e == dtype::uint8 ? 128 : 0;
  const auto known = c.has(scale + 1) ? c.known_integers(scale + 1) : std::vector<std::int64_t>{0};
  if (!known || std::any_of(known->begin(), known->end(), [&](std::int64_t n) { return n != middle; }))
    w.zero_point = c.has(scale + 1) ? part(int8_operand(c, scale + 1)) : c.constant(-128.0, dtype::int8);
  return w;
}

// `gates`: number of row blocks in the weights. `defaults`: default activations of a direction. `in_int8`: weights are
// bytes [directions, in, out], with scales and zero points after the peepholes.
void recurrent(node_call& c, std::int64_t gates, const std::vector<std::string>& defaults, direction_function run,
               bool in_int8 = false) {
  const std::string way = c.string("direction", "forward");
  const bool both = way == "bidirectional";
  if (!both && way != "forward" && way != "reverse") c.fail("unknown direction `", printable(way), "`");
  const std::size_t count = both ? 2 : 1;
  const bool batch_first = c.flag("layout");
  const value x = as_layout(c.number(0), batch_first);
  const dtype e = x.type().element;
  const std::int64_t size = state_size(c, x, gates, count, in_int8);
  const auto act = activations_of(c, defaults, count);
  const auto of = [&](std::size_t i, int d) {
    return c.has(i) ? value(lamina::select(c.cast_to(c.number(i), e), 0, d)) : value();
  };
  const auto state = [&](std::size_t i, int d) {
    return c.has(i) ? value(lamina::select(as_layout(c.cast_to(c.number(i), e), batch_first), 0, d)) : value();
  };
  value active;
  if (c.has(4)) {
    const value steps = lamina::unsqueeze(lamina::positions(x, 0), axes(1));
    active = lamina::unsqueeze(steps < c.cast_to(c[4], dtype::int64), axes(2));
  }
  std::vector<value> y, h, cell;
  for (std::size_t i = 0; i < count; ++i) {
    const int at = static_cast<int>(i);
    direction d{.x = x, .biases = of(3, at), .h = state(5, at), .active = active};
    if (in_int8) d.w8 = int8_weights_of(c, 1, 8, at), d.r8 = int8_weights_of(c, 2, 10, at);
    else d.w = of(1, at), d.r = of(2, at);
    if (gates == 4) d.cell = state(6, at), d.peepholes = of(7, at);
    if (!d.biases.empty() && d.biases.shape() != shape{2 * gates * size}) c.fail("unexpected bias shape ", c.dims(3));
    d.reverse = way == "reverse" || i == 1;
    d.act.assign(act.begin() + static_cast<std::ptrdiff_t>(i * defaults.size()),
                 act.begin() + static_cast<std::ptrdiff_t>((i + 1) * defaults.size()));
    d.size = size;
    d.clip = c.real("clip", 0);
    if (d.h.empty()) d.h = zeros(c, d);
    if (gates == 4 && d.cell.empty()) d.cell = zeros(c, d);
    const auto made = run(c, d);
    y.push_back(made.y), h.push_back(made.h), cell.push_back(made.cell);
  }
  const value all = lamina::stack(view<const value>(y), 1);  // [T, directions, N, H]
  c.give_like(0, batch_first ? value(lamina::permute(all, axes(2, 0, 1, 3))) : all);
  if (c.has_output(1)) c.give_like(1, as_layout(lamina::stack(view<const value>(h), 0), batch_first));
  if (gates == 4 && c.has_output(2)) c.give_like(2, as_layout(lamina::stack(view<const value>(cell), 0), batch_first));
}
void rnn(node_call& c) { recurrent(c, 1, {"Tanh"}, rnn_direction); }
void gru(node_call& c) { recurrent(c, 3, {"Sigmoid", "Tanh"}, gru_direction); }
void lstm(node_call& c) { recurrent(c, 4, {"Sigmoid", "Tanh", "Tanh"}, lstm_direction); }
void dynamic_quantize_lstm(node_call& c) { recurrent(c, 4, {"Sigmoid", "Tanh", "Tanh"}, lstm_direction, true); }

// ---- Scan -----------------------------------------------------------------------------------------------------------

value flipped(ir::program& p, const value& x) {
  const auto one = [&](std::int64_t n) {
    any_tensor t({dtype::int64, {1}});
    std::memcpy(t.mutable_data(), &n, sizeof n);
    return p.constant(std::move(t));
  };
  return lamina::slice_at(x, one(-1), one(std::numeric_limits<std::int64_t>::min()), axes(0), one(-1));
}
// Moves axis `from` to `to`; the others keep their order.
value moved(const value& x, int from, int to) {
  if (from == to) return x;
  std::vector<int> rest;
  for (int i = 0; i < x.shape().rank; ++i)
    if (i != from) rest.push_back(i);
  rest.insert(rest.begin() + to, from);
  axes order;
  for (auto i : rest) order.values[order.count++] = i;
  return lamina::permute(x, order);
}
tensor_type one_of(node_call& c, const value& x) {
  if (x.shape().rank < 1) c.fail("expected rank 1 or more; got a scalar");
  shape s;
  for (int i = 1; i < x.shape().rank; ++i) s.push_back(x.shape()[i]);
  return {x.type().element, s};
}
std::int64_t element(const std::vector<std::int64_t>& list, std::size_t i) { return i < list.size() ? list[i] : 0; }

struct scan_operands {
  std::vector<value> states, sequences;
  std::size_t first = 0;  // operand
};
scan_operands operands_of_scan(node_call& c, std::size_t first) {
  const std::int64_t sequences = c.integer("num_scan_inputs");
  const auto all = static_cast<std::int64_t>(c.size() - std::min(c.size(), first));
  if (sequences < 1 || sequences > all) c.fail("`num_scan_inputs` is ", sequences, ", but it has ", all, " operands");
  scan_operands o;
  for (std::size_t i = first; i < c.size(); ++i)
    (static_cast<std::int64_t>(i - first) < all - sequences ? o.states : o.sequences).push_back(c[i]);
  return o;
}

void scan(node_call& c) {
  scan_operands o = operands_of_scan(c, 0);
  const auto in_axes = c.node_call::integers("scan_input_axes"),
             in_ways = c.node_call::integers("scan_input_directions"),
             out_axes = c.node_call::integers("scan_output_axes"),
             out_ways = c.node_call::integers("scan_output_directions");
  const std::size_t results = c.output_count() - std::min(c.output_count(), o.states.size());
  bool reverse = true;  // all sequences reversed: the scan itself runs in reverse
  for (std::size_t i = 0; i < o.sequences.size(); ++i) reverse = reverse && element(in_ways, i) != 0;
  for (std::size_t i = 0; i < results; ++i) reverse = reverse && element(out_ways, i) != 0;
  std::vector<tensor_type> types;
  for (const auto& s : o.states) types.push_back(s.type());
  for (std::size_t i = 0; i < o.sequences.size(); ++i) {
    value& s = o.sequences[i];
    s = moved(s, c.axis(element(in_axes, i), s.shape().rank), 0);
    types.push_back(one_of(c, s));
    if (!reverse && element(in_ways, i) != 0) s = flipped(c.p, s);
  }
  const auto body = c.subgraphs({&c.graph("body")}, types);
  auto made = lamina::scan(body[0].body, view<const value>(o.states), view<const value>(o.sequences),
                           view<const value>(body[0].captured), reverse);
  for (std::size_t i = 0; i < made.size(); ++i) {
    value v = made[i];
    if (i >= o.states.size()) {
      const std::size_t k = i - o.states.size();
      if (!reverse && element(out_ways, k) != 0) v = flipped(c.p, v);
      v = moved(v, 0, c.axis(element(out_axes, k), v.shape().rank));
    }
    c.give(i, v);
  }
}

// Before opset 9, operands have samples on axis 0 and positions on axis 1: a scan over samples of inner scans.
void scan_of_samples(node_call& c) {
  if (c.has(0)) c.unsupported("sequences of different lengths are not supported");
  scan_operands o = operands_of_scan(c, 1);
  const auto ways = c.node_call::integers("directions");
  std::vector<tensor_type> types;
  for (const auto& s : o.states) types.push_back(one_of(c, s));
  bool reverse = element(ways, 0) != 0;
  for (std::size_t i = 0; i < o.sequences.size(); ++i) {
    if ((element(ways, i) != 0) != reverse) c.unsupported("sequences in different directions need opset 9");
    const tensor_type whole = one_of(c, o.sequences[i]);
    shape s;
    for (int k = 1; k < whole.dims.rank; ++k) s.push_back(whole.dims[k]);
    types.push_back({whole.element, s});
  }
  const auto inner = c.subgraphs({&c.graph("body")}, types);
  auto body = std::make_shared<ir::program>();
  std::vector<value> states, sequences, captured, whole = o.states;
  for (const auto& s : o.states) states.push_back(body->input("state", one_of(c, s)));
  for (const auto& s : o.sequences) sequences.push_back(body->input("sequence", one_of(c, s)));
  for (const auto& v : inner[0].captured) captured.push_back(body->input("same", v.type()));
  whole.insert(whole.end(), o.sequences.begin(), o.sequences.end());
  auto of_sample = lamina::scan(inner[0].body, view<const value>(states), view<const value>(sequences),
                                view<const value>(captured), reverse);
  for (std::size_t i = 0; i < of_sample.size(); ++i) {
    // A reverse scan stores results at their positions; the operator appends them in order of computation.
    body->output("result", reverse && i >= states.size() ? flipped(*body, of_sample[i]) : of_sample[i]);
  }
  const auto made =
      lamina::scan(body, view<const value>(), view<const value>(whole), view<const value>(inner[0].captured));
  for (std::size_t i = 0; i < made.size(); ++i) c.give(i, made[i]);
}

constexpr converter_entry entries[] = {
    {"GRU", 7, gru}, {"LSTM", 7, lstm}, {"RNN", 7, rnn}, {"Scan", 8, scan_of_samples, false}, {"Scan", 9, scan, false},
};

constexpr converter_entry microsoft_entries[] = {
    {"DynamicQuantizeLSTM", 1, dynamic_quantize_lstm},
};

}  // namespace

converter_list recurrent_converters() { return entries; }
converter_list microsoft_recurrent_converters() { return microsoft_entries; }

}  // namespace lamina::onnx
