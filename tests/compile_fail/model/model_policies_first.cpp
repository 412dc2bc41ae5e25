// mistake: policies before the inputs
// expect: argument 2 of model<...> is an input after the policies; policies come last
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net, policies<>, input<"N", 4>> m;
#else
model<net, input<"N", 4>, policies<>> m;
#endif
