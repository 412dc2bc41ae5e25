// expect: the topology is a variable; declare it `inline constexpr`, or `static constexpr` in a function
import lamina;

using namespace lamina;
#ifdef BAD
auto net = sequential(nn::relu{});
#else
constexpr auto net = sequential(nn::relu{});
#endif
static_assert(ValidTopology<net>);
