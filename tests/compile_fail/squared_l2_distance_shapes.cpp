// expect: squared_l2_distance: results and targets must have one shape; a loss does not broadcast: [4x3] [3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = squared_l2_distance(matrix<float, 4, 3>(), vector<float, 3>());
#else
  auto y = squared_l2_distance(matrix<float, 4, 3>(), matrix<float, 4, 3>());
#endif
}
