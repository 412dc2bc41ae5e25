// lamina source: recognizes scans as recurrent layers.
#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

import lamina;

#include "tool.h"
#include "topology_writer.h"

namespace tool {

using namespace lamina;
using namespace lamina::ir;

namespace {

// ---- iteration of each layer ----------------------------------------------------------------------------------------

// Operands of an iteration: states, input gates, and weights and bias of the state.
struct iteration {
  lamina::ir::program& p;
  std::vector<value> in;
  std::size_t states;
  const value& h() const { return in[0]; }
  const value& c() const { return in[1]; }
  const value& gates() const { return in[states]; }
  const value& weight() const { return in[states + 1]; }
  const value& bias() const { return in[states + 2]; }
  value product() const { return matmul(h(), weight(), {.transpose_b = true}); }
};

std::vector<value> step_of_lstm(const iteration& i) {
  const auto made = lstm_gates(i.gates() + i.product(), i.c());
  return {made[0], made[1]};
}
std::vector<value> step_of_gru(const iteration& i) { return {gru_gates(i.gates(), i.product(), i.h())}; }
std::vector<value> step_of_biased_gru(const iteration& i) {
  return {gru_gates(i.gates(), i.product() + i.bias(), i.h())};
}
// Block order of ONNX: update, reset, new.
std::vector<value> step_of_gru_reset_before(const iteration& i) {
  const std::int64_t n = i.h().shape().at(1);
  const auto part = [&](int k) { return slice(i.gates(), {.start = k * n, .stop = (k + 1) * n, .axis = 1}); };
  const auto of_state = [&](const value& h, int k) {
    return matmul(h, slice(i.weight(), {.start = k * n, .stop = (k + 1) * n, .axis = 0}), {.transpose_b = true});
  };
  const value update = sigmoid(part(0) + of_state(i.h(), 0)), reset = sigmoid(part(1) + of_state(i.h(), 1));
  const value made = tanh(part(2) + of_state(reset * i.h(), 2));
  return {made + update * (i.h() - made)};
}
std::vector<value> step_of_rnn(const iteration& i) { return {tanh(i.gates() + i.product())}; }
std::vector<value> step_of_relu_rnn(const iteration& i) { return {relu(i.gates() + i.product())}; }

struct known_layer {
  const char *kind, *form;
  std::int64_t gates;
  std::size_t states, invariants;
  std::vector<value> (*step)(const iteration&);
  std::vector<int> blocks;  // order of the weight row blocks in the layer; empty: unchanged
};
const std::vector<known_layer>& known_layers() {
  static const std::vector<known_layer> all{
      {"lstm", "", 4, 2, 1, step_of_lstm, {}},
      {"gru", "", 3, 1, 1, step_of_gru, {}},
      {"gru", "", 3, 1, 2, step_of_biased_gru, {}},
      {"gru", ".form = lamina::nn::gru_form::reset_before", 3, 1, 1, step_of_gru_reset_before, {1, 0, 2}},
      {"rnn", "", 1, 1, 1, step_of_rnn, {}},
      {"rnn", ".relu = true", 1, 1, 1, step_of_relu_rnn, {}}};
  return all;
}

// ---- comparing programs ---------------------------------------------------------------------------------------------

// Whether values of two programs are computed in the same way from inputs at the same positions.
class comparison {
 public:
  comparison(const lamina::ir::program& a, const lamina::ir::program& b) : a_(a), b_(b) {}
  bool operator()(value_id x, value_id y) {
    if (x.result != y.result) return false;
    if (const auto known = same_.find(x.node); known != same_.end()) return known->second == y.node;
    const node &m = a_.at(x.node), &n = b_.at(y.node);
    if (m.kind != n.kind) return false;
    if (m.kind == node_kind::input) return position(a_, x.node) == position(b_, y.node);
    const bool alike = m.kind == node_kind::operation && m.op == n.op && m.inputs.size() == n.inputs.size() &&
                       m.subprograms.empty() && n.subprograms.empty() &&
                       m.op->equal(m.attributes.get(), n.attributes.get());
    if (!alike) return false;
    for (std::size_t i = 0; i < m.inputs.size(); ++i)
      if (!(*this)(m.inputs[i], n.inputs[i])) return false;
    same_[x.node] = y.node;
    return true;
  }

