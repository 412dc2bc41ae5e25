// Models: a topology with its parameters. The layers are traced once into a program; each input shape gets a plan.
export module lamina:model;
import :context;
import :core;
import :dtype;
import :emission;
import :execute;
import :expression;
import :io;
import :layer;
import :op;
import :passes;
import :parameter;
import :parameter.naming;
import :plan;
import :policy;
import :program;
export import :session;
import :shape;
import :tensor;
import :topology;
import :topology.analysis;
import :topology.check;
import :topology.policy_scope;
import lamina.std;

namespace lamina {

// ---- tracing --------------------------------------------------------------------------------------------------------

/// A state that a trace turns into an input of its program, for layers whose states are leaves of expressions.
struct traced_leaf {
  std::string path;
  tensor_type type;
  initializer how;
  state_role role = state_role::parameter;
  bool trainable = true;
  value at;
};
struct traced_leaves {
  std::vector<traced_leaf> all;                         // in the order of first use by the layers
  std::vector<std::pair<std::size_t, value>> assigned;  // new values of states, by index in `all`
};

/// Callbacks at the start and the end of each layer of a trace; calls nest as the layers do.
struct trace_listener {
  virtual void entered(view<const label> path, std::string_view kind, view<const label> inputs,
                       view<const label> outputs, view<const value> in) = 0;
  virtual void left(view<const value> out) = 0;

 protected:
  ~trace_listener() = default;
};

/// State that the nested scopes of one trace share.
struct trace_walk {
  program& into;
  parameter_store& store;
  std::int64_t seed = 0;
  dtype element = dtype::float32;
  bool training = false;
  bool random = false;  // whether a layer requested the generator
  bool (*trainable)(view<const label> path) = nullptr;
  traced_leaves* leaves = nullptr;  // if set, states become inputs and the store is unused
  const name_map* names = nullptr;  // renames states that are shared under another name
  // In the body of a scan: the enclosing walk, and the enclosing values that the body reads, paired with its inputs.
  trace_walk* outer = nullptr;
  std::vector<std::pair<value, value>> captured{};
  trace_listener* listener = nullptr;
  std::vector<std::string> requested{};  // paths of requested states; recorded only if `names` is set
};

/// Scope that runs layers on values of a program. Parameters are states, found by path.
class trace_scope {
 public:
  explicit trace_scope(trace_walk& walk) : walk_(&walk) {}
  trace_scope nested(const label& name) const;

  value parameter(std::string_view name, const shape& dims, const initializer& how) const;
  value state(std::string_view name, const shape& dims, double initial) const;
  /// A constant tensor, not a parameter: never initialized, saved or updated.
  value constant(const shape& dims, double v) const;
  void assign(const value& state, const value& v) const;
  bool training() const { return walk_->training; }
  value random_state() const;
  std::int64_t next_site() const { return walk_->into.next_site(); }
  template <Layer L, std::same_as<value>... V>
  auto operator()(std::string_view name, const L& layer, const V&... in) const {
    return call(nested(label(name)), layer, in...);
  }
  template <class Inner, Layer L, std::same_as<value>... V>
  auto call(Inner inner, const L& layer, const V&... in) const {
    const value inputs[] = {in..., value()};
    std::array<value, detail::output_count<L>()> out;
    auto path = walk_->into.path;
    detail::run_layer(inner, layer, view<const value>(inputs, sizeof...(V)), view<value>(out));
    walk_->into.path = std::move(path);  // restore the path for the caller's own operations
    if constexpr (detail::output_count<L>() == 1) return out[0];
    else return out;
  }
  /// Scans the first axis of sequences of equal length. `body(scope, carries, slices, results)` is traced once; it sets
  /// `results` to the next carries, then the outputs of the iteration. The scan's `results` are the final carries, then
  /// the outputs stacked along a new first axis. `Self` is the scope type that the body sees: this class or a wrapper.
  template <class Self, class F> void scan(const Self&, view<const value> carries, view<const value> sequences,
                                           view<value> results, F body, bool reverse) const {
    auto iteration = std::make_shared<program>();
    trace_walk inner = iteration_walk(*iteration);
    std::vector<value> first = iteration_inputs(*iteration, carries, false),
                       slices = iteration_inputs(*iteration, sequences, true), made(results.size());
    trace_scope base = *this;
    base.walk_ = &inner;
    Self scope(base);
    body(scope, view<const value>(first), view<const value>(slices), view<value>(made));
    finish_scan(std::move(iteration), inner, carries, sequences, made, results, reverse);
  }
  /// Inside a scan body: imports a value of the enclosing program as a loop invariant.
  value outside(const value& v) const;
  /// Called before each layer. Later errors begin with the layer's path.
  template <Layer L> bool enter(const L& layer, view<const value> in) const {
    enter({detail::layer_kind(layer), detail::layer_inputs(layer), detail::layer_outputs(layer), &layer,
           [](const void* l, view<const tensor_type> types, text& why) {
             detail::check_layer(*static_cast<const L*>(l), types, why);
           }},
          in);
    return true;
  }
  void leave(view<const value> out) const {
    if (walk_->listener) walk_->listener->left(out);
  }
  bool failed() const { return false; }
  /// Raises an error that begins with the layer's path. Errors: shape_error.
  [[noreturn]] void refuse(std::string_view why) const;
  /// Calls f with the path of this layer as labels.
  template <class F> auto with_path(F&& f) const { return f(view<const label>(path_)); }

