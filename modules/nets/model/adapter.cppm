// Low-rank adapters of weights: a model is trained through two thin factors beside each weight, which stays as it is.
export module lamina:adapter;
import :core;
import :io;
import :model;
import :tensor;
import :transfer;
import lamina.std;

namespace lamina {

/// How adapters are made.
export struct lora_options {
  std::int64_t rank = 8;
  double alpha = 16;      ///< the product of the factors counts alpha / rank times
  std::int64_t seed = 0;  ///< of the first values of `a`
};

/// What `merge_lora` gives: the weights as they were, bit by bit, and their adapters. Without it the memory is free, and the model keeps the
/// merged weights.
export class merged_lora {
 public:
  std::size_t bytes() const;

 private:
  friend struct lora_access;
  std::vector<weight_adapter> adapters_;
  std::vector<named_tensor> weights_, factors_;
};

namespace detail {
std::vector<std::string> add_lora(model_core& net, const std::vector<std::string>& patterns, const lora_options& o);
void save_lora(const model_core& net, const std::string& path);
std::vector<std::string> load_lora(model_core& net, const std::string& path);
merged_lora merge_lora(model_core& net);
void unmerge_lora(model_core& net, const merged_lora& base);
template <class M> auto& core_of_model(M& net) {
  if constexpr (std::same_as<std::remove_cv_t<M>, model_core>) return net;
  else return net.core();
}
}  // namespace detail

/// A model, or a net from a file.
template <class M>
concept HasCore = std::same_as<M, model_core> || is_model<M>;

/// Gives weights adapters, by patterns of names: `add_lora(net, {"*.q_proj.weight", "*.v_proj.weight"}, {.rank = 8})`. Beside a weight
/// W [out, in] come the parameters `W.lora_a` [rank, in], drawn as a weight of a linear layer, and `W.lora_b` [out, rank], zeros, and the model
/// computes with W + alpha / rank b a, so that its results stay as they are at first. All other parameters are frozen but those of adapters;
/// `unfreeze` has some trained along, as those of a new head. Gives the names of the weights.
/// Products with W as a matrix cost two thin products more; whatever else reads W reads the sum, which is then computed in each run.
/// Errors: value_error for a rank below 1, an alpha that is not finite, a pattern that fits no weight of two axes or more that the model reads,
/// with the nearest name, and for a weight that has an adapter; nothing is changed then.
/// Source:  Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021), arXiv:2106.09685.
export template <HasCore M>
std::vector<std::string> add_lora(M& net, const std::vector<std::string>& patterns, const lora_options& o = {}) {
  return detail::add_lora(detail::core_of_model(net), patterns, o);
}
/// Writes the adapters alone as safetensors: of each weight W `W.lora_a`, `W.lora_b` and `W.lora_scale`. Errors: state_error for a model without
/// adapters; file_error.
export template <HasCore M> void save_lora(const M& net, const std::string& path) {
  detail::save_lora(detail::core_of_model(net), path);
}
/// Gives a model the adapters of a file, in the place of those that the same weights have; other parameters are frozen as `add_lora` does.
/// Gives the names of the weights. Errors: file_error, also for a weight that the model has not, or of other extents; nothing is changed then.
export template <HasCore M> std::vector<std::string> load_lora(M& net, const std::string& path) {
  return detail::load_lora(detail::core_of_model(net), path);
}
/// Adds the adapters to the weights and takes them away: the model computes at the cost of one that never had any. Results differ from those
/// before in last bits. Errors: state_error for a model without adapters.
export template <HasCore M> merged_lora merge_lora(M& net) { return detail::merge_lora(detail::core_of_model(net)); }
/// Gives a model its weights back as they were before it was merged, bit by bit, and its adapters. What was trained of those weights since is
/// lost. Errors: state_error where the model has adapters, or not the weights; nothing is changed then.
export template <HasCore M> void unmerge_lora(M& net, const merged_lora& base) {
  detail::unmerge_lora(detail::core_of_model(net), base);
}

}  // namespace lamina
