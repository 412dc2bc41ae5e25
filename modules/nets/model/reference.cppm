// Reference models: many executors over one set of weights, one for each thread that serves.
export module lamina:reference;
import :any_value;
import :cache;
import :context;
import :core;
import :dtype;
import :execute;
import :model;
import :passes;
import :parameter;
import :plan;
import :plan_cache;
import :program;
import :session;
import :shape;
import :tensor;
import :topology.check;
import lamina.std;

namespace lamina {

/// How a factory prepares its network.
export struct reference_options {
  /// Computes once what depends on parameters alone: batch norms go into the weights before them. Results then differ in
  /// the last bits from the model.
  bool optimize = false;
  /// Memory that reference models lend for each run; without it each has its own from its first run on.
  std::shared_ptr<arena_pool> arenas{};
  /// Where the generators of reference models begin. Without it they go on from the model's, and from 0 where a factory is
  /// made from a file, which holds none.
  std::optional<std::int64_t> seed{};
};

/// Transformations that a factory made for inference.
struct reference_report {
  std::int64_t dropped = 0;   ///< layers that pass on their input, as dropout does
  std::int64_t folded = 0;    ///< factors and terms that went into the weights before them: two for each batch norm, or
                              ///< one where nothing but weights comes before it
  std::int64_t computed = 0;  ///< parameters that were computed from others beforehand
  /// Operations that run inside of the loop or the product of another one, with `optimize` and without. Each plan decides
  /// that for its extents: no number is here where the report was not asked for some and the net leaves them open.
  std::optional<std::int64_t> fused{};
};

// ---- the part that is no template -----------------------------------------------------------------------------------

/// The parts of a factory.
struct reference_source {
  std::shared_ptr<const program> inference;
  std::unique_ptr<parameter_store> parameters;
  pass_options passes;
  lamina::isa isa;
  std::optional<model_definition> definition{};  // so that errors name layers
  std::optional<cache_limits> plans{};           // how many plans to keep; as usual where it is not said
};

/// One set of weights and its packed forms. It never changes: an update is another set.
struct shared_weights {
  parameter_store store;
  shared_packs packs;
};

class reference_runner;
class stream_core;
class origin_loan;

/// What all reference models of a factory share; lives until the last of them ends. A reference model hands it out const:
/// weights are exchanged by the factory alone.
class reference_core {
 public:
  /// Errors: value_error without a program; state_error, shape_error, type_error for a state that it reads and that is not
  /// among the parameters like this.
  reference_core(reference_source from, const reference_options& o);
  ~reference_core();
  const std::optional<model_definition>& definition() const { return definition_; }
  /// The program of inference.
  const program& inference() const { return *inference_; }
  /// With the number of fused operations for these input extents, which makes their plan, if need be.
  /// Errors: shape_error where they do not fit.
  reference_report report(view<const shape> inputs) const;
  /// The same for the extents that inputs have; a leading one that is open is 1.
  reference_report report() const;
  /// The plans of all shapes; only the factory changes how many are kept.
  const plan_cache& plans() const { return cache(); }
  plan_cache& plans() { return cache(); }
  /// Bytes of the weights of now.
  std::size_t shared_bytes() const { return weights()->store.bytes(); }
  /// How often they were exchanged.
  inline std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Other parameters of the same names and types; nothing changes where one is missing or has another type.
  void update(const parameter_store& now);
  void update_from_file(const std::string& path);

 private:
  friend class reference_runner;
  friend class stream_core;
  friend class origin_loan;
  plan_cache& cache() const { return where_->slot<plan_cache>(); }
  // The weights of now.
  std::shared_ptr<shared_weights> weights() const;
  // States that each reference model has for itself, as the origin left them.
  std::unique_ptr<parameter_store> own_states() const;
  // What runs a program made from that of inference, in memory of its own and on weights that the caller keeps.
  session session_of(std::shared_ptr<const program> p, shared_weights& weights, bool relaxed_summation) const;
  std::shared_ptr<shared_weights> prepared(parameter_store& all) const;
  // Takes parameters that are known to fit.
  void exchange(parameter_store all);

