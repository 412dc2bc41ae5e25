// Checks of a topology before a model of it compiles: that its connections make sense, that the shapes fit through
// every layer (the layers run over values that are only element type and shape), and that policies name sublayers that
// exist.
export module lamina:topology.check;
import :core;
import :dtype;
import :layer;
import :op;
import :parameter;
import :policy;
import :shape;
import :tensor;
import :topology;
import :topology.analysis;
import :topology.policy_scope;
import lamina.std;

namespace lamina {

// ---- the scope of compile-time checks -------------------------------------------------------------------------------

/// Listener for each state that a layer asks for (path of the layer, name, kind) and for each layer that runs.
struct state_listener {
  constexpr virtual void entered(view<const label> /*path*/) {}
  constexpr virtual void on_state(view<const label> path, std::string_view name, const tensor_type& type,
                                  const initializer& how, state_role role) = 0;

 protected:
  constexpr ~state_listener() = default;
};

/// State that the nested scopes of one walk share.
struct type_walk {
  text* why;
  bool placed = false;  // the message already names the layer
  std::int64_t sites = 0;
  state_listener* listener = nullptr;
};

/// The scope in which layers run over types: parameters exist as their shapes, and the first mismatch makes a message.
class type_scope {
 public:
  constexpr type_scope(type_walk& walk, dtype element, bool training = false)
      : walk_(&walk), element_(element), training_(training) {}
  constexpr type_scope nested(const label& name) const {
    type_scope s = *this;
    s.parent_ = this;
    s.name_ = name;
    return s;
  }

  constexpr traced parameter(std::string_view name, const shape& dims, const initializer& how) const {
    return on_state(name, {element_, dims}, how, state_role::parameter);
  }
  constexpr traced state(std::string_view name, const shape& dims, double initial) const {
    return on_state(name, {element_, dims}, initializer::constant(initial), state_role::statistic);
  }
  constexpr traced constant(const shape& dims, double) const { return made(element_, dims); }
  constexpr void assign(const traced&, const traced&) const {}
  constexpr bool training() const { return training_; }
  constexpr traced random_state() const {
    return on_state("generator", {dtype::int64, shape{2}}, {}, state_role::generator);
  }
  constexpr std::int64_t next_site() const { return walk_->sites++; }
  template <Layer L, std::same_as<traced>... V>
  constexpr auto operator()(std::string_view name, const L& layer, const V&... in) const {
    return call(nested(label(name)), layer, in...);
  }
  /// One iteration represents all: carries keep their types.
  template <class Self, class F> constexpr void scan(const Self& self, view<const traced> carries,
                                                     view<const traced> sequences, view<traced> results, F body,
                                                     bool /*reverse*/) const {
    for (auto& r : results) r = made(element_, {});
    if (failed()) return;
    work_array<traced> slices(sequences.size()), given(results.size());
    dim length = dyn;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      const shape& s = sequences[i].type.dims;
      if (s.rank == 0) return refuse("a sequence is a scalar; expected a first axis to iterate over");
      if (!may_equal(length, s[0])) {
        *walk_->why << "the sequences differ in length: " << length << " and " << s[0];
        return;
      }
      length = better(length, s[0]);
      slices[i] = made(sequences[i].type.element, without_first(s));
    }
    Self scope(self);
    body(scope, carries, view<const traced>(slices.data, slices.size), view<traced>(given.data, given.size));
    if (failed()) return;
    for (std::size_t i = 0; i < results.size(); ++i) {
      const tensor_type& t = given[i].type;
      if (i >= carries.size()) {
        results[i] = made(t.element, with_first(length, t.dims));
        continue;
      }
      const tensor_type& before = carries[i].type;
      if (before.element != t.element || !fits(before.dims, t.dims)) {
        *walk_->why << "the carry is " << before << "; an iteration gives " << t << " for it";
        return;
      }
      results[i] = carries[i];
    }
  }
  constexpr traced outside(const traced& v) const { return v; }
  /// Refuses to run with a message.
  constexpr void refuse(std::string_view why) const {
    if (!failed()) *walk_->why << why;
  }

