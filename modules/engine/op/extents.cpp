// Extents of values, static or known at planning time, for functions composed of program operations.
module lamina:op.extents;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.computed_shape;
import :op.elementwise;
import :op.shape;
import :op.tile;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

/// A list of int64 as a constant.
value int_list(program& p, view<const std::int64_t> numbers) {
  any_tensor t(tensor_type{dtype::int64, {dim(static_cast<std::int64_t>(numbers.size()))}});
  std::copy(numbers.begin(), numbers.end(), reinterpret_cast<std::int64_t*>(t.mutable_data()));
  return p.constant(std::move(t));
}

template <class T> value constant_list(program& p, dtype element, const std::vector<T>& list, const shape& s) {
  any_tensor t(tensor_type{element, s});
  with_type(element, [&]<class To>() {
    if constexpr (std::is_arithmetic_v<To>) {
      auto* to = reinterpret_cast<To*>(t.mutable_data());
      for (std::size_t i = 0; i < list.size(); ++i) to[i] = static_cast<To>(list[i]);
    }
  });
  return p.constant(std::move(t));
}
value constant_list(program& p, const std::vector<std::int64_t>& list) {
  return int_list(p, view<const std::int64_t>(list));
}

/// An extent: static, or an int64 value [1] that is known at planning time.
struct extent_value {
  std::int64_t number = -1;
  value computed;
  bool known() const { return computed.empty(); }
  /// The extent as an int64 value [1].
  value in(program& p) const { return known() ? int_list(p, view<const std::int64_t>(&number, 1)) : computed; }
  /// The extent as a number of an element type: a constant of rank 0, or [1].
  value in(program& p, dtype element) const {
    if (known()) return p.number(static_cast<double>(number), element);
    return apply<op::cast>({element}, computed);
  }
};
extent_value known_extent(std::int64_t n) { return {n, {}}; }
extent_value extent_of(const value& x, int axis) {
  if (const dim d = x.shape()[axis]; d.is_number()) return {d.code, {}};
  return {-1, lamina::slice(lamina::shape_of(x), {.start = axis, .stop = axis + 1})};
}
extent_value times(program& p, const extent_value& a, const extent_value& b) {
  if (a.known() && b.known()) {
    std::int64_t n = 0;
    if (__builtin_mul_overflow(a.number, b.number, &n))
      raise(error_kind::shape, origin::prefix() + "too many elements");
    return {n, {}};
  }
  if (a.number == 1) return b;
  if (b.number == 1) return a;
  return {-1, a.in(p)*b.in(p)};
}
/// The extent of two that broadcast: the one that is not 1.
extent_value broadcast_extent(program& p, const extent_value& a, const extent_value& b) {
  if (a.known()) return a.number == 1 ? b : a;
  if (b.known()) return b.number == 1 ? a : b;
  const value one = known_extent(1).in(p);
  return {-1, lamina::where(a.computed == one, b.computed, a.computed)};
}
/// Extents as one int64 list.
value list_of(program& p, view<const extent_value> all) {
  std::vector<std::int64_t> numbers;
  std::vector<value> parts;
  for (const auto& e : all) {
    if (e.known()) numbers.push_back(e.number);
    parts.push_back(e.in(p));
  }
  if (numbers.size() == all.size()) return int_list(p, view<const std::int64_t>(numbers));
  return parts.size() == 1 ? parts[0] : lamina::concat(view<const value>(parts), 0);
}
/// Reshapes x; any of the extents may be unknown until planning.
value reshaped(const value& x, const std::vector<extent_value>& to) {
  shape s;
  int open = 0;
  bool empty = false;
  for (const auto& e : to) {
    s.push_back(e.known() ? dim(e.number) : dim(dyn));
    open += !e.known();
    empty = empty || e.number == 0;
  }
  if (open == 0 && x.shape() == s) return x;
  if (open == 0 || (open == 1 && !empty)) return lamina::reshape(x, s);
  return lamina::reshape_to(x, list_of(x.owner(), view<const extent_value>(to)));
}
/// `stop` of a slice up to the last position.
constexpr std::int64_t to_the_end = std::numeric_limits<std::int64_t>::max();
/// Without the first `before` and the last `after` positions of an axis, then with `more`: its own first, then zeros.
value trimmed(value y, int axis, std::int64_t before, std::int64_t after, std::int64_t more = 0) {
  if (more > after) y = lamina::pad(y, {.axis = axis, .after = more - after});
  if (before || after > more)
    y = lamina::slice(y, {.start = before, .stop = after > more ? more - after : to_the_end, .axis = axis});
  return y;
}
/// Merges the axes [from, to) of x into one.
value merged(const value& x, int from, int to) {
  std::vector<extent_value> s;
  for (int i = 0; i < x.shape().rank; ++i)
    if (i <= from || i >= to) s.push_back(extent_of(x, i));
    else s.back() = times(x.owner(), s.back(), extent_of(x, i));
  return to - from == 1 ? x : reshaped(x, s);
}

