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

value fill_scope::constant(double v) {
  program& p = generator_.owner();
  return tile_to(p.number(v, type_.element), type_.dims);
}
value fill_scope::like() { return constant(0); }
value fill_scope::uniform(double low, double high) { return random_uniform(generator_, like(), {.a = low, .b = high, .site = site_}); }
value fill_scope::integers(std::int64_t low, std::int64_t high) {
  const auto count = static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
  if (low > high || count >= std::uint64_t(1) << 32) {
    text t;
    detail::raise(error_kind::value, t << "uniform_integers: from " << low << " to " << high << " are none, or too many");
  }
  program& p = generator_.owner();
  const value zeros = tile_to(p.number(0.0, dtype::float64), type_.dims);
  const value drawn = floor(random_uniform(generator_, zeros, {.a = 0, .b = static_cast<double>(count) + 1, .site = site_}));
  const value offset = apply<op::cast>(cast_attributes{dtype::int64}, drawn) + p.number(low, dtype::int64);
  return apply<op::cast>(cast_attributes{type_.element}, offset);
}
value fill_scope::normal(double mean, double deviation) { return random_normal(generator_, like(), {.a = mean, .b = deviation, .site = site_}); }

}  // namespace graph

namespace op {

namespace {
// Elements by the extent of an axis.
double fan(const graph::fill_scope& s, std::string_view name, int axis) {
  const shape& d = s.shape();
  if (d.rank <= axis || d.size() == 0) {
    text t;
    detail::raise(error_kind::shape, t << name << ": a fan of " << d << " is not defined");
  }
  return static_cast<double>(d.size() / d.at(axis));
}
}  // namespace

value xavier::operator()(graph::fill_scope& s) const {
  const double r = std::sqrt(3 / fan(s, "xavier", 0));
  return s.uniform(-r, r);
}
value msra::operator()(graph::fill_scope& s) const { return s.normal(0, std::sqrt(2 / fan(s, "msra", 1))); }

}  // namespace op

}  // namespace lamina
