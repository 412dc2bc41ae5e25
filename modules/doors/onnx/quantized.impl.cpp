// Operators on quantized integers.
module lamina.onnx:quantized.impl;
import :convert;
import :message;
import :quantized;
import :scope;
import lamina;
import lamina.std;

namespace lamina::onnx {

integer_range range_of(dtype e) {
  std::string_view name = name_of(e);
  const bool is_unsigned = name.starts_with("uint");
  if (!is_unsigned && !name.starts_with("int")) {
    constexpr double infinity = std::numeric_limits<double>::infinity();
    return {-infinity, infinity};
  }
  name.remove_prefix(is_unsigned ? 4 : 3);
  int bits = 0;
  for (char d : name) bits = 10 * bits + (d - '0');
  return is_unsigned ? integer_range{0, std::ldexp(1.0, bits) - 1}
                     : integer_range{-std::ldexp(1.0, bits - 1), std::ldexp(1.0, bits - 1) - 1};
}

value align_to_axis(node_call& c, const value& v, const value& x, std::int64_t axis, std::int64_t block) {
  const shape &s = v.shape(), &of = x.shape();
  if (s.rank == 0 || of.rank == 0 || (block == 0 && s == shape{1})) return lamina::reshape(v, shape{});
  const int at = c.axis(axis, of.rank);
  if (block > 0) {
    if (s.rank != of.rank) c.fail("blocks of ", of, " do not match scales ", s);
    const value all = lamina::repeat(v, block, at);
    if (all.shape()[at] == of[at] && of[at].is_number()) return all;
    return lamina::slice_at(all, c.constant(std::vector<std::int64_t>{0}), c.extent_of(x, at), axes(at));
  }
  if (s.rank != 1) return v;
  shape to{s[0]};
  for (int i = at + 1; i < of.rank; ++i) to.push_back(1);
  return lamina::reshape(v, to);
}

value saturated(node_call& c, const value& x, const value& zero_point, dtype e) {
  const integer_range r = range_of(e);
  if (!std::isfinite(r.low)) c.fail("its result is ", e, "; expected an integer type");
  value q = lamina::round(x);
  if (!zero_point.empty()) q = q + c.cast_to(zero_point, x.type().element);
  return c.cast_to(lamina::clamp(q, r.low, r.high), e);
}
value dequantized(node_call& c, std::size_t i) {
  value q = c.cast_to(c[i], dtype::float32);
  if (c.has(i + 2)) q = q - lamina::reshape(c.cast_to(c[i + 2], dtype::float32), shape{});
  return q * lamina::reshape(c.number(i + 1), shape{});
}
value quantized(node_call& c, const value& x, std::size_t i, dtype e) {
  const value zero_point = c.has(i + 1) ? value(lamina::reshape(c[i + 1], shape{})) : value();
  return saturated(c, x / lamina::reshape(c.number(i), shape{}), zero_point, e);
}

dtype exact_type(dim products) {
  constexpr std::int64_t max = (std::int64_t{1} << 24) / (255 * 255);
  return products.is_number() && products.code <= max ? dtype::float32 : dtype::float64;
}
value integers_of(node_call& c, const value& q, std::size_t zero_point, dtype wide, bool of_rows) {
  const value x = c.cast_to(q, wide);
  if (!c.has(zero_point)) return x;
  value o = c.cast_to(c[zero_point], wide);
  if (o.shape().rank == 1) {
    if (o.shape()[0] == dim(1)) o = lamina::reshape(o, shape{});
    else if (of_rows) o = lamina::unsqueeze(o, axes(1));
  }
  return x - o;
}

value integer_product(node_call& c, std::size_t a, std::size_t a_zero_point, std::size_t b, std::size_t b_zero_point) {
  const shape& s = c.dims(a);
  const dtype wide = exact_type(s.rank ? s[s.rank - 1] : dim(dyn));
  return numpy_product(integers_of(c, c[a], a_zero_point, wide, true), integers_of(c, c[b], b_zero_point, wide));
}

dynamic_numbers dynamically_quantized(const value& x) {
  const value low = lamina::min(lamina::reduce_min(x), 0), high = lamina::max(lamina::reduce_max(x), 0);
  const value spread = (high - low) / 255;
  dynamic_numbers d;
  d.as.scale = lamina::where(spread == 0, lamina::exp(spread), spread);  // 1 where all are 0
  d.as.zero_point = node_call::cast_to(lamina::round(lamina::clamp(-low / d.as.scale, 0, 255)) - 128, dtype::int8);
  d.q = lamina::quantize(x, d.as);
  return d;
}

bool of_bytes(dtype e) { return e == dtype::int8 || e == dtype::uint8; }
value as_int8(node_call& c, const value& q) {
  if (q.type().element == dtype::int8) return q;
  if (const auto known = c.around.int8_of.find({q.id().node, q.id().result}); known != c.around.int8_of.end())
    return known->second;
  return c.cast_to(c.cast_to(q, dtype::int32) - 128, dtype::int8);
}
namespace {
// Filters (operand i) minus their zero points, as two int8 tensors along axis 1 that add up to them. Empty if the
// elements are unknown, if the zero points are 0 in int8, or if a difference exceeds the sum of two int8.
value int8_halves(node_call& c, std::size_t i, std::size_t zero_point, std::int64_t axis) {
  const any_tensor* known = c.known(i);
  const auto zeros = c.has(zero_point) ? c.known_integers(zero_point) : std::vector<std::int64_t>{0};
  if (!known || !zeros || zeros->empty()) return {};
  const dtype e = known->element();
  const std::int64_t middle = e == dtype::uint8 ? 128 : 0;
  if (std::all_of(zeros->begin(), zeros->end(), [&](std::int64_t z) { return z == middle; })) return {};
  const shape& from = known->shape();
  if (from.rank != 4 || from.size() == 0) return {};
  const bool one = zeros->size() == 1;
  if (!one && (axis != 0 || static_cast<std::int64_t>(zeros->size()) != from.at(0))) return {};
  shape to = from;
  to[1] = dim(2 * from.at(1));
  known_value now{.data = any_tensor({dtype::int8, to}), .is_parameter = c.operand(i).is_parameter};
  c.take(now.data.type().bytes());
  const std::int64_t each = from.size(1, 4);
  for (std::int64_t o = 0; o < from.at(0); ++o)
    for (std::int64_t k = 0; k < each; ++k) {
      const auto bits = static_cast<std::uint8_t>(known->data()[o * each + k]);
      const std::int64_t q = e == dtype::uint8 ? bits : static_cast<std::int8_t>(bits),
                         v = q - (*zeros)[one ? 0 : static_cast<std::size_t>(o)],
                         first = std::clamp<std::int64_t>(v, -128, 127);
      if (v - first > 127 || v - first < -128) return {};
      now.data.mutable_data()[o * 2 * each + k] = std::byte{static_cast<std::uint8_t>(first)};
      now.data.mutable_data()[o * 2 * each + each + k] = std::byte{static_cast<std::uint8_t>(v - first)};
    }
  now.name = c.operand(i).name + ".halves";
  return c.around.value_of(now);
}
// Bytes [first, first + bytes) of operand i, which is known, as int8 with shape `dims`.
value known_int8(node_call& c, std::size_t i, const shape& dims, std::size_t first, const std::string& part) {
  const known_value& was = c.operand(i);
  known_value now{.data = any_tensor({dtype::int8, dims}), .is_parameter = was.is_parameter};
  const std::size_t bytes = now.data.type().bytes();
  c.take(bytes);
  const auto* from = was.data.data() + first;
  auto* to = now.data.mutable_data();
  const unsigned flip = was.data.element() == dtype::uint8 ? 128 : 0;
  for (std::size_t k = 0; k < bytes; ++k)
    to[k] = std::byte{static_cast<std::uint8_t>(static_cast<unsigned>(from[k]) ^ flip)};
  if (was.is_parameter) now.name = was.name + part;
  return c.around.value_of(now);
}
}  // namespace

// 7 if operand i is known, and as int8 within [-64, 63], else 8.
static std::int64_t bits_of(const node_call& c, std::size_t i) {
  const any_tensor* known = c.known(i);
  if (!known) return 8;
  const unsigned flip = known->element() == dtype::uint8 ? 128 : 0;
  const view<const std::byte> all(known->data(), known->bytes());
  return std::all_of(all.begin(), all.end(),
                     [&](std::byte b) {
                       const auto v = static_cast<std::int8_t>(static_cast<unsigned>(b) ^ flip);
                       return v >= -64 && v <= 63;
                     })
             ? 7
             : 8;
}
value real_weights(node_call& c, std::size_t i, std::size_t scale, std::size_t zero_point, std::int64_t axis) {
  const dtype e = c.type(i).element;
  const auto as = int8_scales(c, scale, zero_point, e);
  if (as.scale.empty()) return {};
  const std::int64_t along = as.scale.shape().rank ? axis : 0;
  const value both = int8_halves(c, i, zero_point, axis);
  if (both.empty()) return lamina::dequantize(int8_operand(c, i), as, {along, bits_of(c, i)});
  const std::int64_t n = both.shape().at(1) / 2;
  const quantization centered{as.scale, c.zeros({dtype::int8, as.scale.shape()})};
  return lamina::dequantize(lamina::slice(both, {.start = 0, .stop = n, .axis = 1}), centered, {along}) +
         lamina::dequantize(lamina::slice(both, {.start = n, .stop = 2 * n, .axis = 1}), centered, {along});
}
value int8_operand(node_call& c, std::size_t i, bool one) {
  const any_tensor* known = c.known(i);
  if (!known || (known->element() == dtype::int8 && !one)) return as_int8(c, c[i]);
  return known_int8(c, i, one ? shape{} : known->shape(), 0, ".int8");
}
value int8_part(node_call& c, std::size_t i, std::int64_t at) {
  const any_tensor* known = c.known(i);
  if (!known || known->shape().rank < 1 || at >= known->shape().at(0))
    return lamina::select(as_int8(c, c[i]), 0, static_cast<int>(at));
  shape dims;
  for (int k = 1; k < known->shape().rank; ++k) dims.push_back(known->shape()[k]);
  return known_int8(c, i, dims, static_cast<std::size_t>(at * dims.size()), ".int8." + std::to_string(at));
}
value from_int8(node_call& c, const value& q, dtype e) {
  if (e == dtype::int8) return q;
  const value bytes = c.cast_to(c.cast_to(q, dtype::int32) + 128, e);
  c.around.int8_of.emplace(std::pair{bytes.id().node, bytes.id().result}, q);
  return bytes;
}

// ---- windows --------------------------------------------------------------------------------------------------------

value as_images(const value& x) { return x.shape().rank == 3 ? value(lamina::unsqueeze(x, axes(2))) : x; }
value as_given(const value& y, const value& x) { return x.shape().rank == 3 ? value(lamina::squeeze(y, axes(2))) : y; }

namespace {

std::int64_t element(const std::vector<std::int64_t>& list, std::size_t i, std::int64_t otherwise) {
  return i < list.size() ? list[i] : otherwise;
}
// SAME padding: ceil(extent / stride) windows.
void same_borders(node_call& c, const shape& x, window_sizes& w, bool more_before) {
  const auto borders = [&](dim extent, std::int64_t kernel, std::int64_t stride, std::int64_t dilation,
                           std::int64_t& before, std::int64_t& after) {
    if (!extent.is_number()) {
      if (stride != 1) c.unsupported("`auto_pad` needs known extents; got ", x);
      extent = dim(stride);
    }
    const std::int64_t windows = (extent.code + stride - 1) / stride;
    const std::int64_t all =
        std::max<std::int64_t>((windows - 1) * stride + dilation * (kernel - 1) + 1 - extent.code, 0);
    before = more_before ? all - all / 2 : all / 2, after = all - before;
  };
  if (x.rank == 4) borders(x[2], w.kernel.h, w.stride.h, w.dilation.h, w.before.h, w.after.h);
  borders(x[x.rank - 1], w.kernel.w, w.stride.w, w.dilation.w, w.before.w, w.after.w);
}

}  // namespace

void check_kernel_shape(node_call& c, const shape& weights) {
  if (!c.has_attribute("kernel_shape")) return;
  const auto declared_kernel = c.node_call::integers("kernel_shape");
  bool same = declared_kernel.size() + 2 == static_cast<std::size_t>(weights.rank);
  for (int i = 2; same && i < weights.rank; ++i)
    same = !weights[i].is_number() || weights.at(i) == declared_kernel[static_cast<std::size_t>(i) - 2];
  if (same) return;
  text t;
  for (std::size_t i = 0; i < declared_kernel.size() && i < 16; ++i) t << (i ? ", " : "") << declared_kernel[i];
  c.fail("`kernel_shape` is [", t.view(), "], but its weights are ", weights);
}

window_sizes windows_of(node_call& c, const shape& x, const shape& kernel) {
  if (x.rank != 3 && x.rank != 4) c.unsupported("windows over ", x, "; expected [N, C, L] or [N, C, H, W]");
  const auto n = static_cast<std::size_t>(x.rank - 2);
  auto sizes = c.node_call::integers("kernel_shape");
  if (sizes.empty())
    for (int i = 2; i < kernel.rank; ++i) {
      if (!kernel[i].is_number()) c.unsupported("the extents of its weights ", kernel, " are not known");
      sizes.push_back(kernel.at(i));
    }
  if (sizes.size() != n) c.fail("`kernel_shape` has ", sizes.size(), " numbers; expected ", n);
  const auto strides = c.node_call::integers("strides"), dilations = c.node_call::integers("dilations"),
             pads = c.node_call::integers("pads");
  constexpr std::int64_t max = std::numeric_limits<std::int32_t>::max();
  for (const std::vector<std::int64_t>* list :
       std::initializer_list<const std::vector<std::int64_t>*>{&sizes, &strides, &dilations, &pads})
    for (auto v : *list)
      if (v < 0 || v > max) c.fail("invalid window size, stride, dilation or pad: ", v);
  window_sizes w;
  const auto of = [&](const std::vector<std::int64_t>& list, std::size_t from, std::int64_t otherwise) {
    return n == 1 ? extent2d(otherwise, element(list, from, otherwise))
                  : extent2d(element(list, from, otherwise), element(list, from + 1, otherwise));
  };
  w.kernel = of(sizes, 0, 1), w.stride = of(strides, 0, 1), w.dilation = of(dilations, 0, 1);
  if (w.stride.h < 1 || w.stride.w < 1) c.fail("a stride is below 1");
  const std::string way = c.string("auto_pad", "NOTSET");
  if (way == "SAME_UPPER" || way == "SAME_LOWER") same_borders(c, x, w, way == "SAME_LOWER");
  else if (way != "VALID" && !pads.empty()) {
    if (pads.size() != 2 * n) c.fail("`pads` has ", pads.size(), " numbers; expected ", 2 * n);
    w.before = of(pads, 0, 0), w.after = of(pads, n, 0);
  }
  return w;
}
value bordered(const value& x, window_sizes& w, double number) {
  if (w.symmetric()) return x;
  value y = x;
  if (w.before.h || w.after.h)
    y = lamina::pad(y, {.axis = 2, .before = w.before.h, .after = w.after.h, .value = number});
  if (w.before.w || w.after.w)
    y = lamina::pad(y, {.axis = 3, .before = w.before.w, .after = w.after.w, .value = number});
  w.before = w.after = extent2d(0);
  return y;
}
value convolved(node_call& c, const value& x, const value& w, double border) {
  check_kernel_shape(c, w.shape());
  window_sizes sizes = windows_of(c, x.shape(), w.shape());
  const value images = bordered(as_images(x), sizes, border);
  return as_given(lamina::conv2d(images, as_images(w),
                                 {.stride = sizes.stride,
                                  .padding = sizes.before,
                                  .dilation = sizes.dilation,
                                  .groups = c.integer("group", 1)}),
                  x);
}

value activated(node_call& c, const value& x, const std::string& name, const std::vector<double>& numbers) {
  const auto number = [&](std::size_t i, double otherwise) { return i < numbers.size() ? numbers[i] : otherwise; };
  if (name.empty()) return x;
  if (name == "Relu") return lamina::relu(x);
  if (name == "Tanh") return lamina::tanh(x);
  if (name == "Sigmoid") return lamina::sigmoid(x);
  if (name == "LeakyRelu") return lamina::leaky_relu(x, {number(0, 0.01)});
  if (name == "Clip") return lamina::clamp(x, number(0, 0), number(1, 0));
  if (name == "HardSigmoid") return lamina::clamp(x * number(0, 0.2) + number(1, 0.5), 0, 1);
  c.unsupported("unsupported activation `", printable(name), "`");
}

// ---- scales and zero points ---------------------------------------------------------------------------------------------

quantization int8_scales(node_call& c, std::size_t scale, std::size_t zero_point, dtype e) {
  const shape s = c.dims(scale);
  if (c.type(scale).element != dtype::float32 || s.rank > 1 || !s.is_static()) return {};
  const shape to = s.size() == 1 ? shape{} : s;
  quantization as;
  if (c.has(zero_point)) {
    if (c.type(zero_point).element != e || !c.dims(zero_point).is_static() || c.dims(zero_point).size() != s.size())
      return {};
    as.zero_point = int8_operand(c, zero_point, to.rank == 0);
    if (as.zero_point.shape() != to) as.zero_point = lamina::reshape(as.zero_point, to);
  } else {
    any_tensor zeros({dtype::int8, to});
    std::memset(zeros.mutable_data(), e == dtype::uint8 ? 128 : 0, zeros.type().bytes());
    as.zero_point = c.constant(std::move(zeros));
  }
  const any_tensor* known = s.size() == 1 ? c.known(scale) : nullptr;
  if (known) {
    any_tensor one({dtype::float32, {}});
    std::memcpy(one.mutable_data(), known->data(), sizeof(float));
    as.scale = c.constant(std::move(one));
  } else as.scale = s == to ? c[scale] : value(lamina::reshape(c[scale], to));
  return as;
}

// Zero point of 8-bit weights as int8: empty for 0, one number, or one per channel. False for other shapes.
static bool read_zero_point(node_call& c, std::size_t weights, std::size_t zero_point, dim channels, value& to) {
  const dtype e = c.type(weights).element;
  const auto known = c.has(zero_point) ? c.known_integers(zero_point) : std::vector<std::int64_t>{0};
  const std::int64_t middle = e == dtype::uint8 ? 128 : 0;
  if (known && std::all_of(known->begin(), known->end(), [&](std::int64_t n) { return n == middle; })) return true;
  to = c.has(zero_point) ? int8_operand(c, zero_point) : c.constant(-128.0, dtype::int8);
  if (to.shape().rank == 1 && to.shape()[0] == dim(1)) to = lamina::reshape(to, shape{});
  return to.shape().rank == 0 || (to.shape().rank == 1 && to.shape()[0] == channels);
}
value byte_product(node_call& c, const value& a, const value& a_zero_point, std::size_t b, std::size_t b_zero_point) {
  const dtype e = c.type(b).element;
  const shape& w = c.dims(b);
  if (a.type().element != dtype::int8 || !of_bytes(e) || w.rank != 2 || a.shape().rank < 2 || a_zero_point.shape().rank)
    return {};
  value zero_point;
  if (!read_zero_point(c, b, b_zero_point, w[1], zero_point)) return {};
  return lamina::integer_linear(a, a_zero_point, int8_operand(c, b), zero_point, true);
}

namespace {

void dequantize_linear(node_call& c) {
  const value x = c[0];
  const std::int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  const dtype to = c.element("output_dtype", c.type(1).element);
  const dtype e = x.type().element;
  if (of_bytes(e) && block == 0 && to == dtype::float32)
    if (const value y = real_weights(c, 0, 1, 2, axis); !y.empty()) return c.give(0, y);
  // int32 stays exact until the zero point is subtracted.
  const dtype inner = e == dtype::int32 ? dtype::int32 : dtype::float32;
  value y = c.cast_to(x, inner);
  if (c.has(2)) y = y - c.cast_to(align_to_axis(c, c[2], x, axis, block), inner);
  c.give(0, c.cast_to(c.cast_to(y, dtype::float32) * c.cast_to(align_to_axis(c, c[1], x, axis, block), dtype::float32),
                      to));
}

void quantize_linear(node_call& c) {
  value x = c.number(0);
  if (is_integer(x.type().element)) x = c.cast_to(x, dtype::float32);
  const std::int64_t axis = c.integer("axis", 1), block = c.integer("block_size", 0);
  const dtype given = c.has(2) ? c.type(2).element : dtype::uint8,
              e = c.integer("output_dtype", 0) ? c.element("output_dtype", given) : given;
  if (of_bytes(e) && block == 0 && x.type().element == dtype::float32)
    if (const auto as = int8_scales(c, 1, 2, e); !as.scale.empty())
      return c.give(0, from_int8(c, lamina::quantize(x, as, {as.scale.shape().rank ? axis : 0}), e));
  const value scaled = x / c.cast_to(align_to_axis(c, c.number(1), x, axis, block), x.type().element);
  const value zero_point = c.has(2) ? align_to_axis(c, c[2], x, axis, block) : value();
  if (name_of(e).starts_with("int") || name_of(e).starts_with("uint"))
    return c.give(0, saturated(c, scaled, zero_point, e));
  c.give(0, c.cast_to(zero_point.empty() ? scaled : value(scaled + c.cast_to(zero_point, x.type().element)), e));
}

void dynamic_quantize_linear(node_call& c) {
  const auto d = dynamically_quantized(c.number(0));
  c.give(0, from_int8(c, d.q, dtype::uint8));
  c.give(1, d.as.scale);
  c.give(2, from_int8(c, d.as.zero_point, dtype::uint8));
}

// ---- products -------------------------------------------------------------------------------------------------------

bool one_number(node_call& c, std::size_t i) { return c.dims(i).is_static() && c.dims(i).size() == 1; }

void matmul_integer(node_call& c) {
  const dtype e = c.type(0).element;
  if (of_bytes(e) && c.rank(0) >= 2 && (!c.has(2) || one_number(c, 2)) && c.rank(1) == 2) {
    const value zero_point = c.has(2) ? value(lamina::reshape(int8_operand(c, 2, true), shape{}))
                                      : c.constant(e == dtype::uint8 ? -128.0 : 0.0, dtype::int8);
    if (const value y = byte_product(c, int8_operand(c, 0), zero_point, 1, 3); !y.empty()) return c.give(0, y);
  }
  if (of_bytes(e) && of_bytes(c.type(1).element) && c.rank(0) >= 2 && c.rank(1) >= 2 &&
      (!c.has(2) || one_number(c, 2)) && (!c.has(3) || one_number(c, 3))) {
    const auto zero_point = [&](std::size_t of, std::size_t i) {
      return c.has(i) ? value(lamina::reshape(int8_operand(c, i, true), shape{}))
                      : c.constant(c.type(of).element == dtype::uint8 ? -128.0 : 0.0, dtype::int8);
    };
    return c.give(0,
                  lamina::integer_matmul(int8_operand(c, 0), zero_point(0, 2), int8_operand(c, 1), zero_point(1, 3)));
  }
  c.give(0, c.cast_to(integer_product(c, 0, 2, 1, 3), dtype::int32));
}

// Number of products in each sum of a convolution.
dim products_of(const value& w) {
  std::int64_t n = 1;
  for (int i = 1; i < w.shape().rank; ++i) {
    if (!w.shape()[i].is_number()) return dyn;
    n *= w.shape().at(i);
  }
  return n;
}
// Sums of 8-bit products that stay below 2^24 are exact in float32.
value integer_convolution(node_call& c, std::size_t x, std::size_t x_zero_point, std::size_t w,
                          std::size_t w_zero_point) {
  const dim products = products_of(c[w]);
  const dtype wide = products.is_number() && products.code <= (1 << 24) / (255 * 255) ? dtype::float32 : dtype::float64;
  value filters = c.cast_to(c[w], wide);
  if (c.has(w_zero_point)) filters = filters - align_to_axis(c, c.cast_to(c[w_zero_point], wide), filters, 0);
  return convolved(c, integers_of(c, c[x], x_zero_point, wide), filters);
}

// Whether all zero points of int8 or uint8 weights are known to be the midpoint of their type.
bool centered(const node_call& c, std::size_t zero_point, dtype e) {
  if (!c.has(zero_point)) return e == dtype::int8;
  const auto all = c.known_integers(zero_point);
  const std::int64_t middle = e == dtype::int8 ? 0 : 128;
  return all && std::all_of(all->begin(), all->end(), [&](std::int64_t n) { return n == middle; });
}
void conv_integer(node_call& c) {
  const value x = c[0], w = c[1];
  const dtype e = x.type().element, of_w = w.type().element;
  const int rank = x.shape().rank;
  const std::int64_t groups = c.integer("group", 1);
  value w_zero_point;
  if (of_bytes(e) && of_bytes(of_w) && (rank == 3 || rank == 4) && (!c.has(2) || one_number(c, 2)) &&
      w.shape().rank == rank && read_zero_point(c, 1, 3, w.shape()[0], w_zero_point) &&
      (w_zero_point.empty() || (groups == 1 && w.shape().is_static()))) {
    check_kernel_shape(c, w.shape());
    const window_sizes sizes = windows_of(c, x.shape(), w.shape());
    const value zero_point = c.has(2) ? value(lamina::reshape(int8_operand(c, 2, true), shape{}))
                                      : c.constant(e == dtype::uint8 ? -128.0 : 0.0, dtype::int8);
    const extent2d more{sizes.after.h - sizes.before.h, sizes.after.w - sizes.before.w};
    return c.give(
        0, as_given(lamina::integer_conv2d(as_images(int8_operand(c, 0)), zero_point, as_images(int8_operand(c, 1)),
                                           {.stride = sizes.stride,
                                            .padding = sizes.before,
                                            .dilation = sizes.dilation,
                                            .groups = groups,
                                            .padding_more = more},
                                           w_zero_point),
                    x));
  }
  c.give(0, c.cast_to(integer_convolution(c, 0, 2, 1, 3), dtype::int32));
}

// Whether lamina's int8 products support operands x, its scale and zero point; weights, theirs; scale and zero point of
// the result.
bool fits_int8(node_call& c) {
  const value x = c[0], w = c[3];
  if (!of_bytes(x.type().element) || !of_bytes(w.type().element) || c.type(7).element != x.type().element ||
      !centered(c, 5, w.type().element))
    return false;
  for (std::size_t i : {1u, 4u, 6u})
    if (c.type(i).element != dtype::float32) return false;
  return one_number(c, 1) && one_number(c, 2) && one_number(c, 6) && one_number(c, 7) && w.shape().is_static() &&
         c.dims(4).is_static() && c.dims(4).rank <= 1;
}
value scales_of_weights(node_call& c) { return one_number(c, 4) ? value(lamina::reshape(c[4], shape{})) : c[4]; }

// Scale of the products, broadcast to results with channels on axis `axis`.
value product_scale(node_call& c, const value& y, int axis) {
  const value w = align_to_axis(c, c.number(4), y, axis);
  return c.cast_to(lamina::reshape(c.number(1), shape{}) * w / lamina::reshape(c.number(6), shape{}), y.type().element);
}

void qlinear_matmul(node_call& c) {
  const value a = c[0], b = c[3];
  const dtype e = c.type(7).element;
  if (b.shape().rank == 2 && a.shape().rank >= 2 && fits_int8(c) &&
      (one_number(c, 4) || c.dims(4)[0] == b.shape()[1])) {
    const value bias = c.zeros({dtype::int32, {b.shape()[1]}});
    const value y = lamina::quantized_linear(int8_operand(c, 0), int8_scales(c, 1, 2, a.type().element),
                                             {int8_operand(c, 3), scales_of_weights(c), bias}, int8_scales(c, 6, 7, e),
                                             {.transposed = true, .weight_bits = bits_of(c, 3)});
    return c.give(0, from_int8(c, y, e));
  }
  if (of_bytes(a.type().element) && of_bytes(b.type().element) && of_bytes(e)) {
    // Written as dequantized operations, which passes convert to int8 kernels.
    const auto a_as = int8_scales(c, 1, 2, a.type().element), b_as = int8_scales(c, 4, 5, b.type().element),
               y_as = int8_scales(c, 6, 7, e);
    const bool whole = !a_as.scale.empty() && a_as.scale.shape().rank == 0 && !y_as.scale.empty() &&
                       y_as.scale.shape().rank == 0 && !b_as.scale.empty();
    const std::int64_t columns = b.shape().rank - 1;
    if (whole && (b_as.scale.shape().rank == 0 || b.shape().rank == 2)) {
      const value y = numpy_product(
          lamina::dequantize(int8_operand(c, 0), a_as),
          lamina::dequantize(int8_operand(c, 3), b_as, {b_as.scale.shape().rank ? columns : 0, bits_of(c, 3)}));
      return c.give(0, from_int8(c, lamina::quantize(y, y_as), e));
    }
  }
  const value y = integer_product(c, 0, 2, 3, 5);
  value a_scale = c.number(1), b_scale = c.number(4);
  const auto placed = [&](value v, bool of_rows) {
    if (v.shape().rank == 1 && v.shape()[0] == dim(1)) v = lamina::reshape(v, shape{});
    return v.shape().rank == 1 && of_rows ? value(lamina::unsqueeze(v, axes(1))) : v;
  };
  const value factor = placed(a_scale, true) * placed(b_scale, false) / placed(c.number(6), true);
  const value zero_point = c[7].shape().rank == 1 && !one_number(c, 7)
                               ? value(lamina::unsqueeze(c[7], axes(1)))
                               : (one_number(c, 7) ? value(lamina::reshape(c[7], shape{})) : c[7]);
  c.give(0, saturated(c, y * c.cast_to(factor, y.type().element), zero_point, e));
}

void qlinear_conv(node_call& c) {
  const value x = c[0], w = c[3];
  const dtype e = c.type(7).element;
  if (fits_int8(c) && (x.shape().rank == 3 || x.shape().rank == 4)) {
    check_kernel_shape(c, w.shape());
    window_sizes sizes = windows_of(c, x.shape(), w.shape());
    const auto border = c.known_integers(2);
    if (sizes.symmetric() || (border && border->size() == 1)) {
      const double number = border && !border->empty()
                                ? static_cast<double>((*border)[0]) - (x.type().element == dtype::uint8 ? 128 : 0)
                                : 0;
      const value images = bordered(as_images(int8_operand(c, 0)), sizes, number);
      const value bias = c.has(8) ? c.cast_to(c[8], dtype::int32) : c.zeros({dtype::int32, {w.shape()[0]}});
      const value y =
          lamina::quantized_conv2d(images, int8_scales(c, 1, 2, x.type().element),
                                   {as_images(int8_operand(c, 3)), scales_of_weights(c), bias}, int8_scales(c, 6, 7, e),
                                   {.conv = {.stride = sizes.stride,
                                             .padding = sizes.before,
                                             .dilation = sizes.dilation,
                                             .groups = c.integer("group", 1)},
                                    .weight_bits = bits_of(c, 3)});
      return c.give(0, from_int8(c, as_given(y, x), e));
    }
  }
  if (of_bytes(x.type().element) && of_bytes(w.type().element) && of_bytes(e) && x.shape().rank == 4) {
    // Written as dequantized operations, which passes convert to int8 kernels.
    const auto x_as = int8_scales(c, 1, 2, x.type().element), y_as = int8_scales(c, 6, 7, e);
    const value weights = real_weights(c, 3, 4, 5, 0);
    if (!x_as.scale.empty() && x_as.scale.shape().rank == 0 && !y_as.scale.empty() && y_as.scale.shape().rank == 0 &&
        !weights.empty()) {
      value y = convolved(c, lamina::dequantize(int8_operand(c, 0), x_as), weights);
      if (c.has(8))
        y = y + align_to_axis(
                    c, c.cast_to(c.bias(8, y.shape()[1]), dtype::float32) * (x_as.scale * scales_of_weights(c)), y, 1);
      return c.give(0, from_int8(c, lamina::quantize(y, y_as), e));
    }
  }
  value y = integer_convolution(c, 0, 2, 3, 5);
  if (c.has(8)) y = y + align_to_axis(c, c.cast_to(c.bias(8, y.shape()[1]), y.type().element), y, 1);
  c.give(0, saturated(c, y * product_scale(c, y, 1), lamina::reshape(c[7], shape{}), e));
}

constexpr converter_entry entries[] = {
    {"ConvInteger", 10, conv_integer},
    {"DequantizeLinear", 10, dequantize_linear, false},
    {"DynamicQuantizeLinear", 11, dynamic_quantize_linear},
    {"MatMulInteger", 10, matmul_integer},
    {"QLinearConv", 10, qlinear_conv},
    {"QLinearMatMul", 10, qlinear_matmul},
    {"QuantizeLinear", 10, quantize_linear, false},
};

}  // namespace

converter_list quantized_converters() { return entries; }

}  // namespace lamina::onnx
