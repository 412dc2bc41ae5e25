// Quantized and fused operators of ONNX Runtime's tools (com.microsoft).
module lamina.onnx:quantized_microsoft.impl;
import :convert;
import :message;
import :quantized;
import :scope;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// Per-tensor scale and zero point as int8, from operand i on; the zero point may be omitted.
quantization int8_scale(node_call& c, std::size_t i, dtype e) { return int8_scales(c, i, i + 1, e); }
// Dequantizes operand i with the scale and zero point that follow it; through int8 for 8-bit types with a single scale,
// otherwise by `dequantized`.
value real_operand(node_call& c, std::size_t i) {
  const dtype e = c.type(i).element;
  if (of_bytes(e))
    if (const auto as = int8_scale(c, i + 1, e); !as.scale.empty() && as.scale.shape().rank == 0)
      return lamina::dequantize(int8_operand(c, i), as);
  return dequantized(c, i);
}
// Quantizes x with scale and zero point from operand i on and gives result 0.
void give_bytes(node_call& c, const value& x, std::size_t i, dtype e) {
  if (of_bytes(e))
    if (const auto as = int8_scale(c, i, e); !as.scale.empty() && as.scale.shape().rank == 0)
      return c.give(0, from_int8(c, lamina::quantize(x, as), e));
  c.give(0, quantized(c, x, i, e));
}

// ---- elementwise ----------------------------------------------------------------------------------------------------

void qlinear_add(node_call& c) { give_bytes(c, real_operand(c, 0) + real_operand(c, 3), 6, c.type(0).element); }
void qlinear_mul(node_call& c) { give_bytes(c, real_operand(c, 0) * real_operand(c, 3), 6, c.type(0).element); }
void qlinear_where(node_call& c) {
  give_bytes(c, lamina::where(c[0], real_operand(c, 1), real_operand(c, 4)), 7, c.type(1).element);
}
void qlinear_leaky_relu(node_call& c) {
  give_bytes(c, lamina::leaky_relu(real_operand(c, 0), {c.real("alpha", 0.01)}), 3, c.type(0).element);
}
void qlinear_sigmoid(node_call& c) { give_bytes(c, lamina::sigmoid(real_operand(c, 0)), 3, c.type(0).element); }
void qlinear_softmax(node_call& c) {
  const value x = real_operand(c, 0);
  const std::int64_t version = c.integer("opset");
  const int rank = x.shape().rank, axis = c.axis(c.integer("axis", version < 13 ? 1 : -1), rank);
  value y;
  if (version >= 13 || axis == rank - 1) y = lamina::softmax(x, {.axis = axis});
  else {
    const value rows = axis == 0 ? value(lamina::reshape(x, shape{1, dyn})) : value(lamina::as_matrix(x, axis));
    y = lamina::reshape_like(lamina::softmax(rows, {.axis = 1}), x);
  }
  give_bytes(c, y, 3, c.type(0).element);
}
void qlinear_concat(node_call& c) {
  if (c.size() < 5 || (c.size() - 2) % 3) c.fail("it has ", c.size(), " operands; expected 2, and 3 for each part");
  std::vector<value> parts;
  for (std::size_t i = 2; i + 2 < c.size(); i += 3) parts.push_back(real_operand(c, i));
  const value all = lamina::concat(view<const value>(parts), c.axis(c.integer("axis"), c.rank(2)));
  give_bytes(c, all, 0, c.type(2).element);
}
void qlinear_reduce_mean(node_call& c) {
  const value x = real_operand(c, 0);
  auto over = c.node_call::integers("axes");
  if (over.empty())
    for (int i = 0; i < x.shape().rank; ++i) over.push_back(i);
  const value y =
      lamina::reduce_mean(x, {.axes = c.axes_of(over, x.shape().rank), .keepdim = c.flag("keepdims", true)});
  give_bytes(c, y, 3, c.type(0).element);
}

// ---- pools ----------------------------------------------------------------------------------------------------------

