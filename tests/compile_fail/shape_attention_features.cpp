// expect: self_attention expects [N, T, 8] but is given [NxTx6]
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(nn::self_attention{.embed_dim = 8, .num_heads = 2});
#else
constexpr auto net = sequential(nn::self_attention{.embed_dim = 6, .num_heads = 2});
#endif
static_assert(no_error<shape_check<net, input<"N", "T", 6>>>);
