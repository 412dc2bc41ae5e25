// Steps: emits operations, chains and reorders, and implements the interface that an `emit` sees.
module;
#include "../kernels/families.h"
module lamina:plan.emit.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :emitter;
import :op;
import :op.box;
import :op.control;
import :passes;
import :plan;
import :plan.phases;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

void emitter::run() {
  begin();
  emit_items();
  emit_copies();
  finish();
}

void emitter::begin() {
  for (auto i : p_.inputs()) plan_.input_types_.push_back(p_.at(i).results[0]);
  for (auto s : p_.states()) {
    plan_.state_names_.push_back(p_.at(s).name);
    plan_.state_types_.push_back(p_.at(s).results[0]);
  }
  for (const auto& o : p_.outputs()) {
    plan_.output_names_.push_back(o.name);
    plan_.output_types_.push_back(p_.type(o.value));
  }
  for (const auto& a : p_.assignments()) plan_.assigned_.push_back(index_in(p_.states(), a.state));
  const auto items = d_.order.items.size();
  pending_.reserve(items);
  plan_.stages_.reserve(items);
  plan_.lines_.reserve(items);
  plan_.relocations_.reserve(3 * items);
  virtual_.reserve(2 * items);
  for (auto v : d_.places.leaving) block_of_[v] = block_for(v);
  plan_.counters_.fused_elementwise += d_.groups.fused_elementwise;
  plan_.counters_.fused_epilogues += d_.groups.fused_epilogues;
}

void emitter::no_such(std::string_view what, std::size_t i, std::size_t count) const {
  text t;
  detail::raise(error_kind::value,
                t << of().op->name << ": its `emit` asks for " << what << " " << i << " of " << count);
}

buffer_ref emitter::out(std::size_t i) {
  written_ |= 1u << std::min<std::size_t>(i, 31);
  value_id v = result_at(i) == 0 ? current_->result : value_id{nodes_[0], static_cast<std::int32_t>(i)};
  return write(v);
}

bool emitter::used(std::size_t i) const {
  result_at(i);
  return d_.used.is_read({nodes_[0], static_cast<std::int32_t>(i)});
}

const tensor_type& emitter::operand_type(value_id v) const {
  const auto nodes = p_.nodes().size();
  if (v.node < 0 || static_cast<std::size_t>(v.node) >= nodes) no_such("node", static_cast<std::size_t>(v.node), nodes);
  if (v.result < 0 || static_cast<std::size_t>(v.result) >= p_.at(v).results.size())
    no_such("result", static_cast<std::size_t>(v.result), p_.at(v).results.size());
  return p_.type(v);
}

// An `emit` may request any number of bytes.
void emitter::check_bytes(std::size_t bytes) const {
  if (bytes <= std::size_t(1) << 47) return;
  text t;
  detail::raise(error_kind::memory, t << of().op->name << ": its `emit` asks for " << bytes << " bytes");
}

const lamina::epilogue& emitter::epilogue() const {
  static const lamina::epilogue nothing;
  const group* g = d_.groups.of(nodes_[0]);
  return g ? g->tail : nothing;
}

buffer_ref emitter::temporary(std::size_t bytes) {
  check_bytes(bytes);
  auto b = new_block(bytes);
  touch(b);
  return {b, 0, layout::plain};
}

buffer_ref emitter::counter(std::string_view message, const std::optional<first_counted>& first) {
  if (status_ < 0) {
    status_ = new_block(0);
    virtual_[static_cast<std::size_t>(status_)].first = 0;
  }
  const auto at = static_cast<std::int64_t>(status_bytes_);
  status_bytes_ += first ? 24 : 8;
  plan_.checks_.push_back({at, std::string(message), first});
  check_order_.push_back(current_->order);
  return {status_, at, layout::plain};
}

