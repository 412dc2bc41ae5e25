// expect: sublayer `block`: grouped_query_attention: 4 heads of queries do not share 3 heads of keys
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net =
    sequential(sublayer<"block">(nn::grouped_query_attention{.embed_dim = 16, .num_heads = 4, .num_kv_heads = 3}));
static_assert(no_error<shape_check<net, input<"N", "T", 16>>>);
#else
constexpr auto net =
    sequential(sublayer<"block">(nn::grouped_query_attention{.embed_dim = 16, .num_heads = 4, .num_kv_heads = 2}));
static_assert(no_error<shape_check<net, input<"N", "T", 16>>>);
#endif
