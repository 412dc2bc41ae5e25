// expect: the policies speak of sublayer `outer.inner.x`, which does not exist; the sublayers are: `outer.inner.a`
import lamina;
using namespace lamina;
constexpr auto net =
    sequential(sublayer<"outer">(sequential(sublayer<"inner">(sequential(sublayer<"a">(nn::linear{4, 3}))))));
#ifdef BAD
model<net, input<"N", 4>, policies<sub<"outer">(sub<"inner">(sub<"x">(trainable(false))))>> m;
#else
model<net, input<"N", 4>, policies<sub<"outer">(sub<"inner">(sub<"a">(trainable(false))))>> m;
#endif