 private:
  // Type-erased layer for the non-template part of a trace.
  struct entered_layer {
    std::string_view kind;
    view<const label> inputs, outputs;
    const void* layer;
    void (*check)(const void* layer, view<const tensor_type> types, text& why);
  };
  void enter(const entered_layer& l, view<const value> in) const;
  std::string full(std::string_view name) const;
  value leaf(const std::string& path, const tensor_type& type, const initializer& how, state_role role,
             bool trainable) const;
  bool is_trainable(std::string_view name) const;
  std::string renamed(const std::string& path) const;
  std::string where(std::string_view kind) const;
  trace_walk iteration_walk(program& body) const;
  static std::vector<value> iteration_inputs(program& body, view<const value> outer, bool sliced);
  void finish_scan(std::shared_ptr<program> body, const trace_walk& inner, view<const value> carries,
                   view<const value> sequences, view<const value> made, view<value> results, bool reverse) const;
  trace_scope around() const;
  trace_walk* walk_;
  std::vector<label> path_;
};

/// Name of the random generator's state.
inline constexpr std::string_view generator_name = "generator";

// ---- non-template part of a model -----------------------------------------------------------------------------------

/// Name and type of an input or output of a net; the shape may have symbolic extents.
export struct named_type {
  std::string name;
  tensor_type type;
};
/// Low-rank adapter of a weight: the model computes with weight + scale * b a, where the factors b [out, rank] and
/// a [rank, in] are parameters. `transposed`: the weight is [in, out].
struct weight_adapter {
  std::string weight;
  std::int64_t rank = 0;
  double scale = 0;
  bool transposed = false;
  std::string a() const { return weight + ".lora_a"; }
  std::string b() const { return weight + ".lora_b"; }
};
/// Run-time description of a model type.
struct model_definition {
  std::vector<named_type> inputs;
  std::vector<named_type> outputs;
  dtype element = dtype::float32;
  void (*trace)(trace_scope& scope, view<const value> in, view<value> out) = nullptr;
  bool (*trainable)(view<const label> path) = nullptr;
  name_map names{};                     // renames parameters that are shared under another name
  std::shared_ptr<const program> of{};  // the program of a net without layers; replaces `trace`
  std::vector<weight_adapter> adapters{};
};

/// Options for constructing and running a model.
export struct model_options {
  std::int64_t seed = 0;  // of the initial parameters and of random layers
  int threads = 1;        // that compute a run; 0: one per core
  pass_options passes{};  // optimizations of plans
  /// Context shared by several models: threads or a scheduler, and the plan cache. If set, `threads` is ignored.
  std::shared_ptr<context> where{};
  /// Replaces names of parameters by those of other ones. The layers then share a parameter (weight tying), whose
  /// gradient is the sum over its uses.
  name_map tie{};
};

/// Traces a definition into a program that has the definition's inputs. Returns the outputs; they are not roots yet.
std::vector<value> trace(const model_definition& d, program& into, parameter_store& store, std::int64_t seed,
                         bool training, view<const value> inputs);

/// Raises the error that names the layer, for input shapes that do not fit a program traced from a definition.
void explain_mismatch(const model_definition& d, view<const shape> inputs);

/// Options for loading states. By default the file must contain exactly the states of the model, with equal shapes and
/// types.
export struct load_options {
  /// Renames states of the file by pattern: `{"encoder.*", "backbone.*"}`. The first matching pattern applies.
  std::vector<name_pattern> renames{};
  bool allow_missing = false;     ///< states of the model that are not in the file keep their values
  bool allow_unexpected = false;  ///< states of the file that are not in the model are ignored
  bool allow_mismatched = false;  ///< states whose shape or element type differs keep their values
};
/// Result of matching a file with a model, by the model's names.
export struct load_report {
  struct mismatch {
    std::string name;
    tensor_type in_file, in_model;
  };
  std::vector<std::string> loaded, missing, unexpected;
  std::vector<mismatch> mismatched;
  /// One line for each state that was not loaded.
  std::string print() const;
};

/// Loads parameters and running statistics from a file; changes nothing on failure. Ignores PyTorch's
/// `num_batches_tracked` beside running statistics.
/// Errors: file_error with file, parameter, expectation and the number of further mismatches; value_error for a pattern
/// that matches no state of the file.
load_report load_parameters(parameter_store& store, const std::string& path, const load_options& options = {});
/// Reports what `load_parameters` would load and reject. Errors: file_error for an unreadable file; value_error as
/// there.
load_report compare_parameters(const parameter_store& store, const std::string& path, const load_options& options = {});

/// Parameters, programs and plans of a model, without static types: the core of a `model`, or a net read from a file.
export class model_core {
 public:
  model_core(model_definition d, const model_options& o)
      : model_core(std::move(d), o, std::make_unique<parameter_store>()) {}
  /// Uses existing parameters and creates the missing ones.
  model_core(model_definition d, const model_options& o, std::unique_ptr<parameter_store> parameters);
  model_core(const model_core& o);
  model_core(model_core&&) noexcept;
  model_core& operator=(const model_core& o) { return *this = model_core(o); }
  model_core& operator=(model_core&&) noexcept;
  ~model_core();

