// Layers that combine values: operations with two inputs, and layers composed of layers.
export module lamina:layer.combine;
import :core;
import :layer;
import :op.elementwise;
import :op.linear;
import :policy.kinds;
import :tensor;
import lamina.std;

namespace lamina::nn {

/// Matrix product.   Shapes: lhs [..., M, K], rhs [..., K, N] -> [..., M, N]. With the policy `axis_count(n)`, n up to 3,
/// contracts the last n axes of lhs with the first n of rhs.
export struct dot {
  static constexpr view<const label> inputs() { return port_names<"lhs", "rhs">; }
  constexpr auto forward(auto& s, const auto& lhs, const auto& rhs) const {
    using product = std::remove_cvref_t<decltype(lamina::matmul(lhs, rhs))>;
    const auto n = policy_of<axis_count>(s).value;
    if (n < 1 || n > 3) s.refuse("dot: the policy axis_count must be 1, 2 or 3");
    return n == 2   ? product(lamina::dot<2>(lhs, rhs))
           : n == 3 ? product(lamina::dot<3>(lhs, rhs))
                    : product(lamina::matmul(lhs, rhs));
  }
};
/// A layer with a residual connection: body(x) + x. Its parameters have the prefix `body`.
/// Source: He, Zhang, Ren, Sun, "Deep Residual Learning for Image Recognition" (2015), arXiv:1512.03385.
export template <Layer L> struct residual {
  L body;
  constexpr auto forward(auto& s, const auto& x) const { return s("body", body, x) + x; }
};

}  // namespace lamina::nn
