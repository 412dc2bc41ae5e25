// The layer protocol: a layer or topology with named ports. A training layer has a forward and a backward pass
// that only build expressions; an inference layer has only a forward pass and stores only its parameters.
export module lamina:protocol;
import :core;
import :dtype;
import :expression;
import :expression.data;
import :expression.dynamic;
import :layer;
import :model;
import :op;
import :parameter;
import :parameter.naming;
import :policy;
import :program;
import :protocol.call;
import :protocol.collector;
import :protocol.core;
import :shape;
import :tensor;
import :topology;
import :topology.analysis;
import :topology.check;
import :topology.policy_scope;
import lamina.std;

namespace lamina {

// ---- layers and ports as types --------------------------------------------------------------------------------------

/// Type for a constant layer object, for topologies and layers with options: `train_layer<constant_layer<lenet>, ...>`.
/// For a layer without options, use its type directly: `train_layer<nn::add, ...>`.
export template <const auto& Value> struct constant_layer {};

/// An input port of a training layer, with the type of its operands.
export template <fixed_string Name, class T> requires requires { typename T::element_type; } struct port {
  static constexpr auto name = Name;
  using type = T;
  static constexpr tensor_type is{dtype_of<typename T::element_type>, pattern_of<T>};
};
/// The input ports of a training layer: `inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>`.
export template <class... Port> struct inputs {};

namespace detail {

template <class Port> inline constexpr bool is_port = false;
template <fixed_string Name, class T> inline constexpr bool is_port<port<Name, T>> = true;

template <class L> struct chosen_layer {
  using type = L;
  static constexpr L value{};
  static consteval text policies_message(auto) { return {}; }
};
template <const auto& Value> struct chosen_layer<constant_layer<Value>> {
  using type = std::remove_cvref_t<decltype(Value)>;
  static constexpr const type& value = Value;
  template <class P> static consteval text policies_message(P) {
    text t = structure_check<Value>::message();
    return t.empty() ? sub_policies_check<Value, P>::message() : t;
  }
};
/// Checks that a type is a layer or a `constant_layer`.
template <class L> struct chosen_check {
  static consteval text message() {
    using type = typename chosen_layer<L>::type;
    text t;
    if constexpr (!Layer<type>) t << "the layer type is `" << type_name<type>() << "`" << no_layer_because<type>();
    else if constexpr (!std::is_default_constructible_v<L>)
      t << "`" << type_name<type>() << "` cannot be default-constructed; pass a constant, as in constant_layer<name>";
    return t;
  }
};
template <class L> inline constexpr const auto& layer_value = chosen_layer<L>::value;
template <class L> inline constexpr std::size_t input_ports_of = layer_inputs(layer_value<L>).size();
template <class L> inline constexpr std::size_t output_ports_of = layer_outputs(layer_value<L>).size();

/// Converts a label to a string usable as the name of a dict entry.
template <label L> consteval auto name_from() {
  constexpr auto at = [](std::size_t i) { return static_cast<char>(L.words[i / 8] >> (56 - 8 * (i % 8)) & 255); };
  constexpr std::size_t n = [at] {
    std::size_t k = 0;
    while (k < label::limit && at(k)) ++k;
    return k;
  }();
  fixed_string<n + 1> s;
  for (std::size_t i = 0; i < n; ++i) s.chars[i] = at(i);
  s.chars[n] = '\0';
  return s;
}
template <class L, std::size_t I> inline constexpr auto input_name = name_from<layer_inputs(layer_value<L>)[I]>();
template <class L, std::size_t I> inline constexpr auto output_name = name_from<layer_outputs(layer_value<L>)[I]>();

// ---- a layer over types ---------------------------------------------------------------------------------------------

template <class P> using parameter_element = typename decltype(P::template get<element_kind>())::type;

/// Infers types through a layer: at compile time with the static extents, at run time with all of them.
template <class L, class P> constexpr void run_types(bool training, view<const tensor_type> in, view<tensor_type> out,
                                                     text& why, state_listener* listener = nullptr) {
  work_array<traced> from(in.size()), to(out.size());
  for (std::size_t i = 0; i < in.size(); ++i) from[i] = traced(in[i], &why);
  type_walk walk{.why = &why, .listener = listener};
  const type_scope plain(walk, dtype_of<parameter_element<P>>, training);
  scope_with_policies<type_scope, P> scope(plain);
  run_layer(scope, layer_value<L>, view<const traced>(from.data, from.size), to.all());
  if (why.empty())
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = to[i].type;
}
template <class L, class P, bool Training, class... Types> struct typed_run {
  static constexpr std::array<tensor_type, sizeof...(Types)> in{Types::is...};
  static consteval text message() {
    text why;
    std::array<tensor_type, output_ports_of<L>> types{};
    run_types<L, P>(Training, in, view<tensor_type>(types), why);
    check_policy_names<P>(why, [&](text& w, bool training, state_listener* to) {
      run_types<L, P>(training, in, view<tensor_type>(types), w, to);
    });
    return why;
  }
  static constexpr auto out = [] {
    text why;
    std::array<tensor_type, output_ports_of<L>> types{};
    run_types<L, P>(Training, in, view<tensor_type>(types), why);
    return types;
  }();
};

/// Counts the states of a layer and those that are trained.
template <class P> struct state_count final : state_listener {
  int all = 0, trained = 0;
  constexpr void on_state(view<const label> path, std::string_view name, const tensor_type&, const initializer&,
                          state_role role) override {
    ++all;
    if (role != state_role::parameter) return;
    work_array<label> full(path.size() + 1);
    for (std::size_t i = 0; i < path.size(); ++i) full[i] = path[i];
    full[path.size()] = label(name);
    trained += P::template value_at<trainable>(view<const label>(full.data, full.size));
  }
};

/// Scope for a walk with unknown inputs and without shape checks, which only finds the states of a layer.
class probe_scope : public type_scope {
 public:
  using type_scope::type_scope;
  explicit constexpr probe_scope(const type_scope& s) : type_scope(s) {}
  constexpr probe_scope nested(const label& name) const { return probe_scope(type_scope::nested(name)); }
  template <Layer L, std::same_as<traced>... V>
  constexpr auto operator()(std::string_view name, const L& layer, const V&... in) const {
    return call(nested(label(name)), layer, in...);
  }
  template <class Inner, Layer L, std::same_as<traced>... V>
  constexpr auto call(Inner inner, const L& layer, const V&... in) const {
    const traced given[] = {in..., traced{}};
    std::array<traced, output_count<L>()> out;
    for (auto& o : out) o = made(dtype::float32, {});
    run_layer(inner, layer, view<const traced>(given, sizeof...(V)), view<traced>(out));
    if constexpr (output_count<L>() == 1) return out[0];
    else return out;
  }
  template <class Self, class F> constexpr void scan(const Self& self, view<const traced> carries,
                                                     view<const traced> sequences, view<traced> results, F body,
                                                     bool /*reverse*/) const {
    for (auto& r : results) r = made(dtype::float32, {});
    Self scope(self);
    body(scope, carries, sequences, results);
  }
  template <Layer L> constexpr bool enter(const L&, view<const traced>) const { return true; }
  constexpr bool failed() const { return false; }
};
template <class L, class P> constexpr void probe(state_listener& listener) {
  text why("not asked");
  type_walk walk{.why = &why, .listener = &listener};
  const probe_scope plain(walk, dtype_of<parameter_element<P>>);
  scope_with_policies<probe_scope, P> scope(plain);
  work_array<traced> in(input_ports_of<L>), out(output_ports_of<L>);
  for (auto& v : in.all()) v = traced({dtype_of<parameter_element<P>>, {dyn, dyn, dyn, dyn}}, &why);
  for (auto& v : out.all()) v = traced({dtype_of<parameter_element<P>>, {}}, &why);
  run_layer(scope, layer_value<L>, view<const traced>(in.data, in.size), out.all());
}
template <class L, class P> constexpr int probed_states() {
  state_count<P> count;
  probe<L, P>(count);
  return count.all;
}
template <class L, class P>
concept Probed = requires { typename std::integral_constant<int, probed_states<L, P>()>; };
/// Whether an inference layer has states; true if that cannot be determined at compile time without inputs.
template <class L, class P> consteval bool has_states() {
  if constexpr (Probed<L, P>) return probed_states<L, P>() > 0;
  else return true;
}

// ---- diagnostics ----------------------------------------------------------------------------------------------------

template <class L> consteval void list_ports(text& t, bool in) {
  const auto ports = in ? layer_inputs(layer_value<L>) : layer_outputs(layer_value<L>);
  t << "; its " << (in ? "input" : "output") << (ports.size() == 1 ? " port is" : " ports are");
  list_names(t, ports);
}
/// Message unless the names are exactly the ports of a layer, each once.
template <class L> consteval text mismatch_of_ports(view<const std::string_view> names, bool in) {
  const auto ports = in ? layer_inputs(layer_value<L>) : layer_outputs(layer_value<L>);
  text t;
  auto missing = [&](const label& p) {
    for (auto n : names)
      if (n.size() <= label::limit && label(n) == p) return false;
    return true;
  };
  for (auto n : names)
    if (t.empty() && (n.size() > label::limit || index_of(ports, label(n)) < 0)) {
      t << layer_kind(layer_value<L>) << " has no " << (in ? "input" : "output") << " port `" << n << "`";
      list_ports<L>(t, in);
    }
  for (const auto& p : ports)
    if (t.empty() && missing(p)) {
      t << layer_kind(layer_value<L>) << ": " << (in ? "input" : "output") << " port `" << p << "` is given nothing";
      list_ports<L>(t, in);
    }
  return t;
}

template <class L, class Inputs, class P> struct train_check {
  static consteval text message() {
    text t;
    return t << "a train_layer takes its inputs as inputs<port<name, type>, ...>, not as `" << type_name<Inputs>()
             << "`";
  }
};
template <class L, class... Port, class P> struct train_check<L, inputs<Port...>, P> {
  static consteval text message() {
    text t = chosen_layer<L>::policies_message(P{});
    if constexpr ((is_port<Port> && ...)) {
      const std::string_view names[] = {Port::name.view()..., {}};
      for (std::size_t i = 0; i < sizeof...(Port); ++i)
        for (std::size_t j = 0; j < i; ++j)
          if (t.empty() && names[i] == names[j]) t << "port `" << names[i] << "` is given two types";
      if (t.empty()) t = mismatch_of_ports<L>(view<const std::string_view>(names, sizeof...(Port)), true);
    } else {
      const bool fits[] = {is_port<Port>..., true};
      const std::string_view types[] = {type_name<Port>()..., {}};
      for (std::size_t i = 0; i < sizeof...(Port); ++i)
        if (t.empty() && !fits[i])
          t << "argument " << i + 1 << " of inputs<...> is `" << types[i]
            << "`; it takes ports: inputs<port<name, type>, ...>";
    }
    return t;
  }
};
/// Index of the port with a name in a list of ports; the number of ports if absent.
template <fixed_string Name, class... Port> consteval std::size_t place_of_port() {
  const std::string_view names[] = {Port::name.view()..., {}};
  std::size_t i = 0;
  while (i < sizeof...(Port) && names[i] != Name.view()) ++i;
  return i;
}
template <class L, class Inputs, class Places> struct ordered_ports_of;
template <class L, class... Port, std::size_t... I>
struct ordered_ports_of<L, inputs<Port...>, std::index_sequence<I...>> {
  using type = inputs<pick_type<place_of_port<input_name<L, I>, Port...>(), Port...>...>;
};
template <class L, class Inputs> using ordered_ports =
    typename ordered_ports_of<L, Inputs, std::make_index_sequence<input_ports_of<L>>>::type;

template <class L, class P, bool Training, class Inputs> struct run_of;
template <class L, class P, bool Training, class... Port> struct run_of<L, P, Training, inputs<Port...>> {
  using type = typed_run<L, P, Training, Port...>;
};
/// Checks the shapes through a training layer; evaluated only if its ports match.
template <class L, class Inputs, class P> struct train_shape_check {
  static consteval text message() {
    if constexpr (no_error<train_check<L, Inputs, P>>) {
      text why = run_of<L, P, true, ordered_ports<L, Inputs>>::type::message(), t;
      if (why.empty()) return t;
      if (!why.view().starts_with(layer_kind(layer_value<L>))) t << layer_kind(layer_value<L>) << ": ";
      return t << why;
    }
    return {};
  }
};

template <class E>
concept LazyOperand = requires {
  requires Symbolic<E>;
  requires std::same_as<evaluation_mode_of<E>, lazy>;
};
/// Checks the operand of a port against the port's declared type, as far as both are known statically.
template <class E, bool In> consteval void mismatch_of_operand(text& t, std::string_view layer, std::string_view port,
                                                               const tensor_type* expected) {
  if constexpr (!In && std::same_as<E, no_gradient_type>) return;
  else if constexpr (!LazyOperand<E>)
    t << layer << ": port `" << port << "` is given `" << type_name<E>() << "`, not an operand";
  else if (expected) {
    const tensor_type given{dtype_of<typename E::element_type>, pattern_of<E>};
    if (given.element != expected->element || !fits(expected->dims, given.dims))
      t << layer << ": port `" << port << "` is " << *expected << "; got " << given;
  }
}
template <class L, bool In, class Types, class... E> struct dict_check {
  static consteval text message() {
    const std::string_view names[] = {E::name.view()..., {}};
    text t = mismatch_of_ports<L>(view<const std::string_view>(names, sizeof...(E)), In);
    if (!t.empty()) return t;
    const auto ports = In ? layer_inputs(layer_value<L>) : layer_outputs(layer_value<L>);
    std::size_t at = 0;
    ((check_port<decltype(E::value)>(t, names[at], index_of(ports, label(names[at]))), ++at), ...);
    if constexpr (In && !std::is_void_v<Types>)
      if (t.empty()) check_dimension_names(t, ports, view<const std::string_view>(names, sizeof...(E)));
    return t;
  }

 private:
  template <class X> static consteval shape shape_of_operand() {
    if constexpr (LazyOperand<X>) return pattern_of<X>;
    else return {};
  }
  template <class Ports>
  static consteval void check_dimension_names(text& t, const Ports& ports, view<const std::string_view> names) {
    const shape given[] = {shape_of_operand<decltype(E::value)>()..., {}};
    shape patterns[sizeof...(E) + 1];
    for (std::size_t i = 0; i < names.size(); ++i)
      patterns[i] = Types::types()[static_cast<std::size_t>(index_of(ports, label(names[i])))].dims;
    if (const auto clash = clash_of_names({patterns, names.size()}, {given, names.size()}))
      t << layer_kind(layer_value<L>) << ": dimension `" << clash.name << "` of the ports is both " << clash.first
        << " and " << clash.second;
  }
  template <class X> static consteval void check_port(text& t, std::string_view port, int place) {
    if (!t.empty()) return;
    const auto layer = layer_kind(layer_value<L>);
    if constexpr (std::is_void_v<Types>) mismatch_of_operand<X, In>(t, layer, port, nullptr);
    else mismatch_of_operand<X, In>(t, layer, port, &Types::types()[static_cast<std::size_t>(place)]);
  }
};
template <class Inputs> struct types_of_ports;
template <class... Port> struct types_of_ports<inputs<Port...>> {
  static constexpr std::array<tensor_type, sizeof...(Port)> all{Port::is...};
  static constexpr const auto& types() { return all; }
};
template <class Run> struct types_of_results {
  static constexpr const auto& types() { return Run::out; }
};

template <tensor_type T> using port_value_of = port_value<element_of<T.element>, extents_for<T.dims>>;

template <class L, class P> layer_definition definition_of(bool training, view<const tensor_type> in) {
  layer_definition d;
  for (const auto& p : layer_inputs(layer_value<L>)) d.inputs.push_back(p);
  for (const auto& p : layer_outputs(layer_value<L>)) d.outputs.push_back(p);
  d.input_types.assign(in.begin(), in.end());
  d.element = dtype_of<parameter_element<P>>;
  d.training = training;
  d.feedback = P::template get<feedback>().value;
  d.trace = [](trace_scope& plain, view<const value> from, view<value> to) {
    scope_with_policies<trace_scope, P> scope(plain);
    run_layer(scope, layer_value<L>, from, to);
  };
  d.trainable = [](view<const label> path) { return P::template value_at<trainable>(path); };
  return d;
}

/// The results of a call as a dict keyed by port.
template <class L, class Run, std::size_t... I> auto results_by_port(const std::shared_ptr<const layer_call>& call,
                                                                     view<const tensor_type> out,
                                                                     std::index_sequence<I...>) {
  return dict(entry<output_name<L, I>, port_value_of<Run::out[I]>>{
      port_value_of<Run::out[I]>(result_of(call, I, out[I].dims))}...);
}
/// Result types for given operand types; each thread caches the last query.
template <class L, class P, bool Training, std::size_t In, std::size_t Out>
void exact_types(std::string_view name, const std::array<tensor_type, In>& in, std::array<tensor_type, Out>& out) {
  struct answer {
    bool given = false;
    std::array<tensor_type, In> in{};
    std::array<tensor_type, Out> out{};
  };
  thread_local answer last;
  if (!last.given || last.in != in) {
    text why;
    run_types<L, P>(Training, in, view<tensor_type>(out), why);
    if (!why.empty()) refuse_shapes(name, why);
    last = {true, in, out};
  }
  out = last.out;
}

}  // namespace detail

// ---- training -------------------------------------------------------------------------------------------------------

/// A training layer: `train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>,
/// policies<feedback(true)>> layer("add")`. Passes only build expressions; their results are operands. Forward results
/// are kept on a stack, so several forward passes may be followed by as many backward passes in reverse order. Only
/// gradients that are fed back (`feedback(true)`) or needed for training (`update`, per parameter) are built.
/// Parameters are named `<layer>.<path>` and read when a result is evaluated, not when it is built. Not thread-safe.
/// Results may outlive the layer.
export template <class L, class Inputs, class P = policies<>>
requires no_error<detail::chosen_check<L>> && no_error<detail::train_check<L, Inputs, P>> &&
         no_error<detail::train_shape_check<L, Inputs, P>> class train_layer {
  using ports = detail::ordered_ports<L, Inputs>;
  using port_types = detail::types_of_ports<ports>;
  using run = typename detail::run_of<L, P, true, ports>::type;
  static constexpr std::size_t in_count = port_types::all.size(), out_count = run::out.size();
  static constexpr auto states_of = [] {
    detail::state_count<P> count;
    text why;
    std::array<tensor_type, out_count> out{};
    detail::run_types<L, P>(true, port_types::all, view<tensor_type>(out), why, &count);
    return std::array{count.all, count.trained};
  }();

 public:
  using policy_type = P;
  /// Whether gradients of inputs are propagated.
  static constexpr bool is_feedback = P::template get<feedback>().value;
  /// Whether a parameter is trained.
  static constexpr bool is_update = states_of[1] > 0;
  static constexpr bool has_states = states_of[0] > 0;

  explicit train_layer(std::string name) : core_(std::move(name), detail::definition_of<L, P>(true, port_types::all)) {}

  const std::string& name() const { return core_.states().layer(); }

  /// Results by output port, from operands by input port; computes nothing.
  /// Errors: shape_error naming layer, port and shapes; state_error if parameters are not initialized.
  template <class... E> requires accepted<diagnostic<detail::dict_check<L, true, port_types, E...>>()>
  auto forward(const dict<E...>& in) {
    std::vector<detail::dynamic_pointer> operands;
    std::array<tensor_type, in_count> is = port_types::all;
    std::array<tensor_type, out_count> out{};
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (operands.push_back(detail::node_of(in.template get<detail::input_name<L, I>>())), ...);
    }(std::make_index_sequence<in_count>());
    std::array<shape, in_count> given;
    std::array<shape, out_count> made;
    for (std::size_t i = 0; i < in_count; ++i) is[i].dims = given[i] = operands[i]->shape();
    detail::check_extents_of(name(), detail::layer_inputs(detail::layer_value<L>), port_types::all, given);
    detail::exact_types<L, P, true>(name(), is, out);
    for (std::size_t i = 0; i < out_count; ++i) made[i] = out[i].dims;
    auto call = core_.forward(std::move(operands), given, made);
    return detail::results_by_port<L, run>(call, out, std::make_index_sequence<out_count>());
  }

