// Models that go on from others: which parameters are trained, by patterns of names, and new heads of nets from files.
export module lamina:transfer;
import :core;
import :layer;
import :model;
import :parameter;
import :program;
import :saved;
import lamina.std;

namespace lamina {

/// Sets whether training changes the parameters whose names are of a pattern, and gives their names. Errors: value_error for a
/// pattern that fits none, with the nearest name; nothing is changed then.
std::vector<std::string> set_trainable(parameter_store& all, view<const std::string_view> patterns, bool on);

/// What has parameters by name: a model, a net from a file, or their store.
template <class M>
concept HasParameters = std::same_as<M, parameter_store> || std::same_as<M, model_core> || is_model<M>;

namespace detail {
template <HasParameters M> parameter_store& parameters_of(M& net) {
  if constexpr (std::same_as<M, parameter_store>) return net;
  else return net.parameters();
}
}  // namespace detail

/// Keeps the parameters whose names are of a pattern as they are: `freeze(net, "stem.*", "*.bias")`, in which `*` stands for any letters
/// and `?` for one. Training computes no gradients of them; it goes on with the others, also where it has begun. Gives the names of
/// the parameters. Running statistics are no parameters: those of a batch norm go on. Errors: value_error for a pattern that fits no
/// parameter, with the nearest name; nothing is changed then.
export template <HasParameters M, std::convertible_to<std::string_view>... Pattern> requires(sizeof...(Pattern) > 0)
std::vector<std::string> freeze(M& net, const Pattern&... patterns) {
  const std::string_view all[] = {patterns...};
  return set_trainable(detail::parameters_of(net), all, false);
}
/// Has training change them again. Errors: as `freeze`.
export template <HasParameters M, std::convertible_to<std::string_view>... Pattern> requires(sizeof...(Pattern) > 0)
std::vector<std::string> unfreeze(M& net, const Pattern&... patterns) {
  const std::string_view all[] = {patterns...};
  return set_trainable(detail::parameters_of(net), all, true);
}

// ---- heads ----------------------------------------------------------------------------------------------------------

struct head_options {
  std::string name = "head";  ///< its parameters are `head.weight` and so on
  std::int64_t seed = 0;      ///< of their first values
};

/// The net up to its head: everything that depends on the states whose names are of a pattern. The output that does is then the value
/// that the head took, as the features of a picture; states that are not read any more are left out.
/// Errors: value_error for a pattern that fits no parameter that the net reads, with the nearest name, and where not one output depends on
/// the head, or the head takes not one value of the net.
export saved_net without_head(const saved_net& net, std::string_view pattern);

namespace detail {
saved_net with_head(const saved_net& net, std::string_view pattern, const head_options& o,
                    const std::function<value(const trace_scope&, const value& features)>& head);
}  // namespace detail

/// The net with another head: a layer or a topology of one input and one output in the place of everything that depends on the states
/// whose names are of a pattern. `core_of(with_head(load_net("resnet"), "fc.*", nn::linear{.in_features = 512, .out_features = 10}))`
/// is then trained; the head, too, runs as at inference. Errors: as `without_head`; shape_error where the layer does not take what the head
/// took; state_error where the net has a state of the name of a new one.
export template <Layer L> requires(detail::input_count<L>() == 1 && detail::output_count<L>() == 1)
saved_net with_head(const saved_net& net, std::string_view pattern, const L& head, const head_options& o = {}) {
  return detail::with_head(net, pattern, o, [&](const trace_scope& s, const value& features) {
    return s.call(s.nested(label(o.name)), head, features);
  });
}

}  // namespace lamina
