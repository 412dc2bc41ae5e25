// expect: submit: a sample of this model has 1 tensor and is given as 2
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using queue = batching_queue<reference_factory<net, input<"N", 4>>::traits>;

void use(queue& q) {
#ifdef BAD
  auto y = q.submit(vector<float, 4>(), vector<float, 4>());
#else
  auto y = q.submit(vector<float, 4>());
#endif
}
