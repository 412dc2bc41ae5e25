module lamina:execute.impl;
import :context;
import :core;
import :execute;
import :passes;
import :parameter;
import :plan;
import :program;
import :shape;
import :stop;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

// Runs a program without inputs once, to fold constants.
any_tensor compute_constant(const program& p) {
  pass_counters unused;
  auto shapes = specialized(p, {}, {.fold_constants = false, .simplify = false}, unused, nullptr);
  auto made = std::make_shared<const plan>(shapes, target_isa(), pass_options{.fold_constants = false}, unused);
  const detail::stopped_by none(nullptr);  // not stoppable: other threads may wait for the plan
  return executor(made, nullptr).run({})[0];
}

constexpr std::size_t rounded(std::size_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

std::shared_ptr<const plan> make_plan(const program& p, view<const shape> inputs, isa set, const pass_options& options,
                                      view<const known_input> known) {
  pass_counters counters;
  auto concrete = specialized(p, inputs, options, counters, &compute_constant, known);
  if (options.merge) concrete = merged(concrete, counters);
  return std::make_shared<const plan>(concrete, set, options, counters);
}

void detail::no_memory_for(const plan& p, std::size_t planned, const out_of_memory& e) {
  text t;
  t << e.what() << "; the plan needs " << p.arena_bytes() << " bytes of activations and " << planned - p.arena_bytes()
    << " of scratch";
  throw out_of_memory(t.string(), e.requested(), e.used(), e.limit(), planned);
}

namespace {
// Allocates memory for a plan that needs `planned` bytes.
storage memory_for(const plan& p, std::size_t planned, std::size_t bytes) {
  try {
    return storage(bytes);
  } catch (const out_of_memory& e) { detail::no_memory_for(p, planned, e); }
}
std::int32_t state_buffer(const plan& p, std::int32_t state) {
  std::size_t i = 0;
  while (p.buffers()[i].kind != buffer_kind::state || p.buffers()[i].index != state) ++i;
  return static_cast<std::int32_t>(i);
}

/// Buffers for a run of steps that move bytes, and the origin of each byte written.
struct byte_moves {
  std::uint8_t *from, *to;
  std::size_t elements, bytes;
  std::uint32_t* origin;  // for each byte of `to`: index of its source element + 1; 0: none
};
// A byte cannot hold an element's index: runs once per base-255 digit. Computed bytes, such as sums, have no origin:
// they differ from the element in one of the runs on noise.
template <class Run> void find_origins(const byte_moves& m, Run run) {
  constexpr std::size_t base = 255;
  std::fill(m.origin, m.origin + m.bytes, 1);
  for (std::size_t digit = 1; digit <= m.elements; digit *= base) {
    for (std::size_t i = 0; i < m.elements; ++i) m.from[i] = static_cast<std::uint8_t>(1 + i / digit % base);
    run();
    for (std::size_t i = 0; i < m.bytes; ++i) {
      const std::size_t more = m.to[i] ? m.origin[i] + (m.to[i] - 1u) * digit : 0;
      m.origin[i] = m.origin[i] && m.to[i] && more <= m.elements ? static_cast<std::uint32_t>(more) : 0;
    }
  }
  for (std::uint32_t round = 1; round <= 8; ++round) {
    for (std::size_t i = 0; i < m.elements; ++i)
      m.from[i] = static_cast<std::uint8_t>(
          (static_cast<std::uint32_t>(i) * 2654435761u + 97 * round) * (40503u * round) >> 16);
    run();
    for (std::size_t i = 0; i < m.bytes; ++i)
      if (m.origin[i] && m.to[i] != m.from[m.origin[i] - 1]) m.origin[i] = 0;
  }
}
}  // namespace

// ---- executor -------------------------------------------------------------------------------------------------------

executor::~executor() = default;
executor::executor(executor&&) noexcept = default;
executor& executor::operator=(executor&&) noexcept = default;

// Binds neither memory nor states.
executor::executor(unbound, std::shared_ptr<const lamina::plan> p, thread_pool* pool)
    : plan_(std::move(p)),
      pool_(pool),
      own_(memory_for(*plan_, planned_bytes(), rounded(plan_->arguments().size()) + 64)) {
  const auto& plan = *plan_;
  without_denormals_ = plan.without_denormals();
  arguments_ = static_cast<std::byte*>(own_.data());
  if (!plan.arguments().empty()) std::memcpy(arguments_, plan.arguments().data(), plan.arguments().size());
  for (const auto& s : plan.steps()) steps_.push_back({s.run, arguments_ + s.arguments});
  for (const auto& l : plan.loops()) {
    loop_arguments a;
    std::memcpy(&a, arguments_ + l.arguments, sizeof a);
    a = {steps_.data() + l.first,
         plan.moves().data() + l.first_move,
         arguments_,
         l.count,
         l.moves,
         a.iterations,
         a.gate,
         a.open};
    std::memcpy(arguments_ + l.arguments, &a, sizeof a);
  }

  ranges_.resize(plan.buffers().size());
  for (std::uint32_t i = 0; i < plan.relocations().size(); ++i) {
    auto& r = ranges_[static_cast<std::size_t>(plan.relocations()[i].buffer)];
    if (r.count++ == 0) r.first = i;
  }
  input_at_.assign(plan.input_types().size(), -1);
  output_at_.assign(plan.output_types().size(), -1);
  for (std::size_t i = 0; i < plan.buffers().size(); ++i) {
    const auto& b = plan.buffers()[i];
    auto at = static_cast<std::size_t>(b.index);
    auto number = static_cast<std::int32_t>(i);
    if (b.kind == buffer_kind::constant) bind(number, const_cast<std::byte*>(plan.constants()[at].data()));
    else if (b.kind == buffer_kind::input) input_at_[at] = number, ++unbound_;
    else if (b.kind == buffer_kind::output) output_at_[at] = number, ++unbound_;
  }
  // Empty buffers are bound to any address: it is never read.
  for (std::size_t i = 0; i < input_at_.size(); ++i)
    if (plan.input_types()[i].bytes() == 0) bind_input(i, arguments_);
  for (std::size_t i = 0; i < output_at_.size(); ++i)
    if (plan.output_types()[i].bytes() == 0) bind_output(i, arguments_);
  packs_.resize(plan.packs().size());
  once_seen_.resize(plan.once_states().size());
}

executor::executor(std::shared_ptr<const lamina::plan> p, state_source states, thread_pool* pool,
                   const std::shared_ptr<workspace>& memory)
    : executor(unbound(), std::move(p), pool) {
  const auto& plan = *plan_;
  work_in(memory);
  bind_states(states);
  prepare();
  const std::size_t once =
      plan.once_stages() ? plan.stages()[plan.once_stages() - 1].first + plan.stages()[plan.once_stages() - 1].count
                         : 0;
  first_ = steps_.data() + once;
  if ((!pool || pool->threads() == 1) && plan.checks().empty() && plan.assigned_states().empty())
    plain_ = plan.cost().steps - once;
}

void executor::pack(std::shared_ptr<const lamina::plan> plan, state_source states) {
  executor made(unbound(), std::move(plan), nullptr);
  made.bind_states(states);
  const storage scratch = memory_for(*made.plan_, made.planned_bytes(), made.plan_->scratch_bytes() + 64);
  made.scratch_ = static_cast<std::byte*>(scratch.data());
  made.prepare_packs();
}

std::size_t executor::workspace_bytes(const lamina::plan& p, const thread_pool* pool) {
  return rounded(p.arena_bytes()) + p.scratch_bytes() * static_cast<std::size_t>(pool ? pool->threads() : 1) + 64;
}

void executor::work_in(const std::shared_ptr<workspace>& memory) {
  const std::size_t needed = planned_bytes();
  std::byte* at = nullptr;
  try {
    at = memory->reserve(needed);
  } catch (const out_of_memory& e) { detail::no_memory_for(*plan_, needed, e); }
  if (memory_ == memory && at == arena_ && memory->taken_ == taken_) return;
  memory_ = memory;
  taken_ = ++memory_->taken_;
  arena_ = at;
  scratch_ = arena_ + rounded(plan_->arena_bytes());
  const auto& buffers = plan_->buffers();
  for (std::size_t i = 0; i < buffers.size(); ++i)
    if (buffers[i].kind == buffer_kind::arena) bind(static_cast<std::int32_t>(i), arena_ + buffers[i].offset);
  std::fill(once_seen_.begin(), once_seen_.end(), 0);  // data precomputed from states is lost
}

storage executor::result_memory(std::size_t i) const {
  if (i >= output_at_.size()) no_such_buffer(i);
  return memory_for(*plan_, planned_bytes(), plan_->output_types()[i].bytes());
}

void executor::bind_states(state_source from) {
  const auto& plan = this->plan();
  const auto& names = plan.state_names();
  std::vector<parameter*> found;
  for (const auto& name : names) {
    parameter* s = from.own ? from.own->find(name) : nullptr;
    if (!s && from.shared) s = from.shared->find(name);
    if (!s) {
      text t;
      t << "state `" << name << "` is not in the parameter store";
      detail::raise(error_kind::state, t);
    }
    if (const auto& expected = plan.state_types()[found.size()]; s->value().type() != expected) {
      text t;
      t << "state `" << name << "` is " << expected << " in the plan and " << s->value().type()
        << " in the parameter store";
      detail::raise(s->value().element() == expected.element ? error_kind::shape : error_kind::type, t);
    }
    found.push_back(s);
  }
  states_ = std::move(found);
  for (std::size_t i = 0; i < plan.buffers().size(); ++i) {
    const auto& b = plan.buffers()[i];
    if (b.kind != buffer_kind::state) continue;
    auto& state = *states_[static_cast<std::size_t>(b.index)];
    if (!plan.touches_elements(static_cast<std::size_t>(b.index))) continue;
    state.keep();
    bind(static_cast<std::int32_t>(i), state.mutable_data());
  }
  watched_.clear();
  for (std::size_t i = 0; i < packs_.size(); ++i) {
    const auto state = static_cast<std::size_t>(plan.packs()[i].state);
    packs_[i] = &states_[state]->packed(plan.packs()[i].format);
    watched_.push_back({states_[state], &packs_[i]->version});
  }
  for (std::size_t i = 0; i < once_seen_.size(); ++i)
    watched_.push_back({states_[static_cast<std::size_t>(plan.once_states()[i])], &once_seen_[i]});
  std::fill(once_seen_.begin(), once_seen_.end(), 0);
}

void executor::read(state_source states) {
  bind_states(states);
  prepare();
}

// Updates data precomputed from states. Packed forms are shared: this happens when an executor is created, or after an
// assignment.
void executor::prepare() {
  prepare_packs();
  run_stages(0, plan_->once_stages(), nullptr);
  for (std::size_t i = 0; i < once_seen_.size(); ++i)
    once_seen_[i] = states_[static_cast<std::size_t>(plan_->once_states()[i])]->version();
}
void executor::prepare_packs() {
  bool released = false;
  for (std::size_t i = 0; i < packs_.size(); ++i) {
    const auto& k = plan_->packs()[i];
    auto& form = *packs_[i];
    parameter& of = *states_[static_cast<std::size_t>(k.state)];
    if (!form.memory) form.memory = memory_for(*plan_, planned_bytes(), k.bytes);
    bind(k.buffer, form.memory.data());
    if (form.version != of.version()) {
      of.restore();
      bind(state_buffer(*plan_, k.state), of.mutable_data());
      run_packing(k);
      form.version = of.version();
      if (!form.unpack && k.moves && of.shape().size() < std::int64_t(1) << 32)  // `unpack` uses 32-bit element indices
        form.unpack = [plan = plan_, i](const storage& packed, std::byte* elements) {
          unpack(plan, i, packed, elements);
        };
    }
    released = of.release() || released;
  }
  // Otherwise this thread's cache would retain memory as large as whole weights.
  if (released) memory::trim();
}
void executor::run_packing(const plan_pack& k) {
  for (std::uint32_t s = 0; s < k.steps.count; ++s)
    steps_[k.steps.first + s].run(steps_[k.steps.first + s].arguments, scratch_);
}

// The packing steps only move elements: run on the numbers 1, 2, 3..., they show where each element went.
void executor::unpack(const std::shared_ptr<const lamina::plan>& plan, std::size_t pack, const storage& packed,
                      std::byte* elements) {
  const auto& k = plan->packs()[pack];
  const tensor_type& type = plan->state_types()[static_cast<std::size_t>(k.state)];
  executor made(unbound(), plan, nullptr);
  const auto allocate = [&](std::size_t bytes) { return memory_for(*plan, made.planned_bytes(), bytes); };
  const storage scratch = allocate(plan->scratch_bytes() + 64), from = allocate(type.bytes()), to = allocate(k.bytes);
  made.scratch_ = static_cast<std::byte*>(scratch.data());
  made.bind(state_buffer(*plan, k.state), from.data());
  made.bind(k.buffer, to.data());
  const auto run = [&] {
    std::memset(to.data(), 0, k.bytes);
    made.run_packing(k);
  };
  const auto unpacked = [&]<class Number>(Number) {
    auto* number = static_cast<Number*>(from.data());
    std::iota(number, number + type.dims.size(), Number(1));
    run();
    const auto* origin = static_cast<const Number*>(to.data());
    const auto* is = static_cast<const std::byte*>(packed.data());
    for (std::size_t i = 0; i < k.bytes / sizeof(Number); ++i)
      if (origin[i] != 0)
        std::memcpy(elements + (origin[i] - 1) * sizeof(Number), is + i * sizeof(Number), sizeof(Number));
  };
  if (size_of(type.element) == 1) {
    const storage origins = allocate(k.bytes * sizeof(std::uint32_t));
    const byte_moves moves{static_cast<std::uint8_t*>(from.data()), static_cast<std::uint8_t*>(to.data()), type.bytes(),
                           k.bytes, static_cast<std::uint32_t*>(origins.data())};
    find_origins(moves, run);
    for (std::size_t i = 0; i < k.bytes; ++i)
      if (moves.origin[i]) elements[moves.origin[i] - 1] = static_cast<const std::byte*>(packed.data())[i];
  } else if (size_of(type.element) == 4) unpacked(std::uint32_t());
  else unpacked(std::uint64_t());
}

// Polls `stop` before each step, and once more at the end: a loop or a part on another thread may have ended early.
void executor::run_stages(std::size_t from, std::size_t to, const detail::stop_link* stop) {
  if (stop && stop->requested()) [[unlikely]]
    stopped(from);
  if (from == to) return;
  if (pool_ && pool_->threads() > 1 && !alone_) {
    for (auto s = from; s < to; ++s)
      if (const auto loop = plan_->stages()[s].loop; loop >= 0) {
        run_parallel(from, s, stop);
        run_iterations(plan_->loops()[static_cast<std::size_t>(loop)], s, stop);
        from = s + 1;
      }
    return run_parallel(from, to, stop);
  }
  const detail::denormals_as_zero zeros(without_denormals_);
  const auto& stages = plan_->stages();
  if (stop) [[unlikely]] {
    for (auto s = from; s < to; ++s) {
      const bound_step* step = steps_.data() + stages[s].first;
      for (std::uint32_t i = 0; i < stages[s].count; ++i) {
        step[i].run(step[i].arguments, scratch_);
        if (stop->requested()) stopped(i + 1 < stages[s].count ? s : s + 1);
      }
    }
    return;
  }
  const bound_step* step = steps_.data() + stages[from].first;
  const bound_step* end = steps_.data() + stages[to - 1].first + stages[to - 1].count;
  for (; step != end; ++step) step->run(step->arguments, scratch_);
}

// Calls of a pool's threads: the steps of stages, or those of each iteration of a loop, whose addresses advance in a
// stage of their own.
struct executor::shared_steps {
  const executor& owner;
  const bound_step* steps;
  view<const plan_stage> stages;
  std::size_t at;  // stage of the plan: the first, or the loop's
  const detail::stop_link* stop;
  const loop_arguments* loop = nullptr;
  std::int64_t iteration = 0;

  // The stage of an iteration, or null for the one that advances the addresses.
  const plan_stage* stage(std::size_t s) const {
    if (loop) s %= stages.size() + 1;
    return s < stages.size() ? &stages[s] : nullptr;
  }
  void call(std::size_t s, std::size_t i, int worker) {
    if (stop && stop->requested()) [[unlikely]]
      owner.stopped(at + (loop ? s > 0 || i > 0 : s + (i > 0)));
    const plan_stage* const part = stage(s);
    if (!part) {
      loop->advance(1);
      ++iteration;
      return;
    }
    const detail::denormals_as_zero zeros(owner.without_denormals_);
    const bound_step& step = steps[part->first + i];
    step.run(step.arguments, owner.scratch_ + static_cast<std::size_t>(worker) * owner.plan_->scratch_bytes());
  }
  void run(std::size_t count) {
    owner.pool_->run_stages({.stages = count,
                             .size = [](const void* calls, std::size_t s) -> std::size_t {
                               const plan_stage* const part = static_cast<const shared_steps*>(calls)->stage(s);
                               return part ? part->count : 1;
                             },
                             .f = [](void* calls, std::size_t s, std::size_t i,
                                     int worker) { static_cast<shared_steps*>(calls)->call(s, i, worker); },
                             .state = this});
    if (stop && stop->requested()) [[unlikely]]
      owner.stopped(at + (loop ? 1 : count));
  }
};

void executor::run_parallel(std::size_t from, std::size_t to, const detail::stop_link* stop) {
  shared_steps calls{*this, steps_.data(), {plan_->stages().data() + from, to - from}, from, stop};
  calls.run(to - from);
}

void executor::run_iterations(const plan_loop& loop, std::size_t at, const detail::stop_link* stop) {
  loop_arguments a;
  std::memcpy(&a, arguments_ + loop.arguments, sizeof a);
  if (!a.runs()) return;
  shared_steps calls{
      *this, steps_.data() + loop.first, {plan_->loop_stages().data() + loop.first_stage, loop.stages}, at, stop, &a};
  const struct returning {  // also after an exception
    const shared_steps& calls;
    ~returning() { calls.loop->advance(-calls.iteration); }
  } after{calls};
  calls.run(static_cast<std::size_t>(a.iterations) * (loop.stages + 1));
}

// Names the first skipped operation: that of `stage`, or of the next stage that belongs to a single operation.
void executor::stopped(std::size_t stage) const {
  const auto& stages = plan_->stages();
  while (stage < stages.size() && stages[stage].line < 0) ++stage;
  text t;
  if (stage == stages.size()) t << "the run was stopped in its last operation";
  else {
    const auto& line = plan_->lines()[static_cast<std::size_t>(stages[stage].line)];
    if (!line.where.empty()) t << line.where << ": ";
    t << line.what << ": the run was stopped before this operation";
  }
  detail::raise(error_kind::stopped, t);
}

namespace {
// Appends the first element that a counter counted: ": 7 of sample 3", ": 7 at [0, 3]".
void append_first(text& t, const shape& of, bool samples, std::int64_t element, std::int64_t at) {
  t << ": " << element;
  if (samples && of.rank == 1) t << " of sample " << at;
  else if (of.rank > 0) {
    t << " at [";
    for (int i = 0; i < of.rank; ++i) {
      const std::int64_t inner = of.size(i + 1, of.rank);
      t << (i ? ", " : "") << at / inner;
      at %= inner;
    }
    t << "]";
  }
}
}  // namespace

// Reports the first failed check, and failures of other places with it: an operation split into steps has a check for
// each, and its gradient fails where it did.
void executor::check() const {
  const auto place_of = [](std::string_view message) {  // `place: operation: message`, or without a place
    auto end = message.rfind(": ");
    end = end == 0 || end == message.npos ? message.npos : message.rfind(": ", end - 1);
    return end == message.npos ? message : message.substr(0, end);
  };
  const auto word_of = [&](const plan_check& c, std::size_t i) {
    std::int64_t word;
    std::memcpy(&word, arena_ + c.offset + 8 * i, sizeof word);
    return word;
  };
  const auto position_of = [&](const plan_check& c) { return c.first->begin + word_of(c, 2); };
  text t;
  std::vector<std::string_view> reported;
  for (const auto& c : plan_->checks()) {
    if (word_of(c, 0) == 0 || std::find(reported.begin(), reported.end(), place_of(c.message)) != reported.end())
      continue;
    const plan_check* earliest = &c;  // steps of one operation may be out of element order
    if (c.first)
      for (const auto& other : plan_->checks())
        if (other.first && other.message == c.message && word_of(other, 0) != 0 &&
            position_of(other) < position_of(*earliest))
          earliest = &other;
    t << (reported.empty() ? "" : "; also: ") << earliest->message;
    if (earliest->first)
      append_first(t, earliest->first->of, earliest->first->samples, word_of(*earliest, 1), position_of(*earliest));
    t << " (" << word_of(*earliest, 0) << " in total)";
    reported.push_back(place_of(c.message));
  }
  if (!t.empty()) detail::raise(error_kind::value, t);
}

template <class F> void executor::run_with(F stages) {
  for (const auto& c : plan_->checks()) std::memset(arena_ + c.offset, 0, 8);
  stages(plan_->once_stages(), plan_->commit_stage(), detail::innermost_stop);
  check();
  {
    const detail::stopped_by none(nullptr);  // assignment of states is not stoppable
    stages(plan_->commit_stage(), plan_->stages().size(), nullptr);
  }
  for (auto s : plan_->assigned_states()) states_[static_cast<std::size_t>(s)]->changed();
}

void executor::run_timed(view<std::int64_t> nanoseconds) {
  const auto lines = plan().lines().size();
  if (nanoseconds.size() != lines + 1) {
    text t;
    detail::raise(error_kind::value, t << "run_timed: a plan of " << lines << " lines takes " << lines + 1
                                       << " numbers; got " << nanoseconds.size());
  }
  refresh();
  run_with([&](std::size_t from, std::size_t to, const detail::stop_link* stop) {
    for (auto s = from; s < to; ++s) {
      const auto begin = std::chrono::steady_clock::now();
      run_stages(s, s + 1, stop);
      const auto line = plan_->stages()[s].line;
      nanoseconds[line < 0 ? lines : static_cast<std::size_t>(line)] +=
          std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
    }
  });
}

void executor::run_reporting(const output_ready& ready) {
  refresh();
  if (finished_.empty()) {
    const auto stages = output_stages(*plan_);
    for (std::size_t i = 0; i < stages.size(); ++i) finished_.push_back({stages[i], i});
    std::sort(finished_.begin(), finished_.end());
  }
  auto next = finished_.begin();
  run_with([&](std::size_t from, std::size_t to, const detail::stop_link* stop) {
    while (from < to) {
      const std::size_t cut = next == finished_.end() ? to : std::min(to, std::max(from, next->stage) + 1);
      run_stages(from, cut, stop);
      from = cut;
      for (; next != finished_.end() && next->stage < from; ++next) ready(next->output);
    }
  });
  for (; next != finished_.end(); ++next) ready(next->output);
}

// Before a run: checks that all is bound, and updates data precomputed from states.
void executor::refresh() {
  if (!plan_) [[unlikely]]
    moved();
  if (unbound_ != 0) [[unlikely]]
    not_bound();
  for (const auto& w : watched_)
    if (*w.seen != w.of->version()) [[unlikely]] {
      prepare();
      break;
    }
}

void executor::run_whole() {
  refresh();
  if (plain_ && !detail::innermost_stop) return run_plain();  // precomputed data is up to date now
  const auto stages = [this](std::size_t from, std::size_t to, const detail::stop_link* stop) {
    run_stages(from, to, stop);
  };
  if (!pool_ || pool_->threads() == 1) return run_with(stages);
  const auto begin = detail::thread_use::clock::now();
  struct scope {
    bool& alone;
    ~scope() { alone = false; }
  } after{alone_};
  alone_ = use_.alone(begin);
  run_with(stages);
  const auto end = detail::thread_use::clock::now();
  use_.ran(alone_, end - begin, end);
}

void executor::run_undivided() {
  if (stop_requested()) [[unlikely]]
    stopped(plan().once_stages());
  const detail::stopped_by none(nullptr);
  run();
}

void executor::run(view<const void* const> inputs, view<void* const> outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) bind_input(i, inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) bind_output(i, outputs[i]);
  run();
}