  const model_definition& definition() const { return *definition_; }
  const model_options& options() const { return options_; }
  /// Errors, also of `at`: state_error for a moved-from model.
  parameter_store& parameters() { return here(), *store_; }
  const parameter_store& parameters() const { return here(), *store_; }
  /// The inference program.
  const program& inference() const { return here(), *inference_; }
  std::shared_ptr<const program> inference_program() const { return inference_; }
  std::shared_ptr<context> where() const { return where_; }
  void threads(int n);
  /// The session that runs inference.
  session& runs() { return here(), session_; }
  executor& at(view<const shape> inputs) { return runs().at(inputs); }
  /// Session for another program traced from the same definition, on the same parameters; errors name layers.
  session session_of(std::shared_ptr<const program> p, std::shared_ptr<context> where) const;
  /// Errors: as `at`.
  std::shared_ptr<const plan> plan_for(view<const shape> inputs) const;
  std::string explain(view<const shape> inputs) const;
  /// Replaces the adapters, and the parameters including the adapters' factors; traces the programs again.
  void adapt(std::vector<weight_adapter> adapters, parameter_store parameters);
  /// Moves the parameters out; the model is then in the moved-from state.
  std::unique_ptr<parameter_store> take_parameters();

  /// Loads parameters and running statistics, like `load` of a model. Errors: as `load_parameters`.
  friend load_report load(model_core& net, const std::string& path, const load_options& options = {}) {
    return load_parameters(net.parameters(), path, options);
  }

