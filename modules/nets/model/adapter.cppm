// Low-rank adapters (LoRA): training updates two thin factors per weight; the weight itself is frozen.
export module lamina:adapter;
import :core;
import :io;
import :model;
import :tensor;
import :transfer;
import lamina.std;

namespace lamina {

/// Options for creating adapters.
export struct lora_options {
  std::int64_t rank = 8;
  double alpha = 16;      ///< the product of the factors is scaled by alpha / rank
  std::int64_t seed = 0;  ///< of the initial values of `a`
};

/// Result of `merge_lora`: the exact original weights and their adapters. Discard it to free the memory; the model
/// keeps the merged weights.
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

/// A model or a `model_core`, such as a net from a file.
template <class M>
concept HasCore = std::same_as<M, model_core> || is_model<M>;

/// Adds adapters to weights that match a pattern: `add_lora(net, {"*.q_proj.weight", "*.v_proj.weight"}, {.rank = 8})`.
/// Each weight W [out, in] gets the parameters `W.lora_a` [rank, in], initialized like a linear layer's weight, and
/// `W.lora_b` [out, rank], zeros. The model computes with W + alpha / rank b a, so its results are unchanged at first.
/// All parameters but the adapters' are frozen; `unfreeze` makes others trainable, such as a new head's. Returns the
/// names of the weights. Each matrix product with W costs two additional thin products; other readers of W read the
/// sum, computed in each run.
/// Errors: value_error for a rank below 1, an alpha that is not finite, a pattern that matches no weight of rank 2 or
/// more that the model reads, with the nearest name, and for a weight that already has an adapter; nothing is changed
/// then.
/// Source:  Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021), arXiv:2106.09685.
export template <HasCore M>
std::vector<std::string> add_lora(M& net, const std::vector<std::string>& patterns, const lora_options& o = {}) {
  return detail::add_lora(detail::core_of_model(net), patterns, o);
}
/// Writes only the adapters, as safetensors: `W.lora_a`, `W.lora_b` and `W.lora_scale` for each weight W. Errors:
/// state_error for a model without adapters; file_error.
export template <HasCore M> void save_lora(const M& net, const std::string& path) {
  detail::save_lora(detail::core_of_model(net), path);
}
/// Loads adapters from a file, replacing existing adapters of the same weights; freezes other parameters like
/// `add_lora`. Returns the names of the weights. Errors: file_error, also for a weight that is missing in the model or
/// has another shape; nothing is changed then.
export template <HasCore M> std::vector<std::string> load_lora(M& net, const std::string& path) {
  return detail::load_lora(detail::core_of_model(net), path);
}
/// Adds the adapters to the weights and removes them: the model then costs as much as one without adapters. Results
/// differ from those before in the last bits. Errors: state_error for a model without adapters.
export template <HasCore M> merged_lora merge_lora(M& net) { return detail::merge_lora(detail::core_of_model(net)); }
/// Restores the exact weights from before the merge, and the adapters. Training of those weights since then is lost.
/// Errors: state_error if the model has adapters or lacks one of the weights; nothing is changed then.
export template <HasCore M> void unmerge_lora(M& net, const merged_lora& base) {
  detail::unmerge_lora(detail::core_of_model(net), base);
}

}  // namespace lamina
