module lamina:train.optim.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :op.reduce;
import :op.shape;
import :parameter;
import :program;
import :shape;
import :tensor;
import :train.hyper;
import :train.optim;
import lamina.std;

namespace lamina {

update_scope::update_scope(program& p, parameter_store& store, std::string parameter, const value& rate,
                           const value& step)
    : make_([&p, &store, parameter = std::move(parameter)](std::string_view name, const tensor_type& like) {
        const std::string full = "optimizer." + parameter + "." + std::string(name);
        if (!store.find(full)) store.make(full, like, initializer::constant(0), 0, state_role::optimizer, false);
        return p.state(full, like);
      }),
      write_([&p](const value& slot, const value& next) { p.assign(slot, next); }),
      rate_(rate),
      step_(step) {}

value update_scope::in_type_of(const value& v, const value& like) {
  return v.type().element == like.type().element ? v : value(apply<op::cast>(cast_attributes{like.type().element}, v));
}

namespace {
double largest_of(dtype element) {
  return element == dtype::float64 ? std::numeric_limits<double>::max() : std::numeric_limits<float>::max();
}
}  // namespace

text detail::number_fault(std::string_view name, double number, dtype element) {
  text t;
  if (number >= 0 && number <= largest_of(element)) return t;
  t << name << " is " << number << "; expected a finite number >= 0";
  if (std::isfinite(number) && number > 0) t << " in " << name_of(element);
  return t;
}
void detail::check_rate(std::string_view where, std::string_view name, double rate, dtype element) {
  const text fault = number_fault(name, rate, element);
  if (fault.empty()) return;
  text t;
  raise(error_kind::value, t << where << ": " << fault);
}

namespace optim {

using detail::positive;
using detail::up_to_1;

void sgd::check() const { detail::check_numbers("sgd", {{"momentum", momentum}, {"weight_decay", weight_decay}}); }
void adam::check() const {
  detail::check_numbers(
      "adam", {{"beta1", beta1, 1}, {"beta2", beta2, 1}, {"epsilon", epsilon}, {"weight_decay", weight_decay}});
}
void adamw::check() const {
  detail::check_numbers(
      "adamw", {{"beta1", beta1, 1}, {"beta2", beta2, 1}, {"epsilon", epsilon}, {"weight_decay", weight_decay}});
}
void adagrad::check() const {
  detail::check_numbers("adagrad", {{"epsilon", epsilon}, {"decay", decay}, {"weight_decay", weight_decay}});
}
void rmsprop::check() const {
  detail::check_numbers(
      "rmsprop",
      {up_to_1("decay", decay), {"momentum", momentum}, {"epsilon", epsilon}, {"weight_decay", weight_decay}});
}
void ftrl::check() const { detail::check_numbers("ftrl", {{"beta", beta}, {"l1", l1}, {"l2", l2}}); }
void lars::check() const {
  detail::check_numbers(
      "lars", {{"momentum", momentum}, {"weight_decay", weight_decay}, {"trust", trust}, {"epsilon", epsilon}});
}
void momentum_sgd::check() const { detail::check_numbers("momentum_sgd", {{"momentum", momentum}}); }
void regularizer::check() const {
  detail::check_numbers("regularizer",
                        {{"l1", l1}, {"l2", l2}, {"max_norm", max_norm}, {"constant_norm", constant_norm}});
}

value sgd::step(update_scope& s, const value& w, const value& g) const {
  check();
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
  check();
  value d = weight_decay != 0 ? g + w * weight_decay : g;
  return w - s.rate(w) * adam_direction(s, w, d, beta1, beta2, epsilon);
}

value adamw::step(update_scope& s, const value& w, const value& g) const {
  check();
  value rate = s.rate(w);
  return w * (1 - rate * weight_decay) - rate * adam_direction(s, w, g, beta1, beta2, epsilon);
}

namespace {
value decayed(const value& w, const value& g, double weight_decay) {
  return weight_decay != 0 ? g + w * weight_decay : g;
}
value length(const value& v) { return sqrt(reduce_sum(square(v))); }
reduce_attributes all_but_first(const value& v) {
  reduce_attributes a;
  a.keepdim = true;
  for (int i = 1; i < v.shape().rank; ++i) a.axes.values[a.axes.count++] = i;
  return a;
}
}  // namespace

value adagrad::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value d = decayed(w, g, weight_decay);
  const bool by_row = row_wise && w.shape().rank > 1;
  tensor_type kept = w.type();
  if (by_row)
    for (int i = 1; i < kept.dims.rank; ++i) kept.dims[i] = 1;
  const value h = s.slot("sum", kept),
              next = h * decay + (by_row ? value(reduce_mean(square(d), all_but_first(d))) : value(square(d)));
  s.assign(h, next);
  return w - s.rate(w) * d / (sqrt(next) + epsilon);
}

value rmsprop::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value d = decayed(w, g, weight_decay), v = s.slot("square", w.type()),
              next = v * decay + square(d) * (1 - decay);
  s.assign(v, next);
  value move = d / sqrt(next + epsilon);
  if (momentum != 0) {
    const value m = s.slot("momentum", w.type());
    move = m * momentum + move;
    s.assign(m, move);
  }
  return w - s.rate(w) * move;
}

