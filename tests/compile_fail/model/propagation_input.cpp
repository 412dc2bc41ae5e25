// mistake: an input that does not fit, where policies are asked for what they mean
// expect: sublayer `fc`: linear expects 2 input features but is given 7, shape [Nx7] (`input` is [Nx7], fed by input `input`)
import lamina;
using namespace lamina;
constexpr auto net = sequential(sublayer<"fc">(nn::linear{2, 3}));
#ifdef BAD
constexpr bool trained = propagation<net, policies<>, input<"N", 7>>::updates({"fc"});
#else
constexpr bool trained = propagation<net, policies<>, input<"N", 2>>::updates({"fc"});
#endif
