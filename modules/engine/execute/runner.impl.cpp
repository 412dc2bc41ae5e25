module lamina:runner.impl;
import :context;
import :core;
import :execute;
import :optimize;
import :parameter;
import :plan;
import :plan_cache;
import :program;
import :runner;
import :shape;
import :workspace;
import lamina.std;

namespace lamina {

namespace {
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
}  // namespace

struct plan_runner::implementation {
  struct entry {
    std::vector<shape> shapes;
    std::size_t hash;
    std::unique_ptr<executor> run;
    std::uint64_t used = 0;
    bool stale = false;
    // With the plan, which it keeps alive whether or not the cache has forgotten it.
    std::size_t bytes() const { return run->own_bytes() + run->plan().bytes(); }
  };
  static constexpr std::size_t most_executors = 512, most_bytes = std::size_t(32) << 20;
  static constexpr std::size_t nothing = static_cast<std::size_t>(-1);

  thread_pool* pool() const { return where->threads() > 1 ? &where->pool() : nullptr; }
  std::unique_lock<std::mutex> packing() const { return packs ? std::unique_lock(packs->mutex) : std::unique_lock<std::mutex>(); }

  std::size_t find(view<const shape> inputs) const {
    const std::size_t hash = hash_of(inputs);
    for (std::size_t i = 0; i < entries.size(); ++i)
      if (entries[i].hash == hash && same(entries[i].shapes, inputs)) return i;
    return nothing;
  }

  std::size_t make(view<const shape> inputs) {
    if (!structure) {
      structure = source->id();
      structure->words[1] ^= words_of_checks(*source);
    }
    auto& plans = where->slot<plan_cache>();
    auto plan = plans.get(*source, *structure, inputs, where->isa(), passes);
    provide(*plan);
    std::unique_ptr<executor> run;
    {
      auto lock = packing();
      const std::size_t forms = states.shared ? states.shared->packed_forms() : 0;
      run = std::make_unique<executor>(plan, states, pool(), memory);
      if (packs && states.shared->packed_forms() > forms) packs->makers.push_back(plan);
    }
    const std::size_t most = std::min(most_bytes, plans.limits().bytes);
    std::size_t bytes = run->own_bytes() + plan->bytes();
    for (const auto& e : entries) bytes += e.bytes();
    while (!entries.empty() && (entries.size() >= most_executors || bytes > most)) {
      const auto oldest = std::min_element(entries.begin(), entries.end(), [](const entry& a, const entry& b) { return a.used < b.used; });
      bytes -= oldest->bytes();
      forget(static_cast<std::size_t>(oldest - entries.begin()));
    }
    entries.push_back({{inputs.begin(), inputs.end()}, hash_of(inputs), std::move(run)});
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
    } catch (const out_of_memory& e) {
      detail::no_memory_for(p, needed, e);
    }
    lent = true;
  }
  void rest() noexcept {
    if (std::exchange(lent, false)) arenas->give_back(memory);
  }

  std::shared_ptr<const program> source;
  state_source states;
  std::shared_ptr<context> where;
  pass_options passes;
  shared_packs* packs = nullptr;
  std::shared_ptr<arena_pool> arenas;
  std::optional<program_id> structure{};
  std::shared_ptr<workspace> memory{};
  bool lent = false;
  std::vector<entry> entries{};
  std::size_t last = nothing;           // the entry used last
  std::uint64_t uses = 0;
};

plan_runner::plan_runner() = default;
plan_runner::plan_runner(plan_runner&&) noexcept = default;
plan_runner& plan_runner::operator=(plan_runner&&) noexcept = default;
plan_runner::~plan_runner() = default;
plan_runner::plan_runner(std::shared_ptr<const program> p, state_source states, std::shared_ptr<context> where, pass_options passes, shared_packs* packs,
                         std::shared_ptr<arena_pool> arenas)
    : impl_(new implementation{std::move(p), states, std::move(where), std::move(passes), packs, std::move(arenas)}) {}

executor& plan_runner::at(view<const shape> inputs) {
  auto& r = *impl_;
  std::size_t i = r.last;
  if (i == implementation::nothing || !same(r.entries[i].shapes, inputs)) {
    i = r.find(inputs);
    if (i == implementation::nothing) i = r.make(inputs);
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
  impl_->states = states;
  impl_->packs = packs;
  for (auto& e : impl_->entries) e.stale = true;
}
void plan_runner::rest() noexcept { impl_->rest(); }

std::size_t plan_runner::bytes() const {
  std::size_t n = impl_->memory && !impl_->arenas ? impl_->memory->bytes() : 0;
  for (const auto& e : impl_->entries) n += e.run->own_bytes();
  return n;
}

}  // namespace lamina
