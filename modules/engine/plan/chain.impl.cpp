// Chains of elementwise operations: one pass over memory, or one call per operation if the work fits into one tile.
module;
#include "../kernels/compile_chain.h"
#include "../kernels/families.h"
module lamina:plan.chain.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :emitter;
import :op.elementwise;
import :op.half;
import :op.reduce;
import :passes;
import :plan;
import :plan.phases;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

kernels::map_function map_function_of(const request& r, const node& n) {
  const auto& map = n.op->map(r.isa);
  // The last operand determines the type: the first one may be a condition.
  const dtype element = r.of.type(n.inputs.back()).element;
  kernels::map_function f = nullptr;
  if (map.casts) {
    const auto& a = n.attributes_as<cast_attributes>();
    f = (*map.casts)[static_cast<int>(element)][kernels::cast_column(
        static_cast<kernels::element>(a.to), a.saturate, static_cast<kernels::power_rounding>(a.round_mode))];
  } else {
    const bool moves = map.op == kernels::map_op::copy || map.op == kernels::map_op::where;
    if (moves || element <= dtype::boolean) f = map.of[static_cast<int>(detail::moved_as(element))];
  }
  if (!f) {
    text t;
    t << n.op->name << ": not available for " << r.of.type(n.inputs[0]).element;
    detail::raise(error_kind::type, t);
  }
  return f;
}

kernels::map_function emitter::low_latency_function_of(const node& n) const {
  const auto fast = n.results[0].element == dtype::float32 ? n.op->map(r_.isa).low_latency : nullptr;
  return fast ? fast : map_function_of(r_, n);
}

// Operands and results of a chain, and its iteration space.
struct emitter::chain {
  shape space;
  bool blocked = false, by_channels = false;  // an operand has one number per channel of blocked images
  std::vector<chain_slot> slots;
  // Neighboring axes of the space that all operands traverse alike, merged: extents, and the innermost axis of each or
  // -1.
  std::vector<std::int64_t> extent;
  std::vector<int> axis_of;
  // Sums of the rows of the last result, along these axes, if the chain has them.
  value_id summed{};
  unsigned summed_axes = 0;
  std::size_t summed_slot = 0;
  buffer_ref sums{};

