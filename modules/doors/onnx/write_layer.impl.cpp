// Writes products, convolutions, pools, reductions, normalization, attention and quantized operations.
module lamina.onnx:write_layer.impl;
import :written;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

std::string transposed(written_call& c, std::string x, int rank) {
  written_numbers order;
  for (int i = 0; i < rank; ++i) order.push_back(i);
  std::swap(order[order.size() - 1], order[order.size() - 2]);
  return c.add("Transpose", {std::move(x)}, {{"perm", order}});
}
std::string real(written_call& c, double v) { return c.number(v, c.type(0).element); }

// ---- products -------------------------------------------------------------------------------------------------------

void matmul(written_call& c) {
  const bool a = c.flag("transpose_a"), b = c.flag("transpose_b");
  if (is_floating(c.type(0).element) && c.dims(0).rank == 2 && c.dims(1).rank == 2 && (a || b))
    return c.give(c.add("Gemm", {c[0], c[1]}, {{"transA", std::int64_t(a)}, {"transB", std::int64_t(b)}}));
  const auto left = a ? transposed(c, c[0], c.dims(0).rank) : c[0];
  const auto right = b ? transposed(c, c[1], c.dims(1).rank) : c[1];
  c.give(c.add("MatMul", {left, right}));
}

// `ends`: padding at the end has separate attributes.
attribute_list window(const written_call& c, bool dilated, bool ends = true) {
  const auto two = [&](std::string_view h, std::string_view w) { return written_numbers{c.integer(h), c.integer(w)}; };
  auto strides = two("stride_h", "stride_w");
  const auto pads = two("padding_h", "padding_w");
  const auto more = ends ? two("padding_more_h", "padding_more_w") : written_numbers{0, 0};
  attribute_list a{{"pads", written_numbers{pads[0], pads[1], pads[0] + more[0], pads[1] + more[1]}}};
  if (dilated) {
    a.push_back({"dilations", two("dilation_h", "dilation_w")});
    a.push_back({"group", c.integer("groups")});
  } else {
    const auto kernel = two("kernel_h", "kernel_w");
    for (std::size_t i = 0; i < 2; ++i) strides[i] = strides[i] ? strides[i] : kernel[i];
    a.push_back({"kernel_shape", kernel});
  }
  a.push_back({"strides", strides});
  return a;
}
void conv2d(written_call& c) { c.give(c.add("Conv", c.all(), window(c, true))); }
void conv_transpose2d(written_call& c) {
  auto a = window(c, true, false);
  a.push_back({"output_padding", written_numbers{c.integer("output_padding_h"), c.integer("output_padding_w")}});
  c.give(c.add("ConvTranspose", c.all(), std::move(a)));
}
void max_pool2d(written_call& c) {
  if (!c.is_used(1)) return c.give(c.add("MaxPool", {c[0]}, window(c, false)));
  // Positions are relative to a map; those of ONNX to the whole tensor.
  const shape& s = c.dims(0);
  const auto both = c.add("MaxPool", {c[0]}, window(c, false), 2);
  c.give(both[0]);
  if (!s[2].is_number() || !s[3].is_number())
    c.unsupported("its indices are used, and the image extents are not known");
  c.give(c.cast(c.add("Mod", {both[1], c.position(s.at(2) * s.at(3))}), dtype::int32), 1);
}
std::string average(written_call& c, std::string x) {
  auto a = window(c, false);
  a.push_back({"count_include_pad", std::int64_t(c.flag("count_padding"))});
  return c.add("AveragePool", {std::move(x)}, std::move(a));
}
void avg_pool2d(written_call& c) { c.give(average(c, c[0])); }

// ---- reductions -----------------------------------------------------------------------------------------------------

