module;
#include "../kernels/table.h"
module lamina:plan.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.elementwise;
import :op.nn;
import :op.shape;
import :optimize;
import :plan;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

// ---- memory ---------------------------------------------------------------------------------------------------------

std::size_t place_blocks(view<memory_block> blocks, std::size_t& live_peak) {
  std::int32_t end = 0;
  for (auto& b : blocks) end = std::max(end, b.last + 1);
  std::vector<std::size_t> alive(static_cast<std::size_t>(end) + 1);
  for (auto& b : blocks)
    for (auto t = b.first; t <= b.last; ++t) alive[static_cast<std::size_t>(t)] += (b.bytes + 63) / 64 * 64;
  live_peak = 0;
  for (auto a : alive) live_peak = std::max(live_peak, a);

  std::vector<std::size_t> order(blocks.size());
  std::vector<std::int64_t> best(blocks.size());
  std::size_t best_bytes = std::numeric_limits<std::size_t>::max();
  for (int strategy = 0; strategy < 3 && best_bytes > live_peak; ++strategy) {
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::stable_sort(order.begin(), order.end(), [&](std::size_t x, std::size_t y) {
      const auto &a = blocks[x], &b = blocks[y];
      if (strategy == 0) return a.bytes > b.bytes;
      if (strategy == 1) return a.first < b.first;
      return static_cast<std::size_t>(a.last - a.first + 1) * a.bytes > static_cast<std::size_t>(b.last - b.first + 1) * b.bytes;
    });
    std::size_t bytes = 0;
    std::vector<std::size_t> placed;
    for (auto i : order) {
      auto& b = blocks[i];
      auto size = static_cast<std::int64_t>((b.bytes + 63) / 64 * 64);
      // The smallest gap between placed blocks of the same time that is large enough.
      std::vector<std::pair<std::int64_t, std::int64_t>> taken;
      for (auto k : placed)
        if (blocks[k].first <= b.last && b.first <= blocks[k].last)
          taken.emplace_back(blocks[k].offset, blocks[k].offset + static_cast<std::int64_t>((blocks[k].bytes + 63) / 64 * 64));
      std::sort(taken.begin(), taken.end());
      std::int64_t at = 0, chosen = -1, gap = 0;
      for (auto [from, to] : taken) {
        if (from - at >= size && (chosen < 0 || from - at < gap)) { chosen = at; gap = from - at; }
        at = std::max(at, to);
      }
      b.offset = chosen >= 0 ? chosen : at;
      bytes = std::max(bytes, static_cast<std::size_t>(b.offset + size));
      placed.push_back(i);
    }
    if (bytes < best_bytes) {
      best_bytes = bytes;
      for (std::size_t i = 0; i < blocks.size(); ++i) best[i] = blocks[i].offset;
    }
  }
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i].offset = best[i];
  return blocks.empty() ? 0 : best_bytes;
}

// ---- planner --------------------------------------------------------------------------------------------------------

namespace {
bool is(const node& n, std::string_view name) { return n.kind == node_kind::operation && n.op->name == name; }
}

class planner final : public emission {
 public:
  planner(plan& result, const program& from, lamina::isa set, const pass_options& options)
      : plan_(result), p_(from), isa_(set), options_(options), table_(kernels::kernels_of(static_cast<kernels::isa>(set))) {}

  void run() {
    look();
    choose_layouts();
    absorb_epilogues();
    group_elementwise();
    schedule();
    place_roots();
    emit_items();
    emit_copies();
    finish();
  }

  // ---- emission ----
  const node& of() const override { return p_.at(current_->nodes[0]); }
  const tensor_type& in_type(std::size_t i) const override { return p_.type(of().inputs[i]); }
  const tensor_type& out_type(std::size_t i) const override { return of().results[i]; }
  buffer_ref in(std::size_t i) override { return read(of().inputs[i], current_->wanted[i]); }
  buffer_ref out(std::size_t i) override {
    value_id v = i == 0 ? current_->result : value_id{current_->nodes[0], static_cast<std::int32_t>(i)};
    return write(v);
  }
  bool used(std::size_t i) const override {
    value_id v{current_->nodes[0], static_cast<std::int32_t>(i)};
    auto u = uses_.find(v);
    return u != uses_.end() && (!u->second.nodes.empty() || u->second.root);
  }
  lamina::isa isa() const override { return isa_; }
  const lamina::epilogue& epilogue() const override { return current_->tail; }
  buffer_ref operand(value_id v) override { return read(v, v == current_->tail.residual ? form(current_->result) : layout::plain); }
  const tensor_type& operand_type(value_id v) const override { return p_.type(v); }
  buffer_ref temporary(std::size_t bytes) override {
    auto b = new_block(bytes);
    touch(b);
    return {b, 0, layout::plain};
  }
  buffer_ref status(std::string_view message) override {
    if (status_ < 0) {
      status_ = new_block(0);
      virtual_[static_cast<std::size_t>(status_)].first = 0;
    }
    auto at = static_cast<std::int64_t>(plan_.checks_.size() * 8);
    plan_.checks_.push_back({at, std::string(message)});
    return {status_, at, layout::plain};
  }
  buffer_ref packed(value_id v, std::uint64_t format, std::size_t bytes, const std::function<void(buffer_ref, buffer_ref)>& make) override {
    value_id base = base_of(v);
    if (training_ || p_.at(base).kind != node_kind::state || p_.type(base).dims.size() != p_.type(v).dims.size()) return {};
    auto state = state_index(base.node);
    for (const auto& k : plan_.packs_)
      if (k.state == state && k.format == format) return {k.buffer, 0, layout::plain};
    auto b = external(buffer_kind::packed, static_cast<std::int32_t>(plan_.packs_.size()), bytes);
    // The steps that pack stand apart from those of a run.
    auto kept_steps = std::move(pending_);
    pending_.clear();
    packing_ = true;
    make(read(v, layout::plain), {b, 0, layout::plain});
    packing_ = false;
    std::swap(pending_, kept_steps);
    plan_.packs_.push_back({state, format, bytes, b, {static_cast<std::uint32_t>(pack_steps_.size()), static_cast<std::uint32_t>(kept_steps.size())}});
    pack_steps_.insert(pack_steps_.end(), kept_steps.begin(), kept_steps.end());
    return {b, 0, layout::plain};
  }
  void stage() override {
    if (!packing_ && pending_.size() > stage_first_) {
      plan_.stages_.push_back({static_cast<std::uint32_t>(stage_first_), static_cast<std::uint32_t>(pending_.size() - stage_first_)});
      stage_first_ = pending_.size();
    }
  }
  void add(step_function run, const void* arguments, std::size_t size, view<const address> addresses, std::size_t scratch) override {
    auto& bytes = plan_.arguments_;
    std::size_t at = (bytes.size() + 63) / 64 * 64;
    bytes.resize(at + size);
    std::memcpy(bytes.data() + at, arguments, size);
    for (const auto& a : addresses) {
      auto field = static_cast<std::size_t>(static_cast<const std::byte*>(a.field) - static_cast<const std::byte*>(arguments));
      plan_.relocations_.push_back({static_cast<std::uint32_t>(at + field), a.to.buffer, a.to.offset});
    }
    plan_.scratch_bytes_ = std::max(plan_.scratch_bytes_, scratch);
    pending_.push_back({run, static_cast<std::uint32_t>(at)});
  }