  std::int64_t stride(const chain_slot& s, std::size_t axis) const {
    return axis_of[axis] < 0 ? 0 : s.stride[axis_of[axis]];
  }
  void merge_axes() {
    for (int a = 0; a < space.rank; ++a) {
      if (space.at(a) == 1) continue;
      bool merges = !extent.empty() && (summed_axes >> a & 1u) == (summed_axes >> axis_of.back() & 1u);
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

void emitter::emit_chain() {
  chain c;
  const std::int32_t own_sum = d_.groups.of(nodes_[0])->sum;
  const node* const sum = own_sum == none ? nullptr : &p_.at(own_sum);
  const value_id last = sum ? sum->inputs[0] : current_->result;
  const bool rounded = form(last) == layout::rounded;
  c.blocked = is_in_blocks(form(last));
  const tensor_type& type = p_.type(last);
  if (type.dims.size() == 0) return;
  const auto all_nodes = nodes_;
  if (sum) {
    nodes_ = nodes_.subview(0, nodes_.size() - 1);
    c.summed = last;
  }
  c.space = type.dims;
  if (c.blocked) {
    const auto all = static_cast<std::int64_t>(bytes_of(current_->result, layout::blocked) / size_of(type.element));
    for (auto m : nodes_)
      for (auto in : p_.at(m).inputs)
        c.by_channels = c.by_channels || rounded || (!in_chain(in) && planning::is_for_channels(p_.type(in), type));
    const std::int64_t images = type.dims.at(0), row = lanes_of_blocks() * type.dims.size(2, 4);
    c.space = c.by_channels ? shape{dim(images), dim(all / images / row), dim(row)} : shape{dim(all)};
  }
  find_slots(c);
  if (rounded) return emit_rounded(c, steps_of(c));
  if (sum) {
    c.summed_slot = slot_of(c, c.summed, true);
    types_.clear();
    for (auto v : sum->inputs) types_.push_back(p_.type(v));
    c.summed_axes = sum->op->summed_axes(sum->attributes.get(), types_);
    c.merge_axes();
    emit_sums(c);
    nodes_ = all_nodes;
    return;
  }
  c.merge_axes();
  // A space that fits into one tile needs no chain.
  if (!c.by_channels && c.extent.size() == 1 && (nodes_.size() == 1 || c.extent[0] <= kernels::chain_tile))
    emit_calls(c);
  else emit_tiles(c, steps_of(c));
}

std::size_t emitter::slot_of(chain& c, value_id v, bool written) const {
  for (std::size_t i = 0; i < c.slots.size(); ++i)
    if (c.slots[i].v == v && c.slots[i].written == written) return i;
  const tensor_type& t = p_.type(v);
  chain_slot s{v, {}, {}, static_cast<std::int64_t>(size_of(t.element)), written};
  const bool one = form(v) == layout::uniform || t.dims.size() == 1;
  s.blocked = c.blocked && !one;
  if (s.blocked && c.by_channels && planning::is_for_channels(t, p_.type(current_->result))) {
    s.repeats = lanes_of_blocks();
    s.stride[1] = lanes_of_blocks();
    s.stride[0] = planning::with_four_axes(t.dims).at(0) == 1 ? 0 : c.space.at(1) * lanes_of_blocks();
  } else if (!one) {
    std::int64_t strides[max_rank]{};
    if (c.blocked) {
      row_major_strides(c.space, s.stride);
      c.slots.push_back(s);
      return c.slots.size() - 1;
    }
    row_major_strides(d_.views[v].in_pieces ? p_.type(d_.views[v].of).dims : t.dims, strides);
    for (int a = 0; a < c.space.rank; ++a) {
      const int k = a - (c.space.rank - t.dims.rank);
      s.stride[a] = k < 0 || (t.dims.at(k) == 1 && c.space.at(a) != 1) ? 0 : strides[k];
    }
  }
  c.slots.push_back(s);
  return c.slots.size() - 1;
}

// Results with outside readers get memory; the others live in the first-level cache.
void emitter::find_slots(chain& c) {
  for (auto m : nodes_)
    for (auto in : p_.at(m).inputs)
      if (!in_chain(in)) {
        const auto i = slot_of(c, in, false);
        const layout as = form(in) == layout::uniform ? layout::uniform
                          : c.slots[i].blocked        ? layout::blocked
                                                      : layout::plain;
        c.slots[i].at = read(in, as);
      }
  for (auto m : nodes_)
    if (!d_.groups.stays_inside(d_.used, m)) {
      const auto i = slot_of(c, {m, 0}, true);
      c.slots[i].at = write({m, 0});
    }
}

// Buffer of a value for a single call, and whether the call advances along it; an inner result gets memory in the
// arena.
std::pair<buffer_ref, bool> emitter::place_in(chain& c, value_id v, bool written) {
  for (std::size_t i = c.slots.size(); i-- > 0;)
    if (c.slots[i].v == v && (written || !c.slots[i].written || in_chain(v)))
      return {c.slots[i].at, c.stride(c.slots[i], 0) != 0};
  const std::size_t size = size_of(p_.type(v).element);
  chain_slot s{v, temporary(static_cast<std::size_t>(c.extent[0]) * size), {}, static_cast<std::int64_t>(size), true};
  if (c.axis_of[0] >= 0) s.stride[c.axis_of[0]] = 1;
  c.slots.push_back(s);
  return {s.at, true};
}

void emitter::emit_calls(chain& c) {
  for (auto m : nodes_) {
    const node& n = p_.at(m);
    const auto run = r_.options.relaxed_summation ? low_latency_function_of(n) : map_function_of(r_, n);
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
          step(kernels::elementwise_of(r_.isa).map, a, where);
        },
        emission::usual_grain, 64);
    stage();
  }
}

// The steps of a chain. A temporary is released after its last reader.
kernels::chain_args emitter::steps_of(chain& of) {
  kernels::chain_args c{};
  c.operand_count = static_cast<std::int32_t>(of.slots.size());
  c.step_count = static_cast<std::int32_t>(nodes_.size());
  constexpr std::int8_t first_temporary = kernels::chain_operands;
  std::vector<std::int8_t> free;
  for (auto t = static_cast<std::int8_t>(first_temporary + kernels::chain_temporaries); t-- > first_temporary;)
    free.push_back(t);
  const auto step_of = [&](std::int32_t node) {
    return static_cast<std::size_t>(std::lower_bound(nodes_.begin(), nodes_.end(), node) - nodes_.begin());
  };
  std::size_t last_reader[kernels::chain_steps];  // of the step's temporary
  const kernels::map_functions* maps[kernels::chain_steps];
  for (std::size_t k = 0; k < nodes_.size(); ++k) {
    const node& n = p_.at(nodes_[k]);
    auto& s = c.step[k];
    s.run = map_function_of(r_, n);
    maps[k] = &n.op->map(r_.isa);
    s.op = maps[k]->op;
    s.type = static_cast<kernels::element>(n.results[0].element);
    s.in[0] = s.in[1] = s.in[2] = -1;
    for (std::size_t q = 0; q < n.inputs.size(); ++q) {
      const value_id v = n.inputs[q];
      const bool inside = in_chain(v);
      const auto made = inside ? c.step[step_of(v.node)].out : std::int8_t(0);
      s.in[q] = made >= first_temporary ? made : static_cast<std::int8_t>(slot_of(of, v, inside));
    }
    last_reader[k] = 0;
    if (d_.groups.stays_inside(d_.used, nodes_[k]) && value_id{nodes_[k], 0} != of.summed) {
      s.out = free.back();
      free.pop_back();
      if (const auto readers = d_.used.readers_of({nodes_[k], 0}); !readers.empty())
        last_reader[k] = step_of(readers.back());
    } else s.out = static_cast<std::int8_t>(slot_of(of, {nodes_[k], 0}, true));
    for (std::size_t q = 0; q < k; ++q)
      if (last_reader[q] == k) free.push_back(c.step[q].out);
  }
  auto read_inside = [&](std::size_t i) {
    return std::any_of(c.step, c.step + c.step_count, [&](const kernels::chain_step& s) {
      return std::find(s.in, s.in + 3, static_cast<std::int8_t>(i)) != s.in + 3;
    });
  };
  for (std::size_t i = 0; i < of.slots.size(); ++i) {
    c.operand[i].size = static_cast<std::int32_t>(of.slots[i].size);
    if (of.slots[i].written && of.space.size() * of.slots[i].size >= kernels::streamed_bytes && !read_inside(i) &&
        of.slots[i].v != of.summed && of.slots[i].at.form != layout::rounded)
      c.streamed |= 1u << i;
  }
  kernels::compile_chain(maps, c);
  return c;
}

// The call that adds up the last result of a chain, of whose axes the first `outside` are unrolled.
emitter::chain_sums emitter::sums_of(const chain& of, std::size_t outside) const {
  constexpr auto walked = static_cast<std::size_t>(kernels::chain_axes);
  const std::size_t axes = of.extent.size(), inside = axes - outside;
  chain_sums s;
  const chain_slot& summed = of.slots[of.summed_slot];
  s.args.operand = static_cast<std::int32_t>(of.summed_slot);
  s.args.has_memory = summed.at.buffer >= 0;
  s.args.type = static_cast<kernels::element>(p_.type(of.summed).element);
  s.args.chain_run = kernels::elementwise_of(r_.isa).chain;
  s.args.sum_run = kernels::reduce_sum_of(r_.isa).of[static_cast<int>(p_.type(of.summed).element)];
  std::int64_t bytes = summed.size;
  for (auto a = axes - 1; a-- > 0; bytes *= of.extent[a]) s.step[a] = bytes;
  for (std::size_t a = 0; a + 1 < inside; ++a) s.args.outer[walked - inside + a] = s.step[outside + a];
  return s;
}

// Images, or pairs of channel blocks of an image, whose result is stored in bfloat16.
void emitter::emit_rounded(const chain& of, kernels::chain_args c) {
  const std::int64_t images = of.space.at(0), blocks = of.space.at(1), row = of.space.at(2), pairs = (blocks + 1) / 2,
                     pair_bytes = 2 * row * static_cast<std::int64_t>(size_of(dtype::bfloat16));
  kernels::chain_rounded_args all{};
  all.chain_run = kernels::elementwise_of(r_.isa).chain;
  all.blocks = blocks;
  for (auto& extent : c.extent) extent = 1;
  c.extent[3] = row;
  for (std::size_t i = 0; i < of.slots.size(); ++i) {
    const chain_slot& s = of.slots[i];
    if (s.at.form == layout::rounded) all.operand = static_cast<std::int32_t>(i);
    c.operand[i].outer[1] = s.stride[0] * s.size, c.operand[i].outer[2] = s.stride[1] * s.size;
    c.operand[i].inner = s.repeats ? -static_cast<std::int32_t>(s.repeats) : s.stride[2] != 0;
  }
  const auto part = [&](std::int64_t first_image, std::int64_t count, std::int64_t first_block,
                        std::int64_t block_count) {
    kernels::chain_rounded_args a = all;
    a.chain = c;
    a.chain.extent[1] = count, a.chain.extent[2] = block_count;
    a.first_block = first_block;
    std::vector<address> where;
    for (std::size_t i = 0; i < of.slots.size(); ++i) {
      const chain_slot& s = of.slots[i];
      if (static_cast<std::int32_t>(i) == all.operand)
        where.push_back({&a.out, s.at.at((first_image * pairs + first_block / 2) * pair_bytes)});
      else
        where.push_back({&a.chain.operand[i].data,
                         s.at.at(first_image * c.operand[i].outer[1] + first_block * c.operand[i].outer[2])});
    }
    step(detail::bfloat_products(dtype::bfloat16, r_.isa).round_chain, a, where, kernels::chain_rounded_scratch_bytes);
  };
  const double cost = 4.0 * (c.step_count + 1) * static_cast<double>(row);
  if (images > 1)
    emission::cut(images, cost * static_cast<double>(blocks),
                  [&](std::int64_t first, std::int64_t count) { part(first, count, 0, blocks); });
  else
    emission::cut(pairs, 2 * cost, [&](std::int64_t first, std::int64_t count) {
      part(0, 1, 2 * first, std::min(2 * count, blocks - 2 * first));
    });
}

// The innermost axis runs in tiles, three more in the kernel; the remaining axes are unrolled into calls.
void emitter::emit_tiles(const chain& of, kernels::chain_args c) {
  constexpr auto walked = static_cast<std::size_t>(kernels::chain_axes);
  const std::size_t axes = of.extent.size(), inside = std::min(axes, walked), outside = axes - inside;
  const std::size_t split = walked - inside;  // the outermost axis that the kernel walks
  for (auto& extent : c.extent) extent = 1;
  for (std::size_t a = 0; a < inside; ++a) {
    c.extent[split + a] = of.extent[outside + a];
    for (std::size_t i = 0; i < of.slots.size(); ++i) {
      if (split + a + 1 == walked)
        c.operand[i].inner = of.slots[i].repeats ? -static_cast<std::int32_t>(of.slots[i].repeats)
                                                 : of.stride(of.slots[i], outside + a) != 0;
      else c.operand[i].outer[split + a] = of.stride(of.slots[i], outside + a) * of.slots[i].size;
    }
  }
  double cost = 4.0 * c.step_count;
  for (auto a = split + 1; a < walked; ++a) cost *= static_cast<double>(c.extent[a]);
  chain_sums sums;
  if (of.summed) sums = sums_of(of, outside);
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
          kernels::chain_operand* const operand = of.summed ? sums.args.chain.operand : part.operand;
          for (std::size_t i = 0; i < of.slots.size(); ++i) {
            const chain_slot& s = of.slots[i];
            if (s.at.buffer < 0) continue;
            std::int64_t at =
                split + 1 == walked ? first * of.stride(s, axes - 1) * s.size : first * c.operand[i].outer[split];
            for (std::size_t a = 0; a < outside; ++a) at += index[a] * of.stride(s, a) * s.size;
            where.push_back({&operand[i].data, s.at.at(at)});
          }
          if (!of.summed) {
            step(kernels::elementwise_of(r_.isa).chain, part, where, kernels::chain_scratch_bytes);
            return;
          }
          sums.args.chain = part;
          std::int64_t at = first * sums.args.outer[split];
          for (std::size_t a = 0; a < outside; ++a) at += index[a] * sums.step[a];
          where.push_back({&sums.args.out, of.sums.at(at)});
          step(kernels::elementwise_of(r_.isa).chain_sum, sums.args, where, kernels::chain_sum_scratch_bytes);
        },
        emission::usual_grain, split + 1 == walked ? 64 : 1);
    for (auto a = outside; a-- > 0 && ++index[a] == of.extent[a];) index[a] = 0;
  }
}

// The chain adds up its rows, which are the innermost summed axes, as `group` has ensured; the other axes follow.
void emitter::emit_sums(chain& c) {
  const dtype element = p_.type(c.summed).element;
  auto groups = detail::groups_of(c.space, c.summed_axes);
  groups.pop_back();
  const bool all = std::none_of(groups.begin(), groups.end(), [](const auto& g) { return g.reduced; });
  const auto rows = static_cast<std::size_t>(c.space.size() / c.extent.back());
  c.sums = all ? write(current_->result) : temporary(rows * size_of(element));
  emit_tiles(c, steps_of(c));
  if (all) return;
  stage();
  detail::emit_groups(*this, kernels::reduce_sum_of(r_.isa), c.sums, element, std::move(groups));
}

}  // namespace lamina