std::string reduced(written_call& c, std::string_view op, std::string x) {
  const axes a = c.list("axes");
  name_list in{std::move(x)};
  if (a.count) in.push_back(c.longs(written_numbers(a.values, a.values + a.count)));
  return c.add(op, std::move(in), {{"keepdims", std::int64_t(c.flag("keepdim"))}});
}
void reduce_sum(written_call& c) { c.give(reduced(c, "ReduceSum", c[0])); }
void reduce_by(written_call& c) {
  constexpr std::pair<reduction_kind, const char*> ops[] = {{reduction_kind::sum, "ReduceSum"},
                                                            {reduction_kind::mean, "ReduceMean"},
                                                            {reduction_kind::product, "ReduceProd"},
                                                            {reduction_kind::maximum, "ReduceMax"},
                                                            {reduction_kind::minimum, "ReduceMin"},
                                                            {reduction_kind::l1, "ReduceL1"},
                                                            {reduction_kind::l2, "ReduceL2"},
                                                            {reduction_kind::log_sum, "ReduceLogSum"},
                                                            {reduction_kind::log_sum_exp, "ReduceLogSumExp"},
                                                            {reduction_kind::sum_square, "ReduceSumSquare"}};
  const auto kind = static_cast<reduction_kind>(c.integer("kind"));
  for (const auto& [of, op] : ops)
    if (of == kind)
      c.give(c.add(op, c.all(),
                   {{"keepdims", std::int64_t(c.flag("keepdim"))},
                    {"noop_with_empty_axes", std::int64_t(c.flag("none_if_empty"))}}));
}
void reduce_mean(written_call& c) { c.give(reduced(c, "ReduceMean", c[0])); }
void reduce_max(written_call& c) { c.give(reduced(c, "ReduceMax", c[0])); }
void reduce_min(written_call& c) { c.give(reduced(c, "ReduceMin", c[0])); }
void reduce_prod(written_call& c) { c.give(reduced(c, "ReduceProd", c[0])); }
void of_bools(written_call& c, std::string_view op) {
  c.give(c.cast(reduced(c, op, c.cast(c[0], dtype::int32)), dtype::boolean));
}
void reduce_any(written_call& c) { of_bools(c, "ReduceMax"); }
void reduce_all(written_call& c) { of_bools(c, "ReduceMin"); }
void softmax(written_call& c) { c.give(c.add("Softmax", {c[0]}, {{"axis", std::int64_t(c.axis(c.dims(0).rank))}})); }
void log_softmax(written_call& c) {
  c.give(c.add("LogSoftmax", {c[0]}, {{"axis", std::int64_t(c.axis(c.dims(0).rank))}}));
}

// ---- normalization --------------------------------------------------------------------------------------------------

// Number of axes in one row.
int row_axes(written_call& c) {
  const auto attribute = static_cast<int>(c.integer("axes"));
  return attribute ? attribute : c.operands() > 1 ? c.dims(1).rank : 1;
}
std::string last_axes(written_call& c, int count) {
  written_numbers all;
  for (int i = 0; i < count; ++i) all.push_back(c.dims(0).rank - count + i);
  return c.longs(all);
}
const attribute_list keep{{"keepdims", std::int64_t(1)}};
// x / sqrt(mean(x^2) + epsilon) with weight and bias; x is already centered.
void scaled_rows(written_call& c, const std::string& x, int count) {
  const auto squares = c.add("ReduceMean", {c.add("Mul", {x, x}), last_axes(c, count)}, keep);
  const auto root = c.add("Sqrt", {c.add("Add", {squares, real(c, c.real("epsilon"))})});
  auto y = c.add("Div", {x, root});
  if (c.operands() > 1) y = c.add("Mul", {y, c[1]});
  if (c.operands() > 2) y = c.add("Add", {y, c[2]});
  c.give(y);
  if (c.is_used(1)) c.give(c.add("Reciprocal", {root}), 1);
}
void layer_norm(written_call& c) {
  const int count = row_axes(c);
  const bool whole = c.operands() > 1 && !c.is_used(1) && !c.is_used(2) && c.type(0).element == dtype::float32;
  if (whole)
    return c.give(c.add("LayerNormalization", c.all(),
                        {{"axis", std::int64_t(c.dims(0).rank - count)}, {"epsilon", c.real("epsilon")}}));
  const auto mean = c.add("ReduceMean", {c[0], last_axes(c, count)}, keep);
  scaled_rows(c, c.add("Sub", {c[0], mean}), count);
  if (c.is_used(2)) c.give(mean, 2);
}
void rms_norm(written_call& c) {
  const int count = row_axes(c);
  if (c.w.names().opset() >= 23 && c.operands() == 2 && !c.is_used(1) && c.type(0).element == dtype::float32)
    return c.give(c.add("RMSNormalization", c.all(),
                        {{"axis", std::int64_t(c.dims(0).rank - count)}, {"epsilon", c.real("epsilon")}}));
  scaled_rows(c, c[0], count);
}

