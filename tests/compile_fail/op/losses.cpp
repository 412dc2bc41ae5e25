// Losses of results and targets that do not fit.
#include <cstdint>
import lamina;
using namespace lamina;

// case: cross_entropy_labels
// expect: cross_entropy: takes int64 labels, not float32; cast first, as in cast<std::int64_t>(x): float32[2x3] float32[2]
void cross_entropy_labels() {
#ifdef BAD
  auto y = cross_entropy(matrix<float, 2, 3>(), vector<float, 2>());
#else
  auto y = cross_entropy(matrix<float, 2, 3>(), vector<std::int64_t, 2>());
#endif
}

// case: cross_entropy_shapes
// expect: cross_entropy: the labels must have the shape of the logits without their last axis: float32[2x3] int64[3]
void cross_entropy_shapes() {
#ifdef BAD
  auto y = cross_entropy(matrix<float, 2, 3>(), vector<std::int64_t, 3>());
#else
  auto y = cross_entropy(matrix<float, 2, 3>(), vector<std::int64_t, 2>());
#endif
}

// case: l1_loss_shapes
// expect: l1_loss: results and targets must have the same shape; a loss does not broadcast: [3x2] [1x2]
void l1_loss_shapes() {
#ifdef BAD
  auto y = l1_loss(matrix<float, 3, 2>() * 2, matrix<float, 1, 2>());
#else
  auto y = l1_loss(matrix<float, 3, 2>() * 2, matrix<float, 3, 2>());
#endif
}

// case: mse_shapes
// expect: mse: results and targets must have the same shape; a loss does not broadcast; `squeeze` removes the last axis of the results: [3x1] [3]
void mse_shapes() {
#ifdef BAD
  auto y = mse(matrix<float, 3, 1>(), vector<float, 3>());
#else
  auto y = mse(matrix<float, 3, 1>(), matrix<float, 3, 1>());
#endif
}

// case: mse_shape_of_targets
// expect: mse: results and targets must have the same shape; a loss does not broadcast; `squeeze` removes the last axis of the targets: [3] [3x1]
void mse_shape_of_targets() {
#ifdef BAD
  auto y = mse(vector<float, 3>(), matrix<float, 3, 1>());
#else
  auto y = mse(vector<float, 3>(), vector<float, 3>());
#endif
}

// case: nll_labels
// expect: nll: takes int64 labels, not int32; cast first, as in cast<std::int64_t>(x): float32[2x3] int32[2]
void nll_labels() {
#ifdef BAD
  auto y = nll(matrix<float, 2, 3>(), vector<int, 2>());
#else
  auto y = nll(matrix<float, 2, 3>(), vector<std::int64_t, 2>());
#endif
}

// case: nll_loss_shapes
// expect: nll_loss: weights and probabilities must have the same shape: [3x4] [3x5]
void nll_loss_shapes() {
#ifdef BAD
  auto y = nll_loss(matrix<float, 3, 4>(), matrix<float, 3, 5>());
#else
  auto y = nll_loss(matrix<float, 3, 4>(), matrix<float, 3, 4>());
#endif
}

// case: squared_l2_distance_shapes
// expect: squared_l2_distance: results and targets must have the same shape; a loss does not broadcast: [4x3] [3]
void squared_l2_distance_shapes() {
#ifdef BAD
  auto y = squared_l2_distance(matrix<float, 4, 3>(), vector<float, 3>());
#else
  auto y = squared_l2_distance(matrix<float, 4, 3>(), matrix<float, 4, 3>());
#endif
}