  /// Gradients by input port, from gradients by output port, for the most recent pending forward result;
  /// `no_gradient` stands for a missing gradient on both sides.
  /// Errors: shape_error naming layer, port and both shapes; state_error if no forward result is pending.
  template <class... E>
  requires accepted<diagnostic<detail::dict_check<L, false, detail::types_of_results<run>, E...>>()>
  auto backward(const dict<E...>& gradients) {
    std::vector<detail::dynamic_pointer> given;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (given.push_back(node_or_none(gradients.template get<detail::output_name<L, I>>())), ...);
    }(std::make_index_sequence<out_count>());
    const auto r = core_.backward(std::move(given));
    constexpr bool any = is_feedback && (!std::same_as<decltype(E::value), no_gradient_type> || ...);
    return [&]<std::size_t... I>(std::index_sequence<I...>) {
      return dict(entry<detail::input_name<L, I>, gradient_type<any, I>>{gradient_of<any, I>(r)}...);
    }(std::make_index_sequence<in_count>());
  }

  /// Checks that no forward result is pending. Errors: state_error naming the layer and the number of pending results.
  void assert_neutral() const { core_.assert_neutral(); }
  /// Number of forward results that wait for a backward pass.
  std::size_t waiting() const { return core_.waiting(); }

  /// Initializes every parameter from the buffer if it contains the name, else by `how` or the policies and then adds
  /// it to the buffer. Errors: as `initializers::make`; nothing is changed then.
  void init(const initializers& how = initializers(), load_buffer* buffer = nullptr) requires has_states {
    core_.states().init(how, buffer);
  }
  /// Copies the values of all parameters from a buffer. Errors: value_error, shape_error, type_error; nothing is
  /// changed then.
  void load_weights(const load_buffer& from) requires has_states { core_.states().load(from); }
  /// Copies all parameters to a buffer, except those that it already contains.
  void save_weights(load_buffer& to) const requires has_states { core_.states().save(to); }
  /// Moves the gradients of all backward passes since the last call to the collector.
  void collect_gradients(gradient_collector& to) requires is_update { core_.collect(to); }
  /// Updates running statistics with the forward passes since the last call, in order. Until then, these
  /// passes and the values that they read are kept alive.
  void update_statistics() requires has_states { core_.update_statistics(); }
  /// The parameter at a path inside the layer. Errors: state_error before `init`; value_error.
  lamina::parameter& parameter(std::string_view path) const requires has_states { return core_.states().at(path); }

 private:
  template <class G> static detail::dynamic_pointer node_or_none(const G& g) {
    if constexpr (std::same_as<G, no_gradient_type>) return nullptr;
    else return detail::node_of(g);
  }
  template <bool Any, std::size_t I> static constexpr bool has_gradient =
      Any && is_floating(port_types::all[I].element);
  template <bool Any, std::size_t I> struct gradient_type_of {
    using type = no_gradient_type;
  };
  template <bool Any, std::size_t I> requires has_gradient<Any, I> struct gradient_type_of<Any, I> {
    using type = detail::port_value_of<port_types::all[I]>;
  };
  template <bool Any, std::size_t I> using gradient_type = typename gradient_type_of<Any, I>::type;
  template <bool Any, std::size_t I> static auto gradient_of(const detail::train_core::reversed& r) {
    if constexpr (has_gradient<Any, I>) {
      std::size_t at = 0;
      for (std::size_t i = 0; i < I; ++i) at += is_floating(port_types::all[i].element);
      return gradient_type<Any, I>(detail::result_of(r.call, at, r.operands[I]));
    } else return no_gradient;
  }

  detail::train_core core_;
};