std::vector<any_tensor> executor::run(view<const any_tensor> inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) bind_input(i, inputs[i].data());
  std::vector<any_tensor> results;
  for (const tensor_type& type : plan().output_types()) {
    const std::size_t i = results.size();
    bind_output(i, results.emplace_back(result_memory(i), type).mutable_data());
  }
  run();
  return results;
}

std::size_t executor::own_bytes() const {
  return own_.bytes() + steps_.size() * sizeof(bound_step) + ranges_.size() * sizeof(range);
}

void executor::moved() { detail::raise(error_kind::state, "executor: it was moved from and has no plan"); }

void executor::no_such_buffer(std::size_t i) const {
  if (!plan_) moved();
  text t;
  t << "a plan of " << input_at_.size() << " inputs and " << output_at_.size() << " outputs has no index " << i;
  detail::raise(error_kind::value, t);
}
void executor::not_bound() const {
  text t;
  auto check_bound = [&](const std::vector<std::int32_t>& buffers, std::string_view what) {
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i] >= 0 && !ranges_[static_cast<std::size_t>(buffers[i])].address && t.empty())
        t << what << " " << i << " has no memory; bind it before the run";
  };
  check_bound(input_at_, "input"), check_bound(output_at_, "output");
  detail::raise(error_kind::state, t);
}

}  // namespace lamina
