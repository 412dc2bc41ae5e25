module lamina:op.spatial_resize.impl;
import :core;
import :dtype;
import :op;
import :op.computed_shape;
import :op.elementwise;
import :op.index;
import :op.linear;
import :op.reduce;
import :op.sample;
import :op.shape;
import :op.spatial;
import :op.extents;
import :op.tile;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace {

using detail::extent_of, detail::extent_value, detail::known_extent, detail::reshaped, detail::times;

[[noreturn]] void refuse(error_kind kind, std::string_view function, const value& x, std::string_view why) {
  text t;
  t << std::string_view(origin::prefix()) << function << ": " << why << "; given " << x.shape();
  detail::raise(kind, t);
}
// The named axes of x, or all; rejects repeated ones.
std::vector<int> axes_of(const value& x, view<const std::int64_t> named, std::string_view function) {
  const int rank = x.shape().rank;
  std::vector<int> all;
  if (named.empty())
    for (int i = 0; i < rank; ++i) all.push_back(i);
  for (std::int64_t a : named) {
    const int axis = detail::normal_axis(a, rank);
    if (axis < 0 || std::find(all.begin(), all.end(), axis) != all.end())
      refuse(error_kind::shape, function, x, "axes must be distinct axes of the operand");
    all.push_back(axis);
  }
  return all;
}
std::vector<int> axes_of(const value& x, const axes& named, std::string_view function) {
  std::vector<std::int64_t> list;
  for (int i = 0; i < named.count; ++i) list.push_back(named[i]);
  return axes_of(x, view<const std::int64_t>(list), function);
}

// One of the axes to resize, as far as it is known.
struct resized {
  int axis = 0;
  resize_attributes attributes;
  std::optional<detail::resized_axis> known;
  std::optional<double> scale;
};
bool crops(const resize_attributes& a) { return a.coordinates == resize_coordinates::tf_crop_and_resize; }
// Whether resizing leaves the axis unchanged.
bool is_identity(const resized& r) {
  if (crops(r.attributes) && (!r.known || r.known->roi_start != 0 || r.known->roi_end != 1)) return false;
  if (r.known) return r.known->size == r.known->extent && r.known->scale == 1;
  return r.scale == 1.0;
}
// How often each element of the axis is repeated, if nearest sampling amounts to that.
std::optional<std::int64_t> repeats_of(const resized& r) {
  const resize_attributes& a = r.attributes;
  if (r.known) {
    if (r.known->extent < 1 || r.known->size % r.known->extent || r.known->size == 0) return {};
    const std::int64_t n = r.known->size / r.known->extent;
    const auto at = detail::nearest_positions(a, *r.known);
    for (std::size_t i = 0; i < at.size(); ++i)
      if (at[i] != static_cast<std::int64_t>(i) / n) return {};
    return n;
  }
  if (!r.scale || *r.scale != std::floor(*r.scale) || *r.scale < 2 || *r.scale > 1 << 20) return {};
  const bool halves = a.coordinates == resize_coordinates::half_pixel ||
                      a.coordinates == resize_coordinates::half_pixel_symmetric ||
                      a.coordinates == resize_coordinates::pytorch_half_pixel;
  const bool nearest = a.rounding == nearest_rounding::prefer_floor || a.rounding == nearest_rounding::prefer_ceil;
  const bool lower = a.coordinates == resize_coordinates::asymmetric && a.rounding == nearest_rounding::floor;
  if ((halves && nearest) || lower) return static_cast<std::int64_t>(*r.scale);
  return {};
}
// `tables`: operands of the tables: extents, target and optionally a region.
std::vector<resized> resized_axes(const value& x, const std::vector<value>& tables, const std::vector<int>& along,
                                  const resize_options& o) {
  const value& target = tables[1];
  const auto sizes = detail::known_numbers(target), from = detail::known_numbers(tables[0]);
  const auto constant = [&](const value& v) { return &v.owner().at(v.id()).constant; };
  const bool region = tables.size() > 2 && detail::known_numbers(tables[2]).has_value();
  std::vector<std::int64_t> known_extents;
  if (from)
    for (double v : *from) known_extents.push_back(static_cast<std::int64_t>(v));
  std::vector<resized> all;
  for (std::size_t i = 0; i < along.size(); ++i) {
    resized r;
    r.axis = along[i];
    resize_attributes& a = r.attributes;
    a.which = static_cast<std::int64_t>(i);
    a.mode = o.mode, a.coordinates = o.coordinates, a.rounding = o.rounding, a.policy = o.policy;
    a.cubic_a = o.cubic_coeff_a;
    a.exclude_outside = o.exclude_outside && o.mode != resize_mode::nearest;
    a.antialias = o.antialias && o.mode != resize_mode::nearest;
    a.element = x.type().element;
    if (sizes && sizes->size() == along.size()) {
      if (target.type().element != dtype::int64) r.scale = (*sizes)[i];
      text why;
      if (from && region == (tables.size() > 2))
        r.known = detail::resize_of(a, view<const std::int64_t>(known_extents), *constant(target),
                                    region ? constant(tables[2]) : nullptr, why);
      if (!why.empty()) r.known.reset(), r.scale.reset();  // the operation reports it
    }
    all.push_back(r);
  }
  return all;
}
value resized_along(const value& x, const std::vector<value>& tables, const resized& r) {
  if (r.attributes.mode != resize_mode::nearest)
    return resample(x, apply_all<op::resize_positions>(r.attributes, tables),
                    apply_all<op::resize_weights>(r.attributes, tables), {.axis = r.axis});
  if (!crops(r.attributes))
    if (const auto n = repeats_of(r)) return *n == 1 ? x : value(repeat(x, *n, r.axis));
  return gather(x, value(apply_all<op::resize_positions>(r.attributes, tables)), r.axis);
}
// Whether each position is inside x along all resized axes.
value inside_of(const value& x, const std::vector<value>& tables, const std::vector<resized>& all) {
  value inside;
  for (const resized& r : all) {
    resize_attributes a = r.attributes;
    a.element = dtype::float32;
    value one = apply_all<op::resize_inside>(a, tables);
    for (int i = r.axis + 1; i < x.shape().rank; ++i) one = unsqueeze(one, axes(-1));
    inside = inside.empty() ? one : value(inside * one);
  }
  return inside > 0.5;
}
// Numbers as a float64 constant.
value real_list(program& p, const std::vector<double>& all) {
  any_tensor t(tensor_type{dtype::float64, {dim(static_cast<std::int64_t>(all.size()))}});
  std::copy(all.begin(), all.end(), reinterpret_cast<double*>(t.mutable_data()));
  return p.constant(std::move(t));
}

}  // namespace

