// Reference models: executors that share one set of weights, one executor per serving thread.
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

/// Options of a factory.
export struct reference_options {
  /// Optimizes the program for inference, as `saved_net::optimized` does. Results then differ from the model's in the
  /// last bits.
  bool optimize = false;
  /// Pool of arenas that reference models borrow from for each run. If null, each allocates its own at its first run.
  std::shared_ptr<arena_pool> arenas{};
  /// Initial seed of the reference models' generators. If empty, they continue from the model's generator, or start at
  /// 0 if the factory comes from a file, which stores no generator.
  std::optional<std::int64_t> seed{};
};

/// Counts of the transformations that a factory applied for inference.
struct reference_report {
  std::int64_t dropped = 0;   ///< layers that return their input unchanged, such as dropout
  std::int64_t folded = 0;    ///< factors and terms folded into the weights before them: two per batch norm, or
                              ///< one if nothing but weights comes before it
  std::int64_t computed = 0;  ///< parameters precomputed from others
  /// Operations fused into the loop or the matrix product of another one, with or without `optimize`. Each plan decides
  /// this for its shapes: empty if the report was requested without shapes and the net's inputs have symbolic extents.
  std::optional<std::int64_t> fused{};
};

// ---- non-template part ----------------------------------------------------------------------------------------------

/// Constructor input of a `reference_core`.
struct reference_source {
  std::shared_ptr<const program> inference;
  std::unique_ptr<parameter_store> parameters;
  pass_options passes;
  lamina::isa isa;
  std::optional<model_definition> definition{};  // lets errors name layers
  std::optional<cache_limits> plans{};           // limits of the plan cache; empty: the default limits
};

/// One set of weights with its packed forms. Immutable: an update creates a new set.
struct shared_weights {
  parameter_store store;
  shared_packs packs;
};

class reference_runner;
class stream_core;
class borrowed_origin;

/// State shared by all reference models of a factory; lives until the last of them is destroyed. Reference models
/// expose it as const: only the factory replaces weights.
class reference_core {
 public:
  /// Errors: value_error without a program; state_error, shape_error, type_error if a state that the program reads is
  /// missing from the parameters or has another shape or type.
  reference_core(reference_source from, const reference_options& o);
  ~reference_core();
  const std::optional<model_definition>& definition() const { return definition_; }
  /// The inference program.
  const program& inference() const { return *inference_; }
  /// Includes the number of fused operations for these input shapes; builds their plan if needed.
  /// Errors: shape_error if they do not fit.
  reference_report report(view<const shape> inputs) const;
  /// The same for the declared input shapes; a symbolic leading extent counts as 1.
  reference_report report() const;
  /// Cache of the plans of all shapes; only the factory changes its limits.
  const plan_cache& plans() const { return cache(); }
  plan_cache& plans() { return cache(); }
  /// Bytes of the current weights.
  std::size_t shared_bytes() const { return weights()->store.bytes(); }
  /// Number of weight updates so far.
  inline std::uint64_t version() const { return version_.load(std::memory_order_acquire); }
  /// Replaces the parameters by others of the same names and types; changes nothing if one is missing or differs in
  /// type.
  void update(const parameter_store& now);
  void update_from_file(const std::string& path);

 private:
  friend class reference_runner;
  friend class stream_core;
  friend class borrowed_origin;
  plan_cache& cache() const { return where_->slot<plan_cache>(); }
  // The current weights.
  std::shared_ptr<shared_weights> weights() const;
  // A copy of the states that each reference model owns, with the origin's latest values.
  std::unique_ptr<parameter_store> own_states() const;
  // Session for a program derived from the inference program, with its own memory. The caller keeps `weights` alive.
  session session_of(std::shared_ptr<const program> p, shared_weights& weights, bool relaxed_summation) const;
  std::shared_ptr<shared_weights> prepared(parameter_store& all) const;
  // Replaces the weights by parameters that are already validated.
  void exchange(parameter_store all);

  std::optional<model_definition> definition_;
  reference_options options_;
  reference_report report_;
  pass_options passes_;
  std::vector<std::pair<std::string, tensor_type>>
      expected_;  // parameters of the original net, which an update must provide
  std::shared_ptr<const program> inference_;
  std::shared_ptr<program> beforehand_;  // precomputes values from parameters
  std::vector<std::string> computed_;    // names of the results of `beforehand_`
  std::shared_ptr<context> where_;
  std::mutex updating_;
  mutable std::mutex mutex_;  // guards all members below
  std::condition_variable returned_;
  std::shared_ptr<shared_weights> weights_;
  parameter_store own_;  // the origin's own states, as of the last return of a loan
  bool is_borrowed_ = false;
  std::atomic<std::uint64_t> version_{0};
};

