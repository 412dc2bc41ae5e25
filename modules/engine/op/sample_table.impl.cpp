// Tables of sampling positions and weights, computed once extents are known.
module lamina:op.sample_table.impl;
import :core;
import :dtype;
import :op;
import :op.sample;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

constexpr std::int64_t max_extent = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t max_table = std::int64_t(1) << 26;  // entries

view<const std::int64_t> numbers(const any_tensor& t) { return t.elements<std::int64_t>(); }
std::vector<double> reals(const any_tensor& t) {
  std::vector<double> all;
  with_type(t.type().element, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>)
      for (T v : t.elements<T>()) all.push_back(static_cast<double>(v));
  });
  return all;
}
const any_tensor& constant_of(const value& v) { return v.owner().at(v.id()).constant; }

// Length of an int64 list that decides a shape; -1, with a reason, if it is none.
int list_length(const tensor_type& t, std::string_view what, int max, inference& out) {
  if (t.element != dtype::int64) {
    out.refuse(t.element, "int64 extents and positions", "std::int64_t");
    return -1;
  }
  if (t.dims.rank != 1 || !t.dims[0].is_number() || t.dims.at(0) > max) {
    out.why << what << " must be a vector of known length, at most " << max;
    return -1;
  }
  return static_cast<int>(t.dims.at(0));
}
bool list_of(const tensor_type& t, std::string_view what, int count, inference& out) {
  const int n = list_length(t, what, count, out);
  if (n >= 0 && n != count) out.why << count << " " << what << " are expected, not " << n;
  return n == count;
}
bool is_real_type(dtype t) { return t == dtype::float32 || t == dtype::float64; }
bool real_weights(dtype t, inference& out) {
  if (is_real_type(t)) return true;
  out.refuse(t, "weights of float32 or float64", "float");
  return false;
}
bool table_fits(std::int64_t points, std::int64_t taps, text& why) {
  std::int64_t n = 0;
  if (!__builtin_mul_overflow(points, taps, &n) && n <= max_table) return true;
  why << "a table of " << points << " x " << taps << " positions is too large; the limit is " << max_table;
  return false;
}
// A constant from numbers of its element type or from doubles.
template <class T> value table(const value& like, dtype element, const shape& s, const std::vector<T>& all) {
  any_tensor t(tensor_type{element, s});
  if constexpr (std::same_as<T, std::int64_t>)
    std::copy(all.begin(), all.end(), reinterpret_cast<T*>(t.mutable_data()));
  else
    with_type(element, [&]<class E>() {
      if constexpr (std::floating_point<E>)
        std::transform(all.begin(), all.end(), reinterpret_cast<E*>(t.mutable_data()),
                       [](double v) { return static_cast<E>(v); });
    });
  return like.owner().constant(std::move(t));
}

// ---- windows --------------------------------------------------------------------------------------------------------

// Number of taps of each window.
std::int64_t taps_of(const window_attributes& a, std::int64_t extent) {
  if (!a.parts) return a.kernel;
  // Adaptive windows begin and end at fractions of elements: one within two elements reads both.
  const std::int64_t rest = extent % a.parts;
  return extent / a.parts + (rest == 0 ? 0 : rest > std::gcd(rest, a.parts) ? 2 : 1);
}
// First position and end of a window's taps.
struct window_place {
  std::int64_t first, end, step;
};
window_place place_of(const window_attributes& a, std::int64_t extent, std::int64_t i) {
  if (a.parts) return {i * extent / a.parts, ((i + 1) * extent + a.parts - 1) / a.parts, 1};
  const std::int64_t first = i * a.stride - a.before;
  return {first, first + (a.kernel - 1) * a.dilation + 1, a.dilation};
}
bool window_numbers_fit(const window_attributes& a, text& why) {
  for (std::int64_t n : {a.kernel, a.stride, a.dilation})
    if (n < 1 || n > max_extent) {
      why << "kernel, stride and dilation must be 1 to " << max_extent << "; one is " << n;
      return false;
    }
  for (std::int64_t n : {a.before, a.after, a.parts})
    if (n < 0 || n > max_extent) {
      why << "padding and number of parts must be 0 to " << max_extent << "; one is " << n;
      return false;
    }
  return true;
}

}  // namespace

