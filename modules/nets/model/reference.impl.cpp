module lamina:reference.impl;
import :any_value;
import :cache;
import :context;
import :core;
import :dtype;
import :execute;
import :model;
import :model.file.impl;
import :passes;
import :parameter;
import :plan;
import :plan_cache;
import :program;
import :reference;
import :session;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

void add_results(const program& values, parameter_store& from, isa set, parameter_store& to) {
  if (values.outputs().empty()) return;
  auto made = executor(make_plan(values, {}, set), &from).run({});
  for (std::size_t i = 0; i < made.size(); ++i)
    to.add(values.outputs()[i].name, std::move(made[i]), state_role::parameter, false);
}

namespace {

// Sets the seed of all generators; a generator's state is its seed and its run count.
void seed_generators(parameter_store& all, std::int64_t seed) {
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].role() != state_role::generator) continue;
    any_tensor begin(all[i].value().type());
    std::memcpy(begin.mutable_data(), &seed, sizeof seed);
    all[i].assign(begin);
  }
}

// Counts the layers that return their input unchanged.
class idle_layers final : public trace_listener {
 public:
  std::int64_t count = 0;
  void entered(view<const label>, std::string_view, view<const label>, view<const label>,
               view<const value> in) override {
    if (!open_.empty()) open_.back().innermost = false;
    open_.push_back({{in.begin(), in.end()}});
  }
  void left(view<const value> out) override {
    const auto layer = std::move(open_.back());
    open_.pop_back();
    count += layer.innermost && layer.in.size() == 1 && out.size() == 1 && out[0].same(layer.in[0]);
  }

 private:
  struct layer {
    std::vector<value> in;
    bool innermost = true;
  };
  std::vector<layer> open_;
};
std::int64_t idle_layers_of(const model_definition& d) {
  program made;
  parameter_store unused;
  traced_leaves leaves;
  idle_layers found;
  std::vector<value> in, out(d.outputs.size());
  for (const auto& i : d.inputs) in.push_back(made.input(i.name, i.type));
  trace_walk walk{made, unused, 0, d.element, false, false, d.trainable, &leaves};
  walk.listener = &found;
  trace_scope scope(walk);
  d.trace(scope, in, view<value>(out));
  return found.count;
}

}  // namespace

reference_source detail::source_of(model_core&& origin) {
  auto parameters = origin.take_parameters();
  return {origin.inference_program(), std::move(parameters), origin.options().passes,
          origin.where()->isa(),      origin.definition(),   origin.where()->slot<plan_cache>().limits()};
}
void detail::moved_from() {
  raise(error_kind::state,
        "this factory, origin or reference model was moved to another one, and shares no weights any more");
}

namespace {

void needed(const program* p) {
  if (!p) detail::raise(error_kind::value, "a factory of reference models needs a program; got none");
}
// Checks that all states that a program reads are present with equal types.
void check_states(const program* p, const parameter_store& states) {
  text t;
  needed(p);
  for (auto s : p->states()) {
    const node& n = p->at(s);
    const parameter* found = states.find(n.name);
    if (!found)
      detail::raise(error_kind::state, t << "state `" << n.name << "` of the program is not among the parameters");
    if (const auto& given = found->value().type(); given != n.results[0])
      detail::raise(given.element == n.results[0].element ? error_kind::shape : error_kind::type,
                    t << "state `" << n.name << "` is " << n.results[0] << " in the program and " << given
                      << " among the parameters");
  }
}

}  // namespace

// ---- core -----------------------------------------------------------------------------------------------------------

reference_core::reference_core(reference_source from, const reference_options& o)
    : definition_(std::move(from.definition)),
      options_(o),
      passes_(std::move(from.passes)),
      inference_(std::move(from.inference)),
      where_(std::make_shared<context>(1, from.isa)) {
  auto& all = *from.parameters;
  check_states(inference_.get(), all);
  if (o.seed) seed_generators(all, *o.seed);
  if (from.plans) plans().limit(*from.plans);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (is_saved(all[i])) expected_.emplace_back(all[i].name(), all[i].value().type());
  if (definition_ && definition_->trace) report_.dropped = idle_layers_of(*definition_);
  if (o.optimize) {
    auto precomputed = lamina::precomputed(*inference_);
    inference_ = precomputed.rewritten;
    beforehand_ = precomputed.values;
    computed_ = precomputed.names;
    report_.folded = precomputed.joined;
    report_.computed = static_cast<std::int64_t>(computed_.size());
  }
  for (const auto& a : inference_->assignments()) {
    const auto& name = inference_->at(a.state).name;
    if (const parameter* p = all.find(name)) own_.add(name, p->value(), p->role(), false);
  }
  weights_ = prepared(all);
  // Folded weights are freed now; trim this thread's free list, which would keep their memory.
  from.parameters.reset();
  if (o.optimize) memory::trim();
}
reference_core::~reference_core() = default;

