module lamina:train.optim.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.shape;
import :parameter;
import :program;
import :shape;
import :tensor;
import :train.optim;
import lamina.std;

namespace lamina {

value update_scope::slot(std::string_view name, const tensor_type& like) {
  std::string full = "optimiser." + parameter_ + "." + std::string(name);
  if (!store_.find(full)) store_.make(full, like, initialiser::constant(0), 0, state_role::optimiser, false);
  return program_.state(full, like);
}

value update_scope::in_type_of(const value& v, const value& like) {
  return v.type().element == like.type().element ? v : value(apply<op::cast>(cast_attributes{like.type().element}, v));
}

namespace optim {

namespace {
void check_finite(std::string_view optimiser, std::initializer_list<std::pair<std::string_view, double>> numbers) {
  for (auto [name, x] : numbers)
    if (!std::isfinite(x)) {
      text t;
      t << optimiser << ": " << name << " is to be finite, and this is " << x;
      detail::raise(error_kind::value, t);
    }
}
}  // namespace

value sgd::step(update_scope& s, const value& w, const value& g) const {
  check_finite("sgd", {{"momentum", momentum}, {"weight_decay", weight_decay}});
  value d = weight_decay != 0 ? g + w * weight_decay : g;
  if (momentum != 0) {
    value m = s.slot("momentum", w.type());
    value next = m * momentum + d;
    s.assign(m, next);
    d = nesterov ? d + next * momentum : next;
  }
  return w - s.rate(w) * d;
}

namespace {
// The step of Adam without its rate.
value adam_direction(update_scope& s, const value& w, const value& g, double beta1, double beta2, double epsilon) {
  value m = s.slot("first", w.type()), v = s.slot("second", w.type());
  value next_m = m * beta1 + g * (1 - beta1), next_v = v * beta2 + square(g) * (1 - beta2);
  s.assign(m, next_m);
  s.assign(v, next_v);
  value t = s.step(w);
  value correct_m = 1 - exp(t * std::log(beta1)), correct_v = 1 - exp(t * std::log(beta2));
  return (next_m / correct_m) / (sqrt(next_v / correct_v) + epsilon);
}
}  // namespace

value adam::step(update_scope& s, const value& w, const value& g) const {
  check_finite("adam", {{"beta1", beta1}, {"beta2", beta2}, {"epsilon", epsilon}, {"weight_decay", weight_decay}});
  value d = weight_decay != 0 ? g + w * weight_decay : g;
  return w - s.rate(w) * adam_direction(s, w, d, beta1, beta2, epsilon);
}

value adamw::step(update_scope& s, const value& w, const value& g) const {
  check_finite("adamw", {{"beta1", beta1}, {"beta2", beta2}, {"epsilon", epsilon}, {"weight_decay", weight_decay}});
  value rate = s.rate(w);
  return w * (1 - rate * weight_decay) - rate * adam_direction(s, w, g, beta1, beta2, epsilon);
}

namespace {
double between(double from, double to, double part) { return to + (from - to) * (1 + std::cos(3.141592653589793 * part)) / 2; }
}

double one_cycle::operator()(double base, std::int64_t step, std::int64_t steps) const {
  double first = base / start, last = first / end;
  double peak = warm_up * static_cast<double>(steps) - 1, final = static_cast<double>(steps - 1), at = static_cast<double>(step);
  if (at <= peak && peak > 0) return between(first, base, at / peak);
  return final > peak ? between(base, last, (at - peak) / (final - peak)) : last;
}

double cosine::operator()(double base, std::int64_t step, std::int64_t steps) const {
  if (step < warm_up) return base * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  double span = static_cast<double>(std::max<std::int64_t>(steps - warm_up, 1));
  return between(base, base * floor, static_cast<double>(step - warm_up) / span);
}

}  // namespace optim

}  // namespace lamina
