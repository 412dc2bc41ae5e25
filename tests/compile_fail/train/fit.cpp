// Training with invalid models, losses, optimizers or operands.
#include <cstdint>
import lamina;
using namespace lamina;

// case: fit_loss
// expect: the loss is `int`; it must be callable as loss(output, targets) and return a value, like loss::cross_entropy{}, or with a view<const value> of each if there are several
namespace fit_loss {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m, const image_dataset& data) {
#ifdef BAD
  fit(m, data, 7, optim::sgd{});
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{});
#endif
}
}  // namespace fit_loss

// case: fit_net
// expect: cannot train `int`; expected a model
namespace fit_net {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m, const image_dataset& data) {
#ifdef BAD
  fit(7, data, loss::cross_entropy{}, optim::sgd{});
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{});
#endif
}
}  // namespace fit_net

// case: fit_optimizer
// expect: the optimizer is `int`; it must have a rate `lr` and a member `step(scope, w, g)` that returns a value, like optim::sgd{}
namespace fit_optimizer {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m, const image_dataset& data) {
#ifdef BAD
  fit(m, data, loss::cross_entropy{}, 3);
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{});
#endif
}
}  // namespace fit_optimizer

// case: training_const
// expect: the model is const, and training changes it
namespace training_const {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using classifier = model<net, input<"N", 4>>;

#ifdef BAD
auto use(const classifier& m, const image_dataset& images) {
  return fit(m, images, loss::cross_entropy{}, optim::sgd{});
}
#else
auto use(classifier& m, const image_dataset& images) { return fit(m, images, loss::cross_entropy{}, optim::sgd{}); }
#endif
}  // namespace training_const

// case: training_element
// expect: training: input 0 of the model is float32; got float64
namespace training_element {
constexpr auto net = sequential(nn::linear{4, 3});
void use(model<net, input<"N", 4>>& m, const matrix<float>& target) {
  training step(m, loss::mse{}, optim::sgd{});
#ifdef BAD
  step(matrix<double>(2, 4), target);
#else
  step(matrix<float>(2, 4), target);
#endif
}
}  // namespace training_element

// case: training_operands
// expect: training: a step takes 1 input and the targets; got 1 operand
namespace training_operands {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

double use(model<net, input<"N", 4>>& m, const matrix<float, 3, 4>& x, const vector<std::int64_t, 3>& labels) {
  training step(m, loss::cross_entropy{}, optim::sgd{});
#ifdef BAD
  return step(x);
#else
  return step(x, labels);
#endif
}
}  // namespace training_operands