reference_report reference_core::report(view<const shape> inputs) const {
  reference_report all = report_;
  all.fused = 0;
  for (const auto& p : session(inference_, {}, where_, passes_).plans(inputs))
    *all.fused += p->counters().fused_elementwise + p->counters().fused_epilogues;
  return all;
}
reference_report reference_core::report() const {
  std::vector<shape> inputs;
  for (auto i : inference_->inputs()) {
    shape s = inference_->at(i).results[0].dims;
    if (s.rank && !s[0].is_number()) s[0] = dim(1);
    if (!s.is_static()) return report_;
    inputs.push_back(s);
  }
  try {
    return report(inputs);
  } catch (const shape_error&) {  // one sample is too few
    return report_;
  }
}

namespace {
// Deletes replaced weights and returns the pages of large ones to the system, as they are not needed again soon.
void give_back(shared_weights* w) {
  constexpr std::size_t many_bytes = std::size_t(16) << 20;
  const std::size_t bytes = w->store.bytes();
  delete w;
  if (bytes >= many_bytes) memory::trim();
}
}  // namespace

// Collects the states that the inference program reads but does not assign, without optimizer slots.
std::shared_ptr<shared_weights> reference_core::prepared(parameter_store& all) const {
  std::shared_ptr<shared_weights> made(new shared_weights, give_back);
  if (beforehand_) add_results(*beforehand_, all, where_->isa(), made->store);
  for (auto s : inference_->states()) {
    const auto& name = inference_->at(s).name;
    if (made->store.find(name) || own_.find(name)) continue;
    if (const parameter* p = all.find(name)) made->store.add(name, p->value(), p->role(), p->trainable());
  }
  for (auto& p : made->store) p.releasable();
  return made;
}

std::shared_ptr<shared_weights> reference_core::weights() const {
  std::lock_guard lock(mutex_);
  return weights_;
}
std::unique_ptr<parameter_store> reference_core::own_states() const {
  if (own_.size() == 0) return nullptr;  // the common case needs no lock
  std::lock_guard lock(mutex_);
  return std::make_unique<parameter_store>(own_);
}

void reference_core::update(const parameter_store& now) {
  for (const auto& [name, type] : expected_) {
    const parameter* p = now.find(name);
    text t;
    if (!p)
      detail::raise(error_kind::state,
                    t << "update: parameter `" << name << "` is missing; the weights stay as they were");
    if (p->value().type() != type)
      detail::raise(p->value().element() == type.element ? error_kind::shape : error_kind::type,
                    t << "update: parameter `" << name << "` is " << type << "; got " << p->value().type()
                      << "; the weights stay as they were");
  }
  exchange(parameter_store(now));
}
void reference_core::update_from_file(const std::string& path) {
  auto values = read_parameters(expected_, nullptr, path);
  parameter_store now;
  for (std::size_t i = 0; i < expected_.size(); ++i)
    now.add(expected_[i].first, std::move(values[i]), state_role::parameter);
  exchange(std::move(now));
}
void reference_core::exchange(parameter_store all) {
  std::lock_guard one(updating_);
  auto next = prepared(all);
  // Pack the weights for all current plans before publishing them, so that no run waits for packing.
  {
    auto before = weights();
    std::lock_guard lock(before->packs.mutex);
    next->packs.makers = before->packs.makers;
  }
  auto own = own_states();
  for (const auto& plan : next->packs.makers) executor::pack(plan, {&next->store, own.get()});
  std::lock_guard lock(mutex_);
  weights_ = std::move(next);
  version_.fetch_add(1, std::memory_order_release);
}

session reference_core::session_of(std::shared_ptr<const program> p, shared_weights& weights,
                                   bool relaxed_summation) const {
  auto passes = passes_;
  passes.relaxed_summation = relaxed_summation;
  return session(std::move(p), {&weights.store, nullptr}, where_, std::move(passes), &weights.packs);
}

