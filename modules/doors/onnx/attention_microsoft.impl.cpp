// Attention operators and activations of ONNX Runtime's graph optimizer (com.microsoft).
module lamina.onnx:attention_microsoft.impl;
import :attention;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// Splits the last axis into parts of these sizes.
std::vector<value> parts_of(node_call& c, const value& x, const std::vector<std::int64_t>& sizes) {
  const int last = x.shape().rank - 1;
  std::int64_t sum = 0;
  for (auto n : sizes) {
    if (n < 1 || __builtin_add_overflow(sum, n, &sum)) c.fail("invalid split size ", n, " of ", x.shape());
  }
  if (x.shape()[last].is_number() && x.shape().at(last) != sum)
    c.fail("split sizes sum to ", sum, ", but the operand is ", x.shape());
  std::vector<value> made;
  std::int64_t at = 0;
  for (auto n : sizes) {
    made.push_back(lamina::slice(x, {.start = at, .stop = at + n, .axis = last}));
    at += n;
  }
  return made;
}
std::int64_t known_extent(node_call& c, const value& x, int axis) {
  if (axis < 0 || axis >= x.shape().rank) c.fail("unexpected operand shape ", x.shape());
  if (!x.shape()[axis].is_number()) c.unsupported("extent ", axis, " of ", x.shape(), " is not known");
  return x.shape().at(axis);
}

// Reads a mask in any of its forms: key counts, key counts with first keys, or 0/1 for [keys], [queries, keys] or [1,
// max, max].
void mask_keys(node_call& c, attention_call& a, std::size_t operand, const value& past) {
  const value mask = c.cast_to(c[operand], dtype::int64);
  const shape &s = mask.shape(), &of = a.q.shape();
  value seen;
  if (s.rank == 1) {
    const bool pairs = s[0].is_number() && of[0].is_number() && s[0] != of[0];
    if (pairs && s.at(0) != 2 * of.at(0)) c.unsupported("mask shape ", s, " does not match batch size ", of[0]);
    const auto limit = [&](const value& v) { return value(lamina::reshape(v, shape{dyn, 1, 1, 1})); };
    const value at = key_positions(a.k);
    if (pairs)
      seen = at < limit(lamina::slice(mask, {.start = 0, .stop = of.at(0)})) &&
             at >= limit(lamina::slice(mask, {.start = of.at(0), .stop = s.at(0)}));
    else seen = at < limit(mask);
  } else if (s.rank == 2) seen = lamina::unsqueeze(mask, axes(1, 2)) > 0;
  else if (s.rank == 3) seen = lamina::unsqueeze(mask, axes(1)) > 0;
  else if (s.rank == 4) {
    const value first =
        past.empty() ? c.constant(std::vector<std::int64_t>{0}) : c.extent_of(past, past.shape().rank - 2);
    const value zero = c.constant(std::vector<std::int64_t>{0});
    const value from[] = {first, zero}, to[] = {first + c.extent_of(a.q, 2), c.extent_of(a.k, 2)};
    seen = lamina::slice_at(mask, lamina::concat(view<const value>(from)), lamina::concat(view<const value>(to)),
                            axes(2, 3)) > 0;
  } else c.fail("unexpected mask shape ", s);
  const dtype e = a.q.type().element;
  a.add(lamina::where(seen, c.constant(0.0, e), c.constant(c.real("mask_filter_value", -10000), e)));
}

value past_length(node_call& c, const value& past) {
  return past.empty() ? c.constant(std::vector<std::int64_t>{0}) : c.extent_of(past, past.shape().rank - 2);
}
void see_before(node_call& c, attention_call& a, const value& past) {
  if (c.flag("unidirectional")) a.see(causal(a.q, a.k, past_length(c, past)));
}