// ---- inference ------------------------------------------------------------------------------------------------------

namespace detail {
template <bool HasStates> class infer_part {
 public:
  explicit infer_part(std::string_view) {}
};
template <> class infer_part<true> {
 protected:
  explicit infer_part(std::string_view name) : states_(std::string(name)) {}
  layer_states states_;
};
}  // namespace detail

template <class L, class P> struct infer_check {
  static consteval text message() { return detail::chosen_layer<L>::policies_message(P{}); }
};
// Type inference of an inference layer over the static extents of its operands, in the order of the layer's ports.
template <class X> struct operand_type {
  static constexpr tensor_type is{dtype_of<typename X::element_type>, pattern_of<X>};
};
template <class L, class P, class Dict, class Places> struct infer_run_of;
template <class L, class P, class Dict, std::size_t... I> struct infer_run_of<L, P, Dict, std::index_sequence<I...>> {
  using type =
      detail::typed_run<L, P, false,
                        operand_type<std::remove_cvref_t<
                            decltype(std::declval<const Dict&>().template get<detail::input_name<L, I>>())>>...>;
};
template <class L, class P, class Dict> using infer_run =
    typename infer_run_of<L, P, Dict, std::make_index_sequence<detail::input_ports_of<L>>>::type;
template <class L, class P, class... E> struct infer_shape_check {
  static consteval text message() {
    if constexpr (no_error<detail::dict_check<L, true, void, E...>>) return infer_run<L, P, dict<E...>>::message();
    return {};
  }
};