/// The session of one reference model. It adopts updated weights in `ready`, never during a run.
class reference_runner {
 public:
  explicit reference_runner(const reference_core& core);
  /// The session, bound to the current weights.
  session& ready(const reference_core& core);
  inline void rest() noexcept { session_.rest(); }
  std::size_t bytes() const { return session_.bytes(); }
  /// Working memory in bytes of a run for these input shapes, from its plan, which is built if needed; 0 for a
  /// segmented run.
  std::size_t planned(const reference_core& core, view<const shape> inputs);
  /// Runs the program on inputs in the program's order.
  std::vector<any_tensor> run(const reference_core& core, view<const any_tensor> inputs);
  std::vector<any_value> run(const reference_core& core, view<const any_value> inputs);

 private:
  friend class borrowed_origin;
  std::uint64_t version_ = 0;
  std::shared_ptr<shared_weights> weights_;
  std::unique_ptr<parameter_store> own_;
  session session_;
};

/// Exclusive loan of a factory's origin: one holder at a time.
class borrowed_origin {
 public:
  /// If the origin is on loan, waits for its return; with `wait` false the new loan is empty instead.
  borrowed_origin(std::shared_ptr<reference_core> core, bool wait);
  borrowed_origin(borrowed_origin&&) noexcept = default;
  borrowed_origin& operator=(borrowed_origin&& o) noexcept;
  ~borrowed_origin() { give_back(); }
  explicit operator bool() const { return core_ != nullptr; }
  /// Errors: state_error for a moved-from loan.
  const reference_core& core() const;
  reference_runner& runner() const;

 private:
  void give_back() noexcept;
  std::shared_ptr<reference_core> core_;
  std::unique_ptr<reference_runner> runner_;  // per loan, so that an origin that is not on loan keeps no weights alive
};

namespace detail {
/// Moves the contents out of a model. Errors: state_error for a moved-from model.
reference_source source_of(model_core&& origin);
/// The shared core; raises a state_error for a moved-from holder.
[[noreturn]] void moved_from();
template <class Core> Core& shared_by(const std::shared_ptr<Core>& core) {
  if (!core) [[unlikely]]
    moved_from();
  return *core;
}
/// Returns memory borrowed for a run, also if the run throws.
struct rest_guard {
  reference_runner& runner;
  ~rest_guard() { runner.rest(); }
};
template <class Traits, class... X>
auto run_reference(const reference_core& core, reference_runner& runner, const X&... x) {
  const rest_guard after{runner};
  return run_model<Traits>(runner.ready(core), x...);
}
/// Messages for operations that models with shared weights do not support.
template <fixed_string Name, fixed_string What, class...> struct shares_weights {
  static consteval text message() {
    text t;
    t << Name.view() << " cannot " << What.view()
      << ": it shares its weights with the others of its factory. Train, load or save a model, and hand its parameters "
         "to factory.update(...)";
    return t;
  }
};
}  // namespace detail

