// Attention, rotary embeddings, and linear attention.
module lamina.onnx:attention.impl;
import :attention;
import :convert;
import :message;
import :scope;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {
constexpr double infinity = std::numeric_limits<double>::infinity();
}

void attention_call::see(const value& which) { seen = seen.empty() ? which : value(seen && which); }
void attention_call::add(const value& b) { bias = bias.empty() ? b : value(bias + b); }

std::int64_t head_count(node_call& c, std::string_view name) {
  const std::int64_t n = c.integer(name);
  if (n < 1 || n > std::numeric_limits<std::int32_t>::max()) c.fail("`", name, "` is ", n);
  return n;
}
value split_heads(node_call& c, const value& x, std::int64_t heads) {
  const shape& s = x.shape();
  if (s.rank != 3 || heads < 1) c.fail("expected rank 3 and 1 or more heads; got ", s, " and ", heads);
  if (s[2].is_number() && s.at(2) % heads) c.fail(heads, " heads do not divide ", s);
  const dim depth = s[2].is_number() ? dim(s.at(2) / heads) : dim(dyn);
  return lamina::permute(lamina::reshape(x, shape{s[0], s[1], heads, depth}), axes(0, 2, 1, 3));
}
value join_heads(const value& x) {
  const value turned = lamina::permute(x, axes(0, 2, 1, 3));
  const shape& s = turned.shape();
  const bool known = s[2].is_number() && s[3].is_number();
  return lamina::reshape(turned, shape{s[0], s[1], known ? dim(s.at(2) * s.at(3)) : dim(dyn)});
}
value query_positions(const value& q) { return lamina::unsqueeze(lamina::positions(q, 2), axes(1)); }
value key_positions(const value& k) { return lamina::positions(k, 2); }
value causal(const value& q, const value& k, const value& offset) {
  return key_positions(k) <= query_positions(q) + offset;
}

namespace {

value scores_of(node_call& c, const attention_call& a, const value& keys) {
  const value s = lamina::matmul(a.q, keys, {.transpose_b = true});
  if (a.scale != 0) return s * a.scale;
  const dim depth = a.q.shape()[3];
  if (depth.is_number()) return s / std::sqrt(static_cast<double>(depth.code));
  return s / lamina::sqrt(c.cast_to(c.extent_of(a.q, 3), s.type().element));
}

// Row softmax; rows without a visible key give 0.
value shares(const attention_call& a, const value& scores) {
  value s = scores;
  if (!a.sinks.empty()) {  // a temporary extra column
    const shape& of = s.shape();
    const value column = lamina::reshape(a.sinks, shape{1, dyn, 1, 1});
    const value like = lamina::slice(s, {.start = 0, .stop = 1, .axis = 3});
    const value wide[] = {lamina::broadcast_like(column, like), s};
    const value p = lamina::softmax(lamina::concat(view<const value>(wide), 3), {.axis = 3});
    return lamina::slice(p,
                         {.start = 1, .stop = of[3].is_number() ? of.at(3) + 1 : slice_attributes{}.stop, .axis = 3});
  }
  const value p = lamina::softmax(s, {.axis = 3});
  value any;
  const auto some = [&](const value& which) {
    const value now = lamina::reduce_any(which, {.axes = {which.shape().rank - 1}, .keepdim = true});
    any = any.empty() ? now : value(any && now);
  };
  if (!a.seen.empty() && !a.bias.empty()) some(a.seen && a.bias > -infinity);
  else if (!a.seen.empty()) some(a.seen);
  else if (!a.bias.empty()) some(a.bias > -infinity);
  return any.empty() ? p : value(lamina::where(any, p, 0));
}

// Repeats the heads of keys or values for the query heads that share them.
value repeated(node_call& c, const value& x, const value& q) {
  const dim all = q.shape()[1], own = x.shape()[1];
  if (all == own && all != dim(dyn)) return x;
  if (!all.is_number() || !own.is_number()) {
    const value at = lamina::positions(q, 1) * c.extent_of(x, 1) / c.extent_of(q, 1);
    return lamina::gather(x, at, 1);
  }
  if (own.code == 0 || all.code % own.code) c.fail(own, " key heads do not divide ", all);
  return lamina::repeat(x, all.code / own.code, 1);
}

}  // namespace

