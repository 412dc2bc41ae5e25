// Steps: what operations, chains and reorders become, and what operations see of the plan.
module;
#include "../kernels/table.h"
#include "../kernels/weave.h"
module lamina:plan.emit.impl;
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

void planner::run() {
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

buffer_ref planner::out(std::size_t i) {
  value_id v = i == 0 ? current_->result : value_id{current_->nodes[0], static_cast<std::int32_t>(i)};
  return write(v);
}

bool planner::used(std::size_t i) const {
  value_id v{current_->nodes[0], static_cast<std::int32_t>(i)};
  auto u = uses_.find(v);
  return u != uses_.end() && (!u->second.nodes.empty() || u->second.root);
}

buffer_ref planner::temporary(std::size_t bytes) {
  auto b = new_block(bytes);
  touch(b);
  return {b, 0, layout::plain};
}

buffer_ref planner::status(std::string_view message) {
  if (status_ < 0) {
    status_ = new_block(0);
    virtual_[static_cast<std::size_t>(status_)].first = 0;
  }
  auto at = static_cast<std::int64_t>(plan_.checks_.size() * 8);
  plan_.checks_.push_back({at, std::string(message)});
  check_order_.push_back(current_->order);
  return {status_, at, layout::plain};
}

buffer_ref planner::packed(value_id v, std::uint64_t format, std::size_t bytes, const std::function<void(buffer_ref, buffer_ref)>& make) {
  value_id base = base_of(v);
  if (p_.type(base).dims.size() != p_.type(v).dims.size()) return {};
  std::int32_t state;
  if (first_invariant_) {
    const auto& all = p_.inputs();
    auto input = static_cast<std::size_t>(std::find(all.begin(), all.end(), base.node) - all.begin());
    if (input == all.size() || input < *first_invariant_) return {};
    state = ~static_cast<std::int32_t>(input);
  } else {
    if (training_ || p_.at(base).kind != node_kind::state) return {};
    state = state_index(base.node);
  }
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

// The results of an item that runs once stay for all runs.
void planner::keep_once() {
  plan_.once_stages_ = plan_.stages_.size();
  note_ = "once";
  auto remember = [&](std::int32_t state) {
    if (std::find(plan_.once_states_.begin(), plan_.once_states_.end(), state) == plan_.once_states_.end()) plan_.once_states_.push_back(state);
  };
  for (auto m : current_->nodes) {
    if (auto h = home_.find({m, 0}); h != home_.end()) virtual_[static_cast<std::size_t>(root_block(h->second))].last = never;
    for (auto v : p_.at(m).inputs)
      if (auto base = base_of(v); p_.at(base).kind == node_kind::state) remember(state_index(base.node));
  }
}

void planner::stage() {
  if (!packing_ && pending_.size() > stage_first_) {
    plan_.stages_.push_back({static_cast<std::uint32_t>(stage_first_), static_cast<std::uint32_t>(pending_.size() - stage_first_)});
    stage_first_ = pending_.size();
  }
}

void planner::add(step_function run, view<const std::byte> arguments, view<const address> addresses, view<const void* const> code, std::size_t scratch) {
  auto& bytes = plan_.arguments_;
  std::size_t at = (bytes.size() + 63) / 64 * 64;
  bytes.resize(at + arguments.size());
  std::memcpy(bytes.data() + at, arguments.data(), arguments.size());
  auto place = [&](const void* field) { return static_cast<std::uint32_t>(at + static_cast<std::size_t>(static_cast<const std::byte*>(field) - arguments.data())); };
  for (const auto& a : addresses) plan_.relocations_.push_back({place(a.field), a.to.buffer, a.to.offset});
  for (const void* field : code) plan_.code_.push_back(place(field));
  plan_.scratch_bytes_ = std::max(plan_.scratch_bytes_, scratch);
  pending_.push_back({run, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(arguments.size())});
}

void planner::emit_item() {
  if (current_->what == item::kind::reorder) emit_reorder();
  else if (current_->what == item::kind::chain) emit_chain();
  else if (of().is("scan")) emit_loop();
  else if (of().is("cond")) emit_branches();
  else if (!viewed({current_->nodes[0], 0})) {
    if (!of().op->emit) {
      text t;
      t << of().op->name << ": this operation cannot be run";
      detail::raise(error_kind::state, t);
    }
    of().op->emit(*this);
  }
  stage();
}

void planner::emit_items() {
  auto& stages = plan_.stages_;
  for (std::size_t i = 0; i < items_.size();) {
    const auto level = items_[i].level;
    const auto first_stage = stages.size(), first_step = pending_.size();
    now_ = level + 1;
    std::vector<part> parts;
    for (; i < items_.size() && items_[i].level == level; ++i) {
      at_ = static_cast<std::int32_t>(i);
      current_ = &items_[i];
      if (at_ == commit_item_) plan_.commit_stage_ = first_stage;
      const auto mine = stages.size(), steps = pending_.size();
      const double flops = plan_.cost_.flops;
      emit_item();
      if (current_->once) keep_once();
      record(pending_.size() - steps);
      for (auto s = mine; s < stages.size(); ++s) stages[s].line = static_cast<std::int32_t>(plan_.lines_.size()) - 1;
      if (pending_.size() > steps) parts.push_back({mine, stages.size(), (plan_.cost_.flops - flops) / static_cast<double>(pending_.size() - steps)});
    }
    if (parts.size() > 1) merge_stages(std::move(parts), first_step);
  }
  if (commit_item_ == never) plan_.commit_stage_ = plan_.stages_.size();
}

// Steps of each stage begin with those that take longest, so that no thread waits for one that began late.
void planner::merge_stages(std::vector<part> parts, std::size_t first_step) {
  const auto first_stage = parts[0].first;
  const std::vector<plan_step> steps(pending_.begin() + static_cast<std::ptrdiff_t>(first_step), pending_.end());
  const std::vector<plan_stage> stages(plan_.stages_.begin() + static_cast<std::ptrdiff_t>(first_stage), plan_.stages_.end());
  pending_.resize(first_step);
  plan_.stages_.resize(first_stage);
  stage_first_ = first_step;
  std::stable_sort(parts.begin(), parts.end(), [](const part& a, const part& b) { return a.weight > b.weight; });
  for (std::size_t k = 0;; ++k) {
    std::int32_t line = -1;
    std::size_t met = 0;
    for (const auto& p : parts) {
      if (p.first + k >= p.last) continue;
      const auto& s = stages[p.first + k - first_stage];
      line = ++met == 1 ? s.line : -1;
      const auto from = steps.begin() + static_cast<std::ptrdiff_t>(s.first - first_step);
      pending_.insert(pending_.end(), from, from + s.count);
    }
    if (met == 0) break;
    stage();
    plan_.stages_.back().line = line;
  }
}

void planner::record(std::size_t steps) {
  if (steps == 0) {
    note_.clear();
    return;
  }
  plan_line line{{}, p_.type(current_->result), form(current_->result), 0, 0, static_cast<std::uint32_t>(steps)};
  text t;
  if (current_->what == item::kind::reorder) {
    t << "reorder to " << (current_->to == layout::blocked ? "blocked" : "plain");
    line.form = current_->to;
    line.results.push_back({line.result, line.form, converted_.at({current_->result, current_->to})});
    line.bytes = bytes_of(current_->result, form(current_->result)) + bytes_of(current_->result, current_->to);
    ++plan_.cost_.reorders;
  } else {
    line.where = p_.at(current_->nodes[0]).path;
    for (std::size_t k = 0; k < current_->nodes.size(); ++k) {
      const node& n = p_.at(current_->nodes[k]);
      t << (k ? " + " : "") << n.op->name;
      std::vector<tensor_type> in;
      for (auto v : n.inputs) in.push_back(p_.type(v));
      line.flops += n.op->flops(n.attributes.get(), in, n.results);
      for (std::size_t q = 0; q < n.inputs.size(); ++q)
        if (!shape_only(n, q) && item_of_[static_cast<std::size_t>(n.inputs[q].node)] != at_) line.bytes += bytes_of(n.inputs[q], form(n.inputs[q]));
    }
    line.bytes += bytes_of(current_->result, form(current_->result));
    for (auto m : current_->nodes)
      for (std::size_t r = 0; r < p_.at(m).results.size(); ++r) {
        const value_id v{m, static_cast<std::int32_t>(r)};
        if (auto h = home_.find(v); h != home_.end()) line.results.push_back({p_.type(v), form(v), h->second});
      }
  }
  if (!note_.empty()) t << " (" << note_ << ")";
  note_.clear();
  line.what = t.string();
  plan_.cost_.flops += line.flops;
  plan_.cost_.bytes += line.bytes;
  plan_.lines_.push_back(std::move(line));
}

void planner::emit_reorder() {
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
    a.extent[0] = static_cast<std::int64_t>(bytes_of(v, current_->to)) / a.size;      // of a blocked image, padding too
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

kernels::map_function planner::function_of(const node& n) const {
  const auto& e = *table_.elementwise;
  auto in = [&](std::size_t i) { return static_cast<std::size_t>(p_.type(n.inputs[i]).element); };
  kernels::map_function f = nullptr;
  if (n.is("cast")) f = (*e.casts)[in(0)][static_cast<std::size_t>(n.results[0].element)];
  else f = (*e.maps)[n.op->map()][n.is("where") ? in(1) : in(0)];
  if (!f) {
    text t;
    t << n.op->name << ": not available for " << p_.type(n.inputs[0]).element;
    detail::raise(error_kind::type, t);
  }
  return f;
}

// Of a plan that is waited for: less accurate where that is faster.
kernels::map_function planner::hurried(const node& n) const {
  if (n.results[0].element == dtype::float32 && n.is("tanh")) return table_.elementwise->hurried_tanh;
  if (n.results[0].element == dtype::float32 && n.is("sigmoid")) return table_.elementwise->hurried_sigmoid;
  return function_of(n);
}

void planner::emit_chain() {
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
      auto run = options_.free_order ? hurried(n) : function_of(n);
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
        step(table_.elementwise->map, a, where);
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
    s.op = n.is("cast") ? kernels::map_op::copy : static_cast<kernels::map_op>(n.op->map());
    s.type = static_cast<kernels::element>(n.results[0].element);
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
  auto read_inside = [&](std::size_t i) {
    return std::any_of(c.step, c.step + c.step_count, [&](const kernels::chain_step& s) { return std::find(s.in, s.in + 3, static_cast<std::int8_t>(i)) != s.in + 3; });
  };
  for (std::size_t i = 0; i < slots.size(); ++i) {
    c.operand[i].size = static_cast<std::int32_t>(slots[i].size);
    if (slots[i].written && space.size() * slots[i].size >= kernels::streamed_bytes && !read_inside(i)) c.streamed |= 1u << i;
  }
  kernels::weave(*table_.elementwise, c);

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
      step(table_.elementwise->chain, part, where, kernels::chain_scratch_bytes);
    }, 400e3, split + 1 == static_cast<std::size_t>(kernels::chain_axes) ? 64 : 1);
    for (auto a = outside; a-- > 0 && ++index[a] == extent[a];) index[a] = 0;
  }
}

