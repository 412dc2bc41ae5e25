// Operators on images, sequences and volumes: convolutions and pools.
module lamina.onnx:image.impl;
import :convert;
import :message;
import :quantized;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// Windows of a convolution or pool over the spatial axes (2 and up).
struct windows {
  std::vector<std::int64_t> kernel, strides, dilations, before, after;
  std::size_t axes() const { return kernel.size(); }
  pool_options pool() const {
    return {.kernel = kernel,
            .strides = strides,
            .paddings_before = before,
            .paddings_after = after,
            .dilations = dilations};
  }
};

// Total SAME padding for an extent that may be computed: enough for ceil(extent / stride) windows.
value same_padding(const value& extent, const windows& w, std::size_t i) {
  const std::int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
  const value count = (extent + (w.strides[i] - 1)) / w.strides[i];
  return lamina::max((count - 1) * w.strides[i] + reach - extent, 0);
}

// Pads x for SAME, with sizes that depend on extents known when planning.
value padded_by_extents(node_call& c, const value& x, const windows& w, bool upper, double filler) {
  std::vector<value> before, after;
  lamina::axes along;
  for (std::size_t i = 0; i < w.axes(); ++i) {
    const int axis = static_cast<int>(i) + 2;
    along.values[along.count++] = axis;
    const value all = same_padding(c.extent_of(x, axis), w, i), small = all / 2;
    before.push_back(upper ? small : all - small);
    after.push_back(upper ? all - small : small);
  }
  before.insert(before.end(), after.begin(), after.end());
  return lamina::pad_by(x, lamina::concat(view<const value>(before), 0), {.axes = along, .value = filler});
}

// Reads kernel, strides, dilations and padding; pads x here if the padding depends on its extents. `filler` is the
// padding value. Without `automatic_padding` the caller interprets the attribute `auto_pad`.
windows read_windows(node_call& c, value& x, std::vector<std::int64_t> kernel, double filler,
                     bool automatic_padding = true) {
  windows w;
  w.kernel = std::move(kernel);
  const std::size_t n = w.axes();
  if (x.shape().rank != static_cast<int>(n) + 2)
    c.fail("its windows have ", n, " axes; expected an operand of rank ", n + 2, "; got ", x.shape());
  const auto list = [&](std::string_view name, std::int64_t otherwise, std::size_t count) {
    auto v = c.node_call::integers(name, std::vector<std::int64_t>(count, otherwise));
    if (v.size() != count) c.fail("`", name, "` has ", v.size(), " numbers; expected ", count);
    for (auto i : v)
      if (i < (otherwise == 1 ? 1 : 0) || i > (std::int64_t(1) << 31))
        c.fail("`", name, "` has the value ", i, "; expected ", otherwise == 1 ? 1 : 0, " to 2^31");
    return v;
  };
  w.strides = list("strides", 1, n);
  w.dilations = list("dilations", 1, n);
  for (auto k : w.kernel)
    if (k < 1 || k > (std::int64_t(1) << 31)) c.fail("a window has the extent ", k);
  w.before.assign(n, 0), w.after.assign(n, 0);
  const auto automatic = automatic_padding ? c.string("auto_pad", "NOTSET") : std::string("NOTSET");
  if (automatic == "NOTSET") {
    const auto pads = list("pads", 0, 2 * n);
    w.before.assign(pads.begin(), pads.begin() + static_cast<std::ptrdiff_t>(n));
    w.after.assign(pads.begin() + static_cast<std::ptrdiff_t>(n), pads.end());
  } else if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    const bool upper = automatic == "SAME_UPPER";
    bool known = true;
    for (std::size_t i = 0; i < n; ++i) known = known && x.shape()[static_cast<int>(i) + 2].is_number();
    if (!known) x = padded_by_extents(c, x, w, upper, filler);
    else
      for (std::size_t i = 0; i < n; ++i) {
        const std::int64_t extent = x.shape().at(static_cast<int>(i) + 2),
                           reach = (w.kernel[i] - 1) * w.dilations[i] + 1,
                           count = (extent + w.strides[i] - 1) / w.strides[i],
                           all = std::max<std::int64_t>((count - 1) * w.strides[i] + reach - extent, 0);
        w.before[i] = upper ? all / 2 : all - all / 2;
        w.after[i] = all - w.before[i];
      }
  } else if (automatic != "VALID") c.fail("unknown `auto_pad` `", printable(automatic), "`");
  return w;
}

// Operand i, a bias of `channels`, for results of a rank.
value channel_vector(node_call& c, std::size_t i, dim channels, int rank) {
  const value b = c.bias(i, channels);
  lamina::axes after;
  for (int axis = 1; axis < rank - 1; ++axis) after.values[after.count++] = axis;
  return after.count ? value(lamina::unsqueeze(b, after)) : b;
}
std::vector<std::int64_t> filter_extents(node_call& c, const value& w) {
  std::vector<std::int64_t> kernel;
  for (int i = 2; i < w.shape().rank; ++i) {
    if (!w.shape()[i].is_number()) c.unsupported("the extents of its windows are not known");
    kernel.push_back(w.shape().at(i));
  }
  check_kernel_shape(c, w.shape());
  return kernel;
}