// ---- attention ------------------------------------------------------------------------------------------------------

// bool [queries, keys]: query i sees keys j <= i + keys - queries.
std::string causal(written_call& c, const std::string& queries, const std::string& keys) {
  const auto zero = c.position(0), one = c.position(1);
  const auto last = c.add("Add", {c.add("Range", {zero, queries, one}), c.add("Sub", {keys, queries})});
  return c.add("LessOrEqual", {c.add("Unsqueeze", {c.add("Range", {zero, keys, one}), c.longs({0})}),
                               c.add("Unsqueeze", {last, c.longs({1})})});
}
void causal_mask(written_call& c) {
  const int rank = c.dims(0).rank;
  c.give(causal(c, c.extent(0, rank - 2), c.extent(0, rank - 1)));
}
// Keys or values, with heads repeated to match the queries.
std::string for_all_heads(written_call& c, std::size_t i) {
  const int rank = c.dims(0).rank;
  if (rank < 3) return c[i];
  const dim all = c.dims(0)[rank - 3], heads = c.dims(i)[rank - 3];
  if (all == heads || heads == dim(1)) return c[i];
  if (!all.is_number() || !heads.is_number()) c.unsupported("the numbers of heads are not known");
  written_numbers from;
  for (std::int64_t h = 0; h < all.code; ++h) from.push_back(h / (all.code / heads.code));
  return c.add("Gather", {c[i], c.longs(from)}, {{"axis", std::int64_t(rank - 3)}});
}
void attention(written_call& c) {
  const int rank = c.dims(0).rank;
  const double given_scale = c.real("scale");
  const dim depth = c.dims(0)[rank - 1];
  if (given_scale == 0 && !depth.is_number()) c.unsupported("the head size is not known");
  const double scale = given_scale != 0 ? given_scale : 1 / std::sqrt(static_cast<double>(depth.code));
  auto scores = c.add("MatMul", {c.add("Mul", {c[0], real(c, scale)}), transposed(c, for_all_heads(c, 1), rank)});
  std::string seen;
  if (c.operands() > 3) {
    if (c.type(3).element == dtype::boolean) seen = c[3];
    else scores = c.add("Add", {scores, c[3]});
  }
  if (c.flag("causal")) {
    const auto mask = causal(c, c.extent(0, rank - 2), c.extent(1, rank - 2));
    seen = seen.empty() ? mask : c.add("And", {seen, mask});
  }
  if (!seen.empty()) scores = c.add("Where", {seen, scores, real(c, -std::numeric_limits<double>::infinity())});
  auto weights = c.add("Softmax", {scores}, {{"axis", std::int64_t(-1)}});
  if (!seen.empty()) weights = c.add("Where", {seen, weights, real(c, 0)});  // rows without a visible key give 0
  c.give(c.add("MatMul", {weights, for_all_heads(c, 2)}));
}
void rotary_embedding(written_call& c) {
  const dim depth = c.dims(0).back();
  if (!depth.is_number()) c.unsupported("the head size is not known");
  const bool pairs = c.flag("interleaved");
  const std::int64_t half = depth.code / 2;
  const attribute_list last{{"axis", std::int64_t(-1)}};
  const auto part = [&](std::int64_t k) {
    const auto axis = c.longs({-1}), end = c.longs({depth.code});
    return pairs ? c.add("Slice", {c[0], c.longs({k}), end, axis, c.longs({2})})
                 : c.add("Slice", {c[0], c.longs({k * half}), c.longs({(k + 1) * half}), axis});
  };
  auto first = c.add("Neg", {part(1)}), second = part(0);
  if (pairs) first = c.add("Unsqueeze", {first, c.longs({-1})}), second = c.add("Unsqueeze", {second, c.longs({-1})});
  auto turned = c.add("Concat", {first, second}, last);
  if (pairs) turned = c.add("Reshape", {turned, c.shape_of(0)});
  c.give(c.add("Add", {c.add("Mul", {c[0], c[1]}), c.add("Mul", {turned, c[2]})}));
}
void rope(written_call& c) {
  const dim depth = c.dims(0).back();
  if (!depth.is_number()) c.unsupported("the head size is not known");
  const dtype t = c.type(0).element;
  const std::int64_t half = depth.code / 2;
  any_tensor rates({dtype::float64, {half}});
  for (std::int64_t i = 0; i < half; ++i) {
    const double rate = std::pow(c.real("base"), -2.0 * static_cast<double>(i) / static_cast<double>(depth.code));
    std::memcpy(rates.mutable_data() + static_cast<std::size_t>(i) * sizeof rate, &rate, sizeof rate);
  }
  const auto at = c.add("Unsqueeze", {c.cast(c[1], dtype::float64), c.longs({-1})});
  const auto angle = c.cast(c.add("Mul", {at, c.constant(std::move(rates))}), t);
  const auto cos = c.add("Cos", {angle}), sine = c.add("Sin", {angle});
  const auto sin = c.flag("inverse") ? c.add("Neg", {sine}) : sine;
  const bool pairs = c.flag("interleaved");
  const auto part = [&](std::int64_t k) {
    const auto last = c.longs({-1}), end = c.longs({depth.code});
    return pairs ? c.add("Slice", {c[0], c.longs({k}), end, last, c.longs({2})})
                 : c.add("Slice", {c[0], c.longs({k * half}), c.longs({(k + 1) * half}), last});
  };
  const auto x = part(0), y = part(1);
  auto left = c.add("Sub", {c.add("Mul", {x, cos}), c.add("Mul", {y, sin})});
  auto right = c.add("Add", {c.add("Mul", {y, cos}), c.add("Mul", {x, sin})});
  const attribute_list last{{"axis", std::int64_t(-1)}};
  if (!pairs) return c.give(c.add("Concat", {left, right}, last));
  left = c.add("Unsqueeze", {left, c.longs({-1})}), right = c.add("Unsqueeze", {right, c.longs({-1})});
  c.give(c.add("Reshape", {c.add("Concat", {left, right}, last), c.shape_of(0)}));
}