std::int64_t detail::windows_of(const window_attributes& a, std::int64_t extent, text& why) {
  if (!window_numbers_fit(a, why)) return -1;
  if (extent < 1 || extent > max_extent) {
    why << "an axis of " << extent << " has no windows";
    return -1;
  }
  if (a.parts) return a.parts;
  const std::int64_t last_start = extent + a.before + a.after - a.dilation * (a.kernel - 1) - 1;
  if (last_start < 0 && !(a.ceil && last_start > -a.stride)) {
    why << "the window of " << a.kernel << " is larger than the padded axis of " << extent + a.before + a.after;
    return -1;
  }
  if (!a.ceil) return last_start / a.stride + 1;
  std::int64_t n = last_start < 0 ? 1 : (last_start + a.stride - 1) / a.stride + 1;
  // The last window begins on the axis or in the padding before it.
  if ((n - 1) * a.stride >= extent + a.before) --n;
  if (n < 1) why << "no window begins on the axis";
  return n < 1 ? -1 : n;
}

namespace {

// Shape of a table of windows if the extent is known; false, with a reason, if there is none.
bool window_table(const window_attributes& a, view<const tensor_type> in, inference& out, shape& s) {
  if (!list_of(in[0], "extents", 1, out)) return false;
  s = {dyn, dyn};
  const any_tensor* known = out.elements_of(0);
  if (!known) return window_numbers_fit(a, out.why);
  const std::int64_t extent = numbers(*known)[0], n = detail::windows_of(a, extent, out.why);
  if (n < 0) return false;
  if (n > max_table || !table_fits(n, taps_of(a, extent), out.why)) {
    if (out.why.empty()) out.why << n << " windows are too many; the limit is " << max_table;
    return false;
  }
  if (a.filled)
    for (std::int64_t i = 0; i < n; ++i) {
      const window_place w = place_of(a, extent, i);
      const std::int64_t skipped = w.first < 0 ? (-w.first + w.step - 1) / w.step * w.step : 0;
      if (w.first + skipped < std::min(w.end, extent)) continue;
      out.why << "window " << i << " of the axis of " << extent << " covers only padding";
      return false;
    }
  s = {dim(n), dim(taps_of(a, extent))};
  return true;
}

}  // namespace

void op::window_positions::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (shape s; window_table(a, in, out, s)) out.result(dtype::int64, s);
}
value op::window_positions::bind(const attributes& a, view<const value> in) {
  const std::int64_t extent = numbers(constant_of(in[0]))[0], taps = taps_of(a, extent);
  text unused;
  const std::int64_t n = detail::windows_of(a, extent, unused);
  std::vector<std::int64_t> all;
  all.reserve(static_cast<std::size_t>(n * taps));
  for (std::int64_t i = 0; i < n; ++i) {
    const window_place w = place_of(a, extent, i);
    for (std::int64_t k = 0; k < taps; ++k) {
      const std::int64_t at = w.first + k * w.step;
      all.push_back(at >= 0 && at < std::min(w.end, extent) ? at : -1);
    }
  }
  return table(in[0], dtype::int64, {dim(n), dim(taps)}, all);
}
void op::window_weights::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (shape s; real_weights(a.element, out) && window_table(a, in, out, s)) out.result(a.element, s);
}
value op::window_weights::bind(const attributes& a, view<const value> in) {
  const std::int64_t extent = numbers(constant_of(in[0]))[0], taps = taps_of(a, extent);
  text unused;
  const std::int64_t n = detail::windows_of(a, extent, unused);
  std::vector<double> all;
  all.reserve(static_cast<std::size_t>(n * taps));
  for (std::int64_t i = 0; i < n; ++i) {
    const window_place w = place_of(a, extent, i);
    const auto counted = [&](std::int64_t low, std::int64_t high) {
      std::int64_t c = 0;
      for (std::int64_t k = 0; k < taps; ++k)
        if (const std::int64_t at = w.first + k * w.step; at >= low && at < std::min(w.end, high)) ++c;
      return c;
    };
    const std::int64_t divisor = a.sum             ? 1
                                 : a.count_padding ? counted(-a.before, extent + a.after)
                                                   : counted(0, extent);
    for (std::int64_t k = 0; k < taps; ++k) {
      const std::int64_t at = w.first + k * w.step;
      all.push_back(at >= 0 && at < std::min(w.end, extent) ? 1.0 / static_cast<double>(divisor) : 0.0);
    }
  }
  return table(in[0], a.element, {dim(n), dim(taps)}, all);
}

