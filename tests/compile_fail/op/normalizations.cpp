// Normalizations of operands whose shapes do not fit.
import lamina;
using namespace lamina;

// case: group_norm_channels
// expect: group_norm: 4 channels do not divide into 3 groups: [2x4x5]
void group_norm_channels() {
#ifdef BAD
  auto y = group_norm<3>(tensor<float, extents<2, 4, 5>>());
#else
  auto y = group_norm<2>(tensor<float, extents<2, 4, 5>>());
#endif
}

// case: layer_norm_shapes
// expect: layer_norm: the weight and bias must have the shape of the last axes: [3x4] [3] [4]
void layer_norm_shapes() {
#ifdef BAD
  auto y = layer_norm(matrix<float, 3, 4>(), vector<float, 3>(), vector<float, 4>());
#else
  auto y = layer_norm(matrix<float, 3, 4>(), vector<float, 4>(), vector<float, 4>());
#endif
}