// [N, ..., C] to [N, C, ...], and back.
value channels_second(const value& x, bool last) {
  if (!last) return x;
  axes order(0, x.shape().rank - 1);
  for (int i = 1; i + 1 < x.shape().rank; ++i) order.values[order.count++] = i;
  return lamina::permute(x, order);
}
value channels_last(const value& x, bool last) {
  if (!last) return x;
  axes order(0);
  for (int i = 2; i < x.shape().rank; ++i) order.values[order.count++] = i;
  order.values[order.count++] = 1;
  return lamina::permute(x, order);
}
void one_window_form(node_call& c, const window_sizes& w) {
  if (c.flag("ceil_mode")) c.unsupported("`ceil_mode` is not supported");
  if (w.dilation != extent2d(1)) c.unsupported("dilated windows are not supported");
}

void qlinear_average_pool(node_call& c) {
  const bool last = c.flag("channels_last"), counts = c.flag("count_include_pad");
  const value x = channels_second(c[0], last);
  const dtype e = x.type().element;
  window_sizes w = windows_of(c, x.shape(), x.shape());
  one_window_form(c, w);
  const auto give = [&](const value& y) { c.give(0, channels_last(as_given(y, x), last)); };
  if (w.symmetric() && of_bytes(e)) {
    const pool2d_attributes a{
        .kernel_size = w.kernel, .stride = w.stride, .padding = w.before, .count_padding = counts};
    return give(from_int8(
        c, lamina::quantized_avg_pool2d(as_images(as_int8(c, x)), int8_scale(c, 1, e), int8_scale(c, 3, e), a), e));
  }
  value numbers = c.cast_to(as_images(x), dtype::float32);
  if (c.has(2)) numbers = numbers - lamina::reshape(c.cast_to(c[2], dtype::float32), shape{});
  window_sizes same = w;
  const value there = bordered(numbers * 0 + 1, same, 0), whole = bordered(numbers, w, 0);
  const pool2d_attributes a{.kernel_size = w.kernel, .stride = w.stride};
  value y = lamina::avg_pool2d(whole, a);
  if (!counts) y = y / lamina::avg_pool2d(there, a);
  give(quantized(c, y * lamina::reshape(c.number(1), shape{}), 3, e));
}
void qlinear_global_average_pool(node_call& c) {
  const bool last = c.flag("channels_last");
  const value x = real_operand(c, 0);
  const int rank = x.shape().rank;
  axes over;
  for (int i = last ? 1 : 2; i < (last ? rank - 1 : rank); ++i) over.values[over.count++] = i;
  give_bytes(c, lamina::reduce_mean(x, {.axes = over, .keepdim = true}), 3, c.type(0).element);
}
void nhwc_max_pool(node_call& c) {
  const value x = channels_second(c[0], true);
  const dtype e = x.type().element;
  window_sizes w = windows_of(c, x.shape(), x.shape());
  one_window_form(c, w);
  if (!of_bytes(e)) c.unsupported("unsupported element type ", e);
  const value images = bordered(as_images(as_int8(c, x)), w, -128);
  const value y = lamina::max_pool2d(images, {.kernel_size = w.kernel, .stride = w.stride, .padding = w.before});
  c.give(0, channels_last(as_given(from_int8(c, y, e), x), true));
}

// ---- products -------------------------------------------------------------------------------------------------------

value whole(const value& v) {
  return v.shape().rank == 1 && v.shape()[0] == dim(1) ? value(lamina::reshape(v, shape{})) : v;
}

