// Normalization operators.
module lamina.onnx:normalize.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// v [C] as [C, 1, ...]: broadcasts per channel over a tensor [N, C, ...] of this rank.
value along_channels(const value& v, int rank) {
  shape s{v.shape().rank ? v.shape()[0] : dim(1)};
  for (int i = 2; i < rank; ++i) s.push_back(1);
  return lamina::reshape(v, s);
}
value mean_over(const value& x, const axes& over) { return lamina::reduce_mean(x, {.axes = over, .keepdim = true}); }

// One scale and one shift per channel, which a pass folds into the preceding product.
value by_moments(const value& x, const value& factor, const value& mean, const value& bias) {
  const int rank = x.shape().rank;
  const bool elements = rank > 2 && factor.shape().rank == rank - 1;  // opsets 7 and 8 with spatial = 0
  const auto placed = [&](const value& v) { return elements ? v : along_channels(v, rank); };
  return x * placed(factor) + placed(bias - mean * factor);
}

// Training mode: before opset 14, a node with more than one result; before opset 7, unless `is_test` is set.
void batch_normalization(node_call& c) {
  const value x = c.number(0);
  const int rank = x.shape().rank;
  const dtype e = x.type().element;
  if (rank < 1) c.fail("expected channels; got a scalar");
  c.statistic(3);
  c.statistic(4);
  const auto of_channels = [&](std::size_t i) { return c.cast_to(c.number(i), e); };
  const value scale = of_channels(1), bias = of_channels(2), mean = of_channels(3), variance = of_channels(4);
  const double epsilon = c.real("epsilon", 1e-5), momentum = c.real("momentum", 0.9);
  const bool trains = c.opset >= 14  ? c.flag("training_mode")
                      : c.opset >= 7 ? c.has_output(1) || c.has_output(2)
                                     : !c.flag("is_test");
  if (!trains) return c.give_like(0, by_moments(x, scale / lamina::sqrt(variance + epsilon), mean, bias));
  if (scale.shape().rank > 1) c.unsupported("training with `spatial` = 0");
  axes over;
  for (int i = 0; i < rank; ++i)
    if (i != 1) over.values[over.count++] = i;
  const value now = mean_over(x, over), centered = x - now, spread = mean_over(centered * centered, over);
  const value y = centered / lamina::sqrt(spread + epsilon);
  c.give_like(0, y * along_channels(scale, rank) + along_channels(bias, rank));
  const value flat = lamina::reshape_like(now, mean), flat_spread = lamina::reshape_like(spread, variance);
  c.give_like(1, mean * momentum + flat * (1 - momentum), 3);
  c.give_like(2, variance * momentum + flat_spread * (1 - momentum), 4);
  c.give_like(3, flat, 3);
  c.give_like(4, flat_spread, 4);
}

// Whether operand i is a constant with all elements equal to `n`.
bool is_uniform(node_call& c, std::size_t i, float n) {
  const any_tensor* known = c.known(i);
  if (!known || known->element() != dtype::float32) return false;
  const auto elements = known->elements<float>();
  return std::all_of(elements.begin(), elements.end(), [&](float v) { return v == n; });
}
void instance_normalization(node_call& c) {
  const value x = c.number(0);
  const dtype e = x.type().element;
  // Pattern of group normalization in exporters, which apply scale and bias in later nodes.
  if (x.shape().rank == 3 && is_uniform(c, 1, 1) && is_uniform(c, 2, 0))
    return c.give_like(0, lamina::instance_norm(x, {.epsilon = c.real("epsilon", 1e-5)}));
  c.give_like(0, lamina::instance_norm(x, c.cast_to(c.number(1), e), c.cast_to(c.number(2), e),
                                       {.epsilon = c.real("epsilon", 1e-5)}));
}

