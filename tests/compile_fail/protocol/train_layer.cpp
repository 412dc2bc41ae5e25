// Layers by hand: their ports and options.
import lamina;
using namespace lamina;

// case: train_layer_bare_input
// expect: a train_layer takes its inputs as inputs<port<name, type>, ...>, not as `lamina::input<dim{3}, dim{4}>`
namespace train_layer_bare_input {
#ifdef BAD
train_layer<nn::relu, input<3, 4>> layer("relu");
#else
train_layer<nn::relu, inputs<port<"input", tensor<float, extents<3, 4>>>>> layer("relu");
#endif
}  // namespace train_layer_bare_input

// case: train_layer_inputs
// expect: argument 1 of inputs<...> is `lamina::tensor<float, lamina::extents<dim{-1}, dim{-1}>>`; it takes ports: inputs<port<name, type>, ...>
namespace train_layer_inputs {
#ifdef BAD
train_layer<nn::add, inputs<matrix<float>, matrix<float>>> layer("add");
#else
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#endif
}  // namespace train_layer_inputs

// case: train_layer_loss_shapes
// expect: nll_loss: weights and probabilities must have the same shape: [2x4] [2x3]
namespace train_layer_loss_shapes {
#ifdef BAD
train_layer<nn::nll_loss, inputs<port<"input", matrix<float, 2, 3>>, port<"weights", matrix<float, 2, 4>>>> layer(
    "loss");
#else
train_layer<nn::nll_loss, inputs<port<"input", matrix<float, 2, 3>>, port<"weights", matrix<float, 2, 3>>>> layer(
    "loss");
#endif
}  // namespace train_layer_loss_shapes

// case: train_layer_no_default
// expect: `scaled` cannot be default-constructed; pass a constant, as in constant_layer<name>
namespace train_layer_no_default {
struct scaled {
  double factor;
  constexpr explicit scaled(double f) : factor(f) {}
  constexpr auto forward(auto&, const auto& x) const { return x * factor; }
};
inline constexpr scaled half{0.5};
#ifdef BAD
train_layer<scaled, inputs<port<"input", matrix<float>>>> layer("half");
#else
train_layer<constant_layer<half>, inputs<port<"input", matrix<float>>>> layer("half");
#endif
}  // namespace train_layer_no_default

// case: train_layer_no_layer
// expect: the layer type is `lamina::ir::value`, which has no member `forward`
namespace train_layer_no_layer {
using one_port = inputs<port<"input", matrix<float, 3, 4>>>;
#ifdef BAD
train_layer<ir::value, one_port> layer("layer");
#else
train_layer<nn::relu, one_port> layer("layer");
#endif
}  // namespace train_layer_no_layer

// case: train_layer_no_options
// expect: linear needs positive `in_features` and `out_features` but has 0 and 0
namespace train_layer_no_options {
constexpr nn::linear projection{4, 3};
#ifdef BAD
train_layer<nn::linear, inputs<port<"input", matrix<float>>>> layer("fc");
#else
train_layer<constant_layer<projection>, inputs<port<"input", matrix<float>>>> layer("fc");
#endif
}  // namespace train_layer_no_options

// case: train_layer_port_twice
// expect: port `lhs` is given two types
namespace train_layer_port_twice {
#ifdef BAD
using given = inputs<port<"lhs", matrix<float>>, port<"lhs", matrix<double>>>;
#else
using given = inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>;
#endif
train_layer<nn::add, given> layer("add");
}  // namespace train_layer_port_twice

// case: train_layer_port_unknown
// expect: add has no input port `left`; its input ports are `lhs`, `rhs`
namespace train_layer_port_unknown {
#ifdef BAD
train_layer<nn::add, inputs<port<"left", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#else
train_layer<nn::add, inputs<port<"lhs", matrix<float>>, port<"rhs", matrix<float>>>> layer("add");
#endif
}  // namespace train_layer_port_unknown
