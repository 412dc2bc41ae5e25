// expect: submit: a sample for input 0 is float32[4] and is given as float32[5]
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using queue = batching_queue<reference_factory<net, input<"N", 4>>::traits>;

void use(queue& q) {
#ifdef BAD
  auto y = q.submit(vector<float, 5>());
#else
  auto y = q.submit(vector<float, 4>());
#endif
}
