// expect: layer_norm: the weight and bias must have the shape of the last axes: [3x4] [3] [4]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = layer_norm(matrix<float, 3, 4>(), vector<float, 3>(), vector<float, 4>());
#else
  auto y = layer_norm(matrix<float, 3, 4>(), vector<float, 4>(), vector<float, 4>());
#endif
}
