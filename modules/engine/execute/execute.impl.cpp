module lamina:execute.impl;
import :context;
import :core;
import :dtype;
import :emission;
import :execute;
import :expression;
import :optimize;
import :parameter;
import :plan;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

// Runs a program without inputs once: how constants are folded.
any_tensor compute_constant(const program& p) {
  pass_counters unused;
  auto shapes = specialised(p, {}, {.fold_constants = false, .simplify = false}, unused, nullptr);
  auto made = std::make_shared<const plan>(shapes, target_isa(), pass_options{.fold_constants = false}, unused);
  any_tensor result(made->output_types()[0]);
  executor run(made, nullptr);
  run.bind_output(0, result.mutable_data());
  run.run();
  return result;
}

}  // namespace

std::shared_ptr<const plan> make_plan(const program& p, view<const shape> inputs, isa set, const pass_options& options) {
  pass_counters counters;
  auto concrete = specialised(p, inputs, options, counters, &compute_constant);
  if (options.merge) concrete = merged(concrete, counters);
  return std::make_shared<const plan>(concrete, set, options, counters);
}

// ---- executor -------------------------------------------------------------------------------------------------------

executor::~executor() = default;
executor::executor(executor&&) noexcept = default;
executor& executor::operator=(executor&&) noexcept = default;

executor::executor(std::shared_ptr<const lamina::plan> p, parameter_store* store, thread_pool* pool) : plan_(std::move(p)), store_(store), pool_(pool) {
  const auto& plan = *plan_;
  auto rounded = [](std::size_t n) { return (n + 63) / 64 * 64; };
  auto workers = static_cast<std::size_t>(pool ? pool->threads() : 1);
  std::size_t arguments = rounded(plan.arguments().size()), arena = rounded(plan.arena_bytes()), scratch = plan.scratch_bytes();
  memory_ = storage(arguments + arena + scratch * workers + 64);
  arguments_ = static_cast<std::byte*>(memory_.data());
  arena_ = arguments_ + arguments;
  scratch_ = arena_ + arena;
  if (!plan.arguments().empty()) std::memcpy(arguments_, plan.arguments().data(), plan.arguments().size());
  for (const auto& s : plan.steps()) steps_.push_back({s.run, arguments_ + s.arguments});
  for (const auto& l : plan.loops()) {
    loop_arguments a;
    std::memcpy(&a, arguments_ + l.arguments, sizeof a);
    a = {steps_.data() + l.first, plan.moves().data() + l.first_move, arguments_, l.count, l.moves, a.turns};
    std::memcpy(arguments_ + l.arguments, &a, sizeof a);
  }

  ranges_.resize(plan.buffers().size());
  for (std::uint32_t i = 0; i < plan.relocations().size(); ++i) {
    auto& r = ranges_[static_cast<std::size_t>(plan.relocations()[i].buffer)];
    if (r.count++ == 0) r.first = i;
  }
  input_at_.assign(plan.input_types().size(), -1);
  output_at_.assign(plan.output_types().size(), -1);
  for (const auto& name : plan.state_names()) {
    parameter* s = store ? store->find(name) : nullptr;
    if (!s) {
      text t;
      t << "state `" << name << "` is not in the parameter store";
      detail::raise(error_kind::state, t);
    }
    if (const auto& wanted = plan.state_types()[states_.size()]; s->value().type() != wanted) {
      text t;
      t << "state `" << name << "` is " << wanted << " in the plan and " << s->value().type() << " in the parameter store";
      detail::raise(s->value().element() == wanted.element ? error_kind::shape : error_kind::type, t);
    }
    states_.push_back(s);
  }
  packs_.resize(plan.packs().size());
  for (std::size_t i = 0; i < plan.buffers().size(); ++i) {
    const auto& b = plan.buffers()[i];
    auto at = static_cast<std::size_t>(b.index);
    auto number = static_cast<std::int32_t>(i);
    switch (b.kind) {
      case buffer_kind::arena: bind(number, arena_ + b.offset); break;
      case buffer_kind::constant: bind(number, const_cast<std::byte*>(plan.constants()[at].data())); break;
      case buffer_kind::state: bind(number, states_[at]->mutable_data()); break;
      case buffer_kind::input: input_at_[at] = number; ++unbound_; break;
      case buffer_kind::output: output_at_[at] = number; ++unbound_; break;
      case buffer_kind::packed: {
        const auto& k = plan.packs()[at];
        packs_[at] = &store->packed(store->index(plan.state_names()[static_cast<std::size_t>(k.state)]), k.format);
        break;
      }
    }
  }
  // Memory of no bytes needs no address: what stands for it is never read.
  for (std::size_t i = 0; i < input_at_.size(); ++i)
    if (plan.input_types()[i].bytes() == 0) bind_input(i, arguments_);
  for (std::size_t i = 0; i < output_at_.size(); ++i)
    if (plan.output_types()[i].bytes() == 0) bind_output(i, arguments_);
  once_seen_.resize(plan.once_states().size());
  for (std::size_t i = 0; i < packs_.size(); ++i) watched_.push_back({states_[static_cast<std::size_t>(plan.packs()[i].state)], &packs_[i]->version});
  for (std::size_t i = 0; i < once_seen_.size(); ++i) watched_.push_back({states_[static_cast<std::size_t>(plan.once_states()[i])], &once_seen_[i]});
  prepare();
  const std::size_t once = plan.once_stages() ? plan.stages()[plan.once_stages() - 1].first + plan.stages()[plan.once_stages() - 1].count : 0;
  first_ = steps_.data() + once;
  if ((!pool || pool->threads() == 1) && plan.checks().empty() && plan.assigned_states().empty()) plain_ = plan.cost().steps - once;
}

