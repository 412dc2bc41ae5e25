// Loops: the plan of a scan's body becomes part of the enclosing plan. The memory of an iteration is one block of the
// arena, its carries are the scan's results, and the addresses of slices advance with each iteration. Each branch of a
// cond is a loop of one iteration that runs if the predicate selects it.
module;
#include "../kernels/families.h"
module lamina:plan.loop.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :emitter;
import :op;
import :op.control;
import :passes;
import :plan;
import :plan.phases;
import :program;
import :shape;
import :stop;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

void run_loop(const void* p, void* scratch) noexcept {
  const auto& a = *static_cast<const loop_arguments*>(p);
  if (!a.runs()) return;
  const detail::stop_link* const stop = detail::innermost_stop;
  std::int64_t t = 0;
  for (; t < a.iterations; ++t) {
    for (std::int64_t i = 0; i < a.count && !(stop && stop->requested()); ++i)
      a.steps[i].run(a.steps[i].arguments, scratch);
    if (stop && stop->requested()) [[unlikely]]
      break;  // the executor checks the request, too, and aborts the run
    a.advance(1);
  }
  a.advance(-t);
}

// The loop body as a program whose carries are states.
program with_states(const program& body, std::size_t carries) {
  program p;
  std::vector<value> given, states;
  for (std::size_t i = 0; i < body.inputs().size(); ++i) {
    const node& in = body.at(body.inputs()[i]);
    if (i < carries) given.push_back(states.emplace_back(p.state("carry " + std::to_string(i), in.results[0])));
    else given.push_back(p.input(in.name, in.results[0]));
  }
  auto results = p.inlined(body, given);
  for (std::size_t i = carries; i < results.size(); ++i) p.output(body.outputs()[i].name, results[i]);
  for (std::size_t i = 0; i < carries; ++i)
    if (!results[i].same(states[i])) p.assign(states[i], results[i]);
  return p;
}

// The stages of an iteration if threads can share them: if an operation has several steps. Copies of results and
// carries, which belong to no line, are too small to share. A run numbers its stages with 32 bits.
std::vector<plan_stage> shared_stages(const plan& body, std::int64_t iterations) {
  std::vector<plan_stage> all;
  bool shared = false;
  for (const auto& s : body.stages()) {
    if (s.line >= 0) {
      all.push_back({s.first, s.count});
      shared = shared || s.count > 1;
    } else
      for (std::uint32_t i = 0; i < s.count; ++i) all.push_back({s.first + i, 1});
  }
  if (!shared || static_cast<double>(iterations) * static_cast<double>(all.size() + 1) > 4e9) all.clear();
  return all;
}

}  // namespace

void loop_arguments::advance(std::int64_t by) const {
  for (std::int64_t i = 0; i < move_count; ++i) {
    std::byte* field;
    std::memcpy(&field, arguments + moves[i].at, sizeof field);
    field += moves[i].stride * by;
    std::memcpy(arguments + moves[i].at, &field, sizeof field);
  }
}

// How an embedded plan runs: iterations, carries, sequences, and the predicate that must equal `open`.
struct emitter::loop_form {
  std::int64_t count = 1;
  std::size_t first_operand = 0, carries = 0, sequences = 0;  // of the node's operands; carries come before the first
  bool reverse = false;
  buffer_ref gate{};
  bool open = false;
};

void emitter::emit_loop() {
  const node& n = of();
  const auto& a = *static_cast<const scan_attributes*>(n.attributes.get());
  const auto carries = static_cast<std::size_t>(a.carries), sequences = static_cast<std::size_t>(a.sequences);
  const std::int64_t iterations = p_.type(n.inputs[carries]).dims.at(0);
  const program body = with_states(*n.subprograms[0], carries);
  plan inner(r_.isa);
  emitter inside(inner, {body, r_.isa, r_.options, sequences, d_.used.gradients});
  inside.run();
  for (std::size_t i = 0; i < carries; ++i)
    copy_whole(n.inputs[i], in(i), write({nodes_[0], static_cast<std::int32_t>(i)}));
  stage();
  take_over(
      inner,
      {.count = iterations, .first_operand = carries, .carries = carries, .sequences = sequences, .reverse = a.reverse},
      inside.status_buffer());
  add_lines(inner, "each of " + std::to_string(iterations) + " iterations: ", static_cast<double>(iterations));
}