 private:
  inline void here() const {
    if (!store_) [[unlikely]]
      given_away();
  }
  [[noreturn]] static void given_away();
  std::shared_ptr<const model_definition> definition_;
  model_options options_;
  std::unique_ptr<parameter_store> store_;
  std::shared_ptr<context> where_;
  std::shared_ptr<const program> inference_;
  session session_;
};

/// Writes parameters and running statistics as safetensors, atomically. Errors: file_error.
void save_parameters(const parameter_store& store, const std::string& path,
                     const std::map<std::string, std::string>& metadata = {});
// ---- the model ------------------------------------------------------------------------------------------------------

// Matches by partial specialization: from another module, Clang 22 does not find a member template of a set of several
// policies.
template <class T> inline constexpr bool is_policy_set = false;
template <auto... P> inline constexpr bool is_policy_set<policy_set<P...>> = true;

// Splits the arguments of a model into inputs and an optional policy set, which comes last.
template <class... Rest> struct model_arguments;
template <class Inputs, class... Rest> struct model_arguments_from;
template <class... In> struct input_list {};
template <class... In> struct model_arguments_from<input_list<In...>> {
  using inputs = input_list<In...>;
  using policy_set = policies<>;
};
template <class... In, class P> requires is_policy_set<P> struct model_arguments_from<input_list<In...>, P> {
  using inputs = input_list<In...>;
  using policy_set = P;
};
template <class... In, class Next, class... Rest> requires(!is_policy_set<Next>)
struct model_arguments_from<input_list<In...>, Next, Rest...> : model_arguments_from<input_list<In..., Next>, Rest...> {
};
template <class... Rest> struct model_arguments : model_arguments_from<input_list<>, Rest...> {};

template <class P> using element_of_policies = typename decltype(P::template get<element_kind>())::type;

template <const auto& Topology, class Inputs, class P> struct model_traits;
template <const auto& Topology, class... In, class P> struct model_traits<Topology, input_list<In...>, P> {
  static constexpr dtype element = dtype_of<element_of_policies<P>>;
  using element_type = element_of_policies<P>;
  static constexpr std::size_t inputs = sizeof...(In);
  static constexpr auto outputs = outputs_with_policies<Topology, element, P, In...>;
  static constexpr shape patterns[sizeof...(In)] = {In::pattern...};
  static constexpr dtype elements[sizeof...(In)] = {(In::has_element ? dtype_of<typename In::element> : element)...};

  static void trace(trace_scope& plain, view<const value> in, view<value> out) {
    scope_with_policies<trace_scope, P> scope(plain);
    value ordered[sizeof...(In) + 1];
    constexpr auto port_of = input_ports<Topology, In...>;
    for (std::size_t i = 0; i < sizeof...(In); ++i) ordered[port_of[i]] = in[i];
    detail::run_layer(scope, Topology, view<const value>(ordered, sizeof...(In)), out);
  }
  static bool trainable(view<const label> path) { return P::template value_at<lamina::trainable>(path); }
  static model_definition definition() {
    model_definition d;
    auto ports = detail::layer_inputs(Topology);
    std::size_t i = 0;
    constexpr auto port_of = input_ports<Topology, In...>;
    (d.inputs.push_back({ports[static_cast<std::size_t>(port_of[i++])].string(),
                         {In::has_element ? dtype_of<typename In::element> : element, In::pattern}}),
     ...);
    auto names = detail::layer_outputs(Topology);
    for (std::size_t o = 0; o < outputs.size(); ++o) d.outputs.push_back({names[o].string(), outputs[o]});
    d.element = element;
    d.trace = &trace;
    d.trainable = &trainable;
    return d;
  }
};

// Outcome of a compile-time check, evaluated once: true_type if its message is empty, false_type if not, void if the
// check is not a constant expression.
template <class Check, bool Empty = Check::message().empty()> std::bool_constant<Empty> outcome_of(int);
template <class Check> void outcome_of(...);
template <class Check> struct check_outcome {
  using type = decltype(outcome_of<Check>(0));
};
// Runs one layer on operands of unknown shape. The preset mismatch message suppresses further shape errors.
template <const auto& Topology, std::size_t At> constexpr bool runs_alone() {
  const auto& layer = Topology.layers.template get<At>();
  using layer_type = std::remove_cvref_t<decltype(layer)>;
  if constexpr (!HasForwardPorts<layer_type>) {
    text why("not asked");
    type_walk walk{&why};
    type_scope scope(walk, dtype::float32);
    const traced x({dtype::float32, {}}, &why);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (void)layer.forward(scope, (static_cast<void>(I), x)...);
    }(std::make_index_sequence<detail::input_count<layer_type>()>());
  }
  return true;
}
template <const auto& Topology, std::size_t At>
concept RunsAlone = requires { typename std::bool_constant<runs_alone<Topology, At>()>; };
/// Message for a net whose shapes the compiler cannot evaluate: names the first sublayer that is not constexpr, if any.
template <const auto& Topology> consteval text not_constant() {
  text t;
  if constexpr (is_topology<std::remove_cvref_t<decltype(Topology)>>) {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      auto check_one = [&]<std::size_t At>(std::integral_constant<std::size_t, At>) {
        if (t.empty() && !RunsAlone<Topology, At>)
          t << "sublayer `" << Topology.names[At] << "` (" << detail::layer_kind(Topology.layers.template get<At>())
            << "): its member `forward` is";
      };
      (check_one(std::integral_constant<std::size_t, I>{}), ...);
    }(std::make_index_sequence<Topology.names.size()>());
  }
  if (t.empty()) t << "the member `forward` of a layer is";
  t << " not constexpr or calls non-constexpr code, so the compiler cannot compute shapes";
  return t;
}