// Brings up to date what was made of states before the runs. Packed forms are shared: this happens when an executor is
// made, or after an assignment.
void executor::prepare() {
  for (std::size_t i = 0; i < packs_.size(); ++i) {
    const auto& k = plan_->packs()[i];
    auto& form = *packs_[i];
    parameter& of = *states_[static_cast<std::size_t>(k.state)];
    if (!form.memory) form.memory = storage(k.bytes);
    bind(k.buffer, form.memory.data());
    if (form.version == of.version()) continue;
    for (std::uint32_t s = 0; s < k.steps.count; ++s) steps_[k.steps.first + s].run(steps_[k.steps.first + s].arguments, scratch_);
    form.version = of.version();
  }
  run_stages(0, plan_->once_stages());
  for (std::size_t i = 0; i < once_seen_.size(); ++i) once_seen_[i] = states_[static_cast<std::size_t>(plan_->once_states()[i])]->version();
}

void executor::run_stages(std::size_t from, std::size_t to) {
  if (from == to) return;
  if (pool_ && pool_->threads() > 1) return run_parallel(from, to);
  const auto& stages = plan_->stages();
  const bound_step* step = steps_.data() + stages[from].first;
  const bound_step* end = steps_.data() + stages[to - 1].first + stages[to - 1].count;
  for (; step != end; ++step) step->run(step->arguments, scratch_);
}

void executor::run_parallel(std::size_t from, std::size_t to) {
  struct job { const bound_step* first; std::byte* scratch; std::size_t scratch_bytes; };
  for (std::size_t s = from; s < to; ++s) {
    const auto& stage = plan_->stages()[s];
    job j{steps_.data() + stage.first, scratch_, plan_->scratch_bytes()};
    pool_->run(stage.count, [](void* state, std::size_t i, int worker) {
      const job& at = *static_cast<const job*>(state);
      at.first[i].run(at.first[i].arguments, at.scratch + static_cast<std::size_t>(worker) * at.scratch_bytes);
    }, &j);
  }
}

void executor::check() const {
  for (const auto& c : plan_->checks()) {
    std::int64_t count;
    std::memcpy(&count, arena_ + c.offset, sizeof count);
    if (count) {
      text t;
      t << c.message << " (" << count << " of them)";
      detail::raise(error_kind::value, t);
    }
  }
}

