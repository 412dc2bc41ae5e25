module lamina:runner.impl;
import :context;
import :core;
import :execute;
import :op.sized;
import :passes;
import :parameter;
import :plan;
import :plan_cache;
import :program;
import :runner;
import :segments;
import :shape;
import :tensor;
import :workspace;
import lamina.std;

namespace lamina {

namespace {
// Whether elements that decide shapes are those that an executor was made for.
bool same(const program& p, const std::vector<std::byte>& made_for, view<const shape> inputs,
          view<const known_input> known) {
  std::size_t at = 0;
  const auto next_is = [&](const void* data, std::size_t bytes) {
    if (made_for.size() - at < bytes || (bytes && std::memcmp(made_for.data() + at, data, bytes) != 0)) return false;
    at += bytes;
    return true;
  };
  for (const auto& k : known) {
    const tensor_type type{p.at(p.inputs()[k.input]).results[0].element, inputs[k.input]};
    if (!next_is(&k.input, sizeof k.input) || !next_is(k.data, type.bytes())) return false;
  }
  return at == made_for.size();
}
bool same(const std::vector<shape>& known, view<const shape> inputs) {
  bool equal = known.size() == inputs.size();
  for (std::size_t k = 0; equal && k < inputs.size(); ++k) equal = known[k] == inputs[k];
  return equal;
}
std::size_t hash_of(view<const shape> inputs) {
  std::size_t h = inputs.size();
  for (const auto& s : inputs) h = h * 31 + s.hash();
  return h;
}
// Messages of a plan's checks name the places of its operations: programs that differ in those do not share a plan.
std::uint64_t words_of_checks(const program& p) {
  std::uint64_t h = 0;
  for (const node& n : p.nodes()) {
    if (n.op && n.op->may_fail) h = h * 31 + std::hash<std::string>()(n.path);
    for (const auto& sub : n.subprograms) h = h * 31 + words_of_checks(*sub);
  }
  return h;
}
// What the cache of plans knows a program by.
program_id structure_of(const program& p) {
  program_id id = p.id();
  id.words[1] ^= words_of_checks(p);
  return id;
}
}  // namespace

struct plan_runner::implementation {
  struct entry {
    std::vector<shape> shapes;
    std::vector<std::byte> known;  // elements that decide shapes
    std::size_t hash;
    std::unique_ptr<executor> run;
    std::uint64_t used = 0;
    bool stale = false;
    // With the plan, which it keeps alive whether or not the cache has forgotten it.
    std::size_t bytes() const { return run->own_bytes() + run->plan().bytes(); }
  };
  static constexpr std::size_t max_executors = 512, max_bytes = std::size_t(32) << 20;
  static constexpr std::size_t nothing = static_cast<std::size_t>(-1);

  thread_pool* pool() const { return where->threads() > 1 ? &where->pool() : nullptr; }
  std::unique_lock<std::mutex> packing() const {
    return packs ? std::unique_lock(packs->mutex) : std::unique_lock<std::mutex>();
  }

  bool is_for(const entry& e, view<const shape> inputs, view<const known_input> known) const {
    return same(e.shapes, inputs) && same(*source, e.known, inputs, known);
  }
  std::size_t find(view<const shape> inputs, view<const known_input> known) const {
    const std::size_t hash = hash_of(inputs);
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].hash == hash && is_for(entries[i], inputs, known)) return i;
    return nothing;
  }

  std::size_t make(view<const shape> inputs, view<const known_input> known) {
    if (!structure) structure = structure_of(*source);
    auto& plans = where->slot<plan_cache>();
    auto plan = plans.get(*source, *structure, inputs, where->isa(), passes, known);
    provide(*plan);
    std::unique_ptr<executor> run;
    {
      auto lock = packing();
      const std::size_t forms = states.shared ? states.shared->packed_forms() : 0;
      run = std::make_unique<executor>(plan, states, pool(), memory);
      if (packs && states.shared->packed_forms() > forms) packs->makers.push_back(plan);
    }
    const std::size_t most = std::min(max_bytes, plans.limits().bytes);
    std::size_t bytes = run->own_bytes() + plan->bytes();
    for (const auto& e : entries) bytes += e.bytes();
    while (!entries.empty() && (entries.size() >= max_executors || bytes > most)) {
      const auto oldest = std::min_element(entries.begin(), entries.end(),
                                           [](const entry& a, const entry& b) { return a.used < b.used; });
      bytes -= oldest->bytes();
      forget(static_cast<std::size_t>(oldest - entries.begin()));
    }
    entries.push_back(
        {{inputs.begin(), inputs.end()}, bytes_of(*source, inputs, known), hash_of(inputs), std::move(run)});
    return entries.size() - 1;
  }
  void forget(std::size_t i) {
    if (i + 1 != entries.size()) std::swap(entries[i], entries.back());
    entries.pop_back();
    last = nothing;
  }

  // ---- memory ----
  void provide(const plan& p) {
    if (!arenas) {
      if (!memory) memory = std::make_shared<workspace>();
      return;
    }
    rest();
    const std::size_t needed = executor::workspace_bytes(p, pool());
    try {
      memory = arenas->take(needed, memory);
    } catch (const out_of_memory& e) { detail::no_memory_for(p, needed, e); }
    lent = true;
  }
  void rest() noexcept {
    if (std::exchange(lent, false)) arenas->give_back(memory);
  }

  // ---- segments ----
  // A value between two segments, as the last run left it.
  struct between {
    const std::byte* data = nullptr;
    shape dims;
    storage own;
  };
  struct cut {
    segmented_program whole;
    std::vector<plan_runner> runners;  // of the segments; one that computes nothing has none
    std::vector<between> slots;
    std::vector<shape> extents;      // of the inputs of one segment
    std::vector<known_input> known;  // of one segment
  };

  std::shared_ptr<const program> source;
  state_source states;
  std::shared_ptr<context> where;
  pass_options passes;
  shared_packs* packs = nullptr;
  std::shared_ptr<arena_pool> arenas;
  std::optional<program_id> structure{};
  std::uint64_t parameters = 0;  // identity of the shared store that executors have read
  std::shared_ptr<workspace> memory{};
  bool lent = false;
  std::vector<entry> entries{};
  std::size_t last = nothing;  // the entry used last
  std::uint64_t uses = 0;
  std::unique_ptr<cut> segments{};  // of a program that has some
};

