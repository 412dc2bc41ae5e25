// Reference models: many executors over one set of weights, one for each thread that serves.
export module lamina:reference;
import :context;
import :core;
import :dtype;
import :execute;
import :model;
import :optimize;
import :parameter;
import :plan;
import :plan_cache;
import :program;
import :shape;
import :tensor;
import :topology.check;
import lamina.std;

namespace lamina {

/// How a factory prepares its network.
export struct reference_options {
  /// Computes once what depends on parameters alone: batch norms go into the weights before them. Results then differ in
  /// the last bits from those of the model.
  bool optimize = false;
  /// Memory that reference models lend for each run; without it each has its own from its first run on.
  std::shared_ptr<arena_pool> arenas{};
};

/// What a factory found to do for inference.
export struct reference_report {
  std::int64_t dropped = 0;     ///< layers that pass on their input, as dropout does
  std::int64_t folded = 0;      ///< factors and terms that went into the weights before them: two for each batch norm
  std::int64_t computed = 0;    ///< parameters that were computed from others beforehand
};

// ---- the part that is no template -----------------------------------------------------------------------------------

/// What a factory is made of.
struct reference_source {
  std::shared_ptr<const program> inference;
  std::unique_ptr<parameter_store> parameters;
  pass_options passes;
  lamina::isa isa;
  std::optional<model_definition> definition{};      // so that errors name layers
};

/// One set of weights and its packed forms. Nobody changes it: an update is another set.
struct shared_weights {
  parameter_store store;
  shared_packs packs;
};

export class reference_runner;
class origin_loan;

/// What all reference models of a factory share; lives until the last of them ends.
export class reference_core {
 public:
  reference_core(reference_source from, const reference_options& o);
  ~reference_core();
  const std::optional<model_definition>& definition() const { return definition_; }
  /// The program of inference.
  const program& inference() const { return *inference_; }
  const reference_report& report() const { return report_; }
  /// Where the plans of all shapes are.
  plan_cache& plans() const { return where_->slot<plan_cache>(); }
  /// The weights of now, and how often they were exchanged.
  std::shared_ptr<shared_weights> weights() const;
  inline std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Other parameters of the same names and types; nothing changes where one is missing or has another type.
  void update(const parameter_store& now);
  void update_from_file(const std::string& path);
  /// States that each reference model has for itself, as the origin left them.
  std::unique_ptr<parameter_store> own_states() const;
  /// An executor of one program made from that of inference.
  std::unique_ptr<executor> bound(const program& p, view<const shape> inputs, bool free_order, shared_weights& weights) const;

 private:
  friend class reference_runner;
  friend class origin_loan;
  std::shared_ptr<shared_weights> prepared(parameter_store& all) const;
  // Takes parameters that are known to fit.
  void exchange(parameter_store all);

  std::optional<model_definition> definition_;
  reference_options options_;
  reference_report report_;
  pass_options passes_;
  std::vector<std::pair<std::string, tensor_type>> wanted_;    // parameters that the net had, and that an update must have
  std::shared_ptr<const program> inference_;
  std::shared_ptr<program> beforehand_;                        // what is computed from parameters once
  std::vector<std::string> computed_;                          // and what its results are called
  std::shared_ptr<context> where_;
  std::mutex updating_;
  mutable std::mutex mutex_;                                   // of all below
  std::condition_variable returned_;
  std::shared_ptr<shared_weights> weights_;
  parameter_store own_;                                        // of the origin, as it was when nobody had it
  std::unique_ptr<reference_runner> origin_;
  bool lent_ = false;
  std::atomic<std::uint64_t> version_{0};
};

/// The executors of one reference model. They see an exchange of weights when they are asked for, never while they run.
export class reference_runner {
 public:
  explicit reference_runner(const reference_core& core);
  executor& at(const reference_core& core, view<const shape> inputs);
  inline void rest() noexcept { runner_.rest(); }
  std::size_t bytes() const { return runner_.bytes(); }

