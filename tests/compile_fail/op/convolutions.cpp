// Convolutions and pools over operands whose shapes do not fit.
import lamina;
using namespace lamina;

// case: conv1d_number_of_sequences
// expect: conv1d: the number of sequences must be a number or a name
#ifdef BAD
auto conv1d_number_of_sequences(const tensor<float, extents<dyn, 3, dyn>>& x) {
  return conv1d(x, tensor<float, extents<4, 3, 3>>());
}
#else
auto conv1d_number_of_sequences(const tensor<float, extents<2, 3, dyn>>& x) {
  return conv1d(x, tensor<float, extents<4, 3, 3>>());
}
#endif

// case: conv1d_rank
// expect: conv1d: sequences [N, C, L] are expected: [3x5] [4x3x3]
void conv1d_rank() {
#ifdef BAD
  auto y = conv1d(tensor<float, extents<3, 5>>(), tensor<float, extents<4, 3, 3>>());
#else
  auto y = conv1d(tensor<float, extents<2, 3, 5>>(), tensor<float, extents<4, 3, 3>>(), {.causal = true});
#endif
}

// case: conv1d_weights
// expect: conv1d: weights [O, C / groups, K] are expected: [2x3x5] [4x3]
void conv1d_weights() {
#ifdef BAD
  auto y = conv1d(tensor<float, extents<2, 3, 5>>(), matrix<float, 4, 3>());
#else
  auto y = conv1d(tensor<float, extents<2, 3, 5>>(), tensor<float, extents<4, 3, 3>>());
#endif
}

// case: conv2d_channels
// expect: conv2d: the weights expect 3 input channels: [2x4x8x8] [6x3x3x3]
void conv2d_channels() {
#ifdef BAD
  auto y = conv2d(tensor<float, extents<2, 4, 8, 8>>(), tensor<float, extents<6, 3, 3, 3>>());
#else
  auto y = conv2d(tensor<float, extents<2, 3, 8, 8>>(), tensor<float, extents<6, 3, 3, 3>>());
#endif
}

// case: conv2d_kernel
// expect: conv2d: the weights have no input channels: [2x0x9x9] [4x0x3x3]
void conv2d_kernel() {
#ifdef BAD
  auto y = conv2d(tensor<float, extents<2, 0, 9, 9>>(), tensor<float, extents<4, 0, 3, 3>>());
#else
  auto y = conv2d(tensor<float, extents<2, 1, 9, 9>>(), tensor<float, extents<4, 1, 3, 3>>());
#endif
}

// case: conv_transpose2d_channels
// expect: conv_transpose2d: the weights expect 4 input channels: [1x3x5x5] [4x2x3x3]
void conv_transpose2d_channels() {
#ifdef BAD
  auto y = conv_transpose2d(tensor<float, extents<1, 3, 5, 5>>(), tensor<float, extents<4, 2, 3, 3>>());
#else
  auto y = conv_transpose2d(tensor<float, extents<1, 4, 5, 5>>(), tensor<float, extents<4, 2, 3, 3>>());
#endif
}

// case: conv_transpose2d_weights
// expect: conv_transpose2d: weights [C, O / groups, H, W] are expected: [2x3x5x5] [3x4x3]
void conv_transpose2d_weights() {
#ifdef BAD
  auto y = conv_transpose2d(tensor<float, extents<2, 3, 5, 5>>(), tensor<float, extents<3, 4, 3>>());
#else
  auto y = conv_transpose2d(tensor<float, extents<2, 3, 5, 5>>(), tensor<float, extents<3, 4, 3, 3>>());
#endif
}

// case: avg_pool2d_of_matrix
// expect: avg_pool2d: images [N, C, H, W] are expected: [8x8]
namespace avg_pool2d_of_matrix {
using image = tensor<float, extents<2, 3, 8, 8>>;

void use() {
#ifdef BAD
  auto y = avg_pool2d(matrix<float, 8, 8>());
#else
  auto y = avg_pool2d(image());
#endif
}
}  // namespace avg_pool2d_of_matrix

// case: max_pool2d_of_matrix
// expect: max_pool2d: images [N, C, H, W] are expected: [8x8]
namespace max_pool2d_of_matrix {
using image = tensor<float, extents<2, 3, 8, 8>>;

void use() {
#ifdef BAD
  auto y = max_pool2d(matrix<float, 8, 8>());
#else
  auto y = max_pool2d(image());
#endif
}
}  // namespace max_pool2d_of_matrix

// case: global_avg_pool2d_of_matrix
// expect: global_avg_pool2d: images [N, C, H, W] are expected: [8x8]
namespace global_avg_pool2d_of_matrix {
using image = tensor<float, extents<2, 3, 8, 8>>;

void use() {
#ifdef BAD
  auto y = global_avg_pool2d(matrix<float, 8, 8>());
#else
  auto y = global_avg_pool2d(image());
#endif
}
}  // namespace global_avg_pool2d_of_matrix