plan_runner::plan_runner() = default;
plan_runner::plan_runner(plan_runner&&) noexcept = default;
plan_runner& plan_runner::operator=(plan_runner&&) noexcept = default;
plan_runner::~plan_runner() = default;
plan_runner::plan_runner(std::unique_ptr<implementation> made) : impl_(std::move(made)) {}
plan_runner::plan_runner(std::shared_ptr<const program> p, state_source states, std::shared_ptr<context> where,
                         pass_options passes, shared_packs* packs, std::shared_ptr<arena_pool> arenas)
    : impl_(new implementation{std::move(p), states, std::move(where), std::move(passes), packs, std::move(arenas)}) {
  auto& r = *impl_;
  if (!r.source) detail::raise(error_kind::value, "plan_runner: it is given no program");
  if (!r.where) detail::raise(error_kind::value, "plan_runner: it is given no context");
  if (counted_when_run_in(*r.source).empty()) return;
  r.segments = std::make_unique<implementation::cut>();
  r.segments->whole = segmented(*r.source);
  // A segment is one plan: what decides its shapes is known once it is planned.
  for (const auto& s : r.segments->whole.segments)
    r.segments->runners.push_back(s.body ? plan_runner(std::unique_ptr<implementation>(new implementation{
                                               s.body, r.states, r.where, r.passes, r.packs, r.arenas}))
                                         : plan_runner());
  r.segments->slots.resize(r.segments->whole.slots.size());
}

plan_runner::implementation& plan_runner::made() const {
  if (!impl_) [[unlikely]]
    detail::raise(error_kind::state,
                  "plan_runner: it has no program; it was moved to another one, or made without one");
  return *impl_;
}

bool plan_runner::in_segments() const { return impl_ && impl_->segments; }

executor& plan_runner::at(view<const shape> inputs, view<const known_input> known) {
  auto& r = made();
  if (r.states.shared && r.states.shared->identity() != r.parameters) [[unlikely]] {
    for (auto& e : r.entries) e.stale = true;
    r.parameters = r.states.shared->identity();
  }
  if (r.segments) [[unlikely]] {
    text t;
    detail::raise(error_kind::unsupported, t << counted_when_run_in(*r.source)
                                             << ": the extent of its result is known only when it has run; such a "
                                                "program runs in segments, which one plan cannot hold");
  }
  std::size_t i = r.last;
  if (i == implementation::nothing || !r.is_for(r.entries[i], inputs, known)) {
    i = r.find(inputs, known);
    if (i == implementation::nothing) i = r.make(inputs, known);
    r.last = i;
  }
  auto& e = r.entries[i];
  e.used = ++r.uses;
  // Memory first: what is made of states is written to it.
  if (r.arenas) r.provide(e.run->plan());
  e.run->work_in(r.memory);
  if (e.stale) {
    auto lock = r.packing();
    try {
      e.run->read(r.states);
    } catch (...) {
      r.forget(i);
      throw;
    }
    e.stale = false;
  }
  return *e.run;
}

