module lamina:session.impl;
import :any_value;
import :context;
import :core;
import :dtype;
import :execute;
import :host;
import :io;
import :op.sized;
import :passes;
import :parameter;
import :plan;
import :plan_cache;
import :program;
import :segments;
import :session;
import :shape;
import :tensor;
import :workspace;
import lamina.std;

namespace lamina::ir {

namespace {
// Whether elements that determine shapes equal those that an executor was made for.
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
// Messages of a plan's checks name its operations' places: programs that differ in those do not share a plan.
std::uint64_t hash_of_check_places(const program& p) {
  std::uint64_t h = 0;
  for (const node& n : p.nodes()) {
    if (n.op && n.op->may_fail) h = h * 31 + std::hash<std::string>()(n.path);
    for (const auto& sub : n.subprograms) h = h * 31 + hash_of_check_places(*sub);
  }
  return h;
}
// Key of a program in the plan cache.
program_id structure_of(const program& p) {
  program_id id = p.id();
  id.words[1] ^= hash_of_check_places(p);
  return id;
}
}  // namespace

struct session::implementation {
  struct entry {
    std::vector<shape> shapes;
    std::vector<std::byte> known;  // elements that determine shapes
    std::size_t hash;
    std::unique_ptr<executor> run;
    std::uint64_t used = 0;
    bool stale = false;
    // Includes the plan, which it keeps alive even if the cache has evicted it.
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
    const std::size_t max = std::min(max_bytes, plans.limits().bytes);
    std::size_t bytes = run->own_bytes() + plan->bytes();
    for (const auto& e : entries) bytes += e.bytes();
    while (!entries.empty() && (entries.size() >= max_executors || bytes > max)) {
      const auto oldest = std::min_element(entries.begin(), entries.end(),
                                           [](const entry& a, const entry& b) { return a.used < b.used; });
      bytes -= oldest->bytes();
      forget(static_cast<std::size_t>(oldest - entries.begin()));
    }
    entries.push_back(
        {{inputs.begin(), inputs.end()}, bytes_of(*source, inputs, known), hash_of(inputs), std::move(run)});
    return entries.size() - 1;
  }
  std::size_t make_or_explain(view<const shape> inputs, view<const known_input> known) {
    try {
      return make(inputs, known);
    } catch (const shape_error& e) {
      if (explain && !std::string_view(e.what()).starts_with("input `")) explain(inputs);
      throw;
    }
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
    borrowed = true;
  }
  void rest() noexcept {
    if (std::exchange(borrowed, false)) arenas->give_back(memory);
  }

  // ---- segments ----
  // A value passed between segments, as the last run left it.
  struct between {
    const std::byte* data = nullptr;
    shape dims;
    storage own;
    any_value held{};  // result or operand of a host operation, during a run
  };
  // A host operation: the sessions of its subprograms, and its operands and results while it runs.
  struct host_operation {
    std::vector<session> sessions;
    std::vector<any_value> operands, results;
  };
  struct cut {
    segmented_program whole;
    std::vector<session> sessions;  // one per segment; without a program if the segment computes nothing
    std::vector<between> slots;
    std::vector<host_operation> hosts;
    std::vector<any_tensor> shared_states;  // memory of states that host operations read in this run
    std::vector<shape> extents;             // input extents of one segment
    std::vector<known_input> known;         // known inputs of one segment
  };

  struct request;
  struct chosen;
  chosen choose(session& of, std::size_t segment, view<const shape> extents, view<const known_input> known,
                std::vector<timed_plan>* times);
  const shape& extents_of(const segment_source& s, const request& q) const;
  const void* data_of(const segment_source& s, const request& q) const;
  void copy_out(std::size_t number, std::size_t from, const request& q);
  void bind_slot(executor& e, std::size_t i, std::size_t number, const request& q);
  void run_segment(std::size_t k, const request& q);
  void run_segments(const request& q);
  void count(const counted_rows& c, const request& q);
  void run_on_host(const host_step& s, std::size_t segment, const request& q);
  void add_time(const node& n, const host_step& s, std::size_t segment, std::int64_t nanoseconds,
                std::vector<timed_plan>& times) const;
  any_value value_of(const segment_source& s, const request& q);
  any_tensor state_of(const node& n);
  void give(std::size_t output, any_value v, const request& q);
  void check_inputs(const request& q) const;
  bool gives_values() const;
  bool has_strings() const;
  void check_input(std::size_t i, const any_value& v) const;
  void check_count(std::size_t count) const;

