// expect: lstm expects sequences [T, N, 3] but is given [Nx3]
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::lstm{.input_size = 3, .hidden_size = 4});
#else
constexpr auto net = sequential(nn::linear{3, 4});
#endif
static_assert(no_error<shape_check<net, input<"N", 3>>>);
