// Activations: layers that apply one function to their input.
export module lamina:layer.activation;
import :core;
import :op.activation;
import :op.elementwise;
import :op.reduce;
import :op.shape;
import :parameter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

/// Rectified linear unit: max(x, 0).
export struct relu {
  constexpr auto forward(auto&, const auto& x) const { return lamina::relu(x); }
};
/// Logistic function: 1 / (1 + exp(-x)).
export struct sigmoid {
  constexpr auto forward(auto&, const auto& x) const { return lamina::sigmoid(x); }
};
/// Hyperbolic tangent.
export struct tanh {
  constexpr auto forward(auto&, const auto& x) const { return lamina::tanh(x); }
};
/// Exact GELU, as torch.nn.GELU: x Phi(x), with the normal cumulative distribution function Phi.
export struct gelu {
  constexpr auto forward(auto&, const auto& x) const { return lamina::gelu(x); }
};
/// Approximation of GELU by tanh.
export struct gelu_tanh {
  constexpr auto forward(auto&, const auto& x) const { return lamina::gelu_tanh(x); }
};
/// SiLU, also called swish: x sigmoid(x).
export struct silu {
  constexpr auto forward(auto&, const auto& x) const { return lamina::silu(x); }
};
/// x tanh(softplus(x)).
export struct mish {
  constexpr auto forward(auto&, const auto& x) const { return lamina::mish(x); }
};
/// log(1 + e^x).
export struct softplus {
  constexpr auto forward(auto&, const auto& x) const { return lamina::softplus(x); }
};
/// x / (1 + |x|).
export struct softsign {
  constexpr auto forward(auto&, const auto& x) const { return lamina::softsign(x); }
};
/// Self-normalizing ELU: its constants preserve mean 0 and variance 1.
export struct selu {
  constexpr auto forward(auto&, const auto& x) const { return lamina::selu(x); }
};
/// x clamped to 0..6: min(max(x, 0), 6).
export struct relu6 {
  constexpr auto forward(auto&, const auto& x) const { return lamina::relu6(x); }
};
/// x hard_sigmoid(x).
export struct hard_swish {
  constexpr auto forward(auto&, const auto& x) const { return lamina::hard_swish(x); }
};
/// x above 0, slope times x below.
export struct leaky_relu {
  double slope = 0.01;
  constexpr auto forward(auto&, const auto& x) const { return lamina::leaky_relu(x, {.slope = slope}); }
};
/// x above 0, alpha (e^x - 1) below.
export struct elu {
  double alpha = 1;
  constexpr auto forward(auto&, const auto& x) const { return lamina::elu(x, {.alpha = alpha}); }
};
/// slope x + offset, clamped to 0..1.
export struct hard_sigmoid {
  double slope = 1. / 6, offset = 0.5;
  constexpr auto forward(auto&, const auto& x) const {
    return lamina::hard_sigmoid(x, {.slope = slope, .offset = offset});
  }
};
/// x above 0, a learned slope times x below; one slope, or one per channel of [N, C, ...].
/// Shapes:  x [N, C, ...] -> the same; weight [num_parameters], num_parameters 1 or C.
export struct prelu {
  std::int64_t num_parameters = 1;
  double start = 0.25;
  constexpr void check(view<const tensor_type> x, text& why) const {
    const shape& s = x[0].dims;
    if (num_parameters < 1) why << "prelu needs positive `num_parameters` but has " << num_parameters;
    else if (num_parameters > 1 && (s.rank < 2 || !may_equal(s[1], num_parameters)))
      why << "prelu expects [N, " << num_parameters << ", ...] but is given " << s;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    auto slope = s.parameter("weight", shape{num_parameters}, initializer::constant(start));
    shape to{num_parameters};
    for (int i = 2; i < x.shape().rank; ++i) to.push_back(1);
    return lamina::prelu(x, num_parameters == 1 ? slope : lamina::reshape(slope, to));
  }
};
/// Softmax along one axis: positive numbers that sum to 1.
export struct softmax {
  std::int64_t axis = -1;
  constexpr auto forward(auto&, const auto& x) const { return lamina::softmax(x, {.axis = axis}); }
};
/// Logarithm of softmax along one axis, computed without underflow.
export struct log_softmax {
  std::int64_t axis = -1;
  constexpr auto forward(auto&, const auto& x) const { return lamina::log_softmax(x, {.axis = axis}); }
};

}  // namespace lamina::nn
