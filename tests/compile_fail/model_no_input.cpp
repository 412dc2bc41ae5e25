// expect: the model has no input; write one for each input port after the topology, as in input<dyn, 4>; its input ports are `input`
import lamina;
using namespace lamina;

inline constexpr auto net = sequential(nn::linear{.in_features = 4, .out_features = 2});

#ifdef BAD
model<net> m;
#else
model<net, input<"N", 4>, policies<>> m;
#endif
