module lamina:op.spatial_grid.impl;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.computed_shape;
import :op.elementwise;
import :op.extents;
import :op.grid;
import :op.linear;
import :op.reduce;
import :op.sample;
import :op.shape;
import :op.spatial;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

using detail::extent_of, detail::extent_value, detail::known_extent, detail::reshaped, detail::times;

[[noreturn]] void refuse(std::string_view function, std::string_view expected, const value& x, const value& y) {
  text t;
  t << std::string_view(origin::prefix()) << function << ": " << expected << "; given " << x.type() << " and "
    << y.type();
  detail::raise(error_kind::shape, t);
}

}  // namespace

value grid_sample(const value& x, const value& grid, grid_options o, const origin&) {
  const int rank = x.shape().rank, axes_count = rank - 2;
  if (axes_count < 1 || axes_count > 3 || grid.shape().rank != rank || !may_equal(grid.shape()[rank - 1], axes_count) ||
      x.type().element != grid.type().element)
    refuse("grid_sample",
           "images or volumes [N, C, ...] and a grid [N, ..., 1 to 3 coordinates] of one floating type are expected", x,
           grid);
  program& p = x.owner();
  std::vector<value> coordinates;
  std::vector<extent_value> extents, to{extent_of(x, 0), extent_of(x, 1)};
  extent_value places = known_extent(1);
  for (int i = 0; i < axes_count; ++i) {
    const extent_value e = extent_of(x, 2 + i);
    const value n = e.in(p, x.type().element);
    const value g = flatten<1>(select(grid, rank - 1, axes_count - 1 - i));
    coordinates.push_back(o.align_corners ? value((g + 1) * 0.5 * (n - 1)) : value(((g + 1) * n - 1) * 0.5));
    extents.push_back(e);
    places = times(p, places, e);
    to.push_back(extent_of(grid, 1 + i));
  }
  const auto [at, weights] = detail::neighbors_of(view<const value>(coordinates), view<const extent_value>(extents), o);
  const value maps = reshaped(x, {extent_of(x, 0), extent_of(x, 1), places});
  return reshaped(resample(maps, at, weights, {.axis = 2, .batch_axes = 1}), to);
}

value affine_grid(const value& theta, const value& size, bool align_corners, const origin&) {
  const int count = size.shape().rank == 1 && size.shape()[0].is_number() ? static_cast<int>(size.shape().at(0)) : 0,
            axes_count = count - 2;
  if (count < 4 || count > 5 || theta.shape().rank != 3 || !may_equal(theta.shape()[1], axes_count))
    refuse("affine_grid", "theta [N, 2, 3] and a size of 4, or [N, 3, 4] and one of 5, are expected", theta, size);
  program& p = theta.owner();
  const value base = apply<op::affine_base>({align_corners, theta.type().element}, size);
  const value rows = permute(matmul(theta, base, {.transpose_b = true}), axes(0, 2, 1));
  const auto known = detail::known_numbers(size);
  std::vector<extent_value> to{extent_of(theta, 0)};
  for (int i = 2; i < count; ++i)
    to.push_back(known ? known_extent(static_cast<std::int64_t>((*known)[static_cast<std::size_t>(i)]))
                       : extent_value{-1, slice(size, {.start = i, .stop = i + 1})});
  to.push_back(known_extent(axes_count));
  (void)p;
  return reshaped(rows, to);
}