/// Checks the arguments of a model after its topology: inputs, then at most one policy set, whose element type must be
/// float or double.
template <const auto& Topology, class... Rest> struct model_arguments_check {
  static consteval text message() {
    text t;
    std::size_t inputs = 0, sets = 0, at = 1;
    (check_argument<Rest>(t, inputs, sets, at++), ...);
    if (t.empty() && inputs == 0) {
      t << "the model has no input; write one for each input port after the topology, as in input<dyn, 4>; its input "
           "ports are";
      if constexpr (ValidTopology<Topology>) list_names(t, detail::layer_inputs(Topology));
    }
    return t;
  }

 private:
  template <class Next>
  static consteval void check_argument(text& t, std::size_t& inputs, std::size_t& sets, std::size_t at) {
    if (!t.empty()) return;
    if constexpr (is_policy_set<Next>) {
      if (sets++) t << "the policies of the model are given twice; write them in one policies<...>";
      else if constexpr (!is_real(dtype_of<element_of_policies<Next>>))
        t << "policy `element`: a model computes in float or double, not in " << dtype_of<element_of_policies<Next>>;
    } else if constexpr (ModelInput<Next>) {
      if (sets) t << "argument " << at << " of model<...> is an input after the policies; policies come last";
      ++inputs;
    } else {
      t << "argument " << at << " of model<...> is `" << type_name<Next>() << "`; it takes inputs, then policies<...>";
    }
  }
};
template <const auto& Topology, class... Rest> using traits_of =
    model_traits<Topology, typename model_arguments<Rest...>::inputs, typename model_arguments<Rest...>::policy_set>;
// The shape check without the traits, which cannot be instantiated if the layers are not constexpr.
template <const auto& Topology, class Inputs, class P> struct shape_message_from;
template <const auto& Topology, class... In, class P> struct shape_message_from<Topology, input_list<In...>, P> {
  using type = shape_check_with_policies<Topology, dtype_of<element_of_policies<P>>, P, In...>;
};
template <const auto& Topology, class... Rest> using shape_message_of =
    typename shape_message_from<Topology, typename model_arguments<Rest...>::inputs,
                                typename model_arguments<Rest...>::policy_set>::type;