// ---- recurrent cells ------------------------------------------------------------------------------------------------

name_list gates(written_call& c, std::size_t i, std::int64_t count) {
  return c.add("Split", {c[i]}, {{"axis", std::int64_t(1)}, {"num_outputs", count}}, static_cast<std::size_t>(count));
}
void lstm_gates(written_call& c) {
  const auto g = gates(c, 0, 4);
  const auto i = c.add("Sigmoid", {g[0]}), f = c.add("Sigmoid", {g[1]}), u = c.add("Tanh", {g[2]});
  const auto o = c.add("Sigmoid", {g[3]});
  const auto next = c.add("Add", {c.add("Mul", {f, c[1]}), c.add("Mul", {i, u})});
  const auto out = c.add("Mul", {o, c.add("Tanh", {next})});
  c.give(out);
  c.give(next, 1);
}
void gru_gates(written_call& c) {
  const auto x = gates(c, 0, 3), h = gates(c, 1, 3);
  const auto r = c.add("Sigmoid", {c.add("Add", {x[0], h[0]})}), z = c.add("Sigmoid", {c.add("Add", {x[1], h[1]})});
  const auto u = c.add("Tanh", {c.add("Add", {c.add("Mul", {r, h[2]}), x[2]})});
  c.give(c.add("Add", {c.add("Mul", {u, c.add("Sub", {real(c, 1), z})}), c.add("Mul", {z, c[2]})}));
}

// ---- quantized ------------------------------------------------------------------------------------------------------