void plan_runner::read(state_source states, shared_packs* packs) {
  auto& r = made();
  r.states = states;
  r.packs = packs;
  for (auto& e : r.entries) e.stale = true;
  if (!r.segments) return;
  for (auto& s : r.segments->runners)
    if (s.impl_) s.read(states, packs);
}
void plan_runner::rest() noexcept {
  if (!impl_) return;
  impl_->rest();
  if (!impl_->segments) return;
  for (auto& s : impl_->segments->runners)
    if (s.impl_) s.rest();
}

std::size_t plan_runner::bytes() const {
  if (!impl_) return 0;
  std::size_t n = impl_->memory && !impl_->arenas ? impl_->memory->bytes() : 0;
  for (const auto& e : impl_->entries) n += e.run->own_bytes();
  if (!impl_->segments) return n;
  for (const auto& s : impl_->segments->runners)
    if (s.impl_) n += s.bytes();
  for (const auto& s : impl_->segments->slots) n += s.own.bytes();
  return n;
}

// ---- runs -----------------------------------------------------------------------------------------------------------

namespace {
// Memory that is asked for a run of an executor.
template <class Ask> auto asked_for(const executor& e, const Ask& ask) {
  try {
    return ask();
  } catch (const out_of_memory& error) { detail::no_memory_for(e.plan(), e.planned_bytes(), error); }
}
// How many rows there are to be, as a segment has left it.
std::int64_t counted(const counted_rows& c, const void* count, std::int64_t most) {
  std::int64_t n;
  std::memcpy(&n, count, sizeof n);
  if (n < 0 || n > most) {
    text t;
    detail::raise(error_kind::value, t << c.what << ": " << n << " rows are asked for, and there are " << most);
  }
  return n;
}
}  // namespace

void plan_runner::run(view<const shape> extents, view<const void* const> inputs, const output_place& place) {
  run(extents, inputs, place, nullptr);
}
void plan_runner::run_timed(view<const shape> extents, view<const void* const> inputs, const output_place& place,
                            std::vector<timed_plan>& times) {
  run(extents, inputs, place, &times);
}

void plan_runner::run(view<const shape> extents, view<const void* const> inputs, const output_place& place,
                      std::vector<timed_plan>* times) {
  auto& r = made();
  // The executor of a segment, or of the whole, and where its times go.
  struct chosen {
    executor& run;
    timed_plan* times;
  };
  const auto bound = [&](std::size_t segment, plan_runner& of, view<const shape> inputs_of,
                         view<const known_input> known_of = {}) -> chosen {
    if (!times) return {of.at(inputs_of, known_of), nullptr};
    const auto is = [&](const timed_plan& t) {
      return t.segment == segment && same(t.inputs, inputs_of) &&
             same(*of.impl_->source, t.known_elements, inputs_of, known_of);
    };
    auto known = std::find_if(times->begin(), times->end(), is);
    if (known == times->end()) {
      pass_options passes = r.passes;
      passes.parallel = false;
      auto p = make_plan(*of.impl_->source, inputs_of, r.where->isa(), passes, known_of);
      auto run = std::make_shared<executor>(p, r.states, r.pool(), std::make_shared<workspace>());
      std::vector<std::int64_t> nothing_yet(p->lines().size() + 1);
      timed_plan made{p,
                      segment,
                      {inputs_of.begin(), inputs_of.end()},
                      std::move(nothing_yet),
                      std::move(run),
                      bytes_of(*of.impl_->source, inputs_of, known_of)};
      const auto behind = [&](const timed_plan& t) { return t.segment > segment; };
      known = times->insert(std::find_if(times->begin(), times->end(), behind), std::move(made));
    }
    return {*known->run, &*known};
  };
  const auto go = [](const chosen& c) { c.times ? c.run.run_timed(c.times->nanoseconds) : c.run.run(); };
  if (!r.segments) {
    const chosen with = bound(0, *this, extents);
    executor& e = with.run;
    for (std::size_t i = 0; i < inputs.size(); ++i) e.bind_input(i, inputs[i]);
    const auto& types = e.plan().output_types();
    for (std::size_t i = 0; i < types.size(); ++i) e.bind_output(i, asked_for(e, [&] { return place(i, types[i]); }));
    return go(with);
  }
  if (inputs.size() != r.source->inputs().size() || extents.size() != inputs.size()) {
    text t;
    detail::raise(error_kind::value, t << "a program of " << r.source->inputs().size() << " inputs is given "
                                       << inputs.size() << ", with extents for " << extents.size());
  }
  auto& cut = *r.segments;
  const auto data_of = [&](const segment_source& s) -> const void* {
    return s.is_input ? inputs[s.at] : cut.slots[s.at].data;
  };
  const auto dims_of = [&](const segment_source& s) -> const shape& {
    return s.is_input ? extents[s.at] : cut.slots[s.at].dims;
  };
  const auto copy_to = [&](std::size_t slot, std::size_t from) {
    const auto& s = cut.slots[slot];
    const auto& outputs = cut.whole.slots[slot].outputs;
    const tensor_type type{cut.whole.slots[slot].type.element, s.dims};
    for (std::size_t o = from; o < outputs.size(); ++o)
      if (void* to = place(outputs[o], type); type.bytes()) std::memcpy(to, s.data, type.bytes());
  };
  for (std::size_t k = 0; k < cut.runners.size(); ++k) {
    const auto& segment = cut.whole.segments[k];
    if (segment.body) {
      cut.extents.clear();
      for (const auto& s : segment.inputs) cut.extents.push_back(dims_of(s));
      cut.known.clear();
      for (auto i : segment.known) cut.known.push_back({i, data_of(segment.inputs[i])});
      const chosen with = bound(k, cut.runners[k], view<const shape>(cut.extents), view<const known_input>(cut.known));
      executor& e = with.run;
      for (std::size_t i = 0; i < segment.inputs.size(); ++i) e.bind_input(i, data_of(segment.inputs[i]));
      const auto& types = e.plan().output_types();
      for (std::size_t i = 0; i < types.size(); ++i) {
        auto& slot = cut.slots[segment.outputs[i]];
        const auto& outputs = cut.whole.slots[segment.outputs[i]].outputs;
        std::byte* to;
        if (outputs.empty()) {
          if (slot.own.bytes() < types[i].bytes())
            slot.own = asked_for(
                e, [&] { return storage(std::max(types[i].bytes(), slot.own.bytes() + slot.own.bytes() / 2)); });
          to = static_cast<std::byte*>(slot.own.data());
        } else to = static_cast<std::byte*>(asked_for(e, [&] { return place(outputs[0], types[i]); }));
        slot.data = to;
        slot.dims = types[i].dims;
        e.bind_output(i, to);
      }
      go(with);
      cut.runners[k].rest();
      for (auto s : segment.outputs) copy_to(s, 1);
    }
    for (const auto& c : segment.ends) {
      auto& slot = cut.slots[c.slot];
      slot.dims = dims_of(c.rows);
      slot.dims[0] = counted(c, data_of(c.count), slot.dims.at(0));
      slot.data = static_cast<const std::byte*>(data_of(c.rows));
      copy_to(c.slot, 0);
    }
  }
}

