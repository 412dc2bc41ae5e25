// Order and memory: which item runs when, where each result lives, what leaves the plan.
module;
#include "../kernels/table.h"
module lamina:plan.arrange.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :op;
import :op.control;
import :op.elementwise;
import :op.nn;
import :op.shape;
import :op.view;
import :passes;
import :plan;
import :planner;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

void planner::schedule() {
  std::vector<std::int32_t> late;
  std::vector<char> is_late(p_.nodes().size());
  for (const auto& a : p_.assignments()) {
    late.push_back(a.value.node);
    is_late[static_cast<std::size_t>(a.value.node)] = 1;
  }
  for (const auto& o : p_.outputs()) visit(o.value.node);
  // Everything that the assigned values need comes before the first of them: assignments run last.
  for (auto n : late)
    for (auto d : dependencies_of_item(n))
      if (!is_late[static_cast<std::size_t>(d.node)]) visit(d.node);
  late_ = true;
  for (auto n : late) visit(n);
  put_once_first();
  number_items();
  if (options_.parallel && !first_invariant_) into_levels();
}

void planner::number_items() {
  for (std::size_t i = 0; i < items_.size(); ++i) {
    items_[i].order = items_[i].level = static_cast<std::int32_t>(i);
    if (items_[i].what == item::kind::reorder) continue;
    for (auto m : items_[i].nodes) item_of_[static_cast<std::size_t>(m)] = static_cast<std::int32_t>(i);
  }
}

// Whether an item reads a value of which this is true.
bool planner::reads(const item& it, const std::function<bool(value_id)>& is) const {
  if (it.what == item::kind::reorder) return is(it.result);
  for (auto m : it.nodes) {
    const node& n = p_.at(m);
    for (std::size_t k = 0; k < n.inputs.size(); ++k)
      if (n.reads_data(k) && is(n.inputs[k])) return true;
  }
  return (it.tail.bias && is(it.tail.bias)) || (it.tail.residual && is(it.tail.residual));
}

// An item runs as soon as its operands are there, but one that needs no other item just before the first that needs it. What
// is for assigned values alone comes after everything else; a state is written after those that read it, and after
// everything that may fail.
void planner::into_levels() {
  const auto count = items_.size();
  std::map<value_id, std::vector<std::size_t>> changed_form;
  std::vector<std::vector<std::size_t>> needs(count);
  std::vector<char> runs(count, 1);  // a view of another result takes no time
  for (std::size_t i = 0; i < count; ++i) {
    const item& it = items_[i];
    runs[i] = it.what != item::kind::operation || !viewed({it.nodes[0], 0});
    reads(it, [&](value_id v) {
      if (auto from = item_of_[static_cast<std::size_t>(v.node)];
          p_.at(v).kind == node_kind::operation && from != static_cast<std::int32_t>(i))
        needs[i].push_back(static_cast<std::size_t>(from));
      if (auto c = changed_form.find(v); c != changed_form.end())
        needs[i].insert(needs[i].end(), c->second.begin(), c->second.end());
      return false;
    });
    if (it.what == item::kind::reorder) changed_form[it.result].push_back(i);
  }
  std::map<std::int32_t, std::vector<std::int32_t>> states_of;  // by the node of the value that they become
  for (const auto& a : p_.assignments()) states_of[a.value.node].push_back(a.state);
  const auto assigned_by = [&](const item& it) {
    std::vector<std::int32_t> states;
    if (it.what == item::kind::reorder) return states;
    for (auto m : it.nodes)
      if (const auto of = states_of.find(m); of != states_of.end())
        states.insert(states.end(), of->second.begin(), of->second.end());
    return states;
  };

  std::map<std::int32_t, std::int32_t> last_reader;  // of each state
  std::int32_t begin = 0, last = -1, last_failure = -1;
  for (std::size_t i = 0; i < count; ++i) {
    item& it = items_[i];
    if (it.once || (i > 0 && (items_[i - 1].once || it.late != items_[i - 1].late))) begin = last + 1;
    it.level = begin;
    for (auto d : needs[i]) it.level = std::max(it.level, items_[d].level + runs[i]);
    for (auto s : assigned_by(it)) {
      it.level = std::max(it.level, last_failure + 1);
      if (auto r = last_reader.find(s); r != last_reader.end()) it.level = std::max(it.level, r->second + 1);
    }
    reads(it, [&](value_id v) {
      if (const auto base = base_of(v); p_.at(base).kind == node_kind::state) {
        auto& r = last_reader.try_emplace(base.node, -1).first->second;
        r = std::max(r, it.level);
      }
      return false;
    });
    if (may_fail(it)) last_failure = std::max(last_failure, it.level);
    last = std::max(last, it.level);
  }
  const auto is_assigned = [&](value_id v) { return p_.is_assigned(base_of(v).node); };
  std::vector<std::int32_t> first_use(count, never);
  for (auto i = count; i-- > 0;) {
    item& it = items_[i];
    const bool free = !it.once && !it.late && !reads(it, is_assigned);
    const bool source = free && needs[i].empty() && runs[i] && !may_fail(it) && assigned_by(it).empty();
    if ((source || (free && !runs[i])) && first_use[i] != never) it.level = std::max(it.level, first_use[i] - 1);
    for (auto d : needs[i]) first_use[d] = std::min(first_use[d], it.level + 1 - runs[i]);
  }
  std::stable_sort(items_.begin(), items_.end(), [](const item& a, const item& b) { return a.level < b.level; });
  for (std::size_t i = 0; i < count; ++i)
    if (items_[i].what != item::kind::reorder)
      for (auto m : items_[i].nodes) item_of_[static_cast<std::size_t>(m)] = static_cast<std::int32_t>(i);
}