void planner::reuse_operand(value_id result, const std::vector<chain_slot>& slots) {
  if (!options_.reuse_memory || home_.contains(result)) return;
  for (const auto& s : slots) {
    if (s.written || viewed(s.v) || p_.at(s.v).kind != node_kind::operation || form(s.v) != form(result)) continue;
    if (p_.type(s.v) != p_.type(result) || uses(s.v).root || !last_read_here(s.v, result.node)) continue;
    auto h = home_.find(s.v);
    if (h == home_.end() || virtual_[static_cast<std::size_t>(h->second)].kind != buffer_kind::arena || reused_.contains(h->second)) continue;
    reused_.insert(h->second);
    auto b = new_block(bytes_of(result, form(result)));
    virtual_[static_cast<std::size_t>(b)].same_as = h->second;
    home_[result] = b;
    return;
  }
}

bool planner::last_read_here(value_id v, std::int32_t until) const {
  if (auto i = item_of_[static_cast<std::size_t>(v.node)]; i != nobody && items_[static_cast<std::size_t>(i)].once) return false;
  for (auto c : uses(v).nodes) {
    const auto reader = item_of_[static_cast<std::size_t>(c)];
    if (reader == nobody || (reader == at_ && c > until)) return false;
    if (reader != at_ && items_[static_cast<std::size_t>(reader)].level >= now_ - 1) return false;
    if (viewed({c, 0})) return false;
  }
  return !converted_.contains({v, layout::plain}) && !converted_.contains({v, layout::blocked});
}