namespace {

// Samples of all bins of regions along one axis: for each region, bin and sample two elements with their weights.
struct bin_samples {
  value positions, weights;  // [R, bins, 2 samples]
  value counted;             // bool [R, 1, 2 samples]: whether the region has that sample; empty: all have
  value count;               // [R]: samples of a bin; empty: `fixed`
};
value row_of(const value& v) { return unsqueeze(v, axes(1, 2)); }  // [R] -> [R, 1, 1]

bin_samples samples_along(const value& first, const value& last, const extent_value& extent, const extent_value& stride,
                          std::int64_t bins, const roi_options& o) {
  program& p = first.owner();
  const dtype element = first.type().element;
  value size = last - first;
  if (!o.half_pixel) size = max(size, 1);
  const value bin = size / static_cast<double>(bins);
  bin_samples s;
  value samples, count;  // [S], and the number per bin
  if (o.sampling_ratio > 0) {
    std::vector<std::int64_t> all;
    for (std::int64_t i = 0; i < o.sampling_ratio; ++i) all.push_back(i);
    samples = apply<op::cast>({element}, detail::int_list(p, view<const std::int64_t>(all)));
    count = p.number(static_cast<double>(o.sampling_ratio), element);
  } else {
    s.count = max(stop_gradient(ceil(bin)), 0);
    const value max_count = apply<op::cast>({dtype::int64}, reduce_max(s.count));
    const value number = p.number(std::int64_t(0), dtype::int64), one = p.number(std::int64_t(1), dtype::int64);
    samples = apply<op::cast>({element}, arange(number, max_count, one));
    count = row_of(max(s.count, 1));
    s.counted = samples < row_of(s.count);
  }
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < bins; ++i) numbers.push_back(i);
  const value places =
      unsqueeze(apply<op::cast>({element}, detail::int_list(p, view<const std::int64_t>(numbers))), axes(1));
  const value x = row_of(first) + (places + (samples + 0.5) / count) * row_of(bin);  // [R, bins, S]
  const value n = extent.in(p, element), step = stride.in(p, dtype::int64), end = n - 1;
  value inside = x >= -1 && x <= n;
  if (!s.counted.empty()) inside = inside && s.counted;
  const value held = max(x, 0), low = stop_gradient(min(floor(held), end));
  const value t = where(low >= end, x * 0, held - low);
  const auto position = [&](const value& at) {
    return where(inside, apply<op::cast>({dtype::int64}, at) * step, detail::no_position);
  };
  const value positions[] = {position(low), position(min(low + 1, end))}, weights[] = {1 - t, t};
  s.positions = concat(positions, 2);
  s.weights = concat(weights, 2);
  if (!s.counted.empty()) {
    const value both[] = {s.counted, s.counted};
    s.counted = concat(both, 2);
  }
  return s;
}

}  // namespace

value roi_align(const value& x, const value& rois, const value& images, roi_options o, const origin&) {
  if (x.shape().rank != 4 || rois.shape().rank != 2 || !may_equal(rois.shape()[1], 4) || images.shape().rank != 1 ||
      images.type().element != dtype::int64 || x.type().element != rois.type().element)
    refuse("roi_align",
           "images [N, C, H, W], regions [R, 4] of the same floating type and int64 images [R] are expected", x, rois);
  if (o.height < 1 || o.width < 1 || o.height > 1 << 15 || o.width > 1 << 15 || o.sampling_ratio < 0 ||
      o.sampling_ratio > 1 << 10)
    detail::raise(error_kind::value, origin::prefix() +
                                         "roi_align: height and width must be 1 to 32768, "
                                         "sampling_ratio 0 to 1024");
  program& p = x.owner();
  const extent_value count = extent_of(rois, 0), channels = extent_of(x, 1), high = extent_of(x, 2),
                     wide = extent_of(x, 3), map = times(p, high, wide);
  const auto corner = [&](std::int64_t i) {
    return value(select(rois, 1, i) * o.spatial_scale - (o.half_pixel ? 0.5 : 0.0));
  };
  const bin_samples down = samples_along(corner(1), corner(3), high, wide, o.height, o),
                    across = samples_along(corner(0), corner(2), wide, known_extent(1), o.width, o);
  // [R, height, width, samples down, samples across]
  const auto rows = [](const value& v) { return unsqueeze(v, axes(2, 4)); };
  const auto columns = [](const value& v) { return unsqueeze(v, axes(1, 3)); };
  const value base = unsqueeze(images * map.in(p, dtype::int64), axes(1, 2, 3, 4));
  const value at = rows(down.positions) + columns(across.positions) + base;
  value weights = rows(down.weights) * columns(across.weights);
  const value maps = detail::merged(permute(x, axes(1, 0, 2, 3)), 1, 4);
  const extent_value bins = times(p, count, known_extent(o.height * o.width)),
                     taps = times(p, extent_of(down.positions, 2), extent_of(across.positions, 2));
  const std::vector<extent_value> to{channels, count, known_extent(o.height), known_extent(o.width)};
  if (!o.maximum) {
    if (down.count.empty()) weights = weights / static_cast<double>(o.sampling_ratio * o.sampling_ratio);
    else weights = weights / unsqueeze(max(down.count * across.count, 1), axes(1, 2, 3, 4));
    const value y = resample(maps, reshaped(at, {bins, taps}), reshaped(weights, {bins, taps}), {.axis = 1});
    return permute(reshaped(y, to), axes(1, 0, 2, 3));
  }
  const extent_value points = times(p, bins, taps), one = known_extent(1);
  value y = resample(maps, reshaped(at, {points, one}), reshaped(weights, {points, one}), {.axis = 1});
  std::vector<extent_value> apart = to;
  apart.push_back(taps);
  y = reshaped(y, apart);
  if (!down.count.empty()) {
    const value counted = rows(down.counted) && columns(across.counted);  // [R, 1, 1, down, across]
    const value any = reshaped(counted, {count, one, one, taps});
    y = where(any, y, std::numeric_limits<double>::lowest());
  }
  y = reduce_max(y, {.axes = axes(4)});
  if (!down.count.empty()) y = where(unsqueeze(down.count * across.count, axes(1, 2)) > 0, y, 0);
  return permute(y, axes(1, 0, 2, 3));
}