// ---- volumes [N, C, D, H, W] as images of their frames ----

/// Volumes [N, C, D, H, W] as [N, D, C, H, W], or these as volumes.
value frames_first(const value& x) { return lamina::permute(x, axes(0, 2, 1, 3, 4)); }
/// Images [N D, C, H, W] as [N, D, C, H, W].
value split_frames(const value& images, const extent_value& count, const extent_value& depth) {
  return reshaped(images, {count, depth, extent_of(images, 1), extent_of(images, 2), extent_of(images, 3)});
}
/// Images [N D, C, H, W] as volumes [N, C, D, H, W].
value volumes_of(const value& images, const extent_value& count, const extent_value& depth) {
  return frames_first(split_frames(images, count, depth));
}
/// Of [N, D, C, H, W] the frames that plane k of windows of `kernel` planes reads.
value frames_under(const value& frames, std::int64_t k, std::int64_t kernel, std::int64_t stride,
                   std::int64_t dilation) {
  const std::int64_t rest = (kernel - 1 - k) * dilation;
  if (kernel == 1 && stride == 1) return frames;
  return lamina::slice(frames, {.start = k * dilation, .stop = rest ? -rest : to_the_end, .axis = 1, .step = stride});
}

/// Merges groups of neighboring axes of x: `groups` has the number of axes of each; 0 inserts an axis of extent 1.
value merged(const value& x, const std::vector<int>& groups) {
  std::vector<extent_value> to;
  int axis = 0;
  for (int n : groups) {
    extent_value all = known_extent(1);
    for (int i = 0; i < n; ++i) all = times(x.owner(), all, extent_of(x, axis++));
    to.push_back(all);
  }
  return reshaped(x, to);
}
/// The positions along an axis of x, in a shape that broadcasts against x.
value positions_along(const value& x, int axis) {
  const int rank = x.shape().rank;
  value at = lamina::positions(x, axis);
  axes others;
  for (int i = 1; i < rank - axis; ++i) others.values[others.count++] = i;
  return others.count ? value(lamina::unsqueeze(at, others)) : at;
}
/// A number in the type and shape of x.
value constant_like(const value& x, double number) {
  return lamina::broadcast_like(x.owner().number(number, x.type().element), x);
}
value converted(const value& x, dtype to) {
  return x.type().element == to ? x : value(apply<op::cast>(cast_attributes{to}, x));
}
/// Normalizes an axis to be non-negative. Errors: shape_error.
int axis_of(std::string_view function, std::int64_t axis, const shape& s) {
  const int a = normal_axis(axis, s.rank);
  if (a < 0) {
    text t;
    raise(error_kind::shape, t << function << ": axis " << axis << " is outside the rank of " << s);
  }
  return a;
}
/// The permutation of a rank that moves axis `from` to position `to`.
axes moved_axis(int rank, int from, int to) {
  axes order;
  for (int i = 0; i < rank; ++i)
    if (i != from) order.values[order.count++] = i;
  for (int i = order.count++; i > to; --i) order.values[i] = order.values[i - 1];
  order.values[to] = from;
  return order;
}
value with_axis_moved(const value& x, int from, int to) {
  return from == to ? x : value(lamina::permute(x, moved_axis(x.shape().rank, from, to)));
}
/// The elements of a constant int64 or float value; empty for other values.
std::optional<std::vector<double>> known_numbers(const value& v) {
  const node& n = v.owner().at(v.id());
  if (n.kind != node_kind::constant) return {};
  std::vector<double> all;
  with_type(n.constant.type().element, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>)
      for (T e : n.constant.template elements<T>()) all.push_back(static_cast<double>(e));
  });
  return all;
}

/// Numbers per spatial axis from an option; if it is empty, all are `otherwise`.
std::vector<std::int64_t> per_axis(const std::vector<std::int64_t>& given, int axes, std::int64_t otherwise,
                                   std::string_view function, std::string_view option) {
  if (given.empty()) return std::vector<std::int64_t>(static_cast<std::size_t>(axes), otherwise);
  if (static_cast<int>(given.size()) == axes) return given;
  text t;
  t << std::string_view(origin::prefix()) << function << ": " << option << " has "
    << static_cast<std::int64_t>(given.size()) << " numbers; expected one for each of the " << axes << " spatial axes";
  raise(error_kind::value, t);
}
/// The number of axes after [N, C]. Errors: shape_error unless it is 1 to `max`.
int spatial_axes(const value& x, int max, std::string_view function) {
  const int axes = x.shape().rank - 2;
  if (axes >= 1 && axes <= max) return axes;
  text t;
  t << std::string_view(origin::prefix()) << function << ": " << x.shape() << " is not [N, C, ...] with 1 to " << max
    << " spatial axes";
  raise(error_kind::shape, t);
}

}  // namespace lamina::detail
