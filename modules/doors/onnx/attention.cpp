// What the operators of attention share.
module lamina.onnx:attention;
import :convert;
import lamina;
import lamina.std;

namespace lamina::onnx {

/// softmax(cap(scale q k^T) + mask) v of heads [N, H, T, D], [N, G, S, D] and [N, G, S, E], where G divides H.
struct attention_call {
  value q{}, k{}, v{};
  value seen{};                      // bool that broadcasts to [N, H, T, S]; empty: all keys
  value bias{};                      // is added to scores; or empty
  double scale = 0, softcap = 0;     // 0: 1 / sqrt(D); none
  dtype precision = dtype::float32;  // of softmax, at least
  value sinks{};                     // [H]: scores of a key more, which has no value; or empty

  /// Also where other keys are seen already.
  void see(const value& which);
  void add(const value& b);
};
/// `scores` are what `stage` says, where it is wanted: 0 products, 1 after the cap, 2 after the mask, 3 softmax.
struct attention_result {
  value y{}, scores{};
};
attention_result attend(node_call& c, const attention_call& a, int stage = -1);

/// The attribute NAME as a number of heads: at least 1, and small enough that products of two fit 64 bits.
std::int64_t head_count(node_call& c, std::string_view name);
/// [N, T, H * D] as [N, H, T, D], and the other way.
value split_heads(node_call& c, const value& x, std::int64_t heads);
value join_heads(const value& x);
/// Positions of queries, [T, 1], and of keys, [S], int64.
value query_positions(const value& q);
value key_positions(const value& k);
/// How many keys stand before the first query: `offset` of these shapes broadcasts to [N, 1, T, 1].
value causal(const value& q, const value& k, const value& offset);

/// The mask [..., S'] with as many keys as there are; those that it lacks are not seen.
value whole_mask(node_call& c, const value& mask, const value& k);
/// `now` [N, G, T, D] behind operand `past`, where that is there.
value along_past(node_call& c, std::size_t past, const value& now);

/// Pairs of the first `depth` of the last axis, turned by angles.
/// Shapes: x [N, T, H, D], cosines and sines [N or 1, T, depth / 2].
value rotated(node_call& c, const value& x, const value& cosines, const value& sines, std::int64_t depth,
              bool interleaved);

}  // namespace lamina::onnx
