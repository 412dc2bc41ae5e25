// What runs how: layouts, epilogues, and which elementwise operations share a pass.
module;
#include "../kernels/table.h"
module lamina:plan.choose.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.control;
import :op.elementwise;
import :op.nn;
import :op.shape;
import :optimize;
import :plan;
import :planner;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

void planner::look() {
  needed_ = p_.reachable();
  auto count = p_.nodes().size();
  for (std::size_t i = 0; i < count; ++i) {
    if (!needed_[i]) continue;
    const node& n = p_.nodes()[i];
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (!shape_only(n, k)) uses_[n.inputs[k]].nodes.push_back(static_cast<std::int32_t>(i));
    training_ = training_ || n.is("conv2d_weight_grad") || n.is("conv2d_input_grad");
  }
  training_ = training_ || (!first_invariant_ && !p_.assignments().empty());
  for (const auto& o : p_.outputs()) uses_[o.value].root = true;
  for (const auto& a : p_.assignments()) uses_[a.value].root = true;
  for (auto i : p_.inputs()) plan_.input_types_.push_back(p_.at(i).results[0]);
  for (auto s : p_.states()) {
    plan_.state_names_.push_back(p_.at(s).name);
    plan_.state_types_.push_back(p_.at(s).results[0]);
  }
  for (const auto& o : p_.outputs()) {
    plan_.output_names_.push_back(o.name);
    plan_.output_types_.push_back(p_.type(o.value));
  }
  item_of_.assign(count, nobody);
}

std::int32_t planner::state_index(std::int32_t node) const {
  const auto& all = p_.states();
  return static_cast<std::int32_t>(std::find(all.begin(), all.end(), node) - all.begin());
}

bool planner::elementwise(std::int32_t i) const {
  const node& n = p_.at(i);
  return n.kind == node_kind::operation && n.op->map != nullptr && !n.is("stop_gradient");
}

layout planner::form(value_id v) const {
  if (p_.at(v).uniform) return layout::uniform;
  auto f = form_.find(v);
  return f == form_.end() ? layout::plain : f->second;
}

std::size_t planner::bytes_of(value_id v, layout f) const {
  const tensor_type& t = p_.type(v);
  if (f != layout::blocked) return f == layout::uniform ? size_of(t.element) : t.bytes();
  shape s = t.dims;
  s[1] = dim((s.at(1) + lanes() - 1) / lanes() * lanes());
  return tensor_type{t.element, s}.bytes();
}

bool planner::keeps_zero(const node& n) const {
  for (std::string_view name : {"multiply", "relu", "tanh", "negate", "abs", "sign", "square", "sqrt", "asinh", "erf", "gelu", "expm1", "log1p", "sinh", "atanh"})
    if (n.is(name)) return true;
  for (std::string_view name : {"add", "subtract", "minimum", "maximum"})      // of two zeros, not of a zero and a number
    if (n.is(name)) return !mixes_number(n);
  return false;
}

void planner::choose_layouts() {
  if (!options_.blocked_layout || training_) return;
  const auto& blocked = table_.conv->blocked;
  for (std::size_t i = 0; i < p_.nodes().size(); ++i) {
    if (!needed_[i]) continue;
    const node& n = p_.nodes()[i];
    value_id v{static_cast<std::int32_t>(i), 0};
    if (n.kind != node_kind::operation || n.results[0].element != dtype::float32 || n.results[0].dims.rank != 4 || n.results[0].dims.size() == 0) continue;
    if (n.is("conv2d")) {
      const auto& a = *static_cast<const conv2d_attributes*>(n.attributes.get());
      const shape &x = p_.type(n.inputs[0]).dims, &w = p_.type(n.inputs[1]).dims, &y = n.results[0].dims;
      kernels::window k{x.at(1), x.at(2), x.at(3), y.at(1), y.at(2), y.at(3), w.at(2), w.at(3), a.stride.h, a.stride.w,
                        a.padding.h, a.padding.w, a.dilation.h, a.dilation.w, a.groups};
      bool planar = takes_planar(n);
      if (blocked.supports(&k, planar)) form_[v] = layout::blocked;
    } else if (n.is("max_pool2d") || n.is("avg_pool2d")) {
      if (form(n.inputs[0]) == layout::blocked && !uses_.contains(value_id{v.node, 1})) form_[v] = layout::blocked;
    } else if (elementwise(v.node)) {
      bool all = true, any = false;
      for (auto in : n.inputs) {
        bool same = p_.type(in).dims == n.results[0].dims && form(in) == layout::blocked;
        bool number = p_.type(in).dims.size() == 1 && p_.type(in).element == dtype::float32;
        all = all && (same || number);
        any = any || same;
      }
      if (all && any && (n.results[0].dims.at(1) % lanes() == 0 || keeps_zero(n)))
        form_[v] = layout::blocked;
    }
  }
}

