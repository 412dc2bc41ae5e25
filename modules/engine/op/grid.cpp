// Grid sampling: positions of neighboring elements in a map and their weights, from computed coordinates.
module lamina:op.grid;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.extents;
import :op.sample;
import :op.shape;
import :op.spatial;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

/// Position of an element outside: a sum of up to three axes with it is always below 0.
inline constexpr std::int64_t no_position = -(std::int64_t(1) << 60);

/// Contribution of one axis to a position (int64), and its weight.
struct axis_tap {
  value position, weight;
};
/// Position of an element along an axis, from an integer in a floating type; `no_position` if outside.
value axis_position(const value& whole, const value& extent, const value& stride) {
  const value inside = whole >= 0 && whole < extent;
  return where(inside, apply<op::cast>({dtype::int64}, whole) * stride, no_position);
}
/// A coordinate reflected at both borders as often as necessary.
value mirrored(const value& x, const value& low, const value& width) {
  const value away = abs(x - low), twice = width * 2;
  const value rest = away - twice * stop_gradient(floor(away / max(twice, 1)));
  return low + where(rest > width, twice - rest, rest);
}
/// The neighboring elements along an axis, with their weights.
std::vector<axis_tap> axis_taps(value x, const value& extent, const value& stride, const grid_options& o) {
  const value last = extent - 1;
  const value low = o.align_corners ? extent * 0 : extent * 0 - 0.5;
  const value width = o.align_corners ? last : extent;
  if (o.mode == resize_mode::nearest) x = stop_gradient(round(x));
  if (o.padding == grid_padding::border && o.mode != resize_mode::cubic) x = clamp(x, extent * 0, last);
  if (o.padding == grid_padding::reflection) x = where(x < low || x > low + width, mirrored(x, low, width), x);
  const auto tap = [&](const value& whole, const value& weight) {
    value at = whole;
    if (o.padding == grid_padding::reflection) at = floor(mirrored(whole, low, width));
    if (o.padding != grid_padding::zeros) at = clamp(at, extent * 0, last);
    return axis_tap{axis_position(at, extent, stride), weight};
  };
  if (o.mode == resize_mode::nearest) return {tap(floor(x), x * 0 + 1)};
  const value left = stop_gradient(floor(x)), t = x - left;
  if (o.mode == resize_mode::linear) return {tap(left, 1 - t), tap(left + 1, t)};
  constexpr double a = -0.75;
  const auto near = [&](const value& d) { return value(((a + 2) * d - (a + 3)) * d * d + 1); };
  const auto far = [&](const value& d) { return value(((a * d - 5 * a) * d + 8 * a) * d - 4 * a); };
  return {tap(left - 1, far(t + 1)), tap(left, near(t)), tap(left + 1, near(1 - t)), tap(left + 2, far(2 - t))};
}

struct neighbor_tables {
  value positions, weights;
};
/// Positions and weights [N, P, taps] in a map with these extents, from coordinates [N, P] along each of its axes.
neighbor_tables neighbors_of(view<const value> coordinates, view<const extent_value> extents, const grid_options& o) {
  program& p = coordinates[0].owner();
  const dtype element = coordinates[0].type().element;
  std::vector<axis_tap> all;
  extent_value stride = known_extent(1);
  for (std::size_t i = coordinates.size(); i-- > 0;) {
    const auto taps = axis_taps(coordinates[i], extents[i].in(p, element), stride.in(p, dtype::int64), o);
    std::vector<axis_tap> more;
    for (const auto& t : taps)
      for (const auto& u : all) more.push_back({t.position + u.position, t.weight * u.weight});
    all = all.empty() ? taps : more;
    stride = times(p, stride, extents[i]);
  }
  std::vector<value> positions, weights;
  for (const auto& t : all) positions.push_back(t.position), weights.push_back(t.weight);
  return {stack(view<const value>(positions), -1), stack(view<const value>(weights), -1)};
}

}  // namespace lamina::detail