  // ---- what detail::run_layer, topologies and scopes with policies ask
  template <class Inner, Layer L, std::same_as<traced>... V>
  constexpr auto call(Inner inner, const L& layer, const V&... in) const {
    const traced inputs[] = {in..., traced{}};
    const view<const traced> all(inputs, sizeof...(V));
    constexpr std::size_t results = detail::output_count<L>();
    std::array<traced, results> out;
    for (auto& o : out) o = made(element_, {});
    if (!failed()) {
      detail::run_layer(inner, layer, all, view<traced>(out));
      if (failed()) inner.explain(detail::layer_kind(layer), detail::layer_inputs(layer), all, {});
    }
    if constexpr (results == 1) return out[0];
    else return out;
  }
  /// Calls f with the names that lead to this layer.
  template <class F> constexpr auto with_path(F&& f) const {
    std::size_t n = 0;
    for (auto* s = this; s->parent_; s = s->parent_) ++n;
    work_array<label> path(n);
    for (auto* s = this; s->parent_; s = s->parent_) path[--n] = s->name_;
    return f(view<const label>(path.data, path.size));
  }
  template <Layer L> constexpr bool enter(const L& layer, view<const traced> in) const {
    if (walk_->listener) with_path([&](view<const label> path) { walk_->listener->entered(path); });
    auto ports = detail::layer_inputs(layer);
    if (in.size() != ports.size()) {
      *walk_->why << "it is called with " << in.size() << (in.size() == 1 ? " input" : " inputs") << " but has "
                  << ports.size() << ":";
      list_names(*walk_->why, ports);
      return false;
    }
    if constexpr (!detail::Forwards<L, type_scope, traced> && detail::ForwardsUnlessConst<L, type_scope, traced>) {
      *walk_->why << "its member `forward` is not const; declare it `constexpr auto forward(...) const`";
      return false;
    } else if constexpr (!detail::Forwards<L, type_scope, traced>) {
      *walk_->why << "its member `forward` does not take a scope and one operand for each input port:";
      list_names(*walk_->why, ports);
      return false;
    }
    work_array<tensor_type> types(in.size());
    for (std::size_t i = 0; i < in.size(); ++i) types[i] = in[i].type;
    detail::check_layer(layer, view<const tensor_type>(types.data, types.size), *walk_->why);
    return !failed();
  }
  constexpr bool failed() const { return !walk_->why->empty(); }
  /// Says in which layer the walk stopped, what its inputs were and who fed them; once, by the innermost layer.
  constexpr void explain(std::string_view kind, view<const label> ports, view<const traced> in,
                         view<const endpoint> fed_by) const {
    if (walk_->placed) return;
    walk_->placed = true;
    text t;
    t << "sublayer `";
    print_path(t);
    t << "`";
    if (!walk_->why->view().starts_with(kind)) t << " (" << kind << ")";
    t << ": " << *walk_->why;
    for (std::size_t i = 0; i < in.size(); ++i) {
      t << (i ? "; `" : " (`") << (i < ports.size() ? ports[i] : label("?")) << "` is " << in[i].type.dims;
      if (i < fed_by.size()) print_source(t, fed_by[i]);
    }
    if (in.size()) t << ")";
    *walk_->why = t;
  }

 protected:
  constexpr traced made(dtype element, const shape& dims) const { return {{element, dims}, walk_->why}; }

 private:
  constexpr traced on_state(std::string_view name, const tensor_type& type, const initializer& how,
                            state_role role) const {
    if (walk_->listener)
      with_path([&](view<const label> path) { walk_->listener->on_state(path, name, type, how, role); });
    return made(type.element, type.dims);
  }
  constexpr void print_path(text& t) const {
    if (parent_ && parent_->parent_) {
      parent_->print_path(t);
      t << ".";
    }
    t << name_;
  }
  constexpr void print_source(text& t, const endpoint& from) const {
    t << ", fed by " << (from.node.empty() ? "input `" : "`");
    if (!from.node.empty() && parent_->parent_) {
      parent_->print_path(t);
      t << ".";
    }
    if (!from.node.empty()) t << from.node << ".";
    t << from.port << "`";
    if (from.node.empty() && parent_->parent_) {
      t << " of `";
      parent_->print_path(t);
      t << "`";
    }
  }