 private:
  friend class origin_loan;
  std::uint64_t version_ = 0;
  std::shared_ptr<shared_weights> weights_;
  std::unique_ptr<parameter_store> own_;
  plan_runner runner_;
};

/// The right to use a factory's origin, which one holder at a time has.
class origin_loan {
 public:
  /// Waits while another has it; with `wait` false it is empty then.
  origin_loan(std::shared_ptr<reference_core> core, bool wait);
  origin_loan(origin_loan&&) noexcept = default;
  origin_loan& operator=(origin_loan&& o) noexcept;
  ~origin_loan() { give_back(); }
  explicit operator bool() const { return core_ != nullptr; }
  reference_core& core() const { return *core_; }
  reference_runner& runner() const { return *core_->origin_; }

 private:
  void give_back() noexcept;
  std::shared_ptr<reference_core> core_;
};

namespace detail {
/// Takes a model apart.
reference_source source_of(model_core&& origin);
/// Gives memory that was lent for a run back, however the run ends.
struct resting {
  reference_runner& runner;
  ~resting() { runner.rest(); }
};
template <class Traits, class... X>
auto run_reference(const reference_core& core, reference_runner& runner, const X&... x) {
  const resting after{runner};
  return run_model<Traits>([&](view<const shape> s) -> executor& { return runner.at(core, s); }, x...);
}
/// What a reference model does not do, in words.
template <fixed_string What, class...>
struct shares_weights {
  static consteval text message() {
    text t;
    t << "a reference model cannot " << What.view() << ": it shares its weights with the others of its factory. Train, load or save a model, and hand its parameters to factory.update(...)";
    return t;
  }
};
}  // namespace detail

// ---- reference models -----------------------------------------------------------------------------------------------

/// A network that can be run and nothing else: it shares its weights and packed weights, and owns its memory and its
/// generator. Each thread has its own.
export template <class Traits>
class reference_model {
 public:
  explicit reference_model(std::shared_ptr<reference_core> core) : core_(std::move(core)), runner_(*core_) {}
  /// Inference, as of a model. The weights are those of the last `factory.update` before the call, to its end.
  template <detail::InMemory... X>
    requires accepted<worded<detail::call_check<Traits, X...>>()>
  auto operator()(const X&... x) {
    return detail::run_reference<Traits>(*core_, runner_, x...);
  }
  /// What the reference models of a factory share.
  const std::shared_ptr<reference_core>& shared_part() const { return core_; }
  /// Bytes that this reference model has for itself.
  std::size_t bytes() const { return runner_.bytes(); }

  // What it does not do, so that the compiler says why.
  template <class... X>
    requires accepted<worded<detail::shares_weights<"hand out its parameters", X...>>()>
  void parameters(X&&...) const {}
  template <class... X>
    requires accepted<worded<detail::shares_weights<"be changed", X...>>()>
  void core(X&&...) const {}
  template <class... X>
    requires accepted<worded<detail::shares_weights<"be trained", X...>>()>
  void backward(X&&...) const {}

 private:
  std::shared_ptr<reference_core> core_;
  reference_runner runner_;
};
export template <class Traits, class... X>
  requires accepted<worded<detail::shares_weights<"be saved", X...>>()>
void save(const reference_model<Traits>&, X&&...) {}
export template <class Traits, class... X>
  requires accepted<worded<detail::shares_weights<"load parameters", X...>>()>
void load(const reference_model<Traits>&, X&&...) {}
export template <class Traits, class... X>
  requires accepted<worded<detail::shares_weights<"be trained", X...>>()>
void fit(const reference_model<Traits>&, X&&...) {}

/// The origin of a factory, lent: it runs as a reference model does, and only one holder has it. What its generator has
/// drawn when it is given back is where reference models that are made from then on begin. Moved, never copied.
export template <class Traits>
class origin_model {
 public:
  explicit origin_model(origin_loan loan) : loan_(std::move(loan)) {}
  template <detail::InMemory... X>
    requires accepted<worded<detail::call_check<Traits, X...>>()>
  auto operator()(const X&... x) {
    return detail::run_reference<Traits>(loan_.core(), loan_.runner(), x...);
  }