// ---- resized axes ---------------------------------------------------------------------------------------------------

namespace {

// Number of elements that weigh at a position: antialiasing of a smaller axis needs more than interpolation.
std::int64_t taps_of(const resize_attributes& a, double scale) {
  if (a.mode == resize_mode::nearest) return 1;
  const std::int64_t reach = a.mode == resize_mode::linear ? 1 : 2;
  if (!a.antialias || scale >= 1) return 2 * reach;
  return 2 - 2 * (static_cast<std::int64_t>(std::floor(-static_cast<double>(reach) / scale)) + 1);
}
double position_of(const resize_attributes& a, const detail::resized_axis& r, std::int64_t i) {
  const double y = static_cast<double>(i), n = static_cast<double>(r.extent), width = r.scale * n;
  switch (a.coordinates) {
    case resize_coordinates::align_corners: return r.size == 1 ? 0 : y * (n - 1) / (width - 1);
    case resize_coordinates::asymmetric: return y / r.scale;
    case resize_coordinates::tf_half_pixel_for_nn: return (y + 0.5) / r.scale;
    case resize_coordinates::pytorch_half_pixel: return r.size == 1 ? 0 : (y + 0.5) / r.scale - 0.5;
    case resize_coordinates::half_pixel_symmetric:
      return (n - static_cast<double>(r.size) / r.scale) / 2 + (y + 0.5) / r.scale - 0.5;
    case resize_coordinates::tf_crop_and_resize: {
      const double wide = r.roi_end - r.roi_start;
      return (r.size == 1 ? wide * (n - 1) / 2 : y * wide * (n - 1) / (width - 1)) + r.roi_start * (n - 1);
    }
    default: return (y + 0.5) / r.scale - 0.5;
  }
}
double cubic(double x, double a) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
// The first element at a position of the resized axis, and the weights from there on.
struct weighted {
  std::int64_t first;
  std::vector<double> weights;
};
weighted weights_at(const resize_attributes& a, const detail::resized_axis& r, double x) {
  const double low = std::floor(x), ratio = x == low ? 1 : x - low;
  const std::int64_t left = static_cast<std::int64_t>(low) - (x == low ? 1 : 0);
  weighted w{left + 1 - r.taps / 2, {}};
  const double scale = a.antialias ? std::min(r.scale, 1.0) : 1.0;
  double sum = 0;
  for (std::int64_t k = 0; k < r.taps; ++k) {
    const std::int64_t from_middle = k + 1 - r.taps / 2;
    const double away = (static_cast<double>(from_middle) - ratio) * scale;
    double v = a.mode == resize_mode::cubic ? cubic(away, a.cubic_a) : std::max(0.0, 1 - std::abs(away));
    if (a.exclude_outside && (w.first + k < 0 || w.first + k >= r.extent)) v = 0;
    w.weights.push_back(v);
    sum += v;
  }
  if ((a.antialias || a.exclude_outside) && sum != 0)
    for (double& v : w.weights) v /= sum;
  return w;
}
// Clamps positions that are far outside.
double bounded(double x, std::int64_t extent) {
  const double far = 4 * (static_cast<double>(extent) + 4);
  return x == x ? std::clamp(x, -far, far) : 0;
}

}  // namespace

