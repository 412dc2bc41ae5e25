// expect: conv1d: groups 2 does not divide 3 and 4 channels
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .groups = 2});
#else
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 6, .groups = 3});
#endif
static_assert(no_error<shape_check<net, input<"N", 3, 9>>>);
