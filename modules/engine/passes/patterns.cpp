// Patterns over several operations, which exporters write where lamina has one operation: gelu, softmax, layer_norm, attention and
// others. A pattern is matched from its last operation backwards; what it replaces is read by nothing else.
module lamina:passes.patterns;
import :core;
import :op;
import :op.elementwise;
import :op.linear;
import :op.shape;
import :op.view;
import :passes;
import :passes.activation_patterns;
import :passes.attention_patterns;
import :passes.channel_patterns;
import :passes.pattern;
import :passes.rotary_patterns;
import :passes.row_patterns;
import :program;
import lamina.std;

namespace lamina::rewriting {

/// Longer ones before those that are a part of them.
inline constexpr named_pattern patterns[] = {
    {rewrite::attention, "attention", match_attention, make_attention},
    {rewrite::rotary_embedding, "rotary_embedding", match_rotary, make_rotary},
    {rewrite::layer_norm, "layer_norm", match_layer_norm, make_normalized},
    {rewrite::rms_norm, "rms_norm", match_rms_norm, make_normalized},
    {rewrite::softmax, "softmax", match_softmax, make_softmax},
    {rewrite::gelu, "gelu", match_gelu, make_gelu},
    {rewrite::gelu_tanh, "gelu_tanh", match_gelu_tanh, make_gelu_tanh},
    {rewrite::mish, "mish", match_mish, make_mish},
    {rewrite::silu, "silu", match_silu, make_silu},
    {rewrite::quick_gelu, "quick_gelu", match_quick_gelu, nullptr},
    {rewrite::hard_swish, "hard_swish", match_hard_swish, make_hard_swish},
    {rewrite::hard_sigmoid, "hard_sigmoid", match_hard_sigmoid, make_hard_sigmoid},
    {rewrite::sigmoid, "sigmoid", match_sigmoid, make_sigmoid},
    {rewrite::softplus, "softplus", match_softplus, make_softplus},
    {rewrite::channel_shuffle, "channel_shuffle", match_channel_shuffle, make_channel_shuffle},
};

/// Whether a pattern can end with an operation: what spares the others a look.
bool may_end_pattern(const node& n) {
  return n.kind == node_kind::operation &&
         is_call_of_any<op::multiply, op::divide, op::add, op::matmul, op::log, op::log1p, op::where, op::clamp,
                        op::minimum, op::maximum, op::reciprocal, op::concat, op::reshape, op::slice, op::section,
                        op::equal_part, op::select>(n);
}

}  // namespace lamina::rewriting