void conv(node_call& c) {
  value x = c.number(0);
  const value w = c.number(1);
  const windows win = read_windows(c, x, filter_extents(c, w), 0);
  value y = lamina::conv(x, w,
                         {.strides = win.strides,
                          .paddings_before = win.before,
                          .paddings_after = win.after,
                          .dilations = win.dilations,
                          .groups = c.integer("group", 1)});
  if (c.has(2)) y = y + channel_vector(c, 2, w.shape()[0], x.shape().rank);
  c.give_like(0, y);
}

// Padding of a transposed convolution, or derived from the given extents of its result.
void read_result_extents(node_call& c, const value& x, windows& w, std::vector<std::int64_t>& more) {
  const auto automatic = c.string("auto_pad", "NOTSET");
  const bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  auto output_shape = c.node_call::integers("output_shape");
  const std::size_t n = w.axes();
  if (output_shape.size() == n + 2) output_shape.erase(output_shape.begin(), output_shape.begin() + 2);
  if ((!output_shape.empty() && output_shape.size() != n) || (output_shape.empty() && !same)) {
    if (!output_shape.empty()) c.fail("`output_shape` has ", output_shape.size(), " numbers; expected ", n);
    return;
  }
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
    std::int64_t all = more[i] + reach - w.strides[i];  // if each result extent is the extent times the stride
    if (!output_shape.empty()) {
      const dim extent = x.shape()[static_cast<int>(i) + 2];
      if (!extent.is_number()) c.unsupported("`output_shape` needs an operand of known extents");
      if (__builtin_mul_overflow(w.strides[i], extent.code - 1, &all) || all > std::int64_t(1) << 61)
        c.fail("its strides and extents ", x.shape(), " are too large");
      all += more[i] + reach - output_shape[i];
    }
    more[i] += std::max<std::int64_t>(-all, 0);
    all = std::max<std::int64_t>(all, 0);
    w.before[i] = automatic == "SAME_UPPER" ? all / 2 : all - all / 2;
    w.after[i] = all - w.before[i];
  }
}
void conv_transpose(node_call& c) {
  value x = c.number(0);
  const value w = c.number(1);
  windows win = read_windows(c, x, filter_extents(c, w), 0, false);
  auto more = c.node_call::integers("output_padding", std::vector<std::int64_t>(win.axes(), 0));
  if (more.size() != win.axes()) c.fail("`output_padding` has ", more.size(), " numbers");
  read_result_extents(c, x, win, more);
  value y = lamina::conv_transpose(x, w,
                                   {.strides = win.strides,
                                    .paddings_before = win.before,
                                    .paddings_after = win.after,
                                    .output_paddings = more,
                                    .dilations = win.dilations,
                                    .groups = c.integer("group", 1)});
  if (c.has(2)) y = y + channel_vector(c, 2, y.shape()[1], x.shape().rank);
  c.give_like(0, y);
}
void deform_conv(node_call& c) {
  value x = c.number(0);
  const value w = c.number(1);
  if (x.shape().rank != 4) c.unsupported("its operand is ", x.shape(), "; expected images [N, C, H, W]");
  const windows win = read_windows(c, x, filter_extents(c, w), 0);
  value y = lamina::deform_conv(x, w, c.number(2), c.has(4) ? c.number(4) : value(),
                                {.strides = win.strides,
                                 .paddings_before = win.before,
                                 .paddings_after = win.after,
                                 .dilations = win.dilations,
                                 .groups = c.integer("group", 1)},
                                c.integer("offset_group", 1));
  if (c.has(3)) y = y + channel_vector(c, 3, w.shape()[0], 4);
  c.give_like(0, y);
}
// Operand i as an int64 list: a constant if known.
value list_operand(node_call& c, std::size_t i) {
  if (const auto known = c.known_integers(i)) return c.constant(*known);
  return c.cast_to(c[i], dtype::int64);
}
void col2im(node_call& c) {
  const value image = list_operand(c, 1);
  if (image.shape().rank != 1 || !image.shape()[0].is_number()) c.unsupported("the number of image axes is not known");
  const std::size_t n = static_cast<std::size_t>(std::min<std::int64_t>(image.shape().at(0), max_rank));
  const auto pads = c.node_call::integers("pads", std::vector<std::int64_t>(2 * n, 0));
  if (pads.size() != 2 * n) c.fail("`pads` has ", pads.size(), " numbers");
  const auto half = pads.begin() + static_cast<std::ptrdiff_t>(n);
  const conv_options o{.strides = c.node_call::integers("strides"),
                       .paddings_before = {pads.begin(), half},
                       .paddings_after = {half, pads.end()},
                       .dilations = c.node_call::integers("dilations")};
  c.give_like(0, lamina::col2im(c.number(0), image, list_operand(c, 2), o));
}