/// An inference layer: `infer_layer<nn::add> layer("add")`. Its ports take operands of any types that fit. It
/// has no backward pass and stores only its parameters; without parameters, nothing.
export template <class L, class P = policies<>>
requires no_error<detail::chosen_check<L>> && no_error<infer_check<L, P>>
class infer_layer : private detail::infer_part<detail::has_states<L, P>()> {
  using part = detail::infer_part<detail::has_states<L, P>()>;

 public:
  using policy_type = P;
  static constexpr bool has_states = detail::has_states<L, P>();

  explicit infer_layer(std::string_view name = {}) : part(name) {
    if constexpr (has_states) {
      struct declared final : state_listener {
        detail::layer_states* to = nullptr;
        void on_state(view<const label> path, std::string_view state, const tensor_type& type, const initializer& how,
                      state_role role) override {
          std::string full;
          for (const auto& p : path) full += p.string() + ".";
          full += state;
          if (!to->find(full)) to->declare({full, type, how, role, false, nullptr});
        }
      } listener;
      listener.to = &this->states_;
      detail::probe<L, P>(listener);
    }
  }

  /// Results by output port, from operands by input port; computes nothing.
  /// Errors: shape_error naming layer and shapes; state_error if parameters are not initialized.
  template <class... E> requires accepted<diagnostic<detail::dict_check<L, true, void, E...>>()> &&
                                 accepted<diagnostic<infer_shape_check<L, P, E...>>()>
  auto forward(const dict<E...>& in) const {
    using run = infer_run<L, P, dict<E...>>;
    constexpr std::size_t in_count = run::in.size(), out_count = run::out.size();
    std::vector<detail::dynamic_pointer> operands;
    std::array<tensor_type, in_count> is = run::in;
    std::array<tensor_type, out_count> out{};
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (operands.push_back(detail::node_of(in.template get<detail::input_name<L, I>>())), ...);
    }(std::make_index_sequence<in_count>());
    for (std::size_t i = 0; i < in_count; ++i) is[i].dims = operands[i]->shape();
    detail::exact_types<L, P, false>(label_of_layer(), is, out);
    static const detail::layer_program traced = detail::trace_layer(detail::definition_of<L, P>(false, run::in));
    auto call = detail::infer(traced, states(), label_of_layer(), std::move(operands));
    return detail::results_by_port<L, run>(call, out, std::make_index_sequence<out_count>());
  }

  /// As in `train_layer`.
  void init(const initializers& how = initializers(), load_buffer* buffer = nullptr) requires has_states {
    this->states_.init(how, buffer);
  }
  void load_weights(const load_buffer& from) requires has_states { this->states_.load(from); }
  void save_weights(load_buffer& to) const requires has_states { this->states_.save(to); }
  lamina::parameter& parameter(std::string_view path) const requires has_states { return this->states_.at(path); }

 private:
  std::string_view label_of_layer() const {
    if constexpr (has_states) return this->states_.layer();
    else return detail::layer_kind(detail::layer_value<L>);
  }
  const detail::layer_states* states() const {
    if constexpr (has_states) return &this->states_;
    else return nullptr;
  }
};

