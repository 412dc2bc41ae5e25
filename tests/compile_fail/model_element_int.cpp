// expect: policy `element`: a model computes in float or double, not in int32
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net, input<"N", 4>, policies<element<int>>> m;
#else
model<net, input<"N", 4>, policies<element<double>>> m;
#endif
