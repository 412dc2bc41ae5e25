// expect: policy `initialise` speaks of parameter `wieght`, which no layer has; there are `weight`, `bias`; did you mean `weight`?
import lamina;
using namespace lamina;

constexpr auto net = sequential(nn::relu{}, sublayer<"fc">(nn::linear{4, 3}));
#ifdef BAD
using trained = model<net, input<"N", 4>, policies<initialise<"wieght">(initialiser::constant(1))>>;
#else
using trained = model<net, input<"N", 4>, policies<initialise<"weight">(initialiser::constant(1))>>;
#endif
trained* t;
