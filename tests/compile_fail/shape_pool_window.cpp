// expect: max_pool2d: the window 3x3 is larger than the map, shape [Nx3x2x2]
import lamina;

using namespace lamina;
constexpr auto net = sequential(nn::max_pool2d{.kernel_size = 3});
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 3, 2, 2>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 3, 3, 3>>>);
#endif
