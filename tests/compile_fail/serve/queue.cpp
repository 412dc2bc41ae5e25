// Queues with samples that the net does not accept.
import lamina;
using namespace lamina;

// case: queue_no_samples
// expect: a batching queue needs a leading dimension that is dyn or named, but input 0 of the model is [3x4]
namespace queue_no_samples {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
void use(const reference_factory<net, input<3, 4>>& factory) {
#else
void use(const reference_factory<net, input<"N", 4>>& factory) {
#endif
  batching_queue queue(factory);
}
}  // namespace queue_no_samples

// case: queue_sample_count
// expect: submit: a sample of this model has 1 tensor; got 2
namespace queue_sample_count {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using queue = batching_queue<reference_factory<net, input<"N", 4>>::traits>;

void use(queue& q) {
#ifdef BAD
  auto y = q.submit(vector<float, 4>(), vector<float, 4>());
#else
  auto y = q.submit(vector<float, 4>());
#endif
}
}  // namespace queue_sample_count

// case: queue_sample_element
// expect: submit: a sample for input 0 is float32[4]; got float64[4]
namespace queue_sample_element {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using queue = batching_queue<reference_factory<net, input<"N", 4>>::traits>;

void use(queue& q) {
#ifdef BAD
  auto y = q.try_submit(vector<double, 4>());
#else
  auto y = q.try_submit(vector<float, 4>());
#endif
}
}  // namespace queue_sample_element

// case: queue_sample_of_batch
// expect: submit: a sample for input 0 is float32[4]; got float32[1x4]; a sample has no batch dimension
namespace queue_sample_of_batch {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using queue = batching_queue<reference_factory<net, input<"N", 4>>::traits>;

void use(queue& q) {
#ifdef BAD
  auto y = q.submit(matrix<float, 1, 4>());
#else
  auto y = q.submit(matrix<float, 1, 4>()[0]);
#endif
}
}  // namespace queue_sample_of_batch

// case: queue_sample_shape
// expect: submit: a sample for input 0 is float32[4]; got float32[5]
namespace queue_sample_shape {
inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});
using queue = batching_queue<reference_factory<net, input<"N", 4>>::traits>;

void use(queue& q) {
#ifdef BAD
  auto y = q.submit(vector<float, 5>());
#else
  auto y = q.submit(vector<float, 4>());
#endif
}
}  // namespace queue_sample_shape