// Scale and bias are per group before opset 21, and per channel since.
void group_normalization(node_call& c) {
  const value x = c.number(0);
  const dtype e = x.type().element;
  const value scale = c.cast_to(c.number(1), e), bias = c.cast_to(c.number(2), e);
  const double epsilon = c.real("epsilon", 1e-5);
  const std::int64_t groups = c.integer("num_groups");
  if (c.opset >= 21)
    return c.give_like(0, lamina::group_norm(x, scale, bias, {.num_groups = groups, .epsilon = epsilon}));
  const shape& s = x.shape();
  if (s.rank < 2 || groups < 1 || (s[1].is_number() && s.at(1) % groups))
    c.fail(groups, " groups do not divide the channels of ", s);
  const value rows = lamina::reshape(x, shape{s[0], groups, dyn});
  const auto of_groups = [&](const value& v) { return value(lamina::reshape(v, shape{groups, 1})); };
  const value y = lamina::layer_norm(rows, {.axes = 1, .epsilon = epsilon});
  c.give_like(0, lamina::reshape_like(y * of_groups(scale) + of_groups(bias), x));
}

// Whether a scale has exactly the shape of a row, the last axes of x.
bool of_rows(const value& scale, const shape& x, int axis) {
  if (scale.shape().rank != x.rank - axis) return false;
  for (int i = axis; i < x.rank; ++i)
    if (scale.shape()[i - axis] != x[i] || x[i] == dim(dyn)) return false;
  return true;
}

struct normalized {
  value y, mean, inverse;
};
// Normalizes rows, the axes from `axis` on, with centering; scale and bias may be empty and broadcast to x.
normalized centered_rows(const value& x, int axis, double epsilon, const value& scale, const value& bias) {
  const op::layer_norm::attributes a{.axes = x.shape().rank - axis, .epsilon = epsilon};
  const bool fits = !scale.empty() && of_rows(scale, x.shape(), axis);
  if (fits && bias.empty()) {
    const auto r = lamina::apply<op::layer_norm>(a, x, scale);
    return {r[0], r[2], r[1]};
  }
  if (fits && of_rows(bias, x.shape(), axis)) {
    const auto r = lamina::apply<op::layer_norm>(a, x, scale, bias);
    return {r[0], r[2], r[1]};
  }
  const auto r = lamina::apply<op::layer_norm>(a, x);
  value y = r[0];
  if (!scale.empty()) y = y * scale;
  if (!bias.empty()) y = y + bias;
  return {y, r[2], r[1]};
}
normalized scaled_rows(const value& x, int axis, double epsilon, const value& scale) {
  const op::layer_norm::attributes a{.axes = x.shape().rank - axis, .epsilon = epsilon};
  if (!scale.empty() && of_rows(scale, x.shape(), axis)) {
    const auto r = lamina::apply<op::rms_norm>(a, x, scale);
    return {r[0], {}, r[1]};
  }
  const auto r = lamina::apply<op::rms_norm>(a, x);
  return {scale.empty() ? value(r[0]) : value(r[0] * scale), {}, r[1]};
}

// Operand i in the type of x; empty if omitted.
value optional_like(node_call& c, std::size_t i, const value& x) {
  return c.has(i) ? c.cast_to(c.number(i), x.type().element) : value();
}
// Element type of mean and inverse deviation.
dtype stash_type(const node_call& c) { return c.element("stash_type", dtype::float32); }

int normalized_axis(node_call& c, const value& x) {
  if (x.shape().rank < 1) c.fail("expected rows; got a scalar");
  return c.axis(c.integer("axis", -1), x.shape().rank);
}
void layer_normalization(node_call& c) {
  const value x = c.number(0);
  const auto r =
      centered_rows(x, normalized_axis(c, x), c.real("epsilon", 1e-5), optional_like(c, 1, x), optional_like(c, 2, x));
  c.give_like(0, r.y);
  if (c.has_output(1)) c.give(1, c.cast_to(r.mean, stash_type(c)));
  if (c.has_output(2)) c.give(2, c.cast_to(r.inverse, stash_type(c)));
}
// The result has the type of the scale.
void rms_normalization(node_call& c) {
  const value x = c.number(0);
  const auto r = scaled_rows(x, normalized_axis(c, x), c.real("epsilon", 1e-5), optional_like(c, 1, x));
  c.give_like(0, r.y, c.has(1) ? 1 : 0);
  if (c.has_output(1)) c.give(1, c.cast_to(r.inverse, stash_type(c)));
}

