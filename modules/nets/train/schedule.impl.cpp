module lamina:train.schedule.impl;
import :core;
import :dtype;
import :op;
import :op.elementwise;
import :program;
import :shape;
import :tensor;
import :train.hyper;
import :train.schedule;
import lamina.std;

namespace lamina {

namespace optim {

using detail::positive;
using detail::up_to_1;

namespace {
double between(double from, double to, double part) {
  return to + (from - to) * (1 + std::cos(3.141592653589793 * part)) / 2;
}
}  // namespace

double one_cycle::operator()(double base, std::int64_t step, std::int64_t steps) const {
  detail::check_numbers("one_cycle", {up_to_1("warm_up", warm_up), positive("start", start), positive("end", end)});
  const auto eased = [&](double from, double to, double part) {
    return linear ? from + (to - from) * part : between(from, to, part);
  };
  const double first = base / start, last = first / end, all = static_cast<double>(steps),
               at = static_cast<double>(step), final = all - 1;
  const double peak = warm_up * all - 1, foot = three_phase ? 2 * warm_up * all - 2 : peak;
  if (at <= peak && peak > 0) return eased(first, base, at / peak);
  if (three_phase && at <= foot && foot > peak) return eased(base, first, (at - peak) / (foot - peak));
  return final > foot ? eased(three_phase ? first : base, last, (at - foot) / (final - foot)) : last;
}

double cosine::operator()(double base, std::int64_t step, std::int64_t steps) const {
  detail::check_numbers("cosine", {{"warm_up", static_cast<double>(warm_up)}, {"floor", floor}});
  if (step < warm_up) return base * static_cast<double>(step + 1) / static_cast<double>(warm_up);
  double span = static_cast<double>(std::max<std::int64_t>(steps - warm_up, 1));
  return between(base, base * floor, static_cast<double>(step - warm_up) / span);
}

// ---- rates by step number: one formula for numbers and for program values -------------------------------------------

namespace {
using std::cos;
using std::floor;
using std::log;
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
  // before the top, the second formula is unused but must be a number
  const N falling = factor_of(inverse{p.gamma, p.power}, N(max(n - p.warm_up, like(n, 0))));
  return where(n < p.warm_up, line_to_1(p.start, p.warm_up > 0 ? p.warm_up : 1, n), N(max(falling, like(n, p.floor))));
}
template <class N> N factor_of(const multi_step& p, const N& n) {
  detail::check_numbers("multi_step", {{"gamma", p.gamma}});
  N passed = like(n, 0);
  for (std::int64_t m : p.milestones) passed = passed + where(n < static_cast<double>(m), like(n, 0), like(n, 1));
  return pow(like(n, p.gamma), passed);
}
template <class N> N factor_of(const cosine_restarts& p, const N& n) {
  detail::check_numbers("cosine_restarts",
                        {positive("period", p.period), {"growth - 1", p.growth - 1}, {"floor", p.floor}});
  // position of n within its period
  N part = n / p.period;
  if (p.growth == 1) part = part - floor(part);
  else {
    const double ratio = p.growth - 1;
    // A small term is added, so that a period begins at the same step as in integer arithmetic.
    const N index = floor(log(n / p.period * ratio + 1.0) / std::log(p.growth) + 1e-9),
            length = pow(like(n, p.growth), index);
    part = (n / p.period - (length - 1.0) / ratio) / length;
  }
  return (cos(part * 3.141592653589793) + 1.0) * ((1 - p.floor) / 2) + p.floor;
}
template <class N> N factor_of(const cyclic& p, const N& n) {
  detail::check_numbers("cyclic", {{"floor", p.floor}, positive("up", p.up), {"down", p.down}, {"gamma", p.gamma}});
  const double period = p.up + (p.down > 0 ? p.down : p.up), top = p.up / period;
  const N index = floor(n / period), at = n / period - index;
  const N line = where(at < top, at / top, (1.0 - at) / (1 - top));
  const N height = p.mode == cycle_mode::triangular    ? like(n, 1)
                   : p.mode == cycle_mode::triangular2 ? N(pow(like(n, 0.5), index))
                                                       : N(pow(like(n, p.gamma), n));
  return line * height * (1 - p.floor) + p.floor;
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

double multi_step::factor(double n) const { return factor_of(*this, n); }
value multi_step::factor(const value& n) const { return factor_of(*this, n); }
double cosine_restarts::factor(double n) const { return factor_of(*this, n); }
value cosine_restarts::factor(const value& n) const { return factor_of(*this, n); }
double cyclic::factor(double n) const { return factor_of(*this, n); }
value cyclic::factor(const value& n) const { return factor_of(*this, n); }

// ---- composed schedules ---------------------------------------------------------------------------------------------

namespace {
[[noreturn]] void refuse(text& t) { detail::raise(error_kind::value, t); }
}  // namespace

void schedule::restore(view<const double> state) const {
  if (restore_) return restore_(state);
  if (state.empty()) return;
  text t;
  refuse(t << origin::prefix() << "schedule: got a state of " << static_cast<std::int64_t>(state.size())
           << " numbers; this schedule has no state");
}

double warm_up::operator()(double base, std::int64_t step, std::int64_t all) const {
  detail::check_numbers("warm_up", {{"steps", static_cast<double>(steps)}, {"start", start}});
  const std::int64_t left = std::max<std::int64_t>(all - steps, 1);
  if (step >= steps) return then(base, step - steps, left);
  return then(base, 0, left) * (start + (1 - start) * static_cast<double>(step) / static_cast<double>(steps));
}

double sequential::operator()(double base, std::int64_t step, std::int64_t steps) const {
  text t;
  t << origin::prefix() << "sequential: ";
  if (schedules.size() != milestones.size() + 1)
    refuse(t << "there are " << static_cast<std::int64_t>(schedules.size()) << " schedules and "
             << static_cast<std::int64_t>(milestones.size()) << " milestones; expected one milestone less");
  std::int64_t begin = 0;
  std::size_t i = 0;
  for (std::size_t k = 0; k < milestones.size(); ++k) {
    const std::int64_t before = k ? milestones[k - 1] : 0;
    if (milestones[k] <= before) refuse(t << "milestone " << milestones[k] << " is not above " << before);
    if (step < milestones[k]) continue;
    begin = milestones[k];
    i = k + 1;
  }
  const std::int64_t end = i < milestones.size() ? milestones[i] : std::max(steps, begin + 1);
  return schedules[i](base, step - begin, end - begin);
}

std::vector<double> sequential::state() const {
  std::vector<double> all;
  for (const auto& s : schedules) {
    const auto own = s.state();
    all.insert(all.end(), own.begin(), own.end());
  }
  return all;
}
void sequential::restore(view<const double> state) const {
  if (const auto all = this->state().size(); all != state.size()) {
    text t;
    refuse(t << origin::prefix() << "sequential: a state of " << static_cast<std::int64_t>(state.size())
             << " numbers; expected " << static_cast<std::int64_t>(all));
  }
  std::size_t at = 0;
  for (const auto& s : schedules) {
    const auto own = s.state().size();
    s.restore(state.subview(at, own));
    at += own;
  }
}

struct plateau::observed {
  plateau_options options;
  double factor = 1, best = 0;
  std::int64_t bad = 0, cooldown_left = 0;
  bool begun = false;

  bool better(double x) const {
    if (!begun) return true;
    const double gain = options.relative ? std::abs(best) * options.threshold : options.threshold;
    return options.maximize ? x > best + gain : x < best - gain;
  }
};
plateau::plateau(const plateau_options& o) : observed_(std::make_shared<observed>()) {
  detail::check_numbers("plateau", {{"factor", o.factor, 1},
                                    {"patience", static_cast<double>(o.patience)},
                                    {"threshold", o.threshold},
                                    {"cooldown", static_cast<double>(o.cooldown)},
                                    up_to_1("floor", o.floor)});
  observed_->options = o;
}
double plateau::factor() const { return observed_->factor; }
double plateau::observe(double value) const {
  auto& s = *observed_;
  text t;
  if (std::isnan(value)) refuse(t << origin::prefix() << "plateau: the observed value is nan");
  if (s.better(value)) {
    s.best = value;
    s.begun = true;
    s.bad = 0;
  } else ++s.bad;
  if (s.cooldown_left > 0) {
    --s.cooldown_left;
    s.bad = 0;
  }
  if (s.bad > s.options.patience) {
    s.factor = std::max(s.factor * s.options.factor, s.options.floor);
    s.cooldown_left = s.options.cooldown;
    s.bad = 0;
  }
  return s.factor;
}
std::vector<double> plateau::state() const {
  const auto& s = *observed_;
  return {s.factor, s.best, static_cast<double>(s.bad), static_cast<double>(s.cooldown_left), s.begun ? 1.0 : 0.0};
}
void plateau::restore(view<const double> state) const {
  text t;
  t << origin::prefix() << "plateau: a state of ";
  if (state.size() != 5) refuse(t << static_cast<std::int64_t>(state.size()) << " numbers; expected 5");
  const auto counts = [](double x) { return x >= 0 && x < 1e15 && x == std::floor(x); };
  if (!(state[0] >= 0 && state[0] <= 1) || std::isnan(state[1]) || !counts(state[2]) || !counts(state[3]) ||
      !(state[4] == 0 || state[4] == 1))
    refuse(t << "factor " << state[0] << ", best value " << state[1] << " and counts " << state[2] << ", " << state[3]
             << " and " << state[4] << " is invalid");
  auto& s = *observed_;
  s.factor = state[0];
  s.best = state[1];
  s.bad = static_cast<std::int64_t>(state[2]);
  s.cooldown_left = static_cast<std::int64_t>(state[3]);
  s.begun = state[4] == 1;
}

}  // namespace optim

value learning_rate(const value& iteration, const rate_options& o, const origin&) {
  const std::string here = iteration.owner().place(), before = here.empty() ? here : here + ": ";
  if (std::isnan(o.base))
    detail::raise(error_kind::value, before + "learning_rate: `base` is missing; expected a finite number");
  if (std::abs(o.base) > detail::largest_of(o.element)) {
    text t;
    detail::raise(error_kind::value, t << before << "learning_rate: `base` is " << o.base
                                       << "; expected a finite number in " << name_of(o.element));
  }
  if (!o.policy)
    detail::raise(error_kind::value, before +
                                         "learning_rate: `policy` is missing; expected one, as optim::step{.size = 20, "
                                         ".gamma = 0.9}");
  const value rate = o.policy.factor(cast<double>(iteration)) * o.base;
  return apply<op::cast>(cast_attributes{o.element}, rate);
}

}  // namespace lamina