void attention(node_call& c) {
  if (c.flag("do_rotary")) c.unsupported("`do_rotary` is not supported");
  if (c.flag("past_present_share_buffer") || c.has(6)) c.unsupported("a shared past/present buffer is not supported");
  const value x = c.number(0);
  const dtype e = x.type().element;
  value all = lamina::matmul(x, c.cast_to(c.number(1), e));
  if (c.has(2)) all = all + c.cast_to(c.number(2), e);
  const std::int64_t columns = known_extent(c, c[1], 1), heads = head_count(c, "num_heads");
  const auto made =
      parts_of(c, all, c.node_call::integers("qkv_hidden_sizes", {columns / 3, columns / 3, columns / 3}));
  if (made.size() != 3) c.fail("`qkv_hidden_sizes` has ", made.size(), " numbers; expected 3");
  attention_call a{.q = split_heads(c, made[0], heads),
                   .k = split_heads(c, made[1], heads),
                   .v = split_heads(c, made[2], heads),
                   .scale = c.real("scale", 0)};
  const value past = c.has(4) ? c.cast_to(c.number(4), e) : value();
  if (!past.empty()) {
    const value keys[] = {lamina::select(past, 0, 0), a.k}, values[] = {lamina::select(past, 0, 1), a.v};
    a.k = lamina::concat(view<const value>(keys), 2), a.v = lamina::concat(view<const value>(values), 2);
  }
  if (c.has(3)) mask_keys(c, a, 3, past);
  if (c.has(5)) a.add(c.cast_to(c.number(5), e));
  see_before(c, a, past);
  c.give_like(0, join_heads(attend(c, a).y));
  if (c.has_output(1)) {
    const value both[] = {a.k, a.v};
    c.give_like(1, lamina::stack(view<const value>(both), 0));
  }
}

// Total columns of all heads of packed queries, keys and values.
std::int64_t depth_of_heads(node_call& c, const value& q, std::int64_t heads) {
  std::int64_t columns = 0;
  if (heads < 1 || __builtin_mul_overflow(known_extent(c, q, 4), heads, &columns)) c.fail("it has ", heads, " heads");
  return columns;
}

// Reads queries, keys and values of MultiHeadAttention: separate; with keys and values packed; all packed; or with keys
// and values already split into heads.
void read_heads(node_call& c, attention_call& a, std::int64_t heads) {
  const dtype e = c.number(0).type().element;
  const auto of_heads = [&](const value& x, int part) {  // [N, T, H, parts, D]
    return value(lamina::permute(lamina::select(x, 3, part), axes(0, 2, 1, 3)));
  };
  std::vector<value> biases(3);
  const auto number = [&](std::size_t i) { return c.cast_to(c.number(i), e); };
  const value q = number(0);
  const std::int64_t depth = q.shape().rank == 5 ? depth_of_heads(c, q, heads) : known_extent(c, q, 2);
  if (c.has(3)) {
    const std::int64_t whole = known_extent(c, c[3], 0);
    if (depth > whole / 2) c.fail("bias ", c.dims(3), " is too short for ", depth, " query columns");
    biases = parts_of(c, number(3), {depth, depth, whole - 2 * depth});
  }
  const auto of_rows = [&](const value& x, std::size_t part) {
    return split_heads(c, biases[part].empty() ? x : value(x + biases[part]), heads);
  };
  const auto with_bias = [&](const value& x, std::size_t part) {  // [N, H, T, D]
    if (biases[part].empty()) return x;
    return value(x + lamina::reshape(biases[part], shape{heads, 1, dyn}));
  };
  if (q.shape().rank == 5) {
    a.q = with_bias(of_heads(q, 0), 0), a.k = with_bias(of_heads(q, 1), 1), a.v = with_bias(of_heads(q, 2), 2);
    return;
  }
  a.q = of_rows(q, 0);
  const value k = number(1);
  if (k.shape().rank == 5) a.k = with_bias(of_heads(k, 0), 1), a.v = with_bias(of_heads(k, 1), 2);
  else if (k.shape().rank == 4) a.k = k, a.v = number(2);
  else a.k = of_rows(k, 1), a.v = of_rows(number(2), 2);
}

void multi_head_attention(node_call& c) {
  if (c.has(8) || c.has(9)) c.unsupported("a shared past/present buffer is not supported");
  attention_call a{.scale = c.real("scale", 0)};
  read_heads(c, a, head_count(c, "num_heads"));
  const dtype e = a.q.type().element;
  const value past = c.has(6) ? c[6] : value();
  a.k = along_past(c, 6, a.k), a.v = along_past(c, 7, a.v);
  if (c.has(4)) mask_keys(c, a, 4, past);
  if (c.has(5)) a.add(c.cast_to(c.number(5), e));
  see_before(c, a, past);
  const auto r = attend(c, a, c.has_output(3) ? 0 : -1);
  c.give_like(0, join_heads(r.y));
  c.give_like(1, a.k);
  c.give_like(2, a.v);
  if (c.has_output(3)) c.give_like(3, r.scores);
}