// QGemm as a product of dequantized values; empty if scales do not match.
value real_gemm(node_call& c) {
  const bool of_rows = c.flag("transB");
  const dtype a = c.type(0).element;
  if (!of_bytes(a) || !of_bytes(c.type(3).element) || c.rank(0) != 2 || c.rank(3) != 2 || c.real("alpha", 1) != 1)
    return {};
  const auto as = int8_scale(c, 1, a), bs = int8_scale(c, 4, c.type(3).element);
  const value b = real_weights(c, 3, 4, 5, of_rows ? 0 : 1);
  if (as.scale.empty() || as.scale.shape().rank || bs.scale.empty() || b.empty()) return {};
  const value y = lamina::matmul(lamina::dequantize(int8_operand(c, 0), as), b,
                                 {.transpose_a = c.flag("transA"), .transpose_b = of_rows});
  return c.has(6) ? value(y + c.cast_to(c[6], dtype::float32) * (as.scale * bs.scale)) : y;
}
void qgemm(node_call& c) {
  if (const value y = real_gemm(c); !y.empty())
    return c.has(7) ? give_bytes(c, y, 7, c.has(8) ? c.type(8).element : c.type(0).element) : c.give(0, y);
  const bool of_columns = c.flag("transA"), of_rows = c.flag("transB");
  const shape& s = c.dims(0);
  const dtype wide = exact_type(s.rank == 2 ? s[of_columns ? 0 : 1] : dim(dyn));
  const value a = integers_of(c, c[0], 2, wide), b = c.cast_to(c[3], wide);
  value b_zero_point = c.has(5) ? whole(c.cast_to(c[5], wide)) : c.constant(0.0, wide);
  if (of_rows && b_zero_point.shape().rank == 1) b_zero_point = lamina::unsqueeze(b_zero_point, axes(1));
  value y = lamina::matmul(a, b - b_zero_point, {.transpose_a = of_columns, .transpose_b = of_rows});
  const double alpha = c.real("alpha", 1);
  if (c.has(6)) y = y + c.cast_to(c[6], wide);  // its scale is alpha times those of both operands
  y = c.cast_to(y, dtype::float32) * (whole(c.number(1)) * whole(c.number(4)));
  if (alpha != 1) y = y * alpha;
  c.give(0, c.has(7) ? quantized(c, y, 7, c.has(8) ? c.type(8).element : c.type(0).element) : y);
}
void matmul_integer_to_float(node_call& c) {
  const auto scale = [&](std::size_t i, bool of_rows) {
    const value v = whole(c.number(i));
    return of_rows && v.shape().rank == 1 ? value(lamina::unsqueeze(v, axes(1))) : v;
  };
  value y;
  if (of_bytes(c.type(0).element) && c.has(4) && c.dims(4).is_static() && c.dims(4).size() == 1 && c.rank(0) >= 2)
    y = byte_product(c, int8_operand(c, 0), lamina::reshape(int8_operand(c, 4, true), shape{}), 1, 5);
  if (y.empty()) y = integer_product(c, 0, 4, 1, 5);
  y = c.cast_to(y, dtype::float32) * (scale(2, true) * scale(3, false));
  if (c.has(6)) y = y + c.number(6);
  c.give(0, y);
}
void dynamic_quantize_matmul(node_call& c) {
  const value x = c.number(0);
  const auto d = dynamically_quantized(x);
  value y = byte_product(c, d.q, d.as.zero_point, 1, 3);
  if (y.empty()) {
    const dtype wide = exact_type(x.shape().rank ? x.shape()[x.shape().rank - 1] : dim(dyn));
    y = numpy_product(c.cast_to(d.q, wide) - c.cast_to(d.as.zero_point, wide), integers_of(c, c[1], 3, wide));
  }
  value made = c.cast_to(y, dtype::float32) * (d.as.scale * whole(c.number(2)));
  if (c.has(4)) made = made + c.number(4);
  c.give(0, made);
}