buffer_ref emitter::packed(value_id v, std::uint64_t format, std::size_t bytes,
                           const std::function<void(buffer_ref, buffer_ref)>& make, bool moves) {
  operand_type(v);  // rejects a value that is not an operand
  const value_id base = d_.views[v].base;
  const node& from = p_.at(base);
  if (p_.type(base).dims.size() != p_.type(v).dims.size()) return {};
  const bool invariant = r_.first_invariant && from.kind == node_kind::input &&
                         static_cast<std::size_t>(index_in(p_.inputs(), base.node)) >= *r_.first_invariant;
  const bool constant = from.kind == node_kind::constant && !d_.used.gradients && machine_has(r_.isa);
  const bool state =
      from.kind == node_kind::state && !r_.first_invariant && !d_.used.gradients && !p_.is_assigned(base.node);
  if (!invariant && !constant && !state) return {};
  const auto [known, fresh] = pack_of_.try_emplace({base.node, format}, none);
  if (fresh) known->second = constant ? pack_constant(v, bytes, make) : add_pack(v, format, bytes, make, moves);
  return {known->second, 0, layout::plain};
}

// Steps that pack a state are separate from those of a run.
std::int32_t emitter::add_pack(value_id v, std::uint64_t format, std::size_t bytes, const pack_maker& make,
                               bool moves) {
  const auto base = d_.views[v].base.node;
  const std::int32_t of = r_.first_invariant ? ~index_in(p_.inputs(), base) : index_in(p_.states(), base);
  const auto b = external(buffer_kind::packed, static_cast<std::int32_t>(plan_.packs_.size()), bytes);
  const auto steps = packing_steps(v, b, make);
  plan_.packs_.push_back({of,
                          format,
                          bytes,
                          b,
                          {static_cast<std::uint32_t>(pack_steps_.size()), static_cast<std::uint32_t>(steps.size())},
                          moves});
  pack_steps_.insert(pack_steps_.end(), steps.begin(), steps.end());
  return b;
}

std::vector<plan_step> emitter::packing_steps(value_id v, std::int32_t to, const pack_maker& make) {
  auto kept = std::exchange(pending_, {});
  packing_ = true;
  make(read(v, layout::plain), {to, 0, layout::plain});
  packing_ = false;
  return std::exchange(pending_, std::move(kept));
}

// The packed form of a constant is a constant: its steps run here and are then removed from the plan.
std::int32_t emitter::pack_constant(value_id v, std::size_t bytes, const pack_maker& make) {
  const auto base = d_.views[v].base;
  const auto arguments = plan_.arguments_.size(), relocations = plan_.relocations_.size(), code = plan_.code_.size(),
             blocks = virtual_.size();
  const auto scratch_bytes = std::exchange(plan_.scratch_bytes_, 0);
  const auto from = std::exchange(block_of_[base], new_block(0));
  const auto to = new_block(bytes);
  any_tensor form(tensor_type{dtype::uint8, {dim(static_cast<std::int64_t>(bytes))}});
  const auto steps = packing_steps(v, to, make);
  const storage scratch(plan_.scratch_bytes_ + 64);
  for (const auto& s : steps) {
    const storage own(s.bytes);
    auto* bound = static_cast<std::byte*>(own.data());
    std::memcpy(bound, plan_.arguments_.data() + s.arguments, s.bytes);
    for (auto i = relocations; i < plan_.relocations_.size(); ++i) {
      const auto& r = plan_.relocations_[i];
      if (r.at < s.arguments || r.at >= s.arguments + s.bytes) continue;
      const std::byte* at = (r.buffer == to ? form.data() : p_.at(base).constant.data()) + r.offset;
      std::memcpy(bound + (r.at - s.arguments), &at, sizeof at);
    }
    s.run(bound, scratch.data());
  }
  plan_.arguments_.resize(arguments);
  plan_.relocations_.resize(relocations);
  plan_.code_.resize(code);
  plan_.scratch_bytes_ = scratch_bytes;
  virtual_.resize(blocks);
  block_of_[base] = from;
  plan_.cost_.packed += bytes;
  plan_.constants_.push_back(std::move(form));
  return external(buffer_kind::constant, static_cast<std::int32_t>(plan_.constants_.size()) - 1, bytes);
}

// The results of an item that runs once persist across runs.
void emitter::keep_once() {
  plan_.once_stages_ = plan_.stages_.size();
  note_ = "once";
  auto remember = [&](std::int32_t state) {
    if (once_states_.insert(state).second) plan_.once_states_.push_back(state);
  };
  for (auto m : nodes_) {
    if (const auto b = block_of_[{m, 0}]; b != none) virtual_[static_cast<std::size_t>(root_block(b))].last = never;
    for (auto v : p_.at(m).inputs)
      if (auto base = d_.views[v].base; p_.at(base).kind == node_kind::state)
        remember(index_in(p_.states(), base.node));
  }
}

