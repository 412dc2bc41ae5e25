// expect: argument 2 of model<...> is `int`; it takes inputs, then policies<...>
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net, input<"N", 4>, int> m;
#else
model<net, input<"N", 4>, policies<>> m;
#endif
