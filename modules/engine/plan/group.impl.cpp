// Fusion: a product with its epilogue, elementwise operations in one pass over memory.
module;
#include "../kernels/families.h"
module lamina:plan.group.impl;
import :core;
import :emission;
import :emitter;
import :passes;
import :plan.phases;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::planning {

bool grouping::stays_inside(const usage& u, std::int32_t node) const {
  if (u.root[{node, 0}]) return false;
  const auto own_group = group_of[static_cast<std::size_t>(node)];
  const auto readers = u.readers_of({node, 0});
  return std::all_of(readers.begin(), readers.end(),
                     [&](auto c) { return group_of[static_cast<std::size_t>(c)] == own_group; });
}

namespace {

// ---- a product and its epilogue ----

bool is_bias(const program& p, const layouts& forms, value_id v, const node& product) {
  const shape &b = p.type(v).dims, &y = product.results[0].dims;
  if (forms.form[v] == layout::uniform) return false;
  const int axis = product.op->channels(product.attributes.get(), y, p.type(product.inputs[1]).dims).result;
  for (int i = 0; i < b.rank; ++i) {
    int k = i + y.rank - b.rank;
    if (b.at(i) != (k == axis ? y.at(axis) : 1)) return false;
  }
  return b.rank >= y.rank - axis && b.size() == y.at(axis);
}

bool takes_residual(const request& r, const layouts& forms, value_id v, const node& product, bool blocked) {
  const shape& y = product.results[0].dims;
  if (r.of.type(v) != product.results[0] || forms.form[v] == layout::uniform) return false;
  if (blocked) return forms.form[v] != layout::blocked || padding_of(r, forms, v);
  return product.op->channels(product.attributes.get(), y, r.of.type(product.inputs[1]).dims).result == y.rank - 1;
}

// Whether a value does not depend on node `n`, so that it can be computed before it.
bool before(const program& p, std::int32_t v, std::int32_t n) {
  if (v < n) return true;
  std::vector<std::int32_t> stack{v};
  std::set<std::int32_t> seen;
  while (!stack.empty()) {
    auto at = stack.back();
    stack.pop_back();
    if (at == n) return false;
    if (at < n || !seen.insert(at).second) continue;
    for (auto in : p.at(at).inputs) stack.push_back(in.node);
  }
  return true;
}

// The other operand cannot depend on a result with a single reader, except through its shape.
bool is_ready(const program& p, const usage& u, value_id other, const group& g) {
  const bool by_shape = std::any_of(g.nodes.begin(), g.nodes.end(),
                                    [&](auto m) { return u.shape_read[static_cast<std::size_t>(m)] != 0; });
  return !by_shape || before(p, other.node, g.nodes[0]);
}

// Fuses a sum of a product's result with another tensor, both in channel blocks, into the epilogue; returns whether it
// could.
bool absorb_sum(const request& r, const usage& u, const layouts& forms, const grouping& groups, group& g) {
  if (u.root[g.result] || u.reader_count[g.result] != 1) return false;
  const auto next = u.readers_of(g.result)[0];
  const node& c = r.of.at(next);
  const auto [first, second] = c.kind == node_kind::operation ? c.op->sums : summed_operands{};
  if (first < 0 || groups.of(next) || forms.form[{next, 0}] != layout::blocked) return false;
  const value_id a = c.inputs[static_cast<std::size_t>(first)], b = c.inputs[static_cast<std::size_t>(second)],
                 other = a == g.result ? b : a;
  if (a == b || (a != g.result && b != g.result) || r.of.type(other) != c.results[0] || !is_ready(r.of, u, other, g))
    return false;
  g.tail.residual = other;
  g.tail.sum = &c;
  g.nodes.push_back(next);
  g.result = {next, 0};
  return true;
}

// Fuses the only reader of a product's result into the epilogue; returns whether it could.
bool absorb(const request& r, const usage& u, layouts& forms, const grouping& groups, group& g) {
  const program& p = r.of;
  const node& product = p.at(g.nodes[0]);
  if (u.root[g.result] || u.reader_count[g.result] != 1) return false;
  const auto next = u.readers_of(g.result)[0];
  if (groups.of(next)) return false;  // it is in the group of another product already
  const node& c = p.at(next);
  const bool blocked = forms.form[{g.nodes[0], 0}] == layout::blocked;
  // An operation that joins a blocked convolution becomes blocked too.
  if (c.results[0] != product.results[0] || (!blocked && forms.form[{next, 0}] != forms.form[g.result])) return false;
  std::optional<float> beyond = blocked ? padding_of(r, forms, g.result) : std::nullopt;
  if (c.op->adds) {
    const value_id other = c.inputs[0] == g.result ? c.inputs[1] : c.inputs[0];
    if (other == g.result || !is_ready(p, u, other, g)) return false;
    if (!g.tail.bias && !g.tail.residual && is_bias(p, forms, other, product)) g.tail.bias = other;
    else if (!g.tail.residual && takes_residual(r, forms, other, product, blocked)) {
      g.tail.residual = other;
      if (beyond && forms.form[other] == layout::blocked) beyond = *beyond + *padding_of(r, forms, other);
    } else return false;
  } else if (const auto limits = p.bounds_of(c); limits && c.inputs[0] == g.result) {
    g.tail.clamp = true;
    g.tail.low = limits->low;
    g.tail.high = limits->high;
    if (beyond)
      beyond = static_cast<float>(std::min(std::max(static_cast<double>(*beyond), limits->low), limits->high));
  } else return false;
  g.nodes.push_back(next);
  g.result = {next, 0};
  if (blocked) forms.form[g.result] = layout::blocked;
  if (beyond) forms.padding[g.result] = beyond;
  return true;
}

image_call image_call_of(const request& r, const node& n, std::vector<tensor_type>& in) {
  for (auto v : n.inputs) in.push_back(r.of.type(v));
  return {n.attributes.get(), in, n.results, true, true, r.isa};
}

void add_group(grouping& groups, group g) {
  for (auto m : g.nodes) groups.group_of[static_cast<std::size_t>(m)] = static_cast<std::int32_t>(groups.groups.size());
  groups.groups.push_back(std::move(g));
}

// Removes a group whose operations were moved to another one.
void remove_group(grouping& groups, std::int32_t at) {
  auto& all = groups.groups;
  const auto last = static_cast<std::int32_t>(all.size()) - 1;
  if (at != last) {
    all[static_cast<std::size_t>(at)] = std::move(all.back());
    for (auto m : all[static_cast<std::size_t>(at)].nodes) groups.group_of[static_cast<std::size_t>(m)] = at;
  }
  all.pop_back();
}

// Fuses the pool or depthwise convolution that alone reads a convolution's result, with its bias and bounds, band by
// band.
void join_windows(const request& r, const usage& u, const layouts& forms, grouping& groups, std::int32_t i) {
  const node& n = r.of.at(i);
  const group* before = groups.of(i);
  group g = before ? *before : group{.nodes = {i}, .result = {i, 0}};
  if (g.nodes[0] != i || forms.form[g.result] != layout::blocked || g.tail.residual || g.tail.windows ||
      u.root[g.result] || u.reader_count[g.result] != 1)
    return;
  const auto next = u.readers_of(g.result)[0];
  const node& c = r.of.at(next);
  const group* after = groups.of(next);
  if (c.kind != node_kind::operation || !c.op->windows || c.inputs[0] != g.result ||
      forms.form[{next, 0}] != layout::blocked || (after && (after->nodes[0] != next || after->tail.residual)))
    return;
  for (std::int32_t k = 1; k < static_cast<std::int32_t>(c.results.size()); ++k)
    if (u.is_read({next, k})) return;
  std::vector<tensor_type> in, in_next;
  const image_call windows = image_call_of(r, c, in_next);
  const window_rule rule = c.op->windows(windows);
  if (rule == window_rule::none || !n.op->joins_windows(image_call_of(r, n, in), rule, windows)) return;
  g.tail.windows = &c;
  g.result = {next, 0};
  if (after) {
    g.tail.windows_bias = after->tail.bias;
    if (after->tail.clamp) g.tail.windows_bounds = {after->tail.low, after->tail.high};
    g.nodes.insert(g.nodes.end(), after->nodes.begin(), after->nodes.end());
    g.result = after->result;
  } else g.nodes.push_back(next);
  ++groups.fused_epilogues;
  for (auto head : {i, next})
    if (groups.of(head)) remove_group(groups, groups.group_of[static_cast<std::size_t>(head)]);
  add_group(groups, std::move(g));
}

void group_products(const request& r, const usage& u, layouts& forms, grouping& groups) {
  const auto count = static_cast<std::int32_t>(r.of.nodes().size());
  for (std::int32_t i = 0; i < count; ++i) {
    const node& n = r.of.at(i);
    if (!u.needed[static_cast<std::size_t>(i)] || n.kind != node_kind::operation) continue;
    group g{.nodes = {i}, .result = {i, 0}};
    if (n.op->joins_sums && forms.form[g.result] == layout::blocked) absorb_sum(r, u, forms, groups, g);
    else if (n.op->channels && !is_integer(n.results[0].element))
      while (!g.tail.clamp && absorb(r, u, forms, groups, g)) {}
    if (g.nodes.size() == 1) continue;
    groups.fused_epilogues += static_cast<std::int64_t>(g.nodes.size()) - 1;
    add_group(groups, std::move(g));
  }
  if (!groups.groups.empty() && forms.any_blocked) extend_layouts(r, u, forms);
  for (std::int32_t i = 0; i < count && forms.any_blocked; ++i)
    if (u.needed[static_cast<std::size_t>(i)] && r.of.at(i).kind == node_kind::operation &&
        r.of.at(i).op->joins_windows)
      join_windows(r, u, forms, groups, i);
}

// ---- chains of elementwise operations ----

// Operands and number of results of a chain, while it grows from its last operation to its first.
struct chain_extent {
  std::vector<value_id> operands;
  std::size_t results;
};

void add_operands(std::vector<value_id>& operands, const node& n) {
  for (auto in : n.inputs)
    if (std::find(operands.begin(), operands.end(), in) == operands.end()) operands.push_back(in);
}

// Number of temporaries that a chain needs at once.
int max_temporaries(const usage& u, const grouping& groups, const std::vector<std::int32_t>& nodes) {
  std::vector<int> ends(nodes.size());  // number of temporaries whose last reader is each node
  int alive = 0, max = 0;
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    if (groups.stays_inside(u, nodes[k])) {
      max = std::max(max, ++alive);
      const auto readers = u.readers_of({nodes[k], 0});
      const auto last = std::lower_bound(nodes.begin(), nodes.end(), readers.empty() ? nodes.back() : readers.back());
      ++ends[static_cast<std::size_t>(last - nodes.begin())];
    }
    alive -= ends[k];
  }
  return max;
}

class chain_builder {
 public:
  chain_builder(const request& r, const usage& u, const layouts& forms, grouping& groups)
      : r_(r), u_(u), forms_(forms), groups_(groups), first_(groups.groups.size()) {}

  // From the last operation to the first: one joins the chain that contains all its readers.
  void add(std::int32_t i) {
    const auto into = r_.options.fuse_elementwise ? chain_of_readers(i) : none;
    if (into != none && fits(i, into)) {
      groups_.groups[static_cast<std::size_t>(into)].nodes.push_back(i);
      groups_.group_of[static_cast<std::size_t>(i)] = into;
      ++groups_.fused_elementwise;
    } else begin(i);
  }
  // Chains that need too many temporaries are split into one pass per operation.
  void finish() {
    const auto count = groups_.groups.size();
    for (std::size_t g = first_; g < count; ++g) {
      auto& nodes = groups_.groups[g].nodes;
      std::reverse(nodes.begin(), nodes.end());
      if (nodes.size() <= static_cast<std::size_t>(kernels::chain_temporaries) ||
          max_temporaries(u_, groups_, nodes) <= kernels::chain_temporaries)
        continue;
      const auto all = std::exchange(nodes, {nodes.back()});
      for (std::size_t k = 0; k + 1 < all.size(); ++k) begin(all[k]);
    }
  }

 private:
  void begin(std::int32_t i) {
    groups_.group_of[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(groups_.groups.size());
    groups_.groups.push_back({.chain = true, .nodes = {i}, .result = {i, 0}});
    extents_.push_back({{}, 1});
    add_operands(extents_.back().operands, r_.of.at(i));
  }
  std::int32_t chain_of_readers(std::int32_t i) const {
    const auto readers = u_.readers_of({i, 0});
    if (readers.empty()) return none;
    const auto into = groups_.group_of[static_cast<std::size_t>(readers[0])];
    const bool chain = into != none && groups_.groups[static_cast<std::size_t>(into)].chain;
    const bool all = chain && std::all_of(readers.begin(), readers.end(), [&](auto c) {
                       return groups_.group_of[static_cast<std::size_t>(c)] == into;
                     });
    return all ? into : none;
  }
  bool fits(std::int32_t i, std::int32_t into) {
    const value_id v{i, 0};
    const group& g = groups_.groups[static_cast<std::size_t>(into)];
    auto& extent = extents_[static_cast<std::size_t>(into) - first_];
    if (r_.of.type(g.result).dims != r_.of.type(v).dims || forms_.form[g.result] != forms_.form[v] ||
        g.nodes.size() >= static_cast<std::size_t>(kernels::chain_steps))
      return false;
    const std::size_t results = extent.results + static_cast<std::size_t>(u_.root[v]);
    auto& operands = scratch_;
    operands.clear();
    for (auto o : extent.operands)
      if (o != v) operands.push_back(o);
    add_operands(operands, r_.of.at(i));
    if (operands.size() + results > static_cast<std::size_t>(kernels::chain_operands)) return false;
    std::swap(extent.operands, operands);
    extent.results = results;
    return true;
  }

  const request& r_;
  const usage& u_;
  const layouts& forms_;
  grouping& groups_;
  std::size_t first_;
  std::vector<chain_extent> extents_;
  std::vector<value_id> scratch_;
};

// Elements of a row that a chain with a result of this shape adds up: all neighboring innermost axes that are summed, if
// each operand has all of them or is broadcast along all; else 0.
std::int64_t summed_row(const request& r, const grouping& groups, const group& g, const shape& s, unsigned summed) {
  const auto own = groups.group_of[static_cast<std::size_t>(g.nodes[0])];
  const auto is_broadcast = [&](value_id v, int axis) {
    const shape& t = r.of.type(v).dims;
    const int k = axis - (s.rank - t.rank);
    return k < 0 || t.at(k) == 1;
  };
  std::int64_t row = 1;
  int last = -1;  // the innermost axis of more than one element
  for (int axis = s.rank; axis-- > 0;) {
    if (s.at(axis) == 1) continue;
    if (!(summed >> axis & 1u)) return row;
    row *= s.at(axis);
    if (last < 0) last = axis;
    for (auto m : g.nodes)
      for (auto v : r.of.at(m).inputs)
        if (groups.group_of[static_cast<std::size_t>(v.node)] != own && is_broadcast(v, axis) != is_broadcast(v, last))
          return 0;
  }
  return row;
}

// Fuses a sum along axes with the chain that computes its operand, unless this fits into the first cache. The chain adds
// up whole rows, of which there are several, in the order of a sum alone: the bits are the same.
void join_sums(const request& r, const usage& u, const layouts& forms, grouping& groups) {
  constexpr std::int64_t min_size = 1 << 14, min_row = 256;
  std::vector<tensor_type> in;
  for (std::int32_t i = 0; i < static_cast<std::int32_t>(r.of.nodes().size()); ++i) {
    const node& n = r.of.at(i);
    if (!u.needed[static_cast<std::size_t>(i)] || n.kind != node_kind::operation || !n.op->summed_axes || groups.of(i))
      continue;
    const value_id of = n.inputs[0];
    const auto at = groups.group_of[static_cast<std::size_t>(of.node)];
    const tensor_type& t = r.of.type(of);
    if (at == none || !is_real(t.element) || t.dims.size() < min_size || forms.form[of] != layout::plain ||
        forms.form[{i, 0}] != layout::plain)
      continue;
    group& g = groups.groups[static_cast<std::size_t>(at)];
    if (!g.chain || g.result != of || g.sum != none) continue;
    in.clear();
    for (auto v : n.inputs) in.push_back(r.of.type(v));
    const std::int64_t row = summed_row(r, groups, g, t.dims, n.op->summed_axes(n.attributes.get(), in));
    if (row < min_row || row == t.dims.size()) continue;
    g.sum = i;
    g.nodes.push_back(i);
    g.result = {i, 0};
    groups.group_of[static_cast<std::size_t>(i)] = at;
    ++groups.fused_elementwise;
  }
}

}  // namespace

grouping group_nodes(const request& r, const usage& u, layouts& forms) {
  grouping groups;
  groups.group_of.assign(r.of.nodes().size(), none);
  if (r.options.fuse_epilogues) group_products(r, u, forms, groups);
  chain_builder chains(r, u, forms, groups);
  for (auto i = static_cast<std::int32_t>(r.of.nodes().size()); i-- > 0;)
    if (u.needed[static_cast<std::size_t>(i)] && is_elementwise(r.of.at(i)) && !groups.of(i)) chains.add(i);
  chains.finish();
  if (r.options.fuse_elementwise) join_sums(r, u, forms, groups);
  return groups;
}

}  // namespace lamina::planning