void emitter::stage() {
  if (!packing_ && pending_.size() > stage_first_) {
    plan_.stages_.push_back(
        {static_cast<std::uint32_t>(stage_first_), static_cast<std::uint32_t>(pending_.size() - stage_first_)});
    if (auto& s = plan_.stages_.back(); s.count == 1 && !plan_.loops_.empty())
      if (const auto& l = plan_.loops_.back(); l.stages > 0 && l.arguments == pending_.back().arguments)
        s.loop = static_cast<std::int32_t>(plan_.loops_.size()) - 1;
    stage_first_ = pending_.size();
  }
}

// A program may need any number of kernel calls, e.g. one per matrix of a product, but steps address arguments with 32
// bits.
std::uint32_t emitter::more_arguments(std::size_t bytes) {
  constexpr std::size_t limit = std::size_t(256) << 20;
  auto& all = plan_.arguments_;
  const std::size_t at = (all.size() + 63) / 64 * 64;
  if (at > limit || bytes > limit - at) {
    text t;
    t << (nodes_.empty() ? std::string_view("copy") : of().op->name)
      << ": the kernel calls of one plan take more than 256 MiB of arguments";
    if (!nodes_.empty()) {
      t << "; split the operands";
      for (auto v : of().inputs) t << " " << p_.type(v).dims;
    }
    detail::raise(error_kind::memory, t);
  }
  all.resize(at + bytes);
  return static_cast<std::uint32_t>(at);
}

void emitter::add(step_function run, view<const std::byte> arguments, view<const address> addresses,
                  view<const code_field> code, std::size_t scratch) {
  const std::uint32_t at = more_arguments(arguments.size());
  std::memcpy(plan_.arguments_.data() + at, arguments.data(), arguments.size());
  const auto wrong = [&](std::string_view what) {
    text t;
    detail::raise(error_kind::value, t << (nodes_.empty() ? std::string_view("copy") : of().op->name)
                                       << ": its `emit` gives a step " << what);
  };
  auto place = [&](const void* field) {
    const auto offset = reinterpret_cast<std::uintptr_t>(field) - reinterpret_cast<std::uintptr_t>(arguments.data());
    if (offset > arguments.size() || arguments.size() - offset < sizeof(void*))
      wrong("an address for a field that is not one of its arguments");
    return static_cast<std::uint32_t>(at + offset);
  };
  if (!run) wrong("without a function");
  for (const auto& a : addresses) {
    if (a.to.buffer < 0 || static_cast<std::size_t>(a.to.buffer) >= virtual_.size()) wrong("an address in no buffer");
    if (!nodes_.empty() && !of().op->library && a.to.buffer != status_ &&
        (a.to.offset < 0 ||
         static_cast<std::size_t>(a.to.offset) > virtual_[static_cast<std::size_t>(a.to.buffer)].bytes))
      wrong("an address outside of its buffer");
    plan_.relocations_.push_back({place(a.field), a.to.buffer, a.to.offset});
  }
  for (const auto& c : code) plan_.code_.push_back({place(c.field), c.numbers ? place(c.numbers) : plan_code::always});
  if (!nodes_.empty()) check_bytes(scratch);
  plan_.scratch_bytes_ = std::max(plan_.scratch_bytes_, scratch);
  if (!nodes_.empty() && of().op->by_element) plan_.by_element_.push_back(at);
  pending_.push_back({run, at, static_cast<std::uint32_t>(arguments.size())});
}

void emitter::emit_item() {
  if (current_->what == plan_item::kind::reorder) emit_reorder();
  else if (current_->what == plan_item::kind::chain) emit_chain();
  else if (is_call_of<op::scan>(of())) emit_loop();
  else if (is_call_of<op::cond>(of())) emit_branches();
  else if (!d_.views[{nodes_[0], 0}].of) {
    if (!of().op->emit) {
      text t;
      t << of().op->name << ": this operation cannot be run";
      detail::raise(error_kind::state, t);
    }
    written_ = 0;
    const auto steps = pending_.size();
    of().op->emit(*this);
    if (!of().op->library) check_written(pending_.size() > steps);
  }
  stage();
}

