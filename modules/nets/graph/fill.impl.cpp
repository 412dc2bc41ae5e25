module lamina:graph.fill.impl;
import :core;
import :dtype;
import :graph.fill;
import :op;
import :op.elementwise;
import :op.random;
import :op.tile;
import :program;
import :shape;
import :tensor;
import lamina.std;

namespace lamina {

namespace graph {

void fill_scope::fail(error_kind kind, const text& why) const {
  text t;
  if (!what_.empty()) t << what_ << ": ";
  detail::raise(kind, t << why);
}

namespace {
// Raises an error if the element type cannot represent the number.
template <class N> void check_holds(const fill_scope& s, std::string_view fill, N number, dtype element) {
  const bool holds = with_type(element, [&]<class T>() {
    T x{};
    return detail::to_element(number, x);
  });
  text t;
  if (!holds) s.fail(error_kind::value, t << fill << ": " << detail::number_mismatch(number, element));
}
}  // namespace

value fill_scope::constant(double v) {
  check_holds(*this, "constant", v, type_.element);
  program& p = generator_.owner();
  return tile_to(p.number(v, type_.element), type_.dims);
}
// Zeros of the fill's type, as the shape operand of a random draw. Only floating types can be drawn.
value fill_scope::like(std::string_view fill) {
  text t;
  if (type_.element != dtype::float32 && type_.element != dtype::float64)
    fail(error_kind::type, t << fill << ": draws float32 or float64, not " << type_.element);
  return constant(0);
}
value fill_scope::uniform(double low, double high) {
  text t;
  if (!(low <= high)) fail(error_kind::value, t << "uniform: `low` is " << low << " and above `high`, " << high);
  return random_uniform(generator_, like("uniform"), {.a = low, .b = high, .site = site_});
}
value fill_scope::integers(std::int64_t low, std::int64_t high) {
  const auto count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  text t;
  if (low > high || count >= std::uint64_t(1) << 32)
    fail(error_kind::value, t << "uniform_integers: the range " << low << " to " << high << " is empty or too large");
  check_holds(*this, "uniform_integers", low, type_.element);
  check_holds(*this, "uniform_integers", high, type_.element);
  program& p = generator_.owner();
  const value zeros = tile_to(p.number(0.0, dtype::float64), type_.dims);
  const value drawn =
      floor(random_uniform(generator_, zeros, {.a = 0, .b = static_cast<double>(count) + 1, .site = site_}));
  const value offset = apply<op::cast>(cast_attributes{dtype::int64}, drawn) + p.number(low, dtype::int64);
  return apply<op::cast>(cast_attributes{type_.element}, offset);
}
value fill_scope::normal(double mean, double deviation) {
  text t;
  if (!(deviation >= 0)) fail(error_kind::value, t << "gaussian: `std` is " << deviation << " and must not be below 0");
  return random_normal(generator_, like("gaussian"), {.a = mean, .b = deviation, .site = site_});
}

}  // namespace graph

namespace op {

namespace {
// Number of elements divided by the extent of an axis.
double fan(const graph::fill_scope& s, std::string_view name, int axis) {
  const shape& d = s.shape();
  if (d.rank <= axis || d.size() == 0) {
    text t;
    s.fail(error_kind::shape, t << name << ": the fan of shape " << d << " is undefined");
  }
  const std::int64_t others = d.size() / d.at(axis);
  return static_cast<double>(others);
}
}  // namespace

value xavier::operator()(graph::fill_scope& s) const {
  const double r = std::sqrt(3 / fan(s, "xavier", 0));
  return s.uniform(-r, r);
}
value msra::operator()(graph::fill_scope& s) const { return s.normal(0, std::sqrt(2 / fan(s, "msra", 1))); }

}  // namespace op

}  // namespace lamina