  std::shared_ptr<const program> source;
  state_source states;
  std::shared_ptr<context> where;
  pass_options passes;
  shared_packs* packs = nullptr;
  std::shared_ptr<arena_pool> arenas;
  parameter_store own{};  // states that the session owns
  std::optional<program_id> structure{};
  std::uint64_t parameters = 0;  // identity of the shared store that executors have read
  std::shared_ptr<workspace> memory{};
  bool borrowed = false;
  std::vector<entry> entries{};
  std::size_t last = nothing;  // index of the entry used last
  std::uint64_t uses = 0;
  std::unique_ptr<cut> segments{};                   // for a program in segments
  std::function<void(view<const shape>)> explain{};  // callback for mismatched extents
  std::vector<shape> given{};                        // input extents of a run on tensors
  std::vector<const void*> data{};
  bool inner = false;  // session of a subprogram: its results stay internal
};

session::session() = default;
session::session(session&&) noexcept = default;
session& session::operator=(session&&) noexcept = default;
session::~session() = default;
session::session(std::shared_ptr<const program> p, state_source states, std::shared_ptr<context> where,
                 pass_options passes, shared_packs* packs, std::shared_ptr<arena_pool> arenas)
    : impl_(new implementation{std::move(p), states, std::move(where), std::move(passes), packs, std::move(arenas)}) {
  auto& r = *impl_;
  if (!r.source) detail::raise(error_kind::value, "session: it has no program");
  if (!r.where) r.where = std::make_shared<context>(1, target_isa());
  if (r.where->threads() == 1) r.passes.parallel_loops = false;
  if (why_in_segments(*r.source).empty()) return;
  r.segments = std::make_unique<implementation::cut>();
  r.segments->whole = segmented(*r.source);
  // Each segment is one plan: everything that determines its shapes is known once it is planned.
  for (const auto& s : r.segments->whole.segments) {
    r.segments->sessions.emplace_back();
    if (s.body)
      r.segments->sessions.back().impl_.reset(
          new implementation{s.body, r.states, r.where, r.passes, r.packs, r.arenas});
  }
  r.segments->slots.resize(r.segments->whole.slots.size());
  r.segments->hosts.resize(r.segments->whole.host_steps);
}

session session::owning(std::shared_ptr<const program> p, parameter_store states, std::shared_ptr<context> where,
                        pass_options passes) {
  session made(std::move(p), {}, std::move(where), std::move(passes));
  made.impl_->own = std::move(states);
  for (auto& s : made.impl_->own) s.releasable();
  made.read({&made.impl_->own, nullptr});
  return made;
}
void session::on_mismatch(std::function<void(view<const shape>)> explain) { made().explain = std::move(explain); }

session::implementation& session::made() const {
  if (!impl_) [[unlikely]]
    detail::raise(error_kind::state, "session: it has no program; it was moved from, or made without one");
  return *impl_;
}

bool session::in_segments() const { return impl_ && impl_->segments; }

executor& session::at(view<const shape> inputs, view<const known_input> known) {
  auto& r = made();
  if (r.states.shared && r.states.shared->identity() != r.parameters) [[unlikely]] {
    for (auto& e : r.entries) e.stale = true;
    r.parameters = r.states.shared->identity();
  }
  if (r.segments) [[unlikely]] {
    text t;
    detail::raise(error_kind::unsupported,
                  t << why_in_segments(*r.source)[0] << "; the program runs in segments, which one plan cannot hold");
  }
  std::size_t i = r.last;
  if (i == implementation::nothing || !r.is_for(r.entries[i], inputs, known)) {
    i = r.find(inputs, known);
    if (i == implementation::nothing) i = r.make_or_explain(inputs, known);
    r.last = i;
  }
  auto& e = r.entries[i];
  e.used = ++r.uses;
  // Binds memory first: data precomputed from states is written to it.
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

void session::read(state_source states, shared_packs* packs) {
  auto& r = made();
  r.states = states;
  r.packs = packs;
  for (auto& e : r.entries) e.stale = true;
  if (!r.segments) return;
  for (auto& s : r.segments->sessions)
    if (s.impl_) s.read(states, packs);
}
void session::rest() noexcept {
  if (!impl_) return;
  impl_->rest();
  if (!impl_->segments) return;
  for (auto& s : impl_->segments->sessions)
    if (s.impl_) s.rest();
  for (auto& h : impl_->segments->hosts)
    for (auto& s : h.sessions)
      if (s.impl_) s.rest();
}

std::size_t session::bytes() const {
  if (!impl_) return 0;
  std::size_t n = impl_->memory && !impl_->arenas ? impl_->memory->bytes() : 0;
  for (const auto& e : impl_->entries) n += e.run->own_bytes();
  if (!impl_->segments) return n;
  for (const auto& s : impl_->segments->sessions)
    if (s.impl_) n += s.bytes();
  for (const auto& s : impl_->segments->slots) n += s.own.bytes();
  for (const auto& h : impl_->segments->hosts)
    for (const auto& s : h.sessions)
      if (s.impl_) n += s.bytes();
  return n;
}

// ---- runs -----------------------------------------------------------------------------------------------------------

namespace {
// Allocates memory for a run; an out_of_memory error gets the plan's needs.
template <class Allocate> auto allocate_for(const executor& e, const Allocate& allocate) {
  try {
    return allocate();
  } catch (const out_of_memory& error) { detail::no_memory_for(e.plan(), e.planned_bytes(), error); }
}
// Copies the tensors of a value for which `is_shared` holds.
template <class F> any_value with_copies(any_value v, const F& is_shared) {
  switch (v.kind()) {
    case value_kind::tensor:
      if (is_shared(v.as_tensor())) v = v.as_tensor().copy();
      return v;
    case value_kind::sequence: {
      const auto& all = v.elements();
      if (std::none_of(all.begin(), all.end(), is_shared)) return v;
      std::vector<any_tensor> copies;
      for (const auto& t : all) copies.push_back(is_shared(t) ? t.copy() : t);
      return any_value::sequence(std::move(copies));
    }
    default: return v.has_value() ? any_value::optional(with_copies(v.held(), is_shared)) : v;
  }
}
// Reads and checks the number of rows that a segment computed.
std::int64_t counted(const counted_rows& c, const void* count, std::int64_t max) {
  std::int64_t n;
  std::memcpy(&n, count, sizeof n);
  if (n < 0 || n > max) {
    text t;
    detail::raise(error_kind::value, t << c.what << ": " << n << " rows requested; there are " << max);
  }
  return n;
}
}  // namespace

// Parameters of one run: inputs, outputs, and an optional list of times.
struct session::implementation::request {
  view<const shape> extents;
  view<const void* const> inputs;
  const output_place& place;
  std::vector<timed_plan>* times;
  view<const any_value> values{};           // inputs given as values
  std::vector<any_value>* taken = nullptr;  // receives outputs that have their own memory
};
// The executor of a segment or of the whole program, and its times.
struct session::implementation::chosen {
  executor& run;
  timed_plan* times;
  void operator()() const { times ? run.run_timed(times->nanoseconds) : run.run(); }
};

session::implementation::chosen session::implementation::choose(session& of, std::size_t segment,
                                                                view<const shape> extents,
                                                                view<const known_input> known_inputs,
                                                                std::vector<timed_plan>* times) {
  if (!times) return {of.at(extents, known_inputs), nullptr};
  const program& p = *of.impl_->source;
  const auto is = [&](const timed_plan& t) {
    return t.plan && t.segment == segment && same(t.inputs, extents) &&
           same(p, t.known_elements, extents, known_inputs);
  };
  auto known = std::find_if(times->begin(), times->end(), is);
  if (known == times->end()) {
    pass_options one_by_one = passes;
    one_by_one.parallel = one_by_one.parallel_loops = false;
    auto plan = make_plan(p, extents, where->isa(), one_by_one, known_inputs);
    auto lock = packing();
    auto run = std::make_shared<executor>(plan, states, pool(), std::make_shared<workspace>());
    std::vector<std::int64_t> nothing_yet(plan->lines().size() + 1);
    timed_plan made{plan,
                    segment,
                    {extents.begin(), extents.end()},
                    std::move(nothing_yet),
                    std::move(run),
                    bytes_of(p, extents, known_inputs)};
    const auto after = [&](const timed_plan& t) { return t.segment > segment; };
    known = times->insert(std::find_if(times->begin(), times->end(), after), std::move(made));
  }
  return {*known->run, &*known};
}

const shape& session::implementation::extents_of(const segment_source& s, const request& q) const {
  return s.is == segment_source::kind::input ? q.extents[s.at] : segments->slots[s.at].dims;
}
const void* session::implementation::data_of(const segment_source& s, const request& q) const {
  return s.is == segment_source::kind::input ? q.inputs[s.at] : segments->slots[s.at].data;
}

// Copies a slot to its outputs, from number `from` on.
void session::implementation::copy_out(std::size_t number, std::size_t from, const request& q) {
  const auto& slot = segments->slots[number];
  const auto& [type, outputs, kept] = segments->whole.slots[number];
  if (slot.held) {
    for (std::size_t o = from; o < outputs.size(); ++o) give(outputs[o], slot.held, q);
    return;
  }
  const tensor_type now{type.element, slot.dims};
  for (std::size_t o = from; o < outputs.size(); ++o)
    if (void* to = q.place(outputs[o], now); now.bytes()) std::memcpy(to, slot.data, now.bytes());
}

// Binds memory for a result of a segment: that of its first output, or the session's if it is no output. Values that
// host operations read get memory that nothing else writes while they keep it.
void session::implementation::bind_slot(executor& e, std::size_t i, std::size_t number, const request& q) {
  auto& slot = segments->slots[number];
  const auto& [unused, outputs, kept] = segments->whole.slots[number];
  const tensor_type& type = e.plan().output_types()[i];
  std::byte* to;
  if (outputs.empty() || kept) {
    if (!slot.own || slot.own.bytes() < type.bytes() || !slot.own.unique())
      slot.own = allocate_for(e, [&] {
        return storage(std::max(type.bytes(), slot.own.unique() ? slot.own.bytes() + slot.own.bytes() / 2 : 0));
      });
    to = static_cast<std::byte*>(slot.own.data());
    if (kept) slot.held = any_tensor(slot.own, type);
  } else to = static_cast<std::byte*>(allocate_for(e, [&] { return q.place(outputs[0], type); }));
  slot.data = to;
  slot.dims = type.dims;
  e.bind_output(i, to);
}

void session::implementation::run_segment(std::size_t k, const request& q) {
  auto& cut = *segments;
  const auto& segment = cut.whole.segments[k];
  if (segment.body) {
    cut.extents.clear();
    for (const auto& s : segment.inputs) cut.extents.push_back(extents_of(s, q));
    cut.known.clear();
    for (auto i : segment.known) cut.known.push_back({i, data_of(segment.inputs[i], q)});
    const chosen with =
        choose(cut.sessions[k], k, view<const shape>(cut.extents), view<const known_input>(cut.known), q.times);
    for (std::size_t i = 0; i < segment.inputs.size(); ++i) with.run.bind_input(i, data_of(segment.inputs[i], q));
    for (std::size_t i = 0; i < segment.outputs.size(); ++i) bind_slot(with.run, i, segment.outputs[i], q);
    with();
    cut.sessions[k].rest();
    for (auto s : segment.outputs) copy_out(s, cut.whole.slots[s].kept ? 0 : 1, q);
  }
  for (const auto& end : segment.ends)
    if (const auto* rows = std::get_if<counted_rows>(&end)) count(*rows, q);
    else run_on_host(*std::get_if<host_step>(&end), k, q);
}

void session::implementation::run_segments(const request& q) {
  auto& cut = *segments;
  // Even if an exception is thrown, nothing of a run remains but memory that the next run overwrites.
  struct ending {
    session::implementation::cut& of;
    ~ending() {
      for (std::size_t i = 0; i < of.slots.size(); ++i) {
        of.slots[i].held = any_value();
        // leaves the caller the only handle
        if (of.whole.slots[i].kept && !of.whole.slots[i].outputs.empty()) of.slots[i].own = storage();
      }
      for (auto& h : of.hosts) h.operands.clear(), h.results.clear();
      of.shared_states.clear();
    }
  } const end{cut};
  check_inputs(q);
  for (std::size_t k = 0; k < cut.sessions.size(); ++k) run_segment(k, q);
  for (const auto& [input, output] : cut.whole.passed) give(output, q.values[input], q);
}

void session::implementation::count(const counted_rows& c, const request& q) {
  auto& slot = segments->slots[c.slot];
  if (const shape& of_count = extents_of(c.count, q); of_count.size() != 1) {
    text t;
    detail::raise(error_kind::value, t << c.what << ": the number of rows is " << tensor_type{dtype::int64, of_count}
                                       << "; expected one number");
  }
  slot.dims = extents_of(c.rows, q);
  slot.dims[0] = counted(c, data_of(c.count, q), slot.dims.at(0));
  slot.data = static_cast<const std::byte*>(data_of(c.rows, q));
  const auto& known = segments->whole.slots[c.slot];
  if (known.kept) {
    const any_value rows = value_of(c.rows, q);
    const auto first = static_cast<std::size_t>(slot.data - static_cast<std::byte*>(rows.as_tensor().memory().data()));
    slot.held = any_tensor(rows.as_tensor().memory(), {known.type.element, slot.dims}, first);
  }
  copy_out(c.slot, 0, q);
}

// ---- host operations ------------------------------------------------------------------------------------------------

// Checks that inputs match the program's extents: host operations have no plan that would.
void session::implementation::check_inputs(const request& q) const {
  if (segments->whole.host_steps == 0) return;
  for (std::size_t i = 0; i < q.extents.size(); ++i) {
    const node& n = source->at(source->inputs()[i]);
    text t;
    if (!n.results[0].is_tensor()) {
      if (q.values.empty())
        detail::raise(error_kind::type, t << "input `" << n.name << "` is " << n.results[0]
                                          << "; got the memory of a tensor; run the program on values");
    } else if (!fits(n.results[0].dims, q.extents[i]))
      detail::raise(error_kind::shape,
                    t << "input `" << n.name << "` is " << n.results[0].dims << "; got " << q.extents[i]);
  }
}

// Elements of a state without a copy. States that the run assigns are copied: the operation may keep them.
any_tensor session::implementation::state_of(const node& n) {
  parameter* s = states.own ? states.own->find(n.name) : nullptr;
  if (!s && states.shared) s = states.shared->find(n.name);
  text t;
  if (!s) detail::raise(error_kind::state, t << "state `" << n.name << "` is not in the parameter store");
  auto lock = packing();
  s->keep();
  if (s->value().type() != n.results[0])
    detail::raise(s->value().element() == n.results[0].element ? error_kind::shape : error_kind::type,
                  t << "state `" << n.name << "` is " << n.results[0] << " in the program and " << s->value().type()
                    << " in the parameter store");
  if (source->is_assigned(source->find_state(n.name))) return s->copy();
  segments->shared_states.push_back(s->value());
  return s->value();
}

any_value session::implementation::value_of(const segment_source& s, const request& q) {
  using from = segment_source::kind;
  if (s.is == from::slot) return segments->slots[s.at].held;
  if (s.is == from::state) return state_of(segments->whole.whole->nodes()[s.at]);
  if (s.is == from::constant) return segments->whole.whole->nodes()[s.at].constant;
  if (!q.values.empty()) return q.values[s.at];
  const tensor_type type{source->at(source->inputs()[s.at]).results[0].element, q.extents[s.at]};
  return any_tensor(storage::borrowed(q.inputs[s.at], type.bytes()), type);
}

namespace {
// Runs subprograms of a node in cached sessions.
template <class Make> class kept_sessions final : public subprogram_runner {
 public:
  kept_sessions(const node& of, std::vector<session>& kept, const Make& make) : of_(of), kept_(kept), make_(make) {}
  void run(std::size_t which, view<const any_value> operands, std::vector<any_value>& results) override {
    if (which >= of_.subprograms.size())
      detail::no_such_part(of_.op->name, "run", "subprogram", which, of_.subprograms.size());
    if (kept_.empty()) kept_.resize(of_.subprograms.size());
    make_(kept_[which], of_.subprograms[which]);
    kept_[which].run(operands, results);
    kept_[which].rest();
  }

 private:
  const node& of_;
  std::vector<session>& kept_;
  const Make& make_;
};
}  // namespace

void session::implementation::add_time(const node& n, const host_step& s, std::size_t segment, std::int64_t nanoseconds,
                                       std::vector<timed_plan>& times) const {
  auto known = std::find_if(times.begin(), times.end(), [&](const timed_plan& t) { return t.node == s.node; });
  if (known == times.end()) {
    timed_plan made{nullptr, segment, {}, {0, 0}, nullptr};
    made.node = s.node;
    made.line = {std::string(n.op->name), n.results.empty() ? tensor_type() : n.results[0], {}, 0, 0, 0};
    made.line.where = n.path;
    const auto after = [&](const timed_plan& t) { return t.segment > segment; };
    known = times.insert(std::find_if(times.begin(), times.end(), after), std::move(made));
  }
  known->nanoseconds[0] += nanoseconds;
}

void session::implementation::run_on_host(const host_step& s, std::size_t segment, const request& q) {
  const node& n = segments->whole.whole->at(s.node);
  auto& h = segments->hosts[s.number];
  h.operands.clear();
  for (const auto& o : s.operands) h.operands.push_back(value_of(o, q));
  h.results.assign(n.results.size(), any_value());
  const auto make = [this](session& of, const std::shared_ptr<const program>& sub) {
    if (of.impl_) return;
    of = session(sub, {}, where, passes, nullptr, arenas);
    of.impl_->inner = true;
  };
  kept_sessions runner(n, h.sessions, make);
  host_call call(n, h.operands, h.results, runner);
  const auto begin = q.times ? std::chrono::steady_clock::now() : std::chrono::steady_clock::time_point();
  n.op->host(call);
  if (q.times) {
    const auto spent = std::chrono::steady_clock::now() - begin;
    add_time(n, s, segment, std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count(), *q.times);
  }
  h.operands.clear();
  if (h.results.size() != n.results.size()) h.results.resize(n.results.size());
  for (std::size_t i = 0; i < n.results.size(); ++i) {
    if (const text why = mismatch_of(h.results[i], n.results[i]); !why.empty()) {
      text t;
      call.fail(error_kind::value, t << "result " << i << " " << why);
    }
    auto& slot = segments->slots[s.results[i]];
    slot.held = std::move(h.results[i]);
    if (n.results[i].is_tensor()) {
      slot.dims = slot.held.as_tensor().shape();
      slot.data = slot.held.as_tensor().data();
    }
    copy_out(s.results[i], 0, q);
  }
}

// Returns a value to the caller: memory that the caller or an assignment may write is not shared.
void session::implementation::give(std::size_t output, any_value v, const request& q) {
  if (!q.taken) {
    const any_tensor& t = v.as_tensor();
    if (void* to = q.place(output, t.type()); t.bytes()) std::memcpy(to, t.data(), t.bytes());
    return;
  }
  const auto is_shared = [&](const any_tensor& t) {
    const auto same_memory = [&](const any_tensor& other) { return t.memory() && other.memory().same(t.memory()); };
    return std::any_of(segments->shared_states.begin(), segments->shared_states.end(), same_memory) ||
           std::any_of(q.values.begin(), q.values.end(), [&](const any_value& in) {
             return in.kind() == value_kind::tensor && same_memory(in.as_tensor());
           });
  };
  (*q.taken)[output] = inner ? std::move(v) : with_copies(std::move(v), is_shared);
}

void session::implementation::check_count(std::size_t count) const {
  if (count == source->inputs().size()) return;
  text t;
  detail::raise(error_kind::value, t << "the program has " << source->inputs().size() << " inputs; got " << count);
}

void session::run(view<const shape> extents, view<const void* const> inputs, const output_place& place,
                  std::vector<timed_plan>* times) {
  auto& r = made();
  r.check_count(inputs.size());
  r.check_count(extents.size());
  if (r.segments) [[unlikely]] {
    if (r.gives_values())
      detail::raise(error_kind::type, "the program returns values that are not tensors; run it on values");
    if (r.has_strings())
      detail::raise(error_kind::type,
                    "the program takes or returns strings, which caller memory cannot hold; run it on tensors");
    return r.run_segments({extents, inputs, place, times});
  }
  const auto with = r.choose(*this, 0, extents, {}, times);
  executor& e = with.run;
  for (std::size_t i = 0; i < inputs.size(); ++i) e.bind_input(i, inputs[i]);
  const auto& types = e.plan().output_types();
  for (std::size_t i = 0; i < types.size(); ++i) e.bind_output(i, allocate_for(e, [&] { return place(i, types[i]); }));
  with();
}

void session::run(view<const any_tensor> inputs, std::vector<any_tensor>& results, std::vector<timed_plan>* times) {
  auto& r = made();
  const program& p = *r.source;
  r.check_count(inputs.size());
  if (r.segments && r.segments->whole.host_steps) {  // their results have their own memory
    if (r.gives_values())
      detail::raise(error_kind::type, "the program returns values that are not tensors; run it on values");
    const std::vector<any_value> values(inputs.begin(), inputs.end());
    std::vector<any_value> made;
    for (auto& t : results) made.emplace_back(std::move(t));
    run(view<const any_value>(values), made, times);
    results.clear();
    for (auto& v : made) results.push_back(std::move(v.as_tensor()));
    for (auto& t : results) t.detach();  // unshares results that share memory
    return;
  }
  r.given.clear(), r.data.clear();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const node& n = p.at(p.inputs()[i]);
    if (!n.results[0].is_tensor()) r.check_input(i, inputs[i]);
    if (inputs[i].element() != n.results[0].element) {
      text t;
      detail::raise(error_kind::type,
                    t << "input `" << n.name << "` is " << n.results[0] << "; got " << inputs[i].type());
    }
    r.given.push_back(inputs[i].shape());
    r.data.push_back(inputs[i].data());
  }
  results.resize(p.outputs().size());
  run(
      view<const shape>(r.given), view<const void* const>(r.data),
      [&results](std::size_t i, const tensor_type& type) -> void* {
        any_tensor& t = results[i];
        if (!t || t.type() != type || !t.memory().unique()) t = any_tensor(type);
        return t.mutable_data();
      },
      times);
}

bool session::implementation::gives_values() const {
  const auto& all = source->outputs();
  return std::any_of(all.begin(), all.end(), [&](const auto& o) { return !source->type(o.value).is_tensor(); });
}
// Whether an input or output is of strings, whose elements are pointers.
bool session::implementation::has_strings() const {
  const auto holds = [&](const auto& o) { return source->type(o.value).element == dtype::string; };
  const auto takes = [&](std::int32_t i) { return source->at(i).results[0].element == dtype::string; };
  return std::any_of(source->outputs().begin(), source->outputs().end(), holds) ||
         std::any_of(source->inputs().begin(), source->inputs().end(), takes);
}
void session::implementation::check_input(std::size_t i, const any_value& v) const {
  const node& n = source->at(source->inputs()[i]);
  text t;
  if (v.kind() == value_kind::tensor && n.results[0].is_tensor()) {
    if (v.as_tensor().element() != n.results[0].element)
      detail::raise(error_kind::type,
                    t << "input `" << n.name << "` is " << n.results[0] << "; got " << v.as_tensor().type());
  } else if (const text why = mismatch_of(v, n.results[0]); !why.empty())
    detail::raise(error_kind::type, t << "input `" << n.name << "` " << why);
}

void session::run(view<const any_value> inputs, std::vector<any_value>& results, std::vector<timed_plan>* times) {
  auto& r = made();
  r.check_count(inputs.size());
  r.given.clear(), r.data.clear();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    r.check_input(i, inputs[i]);
    const bool is_tensor = inputs[i].kind() == value_kind::tensor;
    r.given.push_back(is_tensor ? inputs[i].as_tensor().shape() : shape());
    r.data.push_back(is_tensor ? inputs[i].as_tensor().data() : nullptr);
  }
  results.resize(r.source->outputs().size());
  const output_place place = [&results](std::size_t i, const tensor_type& type) -> void* {
    any_value& v = results[i];
    const bool fits = v.kind() == value_kind::tensor && v && v.as_tensor().type() == type;
    if (!fits || !v.as_tensor().memory().unique()) v = any_tensor(type);
    return v.as_tensor().mutable_data();
  };
  if (!r.segments) return run(view<const shape>(r.given), view<const void* const>(r.data), place, times);
  r.run_segments({view<const shape>(r.given), view<const void* const>(r.data), place, times, inputs, &results});
}
std::vector<any_tensor> session::run(view<const any_tensor> inputs) {
  std::vector<any_tensor> results;
  run(inputs, results);
  return results;
}

