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
import :passes;
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
  shape_read_.assign(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    if (!needed_[i]) continue;
    const node& n = p_.nodes()[i];
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (!n.reads_data(k)) shape_read_[static_cast<std::size_t>(n.inputs[k].node)] = 1;
      else uses_[n.inputs[k]].nodes.push_back(static_cast<std::int32_t>(i));
    training_ = training_ || (n.op && n.op->plain_images);
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
  item_of_.assign(count, no_node);
}

std::int32_t planner::state_index(std::int32_t node) const {
  const auto& all = p_.states();
  return static_cast<std::int32_t>(std::lower_bound(all.begin(), all.end(), node) - all.begin());
}

bool planner::elementwise(std::int32_t i) const {
  const node& n = p_.at(i);
  return n.kind == node_kind::operation && n.op->map != nullptr && n.op->identity != identity_rule::always;
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

std::optional<float> planner::padding(value_id v) const {
  if (p_.type(v).dims.at(1) % lanes() == 0) return 0;  // there is none
  const auto known = padding_.find(v);
  return known == padding_.end() ? std::nullopt : std::optional(known->second);
}

std::optional<float> planner::padding_after(const node& n) const {
  float in[3]{}, out = 0;
  for (std::size_t k = 0; k < n.inputs.size(); ++k) {
    const bool blocked = form(n.inputs[k]) == layout::blocked;
    const std::optional<double> number =
        blocked ? std::optional<double>(padding(n.inputs[k])) : p_.number_of(n.inputs[k]);
    if (blocked && n.op->zeros == zero_rule::any && number == 0) return 0;
    if (!number) return {};
    in[k] = static_cast<float>(*number);
  }
  function_of(n)(in, in + 1, in + 2, &out, 1, 0);
  return std::isfinite(out) ? std::optional(out) : std::nullopt;
}

void planner::choose_layouts() {
  if (!options_.blocked_layout || training_) return;
  for (std::size_t i = 0; i < p_.nodes().size(); ++i) {
    if (!needed_[i]) continue;
    const node& n = p_.nodes()[i];
    value_id v{static_cast<std::int32_t>(i), 0};
    if (n.kind != node_kind::operation || n.results[0].element != dtype::float32 || n.results[0].dims.rank != 4 ||
        n.results[0].dims.size() == 0)
      continue;
    if (n.op->images) {
      const auto forms = images(n);
      if (!forms.result) continue;
      form_[v] = layout::blocked;
      if (n.op->channels || !forms.operand || padding(n.inputs[0]) == 0) padding_[v] = 0;
    } else if (elementwise(v.node)) {
      bool all = true, any = false;
      for (auto in : n.inputs) {
        bool same = p_.type(in).dims == n.results[0].dims && form(in) == layout::blocked;
        bool number = p_.type(in).dims.size() == 1 && p_.type(in).element == dtype::float32;
        all = all && (same || number);
        any = any || same;
      }
      if (!all || !any) continue;
      const auto beyond = padding_after(n);
      if (beyond) padding_[v] = *beyond;
      if (beyond || n.results[0].dims.at(1) % lanes() == 0) form_[v] = layout::blocked;
    }
  }
}

image_layouts planner::images(const node& n) const {
  std::vector<tensor_type> in;
  for (auto v : n.inputs) in.push_back(p_.type(v));
  const auto at = static_cast<std::int32_t>(&n - p_.nodes().data());
  bool first_only = true;
  for (std::int32_t r = 1; r < static_cast<std::int32_t>(n.results.size()); ++r)
    first_only = first_only && !uses_.contains(value_id{at, r});
  return n.op->images({n.attributes.get(), in, n.results, form(n.inputs[0]) == layout::blocked, first_only, isa_});
}

std::vector<layout> planner::wanted_by(const node& n) const {
  std::vector<layout> w(n.inputs.size(), layout::plain);
  layout mine = n.results.empty() ? layout::plain : form({static_cast<std::int32_t>(&n - p_.nodes().data()), 0});
  if (mine == layout::blocked) {
    if (n.op->images) w[0] = images(n).operand ? layout::blocked : layout::plain;
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

bool planner::is_bias(value_id v, const node& target) const {
  const shape &b = p_.type(v).dims, &y = target.results[0].dims;
  if (form(v) == layout::uniform) return false;
  const int axis = target.op->channels(target.attributes.get(), y, p_.type(target.inputs[1]).dims).result;
  for (int i = 0; i < b.rank; ++i) {
    int k = i + y.rank - b.rank;
    if (b.at(i) != (k == axis ? y.at(axis) : 1)) return false;
  }
  return b.rank >= y.rank - axis && b.size() == y.at(axis);
}

// Takes the operation that alone reads an item's result into its epilogue; whether it can.
bool planner::absorb(item& it, const node& product) {
  const auto& u = uses(it.result);
  if (u.root || u.nodes.size() != 1) return false;
  const auto next = u.nodes[0];
  if (absorbed_[static_cast<std::size_t>(next)] != no_node) return false;  // it ends another product already
  const node& c = p_.at(next);
  const bool blocked = form({it.nodes[0], 0}) == layout::blocked;
  // What joins a blocked convolution becomes blocked with it.
  if (c.results[0] != product.results[0] || (!blocked && form({next, 0}) != form(it.result))) return false;
  std::optional<float> beyond = blocked ? padding(it.result) : std::nullopt;
  if (c.op->adds) {
    const value_id other = c.inputs[0] == it.result ? c.inputs[1] : c.inputs[0];
    if (other == it.result || !ready(other, it)) return false;
    if (!it.tail.bias && !it.tail.residual && is_bias(other, product)) it.tail.bias = other;
    else if (!it.tail.residual && takes_residual(other, product, blocked)) {
      it.tail.residual = other;
      if (beyond && form(other) == layout::blocked) beyond = *beyond + *padding(other);
    } else return false;
  } else if (const auto limits = p_.bounds_of(c); limits && c.inputs[0] == it.result) {
    it.tail.clamp = true;
    it.tail.low = limits->low;
    it.tail.high = limits->high;
    if (beyond)
      beyond = static_cast<float>(std::min(std::max(static_cast<double>(*beyond), limits->low), limits->high));
  } else return false;
  it.nodes.push_back(next);
  it.result = {next, 0};
  absorbed_[static_cast<std::size_t>(next)] = it.nodes[0];
  ++plan_.counters_.fused_epilogues;
  if (blocked) form_[it.result] = layout::blocked;
  if (beyond) padding_[it.result] = *beyond;
  return true;
}

// What one operation alone reads is no part of its other operand, but for shapes that are read.
bool planner::ready(value_id other, const item& it) const {
  const bool by_shape = std::any_of(it.nodes.begin(), it.nodes.end(),
                                    [&](auto m) { return shape_read_[static_cast<std::size_t>(m)] != 0; });
  return !by_shape || before(other.node, it.nodes[0]);
}

bool planner::takes_residual(value_id v, const node& product, bool blocked) const {
  const shape& y = product.results[0].dims;
  if (p_.type(v) != product.results[0] || form(v) == layout::uniform) return false;
  if (blocked) return form(v) != layout::blocked || padding(v);
  return product.op->channels(product.attributes.get(), y, p_.type(product.inputs[1]).dims).result == y.rank - 1;
}

void planner::absorb_epilogues() {
  absorbed_.assign(p_.nodes().size(), no_node);
  if (!options_.fuse_epilogues) return;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(p_.nodes().size()); ++i) {
    const node& n = p_.at(i);
    if (!needed_[static_cast<std::size_t>(i)] || n.kind != node_kind::operation || !n.op->channels) continue;
    item it;
    it.nodes = {i};
    it.result = {i, 0};
    while (!it.tail.clamp && absorb(it, n)) {}
    if (it.nodes.size() > 1) absorbing_[i] = std::move(it);
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
  group_of_.assign(p_.nodes().size(), no_node);
  for (auto i = static_cast<std::int32_t>(p_.nodes().size()); i-- > 0;) {
    if (!needed_[static_cast<std::size_t>(i)] || !elementwise(i) || absorbed_[static_cast<std::size_t>(i)] != no_node)
      continue;
    const node& n = p_.at(i);
    value_id v{i, 0};
    std::int32_t into = no_node;
    const auto& u = uses(v);
    if (options_.fuse_elementwise && !u.nodes.empty()) {
      into = group_of_[static_cast<std::size_t>(u.nodes[0])];
      for (auto c : u.nodes)
        if (group_of_[static_cast<std::size_t>(c)] != into) into = no_node;
    }
    if (into != no_node) {
      auto& g = groups_[static_cast<std::size_t>(into)];
      auto operands = g.operands;
      operands.erase(v);
      for (auto in : n.inputs) operands.insert(in);
      bool fits_in = g.dims == n.results[0].dims && g.form == form(v) && g.nodes.size() < kernels::chain_steps &&
                     operands.size() + g.results + u.root <= kernels::chain_operands;
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
    if (max_temporaries(nodes) > kernels::chain_temporaries) {  // too wide: one pass each
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

int planner::max_temporaries(const std::vector<std::int32_t>& nodes) const {
  int alive = 0, most = 0;
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    if (stays_inside(nodes[k], nodes)) most = std::max(most, ++alive);
    for (std::size_t q = 0; q < k; ++q)
      if (stays_inside(nodes[q], nodes) && uses({nodes[q], 0}).nodes.back() == nodes[k]) --alive;
  }
  return most;
}

}  // namespace lamina
