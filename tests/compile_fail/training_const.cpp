// expect: the model is const, and training changes it
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using classifier = model<net, input<"N", 4>>;

#ifdef BAD
auto use(const classifier& m, const image_dataset& images) {
  return fit(m, images, loss::cross_entropy{}, optim::sgd{});
}
#else
auto use(classifier& m, const image_dataset& images) { return fit(m, images, loss::cross_entropy{}, optim::sgd{}); }
#endif