void planner::copy_whole(value_id v, buffer_ref from, buffer_ref to) {
  kernels::copy_args a{};
  a.axes = 1;
  a.size = static_cast<std::int32_t>(size_of(p_.type(v).element));
  a.extent[0] = p_.type(v).dims.size();
  a.in_stride[0] = form(v) == layout::uniform && from.form == layout::uniform ? 0 : 1;
  a.out_stride[0] = 1;
  if (a.extent[0]) step(table_.reduce->copy, a, {{&a.in, from}, {&a.out, to}});
}

void planner::emit_copies() {
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
      stage();                             // copies before it may read what its result lies over
      ++now_;
      if (!converted_.contains({v, layout::plain})) emit_reorder();
      stage();
      record(1);
    }
    ++now_;
    copy_whole(v, read(v, layout::plain), {external(buffer_kind::output, static_cast<std::int32_t>(o), bytes_of(v, layout::plain)), 0, layout::plain});
  }
  stage();
  // What takes the old value of a state that gets a new one, too, is set aside first.
  std::map<std::int32_t, std::int32_t> aside;
  for (const auto& a : p_.assignments()) {
    auto from = base_of(a.value).node;
    auto assigned = [&](const assignment& other) { return other.state == from; };
    if (placed_assignments_.contains(a.state) || from == a.state || std::none_of(p_.assignments().begin(), p_.assignments().end(), assigned)) continue;
    ++now_;
    auto b = aside[a.state] = new_block(p_.type(a.value).bytes());
    touch(b);
    copy_whole(a.value, read(a.value, layout::plain), {b, 0, layout::plain});
  }
  stage();
  for (const auto& a : p_.assignments()) {
    if (placed_assignments_.contains(a.state) || base_of(a.value).node == a.state) continue;
    if (commit_item_ == never) { plan_.commit_stage_ = plan_.stages_.size(); commit_item_ = 0; }
    ++now_;
    auto kept = aside.find(a.state);
    if (kept != aside.end()) touch(kept->second);
    copy_whole(a.value, kept != aside.end() ? buffer_ref{kept->second, 0, layout::plain} : read(a.value, layout::plain), home({a.state, 0}));
  }
  stage();
  current_ = nullptr;
}

}  // namespace lamina
