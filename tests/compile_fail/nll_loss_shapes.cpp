// expect: nll_loss: weights and probabilities must have one shape: [3x4] [3x5]
import lamina;
using namespace lamina;

void use() {
#ifdef BAD
  auto y = nll_loss(matrix<float, 3, 4>(), matrix<float, 3, 5>());
#else
  auto y = nll_loss(matrix<float, 3, 4>(), matrix<float, 3, 4>());
#endif
}
