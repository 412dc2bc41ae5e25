// Policies that layers read, except training and element type: structure, axes, recurrence, device and generator. Each
// is a value with a default; a user's own policy is a struct like these.
export module lamina:policy.kinds;
import :core;
import lamina.std;

namespace lamina {

// ---- structure of layers --------------------------------------------------------------------------------------------

// `forward` is a template, so a call cannot detect it; but naming it is ambiguous in a class that inherits the name
// twice.
struct names_forward {
  int forward;
};
template <class L> struct names_forward_twice : L, names_forward {};
template <class L>
concept HasForward = std::is_class_v<L> && !__is_final(L) && !requires { &names_forward_twice<L>::forward; };
template <class L>
concept HasForwardPorts = requires { L::has_forward_ports; };

/// Whether layers with weights add a bias; false removes it from layers that have one by default.
export struct use_bias {
  bool value = true;
};

/// Kind of `activation(layer)`; without a layer by default.
export struct activation_kind {};
template <class L> struct activation_policy {
  using kind = activation_kind;
  L value;
};
template <class L> struct activation_check {
  static consteval text message() {
    text t;
    if (!HasForward<L> && !HasForwardPorts<L>)
      t << "activation is given `" << type_name<L>() << "`, not a layer: a layer is a class with a member `forward`";
    return t;
  }
};
/// The layer that a perceptron applies to its product, or a recurrent layer in its step: `activation(nn::tanh{})`.
export template <class L> requires accepted<diagnostic<activation_check<L>>()>
consteval activation_policy<L> activation(L layer) {
  return {layer};
}

// ---- axes -----------------------------------------------------------------------------------------------------------
// `axes(0, -1)` is a policy; the default is all axes.

/// Whether reductions keep the reduced axes, with extent 1.
export struct keepdim {
  bool value = false;
};
/// Number of axes that an operation takes from the end of its left operand and the beginning of its right one.
export struct axis_count {
  std::int64_t value = 1;
};

// ---- recurrence -----------------------------------------------------------------------------------------------------

/// Kind of `sequence<Port, Axis>`; no sequence by default.
export template <fixed_string Port> struct sequence_kind {
  static constexpr bool given = false;
};
template <fixed_string Port, std::int64_t Axis> struct sequence_policy {
  using kind = sequence_kind<Port>;
  static constexpr bool given = true;
  static constexpr auto port = Port;
  static constexpr std::int64_t axis = Axis;
};
/// Makes a recurrent layer iterate over an axis of a port: `sequence<"input", 0>`.
export template <fixed_string Port, std::int64_t Axis> inline constexpr sequence_policy<Port, Axis> sequence{};

/// Whether gradients flow back through time, across steps.
export struct bptt {
  bool value = true;
};

// ---- device and generator -------------------------------------------------------------------------------------------

template <fixed_string Name> struct device_check {
  static consteval text message() {
    text t;
    if (Name.view() != "cpu") t << "device `" << Name.view() << "` does not exist; the only one is `cpu`";
    return t;
  }
};
/// Kind of `device<Name>`.
export struct device_kind {
  static constexpr std::string_view name = "cpu";
};
template <fixed_string Name> struct device_policy {
  using kind = device_kind;
  static constexpr std::string_view name = Name.view();
};
/// Device that computes results: `device<"cpu">`.
export template <fixed_string Name> requires no_error<device_check<Name>> inline constexpr device_policy<Name> device{};

template <fixed_string Name> struct engine_check {
  static consteval text message() {
    text t;
    if (Name.view() != "philox")
      t << "random engine `" << Name.view()
        << "` does not exist; the only one is `philox`, whose bits do not depend on the number of threads";
    return t;
  }
};
/// Kind of `random_engine<Name>`.
export struct random_engine_kind {
  static constexpr std::string_view name = "philox";
};
template <fixed_string Name> struct random_engine_policy {
  using kind = random_engine_kind;
  static constexpr std::string_view name = Name.view();
};
/// Generator used by initializers and random layers: `random_engine<"philox">`.
export template <fixed_string Name> requires no_error<engine_check<Name>>
inline constexpr random_engine_policy<Name> random_engine{};

}  // namespace lamina