detail::resized_axis detail::resize_of(const resize_attributes& a, view<const std::int64_t> extents,
                                       const any_tensor& target, const any_tensor* roi, text& why) {
  resized_axis r;
  const auto which = static_cast<std::size_t>(a.which);
  std::vector<double> scales = reals(target);
  if (roi) {
    const auto ends = reals(*roi);
    r.roi_start = ends[which];
    r.roi_end = ends[which + extents.size()];
    if (!(std::abs(r.roi_start) <= 1e9) || !(std::abs(r.roi_end) <= 1e9)) {
      why << "the region from " << r.roi_start << " to " << r.roi_end << " is not between -1e9 and 1e9";
      return r;
    }
  }
  const bool sizes = target.type().element == dtype::int64;
  for (std::size_t i = 0; i < scales.size(); ++i) {
    if (!(scales[i] >= 0) || scales[i] > static_cast<double>(max_extent) || (!sizes && scales[i] == 0)) {
      why << (sizes ? "a size is " : "a scale is ") << scales[i] << "; expected "
          << (sizes ? "0 to " : "above 0, up to ") << max_extent;
      return r;
    }
    if (sizes && extents[i] > 0) scales[i] /= static_cast<double>(extents[i]);
  }
  r.extent = extents[which];
  r.scale = scales[which];
  if (sizes && a.policy == aspect_ratio::not_larger) r.scale = *std::min_element(scales.begin(), scales.end());
  if (sizes && a.policy == aspect_ratio::not_smaller) r.scale = *std::max_element(scales.begin(), scales.end());
  const double wide = r.scale * static_cast<double>(r.extent);
  const double size = !sizes                              ? std::floor(wide)
                      : a.policy == aspect_ratio::stretch ? static_cast<double>(numbers(target)[which])
                                                          : std::floor(wide + 0.5);
  if (size > static_cast<double>(max_extent)) {
    why << "a size of " << size << " is larger than " << max_extent;
    return r;
  }
  r.size = static_cast<std::int64_t>(size);
  if (r.extent < 1 && r.size > 0) why << "an axis without elements cannot be resized to " << r.size;
  else if (r.size > 0 && r.scale < 1e-6) why << "a scale of " << r.scale << " is too small";
  else if (r.size > 0) r.taps = taps_of(a, r.scale);
  return r;
}
std::vector<std::int64_t> detail::nearest_positions(const resize_attributes& a, const resized_axis& r) {
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < r.size; ++i) {
    const double x = bounded(position_of(a, r, i), r.extent);
    const double at = a.rounding == nearest_rounding::floor         ? std::floor(x)
                      : a.rounding == nearest_rounding::ceil        ? std::ceil(x)
                      : a.rounding == nearest_rounding::prefer_ceil ? std::floor(x + 0.5)
                                                                    : std::ceil(x - 0.5);
    all.push_back(std::clamp<std::int64_t>(static_cast<std::int64_t>(at), 0, r.extent - 1));
  }
  return all;
}

namespace {

// Finds the resized axis, as far as both operands are known; false, with a reason, if they do not fit.
bool resize_known(const resize_attributes& a, view<const tensor_type> in, inference& out,
                  std::optional<detail::resized_axis>& r) {
  if (a.mode > resize_mode::cubic || a.coordinates > resize_coordinates::tf_crop_and_resize ||
      a.rounding > nearest_rounding::ceil || a.policy > aspect_ratio::not_smaller) {
    out.why << "unknown mode";
    return false;
  }
  if (!(std::abs(a.cubic_a) <= 1e9)) {
    out.why << "cubic_a is " << a.cubic_a << "; expected -1e9 to 1e9";
    return false;
  }
  const bool crops = a.coordinates == resize_coordinates::tf_crop_and_resize;
  if (in.size() != (crops ? 3u : 2u)) {
    out.why << "takes extents, sizes or scales, and for tf_crop_and_resize a region";
    return false;
  }
  const int axes = list_length(in[0], "extents", max_rank, out);
  if (axes < 0) return false;
  const dtype t = in[1].element;
  if (t != dtype::int64 && !is_real_type(t)) {
    out.refuse(t, "sizes of int64 or scales of float32 or float64", "float");
    return false;
  }
  if (in[1].dims.rank != 1 || !may_equal(in[1].dims[0], axes) || a.which < 0 || a.which >= axes) {
    out.why << "a size or scale for each of the " << axes << " axes is expected, and `which` among them";
    return false;
  }
  if (crops && (!is_real_type(in[2].element) || in[2].dims.rank != 1 || !may_equal(in[2].dims[0], 2 * axes))) {
    out.why << "a start and an end of float32 or float64 for each of the " << axes << " axes are expected";
    return false;
  }
  const any_tensor *extents = out.elements_of(0), *target = out.elements_of(1), *roi = out.elements_of(2);
  if (!extents || !target || (crops && !roi)) return true;
  r = detail::resize_of(a, numbers(*extents), *target, roi, out.why);
  return out.why.empty() && table_fits(r->size, r->taps, out.why);
}
detail::resized_axis resize_bound(const resize_attributes& a, view<const value> in) {
  text unused;
  const any_tensor* roi = in.size() > 2 ? &constant_of(in[2]) : nullptr;
  return detail::resize_of(a, numbers(constant_of(in[0])), constant_of(in[1]), roi, unused);
}

}  // namespace