// ---- the protocol as free functions; no-ops for a layer without the member ------------------------------------------

namespace detail {
/// Message for a type that declares the function unsupported: `L::refused<function, verb>`.
template <class L, fixed_string Function, fixed_string Verb> struct protocol_check {
  static consteval text message() {
    if constexpr (requires { typename L::template refused<Function, Verb>; })
      return L::template refused<Function, Verb>::message();
    else return {};
  }
};
}  // namespace detail

export template <class L> requires accepted<diagnostic<detail::protocol_check<L, "init", "be changed">>()>
void init(L& layer, const initializers& how = initializers(), load_buffer* buffer = nullptr) {
  if constexpr (requires { layer.init(how, buffer); }) layer.init(how, buffer);
}
export template <class L> requires accepted<diagnostic<detail::protocol_check<L, "load_weights", "load parameters">>()>
void load_weights(L& layer, const load_buffer& from) {
  if constexpr (requires { layer.load_weights(from); }) layer.load_weights(from);
}
export template <class L> requires accepted<diagnostic<detail::protocol_check<L, "save_weights", "be saved">>()>
void save_weights(const L& layer, load_buffer& to) {
  if constexpr (requires { layer.save_weights(to); }) layer.save_weights(to);
}
export template <class L> requires accepted<diagnostic<detail::protocol_check<L, "collect_gradients", "be trained">>()>
void collect_gradients(L& layer, gradient_collector& to) {
  if constexpr (requires { layer.collect_gradients(to); }) layer.collect_gradients(to);
}
export template <class L> void assert_neutral(const L& layer) {
  if constexpr (requires { layer.assert_neutral(); }) layer.assert_neutral();
}

}  // namespace lamina