bool planner::mixes_number(const node& n) const {
  for (auto in : n.inputs)
    if (p_.type(in).dims.size() == 1) return true;
  return false;
}

bool planner::takes_planar(const node& conv) const {
  return form(conv.inputs[0]) != layout::blocked && p_.type(conv.inputs[0]).dims.at(1) * 2 <= lanes();
}

std::vector<layout> planner::wanted_by(const node& n) const {
  std::vector<layout> w(n.inputs.size(), layout::plain);
  layout mine = n.results.empty() ? layout::plain : form({static_cast<std::int32_t>(&n - p_.nodes().data()), 0});
  if (mine == layout::blocked) {
    if (n.is("conv2d")) w[0] = takes_planar(n) ? layout::plain : layout::blocked;
    else if (!elementwise(static_cast<std::int32_t>(&n - p_.nodes().data()))) w[0] = layout::blocked;
    else
      for (std::size_t i = 0; i < w.size(); ++i)
        if (p_.type(n.inputs[i]).dims == n.results[0].dims) w[i] = layout::blocked;
  }
  if (n.op->layout_free)
    for (std::size_t i = 0; i < w.size(); ++i)
      if (form(n.inputs[i]) == layout::uniform) w[i] = layout::uniform;
  return w;
}

const planner::use_list& planner::uses(value_id v) const {
  static const use_list none;
  auto u = uses_.find(v);
  return u == uses_.end() ? none : u->second;
}

std::optional<double> planner::number_of(value_id v) const {
  const node& n = p_.at(v);
  if (n.kind != node_kind::constant || n.results[0].dims.size() != 1) return {};
  if (n.results[0].element == dtype::float32) return n.constant.elements<float>()[0];
  if (n.results[0].element == dtype::float64) return n.constant.elements<double>()[0];
  return {};
}

bool planner::is_bias(value_id v, const node& target) const {
  const shape &b = p_.type(v).dims, &y = target.results[0].dims;
  if (form(v) == layout::uniform) return false;
  int axis = target.is("conv2d") ? 1 : y.rank - 1;
  for (int i = 0; i < b.rank; ++i) {
    int k = i + y.rank - b.rank;
    if (b.at(i) != (k == axis ? y.at(axis) : 1)) return false;
  }
  return b.rank >= y.rank - axis && b.size() == y.at(axis);
}

void planner::absorb_epilogues() {
  absorbed_.assign(p_.nodes().size(), nobody);
  if (!options_.fuse_epilogues) return;
  for (std::size_t i = 0; i < p_.nodes().size(); ++i) {
    if (!needed_[i]) continue;
    const node& n = p_.nodes()[i];
    if (!n.is("matmul") && !n.is("conv2d")) continue;
    item it;
    it.nodes = {static_cast<std::int32_t>(i)};
    it.result = {static_cast<std::int32_t>(i), 0};
    bool blocked = form(it.result) == layout::blocked;
    while (!it.tail.clamp) {
      const auto& u = uses(it.result);
      if (u.root || u.nodes.size() != 1) break;
      auto next = u.nodes[0];
      if (absorbed_[static_cast<std::size_t>(next)] != nobody) break;   // it ends another product already
      const node& c = p_.at(next);
      // What joins a blocked convolution becomes blocked with it.
      if (c.results[0] != n.results[0] || (!blocked && form({next, 0}) != form(it.result))) break;
      if (c.is("add")) {
        value_id other = c.inputs[0] == it.result ? c.inputs[1] : c.inputs[0];
        if (other == it.result) break;
        if (!it.tail.bias && !it.tail.residual && is_bias(other, n)) it.tail.bias = other;
        else if (!it.tail.residual && p_.type(other) == n.results[0] && form(other) != layout::uniform && (n.is("matmul") || blocked) && before(other.node, static_cast<std::int32_t>(i))) it.tail.residual = other;
        else break;
        if (other == it.tail.bias && !before(other.node, static_cast<std::int32_t>(i))) { it.tail.bias = {}; break; }
      } else if (c.is("relu")) {
        it.tail.clamp = true;
        it.tail.low = 0;
      } else if (c.is("clamp") && c.inputs[0] == it.result && number_of(c.inputs[1]) && number_of(c.inputs[2]) && (!blocked || *number_of(c.inputs[1]) <= 0)) {
        it.tail.clamp = true;
        it.tail.low = *number_of(c.inputs[1]);
        it.tail.high = *number_of(c.inputs[2]);
      } else break;
      it.nodes.push_back(next);
      it.result = {next, 0};
      absorbed_[static_cast<std::size_t>(next)] = static_cast<std::int32_t>(i);
      if (blocked) form_[it.result] = layout::blocked;
      ++plan_.counters_.fused_epilogues;
    }
    if (it.nodes.size() > 1) absorbing_[static_cast<std::int32_t>(i)] = std::move(it);
  }
  if (!absorbing_.empty() && !form_.empty()) rederive_layouts();
}

