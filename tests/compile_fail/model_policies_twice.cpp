// expect: the policies of the model are given twice; write them in one policies<...>
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in = 4, .out = 2});

#ifdef BAD
model<net, input<"N", 4>, policies<update(true)>, policies<element<float>>> m;
#else
model<net, input<"N", 4>, policies<update(true), element<float>>> m;
#endif
