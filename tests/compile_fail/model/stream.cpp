// Streams with wrong element types.
#include <span>
import lamina;
using namespace lamina;

// case: stream_input_element
// expect: step: input 0 is float32; got float64
namespace stream_input_element {
constexpr auto net = sequential(nn::gru{.input_size = 3, .hidden_size = 4});
using voice = decltype(stream(reference_factory<net, input<"T", 1, 3>>::from_file("gru.safetensors").create()));
#ifdef BAD
bool use(voice& v, std::span<const double> in, std::span<float> out) { return v.step(in, out); }
#else
bool use(voice& v, std::span<const float> in, std::span<float> out) { return v.step(in, out); }
#endif
}  // namespace stream_input_element

// case: stream_output_element
// expect: step: output 0 is float32; got float64
namespace stream_output_element {
constexpr auto net = sequential(nn::gru{.input_size = 3, .hidden_size = 4});
using voice = decltype(stream(reference_factory<net, input<"T", 1, 3>>::from_file("gru.safetensors").create()));
#ifdef BAD
bool use(voice& v, std::span<const float> in, std::span<double> out) { return v.step(in, out); }
#else
bool use(voice& v, std::span<const float> in, std::span<float> out) { return v.step(in, out); }
#endif
}  // namespace stream_output_element

// case: stream_spans
// expect: step takes 2 spans, the inputs, then the outputs; got 1
namespace stream_spans {
constexpr auto net = sequential(nn::gru{.input_size = 3, .hidden_size = 4});
using voice = decltype(stream(reference_factory<net, input<"T", 1, 3>>::from_file("gru.safetensors").create()));
#ifdef BAD
bool use(voice& v, std::span<const float> in, std::span<float>) { return v.step(in); }
#else
bool use(voice& v, std::span<const float> in, std::span<float> out) { return v.step(in, out); }
#endif
}  // namespace stream_spans
