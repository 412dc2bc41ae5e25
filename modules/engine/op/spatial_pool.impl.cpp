module lamina:op.spatial_pool.impl;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.computed_shape;
import :op.elementwise;
import :op.extents;
import :op.index;
import :op.nn;
import :op.reduce;
import :op.sample;
import :op.shape;
import :op.spatial;
import :op.tile;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

using detail::extent_of, detail::extent_value, detail::known_extent, detail::per_axis, detail::spatial_axes,
    detail::times;

constexpr int max_axes = max_rank - 2;

// The window along each spatial axis.
std::vector<window_attributes> windows_for(const value& x, const pool_options& o, std::string_view function) {
  const int axes_count = spatial_axes(x, max_axes, function);
  if (o.kernel.empty())
    detail::raise(error_kind::value, origin::prefix() + std::string(function) +
                                         ": kernel is empty; expected the "
                                         "extents of the windows");
  const auto kernel = per_axis(o.kernel, axes_count, 1, function, "kernel"),
             strides = per_axis(o.strides, axes_count, 1, function, "strides"),
             before = per_axis(o.paddings_before, axes_count, 0, function, "paddings_before"),
             after = per_axis(o.paddings_after, axes_count, 0, function, "paddings_after"),
             dilations = per_axis(o.dilations, axes_count, 1, function, "dilations");
  std::vector<window_attributes> all;
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    window_attributes a{.kernel = kernel[i], .stride = strides[i], .dilation = dilations[i]};
    a.before = before[i];
    a.after = after[i];
    a.ceil = o.ceil_mode;
    a.count_padding = o.count_padding;
    all.push_back(a);
  }
  return all;
}
std::vector<window_attributes> parts_for(const value& x, const std::vector<std::int64_t>& sizes,
                                         std::string_view function) {
  const auto parts = per_axis(sizes, spatial_axes(x, max_axes, function), 1, function, "sizes");
  std::vector<window_attributes> all;
  for (std::int64_t n : parts) {
    if (n < 1) detail::raise(error_kind::value, origin::prefix() + std::string(function) + ": sizes must be positive");
    all.push_back({.parts = n});
  }
  return all;
}
bool trivial(const window_attributes& a) {
  return !a.parts && a.kernel == 1 && a.stride == 1 && a.before == 0 && a.after == 0;
}

// Attributes of an image pooling operation if it can compute the windows of axes from `first` on: one or two, no dilation.
std::optional<pool2d_attributes> as_image(const value& x, int first, view<const window_attributes> windows,
                                          bool means) {
  const int axes_count = static_cast<int>(windows.size());
  const dtype t = x.type().element;
  if (axes_count > 2 || (t != dtype::float32 && t != dtype::float64)) return {};
  std::int64_t kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, more[2] = {0, 0};
  for (int i = 0; i < axes_count; ++i) {
    const window_attributes& a = windows[static_cast<std::size_t>(i)];
    const std::size_t k = static_cast<std::size_t>(i + 2 - axes_count);
    const dim extent = x.shape()[first + i];
    if (a.parts || a.dilation != 1) return {};
    std::int64_t missing = a.after - a.before;
    if (a.ceil) {
      text why;
      if (!extent.is_number()) return {};
      const std::int64_t n = detail::windows_of(a, extent.code, why);
      if (n < 0) return {};
      missing = (n - 1) * a.stride + a.kernel - extent.code - 2 * a.before;
      if (missing < 0 && missing > -a.stride) missing = 0;  // positions beyond the last window
    }
    kernel[k] = a.kernel, stride[k] = a.stride, padding[k] = a.before, more[k] = missing;
    // Positions that `ceil` adds for the last window are no padding, and are not counted.
    const bool counted = !means || !a.count_padding || missing == a.after - a.before;
    const bool fits = a.before >= 0 && a.before <= a.kernel / 2 && a.before + missing >= 0 &&
                      a.before + missing < a.kernel + a.stride;
    if (!counted || !fits) return {};
  }
  return pool2d_attributes{.kernel_size = {kernel[0], kernel[1]},
                           .stride = {stride[0], stride[1]},
                           .padding = {padding[0], padding[1]},
                           .count_padding = windows[0].count_padding,
                           .padding_more = {more[0], more[1]}};
}
// Calls f with x as images [N, C, H, W], and restores the rank.
template <class F> value on_images(const value& x, F f) {
  if (x.shape().rank == 4) return f(x);
  return squeeze(f(value(unsqueeze(x, axes(2)))), axes(2));
}