namespace {
// Orders named inputs like the program's inputs.
template <class Value, class Named> std::vector<Value> in_order(const program& p, view<const Named> inputs) {
  std::vector<std::string_view> names;
  for (auto i : p.inputs()) names.push_back(p.at(i).name);
  std::vector<Value> ordered(names.size());
  text t;
  for (const auto& x : inputs) {
    const auto at = static_cast<std::size_t>(std::find(names.begin(), names.end(), x.name) - names.begin());
    if (at == names.size()) {
      t << "the program has no input `" << printable(x.name) << "`";
      suggest_names(t, x.name, names);
      detail::raise(error_kind::value, t);
    }
    if (ordered[at]) detail::raise(error_kind::value, t << "input `" << x.name << "` is given twice");
    ordered[at] = x.value;
  }
  for (std::size_t i = 0; i < names.size(); ++i)
    if (!ordered[i])
      detail::raise(error_kind::value,
                    t << "input `" << names[i] << "` (" << p.at(p.inputs()[i]).results[0] << ") is not given");
  return ordered;
}
template <class Named, class Value> std::vector<Named> with_names(const program& p, std::vector<Value> made) {
  std::vector<Named> results;
  for (std::size_t i = 0; i < made.size(); ++i) results.push_back({p.outputs()[i].name, std::move(made[i])});
  return results;
}
}  // namespace

