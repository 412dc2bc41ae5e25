// expect: the optimizer is `int`; it must have a rate `lr` and a member `step(scope, w, g)` that gives a value, as optim::sgd{} does
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m, const image_dataset& data) {
#ifdef BAD
  fit(m, data, loss::cross_entropy{}, 3);
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{});
#endif
}
