// expect: conv_transpose2d: groups 2 does not divide 4 and 3 channels
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 3, .groups = 2});
#else
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 6, .groups = 2});
#endif
static_assert(no_error<shape_check<net, input<"N", 4, 5, 5>>>);
