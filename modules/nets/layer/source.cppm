// Layers without inputs, and the layers that are a parameter and one operation: the building blocks of perceptrons.
export module lamina:layer.source;
import :core;
import :layer;
import :op.elementwise;
import :op.linear;
import :parameter;
import :policy;
import :policy.kinds;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

/// Outputs a parameter, named `weight`; no inputs.
export struct param_source {
  lamina::shape shape{};
  initializer start = initializer::normal(0, 0.02);
  static constexpr view<const label> inputs() { return {}; }
  constexpr auto forward(auto& s) const { return s.parameter("weight", shape, start); }
};
/// Outputs a scalar constant; no inputs and no parameters.
export struct value_source {
  double value = 0;
  static constexpr view<const label> inputs() { return {}; }
  constexpr auto forward(auto& s) const { return s.constant(lamina::shape{}, value); }
};
/// Outputs a tensor filled with one number, which is never initialized, saved or updated; no inputs.
export struct constant {
  lamina::shape shape{};
  double value = 0;
  static constexpr view<const label> inputs() { return {}; }
  constexpr auto forward(auto& s) const { return s.constant(shape, value); }
};

/// Product with a weight matrix: x weight.
/// Shapes:  x [..., in_features] -> [..., out_features]; weight [in_features, out_features].
export struct weight {
  std::int64_t in_features = 0, out_features = 0;

  constexpr void check(view<const tensor_type> x, text& why) const {
    const lamina::shape& s = x[0].dims;
    if (in_features < 1 || out_features < 1)
      why << "weight needs positive `in_features` and `out_features` but has " << in_features << " and "
          << out_features;
    else if (s.rank < 2) why << "weight expects rows of features, shape [N, " << in_features << "], but is given " << s;
    else if (!may_equal(s.back(), in_features))
      why << "weight expects " << in_features << " input features but is given " << s.back() << ", shape " << s;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    return lamina::matmul(
        x, s.parameter("weight", shape{in_features, out_features}, initializer::kaiming_uniform(in_features)));
  }
};
/// Adds a learned bias: x + bias.   Shapes: x [..., shape] -> the same; bias [shape].
export struct bias {
  lamina::shape shape{};

  constexpr void check(view<const tensor_type> x, text& why) const {
    lamina::shape both;
    if (!broadcast(x[0].dims, shape, both) || both.rank != x[0].dims.rank)
      why << "bias of shape " << shape << " does not fit " << x[0].dims;
  }
  constexpr auto forward(auto& s, const auto& x) const {
    return x + s.parameter("bias", shape, initializer::constant(0));
  }
};

/// Fully connected layer with an activation: activation(x weight + bias). The activation is a required policy, such as
/// `activation(nn::tanh{})`; the policy `use_bias(false)` removes the bias.
/// Shapes: x [..., in_features] -> [..., out_features]; weight [in_features, out_features], bias [out_features].
export struct single_layer_perceptron {
  std::int64_t in_features = 0, out_features = 0;

  constexpr void check(view<const tensor_type> x, text& why) const {
    nn::weight{in_features, out_features}.check(x, why);
  }
  constexpr auto forward(auto& s, const auto& x) const {
    auto y = lamina::matmul(
        x, s.parameter("weight", shape{in_features, out_features}, initializer::kaiming_uniform(in_features)));
    if (policy_of<use_bias>(s).value) y = y + s.parameter("bias", shape{out_features}, initializer::constant(0));
    return with_policy<activation_kind>(s, [&](const auto& chosen) {
      if constexpr (requires { chosen.value; }) return s("activation", chosen.value, y);
      else {
        s.refuse("single_layer_perceptron needs the policy `activation`, as in activation(nn::tanh{})");
        return y;
      }
    });
  }
};

}  // namespace lamina::nn
