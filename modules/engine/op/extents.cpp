// Extents of values as numbers where they are known, else as values that a plan knows: what formulas reshape with.
module lamina:op.extents;
import :core;
import :dtype;
import :op;
import :op.attention;
import :op.computed_shape;
import :op.elementwise;
import :op.shape;
import :op.view;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina::detail {

/// An extent: a number, or an int64 value of one element.
struct extent {
  dim number = dyn;
  value computed;
  bool known() const { return number.is_number(); }
};

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
  return constant_list(p, dtype::int64, list, shape{dim(static_cast<std::int64_t>(list.size()))});
}

extent extent_of(const value& x, int axis) {
  const dim n = x.shape()[axis];
  if (n.is_number()) return {n, {}};
  return {dyn, lamina::slice(lamina::shape_of(x), slice_attributes{axis, axis + 1, 0, 1})};
}
/// As an int64 value of shape [1].
value value_of(program& p, const extent& e) { return e.known() ? constant_list(p, {e.number.code}) : e.computed; }
/// Of two that broadcast: that which is not 1.
extent broadcast_extent(program& p, const extent& a, const extent& b) {
  if (a.known()) return a.number == dim(1) ? b : a;
  if (b.known()) return b.number == dim(1) ? a : b;
  const value one = constant_list(p, {1});
  return {dyn, lamina::where(a.computed == one, b.computed, a.computed)};
}
extent product_of(program& p, const std::vector<extent>& all) {
  std::int64_t number = 1;
  value computed;
  for (const extent& e : all) {
    if (e.known()) number *= e.number.code;
    else computed = computed.empty() ? e.computed : value(computed * e.computed);
  }
  if (computed.empty()) return {dim(number), {}};
  return {dyn, number == 1 ? computed : value(computed * value_of(p, {dim(number), {}}))};
}
/// x under these extents.
value reshaped(const value& x, const std::vector<extent>& to) {
  if (std::all_of(to.begin(), to.end(), [](const extent& e) { return e.known(); })) {
    shape s;
    for (const extent& e : to) s.push_back(e.number);
    return x.shape() == s ? x : value(lamina::reshape(x, s));
  }
  std::vector<value> parts;
  for (const extent& e : to) parts.push_back(value_of(x.owner(), e));
  return lamina::reshape_to(x, value(apply_all<op::concat>({0}, parts)));
}
/// x with runs of neighboring axes made one: `groups` has the number of axes of each; none is a new axis of 1.
value merged(const value& x, const std::vector<int>& groups) {
  std::vector<extent> to;
  int axis = 0;
  for (int n : groups) {
    std::vector<extent> of;
    for (int i = 0; i < n; ++i) of.push_back(extent_of(x, axis++));
    to.push_back(product_of(x.owner(), of));
  }
  return reshaped(x, to);
}
/// The positions along an axis of x, shaped so that they broadcast against x.
value positions_along(const value& x, int axis) {
  const int rank = x.shape().rank;
  value at = lamina::positions(x, axis);
  axes others;
  for (int i = 1; i < rank - axis; ++i) others.values[others.count++] = i;
  return others.count ? value(lamina::unsqueeze(at, others)) : at;
}
/// Zeros, or another number, of the type and shape of x.
value constant_like(const value& x, double number) {
  return lamina::broadcast_like(x.owner().number(number, x.type().element), x);
}
value converted(const value& x, dtype to) {
  return x.type().element == to ? x : value(apply<op::cast>(cast_attributes{to}, x));
}
/// A non-negative axis. Errors: shape_error.
int axis_of(std::string_view function, std::int64_t axis, const shape& s) {
  const int a = normal_axis(axis, s.rank);
  if (a < 0) {
    text t;
    raise(error_kind::shape, t << function << ": axis " << axis << " is outside the rank of " << s);
  }
  return a;
}
/// The axes of a rank with one moved to a place.
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

}  // namespace lamina::detail