  type_walk* walk_;
  const type_scope* parent_ = nullptr;  // of the caller, which outlives this
  label name_;
  dtype element_;
  bool training_;
};

// ---- inputs of a model ----------------------------------------------------------------------------------------------

/// An input of a model by position: `input<"N", 1, 28, 28>`; numbers, names (equal names must agree) and `dyn`.
export template <dim... D> struct input {
  using element = float;
  static constexpr bool has_element = false;  // the model's element type
  static constexpr std::string_view port{};
  static constexpr shape pattern{D...};
};
/// An input of a model by position, of another element type than the model's: `input_of<std::int64_t, "N", 10>`.
export template <Element T, dim... D> struct input_of {
  using element = T;
  static constexpr bool has_element = true;
  static constexpr std::string_view port{};
  static constexpr shape pattern{D...};
};
/// An input of a model by name and element type: `port_input<"ids", std::int64_t, "N", "T">`.
export template <fixed_string Port, Element T, dim... D> struct port_input {
  using element = T;
  static constexpr bool has_element = true;
  static constexpr std::string_view port = Port.view();
  static constexpr shape pattern{D...};
};
template <class T>
concept ModelInput = requires {
  typename T::element;
  { T::port } -> std::convertible_to<std::string_view>;
  { T::pattern } -> std::convertible_to<shape>;
};

struct input_view {
  std::string_view port;
  tensor_type type;
};
constexpr void list_inputs(text& t, view<const label> ports) {
  t << (ports.size() == 1 ? "; its input is" : "; its inputs are");
  list_names(t, ports);
}
// Which port each given input feeds: by name where it has one, else the next that is free.
constexpr void match_inputs(view<const label> ports, view<const input_view> given, view<int> port_of, text& why) {
  work_array<bool> taken(ports.size());
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (given[i].port.empty()) continue;
    int p = given[i].port.size() > label::limit ? -1 : index_of(ports, label(given[i].port));
    if (p < 0) {
      why << "the model has no input `" << given[i].port << "`";
      return list_inputs(why, ports);
    }
    if (taken[p]) {  // NOLINT(*uninitialized.Branch): all are false at first
      why << "input `" << given[i].port << "` is given twice";
      return;
    }
    taken[p] = true;
    port_of[i] = p;
  }
  if (given.size() != ports.size()) {
    why << "the model has " << ports.size() << (ports.size() == 1 ? " input" : " inputs") << " but " << given.size()
        << (given.size() == 1 ? " is" : " are") << " given";
    return list_inputs(why, ports);
  }
  std::size_t next = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    if (!given[i].port.empty()) continue;
    while (taken[next]) ++next;  // NOLINT(*uninitialized.Branch): the same
    taken[next] = true;
    port_of[i] = static_cast<int>(next);
  }
}

// ---- checks ---------------------------------------------------------------------------------------------------------

template <const auto& Topology>
concept ConstantTopology = requires { typename std::bool_constant<Topology.wires.ok>; };
/// The connections of a topology; a layer that is no topology has none.
template <const auto& Topology> struct structure_check {
  static consteval text message() {
    if constexpr (!is_topology<std::remove_cvref_t<decltype(Topology)>>) return {};
    else if constexpr (!ConstantTopology<Topology>)
      return text("the topology is a variable; declare it `inline constexpr`, or `static constexpr` in a function");
    else return Topology.error();
  }
};
/// A layer whose names and connections make sense.
export template <const auto& Topology>
concept ValidTopology = no_error<structure_check<Topology>>;

