// Layers that bring values together: operations with two inputs, and layers made of layers.
export module lamina:layer.combine;
import :core;
import :layer;
import :op.elementwise;
import :op.linear;
import :tensor;
import lamina.std;

namespace lamina::nn {

/// Matrix product.   Shapes: lhs [..., M, K], rhs [..., K, N] -> [..., M, N].
export struct dot {
  static constexpr view<const label> inputs() { return ports<"lhs", "rhs">; }
  constexpr auto forward(auto&, const auto& lhs, const auto& rhs) const { return lamina::matmul(lhs, rhs); }
};
/// A layer and the way around it: body(x) + x. Parameters are found under `body`.
/// Source: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition" (2015), arXiv:1512.03385.
export template <Layer L>
struct residual {
  L body;
  constexpr auto forward(auto& s, const auto& x) const { return s("body", body, x) + x; }
};

}  // namespace lamina::nn