// Unpacks bytes of several numbers each along the last axis, as float32.
value unpacked(node_call& c, const value& bytes, std::int64_t bits) {
  value rest = c.cast_to(bytes, dtype::int32);
  if (bits == 8) return c.cast_to(rest, dtype::float32);
  const std::int64_t base = std::int64_t{1} << bits;
  std::vector<value> numbers;
  for (std::int64_t i = 0; i < 8 / bits; ++i) {
    const value above = rest / base;
    numbers.push_back(c.cast_to(rest - above * base, dtype::float32));
    rest = above;
  }
  const int rank = bytes.shape().rank;
  const value all = lamina::stack(view<const value>(numbers), rank);
  shape to = bytes.shape();
  to[rank - 1] = to[rank - 1].is_number() ? dim(to.at(rank - 1) * (8 / bits)) : dim(dyn);
  return lamina::reshape(all, to);
}
value first_columns(const value& x, std::int64_t n) {
  const int last = x.shape().rank - 1;
  return x.shape()[last] == dim(n) ? x : value(lamina::slice(x, {.start = 0, .stop = n, .axis = last}));
}
void check_bits(node_call& c, std::int64_t bits) {
  if (bits != 2 && bits != 4 && bits != 8) c.unsupported("`bits` is ", bits, "; expected 2, 4 or 8");
}

// Zero points of blocks as float32 [N, blocks], computed now if known; empty if the shape does not match.
value block_zero_points(node_call& c, std::int64_t n, std::int64_t blocks, std::int64_t bits) {
  if (!c.has(3)) return c.constant(static_cast<double>(std::int64_t{1} << (bits - 1)), dtype::float32);
  const std::int64_t row = (blocks * bits + 7) / 8;
  const any_tensor* known = c.known(3);
  if (c.type(3).element != dtype::uint8) {
    if (!c.dims(3).is_static() || c.dims(3).size() != n * blocks) return {};
    return lamina::reshape(c.cast_to(c.number(3), dtype::float32), shape{n, blocks});
  }
  if (!c.dims(3).is_static() || c.dims(3).size() != n * row) return {};
  if (!known)
    return lamina::reshape(first_columns(unpacked(c, lamina::reshape(c[3], shape{n, row}), bits), blocks),
                           shape{n, blocks});
  known_value now{.data = any_tensor({dtype::float32, {n, blocks}}), .is_parameter = c.operand(3).is_parameter};
  c.take(now.data.type().bytes());
  for (std::int64_t r = 0; r < n; ++r)
    for (std::int64_t b = 0; b < blocks; ++b) {
      const auto byte = static_cast<unsigned>(known->data()[r * row + b * bits / 8]);
      const auto v = static_cast<float>(bits == 8 ? byte : byte >> (b % 2 ? 4 : 0) & 15u);
      std::memcpy(now.data.mutable_data() + static_cast<std::size_t>(r * blocks + b) * sizeof v, &v, sizeof v);
    }
  now.name = c.operand(3).name + ".zero_points";
  return c.around.value_of(now);
}
// Product of x and packed weights; empty for another layout.
value packed_product(node_call& c, const value& x, std::int64_t blocks) {
  const std::int64_t n = c.integer("N"), bits = c.integer("bits", 4), block = c.integer("block_size");
  if (x.shape().rank < 1 || !x.shape().back().is_number() || x.shape().back().code != c.integer("K")) return {};
  if (!c.dims(2).is_static() || c.dims(2).size() != n * blocks) return {};
  const value zero_point = block_zero_points(c, n, blocks, bits);
  if (zero_point.empty()) return {};
  value scale = c.cast_to(c.number(2), dtype::float32);
  if (scale.shape() != shape{n, blocks}) scale = lamina::reshape(scale, shape{n, blocks});
  const value y = lamina::block_linear(c.cast_to(x, dtype::float32), c[1], scale, zero_point, {bits, block});
  return c.has(5) ? value(y + c.cast_to(c.number(5), dtype::float32)) : y;
}