// Writes keys or values to one buffer: `counts` [N, 1, 1, 1] positions of the past, then the new ones. The buffer has
// at least the size of the past, and at least `total` positions.
value in_buffer(node_call& c, const value& past, const value& now, const value& counts, const value& total) {
  const value capacity = c.extent_of(past, 2), more = c.extent_of(now, 2);
  const value both[] = {past, now};
  const value all = lamina::concat(view<const value>(both), 2);
  const auto number = [&](const value& v) { return value(lamina::reshape(v, shape{})); };
  const value size = lamina::max(number(total), number(capacity));
  const value at = lamina::arange(c.constant(0.0, dtype::int64), size, c.constant(1.0, dtype::int64));
  const value place = lamina::unsqueeze(at, axes(1));  // [room, 1]
  const value from = lamina::where(place < counts, lamina::min(place, capacity - 1),
                                   lamina::min(lamina::max(place - counts, 0), more - 1) + capacity);
  const value extents[] = {c.extent_of(now, 0), c.extent_of(now, 1), lamina::reshape(size, shape{1}),
                           c.extent_of(now, 3)};
  return lamina::take_along_axis(all, lamina::expand(from, lamina::concat(view<const value>(extents))), 2);
}

void rotate_heads(node_call& c, attention_call& a, const value& counts) {
  const dtype e = a.q.type().element;
  const value cosines = c.cast_to(c.number(7), e), sines = c.cast_to(c.number(8), e);
  const std::int64_t depth = 2 * known_extent(c, cosines, 1);
  const value at = c.has(9) ? c.cast_to(c[9], dtype::int64)
                            : value(lamina::reshape(counts, shape{dyn, 1}) + lamina::positions(a.q, 2));
  const value cosine = lamina::gather(cosines, at, 0), sine = lamina::gather(sines, at, 0);
  for (value* x : {&a.q, &a.k})
    *x = lamina::permute(
        rotated(c, lamina::permute(*x, axes(0, 2, 1, 3)), cosine, sine, depth, c.flag("rotary_interleaved")),
        axes(0, 2, 1, 3));
}

void normalize_heads(node_call& c, attention_call& a) {
  if (!c.has(14) && !c.has(15)) return;
  const dtype e = a.q.type().element;
  const double both = c.real("qk_norm_epsilon", 1e-6);
  a.q = lamina::rms_norm(a.q, c.cast_to(c.number(14), e), {.axes = 1, .epsilon = c.real("q_norm_epsilon", both)});
  a.k = lamina::rms_norm(a.k, c.cast_to(c.number(15), e), {.axes = 1, .epsilon = c.real("k_norm_epsilon", both)});
}

