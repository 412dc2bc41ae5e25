// expect: sublayer `look` (self_attention): attention: the mask does not broadcast to the scores [Nx2x3x3]: float32[Nx2x3x2] float32[Nx2x3x2] float32[Nx2x3x2] bool[5x5] (`input` is [Nx3x4], fed by input `x`; `mask` is [5x5], fed by input `seen`)
import lamina;
using namespace lamina;
constexpr auto net = topology(sublayer<"look">(nn::self_attention{.embed_dim = 4, .num_heads = 2, .mask = true}),
                              connect<"x", "look.input">, connect<"seen", "look.mask">, connect<"look.output", "y">);
#ifdef BAD
model<net, port_input<"x", float, "N", 3, 4>, port_input<"seen", bool, 5, 5>> m;
#else
model<net, port_input<"x", float, "N", 3, 4>, port_input<"seen", bool, 3, 3>> m;
#endif