void emitter::emit_branches() {
  const node& n = of();
  const buffer_ref predicate = in(0);
  for (std::size_t b = 0; b < 2; ++b) {
    plan inner(r_.isa);
    emitter inside(inner, {*n.subprograms[b], r_.isa, r_.options, 0, d_.used.gradients});
    inside.run();
    take_over(inner, {.first_operand = 1, .gate = predicate, .open = b == 0}, inside.status_buffer());
    stage();
    add_lines(inner, b == 0 ? "if true: " : "if false: ", 0.5);
  }
}

// Adds the cost and the lines of an embedded plan to this plan.
void emitter::add_lines(const plan& body, const std::string& when, double times) {
  plan_.cost_.flops += times * body.cost_.flops;
  plan_.cost_.bytes += static_cast<std::size_t>(times * static_cast<double>(body.cost_.bytes));
  plan_.counters_.fused_elementwise += body.counters_.fused_elementwise;
  plan_.counters_.fused_epilogues += body.counters_.fused_epilogues;
  for (auto line : body.lines_) {
    line.what = "  " + when + line.what;
    line.results.clear();
    plan_.lines_.push_back(std::move(line));
  }
}

namespace {
// Whether a message begins with a source location, "main.cpp:12: ".
bool has_place(const std::string& message) {
  const std::string first = message.substr(0, message.find(": "));
  const auto line = first.rfind(':');
  return line != first.npos && line + 1 < first.size() && first.find_first_not_of("0123456789", line + 1) == first.npos;
}
// Prefixes a subprogram's message that has no source location with the location of the operation that runs it.
std::string placed(const std::string& message, const std::string& place) {
  if (place.empty() || has_place(message)) return message;
  for (std::size_t k = 0; k != place.npos; k = place.find(": ", k)) {  // both may name the layer
    if (k > 0) k += 2;
    if (message.starts_with(place.substr(k) + ": ")) return place.substr(0, k) + message;
  }
  return place + ": " + message;
}
}  // namespace

// An embedded plan: where each of its buffers is in this plan, how far it advances per iteration, and the position of
// its arguments.
struct emitter::loop_part {
  const plan& body;
  const loop_form& how;
  std::int32_t status;  // the buffer of its counters
  std::vector<buffer_ref> to{};
  std::vector<std::int64_t> stride{};
  std::map<std::int64_t, buffer_ref> counters{};  // by their offset in the arena of the body
  std::uint32_t base = 0;

  plan_step moved(const plan_step& s) const { return {s.run, base + s.arguments, s.bytes}; }
};

void emitter::take_over(const plan& body, const loop_form& how, std::int32_t status) {
  loop_part part{body, how, status};
  place_buffers(part);
  for (const auto& c : body.checks_) part.counters[c.offset] = counter(placed(c.message, of().path), c.first);
  // Copies the arguments; addresses are relocated to the buffers of this plan.
  part.base = more_arguments(body.arguments_.size());
  std::ranges::copy(body.arguments_, plan_.arguments_.begin() + part.base);
  if (pack_invariants(part)) stage();
  const auto first_move = static_cast<std::uint32_t>(plan_.moves_.size());
  add_moves(part);
  const auto moves = static_cast<std::uint32_t>(plan_.moves_.size()) - first_move;
  for (const auto& c : body.code_) plan_.code_.push_back(c.moved(part.base));

  const auto first = static_cast<std::uint32_t>(loop_steps_.size());
  for (const auto& s : body.steps_) loop_steps_.push_back(part.moved(s));
  for (const auto& l : body.loops_)
    plan_.loops_.push_back({part.base + l.arguments, first + l.first, l.count,
                            static_cast<std::uint32_t>(plan_.moves_.size()) + l.first_move, l.moves});
  for (const auto& m : body.moves_) plan_.moves_.push_back({part.base + m.at, m.stride});
  const loop_arguments arguments{nullptr, nullptr, nullptr, 0, 0, how.count, nullptr, how.open};
  const address gate{&arguments.gate, how.gate};
  step(&run_loop, arguments, {&gate, how.gate ? 1u : 0u}, body.scratch_bytes_);
  const auto stages = shared_stages(body, how.count);
  plan_.loops_.push_back({pending_.back().arguments, first, static_cast<std::uint32_t>(body.cost_.steps), first_move,
                          moves, static_cast<std::uint32_t>(plan_.loop_stages_.size()),
                          static_cast<std::uint32_t>(stages.size())});
  plan_.loop_stages_.insert(plan_.loop_stages_.end(), stages.begin(), stages.end());
}

