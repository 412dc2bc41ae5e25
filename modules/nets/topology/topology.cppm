// Topologies as values: named layers and connections, put in order once by the compiler. A topology is itself a layer.
export module lamina:topology;
import :core;
import :layer;
import :policy;
import :topology.analysis;
import lamina.std;

namespace lamina {

// ---- named layers ---------------------------------------------------------------------------------------------------

template <class L> struct named_layer {
  label name;
  L value;
};
template <class T> inline constexpr bool is_named_layer = false;
template <class L> inline constexpr bool is_named_layer<named_layer<L>> = true;

/// Why a type is no layer.
template <class T> consteval std::string_view no_layer_because() {
  if constexpr (!std::is_class_v<T>) return ", not a layer: a layer is a class with a member `forward`";
  else if constexpr (!HasForward<T> && !HasForwardPorts<T>) {
    if constexpr (__is_final(T))
      return ", which is final: a layer is a class that can be derived from, with a member `forward`";
    else
      return ", which has no member `forward`; a layer has `constexpr auto forward(auto& scope, const auto& x) const`";
  } else return ", which cannot be copied; layers are values";
}
consteval text mismatch_of_sublayer(std::string_view name, bool layer, std::string_view type, std::string_view why) {
  text t = mismatch_of_name(name);
  if (t.empty() && !layer) t << "sublayer `" << name << "` is given `" << type << "`" << why;
  return t;
}
template <fixed_string Name, class L> struct sublayer_check {
  static consteval text message() {
    return mismatch_of_sublayer(Name.view(), Layer<L>, type_name<L>(), no_layer_because<L>());
  }
};
// Functions say `accepted<diagnostic<...>()>`, which is what `no_error` says: the compiler prints the sentence a step
// earlier.
/// A layer under a name: `sublayer<"dot">(nn::dot{})`. Parameters are found under it: `dot.weight`.
export template <fixed_string Name, class L> requires accepted<diagnostic<sublayer_check<Name, L>>()>
constexpr named_layer<L> sublayer(L layer) {
  return {label(Name.view()), layer};
}

// ---- the value ------------------------------------------------------------------------------------------------------

template <std::size_t Layers, std::size_t Edges> struct topology_wiring {
  std::array<int, Layers> order{}, first_in{}, first_out{};
  std::array<source, Edges> feeds{}, result{};
  std::array<label, Edges> inputs{}, outputs{};
  int input_count = 0, output_count = 0, values = 0;  // values: output ports of all sublayers
  bool ok = false;
};

/// What `sequential(...)` and `topology(...)` return.
template <class Layers, std::size_t Edges> struct topology_value {
  static constexpr std::size_t size = Layers::size;
  static constexpr std::size_t edge_limit = Edges ? Edges : size + 1;  // without connections: a chain
  static constexpr bool has_forward_ports = true;

  Layers layers;
  std::array<label, size> names;
  std::array<connection, Edges> edges;
  bool chain = false;
  topology_wiring<size, edge_limit> wires{};

  static constexpr std::string_view kind() { return "topology"; }
  constexpr view<const label> inputs() const {
    return {wires.inputs.data(), static_cast<std::size_t>(wires.input_count)};
  }
  constexpr view<const label> outputs() const {
    return {wires.outputs.data(), static_cast<std::size_t>(wires.output_count)};
  }

  /// Message about wrong names or connections, here or in a nested topology; empty where there are none.
  constexpr text error() const {
    text t;
    if (wires.ok) return t;
    layers.each([&](auto i, const auto& l) {
      if constexpr (requires { l.wires; })
        if (t.empty() && !l.wires.ok) t << "sublayer `" << names[i] << "`: " << l.error();
    });
    if (t.empty()) analyzed(t);
    return t;
  }
  /// The wiring; its `ok` says whether it can be used.
  constexpr topology_wiring<size, edge_limit> analyzed(text& why) const {
    topology_wiring<size, edge_limit> w;
    std::array<node_view, size> nodes{};
    bool nested_ok = true;
    layers.each([&](auto i, const auto& l) {
      nodes[i] = {names[i], detail::layer_kind(l), detail::layer_inputs(l), detail::layer_outputs(l)};
      w.values += static_cast<int>(nodes[i].out.size());
      if constexpr (requires { l.wires; }) nested_ok = nested_ok && l.wires.ok;
    });
    if (!nested_ok) return w;
    wiring_view v{.order = w.order,
                  .first_in = w.first_in,
                  .first_out = w.first_out,
                  .feeds = w.feeds,
                  .result = w.result,
                  .inputs = w.inputs,
                  .outputs = w.outputs};
    w.ok = analyze(nodes, edges, chain, v, why);
    w.input_count = v.input_count;
    w.output_count = v.output_count;
    return w;
  }

  /// Runs the layers in order over any kind of value: types at compile time, values of a program at run time.
  template <class S, class V> constexpr void forward_ports(S& scope, view<const V> in, view<V> out) const {
    if constexpr (requires { scope.refuse(std::string_view()); })
      if (!wires.ok) return scope.refuse(error().view());  // of one that a layer has made in its `forward`
    work_array<V> made(static_cast<std::size_t>(wires.values)), arguments(edge_limit);
    for (int i : wires.order)
      if (!steps<S, V>[static_cast<std::size_t>(i)](*this, scope, in, made.all(), arguments.all())) return;
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = value_of(wires.result[i], in, view<const V>(made.data, made.size));
  }

 private:
  template <class V> constexpr const V& value_of(const source& s, view<const V> in, view<const V> made) const {
    if (s.is_input()) return in[static_cast<std::size_t>(s.port)];
    return made[static_cast<std::size_t>(wires.first_out[static_cast<std::size_t>(s.node)] + s.port)];
  }
  constexpr endpoint name_of(const source& s) const {
    if (s.is_input()) return {{}, wires.inputs[static_cast<std::size_t>(s.port)]};
    label port;
    layers.each([&](auto i, const auto& l) {
      if (static_cast<int>(i) == s.node) port = detail::layer_outputs(l)[static_cast<std::size_t>(s.port)];
    });
    return {names[static_cast<std::size_t>(s.node)], port};
  }

  // What feeds the ports of layer i.
  template <class V> [[gnu::noinline]] constexpr view<const V> gathered(std::size_t i, std::size_t ports,
                                                                        view<const V> in, view<const V> made,
                                                                        view<V> arguments) const {
    const auto first = static_cast<std::size_t>(wires.first_in[i]);
    for (std::size_t p = first; p < first + ports; ++p) arguments[p] = value_of(wires.feeds[p], in, made);
    return {arguments.data() + first, ports};
  }
  // Runs layer i; false where it failed in a scope that explains. One function per type of layer, not one per layer: a net has
  // many layers of few types.
  template <class L, class S, class V> [[gnu::noinline]] constexpr bool run_at(const L& layer, std::size_t i, S& scope,
                                                                               view<const V> in, view<V> made,
                                                                               view<V> arguments) const {
    const auto ports = detail::layer_inputs(layer);
    const auto given = gathered(i, ports.size(), in, view<const V>(made.data(), made.size()), arguments);
    auto inner = scope.nested(names[i]);
    auto out = made.subview(static_cast<std::size_t>(wires.first_out[i]), detail::layer_outputs(layer).size());
    detail::run_layer(inner, layer, given, out);
    if constexpr (requires { inner.explain(std::string_view(), ports, given, view<const endpoint>()); })
      if (inner.failed()) {
        work_array<endpoint> fed_by(ports.size());
        for (std::size_t p = 0; p < ports.size(); ++p)
          fed_by[p] = name_of(wires.feeds[static_cast<std::size_t>(wires.first_in[i]) + p]);
        inner.explain(detail::layer_kind(layer), ports, given, view<const endpoint>(fed_by.data, fed_by.size));
        return false;
      }
    return true;
  }
  template <class S, class V> using step = bool (*)(const topology_value&, S&, view<const V>, view<V>, view<V>);
  template <std::size_t I, class S, class V>
  static constexpr bool run_one(const topology_value& t, S& scope, view<const V> in, view<V> made, view<V> arguments) {
    return t.run_at(t.layers.template get<I>(), I, scope, in, made, arguments);
  }
  template <class S, class V> static constexpr auto steps = []<std::size_t... I>(std::index_sequence<I...>) {
    return std::array<step<S, V>, size>{&run_one<I, S, V>...};
  }(std::make_index_sequence<size>{});
};

template <class T> inline constexpr bool is_topology = false;
template <class Layers, std::size_t Edges> inline constexpr bool is_topology<topology_value<Layers, Edges>> = true;

// ---- how one is written ---------------------------------------------------------------------------------------------
// No fold expressions and no constrained packs: both nest once per argument, and Clang stops at 256.

enum class argument_kind : char { layer, named, edge, other };
template <class T> consteval argument_kind kind_of_argument() {
  if constexpr (is_named_layer<T>) return argument_kind::named;
  else if constexpr (std::is_same_v<T, connection>) return argument_kind::edge;
  else if constexpr (Layer<T>) return argument_kind::layer;
  else return argument_kind::other;
}
template <class... A> struct topology_arguments_check {
  static consteval text message() {
    argument_kind kinds[] = {kind_of_argument<A>()..., argument_kind::other};
    text t;
    std::size_t layers = 0;
    for (std::size_t i = 0; i < sizeof...(A); ++i) {
      layers += kinds[i] == argument_kind::named;
      if (kinds[i] == argument_kind::named || kinds[i] == argument_kind::edge) continue;
      std::string_view names[] = {type_name<A>()..., {}};
      t << "argument " << i + 1 << " of topology(...) is `" << names[i] << "`";
      if (kinds[i] == argument_kind::layer)
        return t << ", a layer without a name; write it as a sublayer with its name";
      std::string_view reasons[] = {no_layer_because<A>()..., {}};
      return t << reasons[i] << "; topology(...) takes sublayers and connections";
    }
    if (!layers) t << "topology(...) needs at least one sublayer";
    return t;
  }
};
template <class... A> struct sequential_arguments_check {
  static consteval text message() {
    argument_kind kinds[] = {kind_of_argument<A>()..., argument_kind::other};
    text t;
    if (!sizeof...(A)) t << "sequential(...) needs at least one layer";
    for (std::size_t i = 0; i < sizeof...(A); ++i) {
      if (kinds[i] == argument_kind::named || kinds[i] == argument_kind::layer) continue;
      std::string_view names[] = {type_name<A>()..., {}};
      t << "argument " << i + 1 << " of sequential(...) is `" << names[i] << "`";
      if (kinds[i] == argument_kind::edge) t << "; it takes layers and sublayers only and connects each to the next";
      else {
        std::string_view reasons[] = {no_layer_because<A>()..., {}};
        t << reasons[i];
      }
      break;
    }
    return t;
  }
};

template <class... A> struct sorted_arguments {
  static constexpr std::size_t count(argument_kind wanted) {
    argument_kind kinds[] = {kind_of_argument<A>()..., argument_kind::other};
    std::size_t n = 0;
    for (std::size_t i = 0; i < sizeof...(A); ++i) n += kinds[i] == wanted;
    return n;
  }
  static constexpr std::size_t layers = count(argument_kind::named), edges = count(argument_kind::edge);
  static constexpr auto where = [] {
    argument_kind kinds[] = {kind_of_argument<A>()..., argument_kind::other};
    std::array<std::size_t, layers> w{};
    std::size_t n = 0;
    for (std::size_t i = 0; i < sizeof...(A); ++i)
      if (kinds[i] == argument_kind::named) w[n++] = i;
    return w;
  }();
};
template <class A> constexpr void take_edge(connection* to, std::size_t& n, const A& a) {
  if constexpr (std::is_same_v<A, connection>) to[n++] = a;
}
template <class T> struct layer_of {
  using type = T;
};
template <class L> struct layer_of<named_layer<L>> {
  using type = L;
};

/// Layers and their connections, in any order: `topology(sublayer<"dot">(nn::dot{}), connect<"input", "dot.lhs">,
/// ...)`. Bind it to an `inline constexpr` variable, or in a function to a `static constexpr` one. A layer may make one in
/// its `forward`, of its own numbers, and run it there.
export template <class... A> requires accepted<diagnostic<topology_arguments_check<A...>>()>
constexpr auto topology(A... parts) {
  using sorted = sorted_arguments<A...>;
  std::array<connection, sorted::edges> edges{};
  std::size_t n = 0;
  [[maybe_unused]] int taken[] = {(take_edge(edges.data(), n, parts), 0)...};
  const pack<A...> all{{parts}...};
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    using layers = pack<typename layer_of<pick_type<sorted::where[I], A...>>::type...>;
    topology_value<layers, sorted::edges> t{.layers = {{all.template get<sorted::where[I]>().value}...},
                                            .names = {all.template get<sorted::where[I]>().name...},
                                            .edges = edges};
    text ignored;
    t.wires = t.analyzed(ignored);
    return t;
  }(std::make_index_sequence<sorted::layers>{});
}

/// Layers one after the other. One without a name is named by its position, as in PyTorch: `0.weight`, `2.weight`.
export template <class... A> requires accepted<diagnostic<sequential_arguments_check<A...>>()>
constexpr auto sequential(A... parts) {
  auto value = [](const auto& a) -> const auto& {
    if constexpr (is_named_layer<std::remove_cvref_t<decltype(a)>>) return a.value;
    else return a;
  };
  std::size_t position = 0;
  auto name = [&](const auto& a) {
    text number;
    number << position++;
    if constexpr (is_named_layer<std::remove_cvref_t<decltype(a)>>) return a.name;
    else return label(number.view());
  };
  topology_value<pack<typename layer_of<A>::type...>, 0> t{
      .layers = {{value(parts)}...}, .names = {name(parts)...}, .edges = {}, .chain = true};
  text ignored;
  t.wires = t.analyzed(ignored);
  return t;
}

}  // namespace lamina
