// expect: conv1d needs positive `in_channels`, `out_channels`, `kernel_size`, `stride` and `dilation`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .stride = 0});
#else
constexpr auto net = sequential(nn::conv1d{.in_channels = 3, .out_channels = 4, .stride = 2});
#endif
static_assert(no_error<shape_check<net, input<"N", 3, 9>>>);
