// A loss as a layer, for nets that end in the number they are trained by.
export module lamina:layer.loss;
import :core;
import :layer;
import :op.loss;
import :tensor;
import lamina.std;

namespace lamina::nn {

/// Negative log likelihood of probabilities under weights: -sum(weights log input) / sum(weights).
/// Shapes:  input [...], weights the same -> [].   Units: nats.
/// Numerics: behind a softmax the gradient divides by no probability, and is right where one of them is 0.
/// Errors:  one with a message where the shapes differ.
export struct nll_loss {
  static constexpr view<const label> inputs() { return port_names<"input", "weights">; }
  constexpr auto forward(auto&, const auto& input, const auto& weights) const {
    return lamina::nll_loss(weights, input);
  }
};

/// Softmax cross entropy of logits, averaged.   Shapes: input [..., C], target [...] int64 -> [].
/// Errors:  value_error at run time for a class outside 0..C-1, naming it and its sample.
export struct cross_entropy_loss {
  static constexpr view<const label> inputs() { return port_names<"input", "target">; }
  constexpr auto forward(auto&, const auto& input, const auto& target) const {
    return lamina::cross_entropy(input, target);
  }
};
/// Mean of squared differences.   Shapes: input and target of one shape -> [].   Errors: one with a message where they differ.
export struct mse_loss {
  static constexpr view<const label> inputs() { return port_names<"input", "target">; }
  constexpr auto forward(auto&, const auto& input, const auto& target) const { return lamina::mse(input, target); }
};
/// Mean of absolute differences.   Shapes and errors: as `mse_loss`.
export struct l1_loss {
  static constexpr view<const label> inputs() { return port_names<"input", "target">; }
  constexpr auto forward(auto&, const auto& input, const auto& target) const { return lamina::l1_loss(input, target); }
};

}  // namespace lamina::nn