bool planner::runs_once(const item& it) const {
  if (it.what != item::kind::chain || first_invariant_) return false;
  bool reads_states = false;
  for (auto m : it.nodes) {
    const node& n = p_.at(m);
    value_id made{m, 0};
    if (uses(made).root || form(made) != layout::plain || bytes_of(made, layout::plain) > max_once_bytes) return false;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      if (!n.reads_data(k)) continue;
      value_id base = base_of(n.inputs[k]);
      const node& from = p_.at(base);
      if (form(base) != layout::plain && form(base) != layout::uniform) return false;
      if (from.kind == node_kind::constant || std::binary_search(it.nodes.begin(), it.nodes.end(), base.node)) continue;
      if (from.kind == node_kind::state) {
        if (p_.is_assigned(base.node)) return false;
      } else if (from.kind != node_kind::operation ||
                 !items_[static_cast<std::size_t>(item_of_[static_cast<std::size_t>(base.node)])].once)
        return false;
      reads_states = true;
    }
  }
  return reads_states;
}

void planner::put_once_first() {
  bool any = false;
  for (auto& it : items_) any = (it.once = runs_once(it)) || any;
  if (!any) return;
  std::stable_sort(items_.begin(), items_.end(), [](const item& a, const item& b) { return a.once > b.once; });
}

std::vector<value_id> planner::dependencies_of_item(std::int32_t n) const {
  std::vector<value_id> d;
  const node& at = p_.at(n);
  if (at.kind != node_kind::operation) return d;
  auto take = [&](std::int32_t member) {
    const node& m = p_.at(member);
    for (std::size_t k = 0; k < m.inputs.size(); ++k)
      if (m.reads_data(k)) d.push_back(m.inputs[k]);
  };
  auto owner = absorbed_[static_cast<std::size_t>(n)] != no_node ? absorbed_[static_cast<std::size_t>(n)] : n;
  if (auto it = absorbing_.find(owner); it != absorbing_.end()) {
    take(owner);
    if (it->second.tail.bias) d.push_back(it->second.tail.bias);
    if (it->second.tail.residual) d.push_back(it->second.tail.residual);
  } else if (auto g = group_of_[static_cast<std::size_t>(n)]; g != no_node) {
    for (auto m : groups_[static_cast<std::size_t>(g)].nodes) take(m);
    std::erase_if(d, [&](value_id v) { return group_of_[static_cast<std::size_t>(v.node)] == g; });
  } else take(n);
  return d;
}

void planner::visit(std::int32_t root) {
  std::vector<std::int32_t> stack{root};
  while (!stack.empty()) {
    auto n = stack.back();
    const node& at = p_.at(n);
    if (at.kind != node_kind::operation || item_of_[static_cast<std::size_t>(n)] != no_node) {
      stack.pop_back();
      continue;
    }
    bool ready = true;
    for (auto d : dependencies_of_item(n))
      if (p_.at(d).kind == node_kind::operation && item_of_[static_cast<std::size_t>(d.node)] == no_node) {
        stack.push_back(d.node);
        ready = false;
      }
    if (!ready) continue;
    stack.pop_back();
    append(n);
  }
}

