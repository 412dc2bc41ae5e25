// expect: conv_transpose2d: output padding must be smaller than the stride
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 3, .output_padding = 1});
#else
constexpr auto net =
    sequential(nn::conv_transpose2d{.in_channels = 4, .out_channels = 3, .stride = 2, .output_padding = 1});
#endif
static_assert(no_error<shape_check<net, input<"N", 4, 5, 5>>>);