value resize(const value& x, const resize_options& o, const origin&) {
  if (o.scales.empty() == o.sizes.empty())
    refuse(error_kind::value, "resize", x, "either scales or sizes are expected");
  if (!o.sizes.empty()) return resize(x, detail::int_list(x.owner(), view<const std::int64_t>(o.sizes)), o);
  return resize(x, real_list(x.owner(), o.scales), o);
}
value resize(const value& x, const value& target, const resize_options& o, const origin&) {
  return resize(x, target, o.roi.empty() ? value() : real_list(x.owner(), o.roi), o);
}
value resize(const value& x, const value& target, const value& roi, const resize_options& o, const origin&) {
  const std::vector<int> along = axes_of(x, view<const std::int64_t>(o.axes), "resize");
  const bool cropping = o.coordinates == resize_coordinates::tf_crop_and_resize;
  if (cropping &&
      (roi.empty() || roi.shape().rank != 1 || !may_equal(roi.shape()[0], 2 * static_cast<std::int64_t>(along.size()))))
    refuse(error_kind::value, "resize", x, "tf_crop_and_resize needs a start and an end in roi for each axis");
  if (o.antialias && o.mode == resize_mode::nearest)
    refuse(error_kind::value, "resize", x, "antialias needs mode linear or cubic, not nearest");
  std::vector<extent_value> from;
  for (int axis : along) from.push_back(extent_of(x, axis));
  const value extents = detail::list_of(x.owner(), view<const extent_value>(from));
  std::vector<value> tables{extents, target};
  if (cropping) tables.push_back(roi);
  std::vector<resized> all = resized_axes(x, tables, along, o);
  // Axes that shrink come first; among equal ones the last, whose elements are contiguous.
  std::reverse(all.begin(), all.end());
  const auto growth = [](const resized& r) {
    if (r.known && r.known->extent > 0)
      return static_cast<double>(r.known->size) / static_cast<double>(r.known->extent);
    return r.scale.value_or(1.0);
  };
  std::stable_sort(all.begin(), all.end(), [&](const resized& a, const resized& b) { return growth(a) < growth(b); });
  std::erase_if(all, is_identity);
  value y = x;
  for (const resized& r : all) y = resized_along(y, tables, r);
  if (cropping && !all.empty()) y = where(inside_of(x, tables, all), y, o.extrapolation_value);
  return y;
}

