// expect: sublayer `block.self_attn`: self_attention: 8 features do not divide into 3 heads
import lamina;

using namespace lamina;
#ifdef BAD
constexpr auto net = sequential(sublayer<"block">(nn::transformer_encoder_layer{.d_model = 8, .nhead = 3}));
static_assert(no_error<shape_check<net, input<"N", "T", 8>>>);
#else
constexpr auto net = sequential(sublayer<"block">(nn::transformer_encoder_layer{.d_model = 8, .nhead = 4}));
static_assert(no_error<shape_check<net, input<"N", "T", 8>>>);
#endif
