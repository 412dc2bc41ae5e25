// mistake: a layer of the wrong width
// expect: sublayer `fc1`: linear expects 400 input features but is given 256, shape [Nx256] (`input` is [Nx256], fed by `6.output`)
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(
    nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5}, nn::relu{}, nn::max_pool2d{.kernel_size = 2},
    nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5}, nn::relu{}, nn::max_pool2d{.kernel_size = 2},
    nn::flatten{}, sublayer<"fc1">(nn::linear{.in_features = 400, .out_features = 120}));
#else
constexpr auto net =
    sequential(nn::conv2d{.in_channels = 1, .out_channels = 6, .kernel_size = 5, .padding = 2}, nn::relu{},
               nn::max_pool2d{.kernel_size = 2}, nn::conv2d{.in_channels = 6, .out_channels = 16, .kernel_size = 5},
               nn::relu{}, nn::max_pool2d{.kernel_size = 2}, nn::flatten{},
               sublayer<"fc1">(nn::linear{.in_features = 400, .out_features = 120}));
#endif
using trained = model<net, input<"N", 1, 28, 28>>;