 private:
  origin_loan loan_;
};

/// Makes reference models, from any number of threads at once. Factory, origin and reference models may end in any order.
export template <const auto& Topology, class... Rest>
class reference_factory {
 public:
  using model_type = model<Topology, Rest...>;
  using traits = typename model_type::traits;

  /// From a copy of a model, which stays as it is.
  explicit reference_factory(const model_type& origin, reference_options o = {}) : reference_factory(model_type(origin), std::move(o)) {}
  /// From a model that is given away.
  explicit reference_factory(model_type&& origin, reference_options o = {})
      : core_(std::make_shared<reference_core>(detail::source_of(std::move(origin.core())), std::move(o))) {}
  /// From saved parameters. Errors: file_error.
  static reference_factory from_file(const std::string& path, reference_options o = {}) {
    model_type net;
    load(net, path);
    return reference_factory(std::move(net), std::move(o));
  }
  reference_model<traits> create() const { return reference_model<traits>(core_); }

  /// The origin, for one holder at a time: waits until the one before has given it back.
  origin_model<traits> origin() const { return origin_model<traits>(origin_loan(core_, true)); }
  /// The same, but empty while another has it.
  std::optional<origin_model<traits>> try_origin() const {
    origin_loan loan(core_, false);
    return loan ? std::optional<origin_model<traits>>(std::in_place, std::move(loan)) : std::nullopt;
  }

  /// Exchanges the weights while reference models run: a call that runs ends on the old ones, each later call computes with
  /// the new ones alone. The old ones are freed with the last model that has read them. Costs a copy and the packing.
  /// Errors: state_error, shape_error, type_error for parameters that the net does not have like this; the old weights stay.
  void update(const parameter_store& now) const { core_->update(now); }
  void update(const model_type& now) const { core_->update(now.parameters()); }
  /// The same from saved parameters. Errors: file_error; the old weights stay.
  void update_from_file(const std::string& path) const { core_->update_from_file(path); }

  /// Bytes of the weights that all reference models share.
  std::size_t shared_bytes() const { return core_->weights()->store.bytes(); }
  const reference_report& report() const { return core_->report(); }

 private:
  std::shared_ptr<reference_core> core_;
};

// ---- programs without a topology ------------------------------------------------------------------------------------

/// A reference model of a program whose types are known at run time alone.
export class program_reference {
 public:
  explicit program_reference(std::shared_ptr<reference_core> core) : core_(std::move(core)), runner_(*core_) {}
  /// Inputs in the order of the program's; results in the order of its outputs. Errors: shape_error, type_error, value_error
  /// for another number of inputs.
  std::vector<any_tensor> operator()(view<const any_tensor> inputs);
  std::size_t bytes() const { return runner_.bytes(); }

 private:
  std::shared_ptr<reference_core> core_;
  reference_runner runner_;
};

/// Makes reference models of a program and its states, as `reference_factory` does of a topology.
export class program_factory {
 public:
  /// `states` are copied. Errors: state_error, shape_error, type_error where one that the program reads is missing or differs.
  program_factory(std::shared_ptr<const program> inference, const parameter_store& states, reference_options o = {}, const pass_options& passes = {});
  program_reference create() const { return program_reference(core_); }
  void update(const parameter_store& now) const { core_->update(now); }
  void update_from_file(const std::string& path) const { core_->update_from_file(path); }
  std::size_t shared_bytes() const { return core_->weights()->store.bytes(); }
  const reference_report& report() const { return core_->report(); }

 private:
  std::shared_ptr<reference_core> core_;
};

}  // namespace lamina