  std::optional<model_definition> definition_;
  reference_options options_;
  reference_report report_;
  pass_options passes_;
  std::vector<std::pair<std::string, tensor_type>>
      wanted_;  // parameters that the net had, and that an update must have
  std::shared_ptr<const program> inference_;
  std::shared_ptr<program> beforehand_;  // what is computed from parameters once
  std::vector<std::string> computed_;    // and what its results are called
  std::shared_ptr<context> where_;
  std::mutex updating_;
  mutable std::mutex mutex_;  // of all below
  std::condition_variable returned_;
  std::shared_ptr<shared_weights> weights_;
  parameter_store own_;  // of the origin, as it was when it was not lent
  bool lent_ = false;
  std::atomic<std::uint64_t> version_{0};
};

/// The session of one reference model. It sees an exchange of weights when it is asked for, never while it runs.
class reference_runner {
 public:
  explicit reference_runner(const reference_core& core);
  /// With the weights of now.
  session& ready(const reference_core& core);
  inline void rest() noexcept { session_.rest(); }
  std::size_t bytes() const { return session_.bytes(); }
  /// Bytes that a run for these input extents works in, by its plan, which is made if need be; 0 for one in segments.
  std::size_t planned(const reference_core& core, view<const shape> inputs);
  /// Runs a program on tensors in order.
  std::vector<any_tensor> run(const reference_core& core, view<const any_tensor> inputs);
  std::vector<any_value> run(const reference_core& core, view<const any_value> inputs);

 private:
  friend class origin_loan;
  std::uint64_t version_ = 0;
  std::shared_ptr<shared_weights> weights_;
  std::unique_ptr<parameter_store> own_;
  session session_;
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
  /// Errors: state_error where it was moved from.
  const reference_core& core() const;
  reference_runner& runner() const;

