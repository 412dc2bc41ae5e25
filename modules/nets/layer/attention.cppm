// Attention and transformer blocks. Parameters have the names and layouts of torch.nn, batch first.
export module lamina:layer.attention;
import :core;
import :layer;
import :layer.activation;
import :layer.linear;
import :layer.normalize;
import :layer.regular;
import :op;
import :op.activation;
import :op.attention;
import :op.elementwise;
import :op.linear;
import :op.shape;
import :parameter;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::nn {

namespace detail {
/// Common part of the attention layers: input projections in one matrix [3 embed_dim, embed_dim], output projection.
struct heads_of {
  std::int64_t embed_dim, num_heads;
  bool bias, causal;

  constexpr std::int64_t depth() const { return embed_dim / num_heads; }
  constexpr void check(std::string_view name, view<const tensor_type> x, text& why) const {
    if (embed_dim < 1 || num_heads < 1 || embed_dim % num_heads) {
      why << name << ": " << embed_dim << " features do not divide into " << num_heads << " heads";
      return;
    }
    for (const auto& v : x)
      if (v.dims.rank != 3 || !may_equal(v.dims.back(), embed_dim)) {
        why << name << " expects [N, T, " << embed_dim << "] but is given " << v.dims;
        return;
      }
  }
  constexpr auto weight(auto& s) const {
    return s.parameter("in_proj_weight", shape{3 * embed_dim, embed_dim},
                       initializer::xavier_uniform(embed_dim, 3 * embed_dim));
  }
  constexpr auto shift(auto& s) const {
    return s.parameter("in_proj_bias", shape{3 * embed_dim}, initializer::constant(0));
  }
  /// [N, T, embed_dim] -> [N, num_heads, T, depth]
  constexpr auto split(const auto& x) const {
    return lamina::permute(lamina::reshape(x, shape{x.shape()[0], x.shape()[1], num_heads, depth()}), axes(0, 2, 1, 3));
  }
  constexpr auto attend(auto& s, const auto& q, const auto& k, const auto& v, const auto&... mask) const {
    return joined(s, lamina::attention(split(q), split(k), split(v), mask..., {.causal = causal}));
  }
  /// The same with the attention weights of each head as a second output.
  template <class V>
  constexpr void attend_with_weights(auto& s, const V& q, const V& k, const V& v, const V* mask, view<V> out) const {
    const V scaled(split(q) / lamina::sqrt(s.constant(shape{}, static_cast<double>(depth()))));
    const V weights = lamina::detail::attention_weights(scaled, V(split(k)), causal, mask);
    out[0] = joined(s, lamina::matmul(weights, split(v)));
    if (out.size() > 1) out[1] = weights;
  }
  /// Joins heads [N, num_heads, T, depth] and applies the output projection.
  constexpr auto joined(auto& s, const auto& heads) const {
    auto y = lamina::permute(heads, axes(0, 2, 1, 3));
    auto rows = lamina::reshape(y, shape{y.shape()[0], y.shape()[1], embed_dim});
    return s("out_proj", linear{.in_features = embed_dim, .out_features = embed_dim, .bias = bias}, rows);
  }
  /// Third number `part` (0, 1, 2) of an axis of extent 3 embed_dim.
  constexpr auto third(const auto& x, std::int64_t part, std::int64_t axis) const {
    return lamina::slice(x, {.start = part * embed_dim, .stop = (part + 1) * embed_dim, .axis = axis});
  }
};
}  // namespace detail

// `mask` adds an input port of that name, which broadcasts to [N, num_heads, T, S]: bool, true where a key is visible
// (the opposite of PyTorch's layers), or numbers added to the scores. Attention weights have no dropout.

/// Attention without parameters: softmax(scale query key^T + mask) value; `scale` 0 means 1 / sqrt(depth).
/// Shapes:  query [..., H, T, D], key [..., G, S, D], value [..., G, S, E] -> [..., H, T, E]; G divides H.
/// `causal`: query t attends to keys 0..S - T + t. `mask`: a port that broadcasts to
/// [..., H, T, S].
export struct attention {
  static constexpr bool has_forward_ports = true;
  bool causal = false, mask = false;
  double scale = 0;
  constexpr view<const label> inputs() const {
    return mask ? view<const label>(port_names<"query", "key", "value", "mask">)
                : view<const label>(port_names<"query", "key", "value">);
  }
  template <class S, class V> constexpr void forward_ports(S&, view<const V> in, view<V> out) const {
    const attention_attributes a{.causal = causal, .scale = scale};
    out[0] = mask ? lamina::attention(in[0], in[1], in[2], in[3], a) : lamina::attention(in[0], in[1], in[2], a);
  }
};

/// Multi-head self-attention: torch.nn.MultiheadAttention with one input as query, key and value.
/// Shapes:  x [N, T, embed_dim] -> the same; in_proj_weight [3 embed_dim, embed_dim], in_proj_bias [3 embed_dim],
///          out_proj.weight [embed_dim, embed_dim], out_proj.bias [embed_dim].
/// `causal`: a position attends only to itself and earlier ones. `mask`: a port (bool or numbers) that broadcasts to
/// [N, num_heads, T, T].
/// `weights`: an output of that name, [N, num_heads, T, T]: the attention weights of each query over the keys.
export struct self_attention {
  static constexpr bool has_forward_ports = true;
  std::int64_t embed_dim = 0, num_heads = 1;
  bool bias = true, causal = false, mask = false, weights = false;

  constexpr view<const label> inputs() const {
    return mask ? view<const label>(port_names<"input", "mask">) : view<const label>(port_names<"input">);
  }
  constexpr view<const label> outputs() const {
    return weights ? view<const label>(port_names<"output", "weights">) : view<const label>(port_names<"output">);
  }
  constexpr void check(view<const tensor_type> x, text& why) const {
    parts().check("self_attention", {x.data(), 1}, why);
  }
  template <class S, class V> constexpr void forward_ports(S& s, view<const V> in, view<V> out) const {
    const auto p = parts();
    if (!weights) {
      out[0] = mask ? forward(s, in[0], in[1]) : forward(s, in[0]);
      return;
    }
    const V all = shifted(s, in[0]);
    p.template attend_with_weights<V>(s, p.third(all, 0, -1), p.third(all, 1, -1), p.third(all, 2, -1),
                                      mask ? &in[1] : nullptr, out);
  }
  constexpr auto forward(auto& s, const auto& x, const auto&... seen) const {
    const auto p = parts();
    const auto all = shifted(s, x);
    return p.attend(s, p.third(all, 0, -1), p.third(all, 1, -1), p.third(all, 2, -1), seen...);
  }

 private:
  constexpr detail::heads_of parts() const { return {embed_dim, num_heads, bias, causal}; }
  constexpr auto shifted(auto& s, const auto& x) const {
    const auto p = parts();
    auto all = lamina::matmul(x, p.weight(s), {.transpose_b = true});
    return biased(*this, s) ? all + p.shift(s) : all;
  }
};

/// Multi-head attention of one sequence to another, as torch.nn.MultiheadAttention.
/// Shapes:  query [N, T, embed_dim], key and value [N, S, embed_dim] -> [N, T, embed_dim]; parameters of
///          `self_attention`.
/// `causal`: query t attends to keys 0..S - T + t. `mask`: a port that broadcasts to
/// [N, num_heads, T, S].
/// `weights`: an output of that name, [N, num_heads, T, S], as in PyTorch with `average_attn_weights=False`.
export struct multi_head_attention {
  static constexpr bool has_forward_ports = true;
  std::int64_t embed_dim = 0, num_heads = 1;
  bool bias = true, causal = false, mask = false, weights = false;

  constexpr view<const label> inputs() const {
    return mask ? view<const label>(port_names<"query", "key", "value", "mask">)
                : view<const label>(port_names<"query", "key", "value">);
  }
  constexpr view<const label> outputs() const {
    return weights ? view<const label>(port_names<"output", "weights">) : view<const label>(port_names<"output">);
  }
  constexpr void check(view<const tensor_type> x, text& why) const {
    parts().check("multi_head_attention", {x.data(), 3}, why);
  }
  template <class S, class V> constexpr void forward_ports(S& s, view<const V> in, view<V> out) const {
    if (!weights) {
      out[0] = mask ? forward(s, in[0], in[1], in[2], in[3]) : forward(s, in[0], in[1], in[2]);
      return;
    }
    with_projections(s, in[0], in[1], in[2], [&](const V& query, const V& key, const V& value) {
      parts().template attend_with_weights<V>(s, query, key, value, mask ? &in[3] : nullptr, out);
    });
  }
  constexpr auto forward(auto& s, const auto& query, const auto& key, const auto& value, const auto&... seen) const {
    return with_projections(s, query, key, value, [&](const auto& q, const auto& k, const auto& v) {
      return parts().attend(s, q, k, v, seen...);
    });
  }

 private:
  constexpr auto with_projections(auto& s, const auto& query, const auto& key, const auto& value, auto f) const {
    const auto p = parts();
    const auto weight = p.weight(s);
    const auto project = [&](const auto& x, std::int64_t part) {
      return lamina::matmul(x, p.third(weight, part, 0), {.transpose_b = true});
    };
    if (!biased(*this, s)) return f(project(query, 0), project(key, 1), project(value, 2));
    const auto shift = p.shift(s);
    const auto shifted = [&](const auto& x, std::int64_t part) { return project(x, part) + p.third(shift, part, 0); };
    return f(shifted(query, 0), shifted(key, 1), shifted(value, 2));
  }
  constexpr detail::heads_of parts() const { return {embed_dim, num_heads, bias, causal}; }
};

/// Self-attention as in Llama: groups of query heads share a key/value head, and queries and keys get rotary position
/// embeddings. Parameters have the names and layouts of Llama's checkpoints.
/// Shapes:  x [N, T, embed_dim] -> the same; q_proj.weight [num_heads depth, embed_dim], k_proj.weight and v_proj.weight
///          [num_kv_heads depth, embed_dim], o_proj.weight [embed_dim, num_heads depth]; depth is embed_dim / num_heads, and even.
/// `base`: base of the rotation angles. `causal`: a position attends only to itself and earlier ones.
/// Source:  Touvron et al., "Llama 2" (2023), arXiv:2307.09288; see also `attention` and `rope`.
export struct grouped_query_attention {
  std::int64_t embed_dim = 0, num_heads = 1, num_kv_heads = 1;
  double base = 10000;
  bool bias = false, causal = true;

  constexpr void check(view<const tensor_type> x, text& why) const {
    detail::heads_of{embed_dim, num_heads, bias, causal}.check("grouped_query_attention", x, why);
    if (!why.empty()) return;
    if (num_kv_heads < 1 || num_heads % num_kv_heads)
      why << "grouped_query_attention: " << num_heads << " query heads are not a multiple of " << num_kv_heads
          << " key heads";
    else if (embed_dim / num_heads % 2)
      why << "grouped_query_attention: a head size of " << embed_dim / num_heads
          << " is odd; rotary positions need pairs";
  }
  constexpr auto forward(auto& s, const auto& x) const {
    const std::int64_t depth = embed_dim / num_heads;
    const auto project = [&](const char* name, std::int64_t count) {
      auto y = s(name, linear{.in_features = embed_dim, .out_features = count * depth, .bias = bias}, x);
      return lamina::permute(lamina::reshape(y, shape{x.shape()[0], x.shape()[1], count, depth}), axes(0, 2, 1, 3));
    };
    auto at = lamina::positions(x, 1);
    auto q = lamina::rope(project("q_proj", num_heads), at, {.base = base}),
         k = lamina::rope(project("k_proj", num_kv_heads), at, {.base = base});
    auto y =
        lamina::permute(lamina::attention(q, k, project("v_proj", num_kv_heads), {.causal = causal}), axes(0, 2, 1, 3));
    return s("o_proj", linear{.in_features = embed_dim, .out_features = embed_dim, .bias = bias},
             lamina::reshape(y, shape{y.shape()[0], y.shape()[1], embed_dim}));
  }
};

/// Gated feedforward layer: down(silu(gate(x)) up(x)).
/// Parameters: gate_proj.weight and up_proj.weight [hidden_features, in_features], down_proj.weight [in_features,
/// hidden_features].
/// Shapes:  x [..., in_features] -> the same.   Source: Shazeer, "GLU Variants Improve Transformer" (2020), arXiv:2002.05202.
export struct swiglu {
  std::int64_t in_features = 0, hidden_features = 0;
  bool bias = false;

  constexpr auto forward(auto& s, const auto& x) const {
    const linear in{.in_features = in_features, .out_features = hidden_features, .bias = bias},
        out{.in_features = hidden_features, .out_features = in_features, .bias = bias};
    auto gate = lamina::silu(s("gate_proj", in, x));
    return s("down_proj", out, gate * s("up_proj", in, x));
  }
};

/// Activation between the two linear layers of a transformer layer.
export enum class feedforward_activation { relu, gelu };

namespace detail {
constexpr auto feed_forward(auto& s, const auto& x, std::int64_t features, std::int64_t hidden, double drop, bool bias,
                            feedforward_activation f) {
  auto h = s("linear1", linear{.in_features = features, .out_features = hidden, .bias = bias}, x);
  auto y = f == feedforward_activation::relu ? lamina::relu(h) : lamina::gelu(h);
  return s("linear2", linear{.in_features = hidden, .out_features = features, .bias = bias},
           s("dropout", dropout{drop}, y));
}
}  // namespace detail

/// Transformer encoder layer: self-attention, then two linear layers, both parts with a residual connection. Layer
/// normalization follows each sum, or precedes each part (`norm_first`).
/// Shapes:  x [N, T, d_model] -> the same; self_attn.*, linear1.* [dim_feedforward, d_model], linear2.*, norm1.*, norm2.*
///          as torch.nn.TransformerEncoderLayer has them.
/// `mask`: a port, bool or numbers, that broadcasts to [N, nhead, T, T], as in `self_attention`.
export struct transformer_encoder_layer {
  std::int64_t d_model = 0, nhead = 1, dim_feedforward = 2048;
  double dropout = 0.1;
  feedforward_activation activation = feedforward_activation::relu;
  double epsilon = 1e-5;
  bool norm_first = false, bias = true, causal = false, mask = false;

  static constexpr bool has_forward_ports = true;
  constexpr view<const label> inputs() const {
    return mask ? view<const label>(port_names<"input", "mask">) : view<const label>(port_names<"input">);
  }
  template <class S, class V> constexpr void forward_ports(S& s, view<const V> in, view<V> out) const {
    out[0] = mask ? forward(s, in[0], in[1]) : forward(s, in[0]);
  }
  constexpr auto forward(auto& s, const auto& x, const auto&... shown) const {
    const layer_norm norm{.normalized_shape = {d_model}, .epsilon = epsilon, .bias = bias};
    const self_attention attention{d_model, nhead, bias, causal, mask};
    const auto seen = [&](const auto& v) {
      return s("dropout1", nn::dropout{dropout}, s("self_attn", attention, v, shown...));
    };
    const auto fed = [&](const auto& v) {
      return s("dropout2", nn::dropout{dropout},
               detail::feed_forward(s, v, d_model, dim_feedforward, dropout, bias, activation));
    };
    if (norm_first) {
      auto y = x + seen(s("norm1", norm, x));
      return y + fed(s("norm2", norm, y));
    }
    auto y = s("norm1", norm, x + seen(x));
    return s("norm2", norm, y + fed(y));
  }
};

/// Transformer decoder layer: causal self-attention of the target, attention to the memory, then two linear layers.
/// Shapes:  target [N, T, d_model], memory [N, S, d_model] -> [N, T, d_model]; self_attn.*, multihead_attn.*,
///          linear1.*, linear2.*, norm1.*, norm2.*, norm3.* as torch.nn.TransformerDecoderLayer has them.
/// `mask`: a port, bool or numbers, that broadcasts to [N, nhead, T, S]; masks the attention to the memory.
export struct transformer_decoder_layer {
  std::int64_t d_model = 0, nhead = 1, dim_feedforward = 2048;
  double dropout = 0.1;
  feedforward_activation activation = feedforward_activation::relu;
  double epsilon = 1e-5;
  bool norm_first = false, bias = true, causal = true, mask = false;

  static constexpr bool has_forward_ports = true;
  constexpr view<const label> inputs() const {
    return mask ? view<const label>(port_names<"target", "memory", "mask">)
                : view<const label>(port_names<"target", "memory">);
  }
  template <class S, class V> constexpr void forward_ports(S& s, view<const V> in, view<V> out) const {
    out[0] = mask ? forward(s, in[0], in[1], in[2]) : forward(s, in[0], in[1]);
  }
  constexpr auto forward(auto& s, const auto& target, const auto& memory, const auto&... shown) const {
    const layer_norm norm{.normalized_shape = {d_model}, .epsilon = epsilon, .bias = bias};
    const auto own = [&](const auto& v) {
      return s("dropout1", nn::dropout{dropout}, s("self_attn", self_attention{d_model, nhead, bias, causal}, v));
    };
    const auto other = [&](const auto& v) {
      return s("dropout2", nn::dropout{dropout},
               s("multihead_attn",
                 multi_head_attention{.embed_dim = d_model, .num_heads = nhead, .bias = bias, .mask = mask}, v, memory,
                 memory, shown...));
    };
    const auto fed = [&](const auto& v) {
      return s("dropout3", nn::dropout{dropout},
               detail::feed_forward(s, v, d_model, dim_feedforward, dropout, bias, activation));
    };
    if (norm_first) {
      auto a = target + own(s("norm1", norm, target));
      auto b = a + other(s("norm2", norm, a));
      return b + fed(s("norm3", norm, b));
    }
    auto a = s("norm1", norm, target + own(target));
    auto b = s("norm2", norm, a + other(a));
    return s("norm3", norm, b + fed(b));
  }
};

}  // namespace lamina::nn