void executor::run() {
  if (unbound_ != 0) [[unlikely]] not_bound();
  for (const auto& w : watched_)
    if (*w.seen != w.of->version()) [[unlikely]] { prepare(); break; }
  if (plain_) {
    // The hot path: nothing to check or assign, one thread.
    for (const bound_step *step = first_, *end = step + plain_; step != end; ++step) step->run(step->arguments, scratch_);
    return;
  }
  for (const auto& c : plan_->checks()) std::memset(arena_ + c.offset, 0, 8);
  run_stages(plan_->once_stages(), plan_->commit_stage());
  check();
  run_stages(plan_->commit_stage(), plan_->stages().size());
  for (auto s : plan_->assigned_states()) states_[static_cast<std::size_t>(s)]->changed();
}

void executor::run(view<const void* const> inputs, view<void* const> outputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) bind_input(i, inputs[i]);
  for (std::size_t i = 0; i < outputs.size(); ++i) bind_output(i, outputs[i]);
  run();
}

std::size_t executor::bytes() const {
  return memory_.bytes() + steps_.size() * sizeof(bound_step) + ranges_.size() * sizeof(range);
}

void executor::no_such_buffer(std::size_t i) const {
  text t;
  t << "a plan of " << input_at_.size() << " inputs and " << output_at_.size() << " outputs has none of number " << i;
  detail::raise(error_kind::value, t);
}
void executor::not_bound() const {
  text t;
  auto look = [&](const std::vector<std::int32_t>& buffers, std::string_view what) {
    for (std::size_t i = 0; i < buffers.size(); ++i)
      if (buffers[i] >= 0 && !ranges_[static_cast<std::size_t>(buffers[i])].address && t.empty()) t << what << " " << i << " has no memory; bind it before the run";
  };
  look(input_at_, "input"), look(output_at_, "output");
  detail::raise(error_kind::state, t);
}

// ---- typed evaluation -----------------------------------------------------------------------------------------------

namespace detail {

struct evaluation_site::prepared {
  std::vector<std::int32_t> aliases;       // input of each leaf
  std::vector<std::int64_t> extents;       // of all leaves, in order
  std::vector<std::size_t> leaf_of_input;  // a leaf that is bound to each input
  std::shared_ptr<program> source;
  std::optional<executor> run;
  std::size_t cases = 0;                   // version of the context's special cases that the plan knows

  bool matches(const call& c) const {
    if (c.leaf_count != aliases.size()) return false;
    if (!std::equal(attributes.begin(), attributes.end(), c.attributes, c.attributes + c.attribute_count)) return false;
    std::size_t at = 0;
    for (std::size_t i = 0; i < c.leaf_count; ++i) {
      const auto& x = c.leaves[i];
      if (x.extents)
        for (int d = 0; d < x.extents->rank; ++d)
          if (extents[at++] != x.extents->at(d)) return false;
      // The same memory where the program has one input, different memory where it has two.
      auto first = leaf_of_input[static_cast<std::size_t>(aliases[i])];
      if (first != i) {
        if (c.leaves[first].data != x.data) return false;
      } else {
        for (std::size_t k = 0; k < i; ++k)
          if (c.leaves[k].data == x.data && x.extents && c.leaves[k].extents && *c.leaves[k].extents == *x.extents && c.leaves[k].uniform == x.uniform && may_merge(k, i)) return false;
      }
    }
    return true;
  }
  std::vector<std::int64_t> attributes;
  std::vector<tensor_type> types;          // of the leaves
  std::vector<std::string> names;
  // As lowering merges: one memory under one type is one input, unless two names keep it apart.
  bool may_merge(std::size_t a, std::size_t b) const {
    return types[a] == types[b] && (names[a].empty() || names[b].empty() || names[a] == names[b]);
  }
};

evaluation_site::evaluation_site() = default;
evaluation_site::~evaluation_site() {
  for (auto& p : places_) delete p.ready;
}

namespace {
// The lowest number that no living thread has. It goes from a thread that has ended to a new one under a mutex, so what
// the first wrote in its places the second may read.
class thread_number {
 public:
  thread_number() {
    std::lock_guard lock(mutex());
    auto& all = used();
    while (mine_ < all.size() && all[mine_]) ++mine_;
    if (mine_ == all.size()) all.push_back(true);
    else all[mine_] = true;
  }
  ~thread_number() {
    std::lock_guard lock(mutex());
    used()[mine_] = false;
  }
  static std::size_t get() {
    thread_local const thread_number number;
    return number.mine_;
  }