std::vector<named_tensor> session::run(view<const named_tensor> inputs) {
  const program& p = *made().source;
  const auto ordered = in_order<any_tensor>(p, inputs);
  return with_names<named_tensor>(p, run(view<const any_tensor>(ordered)));
}
std::vector<named_value> session::run_named(view<const named_value> inputs) {
  const program& p = *made().source;
  const auto ordered = in_order<any_value>(p, inputs);
  return with_names<named_value>(p, run(ordered));
}

namespace {
// Plans of a program, or of its segments for the maximum number of rows, as made by `get`.
template <class Get> std::vector<std::shared_ptr<const plan>> plans_of(const program& p,
                                                                       const segmented_program* segments,
                                                                       view<const shape> inputs, const Get& get) {
  std::vector<std::shared_ptr<const plan>> made;
  if (!segments) {
    made.push_back(get(p, inputs));
    return made;
  }
  const auto& whole = *segments;
  std::vector<shape> dims, extents;
  for (const auto& slot : whole.slots) dims.push_back(slot.type.dims);
  const auto dims_of = [&](const segment_source& s) -> const shape& {
    return s.is == segment_source::kind::input ? inputs[s.at] : dims[s.at];
  };
  const auto is_open = [&](const segment_source& s) { return !dims_of(s).is_static(); };
  for (const auto& segment : whole.segments) {
    // Not plannable yet: needs computed elements that determine its shapes, or results of the host.
    if (!segment.known.empty()) break;
    if (segment.body && std::any_of(segment.inputs.begin(), segment.inputs.end(), is_open)) break;
    if (segment.body) {
      extents.clear();
      for (const auto& s : segment.inputs) extents.push_back(dims_of(s));
      made.push_back(get(*segment.body, view<const shape>(extents)));
      for (std::size_t i = 0; i < segment.outputs.size(); ++i)
        dims[segment.outputs[i]] = made.back()->output_types()[i].dims;
    }
    for (const auto& end : segment.ends)
      if (const auto* rows = std::get_if<counted_rows>(&end)) dims[rows->slot] = dims_of(rows->rows);
  }
  return made;
}
}  // namespace