value ftrl::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value n = s.slot("square", w.type()), z = s.slot("linear", w.type()), alpha = s.rate(w);
  // At a rate of 0, which divides, nothing moves: parameter and slots stay as they are.
  const value moves = alpha > 0, by = where(moves, alpha, 1);
  const value next_n = where(moves, n + square(g), n);
  const value next_z = where(moves, z + g - (sqrt(next_n) - sqrt(n)) / by * w, z);
  s.assign(n, next_n);
  s.assign(z, next_z);
  const value moved = (sign(next_z) * l1 - next_z) / ((sqrt(next_n) + beta) / by + l2);
  return where(moves, where(abs(next_z) > l1, moved, w * 0), w);
}

value lars::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value size = length(w), slope = length(g), m = s.slot("momentum", w.type());
  const value local = where(size * slope > 0, trust * size / (slope + weight_decay * size + epsilon),
                            w.owner().number(1.0, w.type().element));
  const value next = m * momentum + s.rate(w) * local * decayed(w, g, weight_decay);
  s.assign(m, next);
  return w - next;
}

value momentum_sgd::step(update_scope& s, const value& w, const value& g) const {
  check();
  const value m = s.slot("momentum", w.type()), next = m * momentum + s.rate(w) * g;
  s.assign(m, next);
  return w - (nesterov ? next * (1 + momentum) - m * momentum : next);
}

value regularizer::gradient(const value& w, const value& g) const {
  check();
  const value d = l1 != 0 ? g + sign(w) * l1 : g;
  return decayed(w, d, l2);
}
value regularizer::projected(const value& w) const {
  check();
  if (max_norm <= 0 && constant_norm <= 0) return w;
  if (max_norm > 0 && constant_norm > 0)
    detail::raise(error_kind::value, "regularizer: `max_norm` and `constant_norm` are both given");
  const value size = w.shape().rank < 2 ? length(w) : value(sqrt(reduce_sum(square(w), all_but_first(w))));
  if (constant_norm > 0) return w * (constant_norm / max(size, 1e-12));  // a row of zeros has no direction, and stays
  return w * (max_norm / max(size, max_norm));
}

std::vector<value> clip_by_global_norm(view<const value> gradients, double limit, const origin&) {
  detail::check_numbers("clip_by_global_norm", {positive("limit", limit)});
  if (gradients.empty()) return {};
  value sum = reduce_sum(square(gradients[0]));
  for (std::size_t i = 1; i < gradients.size(); ++i) sum = sum + reduce_sum(square(gradients[i]));
  const value scale = limit / max(sqrt(sum), limit);
  std::vector<value> clipped;
  for (const auto& g : gradients) clipped.push_back(g * scale);
  return clipped;
}

namespace {
double between(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(3.141592653589793 * part)) / 2;
}
}  // namespace

double one_cycle::operator()(double base, std::int64_t step, std::int64_t steps) const {
  detail::check_numbers("one_cycle", {up_to_1("warm_up", warm_up), positive("start", start), positive("end", end)});
  double first = base / start, last = first / end;
  double peak = warm_up * static_cast<double>(steps) - 1, final = static_cast<double>(steps - 1),
         at = static_cast<double>(step);
  if (at <= peak && peak > 0) return between(first, base, at / peak);
  return final > peak ? between(base, last, (at - peak) / (final - peak)) : last;
}

double cosine::operator()(double base, std::int64_t step, std::int64_t steps) const {
  detail::check_numbers("cosine", {{"warm_up", static_cast<double>(warm_up)}, {"floor", floor}});
  if (step < warm_up) return base * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  double span = static_cast<double>(std::max<std::int64_t>(steps - warm_up, 1));
  return between(base, base * floor, static_cast<double>(step - warm_up) / span);
}

// ---- rates by the number of a step: one formula for numbers and for values of a program ------------------------------

