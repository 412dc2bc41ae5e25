// Transfer learning: freezing parameters by name pattern, and new heads for nets from files.
export module lamina:transfer;
import :core;
import :layer;
import :model;
import :parameter;
import :program;
import :saved;
import lamina.std;

namespace lamina {

/// Sets whether the parameters that match a pattern are trainable; returns their names. Errors: value_error for a
/// pattern without a match, with the nearest name; nothing is changed then.
std::vector<std::string> set_trainable(parameter_store& all, view<const std::string_view> patterns, bool on);

/// A type with named parameters: a model, a `model_core`, or a parameter store.
template <class M>
concept HasParameters = std::same_as<M, parameter_store> || std::same_as<M, model_core> || is_model<M>;

namespace detail {
template <HasParameters M> parameter_store& parameters_of(M& net) {
  if constexpr (std::same_as<M, parameter_store>) return net;
  else return net.parameters();
}
}  // namespace detail

/// Freezes the parameters that match a pattern: `freeze(net, "stem.*", "*.bias")`; `*` matches any characters, `?` one.
/// Returns their names. Training, also one in progress, computes no gradients for them and continues with the others.
/// Running statistics are not parameters: those of a batch norm are still updated. Errors: value_error for a pattern
/// that matches no parameter, with the nearest name; nothing is changed then.
export template <HasParameters M, std::convertible_to<std::string_view>... Pattern> requires(sizeof...(Pattern) > 0)
std::vector<std::string> freeze(M& net, const Pattern&... patterns) {
  const std::string_view all[] = {patterns...};
  return set_trainable(detail::parameters_of(net), all, false);
}
/// Makes parameters trainable again. Errors: as `freeze`.
export template <HasParameters M, std::convertible_to<std::string_view>... Pattern> requires(sizeof...(Pattern) > 0)
std::vector<std::string> unfreeze(M& net, const Pattern&... patterns) {
  const std::string_view all[] = {patterns...};
  return set_trainable(detail::parameters_of(net), all, true);
}

// ---- heads ----------------------------------------------------------------------------------------------------------

struct head_options {
  std::string name = "head";  ///< prefix of its parameters: `head.weight` and so on
  std::int64_t seed = 0;      ///< of their initial values
};

/// Removes the head: everything that depends on the states that match the pattern. The head's output is replaced by the
/// value that the head read, such as the features of an image; states that are no longer read are dropped.
/// Errors: value_error for a pattern that matches no parameter of the net, with the nearest name, unless exactly one
/// output depends on the head, and unless the head reads exactly one value of the net.
export saved_net without_head(const saved_net& net, std::string_view pattern);

namespace detail {
saved_net with_head(const saved_net& net, std::string_view pattern, const head_options& o,
                    const std::function<value(const trace_scope&, const value& features)>& head);
}  // namespace detail

/// Replaces the head, that is, everything that depends on the states that match the pattern, by a layer or topology
/// with one input and one output. To train the result, pass it to `core_of`:
/// `core_of(with_head(load_net("resnet"), "fc.*", nn::linear{.in_features = 512, .out_features = 10}))`; the head, too,
/// runs in inference mode. Errors: as `without_head`; shape_error if the layer does not accept the input of the old
/// head; state_error if a new state has the name of an existing one.
export template <Layer L> requires(detail::input_count<L>() == 1 && detail::output_count<L>() == 1)
saved_net with_head(const saved_net& net, std::string_view pattern, const L& head, const head_options& o = {}) {
  return detail::with_head(net, pattern, o, [&](const trace_scope& s, const value& features) {
    return s.call(s.nested(label(o.name)), head, features);
  });
}

}  // namespace lamina