// Product with a weight [N, K] stored as bytes [N, blocks, bytes], with a scale and a zero point per block.
void matmul_n_bits(node_call& c) {
  const std::int64_t k = c.integer("K"), n = c.integer("N"), bits = c.integer("bits", 4),
                     block = c.integer("block_size");
  check_bits(c, bits);
  constexpr std::int64_t max = std::numeric_limits<std::int32_t>::max();
  if (k < 1 || n < 1 || block < 1 || std::max({k, n, block}) > max)
    c.fail("K is ", k, ", N is ", n, ", block_size is ", block, "; expected 1 or more");
  if (c.flag("weight_prepacked")) c.unsupported("prepacked weights are not supported");
  const std::int64_t blocks = (k + block - 1) / block;
  const value a = c.number(0);
  const dtype e = a.type().element;
  const shape packed_as{n, blocks, block * bits / 8};
  if (bits != 2 && block % 16 == 0 && !c.has(4) && c.type(1).element == dtype::uint8 && c.dims(1) == packed_as)
    if (const value y = packed_product(c, a, blocks); !y.empty()) return c.give_like(0, y);
  // `g_idx` gives the block of each column.
  value q = unpacked(c, c[1], bits), block_of;
  if (c.has(4)) {
    if (c.dims(4) != shape{k}) c.fail("`g_idx` is ", c.dims(4), "; expected one block for each of ", k, " columns");
    block_of = c.cast_to(c[4], dtype::int64);
    q = first_columns(lamina::reshape(q, shape{n, blocks * block}), k);
  }
  const auto of_blocks = [&](const value& x) -> value {
    if (block_of.empty()) return lamina::reshape(x, shape{n, blocks, 1});
    return lamina::gather(lamina::reshape(x, shape{n, blocks}), block_of, 1);
  };
  value zero_point = c.constant(static_cast<double>(std::int64_t{1} << (bits - 1)), dtype::float32);
  if (c.has(3)) {
    const bool packed = c.type(3).element == dtype::uint8;
    const std::int64_t each = packed ? (blocks * bits + 7) / 8 : blocks;
    const value rows = lamina::reshape(c[3], shape{n, each});
    const value numbers = packed ? first_columns(unpacked(c, rows, bits), blocks) : c.cast_to(rows, dtype::float32);
    zero_point = of_blocks(numbers);
  }
  value weight = (q - zero_point) * of_blocks(c.cast_to(c.number(2), dtype::float32));
  if (block_of.empty()) weight = first_columns(lamina::reshape(weight, shape{n, blocks * block}), k);
  const bool one = a.shape().rank == 1;
  value y = lamina::matmul(one ? value(lamina::unsqueeze(a, axes(0))) : a, c.cast_to(weight, e), {.transpose_b = true});
  if (one) y = lamina::squeeze(y, axes(0));
  if (c.has(5)) y = y + c.cast_to(c.number(5), e);
  c.give_like(0, y);
}

// Gathers rows of a table that is block-quantized along another axis.
void gather_block_quantized(node_call& c) {
  const std::int64_t bits = c.integer("bits", 4), block = c.integer("block_size", 128);
  const bool bytes = c.type(0).element == dtype::uint8;
  check_bits(c, bits);
  if (block < 1 || block > std::numeric_limits<std::int32_t>::max()) c.fail("`block_size` is ", block);
  const int rank = c.rank(0);
  const int along = c.axis(c.integer("quantize_axis", 1), rank), from = c.axis(c.integer("gather_axis", 0), rank);
  const value at = c[1];
  // Negative indices count from the end.
  const value places =
      lamina::where(c.cast_to(at, dtype::int64) < 0, c.cast_to(at, dtype::int64) + c.extent_of(c[0], from),
                    c.cast_to(at, dtype::int64));
  if (along == from) c.unsupported("gathering along `quantize_axis` is not supported");
  const auto rows = [&](const value& v) { return value(lamina::gather(v, places, from)); };
  // Position of the block axis in the result.
  const int now = along < from ? along : along + at.shape().rank - 1;
  value q = rows(c[0]);
  if (bytes && bits < 8 && along != rank - 1) c.unsupported("packed values need the last axis as `quantize_axis`");
  q = bytes ? unpacked(c, q, bits) : c.cast_to(q, dtype::float32);
  const value scale = align_to_axis(c, rows(c.cast_to(c.number(2), dtype::float32)), q, now, block);
  if (c.has(3)) {
    value zero_point = rows(c[3]);
    if (bytes && bits < 8) {
      zero_point = unpacked(c, zero_point, bits);
      if (const dim n = c.dims(2)[along]; n.is_number()) zero_point = first_columns(zero_point, n.code);
    }
    q = q - align_to_axis(c, c.cast_to(zero_point, dtype::float32), q, now, block);
  } else if (bytes) q = q - static_cast<double>(std::int64_t{1} << (bits - 1));
  c.give_like(0, q * scale, 2);
}

