// expect: what is to be trained is `int`; it must be a model
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

void use(model<net, input<"N", 4>>& m, const image_dataset& data) {
#ifdef BAD
  fit(7, data, loss::cross_entropy{}, optim::sgd{});
#else
  fit(m, data, loss::cross_entropy{}, optim::sgd{});
#endif
}