template <const auto& Topology, class... Rest> using shape_outcome =
    typename check_outcome<shape_message_of<Topology, Rest...>>::type;
/// Checks that the compiler can evaluate the layers.
template <const auto& Topology, class... Rest> struct model_constant_check {
  static consteval text message() {
    if constexpr (ValidTopology<Topology>) {
      if constexpr (std::is_void_v<shape_outcome<Topology, Rest...>>) return not_constant<Topology>();
    }
    return {};
  }
};

template <const auto& Topology, class... Rest> struct model_shape_check {
  static consteval text message() {
    if constexpr (ValidTopology<Topology>) {
      if constexpr (std::same_as<shape_outcome<Topology, Rest...>, std::false_type>)
        return shape_message_of<Topology, Rest...>::message();
    }
    return {};
  }
};
template <const auto& Topology, class... Rest> using model_policies_check =
    sub_policies_check<Topology, typename model_arguments<Rest...>::policy_set>;

namespace detail {
/// Shape of an operand as seen by an input's pattern: prepends 1 if the leading dimension is missing.
inline shape call_extents(const shape& pattern, const shape& given) {
  if (given.rank + 1 != pattern.rank) return given;
  shape s{1};
  for (int i = 0; i < given.rank; ++i) s.push_back(given[i]);
  return s;
}
/// Shape of one row: the shape without its first axis.
constexpr shape without_leading(const shape& s) {
  shape inner;
  for (int i = 1; i < s.rank; ++i) inner.push_back(s[i]);
  return inner;
}
constexpr bool call_fits(const shape& pattern, const shape& given) {
  if (given.rank == pattern.rank) return fits(pattern, given);
  if (given.rank + 1 != pattern.rank || pattern.rank == 0 || pattern[0].is_number()) return false;
  for (int i = 0; i < given.rank; ++i)
    if (!may_equal(pattern[i + 1], given[i])) return false;
  return true;
}
/// An operand with elements in memory; expressions do not match, they must be evaluated first.
template <class X>
concept InMemory = requires(const X& x) {
  typename X::element_type;
  x.data().data();
};
/// Message for the first operand that is not in memory, such as `input 0 is an expression`.
template <class... X> consteval text memory_mismatch(std::string_view what, std::string_view call) {
  text t;
  std::size_t at = 0;
  auto check_one = [&]<class Y>(std::type_identity<Y>) {
    if constexpr (!InMemory<Y>) {
      if (t.empty()) {
        t << what << at;
        if constexpr (Symbolic<Y>)
          t << " is an expression, which is not computed yet: evaluate it first, as in " << call << "(evaluate(x))";
        else t << " is `" << type_name<Y>() << "`; a tensor is expected";
      }
    }
    ++at;
  };
  (check_one(std::type_identity<X>{}), ...);
  return t;
}
template <class Traits, class... X> struct call_check {
  static consteval text message() {
    if constexpr (!(InMemory<X> && ...)) return memory_mismatch<X...>("input ", "net");
    else return of_tensors();
  }

 private:
  static consteval text of_tensors() {
    const tensor_type given[] = {{dtype_of<typename X::element_type>, X::pattern}..., {}};
    text t;
    if (sizeof...(X) != Traits::inputs) {
      t << "the model has " << Traits::inputs << (Traits::inputs == 1 ? " input" : " inputs") << "; got "
        << sizeof...(X);
      return t;
    }
    for (std::size_t i = 0; i < sizeof...(X) && t.empty(); ++i) {
      const tensor_type expected{Traits::elements[i], Traits::patterns[i]};
      if (expected.element != given[i].element)
        t << "input " << i << " of the model is " << expected << "; got " << given[i];
      else if (!call_fits(expected.dims, given[i].dims))
        t << "input " << i << " of the model is " << expected.dims << "; got " << given[i].dims;
    }
    if (t.empty()) check_dimension_names(t, view<const tensor_type>(given, sizeof...(X)));
    return t;
  }

 private:
  static consteval void check_dimension_names(text& t, view<const tensor_type> given) {
    shape patterns[sizeof...(X) + 1], extents[sizeof...(X) + 1];
    for (std::size_t i = 0; i < sizeof...(X); ++i) {
      extents[i] = given[i].dims;
      patterns[i] =
          Traits::patterns[i].rank == extents[i].rank ? Traits::patterns[i] : without_leading(Traits::patterns[i]);
    }
    if (const auto clash = clash_of_names({patterns, sizeof...(X)}, {extents, sizeof...(X)}))
      t << "dimension `" << clash.name << "` of the inputs of the model is both " << clash.first << " and "
        << clash.second;
  }
};

/// Whether a call omits the leading dimension; its results then omit it too.
template <class Traits, class First> inline constexpr bool leaves_out_leading =
    First::pattern.rank != Traits::patterns[0].rank;
/// Raises the error for a call that omits the leading dimension while an output's leading extent is data-dependent.
[[noreturn]] void leading_is_counted(std::size_t output, const shape& s);
template <class Traits, class First, std::size_t Output> consteval shape call_result() {
  const shape& s = Traits::outputs[Output].dims;
  return leaves_out_leading<Traits, First> ? without_leading(s) : s;
}

/// Runs a session on typed tensors, for models and reference models. Several outputs are returned as `results`.
template <class Traits, class First, class... X> auto run_model(session& net, const First& first, const X&... x) {
  constexpr std::size_t count = 1 + sizeof...(X);
  std::size_t i = 0;
  const shape extents[] = {call_extents(Traits::patterns[0], first.shape()),
                           (++i, call_extents(Traits::patterns[i], x.shape()))...};
  const void* const inputs[] = {first.data().data(), x.data().data()...};
  struct {
    storage memory;
    shape dims;
  } made[Traits::outputs.size()];
  net.run(view<const shape>(extents, count), view<const void* const>(inputs, count),
          [&made](std::size_t o, const tensor_type& type) -> void* {
            made[o] = {storage(type.bytes()), type.dims};
            return made[o].memory.data();
          });
  auto output = [&]<std::size_t O>(std::integral_constant<std::size_t, O>) {
    shape& s = made[O].dims;
    if constexpr (leaves_out_leading<Traits, First>) {
      if (s[0] != dim(1)) leading_is_counted(O, s);
      s = without_leading(s);
    }
    return tensor<element_of<Traits::outputs[O].element>, extents_for<call_result<Traits, First, O>()>>(
        std::move(made[O].memory), s);
  };
  if constexpr (Traits::outputs.size() == 1) return output(std::integral_constant<std::size_t, 0>{});
  else
    return [&]<std::size_t... O>(std::index_sequence<O...>) {
      return results<decltype(output(std::integral_constant<std::size_t, O>{}))...>{
          output(std::integral_constant<std::size_t, O>{})...};
    }(std::make_index_sequence<Traits::outputs.size()>{});
}
/// Message of the layers' free functions when called on a model.
template <fixed_string Function> struct no_layer {
  static consteval text message() {
    text t;
    t << Function.view()
      << " takes a layer; got a model: use save(model, path), load(model, path) and model.parameters()";
    return t;
  }
};
}  // namespace detail

