// expect: step: input 0 is float32 and is given float64
#include <span>
import lamina;

using namespace lamina;
constexpr auto net = sequential(nn::gru{.input_size = 3, .hidden_size = 4});
using voice = streaming<reference_factory<net, input<"T", 1, 3>>::traits>;
#ifdef BAD
bool use(voice& v, std::span<const double> in, std::span<float> out) { return v.step(in, out); }
#else
bool use(voice& v, std::span<const float> in, std::span<float> out) { return v.step(in, out); }
#endif
