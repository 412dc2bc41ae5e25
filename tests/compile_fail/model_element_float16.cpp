// expect: policy `element`: a model computes in float or double, not in float16
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net, input<"N", 4>, policies<element<float16>>> m;
#else
model<net, input<"N", 4>, policies<element<float>>> m;
#endif