/// A net with parameters: `model<lenet, input<"N", 1, 28, 28>> net({.seed = 42}); auto logits = net(images);`.
/// Arguments: a `constexpr` topology; an `input` for each of its input ports, in order, with its extents: numbers, or
/// names or `dyn` if open until run time; then, optionally, policies:
/// `model<lenet, input<"N", 1, 28, 28>, policies<element<double>, sub<"fc1">(trainable(false))>>`.
/// Shapes are checked through the whole net at compile time. Only one thread at a time may use a model; for several
/// threads, make a `reference_factory` of it.
export template <const auto& Topology, class... Rest>
requires no_error<structure_check<Topology>> && no_error<model_arguments_check<Topology, Rest...>> &&
         no_error<model_policies_check<Topology, Rest...>> && no_error<model_constant_check<Topology, Rest...>> &&
         no_error<model_shape_check<Topology, Rest...>> class model {
 public:
  using traits = traits_of<Topology, Rest...>;
  using element_type = typename traits::element_type;

  /// Message of the layers' free functions.
  template <fixed_string Function, fixed_string> using refused = detail::no_layer<Function>;

  explicit model(const model_options& o = {}) : core_(traits::definition(), o) {}

  /// Runs inference on one tensor per input. Returns the output tensor, or `results` if there are several outputs. An
  /// omitted leading dimension counts as 1 and is omitted from the result.
  /// Errors: shape_error for shapes that do not fit.
  template <class... X> requires accepted<diagnostic<detail::call_check<traits, X...>>()>
  auto operator()(const X&... x) {
    return detail::run_model<traits>(core_.runs(), x...);
  }
  /// Runs inference from `in` into the memory of `out`, without allocating a result. For models with one input and one
  /// output; both tensors have the leading dimension.
  /// Errors: shape_error; state_error if `out` shares its memory.
  template <detail::InMemory X, detail::InMemory Y>
  requires(traits::inputs == 1 && traits::outputs.size() == 1 &&
           dtype_of<typename X::element_type> == traits::elements[0] &&
           dtype_of<typename Y::element_type> == traits::outputs[0].element)
  void run(const X& in, Y& out) {
    const shape s[] = {in.shape()};
    executor& e = core_.at(view<const shape>(s, 1));
    if (out.shape() != e.plan().output_types()[0].dims) {
      text t;
      t << "run: the result is " << e.plan().output_types()[0].dims << " and the tensor " << out.shape();
      detail::raise(error_kind::shape, t);
    }
    e.bind_input(0, in.data().data());
    e.bind_output(0, out.writable().data());
    e.run();
  }
  /// Parameters, running statistics and the random generator's state, by name: `fc1.weight`.
  parameter_store& parameters() { return core_.parameters(); }
  const parameter_store& parameters() const { return core_.parameters(); }
  /// The model without its static types.
  model_core& core() { return core_; }
  const model_core& core() const { return core_; }
  /// Describes a run for these input shapes: operations, layouts, flops, bytes, memory.
  std::string explain(std::initializer_list<shape> inputs) const {
    return core_.explain({inputs.begin(), inputs.size()});
  }

 private:
  model_core core_;
};