// ---- fused operators ------------------------------------------------------------------------------------------------

void fused_matmul(node_call& c) {
  const auto placed = [&](std::size_t i, bool batch) {  // moves the axis before the last to the front
    const value x = c.number(i);
    const int rank = x.shape().rank;
    if (!batch || rank < 3) return x;
    axes order;
    for (int k = 1; k + 1 < rank; ++k) order.values[order.count++] = k;
    order.values[order.count++] = 0;
    order.values[order.count++] = rank - 1;
    return value(lamina::permute(x, order));
  };
  const value a = placed(0, c.flag("transBatchA")), b = placed(1, c.flag("transBatchB"));
  const bool vectors = a.shape().rank < 2 || b.shape().rank < 2;
  const bool of_columns = c.flag("transA") && a.shape().rank > 1, of_rows = c.flag("transB") && b.shape().rank > 1;
  value y;
  if (!vectors) y = lamina::matmul(a, b, {.transpose_a = of_columns, .transpose_b = of_rows});
  else y = numpy_product(of_columns ? value(lamina::transpose(a)) : a, of_rows ? value(lamina::transpose(b)) : b);
  const double alpha = c.real("alpha", 1);
  c.give_like(0, alpha == 1 ? y : value(y * alpha));
}
void fused_gemm(node_call& c) {
  const value a = c.number(0);
  value y = lamina::matmul(a, c.number(1), {.transpose_a = c.flag("transA"), .transpose_b = c.flag("transB")}) *
            c.real("alpha", 1);
  if (c.has(2)) y = y + c.number(2) * c.real("beta", 1);
  std::vector<double> numbers;
  for (std::string_view name : {"activation_alpha", "activation_beta", "activation_gamma"})
    if (c.has_attribute(name)) numbers.push_back(c.real(name, 0));
  c.give_like(0, activated(c, y, c.string("activation", ""), numbers));
}
void fused_conv(node_call& c) {
  value y = convolved(c, c.number(0), c.number(1));
  if (c.has(2)) y = y + align_to_axis(c, c.bias(2, y.shape()[1]), y, 1);
  if (c.has(3)) y = y + c.number(3);
  c.give_like(0, activated(c, y, c.string("activation", ""), c.reals("activation_params")));
}

constexpr converter_entry entries[] = {
    {"DynamicQuantizeMatMul", 1, dynamic_quantize_matmul},
    {"FusedConv", 1, fused_conv},
    {"FusedGemm", 1, fused_gemm},
    {"FusedMatMul", 1, fused_matmul},
    {"GatherBlockQuantized", 1, gather_block_quantized},
    {"MatMulIntegerToFloat", 1, matmul_integer_to_float},
    {"MatMulNBits", 1, matmul_n_bits},
    {"NhwcMaxPool", 1, nhwc_max_pool},
    {"QGemm", 1, qgemm},
    {"QLinearAdd", 1, qlinear_add},
    {"QLinearAveragePool", 1, qlinear_average_pool},
    {"QLinearConcat", 1, qlinear_concat},
    {"QLinearGlobalAveragePool", 1, qlinear_global_average_pool},
    {"QLinearLeakyRelu", 1, qlinear_leaky_relu},
    {"QLinearMul", 1, qlinear_mul},
    {"QLinearReduceMean", 1, qlinear_reduce_mean},
    {"QLinearSigmoid", 1, qlinear_sigmoid},
    {"QLinearSoftmax", 1, qlinear_softmax},
    {"QLinearWhere", 1, qlinear_where},
};

}  // namespace

converter_list microsoft_quantized_converters() { return entries; }

}  // namespace lamina::onnx