void lp_normalization(node_call& c) {
  const value x = c.number(0);
  const std::int64_t p = c.integer("p", 2);
  if (p != 1 && p != 2) c.fail("`p` is ", p, "; expected 1 or 2");
  const axes over(normalized_axis(c, x));
  const value summed =
      lamina::reduce_sum(p == 1 ? value(lamina::abs(x)) : value(x * x), {.axes = over, .keepdim = true});
  const value norm = p == 1 ? summed : value(lamina::sqrt(summed));
  c.give_like(0, lamina::where(norm == 0, x * 0, x / norm));
}

void mean_variance_normalization(node_call& c) {
  const value x = c.number(0);
  const axes over = c.axes_of(c.node_call::integers("axes", {0, 2, 3}), x.shape().rank);
  const value centered = x - mean_over(x, over);
  c.give_like(0, centered / (lamina::sqrt(mean_over(centered * centered, over)) + 1e-9));
}

// ---- com.microsoft --------------------------------------------------------------------------------------------------

// Operands: x, skip, gamma; then beta and bias if centered, otherwise only bias.
template <bool Centered> void skip_normalization(node_call& c) {
  constexpr std::size_t bias = Centered ? 4 : 3;
  value x = c.number(0) + c.number(1);
  if (c.has(bias)) x = x + c.number(bias);
  const int axis = normalized_axis(c, x);
  const double epsilon = c.real("epsilon", 1e-12);
  const value gamma = c.number(2);
  const auto r =
      Centered ? centered_rows(x, axis, epsilon, gamma, optional_like(c, 3, x)) : scaled_rows(x, axis, epsilon, gamma);
  c.give_like(0, r.y);
  if (Centered) c.give(1, r.mean);
  c.give(2, r.inverse);
  c.give_like(3, x);
}

void embed_layer_normalization(node_call& c) {
  const value ids = c.cast_to(c[0], dtype::int64), words = c.number(2), places = c.number(3);
  const value at = c.has(8) ? c.cast_to(c[8], dtype::int64) : value(lamina::positions(ids, 1));
  value x = lamina::embedding(words, ids) + lamina::embedding(places, at);
  if (c.has(1) && c.has(4)) x = x + lamina::embedding(c.number(4), c.cast_to(c[1], dtype::int64));
  const auto r = centered_rows(x, 2, c.real("epsilon", 1e-12), optional_like(c, 5, x), optional_like(c, 6, x));
  c.give_like(0, r.y, 2);
  if (c.has_output(1)) {  // number of visible positions of each sample
    const value mask = c.has(7) ? value(c[7]) : value(ids * 0);
    c.give(1, c.cast_to(lamina::reduce_sum(c.cast_to(mask, dtype::int64), {.axes = {1}}), dtype::int32));
  }
  c.give_like(2, x, 2);
}

constexpr converter_entry entries[] = {
    {"BatchNormalization", 6, batch_normalization},
    {"GroupNormalization", 18, group_normalization},
    {"InstanceNormalization", 6, instance_normalization},
    {"LayerNormalization", 1, layer_normalization},
    {"LpNormalization", 1, lp_normalization},
    {"MeanVarianceNormalization", 9, mean_variance_normalization},
    {"RMSNormalization", 23, rms_normalization},
    {"SimplifiedLayerNormalization", 1, rms_normalization},
};
constexpr converter_entry microsoft_entries[] = {
    {"EmbedLayerNormalization", 1, embed_layer_normalization},
    {"SkipLayerNormalization", 1, skip_normalization<true>},
    {"SkipSimplifiedLayerNormalization", 1, skip_normalization<false>},
};

}  // namespace

converter_list normalize_converters() { return entries; }
converter_list microsoft_normalize_converters() { return microsoft_entries; }

}  // namespace lamina::onnx
