// What a layer is, and how one is run: any copyable class with `forward`, which is called with a scope (where
// parameters, states and nested layers are found by name) and one value per input port.
export module lamina:layer;
import :core;
import :policy;
import :policy.kinds;
import :tensor;
import lamina.std;

namespace lamina {

// ---- the concept ----------------------------------------------------------------------------------------------------

/// A layer: a class that can be copied, with `forward(scope, inputs...)`, or a topology. Optional members, with their
/// defaults: `kind()` (the type's name), `inputs()` and `outputs()` (one port: `input`, `output`), `check(types, why)`.
export template <class L>
concept Layer = std::is_copy_constructible_v<L> && (HasForward<L> || HasForwardPorts<L>);

/// Port names as a layer states them: `static constexpr view<const label> inputs() { return port_names<"lhs", "rhs">; }`.
export template <fixed_string... Name>
inline constexpr std::array<label, sizeof...(Name)> port_names{label(Name.view())...};

// ---- what a layer asks of its scope ---------------------------------------------------------------------------------

/// The policy of a kind that is in force for the layer of this scope, at compile time and when it is traced:
/// `policy_of<keepdim>(s).value`. The kind's default where the scope has no policies.
export template <class Kind, class S> constexpr Kind policy_of(const S& scope) {
  if constexpr (requires { typename S::policy_type; }) return scope.template policy<Kind>();
  else return Kind{};
}
/// Whether a layer with a member `bias` has one: where both the member and the policy say so.
constexpr bool biased(const auto& layer, const auto& scope) { return layer.bias && policy_of<use_bias>(scope).value; }
/// The same for policies that carry types, such as `activation(nn::tanh{})`: calls f with the one in force. All calls
/// that the model's policies allow return one type.
template <class Kind, class S, class F> constexpr auto with_policy(const S& scope, F&& f) {
  if constexpr (requires { typename S::policy_type; }) return scope.template visit_policy<Kind>(f);
  else return f(Kind{});
}

// Memory for one constant evaluation: vector(n) is not usable there with libstdc++ 12.
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
// ---- what a layer says of itself ------------------------------------------------------------------------------------

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

/// Message of a layer's own check of its input types; empty where it has no check or finds no fault.
template <Layer L> constexpr void check_layer(const L& l, view<const tensor_type> in, text& why) {
  if constexpr (requires { l.check(in, why); }) l.check(in, why);
}

// Numbers of ports that are known from the type alone.
template <class L> consteval std::size_t input_count() {
  if constexpr (requires { L::inputs(); }) return L::inputs().size();
  else return 1;
}
template <class L> consteval std::size_t output_count() {
  if constexpr (requires { L::outputs(); }) return L::outputs().size();
  else return 1;
}

// Whether `forward` takes a scope and a value for each input port.
template <class L, class S, class V>
concept Forwards = HasForwardPorts<L> || []<std::size_t... I>(std::index_sequence<I...>) {
  return requires(const L& l, S& scope, view<const V> in) { l.forward(scope, in[I]...); };
}(std::make_index_sequence<input_count<L>()>{});

// The same but for `const`.
template <class L, class S, class V>
concept ForwardsUnlessConst = []<std::size_t... I>(std::index_sequence<I...>) {
  return requires(L& l, S& scope, view<const V> in) { l.forward(scope, in[I]...); };
}(std::make_index_sequence<input_count<L>()>{});

/// Runs a layer in its own scope, from and to one value per port. A scope may look at the inputs first (`enter`) and
/// refuse; then nothing runs. It may look at the results (`leave`).
template <class S, Layer L, class V> constexpr void run_layer(S& scope, const L& l, view<const V> in, view<V> out) {
  if constexpr (requires { scope.enter(l, in); })
    if (!scope.enter(l, in)) return;
  if constexpr (HasForwardPorts<L>) l.forward_ports(scope, in, out);
  else if constexpr (Forwards<L, S, V> || !requires { typename V::only_a_type; })  // else `enter` has refused it
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