// Minus infinity, or the lowest integer of a type.
double lowest_of(dtype t) {
  return with_type(t, []<class T>() {
    if constexpr (std::is_integral_v<T>) return static_cast<double>(std::numeric_limits<T>::min());
    else return -std::numeric_limits<double>::infinity();
  });
}
// Max pool of 8-bit values in int8; empty for windows that 2-D pooling does not support.
value max_of_bytes(node_call& c) {
  const value x = c[0];
  const int rank = x.shape().rank;
  if (!of_bytes(x.type().element) || c.has_output(1) || (rank != 3 && rank != 4) || c.flag("ceil_mode") ||
      c.string("auto_pad", "NOTSET") != "NOTSET")
    return {};
  window_sizes w = windows_of(c, x.shape(), x.shape());
  if (w.dilation != extent2d(1) || 2 * w.before.h > w.kernel.h || 2 * w.before.w > w.kernel.w ||
      2 * w.after.h > w.kernel.h || 2 * w.after.w > w.kernel.w)
    return {};
  const value images = bordered(as_images(as_int8(c, x)), w, -128);
  const value y = lamina::max_pool2d(images, {.kernel_size = w.kernel, .stride = w.stride, .padding = w.before});
  return from_int8(c, as_given(y, x), x.type().element);
}
void max_pool(node_call& c) {
  if (const value y = max_of_bytes(c); !y.empty()) return c.give(0, y);
  value x = c.number(0);
  const windows w = read_windows(c, x, c.node_call::integers("kernel_shape"), lowest_of(x.type().element));
  pool_options o = w.pool();
  o.ceil_mode = c.flag("ceil_mode");
  if (!c.has_output(1)) return c.give_like(0, lamina::max_pool(x, o));
  if (x.shape() != c.dims(0)) c.unsupported("indices with computed padding are not supported");
  const auto y = lamina::max_pool_with_indices(x, o, c.flag("storage_order"));
  c.give_like(0, y.values);
  c.give(1, y.indices);
}
void average_pool(node_call& c) {
  value x = c.number(0);
  const value whole = x;
  const windows w = read_windows(c, x, c.node_call::integers("kernel_shape"), 0);
  pool_options o = w.pool();
  o.ceil_mode = c.flag("ceil_mode");
  o.count_padding = c.flag("count_include_pad");
  value y = lamina::avg_pool(x, o);
  if (!o.count_padding && !x.same(whole)) {
    // Padding that depends on computed extents was applied to the operand: removes its share of each mean.
    value share = lamina::broadcast_like(c.constant(1.0, whole.type().element), whole);
    read_windows(c, share, w.kernel, 0);
    y = y / lamina::avg_pool(share, o);
  }
  c.give_like(0, y);
}
void lp_pool(node_call& c) {
  value x = c.number(0);
  const windows w = read_windows(c, x, c.node_call::integers("kernel_shape"), 0);
  pool_options o = w.pool();
  o.ceil_mode = c.flag("ceil_mode");
  c.give_like(0, lamina::lp_pool(x, o, static_cast<double>(c.integer("p", 2))));
}
void max_unpool(node_call& c) {
  value x = c.number(0);
  const windows w = read_windows(c, x, c.node_call::integers("kernel_shape"), 0);
  value to;
  if (const auto known = c.known_integers(2)) to = c.constant(*known);
  else if (c.has(2)) to = c.cast_to(c[2], dtype::int64);
  c.give_like(0, lamina::max_unpool(x, c.cast_to(c[1], dtype::int64), w.pool(), to));
}

void global_average_pool(node_call& c) { c.give_like(0, lamina::global_avg_pool(c.number(0))); }
void global_max_pool(node_call& c) { c.give_like(0, lamina::global_max_pool(c.number(0))); }
void global_lp_pool(node_call& c) {
  c.give_like(0, lamina::global_lp_pool(c.number(0), static_cast<double>(c.integer("p", 2))));
}
void lrn(node_call& c) {
  c.give_like(0,
              lamina::lrn(c.number(0), c.integer("size"),
                          {.alpha = c.real("alpha", 1e-4), .beta = c.real("beta", 0.75), .bias = c.real("bias", 1)}));
}

constexpr converter_entry entries[] = {
    {"AveragePool", 1, average_pool},
    {"Col2Im", 18, col2im},
    {"Conv", 1, conv},
    {"ConvTranspose", 1, conv_transpose},
    {"DeformConv", 19, deform_conv},
    {"GlobalAveragePool", 1, global_average_pool},
    {"GlobalLpPool", 2, global_lp_pool},
    {"GlobalMaxPool", 1, global_max_pool},
    {"LRN", 1, lrn},
    {"LpPool", 2, lp_pool},
    {"MaxPool", 1, max_pool},
    {"MaxUnpool", 9, max_unpool},
};

}  // namespace

converter_list image_converters() { return entries; }

}  // namespace lamina::onnx