 private:
  // What is scheduled as one: an operation with its epilogue, a chain of elementwise operations, or a change of layout.
  struct item {
    enum class kind { operation, chain, reorder } what = kind::operation;
    std::vector<std::int32_t> nodes;      // the operation first, then what its epilogue absorbed; or the chain's nodes
    value_id result;
    std::vector<layout> wanted;           // of the operands
    lamina::epilogue tail;
    layout to = layout::plain;            // of a reorder
  };
  struct use_list { std::vector<std::int32_t> nodes; bool root = false; };
  // Memory before it has an offset: lives over the items that touch it.
  struct block { buffer_kind kind; std::int32_t index; std::size_t bytes; std::int32_t first = -1, last = -1; std::int32_t same_as = -1; };

  static constexpr std::int32_t nobody = -1;

  // ---- uses ----
  void look() {
    needed_ = p_.reachable();
    auto count = p_.nodes().size();
    for (std::size_t i = 0; i < count; ++i) {
      if (!needed_[i]) continue;
      const node& n = p_.nodes()[i];
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (!shape_only(n, k)) uses_[n.inputs[k]].nodes.push_back(static_cast<std::int32_t>(i));
      training_ = training_ || is(n, "conv2d_weight_grad") || is(n, "conv2d_input_grad");
    }
    training_ = training_ || !p_.assignments().empty();
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
  static bool shape_only(const node& n, std::size_t k) { return n.op->shape_only >> (k < 31 ? k : 31) & 1u; }
  std::int32_t state_index(std::int32_t node) const {
    const auto& all = p_.states();
    return static_cast<std::int32_t>(std::find(all.begin(), all.end(), node) - all.begin());
  }
  bool elementwise(std::int32_t i) const {
    const node& n = p_.at(i);
    return n.kind == node_kind::operation && n.op->map != nullptr && !is(n, "stop_gradient");
  }

  // ---- layouts ----
  layout form(value_id v) const {
    if (p_.at(v).uniform) return layout::uniform;
    auto f = form_.find(v);
    return f == form_.end() ? layout::plain : f->second;
  }
  std::int64_t lanes() const { return kernels::lanes(static_cast<kernels::isa>(isa_)); }
  std::size_t bytes_of(value_id v, layout f) const {
    const tensor_type& t = p_.type(v);
    if (f != layout::blocked) return f == layout::uniform ? size_of(t.element) : t.bytes();
    shape s = t.dims;
    s[1] = dim((s.at(1) + lanes() - 1) / lanes() * lanes());
    return tensor_type{t.element, s}.bytes();
  }
  // Operations that give 0 for zeros keep the padding channels of a blocked buffer zero.
  static bool keeps_zero(const node& n) {
    for (std::string_view name : {"add", "subtract", "multiply", "relu", "tanh", "negate", "abs", "sign", "square", "sqrt", "minimum", "maximum", "asinh", "erf"})
      if (is(n, name)) return true;
    return false;
  }
  void choose_layouts() {
    if (!options_.blocked_layout || training_) return;
    const auto& blocked = table_.conv->blocked;
    for (std::size_t i = 0; i < p_.nodes().size(); ++i) {
      if (!needed_[i]) continue;
      const node& n = p_.nodes()[i];
      value_id v{static_cast<std::int32_t>(i), 0};
      if (n.kind != node_kind::operation || n.results[0].element != dtype::float32 || n.results[0].dims.rank != 4 || n.results[0].dims.size() == 0) continue;
      if (is(n, "conv2d")) {
        const auto& a = *static_cast<const conv2d_attributes*>(n.attributes.get());
        const shape &x = p_.type(n.inputs[0]).dims, &w = p_.type(n.inputs[1]).dims, &y = n.results[0].dims;
        kernels::window k{x.at(1), x.at(2), x.at(3), y.at(1), y.at(2), y.at(3), w.at(2), w.at(3), a.stride.h, a.stride.w,
                          a.padding.h, a.padding.w, a.dilation.h, a.dilation.w, a.groups};
        bool planar = takes_planar(n);
        if (blocked.supports(&k, planar)) form_[v] = layout::blocked;
      } else if (is(n, "max_pool2d") || is(n, "avg_pool2d")) {
        if (form(n.inputs[0]) == layout::blocked && !uses_.contains(value_id{v.node, 1})) form_[v] = layout::blocked;
      } else if (elementwise(v.node)) {
        bool all = true, any = false;
        for (auto in : n.inputs) {
          bool same = p_.type(in).dims == n.results[0].dims && form(in) == layout::blocked;
          bool number = p_.type(in).dims.size() == 1 && p_.type(in).element == dtype::float32;
          all = all && (same || number);
          any = any || same;
        }
        if (all && any && (n.results[0].dims.at(1) % lanes() == 0 || keeps_zero(n)) && !(is(n, "add") && mixes_number(n)) && !(is(n, "subtract") && mixes_number(n)))
          form_[v] = layout::blocked;
      }
    }
  }
  bool mixes_number(const node& n) const {
    for (auto in : n.inputs)
      if (p_.type(in).dims.size() == 1) return true;
    return false;
  }
  // A convolution of few channels reads its plain input directly.
  bool takes_planar(const node& conv) const {
    return form(conv.inputs[0]) != layout::blocked && p_.type(conv.inputs[0]).dims.at(1) * 2 <= lanes();
  }
  std::vector<layout> wanted_by(const node& n) const {
    std::vector<layout> w(n.inputs.size(), layout::plain);
    layout mine = n.results.empty() ? layout::plain : form({static_cast<std::int32_t>(&n - p_.nodes().data()), 0});
    if (mine == layout::blocked) {
      if (is(n, "conv2d")) w[0] = takes_planar(n) ? layout::plain : layout::blocked;
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

  // ---- epilogues ----
  const use_list& uses(value_id v) const {
    static const use_list none;
    auto u = uses_.find(v);
    return u == uses_.end() ? none : u->second;
  }
  std::optional<double> number_of(value_id v) const {
    const node& n = p_.at(v);
    if (n.kind != node_kind::constant || n.results[0].dims.size() != 1) return {};
    if (n.results[0].element == dtype::float32) return n.constant.elements<float>()[0];
    if (n.results[0].element == dtype::float64) return n.constant.elements<double>()[0];
    return {};
  }
  bool is_bias(value_id v, const node& target) const {
    const shape &b = p_.type(v).dims, &y = target.results[0].dims;
    if (form(v) == layout::uniform) return false;
    int axis = is(target, "conv2d") ? 1 : y.rank - 1;
    for (int i = 0; i < b.rank; ++i) {
      int k = i + y.rank - b.rank;
      if (b.at(i) != (k == axis ? y.at(axis) : 1)) return false;
    }
    return b.rank >= y.rank - axis && b.size() == y.at(axis);
  }
  void absorb_epilogues() {
    absorbed_.assign(p_.nodes().size(), nobody);
    if (!options_.fuse_epilogues) return;
    for (std::size_t i = 0; i < p_.nodes().size(); ++i) {
      if (!needed_[i]) continue;
      const node& n = p_.nodes()[i];
      if (!is(n, "matmul") && !is(n, "conv2d")) continue;
      item it;
      it.nodes = {static_cast<std::int32_t>(i)};
      it.result = {static_cast<std::int32_t>(i), 0};
      bool blocked = form(it.result) == layout::blocked;
      while (!it.tail.clamp) {
        const auto& u = uses(it.result);
        if (u.root || u.nodes.size() != 1) break;
        auto next = u.nodes[0];
        const node& c = p_.at(next);
        // What joins a blocked convolution becomes blocked with it.
        if (c.results[0] != n.results[0] || (!blocked && form({next, 0}) != form(it.result))) break;
        if (is(c, "add")) {
          value_id other = c.inputs[0] == it.result ? c.inputs[1] : c.inputs[0];
          if (other == it.result) break;
          if (!it.tail.bias && !it.tail.residual && is_bias(other, n)) it.tail.bias = other;
          else if (!it.tail.residual && p_.type(other) == n.results[0] && form(other) != layout::uniform && (is(n, "matmul") || blocked) && before(other.node, static_cast<std::int32_t>(i))) it.tail.residual = other;
          else break;
          if (other == it.tail.bias && !before(other.node, static_cast<std::int32_t>(i))) { it.tail.bias = {}; break; }
        } else if (is(c, "relu")) {
          it.tail.clamp = true;
          it.tail.low = 0;
        } else if (is(c, "clamp") && c.inputs[0] == it.result && number_of(c.inputs[1]) && number_of(c.inputs[2]) && (!blocked || *number_of(c.inputs[1]) <= 0)) {
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
  // Whether a value can be ready before node `n`: it does not depend on it.
  bool before(std::int32_t v, std::int32_t n) const {
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
  // A bias may have stopped the blocked layout at the addition; with it absorbed, what follows can be blocked too.
  void rederive_layouts() {
    auto kept = form_;
    choose_layouts();
    for (auto& [v, f] : kept) form_[v] = f;
  }

  // ---- elementwise chains ----
  struct group { std::vector<std::int32_t> nodes; std::set<value_id> operands; shape dims; layout form; std::size_t results; };
  void group_elementwise() {
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
  bool stays_inside(std::int32_t i, const std::vector<std::int32_t>& nodes) const {
    const auto& u = uses({i, 0});
    if (u.root) return false;
    for (auto c : u.nodes)
      if (!std::binary_search(nodes.begin(), nodes.end(), c)) return false;
    return true;
  }
  int most_temporaries(const std::vector<std::int32_t>& nodes) const {
    int alive = 0, most = 0;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      if (stays_inside(nodes[k], nodes)) most = std::max(most, ++alive);
      for (std::size_t q = 0; q < k; ++q)
        if (stays_inside(nodes[q], nodes) && uses({nodes[q], 0}).nodes.back() == nodes[k]) --alive;
    }
    return most;
  }

  // ---- order ----
  void schedule() {
    std::vector<std::int32_t> late;
    for (const auto& a : p_.assignments()) late.push_back(a.value.node);
    for (const auto& o : p_.outputs()) visit(o.value.node);
    // Everything that the assigned values need comes before the first of them: assignments run last.
    for (auto n : late)
      for (auto d : dependencies_of_item(n))
        if (std::find(late.begin(), late.end(), d.node) == late.end()) visit(d.node);
    for (auto n : late) visit(n);
  }
  std::vector<value_id> dependencies_of_item(std::int32_t n) const {
    std::vector<value_id> d;
    const node& at = p_.at(n);
    if (at.kind != node_kind::operation) return d;
    auto take = [&](std::int32_t member) {
      const node& m = p_.at(member);
      for (std::size_t k = 0; k < m.inputs.size(); ++k)
        if (!shape_only(m, k)) d.push_back(m.inputs[k]);
    };
    auto owner = absorbed_[static_cast<std::size_t>(n)] != nobody ? absorbed_[static_cast<std::size_t>(n)] : n;
    if (auto it = absorbing_.find(owner); it != absorbing_.end()) {
      take(owner);
      if (it->second.tail.bias) d.push_back(it->second.tail.bias);
      if (it->second.tail.residual) d.push_back(it->second.tail.residual);
    } else if (auto g = group_of_[static_cast<std::size_t>(n)]; g != nobody) {
      for (auto m : groups_[static_cast<std::size_t>(g)].nodes) take(m);
      std::erase_if(d, [&](value_id v) { return group_of_[static_cast<std::size_t>(v.node)] == g; });
    } else take(n);
    return d;
  }
  void visit(std::int32_t root) {
    std::vector<std::int32_t> stack{root};
    while (!stack.empty()) {
      auto n = stack.back();
      const node& at = p_.at(n);
      if (at.kind != node_kind::operation || item_of_[static_cast<std::size_t>(n)] != nobody) { stack.pop_back(); continue; }
      bool ready = true;
      for (auto d : dependencies_of_item(n))
        if (p_.at(d).kind == node_kind::operation && item_of_[static_cast<std::size_t>(d.node)] == nobody) { stack.push_back(d.node); ready = false; }
      if (!ready) continue;
      stack.pop_back();
      append(n);
    }
  }
  void append(std::int32_t n) {
    item it;
    auto owner = absorbed_[static_cast<std::size_t>(n)] != nobody ? absorbed_[static_cast<std::size_t>(n)] : n;
    if (auto found = absorbing_.find(owner); found != absorbing_.end()) {
      it = found->second;
      it.wanted = wanted_by(p_.at(owner));
      reorder_operands(p_.at(owner), it.wanted);
      if (it.tail.bias) reorder(it.tail.bias, layout::plain);
      if (it.tail.residual) reorder(it.tail.residual, form(it.result));
    } else if (auto g = group_of_[static_cast<std::size_t>(n)]; g != nobody) {
      it.what = item::kind::chain;
      it.nodes = groups_[static_cast<std::size_t>(g)].nodes;
      it.result = {it.nodes.back(), 0};
      for (auto m : it.nodes) reorder_operands(p_.at(m), wanted_by(p_.at(m)));
    } else {
      it.nodes = {n};
      it.result = {n, 0};
      it.wanted = wanted_by(p_.at(n));
      reorder_operands(p_.at(n), it.wanted);
    }
    auto index = static_cast<std::int32_t>(items_.size());
    for (auto m : it.nodes) item_of_[static_cast<std::size_t>(m)] = index;
    items_.push_back(std::move(it));
  }
  void reorder_operands(const node& n, const std::vector<layout>& wanted) {
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (!shape_only(n, k)) reorder(n.inputs[k], wanted[k]);
  }
  void reorder(value_id v, layout to) {
    if (form(v) == to || converted_.contains({v, to})) return;
    if (form(v) == layout::blocked && (to == layout::uniform)) return;
    item it;
    it.what = item::kind::reorder;
    it.result = v;
    it.to = to;
    converted_[{v, to}] = nobody;
    items_.push_back(std::move(it));
  }

  // ---- memory ----
  std::int32_t new_block(std::size_t bytes) {
    virtual_.push_back({buffer_kind::arena, 0, bytes});
    return static_cast<std::int32_t>(virtual_.size()) - 1;
  }
  std::int32_t external(buffer_kind kind, std::int32_t index, std::size_t bytes) {
    for (std::size_t i = 0; i < virtual_.size(); ++i)
      if (virtual_[i].kind == kind && virtual_[i].index == index && kind != buffer_kind::arena) return static_cast<std::int32_t>(i);
    virtual_.push_back({kind, index, bytes});
    return static_cast<std::int32_t>(virtual_.size()) - 1;
  }
  void touch(std::int32_t b) {
    auto& block = virtual_[static_cast<std::size_t>(root_block(b))];
    if (block.first < 0) block.first = now_;
    block.last = std::max(block.last, now_);
  }
  std::int32_t root_block(std::int32_t b) const {
    while (virtual_[static_cast<std::size_t>(b)].same_as >= 0) b = virtual_[static_cast<std::size_t>(b)].same_as;
    return b;
  }
  // A result that is only another view of an operand: the operand and the bytes between them.
  std::optional<std::pair<value_id, std::int64_t>> viewed(value_id v) const {
    const node& n = p_.at(v);
    if (n.kind != node_kind::operation || group_of_[static_cast<std::size_t>(v.node)] != nobody || absorbed_[static_cast<std::size_t>(v.node)] != nobody) return {};
    if (n.op->alias >= 0) {
      value_id of = n.inputs[static_cast<std::size_t>(n.op->alias)];
      return form(of) == layout::uniform ? std::nullopt : std::optional(std::pair{of, std::int64_t(0)});
    }
    if (is(n, "slice")) {
      const auto& a = *static_cast<const slice_attributes*>(n.attributes.get());
      const shape& s = p_.type(n.inputs[0]).dims;
      int axis = detail::normal_axis(static_cast<int>(a.axis), s.rank);
      if (a.step == 1 && s.size(0, axis) == 1 && form(n.inputs[0]) == layout::plain)
        return std::pair{n.inputs[0], detail::resolve(a, s.at(axis)).first * s.size(axis + 1, s.rank) * static_cast<std::int64_t>(size_of(n.results[0].element))};
    }
    return {};
  }
  buffer_ref home(value_id v) {
    if (auto view = viewed(v)) {
      auto base = read(view->first, layout::plain);
      return base.at(view->second);
    }
    if (auto h = home_.find(v); h != home_.end()) return {h->second, 0, form(v)};
    const node& n = p_.at(v);
    std::int32_t b;
    if (n.kind == node_kind::input) {
      const auto& all = p_.inputs();
      b = external(buffer_kind::input, static_cast<std::int32_t>(std::find(all.begin(), all.end(), v.node) - all.begin()), bytes_of(v, form(v)));
    } else if (n.kind == node_kind::state) {
      b = external(buffer_kind::state, state_index(v.node), bytes_of(v, layout::plain));
    } else if (n.kind == node_kind::constant) {
      b = external(buffer_kind::constant, static_cast<std::int32_t>(plan_.constants_.size()), bytes_of(v, layout::plain));
      plan_.constants_.push_back(n.constant);
    } else {
      b = new_block(bytes_of(v, form(v)));
    }
    home_[v] = b;
    return {b, 0, form(v)};
  }
  buffer_ref read(value_id v, layout wanted) {
    buffer_ref r;
    if (wanted != form(v)) {
      auto c = converted_.find({v, wanted});
      if (c != converted_.end() && c->second >= 0) r = {c->second, 0, wanted};
      else r = home(v);
    } else r = home(v);
    touch(r.buffer);
    return r;
  }
  buffer_ref write(value_id v) {
    auto r = home(v);
    touch(r.buffer);
    return r;
  }

  // Results that leave the plan are written where they belong: an output into the caller's memory, an assigned value
  // into its state if nobody reads the old value afterwards.
  void place_roots() {
    for (std::size_t o = 0; o < p_.outputs().size(); ++o) {
      value_id v = p_.outputs()[o].value;
      while (auto view = viewed(v)) {
        if (view->second != 0 || bytes_of(view->first, form(view->first)) != bytes_of(v, layout::plain)) break;
        v = view->first;
      }
      if (p_.at(v).kind == node_kind::operation && !viewed(v) && !home_.contains(v) && form(v) == layout::plain) {
        home_[v] = external(buffer_kind::output, static_cast<std::int32_t>(o), bytes_of(v, layout::plain));
        if (v == p_.outputs()[o].value || viewed(p_.outputs()[o].value)) placed_outputs_.insert(o);
      }
    }
    for (const auto& a : p_.assignments()) {
      plan_.assigned_.push_back(state_index(a.state));
      if (p_.at(a.value).kind != node_kind::operation || viewed(a.value) || home_.contains(a.value) || form(a.value) != layout::plain) continue;
      auto mine = item_of_[static_cast<std::size_t>(a.value.node)];
      bool safe = true;
      for (std::size_t i = 0; i < items_.size() && safe; ++i) safe = static_cast<std::int32_t>(i) < mine || !reads_state(items_[i], a.state, static_cast<std::int32_t>(i) == mine, p_.type(a.value).dims);
      if (!safe) continue;
      home_[a.value] = external(buffer_kind::state, state_index(a.state), bytes_of(a.value, layout::plain));
      placed_assignments_.insert(a.state);
      commit_item_ = std::min(commit_item_, mine);
    }
  }
  value_id base_of(value_id v) const {
    while (auto view = viewed(v)) v = view->first;
    return v;
  }
  // Whether an item reads a state's old value; an elementwise reader that itself replaces it does no harm.
  bool reads_state(const item& it, std::int32_t state, bool replaces, const shape& dims) const {
    auto harmful = [&](value_id v) { return base_of(v).node == state && !(replaces && it.what == item::kind::chain && p_.type(v).dims == dims && v.node == state); };
    if (it.what == item::kind::reorder) return harmful(it.result);
    for (auto m : it.nodes) {
      const node& n = p_.at(m);
      for (std::size_t k = 0; k < n.inputs.size(); ++k)
        if (!shape_only(n, k) && harmful(n.inputs[k])) return true;
    }
    return (it.tail.bias && harmful(it.tail.bias)) || (it.tail.residual && harmful(it.tail.residual));
  }

  // ---- steps ----
  void emit_items() {
    for (std::size_t i = 0; i < items_.size(); ++i) {
      now_ = static_cast<std::int32_t>(i) + 1;
      current_ = &items_[i];
      if (static_cast<std::int32_t>(i) == commit_item_) plan_.commit_stage_ = plan_.stages_.size();
      auto first = pending_.size();
      if (current_->what == item::kind::reorder) emit_reorder();
      else if (current_->what == item::kind::chain) emit_chain();
      else if (!viewed({current_->nodes[0], 0})) {
        if (!of().op->emit) {
          text t;
          t << of().op->name << ": this operation cannot be run";
          detail::raise(error_kind::state, t);
        }
        of().op->emit(*this);
      }
      stage();
      record(pending_.size() - first);
    }
    if (commit_item_ == never) plan_.commit_stage_ = plan_.stages_.size();
  }
  static constexpr std::int32_t never = std::numeric_limits<std::int32_t>::max();

  void record(std::size_t steps) {
    if (steps == 0) return;
    plan_line line{{}, p_.type(current_->result), form(current_->result), 0, 0, static_cast<std::uint32_t>(steps)};
    text t;
    if (current_->what == item::kind::reorder) {
      t << "reorder to " << (current_->to == layout::blocked ? "blocked" : "plain");
      line.form = current_->to;
      line.bytes = bytes_of(current_->result, form(current_->result)) + bytes_of(current_->result, current_->to);
      ++plan_.cost_.reorders;
    } else {
      for (std::size_t k = 0; k < current_->nodes.size(); ++k) {
        const node& n = p_.at(current_->nodes[k]);
        t << (k ? " + " : "") << n.op->name;
        std::vector<tensor_type> in;
        for (auto v : n.inputs) in.push_back(p_.type(v));
        line.flops += n.op->flops(n.attributes.get(), in, n.results);
        for (std::size_t q = 0; q < n.inputs.size(); ++q)
          if (!shape_only(n, q) && item_of_[static_cast<std::size_t>(n.inputs[q].node)] != now_ - 1) line.bytes += bytes_of(n.inputs[q], form(n.inputs[q]));
      }
      line.bytes += bytes_of(current_->result, form(current_->result));
    }
    line.what = t.string();
    plan_.cost_.flops += line.flops;
    plan_.cost_.bytes += line.bytes;
    plan_.lines_.push_back(std::move(line));
  }

  void emit_reorder() {
    value_id v = current_->result;
    const shape& s = p_.type(v).dims;
    auto from = read(v, form(v));
    auto b = new_block(bytes_of(v, current_->to));
    converted_[{v, current_->to}] = b;
    touch(b);
    buffer_ref to{b, 0, current_->to};
    if (from.form == layout::uniform || current_->to == layout::uniform) {      // one element spread over all
      kernels::copy_args a{};
      a.axes = 1;
      a.size = static_cast<std::int32_t>(size_of(p_.type(v).element));
      a.extent[0] = s.size();
      a.out_stride[0] = 1;
      if (s.size()) step(table_.reduce->copy, a, {{&a.in, from}, {&a.out, to}});
      return;
    }
    auto run = current_->to == layout::blocked ? table_.conv->to_blocked : table_.conv->from_blocked;
    auto plain_image = s.size(1, 4) * 4, blocked_image = static_cast<std::int64_t>(bytes_of(v, layout::blocked)) / std::max<std::int64_t>(s.at(0), 1);
    emission::cut(s.at(0), static_cast<double>(s.size(1, 4)) * 2, [&](std::int64_t first, std::int64_t count) {
      kernels::reorder_args a{};
      a.images = count;
      a.channels = s.at(1);
      a.pixels = s.at(2) * s.at(3);
      bool blocks = current_->to == layout::blocked;
      step(run, a, {{&a.in, from.at(first * (blocks ? plain_image : blocked_image))}, {&a.out, to.at(first * (blocks ? blocked_image : plain_image))}});
    });
  }

  kernels::map_function function_of(const node& n) const {
    const auto& e = *table_.elementwise;
    auto in = [&](std::size_t i) { return static_cast<std::size_t>(p_.type(n.inputs[i]).element); };
    kernels::map_function f = nullptr;
    if (is(n, "cast")) f = (*e.casts)[in(0)][static_cast<std::size_t>(n.results[0].element)];
    else f = (*e.maps)[n.op->map()][is(n, "where") ? in(1) : in(0)];
    if (!f) {
      text t;
      t << n.op->name << ": not available for " << p_.type(n.inputs[0]).element;
      detail::raise(error_kind::type, t);
    }
    return f;
  }

  // An operand or result of a chain, with its strides over the iteration space in elements.
  struct chain_slot { value_id v; buffer_ref at; std::int64_t stride[max_rank]; std::int64_t size; bool written; };

  void emit_chain() {
    const auto& nodes = current_->nodes;
    bool blocked = form(current_->result) == layout::blocked;
    shape space = p_.type(current_->result).dims;
    if (blocked) space = shape{dim(static_cast<std::int64_t>(bytes_of(current_->result, layout::blocked)) / static_cast<std::int64_t>(size_of(p_.type(current_->result).element)))};
    if (space.size() == 0) return;

    std::vector<chain_slot> slots;
    auto slot_of = [&](value_id v, bool written) -> std::size_t {
      for (std::size_t i = 0; i < slots.size(); ++i)
        if (slots[i].v == v && slots[i].written == written) return i;
      const tensor_type& t = p_.type(v);
      chain_slot s{v, {}, {}, static_cast<std::int64_t>(size_of(t.element)), written};
      bool one = form(v) == layout::uniform || t.dims.size() == 1;
      if (blocked) s.stride[0] = one ? 0 : 1;
      else if (!one) {
        std::int64_t strides[max_rank]{};
        row_major_strides(t.dims, strides);
        for (int a = 0; a < space.rank; ++a) {
          int k = a - (space.rank - t.dims.rank);
          s.stride[a] = k < 0 || (t.dims.at(k) == 1 && space.at(a) != 1) ? 0 : strides[k];
        }
      }
      slots.push_back(s);
      return slots.size() - 1;
    };
    // Results that are read outside get memory; the others live in L1.
    for (auto m : nodes)
      for (auto in : p_.at(m).inputs)
        if (!std::binary_search(nodes.begin(), nodes.end(), in.node)) {
          auto i = slot_of(in, false);
          layout wanted = form(in) == layout::uniform ? layout::uniform : blocked && slots[i].stride[0] ? layout::blocked : layout::plain;
          slots[i].at = read(in, wanted);
        }
    for (auto m : nodes)
      if (!stays_inside(m, nodes)) {
        value_id v{m, 0};
        reuse_operand(v, slots);
        auto i = slot_of(v, true);
        slots[i].at = write(v);
      }

    // Neighbouring axes that every operand walks alike become one.
    std::vector<std::int64_t> extent;
    std::vector<int> axis_of;
    for (int a = 0; a < space.rank; ++a) {
      if (space.at(a) == 1) continue;
      bool merges = !extent.empty();
      for (const auto& s : slots) merges = merges && s.stride[axis_of.back()] == s.stride[a] * space.at(a);
      if (merges) {
        extent.back() *= space.at(a);
        axis_of.back() = a;
      } else {
        extent.push_back(space.at(a));
        axis_of.push_back(a);
      }
    }
    if (extent.empty()) { extent.push_back(1); axis_of.push_back(-1); }
    auto stride = [&](const chain_slot& s, std::size_t axis) { return axis_of[axis] < 0 ? std::int64_t(0) : s.stride[axis_of[axis]]; };

    // What fits in one tile needs no chain: each operation is a call, and what stays inside lives in the arena.
    if (extent.size() == 1 && (nodes.size() == 1 || extent[0] <= kernels::chain_tile)) {
      for (auto m : nodes) {
        const node& n = p_.at(m);
        auto place_of = [&](value_id v, bool written) -> std::pair<buffer_ref, std::int64_t> {
          for (std::size_t i = slots.size(); i-- > 0;)
            if (slots[i].v == v && (written || !slots[i].written || std::binary_search(nodes.begin(), nodes.end(), v.node))) return {slots[i].at, stride(slots[i], 0)};
          chain_slot s{v, temporary(static_cast<std::size_t>(extent[0]) * size_of(p_.type(v).element)), {}, static_cast<std::int64_t>(size_of(p_.type(v).element)), true};
          if (axis_of[0] >= 0) s.stride[axis_of[0]] = 1;
          slots.push_back(s);
          return {s.at, 1};
        };
        auto run = function_of(n);
        emission::cut(extent[0], 8, [&](std::int64_t first, std::int64_t count) {
          kernels::map_args a{};
          a.run = run;
          a.n = count;
          std::vector<address> where;
          for (std::size_t k = 0; k < n.inputs.size(); ++k) {
            auto [at, moves] = place_of(n.inputs[k], false);
            a.steps |= static_cast<unsigned>(moves != 0) << k;
            where.push_back({&a.in[k], at.at(moves ? first * static_cast<std::int64_t>(size_of(p_.type(n.inputs[k]).element)) : 0)});
          }
          where.push_back({&a.out, place_of({m, 0}, true).first.at(first * static_cast<std::int64_t>(size_of(n.results[0].element)))});
          add(table_.elementwise->map, &a, sizeof a, where, 0);
        }, 400e3, 64);
        stage();
      }
      return;
    }

    kernels::chain_args c{};
    c.operand_count = static_cast<std::int32_t>(slots.size());
    c.step_count = static_cast<std::int32_t>(nodes.size());
    // Temporaries are handed out and taken back as their last reader passes.
    std::map<std::int32_t, std::int8_t> temporary;
    std::vector<std::int8_t> free;
    for (auto t = static_cast<std::int8_t>(kernels::chain_operands + kernels::chain_temporaries); t-- > kernels::chain_operands;) free.push_back(t);
    for (std::size_t k = 0; k < nodes.size(); ++k) {
      const node& n = p_.at(nodes[k]);
      auto& s = c.step[k];
      s.run = function_of(n);
      s.in[0] = s.in[1] = s.in[2] = -1;
      for (std::size_t q = 0; q < n.inputs.size(); ++q) {
        value_id v = n.inputs[q];
        if (!std::binary_search(nodes.begin(), nodes.end(), v.node)) s.in[q] = static_cast<std::int8_t>(slot_of(v, false));
        else if (auto t = temporary.find(v.node); t != temporary.end()) s.in[q] = t->second;
        else s.in[q] = static_cast<std::int8_t>(slot_of(v, true));
      }
      if (stays_inside(nodes[k], nodes)) {
        s.out = free.back();
        free.pop_back();
        temporary[nodes[k]] = s.out;
      } else s.out = static_cast<std::int8_t>(slot_of({nodes[k], 0}, true));
      for (std::size_t q = 0; q < k; ++q)
        if (auto t = temporary.find(nodes[q]); t != temporary.end() && uses({nodes[q], 0}).nodes.back() == nodes[k]) free.push_back(t->second);
    }
    for (std::size_t i = 0; i < slots.size(); ++i) c.operand[i].size = static_cast<std::int32_t>(slots[i].size);

    // The innermost axis runs in tiles, three more in the kernel; whatever is left is written out.
    std::size_t axes = extent.size(), inside = std::min<std::size_t>(axes, kernels::chain_axes), outside = axes - inside;
    for (int a = 0; a < kernels::chain_axes; ++a) c.extent[a] = 1;
    for (std::size_t a = 0; a < inside; ++a) {
      auto to = static_cast<std::size_t>(kernels::chain_axes) - inside + a;
      c.extent[to] = extent[outside + a];
      for (std::size_t i = 0; i < slots.size(); ++i) {
        if (to + 1 == kernels::chain_axes) c.operand[i].inner = stride(slots[i], outside + a) != 0;
        else c.operand[i].outer[to] = stride(slots[i], outside + a) * slots[i].size;
      }
    }
    std::vector<std::int64_t> index(outside);
    std::int64_t rounds = 1;
    for (std::size_t a = 0; a < outside; ++a) rounds *= extent[a];
    for (std::int64_t r = 0; r < rounds; ++r) {
      std::size_t split = static_cast<std::size_t>(kernels::chain_axes) - inside;      // the outermost axis that the kernel walks
      double cost = 4.0 * static_cast<double>(nodes.size());
      for (auto a = split + 1; a < static_cast<std::size_t>(kernels::chain_axes); ++a) cost *= static_cast<double>(c.extent[a]);
      emission::cut(c.extent[split], cost, [&](std::int64_t first, std::int64_t count) {
        kernels::chain_args part = c;
        part.extent[split] = count;
        std::vector<address> where;
        for (std::size_t i = 0; i < slots.size(); ++i) {
          std::int64_t at = 0;
          for (std::size_t a = 0; a < outside; ++a) at += index[a] * stride(slots[i], a) * slots[i].size;
          at += split + 1 == static_cast<std::size_t>(kernels::chain_axes) ? first * stride(slots[i], axes - 1) * slots[i].size : first * c.operand[i].outer[split];
          where.push_back({&part.operand[i].data, slots[i].at.at(at)});
        }
        add(table_.elementwise->chain, &part, sizeof part, where, kernels::chain_scratch_bytes);
      }, 400e3, split + 1 == static_cast<std::size_t>(kernels::chain_axes) ? 64 : 1);
      for (auto a = outside; a-- > 0 && ++index[a] == extent[a];) index[a] = 0;
    }
  }
  // A result may overwrite an operand of the same size and shape that nobody reads afterwards.
  void reuse_operand(value_id result, const std::vector<chain_slot>& slots) {
    if (!options_.reuse_memory || home_.contains(result)) return;
    for (const auto& s : slots) {
      if (s.written || viewed(s.v) || p_.at(s.v).kind != node_kind::operation || form(s.v) != form(result)) continue;
      if (p_.type(s.v) != p_.type(result) || uses(s.v).root || !last_read_here(s.v)) continue;
      auto h = home_.find(s.v);
      if (h == home_.end() || virtual_[static_cast<std::size_t>(h->second)].kind != buffer_kind::arena || reused_.contains(h->second)) continue;
      reused_.insert(h->second);
      auto b = new_block(bytes_of(result, form(result)));
      virtual_[static_cast<std::size_t>(b)].same_as = h->second;
      home_[result] = b;
      return;
    }
  }
  bool last_read_here(value_id v) const {
    for (auto c : uses(v).nodes) {
      if (item_of_[static_cast<std::size_t>(c)] > now_ - 1 || item_of_[static_cast<std::size_t>(c)] == nobody) return false;
      if (viewed({c, 0})) return false;
    }
    return !converted_.contains({v, layout::plain}) && !converted_.contains({v, layout::blocked});
  }

  void copy_whole(value_id v, buffer_ref to) {
    auto from = read(v, layout::plain);
    kernels::copy_args a{};
    a.axes = 1;
    a.size = static_cast<std::int32_t>(size_of(p_.type(v).element));
    a.extent[0] = p_.type(v).dims.size();
    a.in_stride[0] = form(v) == layout::uniform && from.form == layout::uniform ? 0 : 1;
    a.out_stride[0] = 1;
    if (a.extent[0]) step(table_.reduce->copy, a, {{&a.in, from}, {&a.out, to}});
  }
  void emit_copies() {
    // Old values first: an output may show a state as it was.
    std::vector<std::size_t> outputs;
    for (std::size_t o = 0; o < p_.outputs().size(); ++o)
      if (!placed_outputs_.contains(o)) outputs.push_back(o);
    item it;
    current_ = &it;
    for (auto o : outputs) {
      value_id v = p_.outputs()[o].value;
      if (form(v) == layout::blocked) {
        it = {};
        it.what = item::kind::reorder;
        it.result = v;
        it.to = layout::plain;
        ++now_;
        if (!converted_.contains({v, layout::plain})) emit_reorder();
        stage();
        record(1);
      }
      ++now_;
      copy_whole(v, {external(buffer_kind::output, static_cast<std::int32_t>(o), bytes_of(v, layout::plain)), 0, layout::plain});
    }
    stage();
    for (const auto& a : p_.assignments()) {
      if (placed_assignments_.contains(a.state)) continue;
      if (commit_item_ == never) { plan_.commit_stage_ = plan_.stages_.size(); commit_item_ = 0; }
      ++now_;
      copy_whole(a.value, home({a.state, 0}));
    }
    stage();
    current_ = nullptr;
  }

  void finish() {
    if (status_ >= 0) {
      auto& s = virtual_[static_cast<std::size_t>(status_)];
      s.bytes = plan_.checks_.size() * 8;
      s.last = now_ + 1;
    }
    std::vector<memory_block> blocks;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < virtual_.size(); ++i) {
      auto& b = virtual_[i];
      if (b.kind != buffer_kind::arena || b.same_as >= 0 || b.first < 0) continue;
      blocks.push_back({b.bytes, b.first, b.last, 0});
      owner.push_back(i);
    }
    plan_.arena_bytes_ = place_blocks({blocks.data(), blocks.size()}, plan_.cost_.live_peak);
    std::vector<std::int64_t> offset(virtual_.size());
    for (std::size_t k = 0; k < blocks.size(); ++k) offset[owner[k]] = blocks[k].offset;
    for (std::size_t i = 0; i < virtual_.size(); ++i) {
      const auto& b = virtual_[i];
      plan_.buffers_.push_back({b.kind, b.index, offset[static_cast<std::size_t>(root_block(static_cast<std::int32_t>(i)))], b.bytes});
    }
    if (status_ >= 0)
      for (auto& c : plan_.checks_) c.offset += offset[static_cast<std::size_t>(status_)];
    plan_.steps_ = std::move(pending_);
    for (auto& k : plan_.packs_) {
      k.steps.first += static_cast<std::uint32_t>(plan_.steps_.size());
      plan_.cost_.packed += k.bytes;
    }
    plan_.steps_.insert(plan_.steps_.end(), pack_steps_.begin(), pack_steps_.end());
    plan_.scratch_bytes_ = (plan_.scratch_bytes_ + 63) / 64 * 64;
    plan_.cost_.arena = plan_.arena_bytes_;
    plan_.cost_.scratch = plan_.scratch_bytes_;
    plan_.cost_.steps = plan_.steps_.size() - pack_steps_.size();
    plan_.cost_.stages = plan_.stages_.size();
    // Addresses of one buffer stand together, so that binding one is one run over its addresses.
    std::stable_sort(plan_.relocations_.begin(), plan_.relocations_.end(), [](const relocation& a, const relocation& b) { return a.buffer < b.buffer; });
  }

  plan& plan_;
  const program& p_;
  lamina::isa isa_;
  const pass_options& options_;
  const kernels::table& table_;
  bool training_ = false, packing_ = false;
  std::vector<char> needed_;
  std::map<value_id, use_list> uses_;
  std::map<value_id, layout> form_;
  std::vector<std::int32_t> absorbed_, group_of_, item_of_;
  std::map<std::int32_t, item> absorbing_;
  std::vector<group> groups_;
  std::vector<item> items_;
  std::map<std::pair<value_id, layout>, std::int32_t> converted_;
  std::vector<block> virtual_;
  std::map<value_id, std::int32_t> home_;
  std::set<std::int32_t> reused_;
  std::set<std::size_t> placed_outputs_;
  std::set<std::int32_t> placed_assignments_;
  std::vector<plan_step> pending_, pack_steps_;
  std::size_t stage_first_ = 0;
  std::int32_t now_ = 0, commit_item_ = never, status_ = -1;
  item* current_ = nullptr;
};

plan::plan(const program& p, lamina::isa set, const pass_options& options, pass_counters counters) : isa_(set), counters_(counters) {
  planner(*this, p, set, options).run();
}

std::string plan::explain() const {
  text t;
  auto pad = [&](std::string s, std::size_t width, bool right) {
    if (right) while (s.size() < width) s.insert(s.begin(), ' ');
    else s.resize(std::max(width, s.size()), ' ');
    return s;
  };
  auto spell = [](auto v) { text x; x << v; return x.string(); };
  t << "plan for " << name_of(isa_) << "\n";
  t << pad("operation", 44, false) << pad("result", 26, false) << pad("layout", 9, false) << pad("flops", 14, true) << pad("bytes", 12, true) << pad("steps", 7, true) << "\n";
  for (const auto& l : lines_)
    t << pad(l.what, 44, false) << " " << pad(spell(l.result), 25, false) << pad(l.form == layout::blocked ? "blocked" : "plain", 9, false)
      << pad(spell(static_cast<std::int64_t>(l.flops)), 14, true) << pad(spell(l.bytes), 12, true) << pad(spell(l.steps), 7, true) << "\n";
  t << "total: " << static_cast<std::int64_t>(cost_.flops) << " flops, " << cost_.bytes << " bytes moved, " << cost_.steps << " steps in " << cost_.stages << " stages, "
    << cost_.reorders << " reorders\n";
  t << "memory: arena " << cost_.arena << " bytes (live peak " << cost_.live_peak << "), scratch " << cost_.scratch << " bytes, packed weights " << cost_.packed << " bytes\n";
  t << "rewritten: " << counters_.common << " common, " << counters_.folded << " folded, " << counters_.simplified << " simplified, " << counters_.inlined_calls
    << " calls, " << counters_.fused_elementwise << " fused elementwise, " << counters_.fused_epilogues << " in epilogues\n";
  return t.string();
}

}  // namespace lamina