std::vector<std::shared_ptr<const plan>> session::plans(view<const shape> inputs) const {
  const auto& r = made();
  const auto get = [&](const program& p, view<const shape> extents) {
    return r.where->slot<plan_cache>().get(p, structure_of(p), extents, r.where->isa(), r.passes);
  };
  return plans_of(*r.source, r.segments ? &r.segments->whole : nullptr, inputs, get);
}
std::vector<std::shared_ptr<const plan>> session::fresh_plans(view<const shape> inputs, memory_sharing how) const {
  const auto& r = made();
  const auto make = [&](const program& p, view<const shape> extents) {
    return make_plan(p, extents, r.where->isa(), {.memory = how});
  };
  return plans_of(*r.source, r.segments ? &r.segments->whole : nullptr, inputs, make);
}

std::string session::explain(view<const shape> inputs) const {
  const auto all = plans(inputs);
  if (!in_segments()) return all[0]->explain();
  std::string description;
  std::size_t made = 0, number = 0;
  for (const auto& segment : impl_->segments->whole.segments) {
    text t;
    t << (number ? "\n" : "") << "segment " << number + 1 << " of " << impl_->segments->whole.segments.size()
      << (number ? ", for the maximum number of rows" : "") << "\n";
    ++number;
    description += t.string();
    if (made == all.size() && segment.body)
      return description +
             (segment.known.empty()
                  ? "this and later segments are planned after the host step\n"
                  : "this and later segments are planned when the elements that decide their shapes are known\n");
    if (segment.body) description += all[made++]->explain();
    for (const auto& end : segment.ends)
      if (const auto* rows = std::get_if<counted_rows>(&end)) description += "then counts: " + rows->what + "\n";
      else {
        const node& n = impl_->segments->whole.whole->at(std::get_if<host_step>(&end)->node);
        description +=
            "then runs on the host: " + (n.path.empty() ? "" : n.path + ": ") + std::string(n.op->name) + "\n";
      }
  }
  return description;
}

}  // namespace lamina::ir
