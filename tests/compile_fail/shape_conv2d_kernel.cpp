// expect: conv2d: the kernel 5x5 is larger than the padded map, shape [Nx3x4x28]
import lamina;

using namespace lamina;
constexpr auto net = sequential(nn::conv2d{.in_channels = 3, .out_channels = 6, .kernel_size = 5});
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 3, 4, 28>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 3, 5, 28>>>);
#endif
