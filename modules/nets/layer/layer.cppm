// The layer concept and how layers run. A layer is any copyable class with `forward`, which takes a scope (access to
// parameters, states and nested layers by name) and one value per input port.
export module lamina:layer;
import :core;
import :policy;
import :policy.kinds;
import :tensor;
import lamina.std;

namespace lamina {

// ---- the concept ----------------------------------------------------------------------------------------------------

/// A layer: a copyable class with `forward(scope, inputs...)`, or a topology. Optional members, with their
/// defaults: `kind()` (the type's name), `inputs()` and `outputs()` (one port: `input`, `output`), `check(types, why)`.
export template <class L>
concept Layer = std::is_copy_constructible_v<L> && (HasForward<L> || HasForwardPorts<L>);

/// Port names declared by a layer: `static constexpr view<const label> inputs() { return port_names<"lhs", "rhs">; }`.
export template <fixed_string... Name>
inline constexpr std::array<label, sizeof...(Name)> port_names{label(Name.view())...};

// ---- policies of a scope --------------------------------------------------------------------------------------------

/// Policy of a kind that applies to the layer of this scope, at compile time and when it is traced:
/// `policy_of<keepdim>(s).value`. The kind's default if the scope has no policies.
export template <class Kind, class S> constexpr Kind policy_of(const S& scope) {
  if constexpr (requires { typename S::policy_type; }) return scope.template policy<Kind>();
  else return Kind{};
}
/// Whether a layer with a member `bias` adds a bias: both the member and the policy `use_bias` must be true.
constexpr bool biased(const auto& layer, const auto& scope) { return layer.bias && policy_of<use_bias>(scope).value; }
/// `policy_of` for policies that carry types, such as `activation(nn::tanh{})`: calls f with the policy that applies.
/// f must return the same type for all policies that the model allows.
template <class Kind, class S, class F> constexpr auto with_policy(const S& scope, F&& f) {
  if constexpr (requires { typename S::policy_type; }) return scope.template visit_policy<Kind>(f);
  else return f(Kind{});
}

// Array that constant evaluation can allocate: vector(n) cannot be used there with libstdc++ 12.
template <class T> struct work_array {
  T* data;
  std::size_t size;
  constexpr explicit work_array(std::size_t n) : data(new T[n]{}), size(n) {}
  constexpr ~work_array() { delete[] data; }
  work_array(const work_array&) = delete;
  work_array& operator=(const work_array&) = delete;
  constexpr T& operator[](std::size_t i) { return data[i]; }
  constexpr T& operator[](int i) { return data[i]; }
  constexpr view<T> all() { return {data, size}; }
};

constexpr void list_names(text& t, view<const label> names) {
  for (std::size_t i = 0; i < names.size(); ++i) t << (i ? ", `" : " `") << names[i] << "`";
}
// ---- properties and execution of a layer ----------------------------------------------------------------------------

namespace detail {
template <Layer L> constexpr std::string_view layer_kind(const L& l) {
  if constexpr (requires { l.kind(); }) return l.kind();
  else {
    constexpr std::string_view whole = type_name<L>(), name = whole.substr(0, whole.find('<'));
    constexpr auto colons = name.rfind("::");
    return colons == std::string_view::npos ? name : name.substr(colons + 2);
  }
}
template <Layer L> constexpr view<const label> layer_inputs(const L& l) {
  if constexpr (requires { l.inputs(); }) return l.inputs();
  else return port_names<"input">;
}
template <Layer L> constexpr view<const label> layer_outputs(const L& l) {
  if constexpr (requires { l.outputs(); }) return l.outputs();
  else return port_names<"output">;
}

/// Appends the diagnostic of the layer's own `check` of its input types to `why`; nothing if it has no check or passes.
template <Layer L> constexpr void check_layer(const L& l, view<const tensor_type> in, text& why) {
  if constexpr (requires { l.check(in, why); }) l.check(in, why);
}

// Port counts where the type alone gives them, else 1.
template <class L> consteval std::size_t input_count() {
  if constexpr (requires { L::inputs(); }) return L::inputs().size();
  else return 1;
}
template <class L> consteval std::size_t output_count() {
  if constexpr (requires { L::outputs(); }) return L::outputs().size();
  else return 1;
}

// Whether `forward` accepts a scope and one value per input port.
template <class L, class S, class V>
concept Forwards = HasForwardPorts<L> || []<std::size_t... I>(std::index_sequence<I...>) {
  return requires(const L& l, S& scope, view<const V> in) { l.forward(scope, in[I]...); };
}(std::make_index_sequence<input_count<L>()>{});

// The same for a `forward` that is not const.
template <class L, class S, class V>
concept ForwardsUnlessConst = []<std::size_t... I>(std::index_sequence<I...>) {
  return requires(L& l, S& scope, view<const V> in) { l.forward(scope, in[I]...); };
}(std::make_index_sequence<input_count<L>()>{});

/// Runs a layer in its own scope, with one value per input and output port. A scope may inspect the inputs (`enter`)
/// and reject them, in which case the layer does not run; it may inspect the results (`leave`).
template <class S, Layer L, class V> constexpr void run_layer(S& scope, const L& l, view<const V> in, view<V> out) {
  if constexpr (requires { scope.enter(l, in); })
    if (!scope.enter(l, in)) return;
  if constexpr (HasForwardPorts<L>) l.forward_ports(scope, in, out);
  else if constexpr (Forwards<L, S, V> || !requires { typename V::only_a_type; })  // else `enter` has rejected it
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      if constexpr (output_count<L>() == 1) out[0] = l.forward(scope, in[I]...);
      else {
        auto all = l.forward(scope, in[I]...);  // an array of one value per output port
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = all[i];
      }
    }(std::make_index_sequence<input_count<L>()>{});
  if constexpr (requires { scope.leave(view<const V>(out.data(), out.size())); })
    scope.leave(view<const V>(out.data(), out.size()));
}
}  // namespace detail

}  // namespace lamina
