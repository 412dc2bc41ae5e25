// Layers that apply one function to their input.
export module lamina:layer.activation;
import :op.elementwise;
import :op.reduce;
import lamina.std;

namespace lamina::nn {

/// max(x, 0).
export struct relu {
  constexpr auto forward(auto&, const auto& x) const { return lamina::relu(x); }
};
/// 1 / (1 + exp(-x)).
export struct sigmoid {
  constexpr auto forward(auto&, const auto& x) const { return lamina::sigmoid(x); }
};
/// Hyperbolic tangent.
export struct tanh {
  constexpr auto forward(auto&, const auto& x) const { return lamina::tanh(x); }
};
/// Positive numbers along one axis that sum to 1.
export struct softmax {
  std::int64_t axis = -1;
  constexpr auto forward(auto&, const auto& x) const { return lamina::softmax(x, {.axis = axis}); }
};
/// The logarithm of softmax, computed without loss of small numbers.
export struct log_softmax {
  std::int64_t axis = -1;
  constexpr auto forward(auto&, const auto& x) const { return lamina::log_softmax(x, {.axis = axis}); }
};

}  // namespace lamina::nn