 private:
  static std::mutex& mutex() { static auto* m = new std::mutex; return *m; }
  static std::vector<bool>& used() { static auto* v = new std::vector<bool>; return *v; }
  std::size_t mine_ = 0;
};
}  // namespace

evaluation_site::prepared* evaluation_site::take(const call& c, context& where, void (*lower)(program&, lowering&, const void*), const void* expression, bool cached) {
  const std::size_t cases = where.slot<context_cases>().version();
  if (cached) {
    std::lock_guard lock(mutex_);
    for (auto& r : resting_)
      if (r && r->cases == cases && r->matches(c)) {
        auto* p = r.release();
        std::erase_if(resting_, [](const auto& x) { return !x; });
        return p;
      }
  }
  auto p = std::make_unique<prepared>();
  p->source = std::make_shared<program>();
  lowering l(*p->source);
  lower(*p->source, l, expression);
  std::vector<shape> shapes;
  for (const auto& x : l.leaves()) shapes.push_back(x.extents ? *x.extents : shape{});
  p->cases = cases;
  auto plan = make_plan(*p->source, shapes, where.isa(), {.cases = where.slot<context_cases>().all()});
  p->run.emplace(plan, nullptr, where.threads() > 1 ? &where.pool() : nullptr);
  if (cached) {
    p->names = l.names();
    p->attributes.assign(c.attributes, c.attributes + c.attribute_count);
    // Input numbers instead of node numbers.
    for (auto node : l.aliases()) {
      const auto& inputs = p->source->inputs();
      p->aliases.push_back(static_cast<std::int32_t>(std::find(inputs.begin(), inputs.end(), node) - inputs.begin()));
      p->types.push_back(p->source->at(node).results[0]);
    }
    p->leaf_of_input.assign(p->source->inputs().size(), 0);
    for (std::size_t i = p->aliases.size(); i-- > 0;) p->leaf_of_input[static_cast<std::size_t>(p->aliases[i])] = i;
    for (std::size_t i = 0; i < c.leaf_count; ++i)
      if (c.leaves[i].extents)
        for (int d = 0; d < c.leaves[i].extents->rank; ++d) p->extents.push_back(c.leaves[i].extents->at(d));
  } else {
    for (std::size_t i = 0; i < l.leaves().size(); ++i) p->run->bind_input(i, l.leaves()[i].data);
  }
  return p.release();
}

void evaluation_site::run(const call& c, bool cached, context& where, void (*lower)(program&, lowering&, const void*), const void* expression) {
  const std::size_t number = cached ? thread_number::get() : places;
  place* mine = number < places ? &places_[number] : nullptr;
  std::unique_ptr<prepared> p(mine ? std::exchange(mine->ready, nullptr) : nullptr);
  auto rest = [&](std::unique_ptr<prepared> r) {
    std::lock_guard lock(mutex_);
    resting_.push_back(std::move(r));
    if (resting_.size() > 64) resting_.erase(resting_.begin());
  };
  if (p && (p->cases != where.slot<context_cases>().version() || !p->matches(c))) rest(std::exchange(p, nullptr));
  if (!p) p.reset(take(c, where, lower, expression, cached));
  if (cached)
    for (std::size_t i = 0; i < p->leaf_of_input.size(); ++i) p->run->bind_input(i, c.leaves[p->leaf_of_input[i]].data);
  for (std::size_t i = 0; i < c.result_count; ++i) p->run->bind_output(i, c.results[i]);
  p->run->run();
  if (mine) mine->ready = p.release();
  else if (cached) rest(std::move(p));
}

}  // namespace detail

// ---- many results in one go -----------------------------------------------------------------------------------------