void op::resize_positions::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  std::optional<detail::resized_axis> r;
  if (!resize_known(a, in, out, r)) return;
  shape s{r ? dim(r->size) : dim(dyn)};
  if (a.mode != resize_mode::nearest) s.push_back(r ? dim(r->taps) : dim(dyn));
  out.result(dtype::int64, s);
}
value op::resize_positions::bind(const attributes& a, view<const value> in) {
  const auto r = resize_bound(a, in);
  if (a.mode == resize_mode::nearest) return table(in[0], dtype::int64, {dim(r.size)}, detail::nearest_positions(a, r));
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < r.size; ++i) {
    const std::int64_t first = weights_at(a, r, bounded(position_of(a, r, i), r.extent)).first;
    for (std::int64_t k = 0; k < r.taps; ++k) all.push_back(std::clamp<std::int64_t>(first + k, 0, r.extent - 1));
  }
  return table(in[0], dtype::int64, {dim(r.size), dim(r.taps)}, all);
}
void op::resize_weights::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  std::optional<detail::resized_axis> r;
  if (!real_weights(a.element, out) || !resize_known(a, in, out, r)) return;
  if (a.mode == resize_mode::nearest) out.why << "mode nearest has no weights";
  else out.result(a.element, {r ? dim(r->size) : dim(dyn), r ? dim(r->taps) : dim(dyn)});
}
value op::resize_weights::bind(const attributes& a, view<const value> in) {
  const auto r = resize_bound(a, in);
  std::vector<double> all;
  for (std::int64_t i = 0; i < r.size; ++i)
    for (double v : weights_at(a, r, bounded(position_of(a, r, i), r.extent)).weights) all.push_back(v);
  return table(in[0], a.element, {dim(r.size), dim(r.taps)}, all);
}
void op::resize_inside::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  std::optional<detail::resized_axis> r;
  if (real_weights(a.element, out) && resize_known(a, in, out, r)) out.result(a.element, {r ? dim(r->size) : dim(dyn)});
}
value op::resize_inside::bind(const attributes& a, view<const value> in) {
  const auto r = resize_bound(a, in);
  std::vector<double> all;
  for (std::int64_t i = 0; i < r.size; ++i) {
    const double x = position_of(a, r, i);
    all.push_back(x >= 0 && x <= static_cast<double>(r.extent - 1) ? 1 : 0);
  }
  return table(in[0], a.element, {dim(r.size)}, all);
}

// ---- borders and grids ----------------------------------------------------------------------------------------------