namespace {
using std::floor;
using std::max;
using std::min;
using std::pow;
double where(bool condition, double a, double b) { return condition ? a : b; }
double like(double, double v) { return v; }
value like(const value& n, double v) { return n.owner().number(v, n.type().element); }

template <class N> N factor_of(const constant&, const N& n) { return like(n, 1); }
template <class N> N factor_of(const step& p, const N& n) {
  detail::check_numbers("step", {positive("size", p.size), {"gamma", p.gamma}});
  return pow(like(n, p.gamma), floor(n / p.size));
}
template <class N> N factor_of(const exponential& p, const N& n) {
  detail::check_numbers("exponential", {{"gamma", p.gamma}});
  return pow(like(n, p.gamma), n);
}
template <class N> N factor_of(const inverse& p, const N& n) {
  detail::check_numbers("inverse", {{"gamma", p.gamma}, {"power", p.power}});
  return pow(n * p.gamma + 1.0, like(n, -p.power));
}
template <class N> N factor_of(const polynomial& p, const N& n) {
  detail::check_numbers("polynomial", {positive("steps", p.steps), {"power", p.power}});
  return pow(max(1.0 - n / p.steps, like(n, 0)), like(n, p.power));
}
template <class N> N line_to_1(double start, double steps, const N& n) {
  return min(n * ((1 - start) / steps) + start, like(n, 1));
}
template <class N> N factor_of(const linear_warm_up& p, const N& n) {
  detail::check_numbers("linear_warm_up", {{"start", p.start}, positive("steps", p.steps)});
  return line_to_1(p.start, p.steps, n);
}
template <class N> N factor_of(const constant_warm_up& p, const N& n) {
  detail::check_numbers("constant_warm_up", {{"multiplier", p.multiplier}, {"steps", p.steps}});
  return where(n < p.steps, like(n, p.multiplier), like(n, 1));
}
template <class N> N factor_of(const alternate& p, const N& n) {
  const double period = p.on + p.off;
  detail::check_numbers("alternate", {{"on", p.on}, {"off", p.off}, positive("on + off", period)});
  const N at = n - floor(n / period) * period;
  return where(at < (p.on_first ? p.on : p.off), like(n, p.on_first ? 1 : 0), like(n, p.on_first ? 0 : 1));
}
template <class N> N factor_of(const hill& p, const N& n) {
  detail::check_numbers(
      "hill", {{"warm_up", p.warm_up}, {"start", p.start}, {"gamma", p.gamma}, {"power", p.power}, {"floor", p.floor}});
  // before the top the second formula is of no step, but has to be a number
  const N falling = factor_of(inverse{p.gamma, p.power}, N(max(n - p.warm_up, like(n, 0))));
  return where(n < p.warm_up, line_to_1(p.start, p.warm_up > 0 ? p.warm_up : 1, n), N(max(falling, like(n, p.floor))));
}
}  // namespace

value constant::factor(const value& n) const { return factor_of(*this, n); }
double step::factor(double n) const { return factor_of(*this, n); }
value step::factor(const value& n) const { return factor_of(*this, n); }
double exponential::factor(double n) const { return factor_of(*this, n); }
value exponential::factor(const value& n) const { return factor_of(*this, n); }
double inverse::factor(double n) const { return factor_of(*this, n); }
value inverse::factor(const value& n) const { return factor_of(*this, n); }
double polynomial::factor(double n) const { return factor_of(*this, n); }
value polynomial::factor(const value& n) const { return factor_of(*this, n); }
double linear_warm_up::factor(double n) const { return factor_of(*this, n); }
value linear_warm_up::factor(const value& n) const { return factor_of(*this, n); }
double constant_warm_up::factor(double n) const { return factor_of(*this, n); }
value constant_warm_up::factor(const value& n) const { return factor_of(*this, n); }
double alternate::factor(double n) const { return factor_of(*this, n); }
value alternate::factor(const value& n) const { return factor_of(*this, n); }
double hill::factor(double n) const { return factor_of(*this, n); }
value hill::factor(const value& n) const { return factor_of(*this, n); }

}  // namespace optim

value learning_rate(const value& iteration, const rate_options& o, const origin&) {
  const std::string here = iteration.owner().place(), before = here.empty() ? here : here + ": ";
  if (std::isnan(o.base))
    detail::raise(error_kind::value, before + "learning_rate: `base` is to be given, a finite number");
  if (std::abs(o.base) > largest_of(o.element)) {
    text t;
    detail::raise(error_kind::value, t << before << "learning_rate: `base` is " << o.base
                                       << "; expected a finite number in " << name_of(o.element));
  }
  if (!o.policy)
    detail::raise(error_kind::value,
                  before + "learning_rate: `policy` is to be given, as optim::step{.size = 20, .gamma = 0.9}");
  const value rate = o.policy.factor(cast<double>(iteration)) * o.base;
  return apply<op::cast>(cast_attributes{o.element}, rate);
}

}  // namespace lamina