attention_result attend(node_call& c, const attention_call& a, int stage) {
  const dtype e = a.q.type().element;
  const bool plain =
      stage < 0 && a.softcap == 0 && a.sinks.empty() && (a.precision != dtype::float64 || e == a.precision);
  if (plain) {
    const attention_attributes with{.scale = a.scale};
    if (a.seen.empty() && a.bias.empty()) return {lamina::attention(a.q, a.k, a.v, with), {}};
    if (a.bias.empty()) return {lamina::attention(a.q, a.k, a.v, a.seen, with), {}};
    const value mask = a.seen.empty() ? a.bias : value(lamina::where(a.seen, a.bias, c.constant(-infinity, e)));
    return {lamina::attention(a.q, a.k, a.v, mask, with), {}};
  }
  attention_result r;
  const auto keep = [&](int at, const value& v) {
    if (at == stage) r.scores = v;
  };
  value s = scores_of(c, a, repeated(c, a.k, a.q));
  keep(0, s);
  if (a.softcap != 0) s = lamina::tanh(s / a.softcap) * a.softcap;
  keep(1, s);
  if (!a.bias.empty()) s = s + a.bias;
  if (!a.seen.empty()) s = lamina::where(a.seen, s, c.constant(-infinity, e));
  keep(2, s);
  const value p = c.cast_to(shares(a, a.precision == dtype::float64 ? c.cast_to(s, a.precision) : s), e);
  keep(3, p);
  r.y = lamina::matmul(p, repeated(c, a.v, a.q));
  return r;
}

value along_past(node_call& c, std::size_t past, const value& now) {
  if (!c.has(past)) return now;
  const value both[] = {c.cast_to(c.number(past), now.type().element), now};
  return lamina::concat(view<const value>(both), 2);
}

value whole_mask(node_call& c, const value& mask, const value& k) {
  const int last = mask.shape().rank - 1;
  if (last < 0 || mask.shape()[last] == k.shape()[2] || mask.shape()[last] == dim(1)) return mask;
  const bool logic = mask.type().element == dtype::boolean;
  if (mask.shape()[last].is_number() && k.shape()[2].is_number()) {
    const std::int64_t more = k.shape().at(2) - mask.shape().at(last);
    if (more < 0) c.fail("its mask ", mask.shape(), " has more keys than ", k.shape());
    return lamina::pad(mask, {.axis = last, .before = 0, .after = more, .value = logic ? 0 : -infinity});
  }
  const value sides[] = {c.constant(std::vector<std::int64_t>{0}), c.extent_of(k, 2) - c.extent_of(mask, last)};
  return lamina::pad_by(mask, lamina::concat(view<const value>(sides)),
                        {.axes = axes(last), .value = logic ? 0 : -infinity});
}

namespace {

void attention(node_call& c) {
  const dtype e = c.number(0).type().element;
  attention_call a{.q = c.number(0), .k = c.cast_to(c.number(1), e), .v = c.cast_to(c.number(2), e)};
  const bool packed = a.q.shape().rank == 3;
  if (packed) {
    const std::int64_t heads = head_count(c, "q_num_heads"), own = head_count(c, "kv_num_heads");
    a.q = split_heads(c, a.q, heads), a.k = split_heads(c, a.k, own), a.v = split_heads(c, a.v, own);
  }
  for (const value* x : {&a.q, &a.k, &a.v})
    if (x->shape().rank != 4) c.fail("its queries, keys and values have rank ", x->shape().rank, "; expected 3 or 4");
  a.k = along_past(c, 4, a.k), a.v = along_past(c, 5, a.v);
  a.scale = c.real("scale", 0), a.softcap = c.real("softcap", 0);
  a.precision = c.element("softmax_precision", dtype::float32);
  if (c.has(3)) {
    const value mask = whole_mask(c, c.number(3), a.k);
    if (mask.type().element == dtype::boolean) a.see(mask);
    else a.add(c.cast_to(mask, e));
  }
  value offset = c.constant(std::vector<std::int64_t>{0}), counts;
  if (c.has(6)) {
    counts = lamina::reshape(c.cast_to(c[6], dtype::int64), shape{dyn, 1, 1, 1});
    offset = counts - c.extent_of(a.q, 2);
    a.see(key_positions(a.k) < counts);
  }
  if (c.has(4)) offset = c.extent_of(c[4], 2);
  const std::int64_t left = c.integer("left_window_size", -1), right = c.integer("right_window_size", -1);
  if (c.flag("is_causal")) a.see(causal(a.q, a.k, offset));
  if (left >= 0) a.see(query_positions(a.q) + offset - left <= key_positions(a.k));
  if (right >= 0) a.see(causal(a.q, a.k, offset + right));
  const auto r = attend(c, a, c.has_output(3) ? static_cast<int>(c.integer("qk_matmul_output_mode", 0)) : -1);
  c.give_like(0, packed ? join_heads(r.y) : r.y);
  c.give_like(1, a.k, 1);
  c.give_like(2, a.v, 2);
  if (c.has_output(3)) {
    if (r.scores.empty()) c.fail("invalid `qk_matmul_output_mode`; expected 0 to 3");
    c.give_like(3, r.scores);
  }
}

// Applies a score-modification graph of FlexAttention.
value modified(node_call& c, std::string_view name, const value& x) {
  if (!c.has_attribute(name)) return x;
  auto results = c.inlined(c.graph(name), {known_value{.v = x}});
  if (results.size() != 1) c.fail("`", name, "` has ", results.size(), " outputs; expected 1");
  return c.cast_to(c.around.value_of(results[0]), x.type().element);
}
void flex_attention(node_call& c) {
  attention_call a{.q = c.number(0), .k = c.number(1), .v = c.number(2), .scale = c.real("scale", 0)};
  const dtype e = a.q.type().element, precision = c.element("softmax_precision", e);
  value s = c.cast_to(scores_of(c, a, repeated(c, a.k, a.q)), is_real(precision) ? precision : e);
  s = lamina::softmax(modified(c, "score_mod", s), {.axis = 3});
  const value p = modified(c, "prob_mod", s);
  c.give_like(0, lamina::matmul(c.cast_to(p, e), repeated(c, a.v, a.q)));
}

}  // namespace