template <const auto& Topology, dtype Type, class P, class... In> struct type_run {
  static constexpr std::size_t results = detail::layer_outputs(Topology).size();
  static constexpr std::array<input_view, sizeof...(In)> given{
      input_view{In::port, {In::has_element ? dtype_of<typename In::element> : Type, In::pattern}}...};

  static constexpr std::array<int, sizeof...(In)> ports(text& why) {
    std::array<int, sizeof...(In)> port_of{};
    match_inputs(detail::layer_inputs(Topology), given, port_of, why);
    return port_of;
  }
  static constexpr std::array<tensor_type, results> run(text& why, bool training = false,
                                                        state_listener* listener = nullptr) {
    std::array<tensor_type, results> types{};
    auto port_of = ports(why);
    if (!why.empty()) return types;
    work_array<traced> in(sizeof...(In)), out(results);
    for (std::size_t i = 0; i < sizeof...(In); ++i) in[port_of[i]] = traced{given[i].type, &why};
    type_walk walk{.why = &why, .listener = listener};
    const type_scope plain(walk, Type, training);
    scope_with_policies<type_scope, P> scope(plain);
    detail::run_layer(scope, Topology, view<const traced>(in.data, in.size), out.all());
    if (why.empty())
      for (std::size_t i = 0; i < results; ++i) types[i] = out[i].type;
    return types;
  }
};

// ---- names in policies ----------------------------------------------------------------------------------------------

constexpr void refuse_sublayer(text& why, std::string_view path, std::string_view name, view<const label> there) {
  why << "the policies name sublayer `" << path << name << "`, which does not exist; ";
  if (there.empty()) why << "`" << path.substr(0, path.size() - 1) << "` has no sublayers";
  else why << "the sublayers are:";
  for (std::size_t i = 0; i < there.size() && i < 12; ++i) why << (i ? ", `" : " `") << path << there[i] << "`";
  if (there.size() > 12) why << ", ... (" << there.size() << ")";
}
// A set of policies against the names of a topology, and so on inwards. What a layer made by code names inside itself is
// found when it runs, below.
template <class T, class Set> constexpr void check_sub_policies(const T& t, Set, std::string_view path, text& why) {
  Set::each_sub([&](std::string_view name, auto inner) {
    if (!why.empty()) return;
    bool found = false;
    t.layers.each([&](auto i, const auto& l) {
      if (!(t.names[i] == label(name))) return;
      found = true;
      text below(path);
      below << name << ".";
      if constexpr (requires { l.layers; }) check_sub_policies(l, inner, below.view(), why);
    });
    if (!found) refuse_sublayer(why, path, name, view<const label>(t.names.data(), t.names.size()));
  });
}
/// That every `sub<"name">` of a set of policies names a sublayer.
template <const auto& Topology, class Policies> struct sub_policies_check {
  static consteval text message() {
    text why;
    if constexpr (is_topology<std::remove_cvref_t<decltype(Topology)>>)
      check_sub_policies(Topology, Policies{}, {}, why);
    return why;
  }
};

