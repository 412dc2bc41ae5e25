module lamina:shape.impl;
import :core;
import :shape;
import lamina.std;

namespace lamina {

void dim::extent_below_zero(std::int64_t n, bool is_unsigned) {
  text t;
  t << "an extent is ";
  if (is_unsigned)
    t << static_cast<std::uint64_t>(n) << "; expected at most " << std::numeric_limits<std::int64_t>::max();
  else t << n << "; expected 0 or more, or `dyn` where it is not known";
  detail::raise(error_kind::shape, t);
}
void dim::bad_name() {
  detail::raise(error_kind::value, "a dimension name has 1 to 10 letters, digits or underscores");
}
void shape::outside() { detail::raise(error_kind::value, "shape: there is no element at this place"); }
void shape::no_such_axis(const shape& s, int axis) {
  text t;
  if (s.rank == 0) t << "shape [] has no axes";
  else t << "shape " << s << " has no axis " << axis << "; expected 0 to " << s.rank - 1;
  detail::raise(error_kind::value, t);
}
void shape::not_countable(const shape& s) {
  text t;
  t << "shape " << s;
  if (s.is_static()) t << " has more elements than 63 bits count";
  else t << " has no size: not all of its extents are numbers";
  detail::raise(error_kind::shape, t);
}
void place::no_such_axis(int axis, int rank) {
  text t;
  detail::raise(error_kind::value, t << "a place of rank " << rank << " has no axis " << axis);
}
void axes::not_in_list(int i, int count) {
  text t;
  detail::raise(error_kind::value, t << "a list of " << count << " axes has no position " << i);
}
void shape::too_many() { detail::raise(error_kind::shape, "a tensor has at most 8 dimensions"); }

}  // namespace lamina
