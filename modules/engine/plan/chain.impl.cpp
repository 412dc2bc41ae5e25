// Chains of elementwise operations: one pass over memory, or a call for each where what they compute fits into one tile.
module;
#include "../kernels/compile_chain.h"
#include "../kernels/table.h"
module lamina:plan.chain.impl;
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

kernels::map_function planner::function_of(const node& n) const {
  const auto& e = *table_.elementwise;
  // The last operand has the type that counts: the first one may be a condition.
  const auto element = static_cast<std::size_t>(p_.type(n.inputs.back()).element);
  const int code = n.op->map();  // below 0: of a function between two element types
  const kernels::map_function f =
      code < 0 ? (*e.casts)[element][static_cast<std::size_t>(n.results[0].element)] : (*e.maps)[code][element];
  if (!f) {
    text t;
    t << n.op->name << ": not available for " << p_.type(n.inputs[0]).element;
    detail::raise(error_kind::type, t);
  }
  return f;
}

kernels::map_function planner::low_latency_function_of(const node& n) const {
  if (n.results[0].element == dtype::float32)
    for (const auto& f : table_.elementwise->low_latency)
      if (static_cast<int>(f.op) == n.op->map()) return f.run;
  return function_of(n);
}

// What a chain reads and writes, and the space that it walks through.
struct planner::chain {
  shape space;
  bool blocked = false;
  std::vector<chain_slot> slots;
  // Neighboring axes of the space that every operand walks alike, as one: their extents, and the innermost axis of each or -1.
  std::vector<std::int64_t> extent;
  std::vector<int> axis_of;

  std::int64_t stride(const chain_slot& s, std::size_t axis) const {
    return axis_of[axis] < 0 ? 0 : s.stride[axis_of[axis]];
  }
  void merge_axes() {
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
    if (extent.empty()) extent.push_back(1), axis_of.push_back(-1);
  }
};

void planner::emit_chain() {
  const auto& nodes = current_->nodes;
  chain c;
  c.blocked = form(current_->result) == layout::blocked;
  const tensor_type& type = p_.type(current_->result);
  c.space =
      c.blocked
          ? shape{dim(static_cast<std::int64_t>(bytes_of(current_->result, layout::blocked) / size_of(type.element)))}
          : type.dims;
  if (c.space.size() == 0) return;
  find_slots(c);
  c.merge_axes();
  // What fits in one tile needs no chain.
  if (c.extent.size() == 1 && (nodes.size() == 1 || c.extent[0] <= kernels::chain_tile)) emit_calls(c);
  else emit_tiles(c, steps_of(c));
}

std::size_t planner::slot_of(chain& c, value_id v, bool written) const {
  for (std::size_t i = 0; i < c.slots.size(); ++i)
    if (c.slots[i].v == v && c.slots[i].written == written) return i;
  const tensor_type& t = p_.type(v);
  chain_slot s{v, {}, {}, static_cast<std::int64_t>(size_of(t.element)), written};
  const bool one = form(v) == layout::uniform || t.dims.size() == 1;
  if (c.blocked) s.stride[0] = one ? 0 : 1;
  else if (!one) {
    std::int64_t strides[max_rank]{};
    row_major_strides(t.dims, strides);
    for (int a = 0; a < c.space.rank; ++a) {
      const int k = a - (c.space.rank - t.dims.rank);
      s.stride[a] = k < 0 || (t.dims.at(k) == 1 && c.space.at(a) != 1) ? 0 : strides[k];
    }
  }
  c.slots.push_back(s);
  return c.slots.size() - 1;
}

// Results that are read outside get memory; the others live in the first cache.
void planner::find_slots(chain& c) {
  const auto& nodes = current_->nodes;
  for (auto m : nodes)
    for (auto in : p_.at(m).inputs)
      if (!std::binary_search(nodes.begin(), nodes.end(), in.node)) {
        const auto i = slot_of(c, in, false);
        const layout wanted = form(in) == layout::uniform         ? layout::uniform
                              : c.blocked && c.slots[i].stride[0] ? layout::blocked
                                                                  : layout::plain;
        c.slots[i].at = read(in, wanted);
      }
  for (auto m : nodes)
    if (!stays_inside(m, nodes)) {
      const value_id v{m, 0};
      reuse_operand(v, c.slots);
      const auto i = slot_of(c, v, true);
      c.slots[i].at = write(v);
    }
}