struct eval_plan::prepared {
  std::vector<const void*> tags;               // of the entries
  std::vector<std::int64_t> extents;           // of all leaves
  std::vector<std::uint32_t> first_alike;      // of each leaf: the first with its memory
  std::size_t cases = 0;
  std::vector<std::size_t> leaf_of_input;
  std::optional<executor> run;
  bool same_as(const prepared& o) const { return cases == o.cases && tags == o.tags && extents == o.extents && first_alike == o.first_alike; }
};
struct eval_plan::rest {
  static constexpr std::size_t most = 16;
  std::mutex mutex;
  std::vector<std::unique_ptr<prepared>> all;   // the one used last comes last
};

// What the plan depends on where types say the structure; else a plan for these entries alone.
std::unique_ptr<eval_plan::prepared> eval_plan::prepare(bool keyed) const {
  auto p = std::make_unique<prepared>();
  p->cases = where_->slot<detail::context_cases>().version();
  if (keyed) {
    // A table of addresses, twice as large as it need be.
    const auto places = std::bit_ceil(2 * leaves_.size() + 1);
    std::vector<std::uint32_t> seen(places, 0);     // a leaf's number + 1
    p->first_alike.reserve(leaves_.size());
    p->tags.reserve(entries_.size());
    for (const auto& e : entries_) p->tags.push_back(e.tag);
    p->extents = attributes_;
    for (const auto& x : leaves_) {
      if (x.extents)
        for (int d = 0; d < x.extents->rank; ++d) p->extents.push_back(x.extents->at(d));
      const auto mine = static_cast<std::uint32_t>(p->first_alike.size());
      auto at = (std::bit_cast<std::uintptr_t>(x.data) >> 3) * 0x9e3779b97f4a7c15u >> 20 & (places - 1);
      while (seen[at] && leaves_[seen[at] - 1].data != x.data) at = (at + 1) & (places - 1);
      if (!seen[at]) seen[at] = mine + 1;
      p->first_alike.push_back(seen[at] - 1);
    }
    auto& kept = where_->slot<rest>();
    std::lock_guard lock(kept.mutex);
    for (std::size_t i = kept.all.size(); i-- > 0;)
      if (kept.all[i]->same_as(*p)) {
        auto found = std::move(kept.all[i]);
        kept.all.erase(kept.all.begin() + static_cast<std::ptrdiff_t>(i));
        return found;
      }
  }
  program source;
  lowering l(source);
  for (const auto& e : entries_) source.output("result", e.lower(e.kept.get(), l));
  std::vector<shape> shapes;
  for (const auto& x : l.leaves()) shapes.push_back(x.extents ? *x.extents : shape{});
  auto plan = make_plan(source, shapes, where_->isa(), {.cases = where_->slot<detail::context_cases>().all(), .merge = true});
  p->run.emplace(std::move(plan), nullptr, where_->threads() > 1 ? &where_->pool() : nullptr);
  if (keyed) {
    const auto& inputs = source.inputs();
    p->leaf_of_input.assign(inputs.size(), 0);
    for (std::size_t i = l.aliases().size(); i-- > 0;)
      p->leaf_of_input[static_cast<std::size_t>(std::find(inputs.begin(), inputs.end(), l.aliases()[i]) - inputs.begin())] = i;
  } else {
    for (std::size_t i = 0; i < l.leaves().size(); ++i) p->run->bind_input(i, l.leaves()[i].data);
  }
  return p;
}

void eval_plan::run() {
  if (entries_.empty()) return;
  const bool keyed = std::all_of(entries_.begin(), entries_.end(), [](const entry& e) { return e.tag != nullptr; });
  auto p = prepare(keyed);
  counters_ = p->run->plan().counters();
  for (std::size_t i = 0; i < p->leaf_of_input.size(); ++i) p->run->bind_input(i, leaves_[p->leaf_of_input[i]].data);
  for (std::size_t i = 0; i < entries_.size(); ++i) p->run->bind_output(i, entries_[i].result(entries_[i].kept.get()));
  p->run->run();
  if (keyed) {
    auto& kept = where_->slot<rest>();
    std::lock_guard lock(kept.mutex);
    kept.all.push_back(std::move(p));
    if (kept.all.size() > rest::most) kept.all.erase(kept.all.begin());
  }
  entries_.clear();
  leaves_.clear();
  attributes_.clear();
}

}  // namespace lamina