 private:
  static std::ptrdiff_t position(const lamina::ir::program& p, std::int32_t input) {
    return std::find(p.inputs().begin(), p.inputs().end(), input) - p.inputs().begin();
  }
  const lamina::ir::program &a_, &b_;
  std::map<std::int32_t, std::int32_t> same_;
};

// Whether a program is an iteration of this layer: outputs are the next states, then the value for each position, which
// is the first state.
bool is_step(const lamina::ir::program& body, const known_layer& l) {
  if (body.inputs().size() != l.states + 1 + l.invariants || body.outputs().size() != l.states + 1) return false;
  lamina::ir::program expected;
  iteration i{expected, {}, l.states};
  for (auto at : body.inputs()) i.in.push_back(expected.input(body.at(at).name, body.at(at).results[0]));
  const shape &h = i.h().shape(), &gates = i.gates().shape(), &weight = i.weight().shape();
  const bool fits = h.rank == 2 && h[1].is_number() && gates.rank == 2 && gates[1] == dim(l.gates * h.at(1)) &&
                    weight == shape{l.gates * h.at(1), h.at(1)};
  if (!fits) return false;
  std::vector<value> made = l.step(i);
  made.push_back(made[0]);
  comparison same(body, expected);
  for (std::size_t k = 0; k < made.size(); ++k)
    if (!same(body.outputs()[k].value, made[k].id())) return false;
  return true;
}

// Reorders blocks of rows.
any_tensor reordered(const any_tensor& x, const std::vector<int>& blocks) {
  if (blocks.empty()) return x;
  any_tensor made(x.type());
  const std::size_t bytes = x.bytes() / blocks.size();
  for (std::size_t i = 0; i < blocks.size(); ++i)
    std::memcpy(static_cast<std::byte*>(made.mutable_data()) + i * bytes,
                static_cast<const std::byte*>(x.data()) + static_cast<std::size_t>(blocks[i]) * bytes, bytes);
  return made;
}
any_tensor zeros(std::int64_t n) {
  any_tensor made({dtype::float32, shape{n}});
  std::memset(made.mutable_data(), 0, made.bytes());
  return made;
}

}  // namespace

std::optional<recurrent_scan> topology_writer::match_scan(std::int32_t at) const {
  const node& n = p_.at(at);
  if (n.kind != node_kind::operation || !n.op->library || n.op->name != "scan" || n.subprograms.size() != 1) return {};
  const auto states = static_cast<std::size_t>(attribute(n, "carries").integer);
  if (attribute(n, "sequences").integer != 1 || n.inputs.size() < states + 2) return {};
  const auto& all = known_layers();
  const auto l = std::find_if(all.begin(), all.end(), [&](const known_layer& k) {
    return k.states == states && is_step(*n.subprograms[0], k);
  });
  if (l == all.end()) return {};

  // Gates of all positions: a product of the sequence with parameters, plus a parameter sum.
  value_id product = n.inputs[states];
  any_tensor bias;
  if (const node& sum = p_.at(product.node); sum.kind == node_kind::operation && sum.op->adds) {
    bias = of_channels(sum.inputs[1], p_.type(product).dims.back().code, 1);
    if (!bias) return {};
    product = sum.inputs[0];
  }
  const node& m = p_.at(product.node);
  const bool fits = m.kind == node_kind::operation && m.op->library && m.op->name == "matmul" &&
                    !attribute(m, "transpose_a").integer && is_parameter(m.inputs[1]) &&
                    p_.type(m.inputs[1]).dims.rank == 2 && p_.type(m.inputs[0]).dims.rank == 3 &&
                    p_.type(product).element == dtype::float32;
  for (std::size_t i = states + 1; i < n.inputs.size(); ++i)
    if (!is_parameter(n.inputs[i])) return {};
  if (!fits) return {};
  any_tensor w = elements_of(m.inputs[1]);
  if (!attribute(m, "transpose_b").integer) w = transposed(w);

  recurrent_scan made{.kind = l->kind, .form = l->form, .sequence = m.inputs[0], .weights = {}, .first = {}};
  made.input_size = w.shape().at(1), made.hidden_size = w.shape().at(0) / l->gates;
  made.reverse = attribute(n, "reverse").integer != 0;
  const any_tensor of_state = l->invariants == 2 ? of_channels(n.inputs[states + 2], w.shape().at(0), 1) : any_tensor();
  if (l->invariants == 2 && !of_state) return {};
  made.bias = bias || of_state;
  made.weights = {{"weight_ih_l0", reordered(w, l->blocks)},
                  {"weight_hh_l0", reordered(elements_of(n.inputs[states + 1]), l->blocks)}};
  if (made.bias) {
    made.weights.push_back({"bias_ih_l0", bias ? reordered(bias, l->blocks) : zeros(w.shape().at(0))});
    made.weights.push_back({"bias_hh_l0", of_state ? of_state : zeros(w.shape().at(0))});
  }
  bool all_zero = true;
  for (std::size_t i = 0; i < states; ++i) all_zero = all_zero && is_zero(n.inputs[i]);
  if (!all_zero || (states == 2 && is_read(at, 1)))
    made.first.assign(n.inputs.begin(), n.inputs.begin() + static_cast<std::ptrdiff_t>(states));
  return made;
}

void topology_writer::scan(std::int32_t at) {
  const auto found = scans_.find(at);
  if (found == scans_.end())
    throw source_error{": it is not an LSTM, GRU or RNN whose gates are a product with parameters"};
  const recurrent_scan& s = found->second;
  std::vector<std::string> first;
  const std::string from = port_of(s.sequence);
  for (auto v : s.first) first.push_back(append(port_of(v), "unsqueeze", "nn::unsqueeze{.axes = lamina::axes(0)}"));
  const std::string name = unique(s.kind);
  layer(name, "nn::" + s.kind + "{.input_size = " + std::to_string(s.input_size) +
                  ", .hidden_size = " + std::to_string(s.hidden_size) + (s.bias ? "" : ", .bias = false") +
                  (first.empty() ? "" : ", .states = true") + (s.form.empty() ? "" : ", " + s.form) +
                  (s.reverse ? ", .reverse = true" : "") + "}");
  connect(from, name + ".input");
  for (std::size_t i = 0; i < first.size(); ++i) connect(first[i], name + (i ? ".c0" : ".h0"));
  for (const auto& w : s.weights) weights_.push_back({name + "." + w.name, w.value});
  const auto states = static_cast<std::int32_t>(attribute(p_.at(at), "carries").integer);
  result(at, name + ".output", states);
  // Without state ports, the final state is the output at the last position.
  for (std::int32_t i = 0; i < states; ++i) {
    if (!is_read(at, i)) continue;
    if (first.empty())
      result(
          at,
          append(name + ".output", "last", std::string("nn::select{.axis = 0, .index = ") + (s.reverse ? "0}" : "-1}")),
          i);
    else result(at, append(name + (i ? ".cn" : ".hn"), "last", "nn::squeeze{.axes = lamina::axes(0)}"), i);
  }
}

}  // namespace tool
