// expect: dropout needs a probability of at least 0 and below 1 but has 1.5
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::dropout{1.5});
#else
constexpr auto net = sequential(nn::dropout{0.5});
#endif
static_assert(no_error<shape_check<net, input<"N", 3>>>);