/// Declares unsupported members, so that a call gives a compile-time message with the reason.
template <fixed_string Name> struct sharing {
  static constexpr auto sharing_name = Name;
  /// Message of the layers' free functions.
  template <fixed_string, fixed_string What> using refused = detail::shares_weights<Name, What>;
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Name, "hand out its parameters", X...>>()>
  void parameters(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Name, "be changed", X...>>()>
  void core(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Name, "be trained", X...>>()>
  void backward(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Name, "be trained", X...>>()>
  void train(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Name, "be trained", X...>>()>
  void fit(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Name, "be changed", X...>>()>
  void add(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Name, "be changed", X...>>()>
  void update(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Name, "be saved", X...>>()>
  void save(X&&...) const {}
  template <class... X> requires accepted<diagnostic<detail::shares_weights<Name, "load parameters", X...>>()>
  void load(X&&...) const {}
};
/// A reference model or an origin, of a topology or of a program.
template <class R>
concept Sharing = requires { R::sharing_name; };

// ---- reference models -----------------------------------------------------------------------------------------------

/// A net for inference only, made by a `reference_factory`. It shares the factory's weights and their packed forms, and
/// owns its working memory and its random generator. Use one per thread.
export template <class Traits> class reference_model : public sharing<"a reference model"> {
 public:
  explicit reference_model(std::shared_ptr<const reference_core> core)
      : core_(std::move(core)), runner_(detail::shared_by(core_)) {}
  /// Runs inference like a model. The whole call uses the weights of the last `factory.update` before it.
  /// Errors: as a model; state_error for a moved-from reference model.
  template <class... X> requires accepted<diagnostic<detail::call_check<Traits, X...>>()>
  auto operator()(const X&... x) {
    return detail::run_reference<Traits>(detail::shared_by(core_), runner_, x...);
  }
  /// Working memory in bytes of a run for these input shapes: activations and scratch, from its plan. Builds the plan
  /// if needed, for all reference models of the factory, so that no run waits for it. 0 if a run consists of several
  /// plans.
  /// Errors: as a call.
  std::size_t planned(view<const shape> inputs) { return runner_.planned(detail::shared_by(core_), inputs); }
  std::size_t planned(std::initializer_list<shape> inputs) {
    return planned(view<const shape>(inputs.begin(), inputs.size()));
  }
  /// Read-only access to the core that the reference models of a factory share.
  const std::shared_ptr<const reference_core>& shared_part() const { return core_; }
  /// Bytes that this reference model owns.
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

/// Exclusive loan of a factory's origin, which owns the random generator that new reference models start from. Runs
/// like a reference model. When it is destroyed, reference models created later start from the generator state that its
/// runs left. Move-only.
export template <class Traits> class origin_model : public sharing<"the origin of a factory"> {
 public:
  explicit origin_model(borrowed_origin borrowed) : borrowed_(std::move(borrowed)) {}
  template <class... X> requires accepted<diagnostic<detail::call_check<Traits, X...>>()>
  auto operator()(const X&... x) {
    return detail::run_reference<Traits>(borrowed_.core(), borrowed_.runner(), x...);
  }

 private:
  borrowed_origin borrowed_;
};

/// Creates reference models; thread-safe. Factory, origin and reference models may be destroyed in any order. Their
/// plans are cached within the limits of the model's context. Errors, of all members but the constructors:
/// state_error for a moved-from factory.
export template <const auto& Topology, class... Rest> class reference_factory {
 public:
  using model_type = model<Topology, Rest...>;
  using traits = typename model_type::traits;

  /// From a copy of a model, which is unchanged.
  explicit reference_factory(const model_type& origin, reference_options o = {})
      : reference_factory(model_type(origin), std::move(o)) {}
  /// From a moved model; using it afterwards is a state_error.
  explicit reference_factory(model_type&& origin, reference_options o = {})
      : core_(std::make_shared<reference_core>(detail::source_of(std::move(origin.core())), std::move(o))) {}
  /// From saved parameters; generators start from `seed` of the options. Errors: file_error.
  static reference_factory from_file(const std::string& path, reference_options o = {}) {
    model_type net;
    load(net, path);
    return reference_factory(std::move(net), std::move(o));
  }
  reference_model<traits> create() const { return reference_model<traits>(core_); }

  /// Borrows the origin; waits while another `origin_model` of this factory exists.
  origin_model<traits> origin() const { return origin_model<traits>(borrowed_origin(core_, true)); }
  /// The same without waiting: empty while another `origin_model` exists.
  std::optional<origin_model<traits>> try_origin() const {
    borrowed_origin borrowed(core_, false);
    return borrowed ? std::optional<origin_model<traits>>(std::in_place, std::move(borrowed)) : std::nullopt;
  }

  /// Replaces the weights while reference models run: a running call finishes on the old weights, each later call uses
  /// only the new ones. The old weights are freed when the last model that read them moves on. Costs a copy and the
  /// packing.
  /// Errors: state_error, shape_error, type_error for missing or mismatched parameters; the old weights stay.
  void update(const parameter_store& now) const { detail::shared_by(core_).update(now); }
  void update(const model_type& now) const { update(now.parameters()); }
  /// The same from saved parameters. Errors: file_error; the old weights stay.
  void update_from_file(const std::string& path) const { detail::shared_by(core_).update_from_file(path); }

  /// Bytes of the weights that all reference models share.
  std::size_t shared_bytes() const { return detail::shared_by(core_).shared_bytes(); }
  /// Plan cache of all reference models, with its size and hit counts. Call its `limit` only while none of them runs.
  plan_cache& plans() const { return detail::shared_by(core_).plans(); }
  /// Transformations for inference, and the fused operations of the plans for these full input shapes.
  /// Errors: shape_error if they do not fit.
  reference_report report(std::initializer_list<shape> inputs) const {
    return detail::shared_by(core_).report({inputs.begin(), inputs.size()});
  }
  /// The same for the declared input shapes; a symbolic leading extent counts as 1.
  reference_report report() const { return detail::shared_by(core_).report(); }

 private:
  std::shared_ptr<reference_core> core_;
};

// ---- programs without a topology ------------------------------------------------------------------------------------

/// A reference model of a program whose types are known only at run time.
export class program_reference : public sharing<"a reference model"> {
 public:
  explicit program_reference(std::shared_ptr<const reference_core> core)
      : core_(std::move(core)), runner_(detail::shared_by(core_)) {}
  /// Takes inputs in the program's order; returns results in the order of its outputs. Errors: shape_error, type_error,
  /// value_error for a wrong number of inputs, state_error for a moved-from reference model.
  std::vector<any_tensor> operator()(view<const any_tensor> inputs) {
    return runner_.run(detail::shared_by(core_), inputs);
  }
  /// The same for inputs and results of any value type, not only tensors.
  template <ValueList R> std::vector<any_value> operator()(const R& inputs) {
    return runner_.run(detail::shared_by(core_), view<const any_value>(inputs));
  }
  /// As for a `reference_model`.
  std::size_t planned(view<const shape> inputs) { return runner_.planned(detail::shared_by(core_), inputs); }
  std::size_t planned(std::initializer_list<shape> inputs) {
    return planned(view<const shape>(inputs.begin(), inputs.size()));
  }
  std::size_t bytes() const { return detail::shared_by(core_), runner_.bytes(); }

 private:
  std::shared_ptr<const reference_core> core_;
  reference_runner runner_;
};

/// Counterpart of `origin_model` for a program factory.
class program_origin : public sharing<"the origin of a factory"> {
 public:
  explicit program_origin(borrowed_origin borrowed) : borrowed_(std::move(borrowed)) {}
  std::vector<any_tensor> operator()(view<const any_tensor> inputs) {
    return borrowed_.runner().run(borrowed_.core(), inputs);
  }
  template <ValueList R> std::vector<any_value> operator()(const R& inputs) {
    return borrowed_.runner().run(borrowed_.core(), view<const any_value>(inputs));
  }

 private:
  borrowed_origin borrowed_;
};

/// Creates reference models of a program and its states; counterpart of `reference_factory`.
export class program_factory {
 public:
  /// Copies `states`. Errors: value_error without a program; state_error, shape_error, type_error if a state that the
  /// program reads is missing or differs.
  program_factory(std::shared_ptr<const program> inference, const parameter_store& states, reference_options o = {},
                  const pass_options& passes = {});
  /// Moves `states`.
  program_factory(std::shared_ptr<const program> inference, parameter_store&& states, reference_options o = {},
                  const pass_options& passes = {});
  /// From saved parameters; generators start from `seed` of the options. Errors: file_error.
  static program_factory from_file(std::shared_ptr<const program> inference, const std::string& path,
                                   reference_options o = {}, const pass_options& passes = {});
  program_reference create() const { return program_reference(core_); }
  /// Borrows the origin, as for a `reference_factory`.
  program_origin origin() const { return program_origin(borrowed_origin(core_, true)); }
  std::optional<program_origin> try_origin() const {
    borrowed_origin borrowed(core_, false);
    return borrowed ? std::optional<program_origin>(std::in_place, std::move(borrowed)) : std::nullopt;
  }
  void update(const parameter_store& now) const { detail::shared_by(core_).update(now); }
  void update_from_file(const std::string& path) const { detail::shared_by(core_).update_from_file(path); }
  std::size_t shared_bytes() const { return detail::shared_by(core_).shared_bytes(); }
  /// Plan cache of all reference models, with its size and hit counts. Call its `limit` only while none of them runs.
  plan_cache& plans() const { return detail::shared_by(core_).plans(); }
  reference_report report(std::initializer_list<shape> inputs) const {
    return detail::shared_by(core_).report({inputs.begin(), inputs.size()});
  }
  reference_report report() const { return detail::shared_by(core_).report(); }

 private:
  std::shared_ptr<reference_core> core_;
};

/// Runs a program without inputs; adds its outputs to `to` as parameters that are not trainable.
void add_results(const program& values, parameter_store& from, isa set, parameter_store& to);

}  // namespace lamina