 private:
  void give_back() noexcept;
  std::shared_ptr<reference_core> core_;
  std::unique_ptr<reference_runner> runner_;  // of this holder: an origin that is not lent keeps no weights
};

namespace detail {
/// Takes a model apart. Errors: state_error where that was done before.
reference_source source_of(model_core&& origin);
/// The shared part; a moved-from holder has none.
[[noreturn]] void moved_from();
template <class Core> Core& shared_by(const std::shared_ptr<Core>& core) {
  if (!core) [[unlikely]]
    moved_from();
  return *core;
}
/// Gives memory that was lent for a run back, however the run ends.
struct resting {
  reference_runner& runner;
  ~resting() { runner.rest(); }
};
template <class Traits, class... X>
auto run_reference(const reference_core& core, reference_runner& runner, const X&... x) {
  const resting after{runner};
  return run_model<Traits>(runner.ready(core), x...);
}
/// Messages for what models with shared weights cannot do.
template <fixed_string Who, fixed_string What, class...> struct shares_weights {
  static consteval text message() {
    text t;
    t << Who.view() << " cannot " << What.view()
      << ": it shares its weights with the others of its factory. Train, load or save a model, and hand its parameters "
         "to factory.update(...)";
    return t;
  }
};
}  // namespace detail

/// Members that are refused, so that the compiler says why.
template <fixed_string Who> struct sharing {
  static constexpr auto sharing_name = Who;
  /// Message of the free functions of layers.
  template <fixed_string, fixed_string What> using refused = detail::shares_weights<Who, What>;
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Who, "hand out its parameters", X...>>()>
  void parameters(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Who, "be changed", X...>>()>
  void core(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Who, "be trained", X...>>()>
  void backward(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Who, "be trained", X...>>()>
  void train(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Who, "be trained", X...>>()>
  void fit(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Who, "be changed", X...>>()>
  void add(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Who, "be changed", X...>>()>
  void update(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Who, "be saved", X...>>()>
  void save(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Who, "load parameters", X...>>()>
  void load(X&&...) const {}
};
/// A reference model, an origin, or one of a program.
template <class R>
concept Sharing = requires { R::sharing_name; };

// ---- reference models -----------------------------------------------------------------------------------------------

/// A network that can be run and nothing else: it shares its weights and packed weights, and owns its memory and its
/// generator. Each thread has its own.
export template <class Traits> class reference_model : public sharing<"a reference model"> {
 public:
  explicit reference_model(std::shared_ptr<const reference_core> core)
      : core_(std::move(core)), runner_(detail::shared_by(core_)) {}
  /// Inference, as of a model. A call uses the weights of the last `factory.update` before it, to its end.
  /// Errors: as a model; state_error where it was moved from.
  template <class... X> requires accepted<diagnostic<detail::call_check<Traits, X...>>()>
  auto operator()(const X&... x) {
    return detail::run_reference<Traits>(detail::shared_by(core_), runner_, x...);
  }
  /// Bytes that a run for inputs of these extents works in: activations and scratch, by its plan. Makes the plan if need be,
  /// for all reference models of the factory, so that no run waits for it. 0 where a run is of several plans.
  /// Errors: as a call.
  std::size_t planned(view<const shape> inputs) { return runner_.planned(detail::shared_by(core_), inputs); }
  std::size_t planned(std::initializer_list<shape> inputs) {
    return planned(view<const shape>(inputs.begin(), inputs.size()));
  }
  /// The part that the reference models of a factory share, which cannot be changed from here.
  const std::shared_ptr<const reference_core>& shared_part() const { return core_; }
  /// Bytes that this reference model has for itself.
  std::size_t bytes() const { return detail::shared_by(core_), runner_.bytes(); }

 private:
  std::shared_ptr<const reference_core> core_;
  reference_runner runner_;
};
export template <Sharing R, class... X>
requires accepted<diagnostic<detail::shares_weights<R::sharing_name, "be saved", X...>>()> void save(const R&, X&&...) {
}
export template <class P, Sharing R, class... X>
requires accepted<diagnostic<detail::shares_weights<R::sharing_name, "be saved", X...>>()>
void save_net(const P&, const R&, X&&...) {}
export template <Sharing R, class... X>
requires accepted<diagnostic<detail::shares_weights<R::sharing_name, "load parameters", X...>>()>
void load(const R&, X&&...) {}

/// The origin of a factory, lent: it runs as a reference model does, and only one holder has it. What its generator has
/// drawn when it is given back is where reference models that are made from then on begin. Moved, never copied.
export template <class Traits> class origin_model : public sharing<"the origin of a factory"> {
 public:
  explicit origin_model(origin_loan loan) : loan_(std::move(loan)) {}
  template <class... X> requires accepted<diagnostic<detail::call_check<Traits, X...>>()>
  auto operator()(const X&... x) {
    return detail::run_reference<Traits>(loan_.core(), loan_.runner(), x...);
  }

 private:
  origin_loan loan_;
};

/// Makes reference models, from any number of threads at once. Factory, origin and reference models may end in any order.
/// The plans that they make are kept within the limits of the model's context. Errors, of all members but the constructors:
/// state_error where the factory was moved from.
export template <const auto& Topology, class... Rest> class reference_factory {
 public:
  using model_type = model<Topology, Rest...>;
  using traits = typename model_type::traits;

  /// From a copy of a model, which stays as it is.
  explicit reference_factory(const model_type& origin, reference_options o = {})
      : reference_factory(model_type(origin), std::move(o)) {}
  /// From a model that is given away; using it afterwards is a state_error.
  explicit reference_factory(model_type&& origin, reference_options o = {})
      : core_(std::make_shared<reference_core>(detail::source_of(std::move(origin.core())), std::move(o))) {}
  /// From saved parameters; generators begin at `seed` of the options. Errors: file_error.
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
  void update(const parameter_store& now) const { detail::shared_by(core_).update(now); }
  void update(const model_type& now) const { update(now.parameters()); }
  /// The same from saved parameters. Errors: file_error; the old weights stay.
  void update_from_file(const std::string& path) const { detail::shared_by(core_).update_from_file(path); }

  /// Bytes of the weights that all reference models share.
  std::size_t shared_bytes() const { return detail::shared_by(core_).shared_bytes(); }
  /// The plans of all reference models: how many are kept, and what was hit. Its `limit` is for when none of them runs.
  plan_cache& plans() const { return detail::shared_by(core_).plans(); }
  /// Transformations for inference, and the fused operations of plans for these input extents, leading ones included.
  /// Errors: shape_error where they do not fit.
  reference_report report(std::initializer_list<shape> inputs) const {
    return detail::shared_by(core_).report({inputs.begin(), inputs.size()});
  }
  /// The same for the extents that the net's inputs have; a leading one that is open is 1.
  reference_report report() const { return detail::shared_by(core_).report(); }

 private:
  std::shared_ptr<reference_core> core_;
};

// ---- programs without a topology ------------------------------------------------------------------------------------

/// A reference model of a program whose types are known at run time alone.
export class program_reference : public sharing<"a reference model"> {
 public:
  explicit program_reference(std::shared_ptr<const reference_core> core)
      : core_(std::move(core)), runner_(detail::shared_by(core_)) {}
  /// Inputs in the order of the program's; results in the order of its outputs. Errors: shape_error, type_error, value_error
  /// for another number of inputs, state_error where it was moved from.
  std::vector<any_tensor> operator()(view<const any_tensor> inputs) {
    return runner_.run(detail::shared_by(core_), inputs);
  }
  /// The same for inputs and results that need not be tensors.
  template <ValueList R> std::vector<any_value> operator()(const R& inputs) {
    return runner_.run(detail::shared_by(core_), view<const any_value>(inputs));
  }
  /// As of a `reference_model`.
  std::size_t planned(view<const shape> inputs) { return runner_.planned(detail::shared_by(core_), inputs); }
  std::size_t planned(std::initializer_list<shape> inputs) {
    return planned(view<const shape>(inputs.begin(), inputs.size()));
  }
  std::size_t bytes() const { return detail::shared_by(core_), runner_.bytes(); }

 private:
  std::shared_ptr<const reference_core> core_;
  reference_runner runner_;
};

/// The origin of a factory of programs, as `origin_model` is of one of models.
class program_origin : public sharing<"the origin of a factory"> {
 public:
  explicit program_origin(origin_loan loan) : loan_(std::move(loan)) {}
  std::vector<any_tensor> operator()(view<const any_tensor> inputs) { return loan_.runner().run(loan_.core(), inputs); }
  template <ValueList R> std::vector<any_value> operator()(const R& inputs) {
    return loan_.runner().run(loan_.core(), view<const any_value>(inputs));
  }

 private:
  origin_loan loan_;
};

/// Makes reference models of a program and its states, as `reference_factory` does of a topology.
export class program_factory {
 public:
  /// `states` are copied. Errors: value_error without a program; state_error, shape_error, type_error where a state that
  /// it reads is missing or differs.
  program_factory(std::shared_ptr<const program> inference, const parameter_store& states, reference_options o = {},
                  const pass_options& passes = {});
  /// `states` are given away.
  program_factory(std::shared_ptr<const program> inference, parameter_store&& states, reference_options o = {},
                  const pass_options& passes = {});
  /// From saved parameters; generators begin at `seed` of the options. Errors: file_error.
  static program_factory from_file(std::shared_ptr<const program> inference, const std::string& path,
                                   reference_options o = {}, const pass_options& passes = {});
  program_reference create() const { return program_reference(core_); }
  /// The origin, as of a `reference_factory`.
  program_origin origin() const { return program_origin(origin_loan(core_, true)); }
  std::optional<program_origin> try_origin() const {
    origin_loan loan(core_, false);
    return loan ? std::optional<program_origin>(std::in_place, std::move(loan)) : std::nullopt;
  }
  void update(const parameter_store& now) const { detail::shared_by(core_).update(now); }
  void update_from_file(const std::string& path) const { detail::shared_by(core_).update_from_file(path); }
  std::size_t shared_bytes() const { return detail::shared_by(core_).shared_bytes(); }
  /// The plans of all reference models: how many are kept, and what was hit. Its `limit` is for when none of them runs.
  plan_cache& plans() const { return detail::shared_by(core_).plans(); }
  reference_report report(std::initializer_list<shape> inputs) const {
    return detail::shared_by(core_).report({inputs.begin(), inputs.size()});
  }
  reference_report report() const { return detail::shared_by(core_).report(); }

 private:
  std::shared_ptr<reference_core> core_;
};

/// Runs a program of states alone; its outputs become parameters.
void add_results(const program& values, parameter_store& from, isa set, parameter_store& to);

}  // namespace lamina
