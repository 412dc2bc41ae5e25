// expect: batch_norm2d expects 8 channels but is given 3, shape [Nx3x2x2]
import lamina;

using namespace lamina;
constexpr auto net = sequential(nn::batch_norm2d{8});
#ifdef BAD
static_assert(no_error<shape_check<net, input<"N", 3, 2, 2>>>);
#else
static_assert(no_error<shape_check<net, input<"N", 8, 2, 2>>>);
#endif
