// Attention layers whose options or inputs do not fit.
import lamina;
using namespace lamina;

// case: shape_attention_features
// expect: self_attention expects [N, T, 8] but is given [NxTx6]
namespace shape_attention_features {
#ifdef BAD
constexpr auto net = sequential(nn::self_attention{.embed_dim = 8, .num_heads = 2});
#else
constexpr auto net = sequential(nn::self_attention{.embed_dim = 6, .num_heads = 2});
#endif
static_assert(no_error<shape_check<net, input<"N", "T", 6>>>);
}  // namespace shape_attention_features

// case: shape_attention_mask
// expect: sublayer `look` (self_attention): attention: the mask does not broadcast to the scores [Nx2x3x3]: float32[Nx2x3x2] float32[Nx2x3x2] float32[Nx2x3x2] bool[5x5] (`input` is [Nx3x4], fed by input `x`; `mask` is [5x5], fed by input `seen`)
namespace shape_attention_mask {
constexpr auto net = topology(sublayer<"look">(nn::self_attention{.embed_dim = 4, .num_heads = 2, .mask = true}),
                              connect<"x", "look.input">, connect<"seen", "look.mask">, connect<"look.output", "y">);
#ifdef BAD
model<net, port_input<"x", float, "N", 3, 4>, port_input<"seen", bool, 5, 5>> m;
#else
model<net, port_input<"x", float, "N", 3, 4>, port_input<"seen", bool, 3, 3>> m;
#endif
}  // namespace shape_attention_mask

// case: shape_grouped_query_depth
// expect: sublayer `block`: grouped_query_attention: a head size of 3 is odd; rotary positions need pairs
namespace shape_grouped_query_depth {
#ifdef BAD
constexpr auto net =
    sequential(sublayer<"block">(nn::grouped_query_attention{.embed_dim = 12, .num_heads = 4, .num_kv_heads = 2}));
static_assert(no_error<shape_check<net, input<"N", "T", 12>>>);
#else
constexpr auto net =
    sequential(sublayer<"block">(nn::grouped_query_attention{.embed_dim = 8, .num_heads = 4, .num_kv_heads = 2}));
static_assert(no_error<shape_check<net, input<"N", "T", 8>>>);
#endif
}  // namespace shape_grouped_query_depth

// case: shape_grouped_query_heads
// expect: sublayer `block`: grouped_query_attention: 4 query heads are not a multiple of 3 key heads
namespace shape_grouped_query_heads {
#ifdef BAD
constexpr auto net =
    sequential(sublayer<"block">(nn::grouped_query_attention{.embed_dim = 16, .num_heads = 4, .num_kv_heads = 3}));
static_assert(no_error<shape_check<net, input<"N", "T", 16>>>);
#else
constexpr auto net =
    sequential(sublayer<"block">(nn::grouped_query_attention{.embed_dim = 16, .num_heads = 4, .num_kv_heads = 2}));
static_assert(no_error<shape_check<net, input<"N", "T", 16>>>);
#endif
}  // namespace shape_grouped_query_heads

// case: shape_transformer_heads
// expect: sublayer `block.self_attn`: self_attention: 8 features do not divide into 3 heads
namespace shape_transformer_heads {
#ifdef BAD
constexpr auto net = sequential(sublayer<"block">(nn::transformer_encoder_layer{.d_model = 8, .nhead = 3}));
static_assert(no_error<shape_check<net, input<"N", "T", 8>>>);
#else
constexpr auto net = sequential(sublayer<"block">(nn::transformer_encoder_layer{.d_model = 8, .nhead = 4}));
static_assert(no_error<shape_check<net, input<"N", "T", 8>>>);
#endif
}  // namespace shape_transformer_heads
