// expect: conv1d expects sequences [N, 3, L] but is given [Nx9x3]
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4});
#else
constexpr auto net = sequential(nn::conv1d{.in_channels = 9, .out_channels = 4});
#endif
static_assert(no_error<shape_check<net, input<"N", 9, 3>>>);
