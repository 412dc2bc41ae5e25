// Operators on images: convolutions and pools.
module lamina.onnx:image.impl;
import :convert;
import :message;
import lamina;
import lamina.std;

namespace lamina::onnx {

namespace {

// The windows of a convolution or pool over the axes from 2 on.
struct windows {
  std::vector<std::int64_t> kernel, strides, dilations, before, after;
  std::size_t axes() const { return kernel.size(); }
  bool symmetric() const { return before == after; }
};

// Padding that SAME asks for, of an extent that may be computed: as much as makes ceil(extent / stride) windows.
value same_padding(const value& extent, const windows& w, std::size_t i) {
  const std::int64_t reach = (w.kernel[i] - 1) * w.dilations[i] + 1;
  const value count = (extent + (w.strides[i] - 1)) / w.strides[i];
  return lamina::max((count - 1) * w.strides[i] + reach - extent, 0);
}

// x with the padding of SAME, whose sizes follow from extents that a plan knows.
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

// Reads kernel, strides, dilations and padding; x gets the padding that depends on its extents. `filler` is what padding holds.
windows read_windows(node_call& c, value& x, std::vector<std::int64_t> kernel, double filler) {
  windows w;
  w.kernel = std::move(kernel);
  const std::size_t n = w.axes();
  if (x.shape().rank != static_cast<int>(n) + 2)
    c.fail("its windows have ", n, " axes, and the operand is ", x.shape());
  const auto list = [&](std::string_view name, std::int64_t otherwise, std::size_t count) {
    auto v = c.node_call::integers(name, std::vector<std::int64_t>(count, otherwise));
    if (v.size() != count) c.fail("`", name, "` has ", v.size(), " numbers, and ", count, " are expected");
    for (auto i : v)
      if (i < (otherwise == 1 ? 1 : 0) || i > (std::int64_t(1) << 31)) c.fail("`", name, "` holds ", i);
    return v;
  };
  w.strides = list("strides", 1, n);
  w.dilations = list("dilations", 1, n);
  for (auto k : w.kernel)
    if (k < 1 || k > (std::int64_t(1) << 31)) c.fail("a window has the extent ", k);
  w.before.assign(n, 0), w.after.assign(n, 0);
  const auto automatic = c.string("auto_pad", "NOTSET");
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
  } else if (automatic != "VALID") c.fail("`auto_pad` is `", printable(automatic), "`");
  return w;
}

value padded(value x, windows& w, double filler) {
  for (std::size_t i = 0; i < w.axes(); ++i)
    if (w.before[i] || w.after[i])
      x = lamina::pad(
          x, {.axis = static_cast<std::int64_t>(i) + 2, .before = w.before[i], .after = w.after[i], .value = filler});
  w.before.assign(w.axes(), 0), w.after.assign(w.axes(), 0);
  return x;
}

// A sequence as an image of one row.
void as_image(value& x, windows& w) {
  if (w.axes() != 1) return;
  x = lamina::unsqueeze(x, axes(2));
  for (auto* v : {&w.kernel, &w.strides, &w.dilations}) v->insert(v->begin(), 1);
  for (auto* v : {&w.before, &w.after}) v->insert(v->begin(), 0);
}

value channel_vector(const value& b, int rank) {
  lamina::axes after;
  for (int i = 1; i < rank - 1; ++i) after.values[after.count++] = i;
  return after.count ? value(lamina::unsqueeze(b, after)) : b;
}

void conv(node_call& c) {
  value x = c.number(0), w = c.number(1);
  std::vector<std::int64_t> kernel;
  for (int i = 2; i < w.shape().rank; ++i) {
    if (!w.shape()[i].is_number()) c.unsupported("the extents of its windows are computed");
    kernel.push_back(w.shape().at(i));
  }
  windows win = read_windows(c, x, kernel, 0);
  const int rank = x.shape().rank;
  if (win.axes() < 1 || win.axes() > 2) c.unsupported("windows over ", win.axes(), " axes");
  if (!win.symmetric()) x = padded(x, win, 0);
  const bool row = win.axes() == 1;
  as_image(x, win);
  if (row) w = lamina::unsqueeze(w, axes(2));
  value y = lamina::conv2d(x, w,
                           {.stride = {win.strides[0], win.strides[1]},
                            .padding = {win.before[0], win.before[1]},
                            .dilation = {win.dilations[0], win.dilations[1]},
                            .groups = c.integer("group", 1)});
  if (row) y = lamina::squeeze(y, axes(2));
  if (c.has(2)) y = y + channel_vector(c.number(2), rank);
  c.give_like(0, y);
}

void pool(node_call& c, bool largest) {
  value x = c.number(0);
  const double lowest = -std::numeric_limits<double>::infinity();
  windows w = read_windows(c, x, c.node_call::integers("kernel_shape"), largest ? lowest : 0);
  if (w.axes() < 1 || w.axes() > 2) c.unsupported("windows over ", w.axes(), " axes");
  if (c.flag("ceil_mode") || c.wants(1) || w.dilations != std::vector<std::int64_t>(w.axes(), 1))
    c.unsupported("ceil_mode, dilations or positions");
  const bool counts = c.flag("count_include_pad");
  if (!w.symmetric()) {
    if (!largest && !counts) c.unsupported("padding that differs between both ends and does not count");
    x = padded(x, w, largest ? lowest : 0);
  }
  const bool row = w.axes() == 1;
  as_image(x, w);
  const pool2d_attributes a{.kernel_size = {w.kernel[0], w.kernel[1]},
                            .stride = {w.strides[0], w.strides[1]},
                            .padding = {w.before[0], w.before[1]},
                            .count_padding = counts};
  value y = largest ? value(lamina::max_pool2d(x, a)) : value(lamina::avg_pool2d(x, a));
  c.give_like(0, row ? value(lamina::squeeze(y, axes(2))) : y);
}
void max_pool(node_call& c) { pool(c, true); }
void average_pool(node_call& c) { pool(c, false); }

lamina::axes spatial(const value& x) {
  lamina::axes a;
  for (int i = 2; i < x.shape().rank; ++i) a.values[a.count++] = i;
  return a;
}
void global_average_pool(node_call& c) {
  const value x = c.number(0);
  c.give_like(0, lamina::reduce_mean(x, {.axes = spatial(x), .keepdim = true}));
}
void global_max_pool(node_call& c) {
  const value x = c.number(0);
  c.give_like(0, lamina::reduce_max(x, {.axes = spatial(x), .keepdim = true}));
}

constexpr converter_entry entries[] = {
    {"AveragePool", 1, average_pool},      {"Conv", 1, conv},        {"GlobalAveragePool", 1, global_average_pool},
    {"GlobalMaxPool", 1, global_max_pool}, {"MaxPool", 1, max_pool},
};

}  // namespace

converter_list image_converters() { return entries; }

}  // namespace lamina::onnx
