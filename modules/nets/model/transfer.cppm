// What is trained of a model, by patterns of names.
export module lamina:transfer;
import :core;
import :model;
import :parameter;
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

}  // namespace lamina
