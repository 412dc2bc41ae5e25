// expect: conv1d: a causal layer chooses its padding, which must be 0
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .padding = 1, .causal = true});
#else
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .causal = true});
#endif
static_assert(no_error<shape_check<net, input<"N", 3, 9>>>);