// The layers and parameters that a walk meets. A path is the names of layers, a dot after each.
struct walk_record final : state_listener {
  struct state_path {
    text path, name;
  };
  std::vector<text> layers;
  std::vector<state_path> parameters;
  static constexpr text path_text(view<const label> path) {
    text t;
    for (const auto& p : path) t << p << ".";
    return t;
  }
  constexpr void entered(view<const label> path) override { layers.push_back(path_text(path)); }
  constexpr void on_state(view<const label> path, std::string_view name, const tensor_type&, const initializer&,
                          state_role role) override {
    if (role == state_role::parameter) parameters.push_back({path_text(path), text(name)});
  }
};
template <class P> consteval bool names_something() {
  bool any = false;
  P::each_sub([&](std::string_view, auto) { any = true; });
  P::each_at(view<const label>(), [&](const auto& p) {
    if constexpr (requires { p.is_initializer; }) any = any || !p.parameter.empty();
  });
  return any;
}
constexpr void check_initialized(const walk_record& seen, std::string_view path, std::string_view name, text& why) {
  std::vector<std::string_view> there;
  for (const auto& p : seen.parameters)
    if (p.path.view().starts_with(path)) there.push_back(p.name.view());
  if (path.empty() && there.empty()) return;
  if (std::find(there.begin(), there.end(), name) != there.end()) return;
  why << "policy `initialize` names parameter `" << name << "`, which no layer";
  if (!path.empty()) why << " of `" << path.substr(0, path.size() - 1) << "`";
  suggest_names(why << " has", name, there);
}
constexpr void check_entered(const walk_record& seen, std::string_view path, std::string_view name, text& why) {
  std::vector<label> there;
  for (const auto& l : seen.layers) {
    if (!l.view().starts_with(path)) continue;
    const auto rest = l.view().substr(path.size());
    if (rest.empty()) continue;
    const label next(rest.substr(0, rest.find('.')));
    if (next == label(name)) return;
    if (std::find(there.begin(), there.end(), next) == there.end()) there.push_back(next);
  }
  if (path.empty() && there.empty()) return;
  refuse_sublayer(why, path, name, there);
}
// A set of policies against what a walk met, and so on inwards. One set may serve several layers: one without any
// parameters or sublayers passes over what is said of some.
template <class Set> constexpr void check_seen_names(const walk_record& seen, Set, std::string_view path, text& why) {
  Set::each_at(view<const label>(), [&](const auto& p) {
    if constexpr (requires { p.is_initializer; })
      if (why.empty() && !p.parameter.empty()) check_initialized(seen, path, p.parameter, why);
  });
  Set::each_sub([&](std::string_view name, auto inner) {
    if (why.empty()) check_entered(seen, path, name, why);
    text below(path);
    below << name << ".";
    if (why.empty()) check_seen_names(seen, inner, below.view(), why);
  });
}
/// That a set of policies speaks of sublayers and parameters that are there; `run(why, training, listener)` walks through
/// the layers, which may name other ones in training.
template <class P, class Run> constexpr void check_policy_names(text& why, Run run) {
  if constexpr (names_something<P>()) {
    if (!why.empty()) return;
    walk_record seen;
    text inferring, training;
    run(inferring, false, &seen);
    run(training, true, &seen);
    check_seen_names(seen, P{}, {}, why);
  }
}

// ---- checks of shapes -----------------------------------------------------------------------------------------------

/// The shapes through a whole topology with parameters of the given type, with policies: the layers run over types
/// alone, for inference.
template <const auto& Topology, dtype Type, class P, class... In> struct shape_check_with_policies {
  static consteval text message() {
    text why;
    if constexpr (ValidTopology<Topology>) {
      using run = type_run<Topology, Type, P, In...>;
      run::run(why);
      check_policy_names<P>(why, [](text& w, bool training, state_listener* to) { run::run(w, training, to); });
    }
    return why;
  }
};
/// The same without policies.
export template <const auto& Topology, dtype Type, class... In> using typed_shape_check =
    shape_check_with_policies<Topology, Type, policies<>, In...>;
/// The shapes through a whole topology of float parameters.
export template <const auto& Topology, class... In> using shape_check =
    typed_shape_check<Topology, dtype::float32, In...>;

/// For each input, the port of the topology that it feeds.
template <const auto& Topology, class... In> inline constexpr auto input_ports = [] {
  text why;
  return type_run<Topology, dtype::float32, policies<>, In...>::ports(why);
}();
/// Element types and shapes of a topology's outputs, in the order of its output ports, with parameters of the given
/// type, with policies.
export template <const auto& Topology, dtype Type, class P, class... In>
inline constexpr auto outputs_with_policies = [] {
  text why;
  return type_run<Topology, Type, P, In...>::run(why);
}();
/// The same without policies.
export template <const auto& Topology, dtype Type, class... In> inline constexpr auto typed_outputs_of =
    outputs_with_policies<Topology, Type, policies<>, In...>;
/// The same for float parameters.
export template <const auto& Topology, class... In> inline constexpr auto output_types_of =
    typed_outputs_of<Topology, dtype::float32, In...>;
/// The type of a topology's first output.
export template <const auto& Topology, class... In> inline constexpr tensor_type output_type_of =
    output_types_of<Topology, In...>[0];

}  // namespace lamina