void quantize(written_call& c) { c.give(c.add("QuantizeLinear", c.all(), {{"axis", c.integer("axis")}})); }
void dequantize(written_call& c) { c.give(c.add("DequantizeLinear", c.all(), {{"axis", c.integer("axis")}})); }
// Dequantizes operand i; i + 1 and i + 2 are its scale and zero point.
std::string as_real(written_call& c, std::size_t i) { return c.add("DequantizeLinear", {c[i], c[i + 1], c[i + 2]}); }
// The value of a scalar operand that depends on constants alone.
std::optional<double> number_of(written_call& c, std::size_t i) {
  const auto t = c.w.computed(c.of.inputs[i]);
  if (!t || t->shape().size() != 1) return {};
  return with_type(t->element(), [&]<class T>() -> std::optional<double> {
    if constexpr (std::is_arithmetic_v<T>) return static_cast<double>(t->elements<T>()[0]);
    else return {};
  });
}
// Quantizes x; operands i and i + 1 are scale and zero point of the result. `held`: clamp to the bounds in the
// attributes, before quantization if scale and zero point are known.
std::string as_int8(written_call& c, std::string x, std::size_t i, bool held) {
  const auto low = held ? c.integer("low") : -128, high = held ? c.integer("high") : 127;
  const bool open = low == -128 && high == 127;
  const auto scale = open ? std::nullopt : number_of(c, i), zero_point = open ? std::nullopt : number_of(c, i + 1);
  if (scale && zero_point) {
    const auto bound = [&](std::int64_t b) {
      return c.number(static_cast<double>(static_cast<float>((static_cast<double>(b) - *zero_point) * *scale)),
                      dtype::float32);
    };
    if (high == 127 && static_cast<double>(low) == *zero_point) x = c.add("Relu", {std::move(x)});
    else if (high == 127) x = c.add("Max", {std::move(x), bound(low)});
    else if (low == -128) x = c.add("Min", {std::move(x), bound(high)});
    else x = c.add("Clip", {std::move(x), bound(low), bound(high)});
    return c.add("QuantizeLinear", {std::move(x), c[i], c[i + 1]});
  }
  auto q = c.add("QuantizeLinear", {std::move(x), c[i], c[i + 1]});
  if (open) return q;
  return c.add("Clip",
               {q, c.number(static_cast<double>(low), dtype::int8), c.number(static_cast<double>(high), dtype::int8)});
}
// Dequantized weights of a product; the scale of the bias is the product of the scales of x and the weights.
std::string real_weights(written_call& c, std::int64_t axis = 0) {
  std::string zero = c.number(0, dtype::int8);
  if (c.dims(4).rank == 1 && c.dims(4).is_static()) zero = c.constant(any_tensor({dtype::int8, c.dims(4)}));
  return c.add("DequantizeLinear", {c[3], c[4], zero}, {{"axis", axis}});
}
std::string real_bias(written_call& c) {
  return c.add("DequantizeLinear", {c[5], c.add("Mul", {c[4], c[1]})}, {{"axis", std::int64_t(0)}});
}
// As a matrix product: joins the axes before the last one of the int8 operand.
void quantized_linear(written_call& c) {
  const bool columns = c.flag("transposed");
  const shape& y = c.result().dims;
  const dim features = c.dims(0).back();
  int open = 0;
  for (int i = 0; i < y.rank; ++i) open += !y[i].is_number();
  const auto w = real_weights(c, columns ? 1 : 0);
  if (y.rank == 2 || (open < 2 && features.is_number())) {
    std::string x = c[0];
    if (y.rank != 2) x = c.add("Reshape", {x, c.longs({-1, features.code})});
    const auto of = c.add("DequantizeLinear", {x, c[1], c[2]});
    const auto sums = c.add("Gemm", {of, w, real_bias(c)}, {{"transB", std::int64_t(!columns)}});
    const auto rows = as_int8(c, sums, 6, true);
    return c.give(y.rank == 2 ? rows : c.reshape(rows, shape{dyn, y.back()}, y));
  }
  const auto sums = c.add("MatMul", {as_real(c, 0), columns ? w : transposed(c, w, 2)});
  c.give(as_int8(c, c.add("Add", {sums, real_bias(c)}), 6, true));
}
void quantized_conv2d(written_call& c) {
  c.give(as_int8(c, c.add("Conv", {as_real(c, 0), real_weights(c), real_bias(c)}, window(c, true)), 6, true));
}
void quantized_add(written_call& c) { c.give(as_int8(c, c.add("Add", {as_real(c, 0), as_real(c, 3)}), 6, true)); }
void quantized_multiply(written_call& c) { c.give(as_int8(c, c.add("Mul", {as_real(c, 0), as_real(c, 3)}), 6, true)); }
void quantized_matmul(written_call& c) {
  std::string b = c[3];
  if (c.flag("transpose_b")) b = transposed(c, b, c.dims(3).rank);
  const auto product = c.add("MatMul", {as_real(c, 0), c.add("DequantizeLinear", {b, c[4], c[5]})});
  c.give(as_int8(c, product, 6, true));
}
void quantized_avg_pool2d(written_call& c) { c.give(as_int8(c, average(c, as_real(c, 0)), 3, false)); }
void quantized_table(written_call& c) {
  const auto at = c.add("Add", {c.cast(c[0], dtype::int32), c.number(128, dtype::int32)});
  c.give(c.add("Gather", {c[1], at}));
}
// Dequantizes low-bit weights.
void block_linear(written_call& c) {
  const shape& w = c.dims(1);
  const dim depth = c.dims(0).back();
  if (!w.is_static() || !depth.is_number()) c.unsupported("the extents of its weights are not known");
  const std::int64_t n = w.at(0), blocks = w.at(1), block = c.integer("block");
  std::string q = c[1];
  if (c.integer("bits") == 4) {
    const auto last = c.longs({-1});
    const auto low = c.add("BitwiseAnd", {q, c.number(15, dtype::uint8)});
    const auto high = c.add("BitShift", {q, c.number(4, dtype::uint8)}, {{"direction", std::string("RIGHT")}});
    q = c.add("Concat", {c.add("Unsqueeze", {low, last}), c.add("Unsqueeze", {high, last})},
              {{"axis", std::int64_t(-1)}});
  }
  q = c.cast(c.add("Reshape", {q, c.longs({n, blocks, block})}), dtype::float32);
  const auto of_blocks = [&](std::size_t i) {
    return c.dims(i).rank ? c.add("Unsqueeze", {c[i], c.longs({-1})}) : c[i];
  };
  q = c.add("Mul", {c.add("Sub", {q, of_blocks(3)}), of_blocks(2)});
  q = c.add("Reshape", {q, c.longs({n, blocks * block})});
  if (depth.code != blocks * block) q = c.add("Slice", {q, c.longs({0}), c.longs({depth.code}), c.longs({1})});
  c.give(c.add("MatMul", {c[0], transposed(c, q, 2)}));
}
void integer_conv2d(written_call& c) { c.give(c.add("ConvInteger", {c[0], c[2], c[1]}, window(c, true))); }
void integer_linear(written_call& c) {
  c.give(c.add("MatMulInteger", {c[0], c.flag("transposed") ? c[2] : transposed(c, c[2], 2), c[1]}));
}
void integer_matmul(written_call& c) {
  const std::string b = c.flag("transpose_b") ? transposed(c, c[2], c.dims(2).rank) : c[2];
  c.give(c.add("MatMulInteger", {c[0], b, c[1], c[3]}));
}

