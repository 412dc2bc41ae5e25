// expect: mse: results and targets must have one shape; a loss does not broadcast; `squeeze` takes the last axis of the results away: [3x1] [3]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = mse(matrix<float, 3, 1>(), vector<float, 3>());
#else
  auto y = mse(matrix<float, 3, 1>(), matrix<float, 3, 1>());
#endif
}
