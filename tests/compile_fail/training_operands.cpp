// expect: training: a step takes 1 input and the targets, and is given 1 operand
#include <cstdint>
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

double use(model<net, input<"N", 4>>& m, const matrix<float, 3, 4>& x, const vector<std::int64_t, 3>& labels) {
  training step(m, loss::cross_entropy{}, optim::sgd{});
#ifdef BAD
  return step(x);
#else
  return step(x, labels);
#endif
}