void planner::append(std::int32_t n) {
  item it;
  auto owner = absorbed_[static_cast<std::size_t>(n)] != no_node ? absorbed_[static_cast<std::size_t>(n)] : n;
  if (auto found = absorbing_.find(owner); found != absorbing_.end()) {
    it = found->second;
    it.wanted = wanted_by(p_.at(owner));
    reorder_operands(p_.at(owner), it.wanted);
    if (it.tail.bias) reorder(it.tail.bias, layout::plain);
    if (it.tail.residual) reorder(it.tail.residual, form(it.result));
  } else if (auto g = group_of_[static_cast<std::size_t>(n)]; g != no_node) {
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
  it.late = late_;
  auto index = static_cast<std::int32_t>(items_.size());
  for (auto m : it.nodes) item_of_[static_cast<std::size_t>(m)] = index;
  items_.push_back(std::move(it));
}

void planner::reorder_operands(const node& n, const std::vector<layout>& wanted) {
  for (std::size_t k = 0; k < n.inputs.size(); ++k)
    if (n.reads_data(k)) reorder(n.inputs[k], wanted[k]);
}

void planner::reorder(value_id v, layout to) {
  if (form(v) == to || converted_.contains({v, to})) return;
  if (form(v) == layout::blocked && (to == layout::uniform)) return;
  item it;
  it.what = item::kind::reorder;
  it.result = v;
  it.to = to;
  it.late = late_;
  converted_[{v, to}] = no_node;
  items_.push_back(std::move(it));
}

std::int32_t planner::new_block(std::size_t bytes) {
  virtual_.push_back({buffer_kind::arena, 0, bytes});
  return static_cast<std::int32_t>(virtual_.size()) - 1;
}

std::int32_t planner::external(buffer_kind kind, std::int32_t index, std::size_t bytes) {
  auto [at, fresh] = external_.try_emplace({kind, index}, static_cast<std::int32_t>(virtual_.size()));
  if (fresh) virtual_.push_back({kind, index, bytes});
  return at->second;
}

void planner::touch(std::int32_t b) {
  auto& block = virtual_[static_cast<std::size_t>(root_block(b))];
  if (block.first < 0) block.first = now_;
  block.last = std::max(block.last, now_);
}

std::int32_t planner::root_block(std::int32_t b) const {
  while (virtual_[static_cast<std::size_t>(b)].same_as >= 0) b = virtual_[static_cast<std::size_t>(b)].same_as;
  return b;
}

std::optional<std::pair<value_id, std::int64_t>> planner::viewed(value_id v) const {
  const node& n = p_.at(v);
  if (n.kind != node_kind::operation || group_of_[static_cast<std::size_t>(v.node)] != no_node ||
      absorbed_[static_cast<std::size_t>(v.node)] != no_node)
    return {};
  if (n.op->alias >= 0) {
    value_id of = n.inputs[static_cast<std::size_t>(n.op->alias)];
    return form(of) == layout::uniform ? std::nullopt : std::optional(std::pair{of, std::int64_t(0)});
  }
  if (!n.op->part_of || form(n.inputs[0]) != layout::plain) return {};
  const shape& whole = p_.type(n.inputs[0]).dims;
  const auto at = n.op->part_of(n.attributes.get(), whole);
  if (!at || whole.size(0, at->axis) != 1 ||  // its elements lie apart
      at->count * whole.size(at->axis + 1, whole.rank) != n.results[0].dims.size())
    return {};
  return std::pair{n.inputs[0], at->first * whole.size(at->axis + 1, whole.rank) *
                                    static_cast<std::int64_t>(size_of(n.results[0].element))};
}

buffer_ref planner::home(value_id v) {
  if (auto view = viewed(v)) {
    auto base = read(view->first, layout::plain);
    return base.at(view->second);
  }
  if (auto h = home_.find(v); h != home_.end()) return {h->second, 0, form(v)};
  const node& n = p_.at(v);
  std::int32_t b;
  if (n.kind == node_kind::input) {
    const auto& all = p_.inputs();
    b = external(buffer_kind::input,
                 static_cast<std::int32_t>(std::lower_bound(all.begin(), all.end(), v.node) - all.begin()),
                 bytes_of(v, form(v)));
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

buffer_ref planner::read(value_id v, layout wanted) {
  buffer_ref r;
  if (wanted != form(v)) {
    auto c = converted_.find({v, wanted});
    if (c != converted_.end() && c->second >= 0) r = {c->second, 0, wanted};
    else r = home(v);
  } else r = home(v);
  touch(r.buffer);
  return r;
}

buffer_ref planner::write(value_id v) {
  auto r = home(v);
  touch(r.buffer);
  return r;
}

void planner::place_roots() {
  for (std::size_t o = 0; o < p_.outputs().size(); ++o) {
    value_id v = p_.outputs()[o].value;
    while (auto view = viewed(v)) {
      if (view->second != 0 || bytes_of(view->first, form(view->first)) != bytes_of(v, layout::plain)) break;
      v = view->first;
    }
    if (p_.at(v).kind == node_kind::operation && !viewed(v) &&
        !items_[static_cast<std::size_t>(item_of_[static_cast<std::size_t>(v.node)])].once && !home_.contains(v) &&
        form(v) == layout::plain) {
      home_[v] = external(buffer_kind::output, static_cast<std::int32_t>(o), bytes_of(v, layout::plain));
      if (v == p_.outputs()[o].value || viewed(p_.outputs()[o].value)) placed_outputs_.insert(o);
    }
  }
  if (p_.assignments().empty()) return;
  // Of each state the last item that reads its old value; the last item that may fail; states that are shown, or copied into
  // others, when all items have run.
  std::map<std::int32_t, std::int32_t> last_reader;
  std::int32_t last_failure = -1;
  for (std::size_t i = 0; i < items_.size(); ++i) {
    const auto number = static_cast<std::int32_t>(i);
    reads(items_[i], [&](value_id v) {
      if (const auto base = base_of(v); p_.at(base).kind == node_kind::state) last_reader[base.node] = number;
      return false;
    });
    if (may_fail(items_[i])) last_failure = number;
  }
  std::set<std::int32_t> read_at_the_end;
  for (const auto& o : p_.outputs()) read_at_the_end.insert(base_of(o.value).node);
  for (const auto& a : p_.assignments()) read_at_the_end.insert(base_of(a.value).node);
  for (const auto& a : p_.assignments()) {
    plan_.assigned_.push_back(state_index(a.state));
    if (p_.at(a.value).kind != node_kind::operation || viewed(a.value) || home_.contains(a.value) ||
        form(a.value) != layout::plain)
      continue;
    const auto mine = item_of_[static_cast<std::size_t>(a.value.node)];
    // From here on nobody may read the old value, and no run may fail.
    const auto last = last_reader.find(a.state);
    const bool safe = last_failure < mine && (last == last_reader.end() || last->second <= mine) &&
                      !reads_state(items_[static_cast<std::size_t>(mine)], a.state, a.value) &&
                      !read_at_the_end.contains(a.state);
    if (!safe) continue;
    home_[a.value] = external(buffer_kind::state, state_index(a.state), bytes_of(a.value, layout::plain));
    placed_assignments_.insert(a.state);
    commit_item_ = std::min(commit_item_, mine);
  }
}

value_id planner::base_of(value_id v) const {
  while (auto view = viewed(v)) v = view->first;
  return v;
}

bool planner::reads_state(const item& it, std::int32_t state, value_id replaced_by) const {
  auto reads = [&](value_id v) { return base_of(v).node == state; };
  if (it.what == item::kind::reorder) return reads(it.result);
  for (auto m : it.nodes) {
    const node& n = p_.at(m);
    bool before_write = replaced_by && it.what == item::kind::chain && m <= replaced_by.node;
    const int replaced = replaced_by.node == m ? n.op->updates : -1;
    for (std::size_t k = 0; k < n.inputs.size(); ++k) {
      value_id v = n.inputs[k];
      bool in_step =
          ((before_write && p_.type(v).dims == p_.type(replaced_by).dims) || static_cast<int>(k) == replaced) &&
          v.node == state;
      if (n.reads_data(k) && reads(v) && !in_step) return true;
    }
  }
  return (it.tail.bias && reads(it.tail.bias)) || (it.tail.residual && reads(it.tail.residual));
}

bool planner::may_fail(const item& it) const {
  if (it.what == item::kind::reorder) return false;
  for (auto m : it.nodes)
    if (p_.may_fail(p_.at(m))) return true;
  return false;
}

void planner::finish() {
  if (status_ >= 0) {
    auto& s = virtual_[static_cast<std::size_t>(status_)];
    s.bytes = status_bytes_;
    s.last = now_ + 1;
  }
  std::vector<memory_block> blocks;
  std::vector<std::size_t> owner;
  for (std::size_t i = 0; i < virtual_.size(); ++i) {
    auto& b = virtual_[i];
    if (b.kind != buffer_kind::arena || b.same_as >= 0 || b.first < 0) continue;
    if (b.last == never) b.last = now_ + 1;
    blocks.push_back({b.bytes, b.first, b.last, 0});
    owner.push_back(i);
  }
  plan_.arena_bytes_ = place_blocks({blocks.data(), blocks.size()}, plan_.cost_.live_peak, options_.memory);
  for (const auto& b : blocks) plan_.cost_.unshared += (b.bytes + 63) / 64 * 64;
  plan_.cost_.sharing = options_.memory;
  std::vector<std::int64_t> offset(virtual_.size());
  for (std::size_t k = 0; k < blocks.size(); ++k) offset[owner[k]] = blocks[k].offset;
  for (std::size_t i = 0; i < virtual_.size(); ++i) {
    const auto& b = virtual_[i];
    plan_.buffers_.push_back(
        {b.kind, b.index, offset[static_cast<std::size_t>(root_block(static_cast<std::int32_t>(i)))], b.bytes});
  }
  if (status_ >= 0) {
    for (auto& c : plan_.checks_) c.offset += offset[static_cast<std::size_t>(status_)];
    // The first to fail is the same whatever runs at the same time.
    std::vector<std::size_t> order(plan_.checks_.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return check_order_[a] < check_order_[b]; });
    std::vector<plan_check> checks;
    for (auto k : order) checks.push_back(std::move(plan_.checks_[k]));
    plan_.checks_ = std::move(checks);
  }
  plan_.steps_ = std::move(pending_);
  for (auto& k : plan_.packs_) {
    k.steps.first += static_cast<std::uint32_t>(plan_.steps_.size());
    plan_.cost_.packed += k.bytes;
  }
  find_touched_states();
  plan_.steps_.insert(plan_.steps_.end(), pack_steps_.begin(), pack_steps_.end());
  for (auto& l : plan_.loops_) l.first += static_cast<std::uint32_t>(plan_.steps_.size());
  plan_.steps_.insert(plan_.steps_.end(), loop_steps_.begin(), loop_steps_.end());
  plan_.scratch_bytes_ = (plan_.scratch_bytes_ + 63) / 64 * 64;
  plan_.cost_.arena = plan_.arena_bytes_;
  plan_.cost_.scratch = plan_.scratch_bytes_;
  plan_.cost_.steps = plan_.steps_.size() - pack_steps_.size() - loop_steps_.size();
  plan_.cost_.stages = plan_.stages_.size();
  // Addresses of one buffer stand together, so that binding one is one run over its addresses.
  std::stable_sort(plan_.relocations_.begin(), plan_.relocations_.end(),
                   [](const relocation& a, const relocation& b) { return a.buffer < b.buffer; });
}

// Of steps that pack the arguments are known; what else holds the address of a state reads or writes its elements.
void planner::find_touched_states() {
  std::map<std::uint32_t, std::uint32_t> packing;  // first byte of arguments, and the one after them
  for (const auto& s : pack_steps_) packing[s.arguments] = s.arguments + s.bytes;
  plan_.touches_elements_.assign(plan_.state_types_.size(), false);
  for (const auto& r : plan_.relocations_) {
    const auto& b = plan_.buffers_[static_cast<std::size_t>(r.buffer)];
    if (b.kind != buffer_kind::state) continue;
    const auto after = packing.upper_bound(r.at);
    if (after == packing.begin() || r.at >= std::prev(after)->second)
      plan_.touches_elements_[static_cast<std::size_t>(b.index)] = true;
  }
}

}  // namespace lamina
