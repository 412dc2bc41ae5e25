// expect: step takes 2 spans, those of the inputs and then those of the outputs, and is given 1
#include <span>
import lamina;

using namespace lamina;
constexpr auto net = sequential(nn::gru{.input_size = 3, .hidden_size = 4});
using voice = streaming<reference_factory<net, input<"T", 1, 3>>::traits>;
#ifdef BAD
bool use(voice& v, std::span<const float> in, std::span<float>) { return v.step(in); }
#else
bool use(voice& v, std::span<const float> in, std::span<float> out) { return v.step(in, out); }
#endif
