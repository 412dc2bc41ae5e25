// Shared parts of the attention operators.
module lamina.onnx:attention;
import :convert;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// softmax(cap(scale q k^T) + mask) v of heads [N, H, T, D], [N, G, S, D] and [N, G, S, E], where G divides H.
struct attention_call {
  value q{}, k{}, v{};
  value seen{};                      // bool, broadcasts to [N, H, T, S]: visible keys; empty: all
  value bias{};                      // added to the scores; or empty
  double scale = 0, softcap = 0;     // 0 means: scale 1 / sqrt(D); no cap
  dtype precision = dtype::float32;  // minimum precision of the softmax
  value sinks{};                     // [H]: score of an extra key without a value; or empty

  /// Restricts the visible keys to `which`; calls accumulate.
  void see(const value& which);
  void add(const value& b);
};
/// `scores` are requested by `stage`: 0 products, 1 after the cap, 2 after the mask, 3 softmax.
struct attention_result {
  value y{}, scores{};
};
attention_result attend(node_call& c, const attention_call& a, int stage = -1);

/// Attribute `name` as a number of heads: at least 1, and so small that the product of two fits in 64 bits.
std::int64_t head_count(node_call& c, std::string_view name);
/// [N, T, H * D] to [N, H, T, D], and back.
value split_heads(node_call& c, const value& x, std::int64_t heads);
value join_heads(const value& x);
/// Positions of queries, [T, 1], and of keys, [S], int64.
value query_positions(const value& q);
value key_positions(const value& k);
/// Causal mask: `offset`, the number of keys before the first query, broadcasts to [N, 1, T, 1].
value causal(const value& q, const value& k, const value& offset);

/// Pads the mask [..., S'] to the number of keys; the added keys are hidden.
value whole_mask(node_call& c, const value& mask, const value& k);
/// Concatenates operand `past`, if present, and `now` [N, G, T, D] along T.
value along_past(node_call& c, std::size_t past, const value& now);

/// Rotary embedding: rotates pairs of the first `depth` elements of the last axis.
/// Shapes: x [N, T, H, D], cosines and sines [N or 1, T, depth / 2].
value rotated(node_call& c, const value& x, const value& cosines, const value& sines, std::int64_t depth,
              bool interleaved);

}  // namespace lamina::onnx
