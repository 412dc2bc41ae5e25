// expect: sublayer `body`: two sublayers are named `0`
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::relu{}, sublayer<"body">(sequential(nn::relu{}, sublayer<"0">(nn::tanh{}))));
#else
constexpr auto net = sequential(nn::relu{}, sublayer<"body">(sequential(nn::relu{}, sublayer<"last">(nn::tanh{}))));
#endif
static_assert(ValidTopology<net>);