bool planner::before(std::int32_t v, std::int32_t n) const {
  if (v < n) return true;
  std::vector<std::int32_t> stack{v};
  std::set<std::int32_t> seen;
  while (!stack.empty()) {
    auto at = stack.back();
    stack.pop_back();
    if (at == n) return false;
    if (at < n || !seen.insert(at).second) continue;
    for (auto in : p_.at(at).inputs) stack.push_back(in.node);
  }
  return true;
}

void planner::rederive_layouts() {
  auto kept = form_;
  choose_layouts();
  for (auto& [v, f] : kept) form_[v] = f;
}

void planner::group_elementwise() {
  group_of_.assign(p_.nodes().size(), nobody);
  for (auto i = static_cast<std::int32_t>(p_.nodes().size()); i-- > 0;) {
    if (!needed_[static_cast<std::size_t>(i)] || !elementwise(i) || absorbed_[static_cast<std::size_t>(i)] != nobody) continue;
    const node& n = p_.at(i);
    value_id v{i, 0};
    std::int32_t into = nobody;
    const auto& u = uses(v);
    if (options_.fuse_elementwise && !u.nodes.empty()) {
      into = group_of_[static_cast<std::size_t>(u.nodes[0])];
      for (auto c : u.nodes)
        if (group_of_[static_cast<std::size_t>(c)] != into) into = nobody;
    }
    if (into != nobody) {
      auto& g = groups_[static_cast<std::size_t>(into)];
      auto operands = g.operands;
      operands.erase(v);
      for (auto in : n.inputs) operands.insert(in);
      bool fits_in = g.dims == n.results[0].dims && g.form == form(v) && g.nodes.size() < kernels::chain_steps && operands.size() + g.results + u.root <= kernels::chain_operands;
      if (fits_in) {
        g.nodes.push_back(i);
        g.operands = std::move(operands);
        g.results += u.root;
        group_of_[static_cast<std::size_t>(i)] = into;
        ++plan_.counters_.fused_elementwise;
        continue;
      }
    }
    group_of_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(groups_.size());
    groups_.push_back({{i}, {n.inputs.begin(), n.inputs.end()}, n.results[0].dims, form(v), 1});
  }
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    auto& nodes = groups_[g].nodes;
    std::sort(nodes.begin(), nodes.end());
    if (most_temporaries(nodes) > kernels::chain_temporaries) {      // too wide: one pass each
      auto all = nodes;
      nodes = {all.back()};
      for (std::size_t k = 0; k + 1 < all.size(); ++k) {
        group_of_[static_cast<std::size_t>(all[k])] = static_cast<std::int32_t>(groups_.size());
        const node& n = p_.at(all[k]);
        groups_.push_back({{all[k]}, {n.inputs.begin(), n.inputs.end()}, n.results[0].dims, form({all[k], 0}), 1});
      }
    }
  }
}

bool planner::stays_inside(std::int32_t i, const std::vector<std::int32_t>& nodes) const {
  const auto& u = uses({i, 0});
  if (u.root) return false;
  for (auto c : u.nodes)
    if (!std::binary_search(nodes.begin(), nodes.end(), c)) return false;
  return true;
}

int planner::most_temporaries(const std::vector<std::int32_t>& nodes) const {
  int alive = 0, most = 0;
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    if (stays_inside(nodes[k], nodes)) most = std::max(most, ++alive);
    for (std::size_t q = 0; q < k; ++q)
      if (stays_inside(nodes[q], nodes) && uses({nodes[q], 0}).nodes.back() == nodes[k]) --alive;
  }
  return most;
}

}  // namespace lamina