// Pools volumes as images of their frames, and then the results as rows of one image; empty if images cannot compute it.
template <class Pool>
value pooled_frames(const value& x, const std::vector<window_attributes>& windows, bool means, Pool pool) {
  if (windows.size() != 3) return {};
  const auto image = as_image(x, 3, {windows.data() + 1, 2}, means), depth = as_image(x, 2, {windows.data(), 1}, means);
  if (!image || !depth) return {};
  const auto turned = [](extent2d e) { return extent2d{e.w, e.h}; };
  const pool2d_attributes along{.kernel_size = turned(depth->kernel_size),
                                .stride = turned(depth->step()),
                                .padding = turned(depth->padding),
                                .count_padding = depth->count_padding,
                                .padding_more = turned(depth->padding_more)};
  const extent_value count = extent_of(x, 0);
  const value maps = pool(detail::merged(detail::frames_first(x), 0, 2), *image),
              frames = detail::split_frames(maps, count, extent_of(x, 2)),
              rows = pool(value(unsqueeze(detail::merged(frames, 2, 5), axes(1))), along);
  return detail::frames_first(
      detail::reshaped(rows, {count, extent_of(rows, 2), extent_of(maps, 1), extent_of(maps, 2), extent_of(maps, 3)}));
}

value extent_list(const value& x, int axis) { return extent_of(x, axis).in(x.owner()); }
value mean_along(const value& x, int axis, window_attributes a) {
  if (trivial(a)) return x;
  a.element = x.type().element;
  const value extent = extent_list(x, axis);
  return resample(x, apply<op::window_positions>(a, extent), apply<op::window_weights>(a, extent), {.axis = axis});
}
value means(value x, const std::vector<window_attributes>& windows) {
  for (std::size_t i = windows.size(); i-- > 0;) x = mean_along(x, 2 + static_cast<int>(i), windows[i]);
  return x;
}
// Maxima along one axis after the other, and their positions along each axis.
struct maxima {
  value values;
  std::vector<value> positions;
};
maxima maxima_of(const value& x, const std::vector<window_attributes>& windows) {
  maxima m{x, std::vector<value>(windows.size())};
  for (std::size_t i = windows.size(); i-- > 0;) {
    const int axis = 2 + static_cast<int>(i);
    window_attributes a = windows[i];
    a.filled = true;
    const auto found =
        apply<op::max_windows>({axis}, m.values, apply<op::window_positions>(a, extent_list(m.values, axis)));
    m.values = found[0];
    for (std::size_t k = i + 1; k < windows.size(); ++k)
      m.positions[k] = take_along_axis(m.positions[k], found[1], axis);
    m.positions[i] = found[1];
  }
  return m;
}
value power(const value& x, double p) {
  if (p == 1) return abs(x);
  return p == 2 ? value(square(x)) : value(pow(abs(x), p));
}
value root(const value& x, double p) {
  if (p == 1) return x;
  return p == 2 ? value(sqrt(x)) : value(pow(x, 1 / p));
}
void check_power(double p, std::string_view function) {
  if (p > 0 && std::isfinite(p)) return;
  text t;
  t << std::string_view(origin::prefix()) << function << ": p is " << p << "; expected a positive number";
  detail::raise(error_kind::value, t);
}
reduce_attributes maps_of(const value& x, std::string_view function) {
  reduce_attributes a{.keepdim = true};
  const int axes_count = spatial_axes(x, max_axes, function);
  for (int i = 0; i < axes_count; ++i) a.axes.values[a.axes.count++] = 2 + i;
  return a;
}

}  // namespace

value max_pool(const value& x, const pool_options& o, const origin&) {
  const auto windows = windows_for(x, o, "max_pool");
  if (const auto p = as_image(x, 2, windows, false))
    return on_images(x, [&](const value& y) { return value(max_pool2d(y, *p)); });
  const value y = pooled_frames(
      x, windows, false, [](const value& images, const pool2d_attributes& a) { return value(max_pool2d(images, a)); });
  return y.empty() ? maxima_of(x, windows).values : y;
}

pooled max_pool_with_indices(const value& x, const pool_options& o, bool column_major, const origin&) {
  const maxima m = maxima_of(x, windows_for(x, o, "max_pool_with_indices"));
  program& p = x.owner();
  const int axes_count = static_cast<int>(m.positions.size());
  extent_value step = known_extent(1);
  value at;
  for (int i = 0; i < axes_count; ++i) {
    const int axis = column_major ? i : axes_count - 1 - i;
    const value& along = m.positions[static_cast<std::size_t>(axis)];
    const value part = step.number == 1 ? along : value(along * step.in(p, dtype::int64));
    at = at.empty() ? part : value(at + part);
    step = times(p, step, extent_of(x, 2 + axis));
  }
  value maps = reshape(positions(x, 0), shape{dyn, 1}) * extent_of(x, 1).in(p, dtype::int64) + positions(x, 1);
  for (int i = 0; i < axes_count; ++i) maps = unsqueeze(maps, axes(-1));
  return {m.values, at + maps * step.in(p, dtype::int64)};
}