// A result that a user's `emit` does not write would be uninitialized memory.
void emitter::check_written(bool steps) const {
  for (std::size_t r = 0; r < of().results.size(); ++r)
    if (used(r) && of().results[r].dims.size() > 0 && !(steps && written_ >> r & 1u)) {
      text t;
      detail::raise(error_kind::value, t << of().op->name << ": its `emit` adds no step that writes result "
                                         << static_cast<std::int64_t>(r));
    }
}

void emitter::begin_item(const plan_item& it) {
  current_ = &it;
  nodes_ = d_.order.nodes(d_.groups, it);
}

void emitter::emit_items() {
  auto& stages = plan_.stages_;
  const auto& items = d_.order.items;
  for (std::size_t i = 0; i < items.size();) {
    const auto level = items[i].level;
    const auto first_stage = stages.size(), first_step = pending_.size();
    std::vector<part> parts;
    for (; i < items.size() && items[i].level == level; ++i) {
      now_ = level + 1;
      at_ = static_cast<std::int32_t>(i);
      begin_item(items[i]);
      if (at_ == d_.places.commit_item) plan_.commit_stage_ = first_stage;
      const auto first_own_stage = stages.size(), steps = pending_.size();
      const double flops = plan_.cost_.flops;
      emit_item();
      if (current_->once) keep_once();
      record(pending_.size() - steps, first_own_stage);
      if (pending_.size() > steps)
        parts.push_back({first_own_stage, stages.size(),
                         (plan_.cost_.flops - flops) / static_cast<double>(pending_.size() - steps)});
    }
    if (parts.size() > 1) merge_stages(std::move(parts), first_step);
  }
  if (d_.places.commit_item == never) plan_.commit_stage_ = plan_.stages_.size();
}

// Steps of each stage are sorted by work, longest first, so that no thread waits for one that started late.
void emitter::merge_stages(std::vector<part> parts, std::size_t first_step) {
  const auto first_stage = parts[0].first;
  const std::vector<plan_step> steps(pending_.begin() + static_cast<std::ptrdiff_t>(first_step), pending_.end());
  const std::vector<plan_stage> stages(plan_.stages_.begin() + static_cast<std::ptrdiff_t>(first_stage),
                                       plan_.stages_.end());
  pending_.resize(first_step);
  plan_.stages_.resize(first_stage);
  stage_first_ = first_step;
  detail::sort_stably<part>(parts, [](const auto& a, const auto& b) { return a.weight > b.weight; });
  for (std::size_t k = 0;; ++k) {
    std::int32_t line = -1, loop = -1;
    std::size_t steps_found = 0;
    for (const auto& p : parts) {
      if (p.first + k >= p.last) continue;
      const auto& s = stages[p.first + k - first_stage];
      ++steps_found;
      line = steps_found == 1 ? s.line : -1;
      loop = steps_found == 1 ? s.loop : -1;
      const auto from = steps.begin() + static_cast<std::ptrdiff_t>(s.first - first_step);
      pending_.insert(pending_.end(), from, from + s.count);
    }
    if (steps_found == 0) break;
    stage();
    plan_.stages_.back().line = line;
    plan_.stages_.back().loop = loop;
  }
}

