// expect: policy `initialize` speaks of parameter `wieght`, which no layer has; there are `weight`, `bias`; did you mean `weight`?
import lamina;
using namespace lamina;

constexpr auto net = sequential(nn::relu{}, sublayer<"fc">(nn::linear{4, 3}));
#ifdef BAD
using trained = model<net, input<"N", 4>, policies<initialize<"wieght">(initializer::constant(1))>>;
#else
using trained = model<net, input<"N", 4>, policies<initialize<"weight">(initializer::constant(1))>>;
#endif
trained* t;