value avg_pool(const value& x, const pool_options& o, const origin&) {
  const auto windows = windows_for(x, o, "avg_pool");
  if (const auto p = as_image(x, 2, windows, true))
    return on_images(x, [&](const value& y) { return value(avg_pool2d(y, *p)); });
  const value y = pooled_frames(
      x, windows, true, [](const value& images, const pool2d_attributes& a) { return value(avg_pool2d(images, a)); });
  return y.empty() ? means(x, windows) : y;
}

value lp_pool(const value& x, const pool_options& o, double p, const origin&) {
  check_power(p, "lp_pool");
  auto windows = windows_for(x, o, "lp_pool");
  for (auto& a : windows) a.sum = a.count_padding = true;
  const value y = power(x, p);
  const auto image = as_image(y, 2, windows, true);
  if (!image) return root(means(y, windows), p);
  const extent2d k = image->kernel_size;
  return root(on_images(y,
                        [&](const value& z) {
                          return value(avg_pool2d(z, *image) * (static_cast<double>(k.h) * static_cast<double>(k.w)));
                        }),
              p);
}

value global_max_pool(const value& x, const origin&) { return reduce_max(x, maps_of(x, "global_max_pool")); }
value global_avg_pool(const value& x, const origin&) { return reduce_mean(x, maps_of(x, "global_avg_pool")); }
value global_lp_pool(const value& x, double p, const origin&) {
  check_power(p, "global_lp_pool");
  return root(reduce_sum(power(x, p), maps_of(x, "global_lp_pool")), p);
}

value adaptive_avg_pool(const value& x, const std::vector<std::int64_t>& sizes, const origin&) {
  const auto windows = parts_for(x, sizes, "adaptive_avg_pool");
  bool whole = true;
  for (const auto& a : windows) whole = whole && a.parts == 1;
  return whole ? reduce_mean(x, maps_of(x, "adaptive_avg_pool")) : means(x, windows);
}
value adaptive_max_pool(const value& x, const std::vector<std::int64_t>& sizes, const origin&) {
  return maxima_of(x, parts_for(x, sizes, "adaptive_max_pool")).values;
}

value max_unpool(const value& x, const value& indices, const pool_options& o, const value& to, const origin&) {
  const auto windows = windows_for(x, o, "max_unpool");
  program& p = x.owner();
  std::vector<extent_value> extents{extent_of(x, 0), extent_of(x, 1)};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const auto& a = windows[i];
    const extent_value n = extent_of(x, 2 + static_cast<int>(i));
    const std::int64_t more = a.kernel - a.stride - a.before - a.after;
    if (n.known()) extents.push_back(known_extent(std::max<std::int64_t>(n.number * a.stride + more, 0)));
    else extents.push_back({-1, n.computed * a.stride + more});
  }
  extent_value all = known_extent(1);
  for (const auto& e : extents) all = times(p, all, e);
  const dtype element = x.type().element;
  const value zeros = full(all.in(p), p.number(0.0, element));
  const value elements = reshape(x, shape{dyn}), at = reshape(indices, shape{dyn});
  const value counts = full(shape_of(elements), p.number(1.0, element));
  const value sum = apply<op::scatter_elements>({0}, elements, at, zeros),
              each = max(apply<op::scatter_elements>({0}, counts, at, zeros), 1);
  const value y = detail::reshaped(sum / each, extents);
  if (to.empty()) return y;
  std::vector<extent_value> none(extents.size(), known_extent(0));
  const value parts[] = {detail::list_of(p, view<const extent_value>(none)),
                         to - detail::list_of(p, view<const extent_value>(extents))};
  axes every;
  for (int i = 0; i < x.shape().rank; ++i) every.values[every.count++] = i;
  return pad_by(y, concat(parts, 0), {.axes = every});
}

value lrn(const value& x, std::int64_t size, lrn_options o, const origin&) {
  if (size < 1 || x.shape().rank < 2) {
    text t;
    t << std::string_view(origin::prefix()) << "lrn: size " << size << " of " << x.shape()
      << "; expected a positive size and [N, C, ...]";
    detail::raise(error_kind::value, t);
  }
  window_attributes a{.kernel = size};
  a.before = (size - 1) / 2;
  a.after = size - 1 - a.before;
  a.sum = true;
  const value around = mean_along(square(x), 1, a);
  return x / pow(around * (o.alpha / static_cast<double>(size)) + o.bias, o.beta);
}

value mean_variance_normalization(const value& x, axes over, const origin&) {
  const value centered = x - reduce_mean(x, {.axes = over, .keepdim = true});
  return centered / (sqrt(reduce_mean(square(centered), {.axes = over, .keepdim = true})) + 1e-9);
}

}  // namespace lamina