void emitter::record(std::size_t steps, std::size_t first_stage) {
  const std::string note = std::exchange(note_, {}), kernel = std::exchange(kernel_, {});
  if (steps == 0) return;
  plan_line line{{}, p_.type(current_->result), form(current_->result), 0, 0, static_cast<std::uint32_t>(steps)};
  text t;
  if (current_->what == plan_item::kind::reorder) {
    t << "reorder to " << name_of(current_->to);
    line.form = current_->to;
    line.results.push_back({line.result, line.form, converted_.at({current_->result, current_->to}), 0,
                            bytes_of(current_->result, line.form)});
    line.bytes = bytes_of(current_->result, form(current_->result)) + bytes_of(current_->result, current_->to);
    ++plan_.cost_.reorders;
  } else {
    line.where = of().path;
    for (std::size_t k = 0; k < nodes_.size(); ++k) {
      const node& n = p_.at(nodes_[k]);
      t << (k ? " + " : "") << n.op->name;
      types_.clear();
      for (auto v : n.inputs) types_.push_back(p_.type(v));
      line.flops += n.op->flops(n.attributes.get(), types_, n.results);
      for (std::size_t q = 0; q < n.inputs.size(); ++q)
        if (n.reads_data(q) && d_.order.item_of[static_cast<std::size_t>(n.inputs[q].node)] != at_)
          line.bytes += bytes_of(n.inputs[q], form(n.inputs[q]));
    }
    line.bytes += bytes_of(current_->result, form(current_->result));
    for (auto m : nodes_)
      for (std::size_t r = 0; r < p_.at(m).results.size(); ++r) {
        const value_id v{m, static_cast<std::int32_t>(r)};
        if (block_of_[v] == none && d_.places.homes[v].in != planning::home::place::inside) continue;
        const buffer_ref at = home(v);
        line.results.push_back({p_.type(v), form(v), at.buffer, at.offset, bytes_of(v, form(v))});
      }
  }
  if (!note.empty()) t << " (" << note << ")";
  line.what = t.string();
  line.kernel = kernel;
  plan_.cost_.flops += line.flops;
  plan_.cost_.bytes += line.bytes;
  plan_.lines_.push_back(std::move(line));
  for (auto s = first_stage; s < plan_.stages_.size(); ++s)
    plan_.stages_[s].line = static_cast<std::int32_t>(plan_.lines_.size()) - 1;
}

// The block of a converted value: that of the output which its plain form is, or one of its own.
std::int32_t emitter::block_for_conversion(value_id v, layout to) {
  if (to == layout::plain)
    if (const auto output = d_.places.plain_in.find(v); output != d_.places.plain_in.end())
      return external(buffer_kind::output, output->second, bytes_of(v, to));
  return new_block(bytes_of(v, to));
}

void emitter::emit_reorder() {
  value_id v = current_->result;
  const shape s = planning::with_four_axes(p_.type(v).dims);
  auto from = read(v, form(v));
  const auto b = block_for_conversion(v, current_->to);
  converted_[{v, current_->to}] = b;
  touch(b);
  buffer_ref to{b, 0, current_->to};
  if (from.form == layout::uniform || current_->to == layout::uniform) {  // one element broadcast to all
    const bool numbers_change = current_->to == layout::blocked && p_.type(v).element == dtype::int8;
    const layout spread = numbers_change ? layout::plain : current_->to;
    const buffer_ref all{numbers_change ? new_block(bytes_of(v, spread)) : b, 0, spread};
    kernels::copy_args a{};
    a.axes = 1;
    a.size = static_cast<std::int32_t>(size_of(p_.type(v).element));
    a.extent[0] = static_cast<std::int64_t>(bytes_of(v, spread)) / a.size;  // including the padding of a blocked image
    a.out_stride[0] = 1;
    touch(all.buffer);
    if (s.size()) step(kernels::copies_of(r_.isa).copy, a, {{&a.in, from}, {&a.out, all}});
    if (!numbers_change) return;
    stage();
    ++now_;
    touch(all.buffer);
    touch(b);
    from = all;
  }
  const auto size = static_cast<std::int64_t>(size_of(p_.type(v).element));
  const auto way_of = [&](const auto& family) {
    return current_->to == layout::blocked ? family.to_blocked : family.from_blocked;
  };
  auto run = size == 1 ? way_of(kernels::byte_images_of(r_.isa)) : way_of(kernels::conv_of(r_.isa));
  constexpr double reorder_grain = emission::usual_grain / 2;
  const bool to_blocks = current_->to == layout::blocked;
  const auto moved = [&](std::int64_t images, std::int64_t channels, std::int64_t plain_at, std::int64_t blocked_at) {
    kernels::reorder_args a{};
    a.images = images;
    a.channels = channels;
    a.pixels = s.at(2) * s.at(3);
    step(run, a,
         {{&a.in, from.at(to_blocks ? plain_at : blocked_at)}, {&a.out, to.at(to_blocks ? blocked_at : plain_at)}});
  };
  const std::int64_t map = s.size(2, 4) * size, width = kernels::lanes(static_cast<kernels::isa>(r_.isa)),
                     all = s.at(0) * s.at(1);
  // Where blocks are consecutive in both layouts, all images form one run of blocks.
  if (s.at(0) == 1 || s.at(1) % width == 0)
    return emission::cut((all + width - 1) / width, static_cast<double>(s.size(2, 4) * width) * 2,
                         [&](std::int64_t first, std::int64_t count) {
                           moved(1, std::min(count * width, all - first * width), first * width * map,
                                 first * width * map);
                         },
                         reorder_grain);
  const std::int64_t plain_image = s.at(1) * map, blocked_image = (s.at(1) + width - 1) / width * width * map;
  emission::cut(
      s.at(0), static_cast<double>(s.size(1, 4)) * 2,
      [&](std::int64_t first, std::int64_t count) {
        moved(count, s.at(1), first * plain_image, first * blocked_image);
      },
      reorder_grain);
}

