// expect: the loss is `int`; it must be callable as loss(output, labels) and give a value, as loss::cross_entropy{} does
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m, const image_dataset& data) {
#ifdef BAD
  fit(m, data, 7, optim::sgd{});
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{});
#endif
}