namespace {
// Plans of a program, or of its segments for as many rows as there can be, as `get` makes them.
template <class Get> std::vector<std::shared_ptr<const plan>> plans_of(const program& p,
                                                                       const segmented_program* segments,
                                                                       view<const shape> inputs, const Get& get) {
  std::vector<std::shared_ptr<const plan>> made;
  if (!segments) {
    made.push_back(get(p, inputs));
    return made;
  }
  const auto& whole = *segments;
  std::vector<shape> dims(whole.slots.size()), extents;
  const auto dims_of = [&](const segment_source& s) -> const shape& { return s.is_input ? inputs[s.at] : dims[s.at]; };
  for (const auto& segment : whole.segments) {
    if (segment.body) {
      extents.clear();
      for (const auto& s : segment.inputs) extents.push_back(dims_of(s));
      made.push_back(get(*segment.body, view<const shape>(extents)));
      for (std::size_t i = 0; i < segment.outputs.size(); ++i)
        dims[segment.outputs[i]] = made.back()->output_types()[i].dims;
    }
    for (const auto& c : segment.ends) dims[c.slot] = dims_of(c.rows);
  }
  return made;
}
}  // namespace

std::vector<std::shared_ptr<const plan>> plan_runner::plans(view<const shape> inputs) {
  auto& r = made();
  const auto get = [&](const program& p, view<const shape> extents) {
    return r.where->slot<plan_cache>().get(p, structure_of(p), extents, r.where->isa(), r.passes);
  };
  return plans_of(*r.source, r.segments ? &r.segments->whole : nullptr, inputs, get);
}
std::vector<std::shared_ptr<const plan>> plan_runner::fresh_plans(view<const shape> inputs, memory_sharing how) const {
  const auto& r = made();
  const auto make = [&](const program& p, view<const shape> extents) {
    return make_plan(p, extents, r.where->isa(), {.memory = how});
  };
  return plans_of(*r.source, r.segments ? &r.segments->whole : nullptr, inputs, make);
}

std::string plan_runner::explain(view<const shape> inputs) {
  const auto all = plans(inputs);
  if (!in_segments()) return all[0]->explain();
  std::string words;
  std::size_t made = 0, number = 0;
  for (const auto& segment : impl_->segments->whole.segments) {
    text t;
    t << (number ? "\n" : "") << "segment " << number + 1 << " of " << impl_->segments->whole.segments.size()
      << (number ? ", for as many rows as there can be" : "") << "\n";
    ++number;
    words += t.string();
    if (segment.body) words += all[made++]->explain();
    for (const auto& c : segment.ends) words += "then counts: " + c.what + "\n";
  }
  return words;
}

}  // namespace lamina