template <class M> inline constexpr bool is_model = false;
template <const auto& Topology, class... Rest> inline constexpr bool is_model<model<Topology, Rest...>> = true;

/// Saves a model's parameters and running statistics as safetensors. Errors: file_error.
export template <const auto& Topology, class... Rest>
void save(const model<Topology, Rest...>& net, const std::string& path) {
  save_parameters(net.parameters(), path);
}
/// Loads a model's parameters and running statistics. By default the file must contain exactly these states; options
/// relax that. `load(net, "encoder.safetensors", {.renames = {{"encoder.*", "backbone.*"}}, .allow_missing = true})`
/// returns what was loaded and what was not. Changes nothing on failure. Errors: as `load_parameters`.
export template <const auto& Topology, class... Rest>
load_report load(model<Topology, Rest...>& net, const std::string& path, const load_options& options = {}) {
  return load_parameters(net.parameters(), path, options);
}
/// Reports what `load` would load and reject, without changing anything. Errors: file_error for an unreadable file.
export template <const auto& Topology, class... Rest> load_report compare_states(const model<Topology, Rest...>& net,
                                                                                 const std::string& path,
                                                                                 const load_options& options = {}) {
  return compare_parameters(net.parameters(), path, options);
}
export inline load_report compare_states(const model_core& net, const std::string& path,
                                         const load_options& options = {}) {
  return compare_parameters(net.parameters(), path, options);
}

}  // namespace lamina