// Where a call finds a value, and whether it moves along it; a result that stays inside lives in the arena.
std::pair<buffer_ref, bool> planner::place_in(chain& c, value_id v, bool written) {
  const auto& nodes = current_->nodes;
  for (std::size_t i = c.slots.size(); i-- > 0;)
    if (c.slots[i].v == v && (written || !c.slots[i].written || std::binary_search(nodes.begin(), nodes.end(), v.node)))
      return {c.slots[i].at, c.stride(c.slots[i], 0) != 0};
  const std::size_t size = size_of(p_.type(v).element);
  chain_slot s{v, temporary(static_cast<std::size_t>(c.extent[0]) * size), {}, static_cast<std::int64_t>(size), true};
  if (c.axis_of[0] >= 0) s.stride[c.axis_of[0]] = 1;
  c.slots.push_back(s);
  return {s.at, true};
}

void planner::emit_calls(chain& c) {
  for (auto m : current_->nodes) {
    const node& n = p_.at(m);
    const auto run = options_.relaxed_summation ? low_latency_function_of(n) : function_of(n);
    emission::cut(
        c.extent[0], 8,
        [&](std::int64_t first, std::int64_t count) {
          kernels::map_args a{};
          a.run = run;
          a.n = count;
          std::vector<address> where;
          for (std::size_t k = 0; k < n.inputs.size(); ++k) {
            const auto [at, moves] = place_in(c, n.inputs[k], false);
            a.steps |= static_cast<unsigned>(moves) << k;
            where.push_back(
                {&a.in[k],
                 at.at(moves ? first * static_cast<std::int64_t>(size_of(p_.type(n.inputs[k]).element)) : 0)});
          }
          where.push_back(
              {&a.out,
               place_in(c, {m, 0}, true).first.at(first * static_cast<std::int64_t>(size_of(n.results[0].element)))});
          step(table_.elementwise->map, a, where);
        },
        400e3, 64);
    stage();
  }
}

// The steps of a chain. Temporaries are handed out and taken back as their last reader passes.
kernels::chain_args planner::steps_of(chain& of) {
  const auto& nodes = current_->nodes;
  kernels::chain_args c{};
  c.operand_count = static_cast<std::int32_t>(of.slots.size());
  c.step_count = static_cast<std::int32_t>(nodes.size());
  std::map<std::int32_t, std::int8_t> temporary;
  std::vector<std::int8_t> free;
  for (auto t = static_cast<std::int8_t>(kernels::chain_operands + kernels::chain_temporaries);
       t-- > kernels::chain_operands;)
    free.push_back(t);
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    const node& n = p_.at(nodes[k]);
    auto& s = c.step[k];
    s.run = function_of(n);
    s.op = n.op->map() < 0 ? kernels::map_op::copy : static_cast<kernels::map_op>(n.op->map());
    s.type = static_cast<kernels::element>(n.results[0].element);
    s.in[0] = s.in[1] = s.in[2] = -1;
    for (std::size_t q = 0; q < n.inputs.size(); ++q) {
      const value_id v = n.inputs[q];
      const auto t = temporary.find(v.node);
      if (t != temporary.end()) s.in[q] = t->second;
      else s.in[q] = static_cast<std::int8_t>(slot_of(of, v, std::binary_search(nodes.begin(), nodes.end(), v.node)));
    }
    if (stays_inside(nodes[k], nodes)) {
      s.out = free.back();
      free.pop_back();
      temporary[nodes[k]] = s.out;
    } else s.out = static_cast<std::int8_t>(slot_of(of, {nodes[k], 0}, true));
    for (std::size_t q = 0; q < k; ++q)
      if (auto t = temporary.find(nodes[q]); t != temporary.end() && uses({nodes[q], 0}).nodes.back() == nodes[k])
        free.push_back(t->second);
  }
  auto read_inside = [&](std::size_t i) {
    return std::any_of(c.step, c.step + c.step_count, [&](const kernels::chain_step& s) {
      return std::find(s.in, s.in + 3, static_cast<std::int8_t>(i)) != s.in + 3;
    });
  };
  for (std::size_t i = 0; i < of.slots.size(); ++i) {
    c.operand[i].size = static_cast<std::int32_t>(of.slots[i].size);
    if (of.slots[i].written && of.space.size() * of.slots[i].size >= kernels::streamed_bytes && !read_inside(i))
      c.streamed |= 1u << i;
  }
  kernels::compile_chain(*table_.elementwise, c);
  return c;
}

