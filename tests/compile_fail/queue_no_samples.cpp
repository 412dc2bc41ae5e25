// expect: a batching queue puts samples together along the leading dimension, dyn or a name, and input 0 of the model is [3x4]
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
void use(const reference_factory<net, input<3, 4>>& factory) {
#else
void use(const reference_factory<net, input<"N", 4>>& factory) {
#endif
  batching_queue queue(factory);
}