namespace {

// Checks that numbers are valid extents or sizes.
bool are_extents(view<const std::int64_t> all, std::string_view one, text& why) {
  for (std::int64_t n : all)
    if (n < 0 || n > max_extent) {
      why << one << " of " << n << " is outside 0.." << max_extent;
      return false;
    }
  return true;
}

// The elements of an axis that negative borders keep, and the size after positive borders.
struct bordered {
  std::int64_t first, count, before, size;
};
bool borders_of(std::int64_t extent, view<const std::int64_t> borders, bordered& b, text& why) {
  if (!are_extents({&extent, 1}, "an extent", why)) return false;
  for (std::int64_t n : borders)
    if (n > max_extent || n < -max_extent) {
      why << "a border of " << n << " is larger than " << max_extent;
      return false;
    }
  b.first = std::max<std::int64_t>(-borders[0], 0);
  b.count = extent - b.first - std::max<std::int64_t>(-borders[1], 0);
  b.before = std::max<std::int64_t>(borders[0], 0);
  b.size = b.count + b.before + std::max<std::int64_t>(borders[1], 0);
  if (b.count >= 0 && (b.count > 0 || b.size == 0)) return true;
  why << "an axis of " << extent << " cannot have borders of " << borders[0] << " and " << borders[1];
  return false;
}
std::int64_t bordered_position(const bordered& b, border_mode mode, std::int64_t i) {
  const std::int64_t n = b.count, x = i - b.before;
  if (mode == border_mode::edge || n == 1) return b.first + std::clamp<std::int64_t>(x, 0, n - 1);
  const std::int64_t period = mode == border_mode::wrap ? n : 2 * (n - 1), at = (x % period + period) % period;
  return b.first + (at < n ? at : period - at);
}
// Coordinate i of n along an axis, between -1 and 1.
double coordinate(std::int64_t i, std::int64_t n, bool align_corners) {
  const double at = static_cast<double>(i), count = static_cast<double>(n);
  if (align_corners) return n == 1 ? -1 : 2 * at / (count - 1) - 1;
  return (2 * at + 1) / count - 1;
}

}  // namespace

void op::border_positions::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (a.mode > border_mode::wrap) {
    out.why << "unknown mode";
    return;
  }
  if (!list_of(in[0], "extents", 1, out) || !list_of(in[1], "borders", 2, out)) return;
  const any_tensor *extent = out.elements_of(0), *borders = out.elements_of(1);
  if (!extent || !borders) return out.result(dtype::int64, shape{dyn});
  bordered b{};
  if (borders_of(numbers(*extent)[0], numbers(*borders), b, out.why) && table_fits(b.size, 1, out.why))
    out.result(dtype::int64, shape{dim(b.size)});
}
value op::border_positions::bind(const attributes& a, view<const value> in) {
  bordered b{};
  text unused;
  borders_of(numbers(constant_of(in[0]))[0], numbers(constant_of(in[1])), b, unused);
  std::vector<std::int64_t> all;
  for (std::int64_t i = 0; i < b.size; ++i) all.push_back(bordered_position(b, a.mode, i));
  return table(in[0], dtype::int64, {dim(b.size)}, all);
}

void op::center_borders::infer(const attributes&, view<const tensor_type> in, inference& out) {
  const int n = list_length(in[0], "extents", max_rank, out);
  if (n < 0 || !list_of(in[1], "sizes", n, out)) return;
  const any_tensor *extents = out.elements_of(0), *sizes = out.elements_of(1);
  if (extents && !are_extents(numbers(*extents), "an extent", out.why)) return;
  if (sizes && !are_extents(numbers(*sizes), "a size", out.why)) return;
  out.result(dtype::int64, shape{dim(2 * n)});
}
any_tensor detail::borders_around(const any_tensor& extents, const any_tensor& sizes) {
  const auto from = numbers(extents), to = numbers(sizes);
  any_tensor borders(tensor_type{dtype::int64, {dim(2 * static_cast<std::int64_t>(from.size()))}});
  auto* before = reinterpret_cast<std::int64_t*>(borders.mutable_data());
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t more = to[i] - from[i];
    before[i] = more / 2;
    before[from.size() + i] = more - more / 2;
  }
  return borders;
}
value op::center_borders::bind(const attributes&, view<const value> in) {
  return in[0].owner().constant(detail::borders_around(constant_of(in[0]), constant_of(in[1])));
}

namespace {

// Blocks along each axis of an image; `blocks_of` returns false, with a reason, if there are none.
struct blocked_axis {
  std::int64_t extent, kernel, stride, dilation, before, count;
};
bool blocks_of(const block_attributes& a, view<const std::int64_t> image, view<const std::int64_t> block,
               std::vector<blocked_axis>& all, text& why) {
  std::int64_t points = 1;
  for (std::size_t i = 0; i < image.size(); ++i) {
    const int k = static_cast<int>(i);
    window_attributes w{.kernel = block[i], .stride = a.strides[k], .dilation = a.dilations[k]};
    w.before = a.before[k];
    w.after = a.after[k];
    const std::int64_t n = detail::windows_of(w, image[i], why);
    if (n < 0) return false;
    std::int64_t here = 0;
    if (__builtin_mul_overflow(n, block[i], &here) || __builtin_mul_overflow(points, here, &points) ||
        points > max_table) {
      why << "the blocks have more than " << max_table << " elements";
      return false;
    }
    all.push_back({image[i], block[i], w.stride, w.dilation, w.before, n});
  }
  return true;
}

}  // namespace

