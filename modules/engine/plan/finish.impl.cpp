// Blocks of the arena, created when first touched, and the work that remains after all steps are emitted.
module lamina:plan.finish.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :emitter;
import :passes;
import :plan;
import :plan.phases;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

std::int32_t emitter::new_block(std::size_t bytes) {
  virtual_.push_back({buffer_kind::arena, 0, bytes});
  return static_cast<std::int32_t>(virtual_.size()) - 1;
}

std::int32_t emitter::external(buffer_kind kind, std::int32_t index, std::size_t bytes) {
  auto [at, fresh] = external_.try_emplace({kind, index}, static_cast<std::int32_t>(virtual_.size()));
  if (fresh) virtual_.push_back({kind, index, bytes});
  return at->second;
}

void emitter::touch(std::int32_t b) {
  auto& block = virtual_[static_cast<std::size_t>(root_block(b))];
  if (block.first < 0) block.first = now_;
  block.last = std::max(block.last, now_);
}

std::int32_t emitter::root_block(std::int32_t b) const {
  while (virtual_[static_cast<std::size_t>(b)].same_as >= 0) b = virtual_[static_cast<std::size_t>(b)].same_as;
  return b;
}

// The block of a value that has its own memory, created on first use.
std::int32_t emitter::block_for(value_id v) {
  const node& n = p_.at(v);
  switch (n.kind) {
    case node_kind::input: return external(buffer_kind::input, index_in(p_.inputs(), v.node), bytes_of(v, form(v)));
    case node_kind::state:
      return external(buffer_kind::state, index_in(p_.states(), v.node), bytes_of(v, layout::plain));
    case node_kind::constant:
      plan_.constants_.push_back(n.constant);
      return external(buffer_kind::constant, static_cast<std::int32_t>(plan_.constants_.size()) - 1,
                      bytes_of(v, layout::plain));
    case node_kind::operation: break;
  }
  const planning::home& where = d_.places.homes[v];
  switch (where.in) {
    case planning::home::place::output: return external(buffer_kind::output, where.index, bytes_of(v, layout::plain));
    case planning::home::place::state: return external(buffer_kind::state, where.index, bytes_of(v, layout::plain));
    case planning::home::place::own:
    case planning::home::place::over:
    case planning::home::place::inside: break;
  }
  const auto b = new_block(bytes_of(v, form(v)));
  if (where.over) virtual_[static_cast<std::size_t>(b)].same_as = block_of_[where.over];
  return b;
}

buffer_ref emitter::home(value_id v) {
  if (const auto& view = d_.views[v]; view.of) {
    const layout whole =
        form(v) == layout::blocked || form(view.of) == layout::rows_first ? form(view.of) : layout::plain;
    buffer_ref part = read(view.of, whole).at(view.offset);
    part.form = form(v);
    if (view.pitch != 0) part.pitch = view.pitch;
    return part;
  }
  if (const planning::home& where = d_.places.homes[v]; where.in == planning::home::place::inside)
    return home(where.over).at(where.offset);
  if (block_of_[v] == none) block_of_[v] = block_for(v);
  return {block_of_[v], 0, form(v)};
}

buffer_ref emitter::read(value_id v, layout as) {
  buffer_ref r;
  const auto c = as == form(v) ? converted_.end() : converted_.find({v, as});
  r = c != converted_.end() ? buffer_ref{c->second, 0, as} : home(v);
  if (planning::is_same_in(r_, p_.type(v), r.form, as)) r.form = as;
  touch(r.buffer);
  return r;
}

buffer_ref emitter::write(value_id v) {
  auto r = home(v);
  touch(r.buffer);
  return r;
}

// Sets the offsets of all blocks of the arena, whose lifetimes are known by now.
void emitter::place_memory() {
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
  plan_.arena_bytes_ = place_blocks({blocks.data(), blocks.size()}, plan_.cost_.live_peak, r_.options.memory);
  for (const auto& b : blocks) plan_.cost_.unshared += (b.bytes + 63) / 64 * 64;
  plan_.cost_.sharing = r_.options.memory;
  std::vector<std::int64_t> offset(virtual_.size());
  for (std::size_t k = 0; k < blocks.size(); ++k) offset[owner[k]] = blocks[k].offset;
  for (std::size_t i = 0; i < virtual_.size(); ++i) {
    const auto& b = virtual_[i];
    plan_.buffers_.push_back(
        {b.kind, b.index, offset[static_cast<std::size_t>(root_block(static_cast<std::int32_t>(i)))], b.bytes});
  }
  if (status_ < 0) return;
  for (auto& c : plan_.checks_) c.offset += offset[static_cast<std::size_t>(status_)];
  // Sorts the checks, so that the first to fail does not depend on what runs in parallel.
  std::vector<plan_check> sorted;
  for (const auto k :
       detail::stable_order(plan_.checks_.size(), [&](auto a, auto b) { return check_order_[a] < check_order_[b]; }))
    sorted.push_back(std::move(plan_.checks_[k]));
  plan_.checks_ = std::move(sorted);
}

void emitter::finish() {
  place_memory();
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
  sort_relocations();
}

// Addresses of one buffer are adjacent, so that binding it is one run over its addresses.
void emitter::sort_relocations() {
  std::vector<std::size_t> next(plan_.buffers_.size() + 1);
  for (const auto& r : plan_.relocations_) ++next[static_cast<std::size_t>(r.buffer) + 1];
  for (std::size_t b = 1; b < next.size(); ++b) next[b] += next[b - 1];
  std::vector<relocation> sorted(plan_.relocations_.size());
  for (const auto& r : plan_.relocations_) sorted[next[static_cast<std::size_t>(r.buffer)]++] = r;
  plan_.relocations_ = std::move(sorted);
}

// Arguments of packing steps are known; any other address of a state reads or writes its elements.
void emitter::find_touched_states() {
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