void emitter::copy_whole(value_id v, buffer_ref from, buffer_ref to) {
  kernels::copy_args a{};
  a.axes = 1;
  a.size = static_cast<std::int32_t>(size_of(p_.type(v).element));
  a.extent[0] = p_.type(v).dims.size();
  a.in_stride[0] = form(v) == layout::uniform && from.form == layout::uniform ? 0 : 1;
  a.out_stride[0] = 1;
  if (a.extent[0])
    detail::box_step(a).add(kernels::copies_of(r_.isa), [&](auto run, auto& args, auto* in, auto* out) {
      step(run, args, {{in, from}, {out, to}});
    });
}

void emitter::emit_copies() {
  const plan_item copies{.what = plan_item::kind::reorder};
  begin_item(copies);
  copy_outputs();  // outputs first: one may be the old value of a state
  copy_assignments();
  current_ = nullptr;
}

// Converts a blocked result to plain layout, unless an item does.
void emitter::make_plain(value_id v) {
  if (form(v) != layout::blocked || converted_.contains({v, layout::plain})) return;
  const plan_item change{.what = plan_item::kind::reorder, .to = layout::plain, .result = v};
  begin_item(change);
  stage();  // earlier copies may read memory that the converted result takes
  ++now_;
  const auto steps = pending_.size(), first_stage = plan_.stages_.size();
  emit_item();
  record(pending_.size() - steps, first_stage);
  current_ = nullptr;
}

void emitter::copy_outputs() {
  for (const auto& [v, output] : d_.places.plain_in) make_plain(v);
  for (std::size_t o = 0; o < p_.outputs().size(); ++o) {
    if (d_.places.output_written[o]) continue;
    const value_id v = p_.outputs()[o].value;
    make_plain(v);
    ++now_;
    copy_whole(
        v, read(v, layout::plain),
        {external(buffer_kind::output, static_cast<std::int32_t>(o), bytes_of(v, layout::plain)), 0, layout::plain});
  }
  stage();
}

void emitter::copy_assignments() {
  const auto& all = p_.assignments();
  const auto is_left = [&](std::size_t k) {
    return !d_.places.state_written[k] && d_.views[all[k].value].base.node != all[k].state;
  };
  for (std::size_t k = 0; k < all.size(); ++k)
    if (is_left(k)) make_plain(all[k].value);
  // The old value of a state that is itself assigned is saved first, if another state takes it.
  std::map<std::int32_t, std::int32_t> aside;
  for (std::size_t k = 0; k < all.size(); ++k) {
    const auto& a = all[k];
    if (!is_left(k) || !p_.is_assigned(d_.views[a.value].base.node)) continue;
    ++now_;
    auto b = aside[a.state] = new_block(p_.type(a.value).bytes());
    touch(b);
    copy_whole(a.value, read(a.value, layout::plain), {b, 0, layout::plain});
  }
  stage();
  bool first = d_.places.commit_item == never;
  for (std::size_t k = 0; k < all.size(); ++k) {
    if (!is_left(k)) continue;
    const auto& a = all[k];
    if (std::exchange(first, false)) plan_.commit_stage_ = plan_.stages_.size();
    ++now_;
    auto kept = aside.find(a.state);
    if (kept != aside.end()) touch(kept->second);
    copy_whole(a.value, kept != aside.end() ? buffer_ref{kept->second, 0, layout::plain} : read(a.value, layout::plain),
               home({a.state, 0}));
  }
  stage();
}

}  // namespace lamina
