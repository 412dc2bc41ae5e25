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

}  // namespace lamina::nn