void emitter::place_buffers(loop_part& part) {
  const plan& body = part.body;
  const loop_form& how = part.how;
  part.to.resize(body.buffers_.size());
  part.stride.resize(body.buffers_.size());
  const buffer_ref arena =
      temporary(body.arena_bytes_);  // even without bytes: tensors without elements need an address
  const auto walk = [&](std::size_t i, buffer_ref all, std::size_t bytes) {
    const auto slice = static_cast<std::int64_t>(bytes);
    part.stride[i] = how.count == 1 ? 0 : how.reverse ? -slice : slice;
    part.to[i] = all.at(how.reverse ? (how.count - 1) * slice : 0);
  };
  for (std::size_t i = 0; i < body.buffers_.size(); ++i) {
    const auto& b = body.buffers_[i];
    const auto at = static_cast<std::size_t>(b.index);
    switch (b.kind) {
      case buffer_kind::arena: part.to[i] = arena.at(b.offset); break;
      case buffer_kind::state: part.to[i] = write({nodes_[0], b.index}); break;
      case buffer_kind::input:
        if (at < how.sequences) walk(i, in(how.first_operand + at), body.input_types_[at].bytes());
        else part.to[i] = in(how.first_operand + at);
        break;
      case buffer_kind::output:
        walk(i, write({nodes_[0], static_cast<std::int32_t>(how.carries + at)}), body.output_types_[at].bytes());
        break;
      case buffer_kind::constant:
        part.to[i] = {external(buffer_kind::constant, static_cast<std::int32_t>(plan_.constants_.size()), b.bytes), 0,
                      layout::plain};
        plan_.constants_.push_back(body.constants_[at]);
        break;
      case buffer_kind::packed: break;  // placed by `pack_invariants`
    }
  }
}

// Packs loop-invariant operands once: with their parameter, or before the first iteration. Returns whether any is of
// the latter.
bool emitter::pack_invariants(loop_part& part) {
  bool in_every_run = false;
  for (const auto& k : part.body.packs_) {
    const auto run = [&] {
      for (std::uint32_t s = 0; s < k.steps.count; ++s)
        pending_.push_back(part.moved(part.body.steps_[k.steps.first + s]));
    };
    const value_id v = of().inputs[part.how.first_operand + static_cast<std::size_t>(~k.state)];
    auto& to = part.to[static_cast<std::size_t>(k.buffer)];
    bool made = false;
    // Packing steps of a constant run during planning, when the addresses of these steps are still unknown.
    if (p_.at(d_.views[v].base).kind != node_kind::constant)
      to = packed(v, k.format, k.bytes, [&](buffer_ref, buffer_ref) { run(), made = true; }, k.moves);
    if (to || made) continue;
    to = temporary(k.bytes);
    run();
    in_every_run = true;
  }
  return in_every_run;
}

void emitter::add_moves(const loop_part& part) {
  for (const auto& r : part.body.relocations_) {
    const auto b = static_cast<std::size_t>(r.buffer);
    const bool counts = r.buffer == part.status;
    const buffer_ref at = counts ? part.counters.at(part.body.buffers_[b].offset + r.offset) : part.to[b].at(r.offset);
    plan_.relocations_.push_back({part.base + r.at, at.buffer, at.offset});
    if (part.stride[b]) plan_.moves_.push_back({part.base + r.at, part.stride[b]});
  }
}

}  // namespace lamina
