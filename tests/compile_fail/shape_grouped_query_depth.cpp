// expect: sublayer `block`: grouped_query_attention: a depth of 3 is odd, and positions rotate pairs
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net =
    sequential(sublayer<"block">(nn::grouped_query_attention{.embed_dim = 12, .num_heads = 4, .num_kv_heads = 2}));
static_assert(no_error<shape_check<net, input<"N", "T", 12>>>);
#else
constexpr auto net =
    sequential(sublayer<"block">(nn::grouped_query_attention{.embed_dim = 8, .num_heads = 4, .num_kv_heads = 2}));
static_assert(no_error<shape_check<net, input<"N", "T", 8>>>);
#endif