// ---- runners --------------------------------------------------------------------------------------------------------

reference_runner::reference_runner(const reference_core& core)
    : version_(core.version()),
      weights_(core.weights()),
      own_(core.own_states()),
      session_(core.inference_, {&weights_->store, own_.get()}, core.where_, core.passes_, &weights_->packs,
               core.options_.arenas) {
  if (core.definition())
    session_.on_mismatch([&core](view<const shape> inputs) { explain_mismatch(*core.definition(), inputs); });
}

session& reference_runner::ready(const reference_core& core) {
  if (const auto now = core.version(); now != version_) [[unlikely]] {
    auto next = core.weights();
    session_.read({&next->store, own_.get()}, &next->packs);
    weights_ = std::move(next);
    version_ = now;
  }
  return session_;
}

std::size_t reference_runner::planned(const reference_core& core, view<const shape> inputs) {
  const detail::rest_guard after{*this};
  session& all = ready(core);
  return all.in_segments() ? 0 : all.at(inputs).planned_bytes();
}
std::vector<any_tensor> reference_runner::run(const reference_core& core, view<const any_tensor> inputs) {
  const detail::rest_guard after{*this};
  return ready(core).run(inputs);
}
std::vector<any_value> reference_runner::run(const reference_core& core, view<const any_value> inputs) {
  const detail::rest_guard after{*this};
  return ready(core).run(inputs);
}

// ---- the origin -----------------------------------------------------------------------------------------------------

borrowed_origin::borrowed_origin(std::shared_ptr<reference_core> core, bool wait) {
  detail::shared_by(core);
  std::unique_lock lock(core->mutex_);
  if (core->is_borrowed_ && !wait) return;
  core->returned_.wait(lock, [&] { return !core->is_borrowed_; });
  core->is_borrowed_ = true;
  lock.unlock();
  core_ = std::move(core);
  try {
    runner_ = std::make_unique<reference_runner>(*core_);
  } catch (...) {
    give_back();
    throw;
  }
}
borrowed_origin& borrowed_origin::operator=(borrowed_origin&& o) noexcept {
  give_back();
  core_ = std::move(o.core_);
  runner_ = std::move(o.runner_);
  return *this;
}
const reference_core& borrowed_origin::core() const { return detail::shared_by(core_); }
reference_runner& borrowed_origin::runner() const { return detail::shared_by(core_), *runner_; }
void borrowed_origin::give_back() noexcept {
  if (!core_) return;
  {
    std::lock_guard lock(core_->mutex_);
    for (std::size_t i = 0; runner_ && i < core_->own_.size(); ++i)
      std::memcpy(core_->own_[i].mutable_data(), (*runner_->own_)[i].value().data(), core_->own_[i].value().bytes());
    core_->is_borrowed_ = false;
  }
  runner_.reset();
  core_->returned_.notify_one();
  core_.reset();
}

// ---- programs -------------------------------------------------------------------------------------------------------

program_factory::program_factory(std::shared_ptr<const program> inference, const parameter_store& states,
                                 reference_options o, const pass_options& passes)
    : program_factory(std::move(inference), parameter_store(states), std::move(o), passes) {}
program_factory::program_factory(std::shared_ptr<const program> inference, parameter_store&& states,
                                 reference_options o, const pass_options& passes)
    : core_(std::make_shared<reference_core>(
          reference_source{std::move(inference), std::make_unique<parameter_store>(std::move(states)), passes,
                           target_isa()},
          std::move(o))) {}

program_factory program_factory::from_file(std::shared_ptr<const program> inference, const std::string& path,
                                           reference_options o, const pass_options& passes) {
  needed(inference.get());
  parameter_store states;
  std::vector<expected_parameter> expected;
  for (auto s : inference->states()) {
    const node& n = inference->at(s);
    if (n.name == generator_name) states.add(n.name, any_tensor(n.results[0]), state_role::generator, false);
    else expected.emplace_back(n.name, n.results[0]);
  }
  auto values = read_parameters(expected, &states, path);
  for (std::size_t i = 0; i < expected.size(); ++i)
    states.add(std::move(expected[i].first), std::move(values[i]), state_role::parameter, false);
  return program_factory(std::move(inference), std::move(states), std::move(o), passes);
}

}  // namespace lamina
