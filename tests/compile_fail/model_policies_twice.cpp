// expect: the policies of the model are given twice; write them in one policies<...>
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net, input<"N", 4>, policies<trainable(true)>, policies<element<float>>> m;
#else
model<net, input<"N", 4>, policies<trainable(true), element<float>>> m;
#endif
