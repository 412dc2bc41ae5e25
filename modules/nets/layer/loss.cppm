// Losses as layers, for nets whose result is the training loss.
export module lamina:layer.loss;
import :core;
import :layer;
import :op.loss;
import :tensor;
import lamina.std;

namespace lamina::nn {

/// Weighted negative log likelihood of probabilities: -sum(weights log input) / sum(weights).
/// Shapes:  input [...], weights the same -> [].   Units: nats.
/// Numerics: after a softmax the gradient does not divide by the probabilities, and is correct where one of them is 0.
/// Errors:  a diagnostic if the shapes differ.
export struct nll_loss {
  static constexpr view<const label> inputs() { return port_names<"input", "weights">; }
  constexpr auto forward(auto&, const auto& input, const auto& weights) const {
    return lamina::nll_loss(weights, input);
  }
};

/// Softmax cross-entropy of logits, averaged over all targets.   Shapes: input [..., C], target [...] int64 -> [].
/// Errors:  value_error at run time for a class outside 0..C-1, naming it and its sample.
export struct cross_entropy_loss {
  static constexpr view<const label> inputs() { return port_names<"input", "target">; }
  constexpr auto forward(auto&, const auto& input, const auto& target) const {
    return lamina::cross_entropy(input, target);
  }
};
/// Mean squared error.   Shapes: input and target of equal shape -> [].   Errors: a diagnostic if the shapes differ.
export struct mse_loss {
  static constexpr view<const label> inputs() { return port_names<"input", "target">; }
  constexpr auto forward(auto&, const auto& input, const auto& target) const { return lamina::mse(input, target); }
};
/// Mean absolute error.   Shapes and errors: as `mse_loss`.
export struct l1_loss {
  static constexpr view<const label> inputs() { return port_names<"input", "target">; }
  constexpr auto forward(auto&, const auto& input, const auto& target) const { return lamina::l1_loss(input, target); }
};

}  // namespace lamina::nn