// The innermost axis runs in tiles, three more in the kernel; whatever is left is written out.
void planner::emit_tiles(const chain& of, kernels::chain_args c) {
  constexpr auto walked = static_cast<std::size_t>(kernels::chain_axes);
  const std::size_t axes = of.extent.size(), inside = std::min(axes, walked), outside = axes - inside;
  const std::size_t split = walked - inside;  // the outermost axis that the kernel walks
  for (auto& extent : c.extent) extent = 1;
  for (std::size_t a = 0; a < inside; ++a) {
    c.extent[split + a] = of.extent[outside + a];
    for (std::size_t i = 0; i < of.slots.size(); ++i) {
      if (split + a + 1 == walked) c.operand[i].inner = of.stride(of.slots[i], outside + a) != 0;
      else c.operand[i].outer[split + a] = of.stride(of.slots[i], outside + a) * of.slots[i].size;
    }
  }
  double cost = 4.0 * c.step_count;
  for (auto a = split + 1; a < walked; ++a) cost *= static_cast<double>(c.extent[a]);
  std::vector<std::int64_t> index(outside);
  std::int64_t rounds = 1;
  for (std::size_t a = 0; a < outside; ++a) rounds *= of.extent[a];
  for (std::int64_t r = 0; r < rounds; ++r) {
    emission::cut(
        c.extent[split], cost,
        [&](std::int64_t first, std::int64_t count) {
          kernels::chain_args part = c;
          part.extent[split] = count;
          std::vector<address> where;
          for (std::size_t i = 0; i < of.slots.size(); ++i) {
            const chain_slot& s = of.slots[i];
            std::int64_t at =
                split + 1 == walked ? first * of.stride(s, axes - 1) * s.size : first * c.operand[i].outer[split];
            for (std::size_t a = 0; a < outside; ++a) at += index[a] * of.stride(s, a) * s.size;
            where.push_back({&part.operand[i].data, s.at.at(at)});
          }
          step(table_.elementwise->chain, part, where, kernels::chain_scratch_bytes);
        },
        400e3, split + 1 == walked ? 64 : 1);
    for (auto a = outside; a-- > 0 && ++index[a] == of.extent[a];) index[a] = 0;
  }
}

void planner::reuse_operand(value_id result, const std::vector<chain_slot>& slots) {
  if (!options_.reuse_memory || home_.contains(result)) return;
  for (const auto& s : slots) {
    if (s.written || viewed(s.v) || p_.at(s.v).kind != node_kind::operation || form(s.v) != form(result)) continue;
    if (p_.type(s.v) != p_.type(result) || uses(s.v).root || !last_read_here(s.v, result.node)) continue;
    auto h = home_.find(s.v);
    if (h == home_.end() || virtual_[static_cast<std::size_t>(h->second)].kind != buffer_kind::arena ||
        reused_.contains(h->second))
      continue;
    reused_.insert(h->second);
    auto b = new_block(bytes_of(result, form(result)));
    virtual_[static_cast<std::size_t>(b)].same_as = h->second;
    home_[result] = b;
    return;
  }
}

}  // namespace lamina