constexpr operation_writer writers[] = {{"attention", attention},
                                        {"avg_pool2d", avg_pool2d},
                                        {"block_linear", block_linear},
                                        {"causal_mask", causal_mask},
                                        {"conv2d", conv2d},
                                        {"conv_transpose2d", conv_transpose2d},
                                        {"dequantize", dequantize},
                                        {"gru_gates", gru_gates},
                                        {"integer_conv2d", integer_conv2d},
                                        {"integer_linear", integer_linear},
                                        {"integer_matmul", integer_matmul},
                                        {"layer_norm", layer_norm},
                                        {"log_softmax", log_softmax},
                                        {"lstm_gates", lstm_gates},
                                        {"matmul", matmul},
                                        {"max_pool2d", max_pool2d},
                                        {"quantize", quantize},
                                        {"quantized_add", quantized_add},
                                        {"quantized_avg_pool2d", quantized_avg_pool2d},
                                        {"quantized_conv2d", quantized_conv2d},
                                        {"quantized_linear", quantized_linear},
                                        {"quantized_matmul", quantized_matmul},
                                        {"quantized_multiply", quantized_multiply},
                                        {"quantized_table", quantized_table},
                                        {"reduce_all", reduce_all},
                                        {"reduce_any", reduce_any},
                                        {"reduce_max", reduce_max},
                                        {"reduce_mean", reduce_mean},
                                        {"reduce_min", reduce_min},
                                        {"reduce_prod", reduce_prod},
                                        {"reduce_by", reduce_by},
                                        {"reduce_sum", reduce_sum},
                                        {"rms_norm", rms_norm},
                                        {"rope", rope},
                                        {"rotary_embedding", rotary_embedding},
                                        {"softmax", softmax}};

}  // namespace

view<const operation_writer> layer_writers() { return writers; }

}  // namespace lamina::onnx