value rotated(node_call& c, const value& x, const value& cosines, const value& sines, std::int64_t depth,
              bool interleaved) {
  const shape& s = x.shape();
  if (depth < 0 || depth % 2 || (s[3].is_number() && depth > s.at(3)))
    c.fail("rotary size is ", depth, "; expected even and within heads ", s);
  const value rows = lamina::slice(x, {.start = 0, .stop = depth, .axis = 3});
  // Repeats each value for both elements of a pair.
  const auto table = [&](const value& half) {
    const value one = lamina::unsqueeze(half, axes(interleaved ? 3 : 2));
    const value twice[] = {one, one};
    if (!interleaved) return value(lamina::concat(view<const value>(twice), 3));
    const shape& h = half.shape();
    return value(lamina::reshape(lamina::concat(view<const value>(twice), 3), shape{h[0], h[1], 1, depth}));
  };
  const value turned = lamina::rotary_embedding(rows, table(cosines), table(sines), {interleaved});
  if (s[3] == dim(depth)) return turned;
  const value parts[] = {turned, lamina::slice(x, {.start = depth, .axis = 3})};
  return lamina::concat(view<const value>(parts), 3);
}

namespace {

void rotary_embedding(node_call& c) {
  const value given = c.number(0);
  const bool packed = given.shape().rank == 3;
  const dtype e = given.type().element;
  value x;  // [N, T, H, D]
  if (packed) {
    const std::int64_t heads = head_count(c, "num_heads");
    x = lamina::permute(split_heads(c, given, heads), axes(0, 2, 1, 3));
  } else if (given.shape().rank == 4) x = lamina::permute(given, axes(0, 2, 1, 3));
  else c.fail("its operand has rank ", given.shape().rank, "; expected 3 or 4");
  value cosines = c.cast_to(c.number(1), e), sines = c.cast_to(c.number(2), e);
  if (c.has(3)) {
    const value at = c.cast_to(c[3], dtype::int64);
    cosines = lamina::gather(cosines, at, 0), sines = lamina::gather(sines, at, 0);
  }
  std::int64_t depth = c.integer("rotary_embedding_dim", 0);
  if (depth == 0) {
    const dim half = cosines.shape().rank ? cosines.shape()[cosines.shape().rank - 1] : dim(dyn);
    if (x.shape()[3].is_number()) depth = x.shape().at(3);
    else if (half.is_number()) depth = 2 * half.code;
    else c.unsupported("the head size is not known");
  }
  const value y = rotated(c, x, cosines, sines, depth, c.flag("interleaved"));
  c.give_like(0, packed ? value(lamina::reshape_like(y, given)) : value(lamina::permute(y, axes(0, 2, 1, 3))));
}

void swiglu(node_call& c) {
  const value a = c.number(0);
  const double alpha = c.real("alpha", 1);
  const value gate = alpha == 1 ? value(lamina::silu(a)) : value(a * lamina::sigmoid(a * alpha));
  c.give_like(0, gate * c.number(1));
}

void causal_conv_with_state(node_call& c) {
  const value x = c.number(0), w = c.number(1);
  if (x.shape().rank != 3 || w.shape().rank != 3)
    c.fail("expected [N, C, L] and [C, 1, K]; got ", x.shape(), " and ", w.shape());
  if (!w.shape()[2].is_number() || !w.shape()[0].is_number()) c.unsupported("the extents of its weights are not known");
  const std::int64_t before = w.shape().at(2) - 1;
  value whole;
  if (c.has(3)) {
    const value parts[] = {c.cast_to(c.number(3), x.type().element), x};
    whole = lamina::concat(view<const value>(parts), 2);
  } else whole = lamina::pad(x, {.axis = 2, .before = before, .after = 0});
  value y = lamina::conv1d(whole, w, {.groups = w.shape().at(0)});
  if (c.has(2)) y = y + lamina::unsqueeze(c.number(2), axes(1));
  const std::string activation = c.string("activation", "none");
  if (activation == "silu" || activation == "swish") y = lamina::silu(y);
  else if (activation != "none") c.fail("unknown activation `", printable(activation), "`");
  c.give_like(0, y);
  if (c.has_output(1))
    c.give_like(1, lamina::slice_at(whole, c.extent_of(whole, 2) - before, c.extent_of(whole, 2), axes(2)));
}

// Step of linear attention for one position: updates the state [N, G, D, E] and reads it with the queries.
std::shared_ptr<ir::program> linear_attention_step(const value& state, const std::vector<value>& rows, bool gated,
                                                   bool delta, std::int64_t shared) {
  auto body = std::make_shared<ir::program>();
  const auto input = [&](std::string_view name, const value& of) {
    shape s = of.shape();
    for (int i = 1; i < s.rank; ++i) s[i - 1] = s[i];
    --s.rank;
    return body->input(name, {of.type().element, s});
  };
  value before = body->input("state", state.type());
  const value q = input("q", rows[0]), k = input("k", rows[1]), v = input("v", rows[2]);
  value now = v;
  std::size_t next = 3;
  if (gated) before = before * lamina::unsqueeze(lamina::exp(input("decay", rows[next++])), axes(3));
  const value column = lamina::unsqueeze(k, axes(3));
  if (delta) {
    const value found = lamina::squeeze(lamina::matmul(lamina::unsqueeze(k, axes(2)), before), axes(2));
    now = input("beta", rows[next]) * (v - found);
  }
  const value after = before + column * lamina::unsqueeze(now, axes(2));
  const value read = shared == 1 ? after : value(lamina::repeat(after, shared, 1));
  body->output("state", after);
  body->output("y", lamina::squeeze(lamina::matmul(lamina::unsqueeze(q, axes(2)), read), axes(2)));
  return body;
}

void linear_attention(node_call& c) {
  const std::int64_t heads = head_count(c, "q_num_heads"), own = head_count(c, "kv_num_heads");
  const std::string rule = c.string("update_rule", "gated_delta");
  const bool gated = rule == "gated" || rule == "gated_delta", delta = rule == "delta" || rule == "gated_delta";
  if (!gated && !delta && rule != "linear") c.fail("unknown update rule `", printable(rule), "`");
  if (heads < 1 || own < 1 || heads % own) c.fail(own, " key heads do not divide ", heads);
  const auto rows = [&](std::size_t i, std::int64_t n) {  // [T, N, H, D]
    return value(lamina::permute(split_heads(c, c.number(i), n), axes(2, 0, 1, 3)));
  };
  std::vector<value> sequences{rows(0, heads), rows(1, own), rows(2, own)};
  const value k = sequences[1], v = sequences[2];
  if (gated) {
    sequences.push_back(rows(4, own));  // one per head, or one per column of a head
  }
  if (delta) sequences.push_back(rows(5, c.dims(5)[2] == dim(1) ? 1 : own));
  const dim depth = k.shape()[3], width = v.shape()[3];
  if (!depth.is_number() || !width.is_number()) c.unsupported("the head size is not known");
  double scale = c.real("scale", 0);
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(depth.code));
  const dtype e = k.type().element;
  const value first =
      c.has(3)
          ? c.cast_to(c.number(3), e)
          : value(lamina::broadcast_like(c.constant(0.0, e), lamina::unsqueeze(lamina::select(k, 0, 0), axes(3)) *
                                                                 lamina::unsqueeze(lamina::select(v, 0, 0), axes(2))));
  const value carried[] = {first};
  const auto made = lamina::scan(linear_attention_step(first, sequences, gated, delta, heads / own),
                                 view<const value>(carried), view<const value>(sequences), view<const value>());
  c.give_like(0, join_heads(lamina::permute(made[1] * scale, axes(1, 2, 0, 3))));
  c.give_like(1, made[0], c.has(3) ? 3 : 0);
}

constexpr converter_entry entries[] = {
    {"Attention", 23, attention},
    {"CausalConvWithState", 27, causal_conv_with_state},
    {"LinearAttention", 27, linear_attention},
    {"RotaryEmbedding", 23, rotary_embedding},
    {"SwiGLU", 28, swiglu},
};
constexpr converter_entry preview_entries[] = {
    {"FlexAttention", 1, flex_attention, false},
};

}  // namespace

converter_list attention_converters() { return entries; }
converter_list preview_attention_converters() { return preview_entries; }

}  // namespace lamina::onnx
