// expect: conv_transpose2d expects images [N, 4, H, W] but is given [Nx3x5x5]
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 3});
#else
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 3, .out_channels = 3});
#endif
static_assert(no_error<shape_check<net, input<"N", 3, 5, 5>>>);
