// expect: the policies speak of sublayer `block.bdoy`, which does not exist; the sublayers are: `block.body`
import lamina;
using namespace lamina;

constexpr auto net = sequential(sublayer<"block">(nn::residual{nn::linear{4, 4}}));
#ifdef BAD
using trained = model<net, input<"N", 4>, policies<sub<"block">(sub<"bdoy">(trainable(false)))>>;
#else
using trained = model<net, input<"N", 4>, policies<sub<"block">(sub<"body">(trainable(false)))>>;
#endif
trained* t;
