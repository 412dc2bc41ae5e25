// mistake: policies for a sublayer that is not there
// expect: the policies name sublayer `body.1`, which does not exist; the sublayers are: `body.0`, `body.last`
import lamina;

using namespace lamina;
constexpr auto net = sequential(nn::relu{}, sublayer<"body">(sequential(nn::relu{}, sublayer<"last">(nn::tanh{}))));
#ifdef BAD
using trained = model<net, input<"N", 4>, policies<sub<"body">(sub<"1">(trainable(false)))>>;
#else
using trained = model<net, input<"N", 4>, policies<sub<"body">(sub<"last">(trainable(false)))>>;
#endif