value pad_by(const value& x, const value& borders, axes along, border_mode mode, const origin&) {
  const std::vector<int> all = axes_of(x, along, "pad_by");
  const auto count = static_cast<std::int64_t>(all.size());
  if (borders.shape().rank != 1 || !may_equal(borders.shape()[0], 2 * count))
    refuse(error_kind::shape, "pad_by", x, "a border before and after each of the axes is expected");
  const auto known = detail::known_numbers(borders);
  value y = x;
  for (std::int64_t i = 0; i < count; ++i) {
    const int axis = all[static_cast<std::size_t>(i)];
    value both;
    if (known) {
      const std::int64_t two[] = {static_cast<std::int64_t>((*known)[static_cast<std::size_t>(i)]),
                                  static_cast<std::int64_t>((*known)[static_cast<std::size_t>(i + count)])};
      if (two[0] == 0 && two[1] == 0) continue;
      both = detail::int_list(x.owner(), two);
    } else {
      const value parts[] = {slice(borders, {.start = i, .stop = i + 1}),
                             slice(borders, {.start = i + count, .stop = i + count + 1})};
      both = concat(parts, 0);
    }
    y = gather(y, apply<op::border_positions>({mode}, extent_of(x, axis).in(x.owner()), both), axis);
  }
  return y;
}

value center_crop_pad(const value& x, const value& to, axes along, const origin&) {
  const std::vector<int> all = axes_of(x, along, "center_crop_pad");
  std::vector<extent_value> from;
  axes every;
  for (int axis : all) {
    from.push_back(extent_of(x, axis));
    every.values[every.count++] = axis;
  }
  const value extents = detail::list_of(x.owner(), view<const extent_value>(from));
  const auto known = detail::known_numbers(extents), sizes = detail::known_numbers(to);
  value borders = apply<op::center_borders>({}, extents, to);
  if (known && sizes)
    borders = x.owner().constant(
        detail::borders_around(extents.owner().at(extents.id()).constant, to.owner().at(to.id()).constant));
  return pad_by(x, borders, {.axes = every});
}

namespace {

// An extent divided by `n`.
extent_value divided(const value& x, int axis, std::int64_t n, std::string_view function) {
  const extent_value e = extent_of(x, axis);
  if (!e.known()) return {-1, e.computed / n};
  if (e.number % n) {
    text t;
    t << "axis " << axis << " does not divide into parts of " << n;
    refuse(error_kind::shape, function, x, std::string_view(t.view()));
  }
  return known_extent(e.number / n);
}
void check_block(const value& x, std::int64_t block, std::string_view function) {
  if (x.shape().rank != 4 || block < 1 || block > 1 << 15)
    refuse(error_kind::shape, function, x, "images [N, C, H, W] and a block of 1 to 32768 are expected");
}

}  // namespace

value depth_to_space(const value& x, std::int64_t block, bool column_row_depth, const origin&) {
  check_block(x, block, "depth_to_space");
  program& p = x.owner();
  const extent_value n = extent_of(x, 0), c = divided(x, 1, block * block, "depth_to_space"), h = extent_of(x, 2),
                     w = extent_of(x, 3), b = known_extent(block);
  const value parts = column_row_depth ? permute(reshaped(x, {n, c, b, b, h, w}), axes(0, 1, 4, 2, 5, 3))
                                       : permute(reshaped(x, {n, b, b, c, h, w}), axes(0, 3, 4, 1, 5, 2));
  return reshaped(parts, {n, c, times(p, h, b), times(p, w, b)});
}
value space_to_depth(const value& x, std::int64_t block, bool column_row_depth, const origin&) {
  check_block(x, block, "space_to_depth");
  program& p = x.owner();
  const extent_value n = extent_of(x, 0), c = extent_of(x, 1), h = divided(x, 2, block, "space_to_depth"),
                     w = divided(x, 3, block, "space_to_depth"), b = known_extent(block);
  const axes order = column_row_depth ? axes(0, 1, 3, 5, 2, 4) : axes(0, 3, 5, 1, 2, 4);
  return reshaped(permute(reshaped(x, {n, c, h, b, w, b}), order), {n, times(p, c, known_extent(block * block)), h, w});
}

}  // namespace lamina
