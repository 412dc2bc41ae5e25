// expect: sublayer `0`: conv2d expects 3 input channels but is given 1, shape [Nx1x28x28] (`input` is [Nx1x28x28], fed by input `input`)
import lamina;

using namespace lamina;
constexpr auto net = sequential(nn::conv2d{.in_channels = 3, .out_channels = 6});
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 1, 28, 28>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 3, 28, 28>>>);
#endif