namespace {

// Elements of all bins of regions along one axis: positions and validity, [R, bins, max count].
struct bin_elements {
  value positions, counted;
};
bin_elements elements_along(const value& first, const value& last, const extent_value& extent,
                            const extent_value& stride, std::int64_t bins, double scale) {
  program& p = first.owner();
  const dtype element = first.type().element;
  const auto whole = [&](const value& v) { return value(floor(stop_gradient(v) * scale + 0.5)); };
  const value begin = whole(first), size = max(whole(last) - begin + 1, 1), n = extent.in(p, element);
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < bins; ++i) numbers.push_back(i);
  const value places = apply<op::cast>({element}, detail::int_list(p, view<const std::int64_t>(numbers)));  // [bins]
  const value bin = unsqueeze(size, axes(1)) / static_cast<double>(bins), start = unsqueeze(begin, axes(1));
  const auto held = [&](const value& v) { return value(clamp(v + start, n * 0, n)); };
  const value low = held(floor(places * bin)), count = max(held(ceil((places + 1) * bin)) - low, 0);  // [R, bins]
  const value none = p.number(std::int64_t(0), dtype::int64), one = p.number(std::int64_t(1), dtype::int64);
  const value max_count = apply<op::cast>({dtype::int64}, reduce_max(count));
  const value next = apply<op::cast>({element}, arange(none, max_count, one));
  const value counted = next < unsqueeze(count, axes(2));
  const value at = apply<op::cast>({dtype::int64}, unsqueeze(low, axes(2)) + next) * stride.in(p, dtype::int64);
  return {where(counted, at, detail::no_position), counted};
}

}  // namespace

value max_roi_pool(const value& x, const value& rois, std::int64_t height, std::int64_t width, double spatial_scale,
                   const origin&) {
  if (x.shape().rank != 4 || rois.shape().rank != 2 || !may_equal(rois.shape()[1], 5) ||
      x.type().element != rois.type().element)
    refuse("max_roi_pool", "images [N, C, H, W] and regions [R, 5] of one floating type are expected", x, rois);
  if (height < 1 || width < 1 || height > 1 << 15 || width > 1 << 15)
    detail::raise(error_kind::value, origin::prefix() + "max_roi_pool: height and width must be 1 to 32768");
  program& p = x.owner();
  const extent_value count = extent_of(rois, 0), high = extent_of(x, 2), wide = extent_of(x, 3),
                     map = times(p, high, wide), one = known_extent(1);
  const auto corner = [&](std::int64_t i) { return value(select(rois, 1, i)); };
  const bin_elements down = elements_along(corner(2), corner(4), high, wide, height, spatial_scale),
                     across = elements_along(corner(1), corner(3), wide, one, width, spatial_scale);
  // [R, height, width, elements down, elements across]
  const auto rows = [](const value& v) { return unsqueeze(v, axes(2, 4)); };
  const auto columns = [](const value& v) { return unsqueeze(v, axes(1, 3)); };
  const value image = apply<op::cast>({dtype::int64}, corner(0)) * map.in(p, dtype::int64);
  const value at = rows(down.positions) + columns(across.positions) + unsqueeze(image, axes(1, 2, 3, 4));
  const extent_value bins = times(p, count, known_extent(height * width)),
                     taps = times(p, extent_of(down.positions, 2), extent_of(across.positions, 2));
  const value table = reshaped(at, {times(p, bins, taps), one});
  const value maps = detail::merged(permute(x, axes(1, 0, 2, 3)), 1, 4);
  const value y = reshaped(resample(maps, table, broadcast_like(p.number(1.0, x.type().element), table), {.axis = 1}),
                           {extent_of(x, 1), count, known_extent(height), known_extent(width), taps});
  const value counted =
      reshaped(rows(down.counted) && columns(across.counted), {count, known_extent(height), known_extent(width), taps});
  const value largest = reduce_max(where(counted, y, std::numeric_limits<double>::lowest()), {.axes = axes(4)});
  const value any = reduce_any(counted, {.axes = axes(3)});
  return permute(where(any, largest, 0), axes(1, 0, 2, 3));
}

}  // namespace lamina