void group_query_attention(node_call& c) {
  if (c.has(12) || c.has(13) || c.integer("kv_cache_bit_width", 0) > 0)
    c.unsupported("quantized keys and values are not supported");
  if (c.has(16) || c.flag("sliding_window_cache"))
    c.unsupported("chunks of different lengths and sliding buffers are not supported");
  const std::int64_t heads = head_count(c, "num_heads"), own = head_count(c, "kv_num_heads");
  const value x = c.number(0);
  const dtype e = x.type().element;
  attention_call a{.scale = c.real("scale", 0), .softcap = c.real("softcap", 0)};
  if (c.has(1)) {
    a.q = split_heads(c, x, heads);
    a.k = split_heads(c, c.cast_to(c.number(1), e), own), a.v = split_heads(c, c.cast_to(c.number(2), e), own);
  } else {
    if (heads < 1 || own < 1) c.fail("it has ", heads, " query and ", own, " key heads");
    const std::int64_t depth = known_extent(c, x, 2) / (heads + 2 * own);
    const auto made = parts_of(c, x, {heads * depth, own * depth, own * depth});
    a.q = split_heads(c, made[0], heads), a.k = split_heads(c, made[1], own), a.v = split_heads(c, made[2], own);
  }
  // Number of past positions of each sample.
  const value whole = lamina::reshape(c.cast_to(c[5], dtype::int64), shape{dyn, 1, 1, 1}) + 1;
  const value counts = lamina::max(whole - c.extent_of(a.q, 2), 0);
  normalize_heads(c, a);
  if (c.flag("do_rotary")) rotate_heads(c, a, counts);
  if (c.has(3)) {
    const value total = c.cast_to(c[6], dtype::int64);
    a.k = in_buffer(c, c.cast_to(c.number(3), e), a.k, counts, total);
    a.v = in_buffer(c, c.cast_to(c.number(4), e), a.v, counts, total);
  }
  const std::int64_t window = c.integer("local_window_size", -1);
  if (c.flag("causal", true)) a.see(causal(a.q, a.k, counts));
  else a.see(key_positions(a.k) < whole);
  if (window > 0) a.see(query_positions(a.q) + counts - window < key_positions(a.k));
  if (c.has(10)) a.add(whole_mask(c, c.cast_to(c.number(10), e), a.k));
  if (c.has(11)) a.sinks = c.cast_to(c.number(11), e);
  else if (c.flag("smooth_softmax"))
    a.sinks = lamina::broadcast_like(c.constant(0.0, e),
                                     lamina::select(lamina::select(lamina::select(a.q, 3, 0), 2, 0), 0, 0));
  const std::int64_t output = c.integer("qk_output", 0);
  const auto r = attend(c, a, c.has_output(3) && output ? (output == 1 ? 2 : 3) : -1);
  c.give_like(0, join_heads(r.y));
  c.give_like(1, a.k);
  c.give_like(2, a.v);
  if (!r.scores.empty()) c.give_like(3, r.scores);
}

void rotary_embedding(node_call& c) {
  if (c.flag("is_packed_batching")) c.unsupported("packed batches are not supported");
  if (c.real("scale", 1) != 1) c.unsupported("`scale` must be 1");
  const value given = c.number(0);
  const dtype e = given.type().element;
  const value cosines = c.cast_to(c.number(2), e), sines = c.cast_to(c.number(3), e);
  const std::int64_t depth = 2 * known_extent(c, cosines, 1);
  const bool packed = given.shape().rank == 3;
  std::int64_t heads = c.integer("num_heads", 0);
  if (packed && heads == 0) heads = known_extent(c, given, 2) / std::max<std::int64_t>(depth, 1);
  const value x = lamina::permute(packed ? split_heads(c, given, heads) : given, axes(0, 2, 1, 3));
  value at = c.cast_to(c[1], dtype::int64);
  if (at.shape().rank < 2) at = lamina::unsqueeze(lamina::reshape(at, shape{1}) + lamina::positions(x, 1), axes(0));
  const value y =
      rotated(c, x, lamina::gather(cosines, at, 0), lamina::gather(sines, at, 0), depth, c.flag("interleaved"));
  c.give_like(0, packed ? value(lamina::reshape_like(y, given)) : value(lamina::permute(y, axes(0, 2, 1, 3))));
}

value with_bias(node_call& c) { return c.has(1) ? value(c.number(0) + c.number(1)) : c.number(0); }
void gelu(node_call& c) { c.give_like(0, lamina::gelu(with_bias(c))); }
void fast_gelu(node_call& c) { c.give_like(0, lamina::gelu_tanh(with_bias(c))); }
void quick_gelu(node_call& c) {
  const value x = c.number(0);
  c.give_like(0, x * lamina::sigmoid(x * c.real("alpha", 1.702)));
}

constexpr converter_entry entries[] = {
    {"Attention", 1, attention},
    {"BiasGelu", 1, gelu},
    {"FastGelu", 1, fast_gelu},
    {"Gelu", 1, gelu},
    {"GroupQueryAttention", 1, group_query_attention},
    {"MultiHeadAttention", 1, multi_head_attention},
    {"QuickGelu", 1, quick_gelu},
    {"RotaryEmbedding", 1, rotary_embedding},
};

}  // namespace

converter_list microsoft_attention_converters() { return entries; }

}  // namespace lamina::onnx
