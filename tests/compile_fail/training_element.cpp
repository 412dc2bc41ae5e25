// expect: training: input 0 of the model is float32 and is given float64
import lamina;
using namespace lamina;

constexpr auto net = sequential(nn::linear{4, 3});
void use(model<net, input<"N", 4>>& m, const matrix<float>& target) {
  training step(m, loss::mse{}, optim::sgd{});
#ifdef BAD
  step(matrix<double>(2, 4), target);
#else
  step(matrix<float>(2, 4), target);
#endif
}
