// expect: submit: a sample for input 0 is float32[4] and is given as float32[1x4]; a sample has no dimension of samples
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using queue = batching_queue<reference_factory<net, input<"N", 4>>::traits>;

void use(queue& q) {
#ifdef BAD
  auto y = q.submit(matrix<float, 1, 4>());
#else
  auto y = q.submit(matrix<float, 1, 4>()[0]);
#endif
}