void op::block_positions::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  const int n = list_length(in[0], "extents of an image", 3, out);
  if (n < 0 || !list_of(in[1], "extents of a block", n, out)) return;
  if (a.strides.count != n || a.dilations.count != n || a.before.count != n || a.after.count != n) {
    out.why << "a stride, a dilation and paddings are expected for each of the " << n << " axes";
    return;
  }
  const any_tensor *image = out.elements_of(0), *block = out.elements_of(1);
  if (!image || !block) return out.result(dtype::int64, {dyn, 1});
  std::vector<blocked_axis> all;
  if (!blocks_of(a, numbers(*image), numbers(*block), all, out.why)) return;
  std::int64_t points = 1;
  for (const auto& b : all) points *= b.kernel * b.count;
  out.result(dtype::int64, {dim(points), 1});
}
value op::block_positions::bind(const attributes& a, view<const value> in) {
  std::vector<blocked_axis> all;
  text unused;
  blocks_of(a, numbers(constant_of(in[0])), numbers(constant_of(in[1])), all, unused);
  std::int64_t taps = 1, blocks = 1;
  for (const auto& b : all) taps *= b.kernel, blocks *= b.count;
  std::vector<std::int64_t> at;
  for (std::int64_t t = 0; t < taps; ++t)
    for (std::int64_t n = 0; n < blocks; ++n) {
      std::int64_t place = 0, step = 1, tap = t, number = n;
      for (std::size_t i = all.size(); i-- > 0;) {
        const blocked_axis& b = all[i];
        const std::int64_t q = number % b.count * b.stride - b.before + tap % b.kernel * b.dilation;
        place = place < 0 || q < 0 || q >= b.extent ? -1 : place + q * step;
        tap /= b.kernel, number /= b.count, step *= b.extent;
      }
      at.push_back(place);
    }
  return table(in[0], dtype::int64, {dim(taps * blocks), 1}, at);
}

void op::affine_base::infer(const attributes& a, view<const tensor_type> in, inference& out) {
  if (!real_weights(a.element, out)) return;
  const int n = list_length(in[0], "extents", 5, out);
  if (n < 0) return;
  if (n < 4) {
    out.why << "the extents [N, C, H, W] or [N, C, D, H, W] of images are expected";
    return;
  }
  const any_tensor* known = out.elements_of(0);
  if (!known) return out.result(a.element, {dyn, dim(n - 1)});
  std::int64_t places = 1;
  for (int i = 2; i < n; ++i) {
    const std::int64_t s = numbers(*known)[static_cast<std::size_t>(i)];
    if (s < 0 || s > max_extent || __builtin_mul_overflow(places, s, &places) || !table_fits(places, n, out.why)) {
      if (out.why.empty()) out.why << "an extent of " << s << " is outside 0.." << max_extent;
      return;
    }
  }
  out.result(a.element, {dim(places), dim(n - 1)});
}
value op::affine_base::bind(const attributes& a, view<const value> in) {
  const auto extents = numbers(constant_of(in[0]));
  const std::size_t axes = extents.size() - 2;
  std::int64_t places = 1;
  for (std::size_t i = 0; i < axes; ++i) places *= extents[i + 2];
  std::vector<double> all;
  for (std::int64_t at = 0; at < places; ++at) {
    std::int64_t rest = at;
    for (std::size_t i = axes; i-- > 0; rest /= extents[i + 2])
      all.push_back(coordinate(rest % extents[i + 2], extents[i + 2], a.align_corners));
    all.push_back(1);
  }
  return table(in[0], a.element, {dim(places), dim(static_cast<std::int64_t>(axes + 1))}, all);
}

}  // namespace lamina
